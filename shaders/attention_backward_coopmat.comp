#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
/* Gradients of attention's keys, values and queries, on cooperative matrices. With A[j][k] = exp(SCALE * x[j] . w[k] -
 * lse[j]), dropout's factor f and s[j][k] = A[j][k] * (f * gradient[j] . v[k] - delta[j]):
 * values: y[k] = sum over j of f A[j][k] * gradient[j];
 * keys: y[k] = SCALE * sum over j of s[j][k] * x[j];
 * queries: y[j] = SCALE * sum over k of s[j][k] * w[k].
 * Stands for attention_backward.comp and attention_dq.comp.
 *
 * A group takes TILE_M keys of one sequence and head and walks over the queries in steps of TILE_N, or TILE_M queries
 * and walks over the keys: the scores are made twice, but nothing is added up in memory or between groups, so the
 * order of every sum is that of its own sequence. PARTS groups share the keys' and the queries' tiles of a sequence's
 * head, one after the other. A subgroup owns BLOCKS times MATRIX_M rows of the tile; its operands and sums stay in its
 * registers, and a result becomes an operand by conversion. What it walks over is twice in shared memory: one step is
 * multiplied while the next one arrives. */
#include "attention_matrices.glsl"

layout(constant_id = CONST_PARTS) const uint PARTS = 1;

INPUT_OF(SLOT_LSE, float, lse);
INPUT_OF(SLOT_DELTA, float, delta);
INPUT(SLOT_GRADIENT, gradient);

/* Elements from one row of the gradient of attention's output to the next. */
#define GRADIENT_STRIDE (HEADS * HEAD_DIM)

/* Above every logarithm; a query with it has weights of 0. */
#define HIGHEST 3.0e38

#define TILE (TILE_N * ROW)
/* Both operands of two steps; before them and behind them two tiles of the group's own rows. */
#define OWN (2 * TILE_M * ROW)
shared uvec4 tiles[4 * TILE > OWN ? 4 * TILE : OWN];
/* lse and delta, of the queries of two steps or of the group's own. */
#define STATISTICS (2 * TILE_N > TILE_M ? 2 * TILE_N : TILE_M)
shared float lse_tile[STATISTICS], delta_tile[STATISTICS];

/* Subgroups have words of their own: of TILE_N queries and their own keys, or of their own queries and TILE_N keys. */
#define SUBGROUPS (TILE_M / SUBGROUP_ROWS)
#define KEEP_WORDS (TILE_N / 32)
#define KEEP_ROWS (SUBGROUP_ROWS * KEEP_WORDS)
#define KEEP_SIZE (KEEP_ROWS > TILE_N ? KEEP_ROWS : TILE_N)
shared uint keep_tile[DROPOUT > 0 ? SUBGROUPS * KEEP_SIZE : 1];

/* What dropout multiplies with waits for the sums: delta_tile has its inverse. */
#define KEPT_SCALE (DROPOUT > 0 ? DROPOUT_SCALE : 1.0)

/* A weight from its score, where queries are columns or rows. No weight is above 1, but what stands for a key beyond
 * the sequence might be infinite; such rows are not stored, such columns are kept finite and meet operands of 0. */
float column_weight(const in uint row, const in uint column, const in float s, const in uint query)
{
    return exp2(fma(s, uintBitsToFloat(SCALE) * LOG2E, -lse_tile[query + column]));
}
float row_weight(const in uint row, const in uint column, const in float s, const in uint query)
{
    return exp2(min(fma(s, uintBitsToFloat(SCALE) * LOG2E, -lse_tile[query + row]), 1.0));
}

