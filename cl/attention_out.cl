/* Attention and the product with the weight after it, bias and residual included, for few rows: one launch where two
 * would wait for the host. mma.sync on NVIDIA's GPUs from sm_80 on; 16-bit storage, heads of 32 channels (of 64 it
 * would want more registers than there are).
 *
 * A work-group has an entry of the query tile table and HEAD_DIM columns of the result; a warp has a head, and computes
 * what attention.cl does for it, 16 queries at a time. Every work-group of a tile computes all of its heads: that is
 * little work where rows are few. What comes of a head is the first operand of the second product just as it lies in
 * registers (mma.h), and the heads' sums are added in their order. `v` are the values, `out` is the weight. */
#ifndef HEADS
#define HEADS 1
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef V_STRIDE
#define V_STRIDE (HEADS * HEAD_DIM)
#endif
#ifndef V_OFFSET
#define V_OFFSET 0
#endif
#include "epilogue.h"
#include "distances.h"

#define LOG2E 1.44269504f
#define LOWEST (-1e30f) /* below every score, and finite: differences of it are numbers */

#define KEYS 32                 /* of a step */
#define CHUNKS (HEAD_DIM / 8)   /* of 16 bytes in a head's row; also fragments of 8 channels, or columns */
#define SHARES (HEAD_DIM / 32)  /* of 32 channels: 16 bytes of each lane */
#define SUM_STRIDE (HEAD_DIM + 8)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void attention_out(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(w)
    , INPUT(v)
    ARGUMENT_BIAS
    ARGUMENT_RESIDUAL
#if RELATIVE > 0
    , INPUT(relative)
#endif
    , INPUT(out)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
    BEGIN(v);
    BEGIN_BIAS;
    BEGIN_RESIDUAL;
#if RELATIVE > 0
    BEGIN(relative);
