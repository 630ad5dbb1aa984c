/* Attention without stored scores, on cooperative matrices: y[j][h][p] = sum over k of softmax over k of (SCALE *
 * x[j][h] . w[k][h]) * v[k][h][p]. Stands for attention.comp, with the same arguments.
 *
 * One work-group per TILE_M queries and head walks over the keys of the sequence in steps of TILE_N, whose keys and
 * values it keeps twice in shared memory: one step is multiplied while the next one arrives. A subgroup owns BLOCKS
 * times MATRIX_M queries: their scores, weights and sums never leave its registers but to become operands
 * (matrix_elements.glsl). It takes a strip of keys after the other. Scores are relative to the largest of their row so
 * far, which they start from when they are summed, and what was summed before is rescaled, but only where it grew by so
 * much that a weight could leave the range of 16 bits: a sum relative to an older maximum is as exact. Only then is the
 * largest score of a row looked for. Steps begin at the sequence's first key: the result depends on its own sequence
 * alone. Dropout has its place at the weights, after their total. BEFORE, AFTER: steps of which no query sees a key are
 * passed over, and so are halves of a step of which no query of the sub-group does.
 *
 * A group has ENTRIES entries of the query tile table, as many as there are for TILE_M queries: where sequences are
 * that long, one of them begins a tile of its own. */
#include "attention_matrices.glsl"
#include "masked_matrices.glsl"

layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 64;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
layout(constant_id = CONST_LSE) const uint LSE = LSE_NONE;
layout(constant_id = CONST_ENTRIES) const uint ENTRIES = 1;
layout(constant_id = CONST_TILE_V) const uint TILE_V = 16; /* keys of a strip, by KHR_cooperative_matrix alone */

layout(constant_id = CONST_CPU) const uint CPU = 0;

#define OPERANDS BLOCKS
#define STRIP_KEYS TILE_V
#define PLACES_LATE (HEAD_DIM > 64)
#include "matrix_elements.glsl"

OUTPUT_OF(SLOT_LSE, float, lse);

/* Far below every score, and no difference overflows. */
#define LOWEST HIDDEN_SCORE

/* A weight is at most 2^8, far from the end of what 16 bits hold. */
#define SLACK 8.0

#define TILE (TILE_N * ROW)
/* Keys and values of two steps; before them the queries, after them a matrix of logarithms a row, then the result. */
#define OWN (TILE_M * ROW)
shared uvec4 tiles[4 * TILE > OWN ? 4 * TILE : OWN];

float mask(const in uint row, const in uint column, const in float s, const in uint keys)
{
    return column < keys ? s : LOWEST;
}

/* With the bias by distance; `apart`: of the matrix' first key and first query. */
float biased(const in uint row, const in uint column, const in float s, const in int apart)
{
    return s + bias_at(apart + int(column) - int(row));
}

/* Of keys that the query sees. */
float seen(const in uint row, const in uint column, const in float s, const in int apart)
{
    return mask_sees(apart + int(column) - int(row), BEFORE, AFTER) ? s : LOWEST;
}

float larger(const in float a, const in float b) { return max(a, b); }
float added(const in float a, const in float b) { return a + b; }

/* The weight of a score that is relative to its row's largest. */
float weight(const in uint row, const in uint column, const in float s, const in float scale)
{
    return exp2(s * scale);
}

float larger_of(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }

/* Strips of half a step. */
#define STRIPS (TILE_N / 2 / STRIP)
#define STRIP_MATRICES (STRIP / MATRIX_N)
#define SCORE(r, n) score[(r)*STRIP_MATRICES + (n)]

/* ---- dropout ----
 * Which weights of a strip are kept. A draw is for eight keys of a row. */
#ifdef COOPMAT2
/* Of a step, from shared memory: subgroups draw for their own rows, which nobody else reads, a step ahead, so that it
 * goes on beside the products. */
#define KEEP_WORDS (TILE_N / 32)
#define KEEP_COUNT (SUBGROUP_ROWS * KEEP_WORDS)
#define DRAWS ((KEEP_COUNT + SUBGROUP - 1) / SUBGROUP)
shared uint keep_tile[DROPOUT > 0 ? KEEP_WORDS * TILE_M : 1];

#define DRAW(drawn, key)                                                                                               \
    UNROLL for (uint d = 0; d < DRAWS; d++)                                                                            \
    {                                                                                                                  \
        const uint i = gl_SubgroupInvocationID + d * SUBGROUP;                                                         \
        drawn[d] = keep_word(random, (first + row0 + own + i % SUBGROUP_ROWS) * HEADS + head,                          \
                             (key) + i / SUBGROUP_ROWS * 32, 32);                                                      \
    }