/* The gradient of a score, from that of the weight behind dropout. */
float column_change(const in uint row, const in uint column, const in float change, const in float weight,
                    const in uint query)
{
    return weight * (change - delta_tile[query + column]);
}
float row_change(const in uint row, const in uint column, const in float change, const in float weight,
                 const in uint query)
{
    return weight * (change - delta_tile[query + row]);
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

/* Rows of the sequence's first token and head in each operand. */
uint first, length, head, x_at, w_at, v_at, gradient_at;

/* The group's own rows of two operands, in registers from here on. */
#define LOAD_OWN(left, right, left_name, left_at, left_stride, right_name, right_at, right_stride, count)              \
    {                                                                                                                  \
        uvec4 held[ROUNDS(TILE_M)];                                                                                    \
        barrier(); /* nobody reads the memory any more */                                                              \
        FETCH_ROWS(held, left_name, left_at, left_stride, count, TILE_M);                                              \
        PLACE_ROWS(0, held, TILE_M);                                                                                   \
        FETCH_ROWS(held, right_name, right_at, right_stride, count, TILE_M);                                           \
        PLACE_ROWS(TILE_M *ROW, held, TILE_M);                                                                         \
        barrier();                                                                                                     \
        UNROLL for (uint i = 0; i < BLOCKS * DEEP; i++)                                                                \
        {                                                                                                              \
            const uint at = (own + i / DEEP * MATRIX_M) * ROW + i % DEEP * MATRIX_K / VECTOR;                          \
            coopMatLoad(left[i], tiles, at, ROW, BY_ROWS);                                                             \
            coopMatLoad(right[i], tiles, TILE_M *ROW + at, ROW, BY_ROWS);                                              \
        }                                                                                                              \
        barrier(); /* the memory is free */                                                                            \
    }

/* sum, times `factor`, to the tile at tiles[to]. */
#define PUT_SUMS(to, sum, factor)                                                                                      \
    UNROLL for (uint i = 0; i < BLOCKS * WIDE; i++)                                                                    \
        coopMatStore(MATRIX_Y(sum[i] * (factor)), tiles,                                                               \
                     (to) + (own + i / WIDE * MATRIX_M) * ROW + i % WIDE * MATRIX_N / VECTOR, ROW, BY_ROWS);

/* One step's scores and the gradients of their weights: rows are the group's own, columns those of block j. */
#define MULTIPLY_DEEP(score, change, left, right, score_tile, change_tile, j)                                          \
    UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                           \
    {                                                                                                                  \
        score[r] = MATRIX_C(0.0);                                                                                      \
        change[r] = MATRIX_C(0.0);                                                                                     \
    }                                                                                                                  \
    UNROLL for (uint k = 0; k < DEEP; k++)                                                                             \
    {                                                                                                                  \
        MATRIX_B b;                                                                                                    \
        coopMatLoad(b, tiles, (score_tile) + (j)*MATRIX_N * ROW + k * MATRIX_K / VECTOR, ROW, BY_COLUMNS);             \
        UNROLL for (uint r = 0; r < BLOCKS; r++) score[r] = coopMatMulAdd(left[r * DEEP + k], b, score[r]);            \
        coopMatLoad(b, tiles, (change_tile) + (j)*MATRIX_N * ROW + k * MATRIX_K / VECTOR, ROW, BY_COLUMNS);            \
        UNROLL for (uint r = 0; r < BLOCKS; r++) change[r] = coopMatMulAdd(right[r * DEEP + k], b, change[r]);         \
    }

#define MULTIPLY_WIDE(sum, factor, tile, j)                                                                            \
    UNROLL for (uint c = 0; c < WIDE; c++)                                                                             \
    {                                                                                                                  \
        MATRIX_B b;                                                                                                    \
        coopMatLoad(b, tiles, (tile) + (j)*MATRIX_K * ROW + c * MATRIX_N / VECTOR, ROW, BY_ROWS);                      \
        UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                       \
            sum[r * WIDE + c] = coopMatMulAdd(factor[r], b, sum[r * WIDE + c]);                                        \
    }

/* The statistics of a step's queries; those beyond the sequence weigh nothing. */
#define LOAD_STATISTICS(to, query0, count)                                                                             \
    UNROLL for (uint b = 0; b < ((count) + LOCAL_SIZE - 1) / LOCAL_SIZE; b++)                                          \
    {                                                                                                                  \
        const uint i = local_number() + b * LOCAL_SIZE;                                                                \
        const uint at = (first + min((query0) + i, length - 1)) * HEADS + head;                                        \
        if (i < (count)) {                                                                                             \
            lse_tile[(to) + i] = (query0) + i < length ? lse[at] * LOG2E : HIGHEST;                                    \
            delta_tile[(to) + i] = delta[at] / KEPT_SCALE;                                                             \
        }                                                                                                              \
    }

void keys_and_values(const uint key0)
{
    const uint own = gl_SubgroupID * SUBGROUP_ROWS, words = gl_SubgroupID * KEEP_SIZE;
    const uint keys = length - key0;
    const uvec4 random = dropout_key();
    MATRIX_A key[BLOCKS * DEEP], value[BLOCKS * DEEP];
    LOAD_OWN(key, value, w, w_at + key0 * W_STRIDE, W_STRIDE, v, v_at + key0 * V_STRIDE, V_STRIDE, keys);

    uvec4 held[ROUNDS(TILE_N)];
    FETCH_ROWS(held, x, x_at, X_STRIDE, length, TILE_N);
    PLACE_ROWS(0, held, TILE_N);
    FETCH_ROWS(held, gradient, gradient_at, GRADIENT_STRIDE, length, TILE_N);
    PLACE_ROWS(TILE, held, TILE_N);
    LOAD_STATISTICS(0, 0, TILE_N);

    MATRIX_C key_sum[BLOCKS * WIDE], value_sum[BLOCKS * WIDE];
    UNROLL
    for (uint i = 0; i < BLOCKS * WIDE; i++) {
        key_sum[i] = MATRIX_C(0.0);
        value_sum[i] = MATRIX_C(0.0);
    }
    uint stage = 0;
    for (uint query0 = 0; query0 < length; query0 += TILE_N) {
        const uint queries = length - query0;
        const uint x_tile = stage * 2 * TILE, gradient_tile = x_tile + TILE, statistics = stage * TILE_N;
        stage = 1 - stage;
        if (DROPOUT > 0) {
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < TILE_N; i += gl_SubgroupSize) {
                uint bits = 0;
                UNROLL
                for (uint c = 0; c < SUBGROUP_ROWS / 8; c++)
                    bits |= keep_eight(dropout_words_keyed(random, (first + query0 + i) * HEADS + head,
                                                           key0 + own + 8 * c))
                            << 4 * c;
                keep_tile[words + i] = bits;
            }
        }
        barrier(); /* this step is there, and nobody reads the one before */

        const bool more = queries > TILE_N;
        if (more) {
            FETCH_ROWS(held, x, x_at + (query0 + TILE_N) * X_STRIDE, X_STRIDE, queries - TILE_N, TILE_N);
            LOAD_STATISTICS(stage * TILE_N, query0 + TILE_N, TILE_N);
        }
        UNROLL
        for (uint j = 0; j < STEP; j++) {
            MATRIX_C score[BLOCKS], change[BLOCKS];
            MULTIPLY_DEEP(score, change, key, value, x_tile, gradient_tile, j);
            MATRIX_A weights[BLOCKS], changes[BLOCKS];
            const uint at = statistics + j * MATRIX_N, kept = words + j * MATRIX_N;
            UNROLL
            for (uint r = 0; r < BLOCKS; r++) {
                coopMatPerElementNV(score[r], score[r], column_weight, at);
                if (DROPOUT > 0) coopMatPerElementNV(change[r], change[r], column_drop, kept, r * MATRIX_M);
                coopMatPerElementNV(change[r], change[r], column_change, score[r], at);
                if (DROPOUT > 0) coopMatPerElementNV(score[r], score[r], column_drop, kept, r * MATRIX_M);
                weights[r] = MATRIX_A(score[r]);
                changes[r] = MATRIX_A(change[r]);
            }
            MULTIPLY_WIDE(value_sum, weights, gradient_tile, j);
            MULTIPLY_WIDE(key_sum, changes, x_tile, j);
            if (j == STEP / 2 && more) {
                PLACE_ROWS(stage * 2 * TILE, held, TILE_N);
                FETCH_ROWS(held, gradient, gradient_at + (query0 + TILE_N) * GRADIENT_STRIDE, GRADIENT_STRIDE,
                           queries - TILE_N, TILE_N);
            }
        }
        if (more) PLACE_ROWS(stage * 2 * TILE + TILE, held, TILE_N);
    }

    barrier(); /* the tiles' memory is free */
    PUT_SUMS(0, key_sum, KEPT_SCALE * uintBitsToFloat(SCALE));
    PUT_SUMS(TILE_M * ROW, value_sum, KEPT_SCALE);
    barrier();
    STORE_ROWS(y, w_at + key0 * W_STRIDE, W_STRIDE, keys, 0, TILE_M);
    STORE_ROWS(y, v_at + key0 * V_STRIDE, V_STRIDE, keys, TILE_M * ROW, TILE_M);
}

