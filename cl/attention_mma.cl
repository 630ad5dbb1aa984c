/* Attention without stored scores, as attention.cl, the same arguments and results, by mma.sync on NVIDIA's GPUs from
 * sm_80 on: 16-bit storage, heads of 32, 64 or 128 channels.
 *
 * A work-group has TILE_M queries of one head (an entry of the query tile table), a warp 16 of them, and walks over the
 * sequence's keys in steps of TILE_N; the next step's keys and values are on their way to shared memory meanwhile.
 * Scores stay in the registers in which the first product leaves them: two fragments of its sums are, in 16 bits, just
 * the first operand of 16 keys of the second (mma.h). BEFORE, AFTER and ALIBI are as in attention.cl. */
#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#include "common.h"
#include "dropout.h"
#include "mma.h"
#include "attention_arguments.h"

#define LOG2E 1.44269504f
#define LN2 0.69314718f
#define LOWEST (-1e30f) /* below every score, and finite: differences of it are numbers */

#define CHUNKS (HEAD_DIM / 8)
#define STEPS (HEAD_DIM / 16)   /* of 16 channels */
#define FRAGMENTS (TILE_N / 8)  /* of 8 keys */
#define CHANNELS (HEAD_DIM / 8) /* fragments of 8 channels */
#define TILE_BYTES (TILE_N * HEAD_DIM * 2)

/* Starts the copies of TILE_N rows of keys or values, zeros after the last of `left`. */
INLINE void fetch_rows(const uint to, __global const storage *from, const uint stride, const int left)
{
    UNROLL for (uint i = 0; i < TILE_N * CHUNKS / LOCAL_SIZE; i++)
    {
        const uint number = local_number() + i * LOCAL_SIZE, row = number / CHUNKS, chunk = number % CHUNKS;
        copy_async(to + tile_chunk(row, chunk, CHUNKS), from + row * stride + chunk * 8, (int)row < left);
    }
}

#if DROPOUT > 0
/* The factors of the row's weights that this lane has, two keys of each fragment. One call of the generator decides on
 * a fragment: each lane of a quad makes it for every fourth, and they exchange words. */
