/* Gradients of attention's keys, values and queries, on cooperative matrices. With A[j][k] = exp(SCALE * x[j] . w[k] -
 * lse[j]), dropout's factor f and s[j][k] = A[j][k] * (f * gradient[j] . v[k] - delta[j]):
 * values: y[k] = sum over j of f A[j][k] * gradient[j];
 * keys: y[k] = SCALE * sum over j of s[j][k] * x[j];
 * queries: y[j] = SCALE * sum over k of s[j][k] * w[k].
 * Stands for attention_backward.comp and attention_dq.comp.
 *
 * A group takes TILE_M keys of one sequence and head and walks over the queries in steps of TILE_N, or QUERY_ROWS
 * queries and walks over the keys: the scores are made twice, but nothing is added up in memory or between groups, so
 * the order of every sum is that of its own sequence. PARTS groups share the keys' and the queries' tiles of a
 * sequence's head, one after the other. A subgroup owns BLOCKS times MATRIX_M of the keys, or its share of the queries;
 * its operands and sums stay in its registers. What it walks over is
 * twice in shared memory: one step is multiplied while the next one arrives.
 *
 * BEFORE, AFTER: steps that see nothing of the group's keys, or of which its queries see nothing, are passed over.
 *
 * RELATIVE: the scores' gradients are added up by distance, too, by the first part, which then has all tiles of queries
 * and none of keys. */
#include "attention_matrices.glsl"

layout(constant_id = CONST_PARTS) const uint PARTS = 1;
layout(constant_id = CONST_QUERY_ROWS) const uint QUERY_ROWS = 64;

INPUT_OF(SLOT_LSE, float, lse);
INPUT_OF(SLOT_DELTA, float, delta);
INPUT(SLOT_GRADIENT, gradient);
OUTPUT_OF(SLOT_DISTANCES, float, distances);
#include "masked_matrices.glsl"

/* Elements from one row of the gradient of attention's output to the next. */
#define GRADIENT_STRIDE (HEADS * HEAD_DIM)

/* Above every logarithm; a query with it has weights of 0. */
#define HIGHEST 3.0e38

#define TILE (TILE_N * ROW)
/* Of the group's rows of queries and of keys: a subgroup owns more of the former, whose sums are fewer. */
#define GROUP_ROWS (QUERY_ROWS > TILE_M ? QUERY_ROWS : TILE_M)
#define SUBGROUPS (TILE_M / SUBGROUP_ROWS)
#define QUERY_BLOCKS (QUERY_ROWS / (SUBGROUPS * MATRIX_M))
#define QUERY_SUBGROUP_ROWS (QUERY_BLOCKS * MATRIX_M)

#define OPERANDS (2 * BLOCKS > QUERY_BLOCKS ? 2 * BLOCKS : QUERY_BLOCKS)
#include "matrix_elements.glsl"

/* Both operands of two steps; before them and after them the group's own rows of one. */
#define OWN (GROUP_ROWS * ROW)
shared uvec4 tiles[4 * TILE > OWN ? 4 * TILE : OWN];
/* lse and delta, of the queries of two steps or of the group's own. */
#define STATISTICS (2 * TILE_N > QUERY_ROWS ? 2 * TILE_N : QUERY_ROWS)
shared vec2 statistics_tile[STATISTICS];

/* Subgroups have words of their own: of TILE_N queries and their own keys, or of their own queries and TILE_N keys.
 * They are drawn a step ahead, so that it goes on beside the products. */
#define KEEP_WORDS (TILE_N / 32)
#define KEEP_ROWS (QUERY_SUBGROUP_ROWS * KEEP_WORDS)
#define KEEP_SIZE (KEEP_ROWS > TILE_N ? KEEP_ROWS : TILE_N)
#define DRAWS(count) (((count) + SUBGROUP - 1) / SUBGROUP)
shared uint keep_tile[DROPOUT > 0 ? SUBGROUPS * KEEP_SIZE : 1];

