/* gemm.cl's GEMM_NT for few rows, where what counts is how soon the last sum is there: mma.sync on NVIDIA's GPUs from
 * sm_80 on, 16-bit storage, lengths that are multiples of 8.
 *
 * A work-group computes TILE_M x TILE_N sums, and its warps share k: 32 k in turn for each. A lane loads 16 bytes of
 * each of its rows and columns straight into the registers of the product, all that a warp needs (up to DEPTH times 32
 * k) before it waits for any: the whole product is one trip to memory. Which k a register stands for is the product's
 * own affair, so a lane's eight neighbouring k fill two products. The warps' sums are added in ascending order.
 *
 * SCALES: w has elements of 8 bits, exact in 16-bit floats; sums are scaled when they are added.
 *
 * NORM: x are rows before a layernorm over K, done here in every work-group, which reads all of its rows anyway; the
 * first of a row's work-groups stores what comes of it to `before`. The statistics are those of each warp's share put
 * together, of which the variance is centred before it is added. */
#include "epilogue.h"

#ifndef TILE_M
#define TILE_M 16
#endif
#ifndef TILE_N
#define TILE_N 16
#endif

#define WARPS (LOCAL_SIZE / WARP)
#define TILES_N ((N + TILE_N - 1) / TILE_N)
#define ROWS_M (TILE_M / 8) /* of a lane */
#define FRAGMENTS_N (TILE_N / 8)

/* Times 32 k of a warp, in turns of DEPTH: more would not stay in registers. */
#define SHARE (((K + 31) / 32 + WARPS - 1) / WARPS)
#define MOST (48 / (ROWS_M + (SCALES ? FRAGMENTS_N / 2 : FRAGMENTS_N) + 2 * NORM))
#define DEPTH (SHARE < MOST ? SHARE : MOST)
/* Every turn of every warp has its k. */
#define WHOLE (K % (32 * WARPS) == 0 && SHARE % DEPTH == 0)
#if NORM && SHARE > MOST
#error "a layernorm wants all of a warp's share in registers"
#endif

/* Rows of sums, apart so that a warp's stores touch every bank. */
#define SUM_STRIDE (TILE_N == 8 ? 8 : TILE_N + 8)

/* Eight k from `k` on of row `row`, zeros after the last one. */
INLINE uint4 load_eight(__global const storage *from, const uint stride, const uint row, const uint k)
{
    return WHOLE || k < K ? *(__global const uint4 *)(from + row * stride + k) : (uint4)(0);
}

#if SCALES
typedef uint2 raw_weights;
INLINE uint2 load_weights(__global const char *w, const uint column, const uint k)
{
    return WHOLE || k < K ? *(__global const uint2 *)(w + W_OFFSET + column * W_STRIDE + k) : (uint2)(0);
}

/* Two of 8 bits, each as what it is above -128, become 16-bit floats: 1024 and more have units in their last place. */
INLINE uint widen_pair(const uint biased)
{
    uint pair;
    asm("sub.rn.f16x2 %0, %1, %2;"
        : "=r"(pair)
        : "r"((biased & 0xff) | (biased & 0xff00) << 8 | 0x64006400), "r"(0x64806480));
    return pair;
}

INLINE uint4 widen_weights(const uint2 raw)
{
    const uint2 biased = raw ^ 0x80808080;
    return (uint4)(widen_pair(biased.x), widen_pair(biased.x >> 16), widen_pair(biased.y), widen_pair(biased.y >> 16));
}
#else
typedef uint4 raw_weights;
#define load_weights(w, column, k) load_eight((w) + W_OFFSET, W_STRIDE, column, k)
#define widen_weights(raw) (raw)
#endif