#define KEEP(drawn)                                                                                                    \
    UNROLL for (uint d = 0; d < DRAWS; d++)                                                                            \
    {                                                                                                                  \
        const uint i = gl_SubgroupInvocationID + d * SUBGROUP;                                                         \
        if (i < KEEP_COUNT) keep_tile[i / SUBGROUP_ROWS * TILE_M + own + i % SUBGROUP_ROWS] = drawn[d];                \
    }

float drop(const in uint row, const in uint column, const in float e, const in uint words, const in uint key)
{
    return is_kept(keep_tile[words + row], key + column) ? e : 0.0;
}
#define DROP_WEIGHTS(m, r, j)                                                                                          \
    if (DROPOUT > 0) EACH2(m, drop, (j)*MATRIX_N / 32 * TILE_M + own + (r)*MATRIX_M, (j)*MATRIX_N % 32)
#define DRAW_FIRST                                                                                                     \
    uint drawn[DRAWS];                                                                                                 \
    if (DROPOUT > 0) {                                                                                                 \
        DRAW(drawn, first_key);                                                                                        \
        KEEP(drawn);                                                                                                   \
    }
#define DRAW_NEXT                                                                                                      \
    if (DROPOUT > 0) DRAW(drawn, key0 + TILE_N)
#define KEEP_NEXT                                                                                                      \
    if (DROPOUT > 0) {                                                                                                 \
        subgroupBarrier();                                                                                             \
        KEEP(drawn);                                                                                                   \
    }
#define DRAW_STRIP(strip)
#define DROP_STRIP(strip)
#else
/* Of a strip: a work-item draws for eight weights beside each other in the memory in which they become operands, and
 * takes away there what is not kept. So nobody asks where an element lies. */
#define STRIP_VECTORS (BLOCKS * MATRIX_M * STRIP / VECTOR)
#define DRAWS ((STRIP_VECTORS + SUBGROUP - 1) / SUBGROUP)
#define DROP_WEIGHTS(m, r, j)
#define DRAW_FIRST uvec4 kept[DRAWS]
#define DRAW_NEXT
#define KEEP_NEXT
#define DRAW_STRIP(strip)                                                                                              \
    if (DROPOUT > 0) {                                                                                                 \
        UNROLL for (uint d = 0; d < DRAWS; d++)                                                                        \
        {                                                                                                              \
            const uint i = gl_SubgroupInvocationID + d * SUBGROUP, octet = i / MATRIX_M;                               \
            const uint row = row0 + own + octet / (STRIP / VECTOR) * MATRIX_M + i % MATRIX_M;                          \
            const uvec4 words = dropout_words_keyed(random, (first + row) * HEADS + head,                              \
                                                    key0 + (strip)*STRIP + octet % (STRIP / VECTOR) * VECTOR);         \
            kept[d] = uvec4(keep_of_word(words.x), keep_of_word(words.y), keep_of_word(words.z),                       \
                            keep_of_word(words.w));                                                                    \
        }                                                                                                              \
    }
#define DROP_STRIP(strip)                                                                                              \
    if (DROPOUT > 0) {                                                                                                 \
        UNROLL for (uint d = 0; d < DRAWS; d++)                                                                        \
        {                                                                                                              \
            const uint i = gl_SubgroupInvocationID + d * SUBGROUP;                                                     \
            const uint at = STAGING_AT(0, (strip) % 2) + i % MATRIX_M * STAGING_ROW + i / MATRIX_M;                    \
            if (i < STRIP_VECTORS) staging[at] &= (kept[d] >> 15) * 0xffffu;                                           \
        }                                                                                                              \
        OPERANDS_PUT;                                                                                                  \
    }
#endif

/* The scores of the next strip are computed while the weights of this one are on their way to become operands, within a
 * step. */
#ifdef COOPMAT2
#define AHEAD true
#else
#define AHEAD (DROPOUT == 0 || BLOCKS == 1 || HEAD_DIM < 64) /* where it costs no registers that are not there */
#endif

/* Whether a sub-group passes over the halves of a step of which it sees nothing. Its scores are then not ahead from one half
 * to the next. Lavapipe has a sub-group's barrier for the work-group's, which all meet. */
#define HALVES_APART (MASKED && CPU == 0)
#define HALF_SEEN(key)                                                                                                 \
    (HALVES_APART                                                                                                      \
         ? subgroupAny(int(key) + int(TILE_N / 2) > mask_first_key(int(row0 + own), BEFORE) && (key) < own_end)        \
         : true)