#define KEEP(drawn, count)                                                                                             \
    UNROLL for (uint d = 0; d < DRAWS(count); d++)                                                                     \
    {                                                                                                                  \
        const uint i = gl_SubgroupInvocationID + d * SUBGROUP;                                                         \
        if (i < (count)) keep_tile[words + i] = drawn[d];                                                              \
    }

/* What dropout multiplies with waits for the sums: statistics_tile has its inverse. */
#define KEPT_SCALE (DROPOUT > 0 ? DROPOUT_SCALE : 1.0)

/* A weight from its score, where queries are columns or rows. No weight is above 1, but what stands for a key beyond
 * the sequence might be infinite; such rows are not stored, such columns are kept finite and meet operands of 0. */
float column_weight(const in uint row, const in uint column, const in float s, const in uint query)
{
    return exp2(fma(s, uintBitsToFloat(SCALE) * LOG2E, -statistics_tile[query + column].x));
}
float row_weight(const in uint row, const in uint column, const in float s, const in uint query)
{
    return exp2(min(fma(s, uintBitsToFloat(SCALE) * LOG2E, -statistics_tile[query + row].x), 1.0));
}

/* The same with a bias by distance; `apart`: of the matrix' first key and first query. */
float column_weight_biased(const in uint row, const in uint column, const in float s, const in uint query,
                           const in int apart)
{
    return exp2(fma(s, uintBitsToFloat(SCALE) * LOG2E,
                    bias_at(apart + int(row) - int(column)) - statistics_tile[query + column].x));
}
float row_weight_biased(const in uint row, const in uint column, const in float s, const in uint query,
                        const in int apart)
{
    return exp2(min(fma(s, uintBitsToFloat(SCALE) * LOG2E,
                        bias_at(apart + int(column) - int(row)) - statistics_tile[query + row].x),
                    1.0));
}

/* Of pairs that see each other. */
float column_seen(const in uint row, const in uint column, const in float weight, const in int apart)
{
    return mask_sees(apart + int(row) - int(column), BEFORE, AFTER) ? weight : 0.0;
}
float row_seen(const in uint row, const in uint column, const in float weight, const in int apart)
{
    return mask_sees(apart + int(column) - int(row), BEFORE, AFTER) ? weight : 0.0;
}

/* The gradient of a score, from that of the weight after dropout. */
float column_change(const in uint row, const in uint column, const in float change, const in float weight,
                    const in uint query)
{
    return weight * (change - statistics_tile[query + column].y);
}
float row_change(const in uint row, const in uint column, const in float change, const in float weight,
                 const in uint query)
{
    return weight * (change - statistics_tile[query + row].y);
}

/* What dropout leaves of a weight or of its gradient. */
float column_drop(const in uint row, const in uint column, const in float e, const in uint words, const in uint key)
{
    return is_kept(keep_tile[words + column], key + row) ? e : 0.0;
}
float row_drop(const in uint row, const in uint column, const in float e, const in uint words, const in uint key)
{
    return is_kept(keep_tile[words + row], key + column) ? e : 0.0;
}

/* Keys beyond the sequence change nothing. */
float first_columns(const in uint row, const in uint column, const in float change, const in uint count)
{
    return column < count ? change : 0.0;
}

#include "distance_matrices.glsl"

/* Rows of the sequence's first token and head in each operand. */
uint first, length, head, x_at, w_at, v_at, gradient_at;

/* Makes a head of Q the one whose queries are walked over, or are the group's own. */
void turn_to(const uint other)
{
    head = other;
    x_at = X_OFFSET + first * X_STRIDE + HEAD_AT(head, X_STRIDE);
    gradient_at = first * GRADIENT_STRIDE + head * HEAD_DIM;
    if (ALIBI != 0) slope = alibi_slope(HEADS, head) * LOG2E;
}