INLINE void drop_row(float *weights, const uint part, const uint4 key, const uint row, const uint column,
                     const uint lane)
{
    UNROLL for (uint j = 0; j < FRAGMENTS; j += 4)
    {
        const uint4 words = dropout_words_keyed(key, row, column + (j + lane % 4) * 8);
        float v[8] = {as_float(words.x), 0.0f, as_float(words.y), 0.0f,
                      as_float(words.z), 0.0f, as_float(words.w), 0.0f};
        turn_quad(v, lane);
        UNROLL for (uint t = 0; t < 4; t++)
        {
            const float2 factor = dropout_pair(as_uint(v[2 * t]));
            weights[(j + t) * 4 + part * 2] *= factor.x;
            weights[(j + t) * 4 + part * 2 + 1] *= factor.y;
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void attention_mma(ATTENTION_ARGUMENTS)
{
    BEGIN_ATTENTION;
#if DROPOUT > 0
    const uint4 dropout = dropout_key(batch, site);
#endif
    __local uint4 tile[4 * TILE_BYTES / 16] __attribute__((aligned(256))); /* keys, values; keys, values */
#if RELATIVE > 0
    __local float biases[DISTANCES];
#endif

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles == 0 || head >= HEADS) return;
    const uint entry = batch[HEADER_AT_QUERY_TILES] + (tiles - 1 - group_number() % tiles) * 2;
    const uint sequence = batch[entry], row0 = batch[entry + 1];
    const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    __global const storage *keys = w + W_OFFSET + first * W_STRIDE + HEAD_AT(KEY_HEAD(head), W_STRIDE);
    __global const storage *values = v + V_OFFSET + first * V_STRIDE + HEAD_AT(KEY_HEAD(head), V_STRIDE);
    const uint lane = local_number() % WARP, warp = local_number() / WARP;
    const uint base = SHARED_ADDRESS(tile);
    if (row0 >= length) return;
#if RELATIVE > 0
    load_biases(biases, relative, batch, head, LOG2E);
#endif
#if ALIBI
    const float slope = alibi_slope(HEADS, head) * LOG2E;
#endif
    /* Steps of which no query sees a key are passed over. */
    const uint last_row = min(row0 + TILE_M, length) - 1;
    const uint first_key = (uint)mask_first_key((int)row0, BEFORE) / TILE_N * TILE_N;
    const uint seen = (uint)mask_end_key((int)last_row, AFTER, (int)length);
    const uint end_key = MASKED ? min((seen + TILE_N - 1) / TILE_N * TILE_N, length) : length;

    fetch_rows(base, keys + first_key * W_STRIDE, W_STRIDE, (int)(end_key - first_key));
    fetch_rows(base + TILE_BYTES, values + first_key * V_STRIDE, V_STRIDE, (int)(end_key - first_key));
    copy_commit();

    /* This lane's two queries, past the end the last one again. */
    const uint low = row0 + warp * 16 + lane / 4, high = low + 8;
    __global const storage *x_low =
        x + X_OFFSET + (first + min(low, length - 1)) * X_STRIDE + HEAD_AT(head, X_STRIDE);
    __global const storage *x_high =
        x + X_OFFSET + (first + min(high, length - 1)) * X_STRIDE + HEAD_AT(head, X_STRIDE);
    uint4 queries[STEPS];
    UNROLL for (uint s = 0; s < STEPS; s++)
    {
        const uint at = s * 16 + lane % 4 * 2;
        queries[s] = (uint4)(*(__global const uint *)(x_low + at), *(__global const uint *)(x_high + at),
                             *(__global const uint *)(x_low + at + 8), *(__global const uint *)(x_high + at + 8));
    }

    const float scale = as_float((uint)SCALE) * LOG2E;
    float sum[CHANNELS * 4], largest[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f}; /* total: this lane's keys' */
    UNROLL for (uint i = 0; i < CHANNELS * 4; i++) sum[i] = 0.0f;
    const uint key_rows = tile_chunk(lane % 8 + lane / 16 * 8, lane / 8 % 2, CHUNKS);
    const uint value_rows = TILE_BYTES + tile_chunk(lane % 16, lane / 16, CHUNKS);

    ROLLED for (uint key0 = first_key, at = base, other = base + 2 * TILE_BYTES; key0 < end_key; key0 += TILE_N)
    {
        fetch_rows(other, keys + (key0 + TILE_N) * W_STRIDE, W_STRIDE, (int)end_key - (int)(key0 + TILE_N));
        fetch_rows(other + TILE_BYTES, values + (key0 + TILE_N) * V_STRIDE, V_STRIDE,
                   (int)end_key - (int)(key0 + TILE_N));
        copy_commit();
        COPY_WAIT(1);
        barrier(CLK_LOCAL_MEM_FENCE);

        float score[FRAGMENTS * 4];
        UNROLL for (uint i = 0; i < FRAGMENTS * 4; i++) score[i] = 0.0f;
        UNROLL for (uint s = 0; s < STEPS; s++)
        {
            UNROLL for (uint j = 0; j < FRAGMENTS; j += 2)
            {
                const uint4 pair = load_matrices(((at + key_rows) ^ s * 32) + j * 8 * CHUNKS * 16);
                multiply_add(score + j * 4, queries[s], pair.x, pair.y);
                multiply_add(score + j * 4 + 4, queries[s], pair.z, pair.w);
            }
        }

        /* Keys after the sequence are no keys. Only the last step has any. */
        const uint here = length - key0;
        UNROLL for (uint i = 0; i < FRAGMENTS * 4; i++)
        {
            const uint key = i / 4 * 8 + lane % 4 * 2 + i % 2;
#if RELATIVE > 0
            const float bias = bias_of(biases, (int)(key0 + key) - (int)(low + i / 2 % 2 * 8));
            score[i] = here >= TILE_N || key < here ? fma(score[i], scale, bias) : LOWEST;
#elif ALIBI
            const float apart = fabs((float)((int)(key0 + key) - (int)(low + i / 2 % 2 * 8)));
            score[i] = here >= TILE_N || key < here ? fma(score[i], scale, -slope * apart) : LOWEST;
#else
            score[i] = here >= TILE_N || key < here ? score[i] * scale : LOWEST;
#endif
        }
#if MASKED
        if (!mask_sees_all((int)row0, (int)last_row, (int)key0, (int)key0 + TILE_N - 1, BEFORE, AFTER)) {
            UNROLL for (uint i = 0; i < FRAGMENTS * 4; i++)
            {
                const uint key = key0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
                if (!mask_sees((int)key - (int)(low + i / 2 % 2 * 8), BEFORE, AFTER)) score[i] = LOWEST;
            }
        }
#endif
        UNROLL for (uint r = 0; r < 2; r++)
        {
            float most = largest[r];
            UNROLL for (uint j = 0; j < FRAGMENTS; j++)
                most = fmax(most, fmax(score[j * 4 + r * 2], score[j * 4 + r * 2 + 1]));
            most = quad_max(most);
            const float shrink = exp2(largest[r] - most);
            const float least = most > 0.5f * LOWEST ? most : 0.0f; /* no key is seen yet: all weights are 0 */
            largest[r] = most;
            total[r] *= shrink;
            UNROLL for (uint c = 0; c < CHANNELS; c++)
            {
                sum[c * 4 + r * 2] *= shrink;
                sum[c * 4 + r * 2 + 1] *= shrink;
            }
            UNROLL for (uint j = 0; j < FRAGMENTS; j++)
            {
                score[j * 4 + r * 2] = exp2(score[j * 4 + r * 2] - (MASKED ? least : most));
                score[j * 4 + r * 2 + 1] = exp2(score[j * 4 + r * 2 + 1] - (MASKED ? least : most));
                total[r] += score[j * 4 + r * 2] + score[j * 4 + r * 2 + 1];
            }
#if DROPOUT > 0
            drop_row(score, r, dropout, (first + (r ? high : low)) * HEADS + head, key0, lane);
#endif
        }

        UNROLL for (uint j = 0; j < FRAGMENTS; j += 2)
        {
            const float *p = score + j * 4;
            const uint4 weights = (uint4)(pack_halves(p[0], p[1]), pack_halves(p[2], p[3]), pack_halves(p[4], p[5]),
                                          pack_halves(p[6], p[7]));
            UNROLL for (uint c = 0; c < CHANNELS; c += 2)
            {
                const uint4 pair = load_transposed(((at + value_rows) ^ c * 16) + j * 8 * CHUNKS * 16);
                multiply_add(sum + c * 4, weights, pair.x, pair.y);
                multiply_add(sum + c * 4 + 4, weights, pair.z, pair.w);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads these keys any more */
        const uint used = at;
        at = other;
        other = used;
    }
    COPY_WAIT(0);

    UNROLL for (uint r = 0; r < 2; r++)
    {
        const uint row = r ? high : low;
        const float all = quad_sum(total[r]);
        UNROLL for (uint c = 0; c < CHANNELS; c += 4)
        {
            float o[8];
            UNROLL for (uint i = 0; i < 8; i++) o[i] = sum[(c + i / 2) * 4 + r * 2 + i % 2] / all;
            turn_quad(o, lane);
            if (row < length)
                *(__global uint4 *)(y + Y_OFFSET + (first + row) * Y_STRIDE + HEAD_AT(head, Y_STRIDE) +
                                    (c + lane % 4) * 8) =
                    (uint4)(pack_halves(o[0], o[1]), pack_halves(o[2], o[3]), pack_halves(o[4], o[5]),
                            pack_halves(o[6], o[7]));
        }
#if LSE == LSE_WRITE
        if (row < length && lane % 4 == 0) lse[(first + row) * HEADS + head] = (largest[r] + log2(all)) * LN2;
#endif
    }
}