/* Weights are added up as products with a matrix of ones. With dropout operands are what is left of them. */
#define BY_PRODUCTS (DROPOUT == 0)

/* The scores of a strip of keys, relative to the largest of their rows so far; keys beyond the sequence are no keys. */
#define SCORES(strip)                                                                                                  \
    {                                                                                                                  \
        UNROLL for (uint n = 0; n < STRIP_MATRICES; n++)                                                               \
        {                                                                                                              \
            const uint j = (strip)*STRIP_MATRICES + n;                                                                 \
            UNROLL for (uint r = 0; r < BLOCKS; r++) SCORE(r, n) = base[r];                                            \
            UNROLL for (uint k = 0; k < DEEP; k++)                                                                     \
            {                                                                                                          \
                MATRIX_B key;                                                                                          \
                coopMatLoad(key, tiles, key_tile + j * MATRIX_N * ROW + k * MATRIX_K / VECTOR, ROW, BY_COLUMNS);       \
                UNROLL for (uint r = 0; r < BLOCKS; r++)                                                               \
                    SCORE(r, n) = coopMatMulAdd(query[r * DEEP + k], key, SCORE(r, n));                                \
            }                                                                                                          \
            UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                   \
            {                                                                                                          \
                const uint key_ = key0 + j * MATRIX_N, query_ = row0 + own + r * MATRIX_M;                             \
                if (BIASED) EACH(SCORE(r, n), biased, int(key_) - int(query_));                                        \
                if (HIDES(query_, MATRIX_M, key_, MATRIX_N)) EACH(SCORE(r, n), seen, int(key_) - int(query_));         \
                if (keys < (j + 1) * MATRIX_N)                                                                         \
                    EACH(SCORE(r, n), mask, keys > j * MATRIX_N ? keys - j * MATRIX_N : 0);                            \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Where queries see their first keys in different strips, until that of the sub-group's last query's (`opened`) there
 * may be rows that have seen none. */
#define OPENS_LATE (GIVEN_BEFORE > 0)
#define OPENS(strip)                                                                                                   \
    (OPENS_LATE ? key0 + (strip)*STRIP <= opened : (strip) == 0 && key0 == 0)
/* As good as 0 and another number. */
#define NEARLY_ZERO 1.0e-30

/* Has a score grown by too much? Then they become relative to the largest of their row, and so does what was summed
 * before. `opens`: there is nothing yet that they are relative to, or where rows see their first keys in different
 * strips (OPENS_LATE) maybe not; their base is 0 then, and stays so until there is. Of all blocks at once: where a block
 * had a branch of its own, NVIDIA's compiler spilled all matrices that live across it. */
#define LIMIT_GROWTH(opens)                                                                                            \
    {                                                                                                                  \
        float top = LOWEST;                                                                                            \
        UNROLL for (uint i = 0; i < BLOCKS * STRIP_MATRICES; i++)                                                      \
        {                                                                                                              \
            const MATRIX_C now = score[i];                                                                             \
            UNROLL for (uint e = 0; e < now.length(); e++) top = max(top, now[e]);                                     \
        }                                                                                                              \
        if (subgroupAny(top > SLACK / scale || (opens))) {                                                             \
            MATRIX_C most[BLOCKS];                                                                                     \
            UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                   \
            {                                                                                                          \
                most[r] = SCORE(r, 0);                                                                                 \
                UNROLL for (uint n = 1; n < STRIP_MATRICES; n++) EACH_OF(most[r], larger_of, SCORE(r, n));             \
            }                                                                                                          \
            REDUCE_ROWS(most, larger);                                                                                 \
            UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                   \
            {                                                                                                          \
                MATRIX_C up = most[r], less, from = base[r];                                                           \
                UNROLL for (uint e = 0; e < up.length(); e++)                                                          \
                {                                                                                                      \
                    less[e] = exp2(-max(up[e], 0.0) * scale);                                                          \
                    if (OPENS_LATE) {                                                                                  \
                        const bool none = up[e] <= 0.5 * LOWEST;                                                       \
                        up[e] = from[e] == 0.0 && !none ? up[e] : max(up[e], 0.0);                                     \
                        from[e] -= up[e];                                                                              \
                        if (from[e] == 0.0 && !none) from[e] = NEARLY_ZERO;                                            \
                    } else {                                                                                           \
                        up[e] = (opens) ? up[e] : max(up[e], 0.0);                                                     \
                        from[e] -= up[e];                                                                              \
                    }                                                                                                  \
                }                                                                                                      \
                base[r] = from;                                                                                        \
                total[r] = total[r] * less;                                                                            \
                UNROLL for (uint n = 0; n < STRIP_MATRICES; n++) SCORE(r, n) = SCORE(r, n) - up;                       \
                UNROLL for (uint c = 0; c < WIDE; c++) sum[r * WIDE + c] = sum[r * WIDE + c] * less;                   \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The weights of a strip's scores, on their way to become operands. */
#define WEIGH(strip)                                                                                                   \
    {                                                                                                                  \
        UNROLL for (uint n = 0; n < STRIP_MATRICES; n++)                                                               \
        {                                                                                                              \
            UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                   \
            {                                                                                                          \
                EACH(SCORE(r, n), weight, scale);                                                                      \
                if (!BY_PRODUCTS) total[r] += SCORE(r, n);                                                             \
                DROP_WEIGHTS(SCORE(r, n), r, (strip)*STRIP_MATRICES + n);                                              \
                PUT_OPERAND(weights, r, r, n, (strip) % 2, SCORE(r, n));                                               \
            }                                                                                                          \
        }                                                                                                              \
    }

/* TILE_M queries of a sequence and a head. */
void attend(const uint sequence, const uint row0, const uint head)
{
    const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    const uint x_at = X_OFFSET + (first + row0) * X_STRIDE + HEAD_AT(head, X_STRIDE);
    const uint w_at = W_OFFSET + first * W_STRIDE + HEAD_AT(KEY_HEAD(head), W_STRIDE);
    const uint v_at = V_OFFSET + first * V_STRIDE + HEAD_AT(KEY_HEAD(head), V_STRIDE);
    const uint y_at = Y_OFFSET + (first + row0) * Y_STRIDE + HEAD_AT(head, Y_STRIDE);
    const uint rows = length - row0;
    const float scale = uintBitsToFloat(SCALE) * LOG2E;
    const uint own = gl_SubgroupID * SUBGROUP_ROWS; /* this subgroup's first row of the tile */
    const uvec4 random = dropout_key();

    load_bias(head, 1.0 / uintBitsToFloat(SCALE));
    const uint last_row = row0 + min(rows, TILE_M) - 1;
    const uint first_key = FIRST_KEY(row0, TILE_N), end_key = END_KEY(last_row, length);
    /* Lavapipe has a sub-group's barrier for the work-group's: there all sub-groups open alike. */
    const uint opener = CPU != 0 ? last_row : min(row0 + own + SUBGROUP_ROWS, length) - 1;
    const uint opened = uint(mask_first_key(int(opener), BEFORE));
    const uint own_end = END_KEY(min(row0 + own + SUBGROUP_ROWS, length) - 1, length);
    const uint last = length - 1;
    MATRIX_A query[BLOCKS * DEEP];
    {
        uvec4 held[ROUNDS(TILE_M)];
        FETCH_ROWS(held, x, x_at, X_STRIDE, 0, rows - 1, TILE_M);
        PLACE_ROWS(0, held, TILE_M);
    }
    barrier();
    UNROLL
    for (uint i = 0; i < BLOCKS * DEEP; i++)
        coopMatLoad(query[i], tiles, (own + i / DEEP * MATRIX_M) * ROW + i % DEEP * MATRIX_K / VECTOR, ROW, BY_ROWS);
    barrier(); /* the queries' memory is free */

    uvec4 held[ROUNDS(TILE_N)];
    FETCH_ROWS(held, w, w_at, W_STRIDE, first_key, last, TILE_N);
    PLACE_ROWS(0, held, TILE_N);
    FETCH_ROWS(held, v, v_at, V_STRIDE, first_key, last, TILE_N);
    PLACE_ROWS(TILE, held, TILE_N);

    DRAW_FIRST;

    MATRIX_C sum[BLOCKS * WIDE], total[BLOCKS], base[BLOCKS];
    UNROLL
    for (uint i = 0; i < BLOCKS * WIDE; i++) sum[i] = MATRIX_C(0.0);
    UNROLL
    for (uint r = 0; r < BLOCKS; r++) {
        total[r] = MATRIX_C(0.0);
        base[r] = MATRIX_C(0.0);
    }

    uint stage = 0;
    for (uint key0 = first_key; key0 < end_key; key0 += TILE_N) {
        const uint keys = length - key0;
        const uint key_tile = stage, value_tile = stage + TILE;
        stage = 2 * TILE - stage;
        barrier(); /* this step is there, and nobody reads the one before */

        MATRIX_C score[BLOCKS * STRIP_MATRICES];
        UNROLL
        for (uint half_step = 0; half_step < 2; half_step++) {
            if (half_step == 0) {
                FETCH_ROWS(held, w, w_at, W_STRIDE, key0 + TILE_N, last, TILE_N);
            } else {
                FETCH_ROWS(held, v, v_at, V_STRIDE, key0 + TILE_N, last, TILE_N);
                DRAW_NEXT;
            }
            if (HALF_SEEN(key0 + half_step * (TILE_N / 2))) {
                MATRIX_A weights[BLOCKS];
                UNROLL
                for (uint strip = half_step * STRIPS; strip < (half_step + 1) * STRIPS; strip++) {
                    DRAW_STRIP(strip);
                    if (!AHEAD || strip == 0 || (HALVES_APART && strip == half_step * STRIPS)) SCORES(strip)
                    LIMIT_GROWTH(OPENS(strip))
                    WEIGH(strip)
                    if (AHEAD && strip + 1 < (HALVES_APART ? half_step + 1 : 2) * STRIPS) SCORES(strip + 1)
                    OPERANDS_PUT;
                    DROP_STRIP(strip);
                    UNROLL
                    for (uint k = 0; k < STRIP / MATRIX_K; k++) {
                        UNROLL
                        for (uint r = 0; r < BLOCKS; r++) {
                            TAKE_OPERAND(weights[r], r, k, strip % 2);
                            if (BY_PRODUCTS) total[r] = coopMatMulAdd(weights[r], MATRIX_B(1.0), total[r]);
                        }
                        UNROLL
                        for (uint c = 0; c < WIDE; c++) {
                            MATRIX_B value;
                            coopMatLoad(value, tiles,
                                        value_tile + (strip * STRIP + k * MATRIX_K) * ROW + c * MATRIX_N / VECTOR, ROW,
                                        BY_ROWS);
                            UNROLL
                            for (uint r = 0; r < BLOCKS; r++)
                                sum[r * WIDE + c] = coopMatMulAdd(weights[r], value, sum[r * WIDE + c]);
                        }
                    }
                }
            }
            if (half_step == 0) PLACE_ROWS(stage, held, TILE_N);
        }
        PLACE_ROWS(stage + TILE, held, TILE_N);
        KEEP_NEXT;
    }

    /* ---- the rows' totals, and the mean that they make of the sums ---- */
    barrier(); /* the tiles' memory is free */
    if (!BY_PRODUCTS) REDUCE_ROWS(total, added);
    if (LSE == LSE_WRITE) {
        UNROLL
        for (uint r = 0; r < BLOCKS; r++) {
            const MATRIX_C all = total[r], largest = base[r];
            MATRIX_C logarithm;
            UNROLL
            for (uint i = 0; i < logarithm.length(); i++) logarithm[i] = log2(all[i]) * LN2 - largest[i] * uintBitsToFloat(SCALE);
            coopMatStore(logarithm, tiles, (own + r * MATRIX_M) * MATRIX_N / 4, MATRIX_N / 4, BY_ROWS);
        }
        barrier();
        for (uint row = local_number(); row < min(rows, TILE_M); row += LOCAL_SIZE)
            lse[(first + row0 + row) * HEADS + head] = uintBitsToFloat(tiles[row * MATRIX_N / 4].x);
        barrier();
    }
    UNROLL
    for (uint r = 0; r < BLOCKS; r++) {
        const MATRIX_C factor = MATRIX_C(DROPOUT > 0 ? DROPOUT_SCALE : 1.0) / total[r];
        UNROLL
        for (uint c = 0; c < WIDE; c++)
            coopMatStore(MATRIX_Y(sum[r * WIDE + c] * factor), tiles,
                         (own + r * MATRIX_M) * ROW + c * MATRIX_N / VECTOR, ROW, BY_ROWS);
    }
    barrier();
    STORE_ROWS(y, y_at, Y_STRIDE, rows, 0, TILE_M);
}

void main()
{
    const uint entries = batch[HEADER_QUERY_TILES], groups = (entries + ENTRIES - 1) / ENTRIES;
    /* All heads of a tile and then those of the tile before, so that neighbours read whole rows, and first what was written
     * last, which is in the cache. */
    if (group_number() / HEADS >= groups) return;
    const uint head = group_number() % HEADS, entry = (groups - 1 - group_number() / HEADS) * ENTRIES;
    FIND_PLACES;
    ROLLED
    for (uint e = entry; e < min(entry + ENTRIES, entries); e++) {
        const uint at = batch[HEADER_AT_QUERY_TILES] + e * 2;
        if (batch[at + 1] % TILE_M != 0) continue;
        attend(batch[at], batch[at + 1], head);
        barrier(); /* the memory is free */
    }
}