/* The group's own rows of an operand, in registers from here on. */
#define LOAD_OWN(operand, name, at, stride, count, blocks, tile_rows)                                                  \
    {                                                                                                                  \
        uvec4 held[ROUNDS(tile_rows)];                                                                                 \
        FETCH_ROWS(held, name, at, stride, 0, (count)-1, tile_rows);                                                   \
        barrier(); /* nobody reads the memory any more */                                                              \
        PLACE_ROWS(0, held, tile_rows);                                                                                \
        barrier();                                                                                                     \
        UNROLL for (uint i = 0; i < (blocks)*DEEP; i++)                                                                \
            coopMatLoad(operand[i], tiles, (own + i / DEEP * MATRIX_M) * ROW + i % DEEP * MATRIX_K / VECTOR, ROW,      \
                        BY_ROWS);                                                                                      \
    }

/* sum, times `factor`, to the group's rows of a tensor. */
#define STORE_SUMS(name, at, stride, count, sum, factor, blocks, tile_rows)                                            \
    {                                                                                                                  \
        barrier(); /* the memory is free */                                                                            \
        UNROLL for (uint i = 0; i < (blocks)*WIDE; i++)                                                                \
            coopMatStore(MATRIX_Y(sum[i] * (factor)), tiles,                                                           \
                         (own + i / WIDE * MATRIX_M) * ROW + i % WIDE * MATRIX_N / VECTOR, ROW, BY_ROWS);              \
        barrier();                                                                                                     \
        STORE_ROWS(name, at, stride, count, 0, tile_rows);                                                             \
    }

/* One step's scores and the gradients of their weights: rows are the group's own, columns those of block j. */
#define MULTIPLY_DEEP(score, change, left, right, score_tile, change_tile, j, blocks)                                  \
    UNROLL for (uint r = 0; r < (blocks); r++)                                                                         \
    {                                                                                                                  \
        score[r] = MATRIX_C(0.0);                                                                                      \
        change[r] = MATRIX_C(0.0);                                                                                     \
    }                                                                                                                  \
    UNROLL for (uint k = 0; k < DEEP; k++)                                                                             \
    {                                                                                                                  \
        MATRIX_B b;                                                                                                    \
        coopMatLoad(b, tiles, (score_tile) + (j)*MATRIX_N * ROW + k * MATRIX_K / VECTOR, ROW, BY_COLUMNS);             \
        UNROLL for (uint r = 0; r < (blocks); r++) score[r] = coopMatMulAdd(left[r * DEEP + k], b, score[r]);          \
        coopMatLoad(b, tiles, (change_tile) + (j)*MATRIX_N * ROW + k * MATRIX_K / VECTOR, ROW, BY_COLUMNS);            \
        UNROLL for (uint r = 0; r < (blocks); r++) change[r] = coopMatMulAdd(right[r * DEEP + k], b, change[r]);       \
    }

/* From row `row` of a step on. */
#define MULTIPLY_WIDE(sum, factor, tile, row, blocks)                                                                  \
    UNROLL for (uint c = 0; c < WIDE; c++)                                                                             \
    {                                                                                                                  \
        MATRIX_B b;                                                                                                    \
        coopMatLoad(b, tiles, (tile) + (row)*ROW + c * MATRIX_N / VECTOR, ROW, BY_ROWS);                               \
        UNROLL for (uint r = 0; r < (blocks); r++)                                                                     \
            sum[r * WIDE + c] = coopMatMulAdd(factor[r], b, sum[r * WIDE + c]);                                        \
    }

/* The statistics of `count` queries; those beyond the sequence weigh nothing. */
#define FETCH_STATISTICS(found, query0, count)                                                                         \
    UNROLL for (uint b = 0; b < ((count) + LOCAL_SIZE - 1) / LOCAL_SIZE; b++)                                          \
    {                                                                                                                  \
        const uint at = (first + min((query0) + local_number() + b * LOCAL_SIZE, length - 1)) * HEADS + head;          \
        found[b] = vec2(lse[at], delta[at]);                                                                           \
    }