void queries(const uint query0)
{
    const uint own = gl_SubgroupID * SUBGROUP_ROWS, words = gl_SubgroupID * KEEP_SIZE;
    const uint rows = length - query0;
    const uvec4 random = dropout_key();
    MATRIX_A query[BLOCKS * DEEP], gradients[BLOCKS * DEEP];
    LOAD_OWN(query, gradients, x, x_at + query0 * X_STRIDE, X_STRIDE, gradient, gradient_at + query0 * GRADIENT_STRIDE,
             GRADIENT_STRIDE, rows);

    LOAD_STATISTICS(0, query0, TILE_M);
    uvec4 held[ROUNDS(TILE_N)];
    FETCH_ROWS(held, w, w_at, W_STRIDE, length, TILE_N);
    PLACE_ROWS(0, held, TILE_N);
    FETCH_ROWS(held, v, v_at, V_STRIDE, length, TILE_N);
    PLACE_ROWS(TILE, held, TILE_N);

    MATRIX_C sum[BLOCKS * WIDE];
    UNROLL
    for (uint i = 0; i < BLOCKS * WIDE; i++) sum[i] = MATRIX_C(0.0);
    uint stage = 0;
    for (uint key0 = 0; key0 < length; key0 += TILE_N) {
        const uint keys = length - key0;
        const uint key_tile = stage * 2 * TILE, value_tile = key_tile + TILE;
        stage = 1 - stage;
        if (DROPOUT > 0) {
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < KEEP_ROWS; i += gl_SubgroupSize)
                keep_tile[words + i] = keep_word(random, (first + query0 + own + i % SUBGROUP_ROWS) * HEADS + head,
                                                 key0 + i / SUBGROUP_ROWS * 32);
        }
        barrier(); /* this step is there, and nobody reads the one before */

        const bool more = keys > TILE_N;
        if (more) FETCH_ROWS(held, w, w_at + (key0 + TILE_N) * W_STRIDE, W_STRIDE, keys - TILE_N, TILE_N);
        UNROLL
        for (uint j = 0; j < STEP; j++) {
            MATRIX_C score[BLOCKS], change[BLOCKS];
            MULTIPLY_DEEP(score, change, query, gradients, key_tile, value_tile, j);
            MATRIX_A changes[BLOCKS];
            UNROLL
            for (uint r = 0; r < BLOCKS; r++) {
                const uint at = own + r * MATRIX_M;
                coopMatPerElementNV(score[r], score[r], row_weight, at);
                if (DROPOUT > 0)
                    coopMatPerElementNV(change[r], change[r], row_drop,
                                        words + j * MATRIX_N / 32 * SUBGROUP_ROWS + r * MATRIX_M, j * MATRIX_N % 32);
                coopMatPerElementNV(change[r], change[r], row_change, score[r], at);
                changes[r] = MATRIX_A(change[r]);
            }
            MULTIPLY_WIDE(sum, changes, key_tile, j);
            if (j == STEP / 2 && more) {
                PLACE_ROWS(stage * 2 * TILE, held, TILE_N);
                FETCH_ROWS(held, v, v_at + (key0 + TILE_N) * V_STRIDE, V_STRIDE, keys - TILE_N, TILE_N);
            }
        }
        if (more) PLACE_ROWS(stage * 2 * TILE + TILE, held, TILE_N);
    }

    barrier(); /* the tiles' memory is free */
    PUT_SUMS(0, sum, KEPT_SCALE * uintBitsToFloat(SCALE));
    barrier();
    STORE_ROWS(y, x_at + query0 * X_STRIDE, X_STRIDE, rows, 0, TILE_M);
}

void main()
{
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint part = group_number() % PARTS;
    const uint sequence = group_number() / PARTS % max(sequences, 1u);
    head = group_number() / PARTS / max(sequences, 1u);
    if (sequences == 0 || head >= HEADS) return;
    first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    x_at = X_OFFSET + first * X_STRIDE + head * HEAD_DIM;
    w_at = W_OFFSET + first * W_STRIDE + head * HEAD_DIM;
    v_at = V_OFFSET + first * V_STRIDE + head * HEAD_DIM;
    gradient_at = first * GRADIENT_STRIDE + head * HEAD_DIM;
    const uint own_tiles = (length + TILE_M - 1) / TILE_M;
    for (uint tile = part; tile < 2 * own_tiles; tile += PARTS) {
        if (tile < own_tiles)
            keys_and_values(tile * TILE_M);
        else
            queries((tile - own_tiles) * TILE_M);
    }
}