#if NORM
/* raw[i * step] = (x - mean) * scale * gamma + beta */
INLINE uint4 standardize(const uint4 raw, const uint4 raw_gamma, const uint4 raw_beta, const float mean,
                         const float scale)
{
    float v[8], gamma[8], beta[8];
    unpack_vector(raw, v);
    unpack_vector(raw_gamma, gamma);
    unpack_vector(raw_beta, beta);
    UNROLL for (uint c = 0; c < 8; c++) v[c] = fma((v[c] - mean) * scale, gamma[c], beta[c]);
    return (uint4)(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void gemm_small_batch(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    BEGIN_DROPOUT;
    __local float4 tile[WARPS * TILE_M * SUM_STRIDE / 4];
    __local float *sums = (__local float *)tile;
#if NORM
    __local float2 parts[WARPS * TILE_M]; /* of each row a warp's sum, and its squares' around their mean */
#endif
    const uint rows = batch[ROWS];
    const uint row0 = group_number() / TILES_N * TILE_M, column0 = group_number() % TILES_N * TILE_N;
    const uint lane = local_number() % WARP, warp = local_number() / WARP;
    if (row0 >= rows) return;

    /* Past the end the last row or column again: its sums go nowhere. */
    uint row_at[ROWS_M], column_at[FRAGMENTS_N];
    UNROLL for (uint i = 0; i < ROWS_M; i++) row_at[i] = min(row0 + i * 8 + lane / 4, rows - 1);
    UNROLL for (uint j = 0; j < FRAGMENTS_N; j++) column_at[j] = min(column0 + j * 8 + lane / 4, (uint)(N - 1));

    float sum[ROWS_M / 2 * FRAGMENTS_N * 4];
    UNROLL for (uint i = 0; i < ROWS_M / 2 * FRAGMENTS_N * 4; i++) sum[i] = 0.0f;

    ROLLED for (uint first = 0; first < SHARE; first += DEPTH)
    {
        uint4 a[DEPTH][ROWS_M];
        raw_weights b[DEPTH][FRAGMENTS_N];
        UNROLL for (uint d = 0; d < DEPTH; d++)
        {
            const uint k = ((first + d) * WARPS + warp) * 32 + lane % 4 * 8;
            UNROLL for (uint j = 0; j < FRAGMENTS_N; j++) b[d][j] = load_weights(w, column_at[j], k);
            UNROLL for (uint i = 0; i < ROWS_M; i++) a[d][i] = load_eight(x + X_OFFSET, X_STRIDE, row_at[i], k);
        }
#if NORM
        uint4 raw_gamma[DEPTH], raw_beta[DEPTH];
        uint mine = 0; /* k of this warp */
        UNROLL for (uint d = 0; d < DEPTH; d++)
        {
            const uint k = (d * WARPS + warp) * 32;
            raw_gamma[d] = load_eight(gamma, 0, 0, k + lane % 4 * 8);
            raw_beta[d] = load_eight(beta, 0, 0, k + lane % 4 * 8);
            mine += k < K ? min((uint)K - k, 32u) : 0;
        }
        UNROLL for (uint i = 0; i < ROWS_M; i++)
        {
            float part = 0.0f, squares = 0.0f, v[8];
            UNROLL for (uint d = 0; d < DEPTH; d++)
            {
                unpack_vector(a[d][i], v);
                part += sum_eight(v);
            }
            part += shuffle_xor_float(part, 1);
            part += shuffle_xor_float(part, 2);
            const float mean = part / (float)max(mine, 1u);
            UNROLL for (uint d = 0; d < DEPTH; d++)
            {
                unpack_vector(a[d][i], v);
                UNROLL for (uint c = 0; c < 8; c++) v[c] = (v[c] - mean) * (v[c] - mean);
                if ((d * WARPS + warp) * 32 + lane % 4 * 8 < K) squares += sum_eight(v);
            }
            squares += shuffle_xor_float(squares, 1);
            squares += shuffle_xor_float(squares, 2);
            if (lane % 4 == 0) parts[warp * TILE_M + i * 8 + lane / 4] = (float2)(part, squares);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (uint i = 0; i < ROWS_M; i++)
        {
            float total = 0.0f, squares = 0.0f;
            float2 part[WARPS];
            UNROLL for (uint p = 0; p < WARPS; p++)
            {
                part[p] = parts[p * TILE_M + i * 8 + lane / 4];
                total += part[p].x;
            }
            const float mean = total / (float)(K);
            UNROLL for (uint p = 0; p < WARPS; p++)
            {
                /* The warp's k, as above, known to the compiler. */
                uint share = 0;
                UNROLL for (uint d = 0; d < DEPTH; d++)
                    share += (d * WARPS + p) * 32 < K ? min((uint)K - (d * WARPS + p) * 32, 32u) : 0;
                const float apart = share != 0 ? part[p].x / (float)share - mean : 0.0f;
                squares += fma((float)share * apart, apart, part[p].y);
            }
            const float scale = 1.0f / sqrt(squares / (float)(K) + as_float((uint)(EPSILON)));
            UNROLL for (uint d = 0; d < DEPTH; d++)
            {
                const uint k = (d * WARPS + warp) * 32 + lane % 4 * 8, row = row0 + i * 8 + lane / 4;
                a[d][i] = standardize(a[d][i], raw_gamma[d], raw_beta[d], mean, scale);
#if SUM
                if (column0 == 0 && row < rows && k < K) *(__global uint4 *)(before + row * K + k) = a[d][i];
#endif
            }
        }
#endif
        UNROLL for (uint d = 0; d < DEPTH; d++)
        {
            UNROLL for (uint j = 0; j < FRAGMENTS_N; j++)
            {
                const uint4 columns = widen_weights(b[d][j]);
                UNROLL for (uint i = 0; i < ROWS_M; i += 2)
                {
                    float *to = sum + (i / 2 * FRAGMENTS_N + j) * 4;
                    const uint4 low = a[d][i], high = a[d][i + 1];
                    multiply_add(to, (uint4)(low.x, high.x, low.y, high.y), columns.x, columns.y);
                    multiply_add(to, (uint4)(low.z, high.z, low.w, high.w), columns.z, columns.w);
                }
            }
        }
    }

    UNROLL for (uint i = 0; i < ROWS_M; i++)
    {
        UNROLL for (uint j = 0; j < FRAGMENTS_N; j++)
        {
            const float *from = sum + (i / 2 * FRAGMENTS_N + j) * 4 + i % 2 * 2;
            *(__local float2 *)(sums + (warp * TILE_M + i * 8 + lane / 4) * SUM_STRIDE + j * 8 + lane % 4 * 2) =
                (float2)(from[0], from[1]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint unit = local_number(); unit < TILE_M * FRAGMENTS_N; unit += LOCAL_SIZE) {
        const uint in_tile = unit / FRAGMENTS_N, row = row0 + in_tile, column = column0 + unit % FRAGMENTS_N * 8;
        if (row < rows && column < N) {
            LOAD_BIAS(raw_bias, column);
            float v[8];
            UNROLL for (uint c = 0; c < 8; c++) v[c] = 0.0f;
            UNROLL for (uint p = 0; p < WARPS; p++)
            {
                const __local float4 *from =
                    (const __local float4 *)(sums + (p * TILE_M + in_tile) * SUM_STRIDE + unit % FRAGMENTS_N * 8);
                const float4 low = from[0], high = from[1];
                v[0] += low.x;
                v[1] += low.y;
                v[2] += low.z;
                v[3] += low.w;
                v[4] += high.x;
                v[5] += high.y;
                v[6] += high.z;
                v[7] += high.w;
            }
#if SCALES
            UNROLL for (uint c = 0; c < 8; c++) v[c] *= scales[column + c];
#endif
            FINISH(v, raw_bias, row, column);
        }
    }
}