#define PLACE_STATISTICS(to, found, query0, count)                                                                     \
    UNROLL for (uint b = 0; b < ((count) + LOCAL_SIZE - 1) / LOCAL_SIZE; b++)                                          \
    {                                                                                                                  \
        const uint i = local_number() + b * LOCAL_SIZE;                                                                \
        if (i < (count))                                                                                               \
            statistics_tile[(to) + i] =                                                                                \
                vec2((query0) + i < length ? found[b].x * LOG2E : HIGHEST, found[b].y * (1.0 / KEPT_SCALE));           \
    }

/* Strips of half a step. */
#define STRIPS (TILE_N / 2 / STRIP)

/* The weights of a strip of queries and the gradients of their scores, on their way to become operands. */
#define CHANGE_COLUMNS(strip)                                                                                          \
    UNROLL for (uint n = 0; n < STRIP / MATRIX_N; n++)                                                                 \
    {                                                                                                                  \
        const uint j = (strip)*STRIP / MATRIX_N + n;                                                                   \
        const uint at = statistics + j * MATRIX_N, kept = words + j * MATRIX_N;                                        \
        MATRIX_C score[BLOCKS], change[BLOCKS];                                                                        \
        MULTIPLY_DEEP(score, change, key, value, x_tile, gradient_tile, j, BLOCKS);                                    \
        UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                       \
        {                                                                                                              \
            const uint first_key = key0 + own + r * MATRIX_M, first_query = query0 + j * MATRIX_N;                     \
            const int apart = int(first_key) - int(first_query);                                                       \
            if (BIASED) {                                                                                              \
                EACH2(score[r], column_weight_biased, at, apart);                                                      \
            } else {                                                                                                   \
                EACH(score[r], column_weight, at);                                                                     \
            }                                                                                                          \
            if (HIDES(first_query, MATRIX_N, first_key, MATRIX_M)) EACH(score[r], column_seen, apart);                 \
            if (DROPOUT > 0) EACH2(change[r], column_drop, kept, r * MATRIX_M);                                        \
            EACH_OF2(change[r], column_change, score[r], at);                                                          \
            if (DROPOUT > 0) EACH2(score[r], column_drop, kept, r * MATRIX_M);                                         \
            PUT_OPERAND(weights, r, r, n, (strip) % 2, score[r]);                                                      \
            PUT_OPERAND(changes, r, BLOCKS + r, n, (strip) % 2, change[r]);                                            \
        }                                                                                                              \
    }