#endif
    BEGIN(out);
    BEGIN_OUTPUT(y);
    __local float4 tile[HEADS * 16 * SUM_STRIDE / 4];
    __local uint4 value_tile[HEADS * KEYS * CHUNKS] __attribute__((aligned(128)));
    __local float *sums = (__local float *)tile;

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint part = group_number() / max(tiles, 1u);
    if (tiles == 0 || part >= HEADS) return;
    const uint entry = batch[HEADER_AT_QUERY_TILES] + (tiles - 1 - group_number() % tiles) * 2;
    const uint sequence = batch[entry], tile0 = batch[entry + 1];
    const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    const uint lane = local_number() % WARP, head = local_number() / WARP, column0 = part * HEAD_DIM;
    const uint base = SHARED_ADDRESS(value_tile) + head * KEYS * CHUNKS * 16;
    const float scale = as_float((uint)SCALE) * LOG2E;
    if (tile0 >= length) return;

    /* The head's piece of the weight, pairs of channels of this lane's columns. */
    uint2 weight[CHUNKS][HEAD_DIM / 16];
    UNROLL for (uint j = 0; j < CHUNKS; j++)
    {
        __global const storage *from = out + (column0 + j * 8 + lane / 4) * K + head * HEAD_DIM + lane % 4 * 2;
        UNROLL for (uint s = 0; s < HEAD_DIM / 16; s++)
            weight[j][s] =
                (uint2)(*(__global const uint *)(from + s * 16), *(__global const uint *)(from + s * 16 + 8));
    }

    ROLLED for (uint row0 = tile0; row0 < min(tile0 + TILE_M, length); row0 += 16)
    {
        /* ---- attention: the queries row0 + g and row0 + g + 8 ---- */
        uint4 queries[2][SHARES];
        UNROLL for (uint r = 0; r < 2; r++)
        {
            const uint row = first + min(row0 + r * 8 + lane / 4, length - 1);
            UNROLL for (uint p = 0; p < SHARES; p++)
                queries[r][p] = *(__global const uint4 *)(x + X_OFFSET + row * X_STRIDE + HEAD_AT(head, X_STRIDE) +
                                                          p * 32 + lane % 4 * 8);
        }
        float sum[CHUNKS * 4], largest[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f};
        UNROLL for (uint i = 0; i < CHUNKS * 4; i++) sum[i] = 0.0f;
        ROLLED for (uint key0 = 0; key0 < length; key0 += KEYS)
        {
            warp_barrier(); /* the values of the step before have been read */
            UNROLL for (uint i = 0; i < KEYS * CHUNKS / WARP; i++)
            {
                const uint number = lane + i * WARP, row = number / CHUNKS, chunk = number % CHUNKS;
                copy_async(base + tile_chunk(row, chunk, CHUNKS),
                           v + V_OFFSET + (first + key0 + row) * V_STRIDE + HEAD_AT(head, V_STRIDE) + chunk * 8,
                           key0 + row < length);
            }
            copy_commit();
            float score[KEYS / 8 * 4];
            UNROLL for (uint i = 0; i < KEYS / 8 * 4; i++) score[i] = 0.0f;
            UNROLL for (uint j = 0; j < KEYS / 8; j++)
            {
                const uint row = first + min(key0 + j * 8 + lane / 4, length - 1);
                UNROLL for (uint p = 0; p < SHARES; p++)
                {
                    const uint4 key = *(__global const uint4 *)(w + W_OFFSET + row * W_STRIDE +
                                                                HEAD_AT(head, W_STRIDE) + p * 32 + lane % 4 * 8);
                    const uint4 low = queries[0][p], high = queries[1][p];
                    multiply_add(score + j * 4, (uint4)(low.x, high.x, low.y, high.y), key.x, key.y);
                    multiply_add(score + j * 4, (uint4)(low.z, high.z, low.w, high.w), key.z, key.w);
                }
            }
            UNROLL for (uint i = 0; i < KEYS / 8 * 4; i++)
            {
                const uint key = key0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
#if RELATIVE > 0
                const int offset = (int)key - (int)(row0 + i / 2 % 2 * 8 + lane / 4);
                const float bias = table_bias(relative, batch, head, distance_at(offset)) * LOG2E;
                score[i] = key < length ? fma(score[i], scale, bias) : LOWEST;
#else
                score[i] = key < length ? score[i] * scale : LOWEST;
#endif
            }
            UNROLL for (uint r = 0; r < 2; r++)
            {
                float most = largest[r];
                UNROLL for (uint j = 0; j < KEYS / 8; j++)
                    most = fmax(most, fmax(score[j * 4 + r * 2], score[j * 4 + r * 2 + 1]));
                most = quad_max(most);
                const float shrink = exp2(largest[r] - most);
                largest[r] = most;
                total[r] *= shrink;
                UNROLL for (uint c = 0; c < CHUNKS; c++)
                {
                    sum[c * 4 + r * 2] *= shrink;
                    sum[c * 4 + r * 2 + 1] *= shrink;
                }
                UNROLL for (uint j = 0; j < KEYS / 8; j++)
                {
                    score[j * 4 + r * 2] = exp2(score[j * 4 + r * 2] - most);
                    score[j * 4 + r * 2 + 1] = exp2(score[j * 4 + r * 2 + 1] - most);
                    total[r] += score[j * 4 + r * 2] + score[j * 4 + r * 2 + 1];
                }
            }
            COPY_WAIT(0);
            warp_barrier(); /* all of the warp's values are there */
            UNROLL for (uint j = 0; j < KEYS / 8; j += 2)
            {
                const float *p = score + j * 4;
                const uint4 weights = (uint4)(pack_halves(p[0], p[1]), pack_halves(p[2], p[3]), pack_halves(p[4], p[5]),
                                              pack_halves(p[6], p[7]));
                UNROLL for (uint c = 0; c < CHUNKS; c += 2)
                {
                    const uint4 pair =
                        load_transposed(base + tile_chunk(j * 8 + lane % 16, c + lane / 16, CHUNKS));
                    multiply_add(sum + c * 4, weights, pair.x, pair.y);
                    multiply_add(sum + c * 4 + 4, weights, pair.z, pair.w);
                }
            }
        }

        /* ---- times the head's piece of the weight ---- */
        const float low = 1.0f / quad_sum(total[0]), high = 1.0f / quad_sum(total[1]);
        float product[CHUNKS * 4];
        UNROLL for (uint i = 0; i < CHUNKS * 4; i++) product[i] = 0.0f;
        UNROLL for (uint s = 0; s < HEAD_DIM / 16; s++)
        {
            const float *c = sum + s * 8;
            const uint4 context = (uint4)(pack_halves(c[0] * low, c[1] * low), pack_halves(c[2] * high, c[3] * high),
                                          pack_halves(c[4] * low, c[5] * low), pack_halves(c[6] * high, c[7] * high));
            UNROLL for (uint j = 0; j < CHUNKS; j++)
                multiply_add(product + j * 4, context, weight[j][s].x, weight[j][s].y);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the sums of the rows before any more */
        UNROLL for (uint i = 0; i < 2 * CHUNKS; i++)
            *(__local float2 *)(sums + (head * 16 + i % 2 * 8 + lane / 4) * SUM_STRIDE + i / 2 * 8 + lane % 4 * 2) =
                (float2)(product[i / 2 * 4 + i % 2 * 2], product[i / 2 * 4 + i % 2 * 2 + 1]);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint unit = local_number(); unit < 16 * CHUNKS; unit += LOCAL_SIZE) {
            const uint row = unit / CHUNKS, column = column0 + unit % CHUNKS * 8;
            if (row0 + row < length) {
                LOAD_BIAS(raw_bias, column);
                float f[8];
                UNROLL for (uint c = 0; c < 8; c++) f[c] = 0.0f;
                UNROLL for (uint h = 0; h < HEADS; h++)
                {
                    const __local float4 *from =
                        (const __local float4 *)(sums + (h * 16 + row) * SUM_STRIDE + unit % CHUNKS * 8);
                    const float4 four = from[0], more = from[1];
                    f[0] += four.x;
                    f[1] += four.y;
                    f[2] += four.z;
                    f[3] += four.w;
                    f[4] += more.x;
                    f[5] += more.y;
                    f[6] += more.z;
                    f[7] += more.w;
                }
                FINISH(f, raw_bias, first + row0 + row, column);
            }
        }
    }
}
