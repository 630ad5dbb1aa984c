/* C[m][n] = the sum over k of A[m][k] B[k][n], for each product of a batch, with the letters of A, B and C in any orders,
 * for measuring alone (docs/layouts.md): no session runs it. Twin of shaders/layout_product.comp;
 * core/interface/layouts.h says what the constants are.
 *
 * A work-group has a tile of 64 by 64, in steps of 16 along k through local memory; a work-item 8 by 4 of it. A and B
 * are the two operands in X. They are read 16 bytes at a time where their fastest letter allows it. */
#include "common.h"
#include "layouts.h"

#define GROUP(l) (BATCHED >> (2 * (l)) & 3u)
#define FASTER(order, l, m) LAYOUT_FASTER(order, l, m)
#define STRIDE(order, l)                                                                                               \
    (LAYOUT_RANK(order, l) == LAYOUT_ABSENT ? 0u                                                                       \
                                            : FASTER(order, l, 0) * FASTER(order, l, 1) * FASTER(order, l, 2) *        \
                                                  FASTER(order, l, 3) * FASTER(order, l, 4) * FASTER(order, l, 5))
/* Elements of a group that one value of letter l counts. */
#define AFTER(l, m) ((m) <= (l) ? 1u : GROUP(m) == GROUP(l) ? LAYOUT_SIZE(m) : 1u)
#define BELOW(l) (AFTER(l, 1) * AFTER(l, 2) * AFTER(l, 3) * AFTER(l, 4) * AFTER(l, 5))
#define IN(group, l) (GROUP(l) == (group) ? LAYOUT_SIZE(l) : 1u)
#define EXTENT(group) (IN(group, 0) * IN(group, 1) * IN(group, 2) * IN(group, 3) * IN(group, 4) * IN(group, 5))
#define PART(order, group, l, i) (GROUP(l) == (group) ? (i) / BELOW(l) % LAYOUT_SIZE(l) * STRIDE(order, l) : 0u)
/* Where value i of a group lies in a tensor. */
#define SPREAD(order, group, i)                                                                                        \
    (PART(order, group, 0, i) + PART(order, group, 1, i) + PART(order, group, 2, i) + PART(order, group, 3, i) +       \
     PART(order, group, 4, i) + PART(order, group, 5, i))
#define TILES(group) ((EXTENT(group) + LAYOUT_TILE - 1u) / LAYOUT_TILE)

#define A_ALONG_K ((V_STRIDE & LAYOUT_A_ALONG_K) != 0u)
#define B_ALONG_K ((V_STRIDE & LAYOUT_B_ALONG_K) != 0u)
#define A_WIDE ((V_STRIDE & LAYOUT_A_WIDE) != 0u)
#define B_WIDE ((V_STRIDE & LAYOUT_B_WIDE) != 0u)
#define LOADS (LAYOUT_TILE * LAYOUT_DEPTH / LAYOUT_ITEMS / VECTOR)
#define ROW_WORDS (LAYOUT_TILE + 4)

/* A tile of one operand, 16 values of k by 64 of the group, to local memory; 0 beyond the ends. */
#define LOAD_TILE(tile, order, group, along_k, wide, from, first)                                                      \
    for (uint load = 0; load < LOADS; load++) {                                                                        \
        const uint q = l + load * LAYOUT_ITEMS;                                                                        \
        const uint k = along_k ? q % (LAYOUT_DEPTH / VECTOR) * VECTOR : q / (LAYOUT_TILE / VECTOR);                    \
        const uint r = along_k ? q / (LAYOUT_DEPTH / VECTOR) : q % (LAYOUT_TILE / VECTOR) * VECTOR;                    \
        float v[VECTOR];                                                                                               \
        UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = 0.0f;                                                          \
        if (wide) {                                                                                                    \
            if (first + r < EXTENT(group) && k0 + k < EXTENT(LAYOUT_K)) {                                              \
                LOAD_VECTOR(x, from + SPREAD(order, group, first + r) + SPREAD(order, LAYOUT_K, k0 + k), v);           \
            }                                                                                                          \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < VECTOR; c++)                                                                   \
            {                                                                                                          \
                const uint kc = k0 + k + (along_k ? c : 0u), rc = first + r + (along_k ? 0u : c);                      \
                if (rc < EXTENT(group) && kc < EXTENT(LAYOUT_K))                                                       \
                    v[c] = LOAD(x, from + SPREAD(order, group, rc) + SPREAD(order, LAYOUT_K, kc));                     \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
            tile[(k + (along_k ? c : 0u)) * ROW_WORDS + r + (along_k ? 0u : c)] = v[c];                                \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layout_product(BATCH_ARGUMENT, INPUT(x), OUTPUT(y))
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float tile_a[LAYOUT_DEPTH * ROW_WORDS], tile_b[LAYOUT_DEPTH * ROW_WORDS];
    const uint l = local_number(), group = group_number();
    if (batch[LAYOUT_LIVE] != 0 && group < TILES(LAYOUT_M) * TILES(LAYOUT_N) * EXTENT(LAYOUT_BATCH)) {
        const uint n0 = group % TILES(LAYOUT_N) * LAYOUT_TILE;
        const uint m0 = group / TILES(LAYOUT_N) % TILES(LAYOUT_M) * LAYOUT_TILE;
        const uint product = group / (TILES(LAYOUT_N) * TILES(LAYOUT_M));
        const uint from_a = batch[LAYOUT_INPUTS] + SPREAD(X_STRIDE, LAYOUT_BATCH, product);
        const uint from_b = batch[LAYOUT_INPUTS + 1] + SPREAD(W_STRIDE, LAYOUT_BATCH, product);
        const uint to = batch[LAYOUT_OUTPUTS] + SPREAD(Y_STRIDE, LAYOUT_BATCH, product);
        const uint row = l / 16 * 8, column = l % 16 * 4;
        float sum[8][4];
        UNROLL for (uint i = 0; i < 8; i++)
        {
            UNROLL for (uint j = 0; j < 4; j++) sum[i][j] = 0.0f;
        }
        for (uint k0 = 0; k0 < EXTENT(LAYOUT_K); k0 += LAYOUT_DEPTH) {
            LOAD_TILE(tile_a, X_STRIDE, LAYOUT_M, A_ALONG_K, A_WIDE, from_a, m0)
            LOAD_TILE(tile_b, W_STRIDE, LAYOUT_N, B_ALONG_K, B_WIDE, from_b, n0)
            barrier(CLK_LOCAL_MEM_FENCE);
            UNROLL for (uint k = 0; k < LAYOUT_DEPTH; k++)
            {
                float a[8], b[4];
                UNROLL for (uint i = 0; i < 8; i++) a[i] = tile_a[k * ROW_WORDS + row + i];
                UNROLL for (uint j = 0; j < 4; j++) b[j] = tile_b[k * ROW_WORDS + column + j];
                UNROLL for (uint i = 0; i < 8; i++)
                {
                    UNROLL for (uint j = 0; j < 4; j++) sum[i][j] = fma(a[i], b[j], sum[i][j]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        UNROLL_STORES for (uint i = 0; i < 8; i++)
        {
            UNROLL_STORES for (uint j = 0; j < 4; j++)
            {
                const uint m = m0 + row + i, n = n0 + column + j;
                if (m < EXTENT(LAYOUT_M) && n < EXTENT(LAYOUT_N))
                    STORE(y, to + SPREAD(Y_STRIDE, LAYOUT_M, m) + SPREAD(Y_STRIDE, LAYOUT_N, n), sum[i][j]);
            }
        }
        LAST_BARRIER;
    }
}