void keys_and_values(const uint key0)
{
    const uint own = gl_SubgroupID * SUBGROUP_ROWS, words = gl_SubgroupID * KEEP_SIZE;
    const uint keys = length - key0, last = length - 1;
    const uvec4 random = dropout_key();
    MATRIX_A key[BLOCKS * DEEP], value[BLOCKS * DEEP];
    LOAD_OWN(key, w, w_at + key0 * W_STRIDE, W_STRIDE, keys, BLOCKS, TILE_M);
    LOAD_OWN(value, v, v_at + key0 * V_STRIDE, V_STRIDE, keys, BLOCKS, TILE_M);
    barrier(); /* the memory is free */

    uvec4 held[ROUNDS(TILE_N)];
    vec2 found[(TILE_N + LOCAL_SIZE - 1) / LOCAL_SIZE];
    const uint begin = FIRST_QUERY(key0, TILE_N), end = END_QUERY(key0 + min(keys, TILE_M) - 1, length);

    uint drawn[DRAWS(TILE_N)];
#define DRAW_COLUMNS(query0)                                                                                           \
    UNROLL for (uint d = 0; d < DRAWS(TILE_N); d++)                                                                    \
    {                                                                                                                  \
        const uint row = (first + (query0) + gl_SubgroupInvocationID + d * SUBGROUP) * HEADS + head;                   \
        drawn[d] = keep_word(random, row, key0 + own, SUBGROUP_ROWS);                                                  \
    }

    MATRIX_C key_sum[BLOCKS * WIDE], value_sum[BLOCKS * WIDE];
    UNROLL
    for (uint i = 0; i < BLOCKS * WIDE; i++) {
        key_sum[i] = MATRIX_C(0.0);
        value_sum[i] = MATRIX_C(0.0);
    }
    /* The queries of the heads of Q, one head after the other. */
    ROLLED
    for (uint member = 0; member < KEY_HEAD_MEMBERS; member++) {
        turn_to(head / KEY_HEAD_MEMBERS * KEY_HEAD_MEMBERS + member);
        if (member > 0) barrier(); /* the memory is free */
        FETCH_ROWS(held, x, x_at, X_STRIDE, begin, last, TILE_N);
        PLACE_ROWS(0, held, TILE_N);
        FETCH_ROWS(held, gradient, gradient_at, GRADIENT_STRIDE, begin, last, TILE_N);
        PLACE_ROWS(TILE, held, TILE_N);
        FETCH_STATISTICS(found, begin, TILE_N);
        PLACE_STATISTICS(0, found, begin, TILE_N);
        if (DROPOUT > 0) {
            DRAW_COLUMNS(begin);
            subgroupBarrier();
            KEEP(drawn, TILE_N);
        }

        uint stage = 0;
        for (uint query0 = begin; query0 < end; query0 += TILE_N) {
            const uint next = query0 + TILE_N;
            const uint x_tile = stage * 2 * TILE, gradient_tile = x_tile + TILE, statistics = stage * TILE_N;
            stage = 1 - stage;
            barrier(); /* this step is there, and nobody reads the one before */

            FETCH_STATISTICS(found, next, TILE_N);
            UNROLL
            for (uint half_step = 0; half_step < 2; half_step++) {
                if (half_step == 0) {
                    FETCH_ROWS(held, x, x_at, X_STRIDE, next, last, TILE_N);
                } else {
                    FETCH_ROWS(held, gradient, gradient_at, GRADIENT_STRIDE, next, last, TILE_N);
                    if (DROPOUT > 0) DRAW_COLUMNS(next);
                }
                MATRIX_A weights[BLOCKS], changes[BLOCKS];
                UNROLL
                for (uint strip = half_step * STRIPS; strip < (half_step + 1) * STRIPS; strip++) {
                    CHANGE_COLUMNS(strip)
                    OPERANDS_PUT;
                    UNROLL
                    for (uint k = 0; k < STRIP / MATRIX_K; k++) {
                        UNROLL
                        for (uint r = 0; r < BLOCKS; r++) {
                            TAKE_OPERAND(weights[r], r, k, strip % 2);
                            TAKE_OPERAND(changes[r], BLOCKS + r, k, strip % 2);
                        }
                        MULTIPLY_WIDE(value_sum, weights, gradient_tile, strip * STRIP + k * MATRIX_K, BLOCKS);
                        MULTIPLY_WIDE(key_sum, changes, x_tile, strip * STRIP + k * MATRIX_K, BLOCKS);
                    }
                }
                if (half_step == 0) PLACE_ROWS(stage * 2 * TILE, held, TILE_N);
            }
            PLACE_ROWS(stage * 2 * TILE + TILE, held, TILE_N);
            PLACE_STATISTICS(stage * TILE_N, found, next, TILE_N);
            if (DROPOUT > 0) {
                subgroupBarrier();
                KEEP(drawn, TILE_N);
            }
        }
    }

    STORE_SUMS(y, w_at + key0 * W_STRIDE, W_STRIDE, keys, key_sum, KEPT_SCALE * uintBitsToFloat(SCALE), BLOCKS, TILE_M);
    STORE_SUMS(y, v_at + key0 * V_STRIDE, V_STRIDE, keys, value_sum, KEPT_SCALE, BLOCKS, TILE_M);
}

/* The gradients of the scores of a strip of keys, on their way to become operands. */
#define CHANGE_ROWS(strip)                                                                                             \
    UNROLL for (uint n = 0; n < STRIP / MATRIX_N; n++)                                                                 \
    {                                                                                                                  \
        const uint j = (strip)*STRIP / MATRIX_N + n, first_key = key0 + j * MATRIX_N;                                  \
        MATRIX_C score[QUERY_BLOCKS], change[QUERY_BLOCKS];                                                            \
        MULTIPLY_DEEP(score, change, query, gradients, key_tile, value_tile, j, QUERY_BLOCKS);                         \
        UNROLL for (uint r = 0; r < QUERY_BLOCKS; r++)                                                                 \
        {                                                                                                              \
            const uint at = own + r * MATRIX_M;                                                                        \
            const int apart = int(first_key) - int(query0 + at);                                                       \
            if (BIASED) {                                                                                              \
                EACH2(score[r], row_weight_biased, at, apart);                                                         \
            } else {                                                                                                   \
                EACH(score[r], row_weight, at);                                                                        \
            }                                                                                                          \
            if (HIDES(query0 + at, MATRIX_M, first_key, MATRIX_N)) EACH(score[r], row_seen, apart);                    \
            if (DROPOUT > 0)                                                                                           \
                EACH2(change[r], row_drop, words + j * MATRIX_N / 32 * QUERY_SUBGROUP_ROWS + r * MATRIX_M,             \
                      j * MATRIX_N % 32);                                                                              \
            EACH_OF2(change[r], row_change, score[r], at);                                                             \
            if (RELATIVE > 0) {                                                                                        \
                if (first_key + MATRIX_N > length)                                                                     \
                    EACH(change[r], first_columns, length > first_key ? length - first_key : 0);                       \
                SUM_DISTANCES(change[r], apart);                                                                       \
            }                                                                                                          \
            PUT_OPERAND(changes, r, r, n, (strip) % 2, change[r]);                                                     \
        }                                                                                                              \
    }

void queries(const uint query0)
{
    const uint own = gl_SubgroupID * QUERY_SUBGROUP_ROWS, words = gl_SubgroupID * KEEP_SIZE;
    const uint rows = length - query0, last = length - 1;
    const uvec4 random = dropout_key();
    MATRIX_A query[QUERY_BLOCKS * DEEP], gradients[QUERY_BLOCKS * DEEP];
    LOAD_OWN(query, x, x_at + query0 * X_STRIDE, X_STRIDE, rows, QUERY_BLOCKS, QUERY_ROWS);
    LOAD_OWN(gradients, gradient, gradient_at + query0 * GRADIENT_STRIDE, GRADIENT_STRIDE, rows, QUERY_BLOCKS,
             QUERY_ROWS);
    {
        vec2 found[(QUERY_ROWS + LOCAL_SIZE - 1) / LOCAL_SIZE];
        FETCH_STATISTICS(found, query0, QUERY_ROWS);
        PLACE_STATISTICS(0, found, query0, QUERY_ROWS);
    }
    barrier(); /* the memory is free */

    uvec4 held[ROUNDS(TILE_N)];
    const uint begin = FIRST_KEY(query0, TILE_N), end = END_KEY(query0 + min(rows, QUERY_ROWS) - 1, length);
    FETCH_ROWS(held, w, w_at, W_STRIDE, begin, last, TILE_N);
    PLACE_SOME(0, held, length - begin, TILE_N);
    FETCH_ROWS(held, v, v_at, V_STRIDE, begin, last, TILE_N);
    PLACE_ROWS(TILE, held, TILE_N);

    uint drawn[DRAWS(KEEP_ROWS)];
#define DRAW_ROWS(key0)                                                                                                \
    UNROLL for (uint d = 0; d < DRAWS(KEEP_ROWS); d++)                                                                 \
    {                                                                                                                  \
        const uint i = gl_SubgroupInvocationID + d * SUBGROUP;                                                         \
        drawn[d] = keep_word(random, (first + query0 + own + i % QUERY_SUBGROUP_ROWS) * HEADS + head,                  \
                             (key0) + i / QUERY_SUBGROUP_ROWS * 32, 32);                                               \
    }
    if (DROPOUT > 0) {
        DRAW_ROWS(begin);
        subgroupBarrier();
        KEEP(drawn, KEEP_ROWS);
    }

    MATRIX_C sum[QUERY_BLOCKS * WIDE];
    UNROLL
    for (uint i = 0; i < QUERY_BLOCKS * WIDE; i++) sum[i] = MATRIX_C(0.0);
    uint stage = 0;
    for (uint key0 = begin; key0 < end; key0 += TILE_N) {
        const uint next = key0 + TILE_N, left = length > next ? length - next : 0;
        const uint key_tile = stage * 2 * TILE, value_tile = key_tile + TILE;
        stage = 1 - stage;
        barrier(); /* this step is there, and nobody reads the one before */

        UNROLL
        for (uint half_step = 0; half_step < 2; half_step++) {
            if (half_step == 0) {
                FETCH_ROWS(held, w, w_at, W_STRIDE, next, last, TILE_N);
            } else {
                FETCH_ROWS(held, v, v_at, V_STRIDE, next, last, TILE_N);
                if (DROPOUT > 0) DRAW_ROWS(next);
            }
            MATRIX_A changes[QUERY_BLOCKS];
            UNROLL
            for (uint strip = half_step * STRIPS; strip < (half_step + 1) * STRIPS; strip++) {
                CHANGE_ROWS(strip)
                OPERANDS_PUT;
                UNROLL
                for (uint k = 0; k < STRIP / MATRIX_K; k++) {
                    UNROLL
                    for (uint r = 0; r < QUERY_BLOCKS; r++) TAKE_OPERAND(changes[r], r, k, strip % 2);
                    MULTIPLY_WIDE(sum, changes, key_tile, strip * STRIP + k * MATRIX_K, QUERY_BLOCKS);
                }
            }
            if (half_step == 0) PLACE_SOME(stage * 2 * TILE, held, left, TILE_N);
        }
        PLACE_ROWS(stage * 2 * TILE + TILE, held, TILE_N);
        if (DROPOUT > 0) {
            subgroupBarrier();
            KEEP(drawn, KEEP_ROWS);
        }
    }

    STORE_SUMS(y, x_at + query0 * X_STRIDE, X_STRIDE, rows, sum, KEPT_SCALE * uintBitsToFloat(SCALE), QUERY_BLOCKS,
               QUERY_ROWS);
}

void main()
{
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint part = group_number() % PARTS;
    const uint sequence = group_number() / PARTS % max(sequences, 1u);
    const uint key_head = group_number() / PARTS / max(sequences, 1u);
    if (sequences == 0 || key_head >= KEY_HEAD_COUNT) return;
    FIND_PLACES;
    first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    turn_to(key_head * KEY_HEAD_MEMBERS);
    w_at = W_OFFSET + first * W_STRIDE + HEAD_AT(key_head, W_STRIDE);
    v_at = V_OFFSET + first * V_STRIDE + HEAD_AT(key_head, V_STRIDE);
    const uint key_tiles = (length + TILE_M - 1) / TILE_M, query_tiles = (length + QUERY_ROWS - 1) / QUERY_ROWS;
    if (RELATIVE > 0) { /* then Q has no more heads than K */
        load_biases(head, LOG2E);
        for (uint i = local_number(); i < SUBGROUPS * DISTANCE_SUMS; i += LOCAL_SIZE) distance_sums[i] = 0.0;
        ROLLED
        for (uint tile = 0; part == 0 && tile < query_tiles; tile++) queries(tile * QUERY_ROWS);
        ROLLED
        for (uint tile = part - 1; part > 0 && tile < key_tiles; tile += PARTS - 1) keys_and_values(tile * TILE_M);
        if (part == 0) store_distances(2 * first * HEADS + head, length);
        return;
    }
    for (uint tile = part; tile < key_tiles + KEY_HEAD_MEMBERS * query_tiles; tile += PARTS) {
        if (tile < key_tiles) {
            keys_and_values(tile * TILE_M);
        } else {
            turn_to(key_head * KEY_HEAD_MEMBERS + (tile - key_tiles) / query_tiles);
            queries((tile - key_tiles) % query_tiles * QUERY_ROWS);
        }
    }
}
