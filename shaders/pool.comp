#version 450
#extension GL_GOOGLE_include_directive : require
/* One row per sequence: a mean, one or the largest of its tokens' rows of X, or row s of X itself (POOL_NONE);
 * NORMALIZE divides it by its L2 norm, SUM also stores what it was before. Rows of Y may be pieces of wider ones. A
 * sequence per work-group. Twin of
 * cl/pool.cl.
 *
 * As many tokens as the work-items have rows for (WALKERS) are taken at a time, so that neighbours read one stretch of
 * memory. A work-item has its columns of every WALKERS-th token, in ascending order, eight tokens' loads in flight; then
 * the walkers' sums are added in ascending order. Which tokens a walker has depends on the sequence's own length alone.
 * LOCAL_SIZE: up to 1024, because sequences are few and long; from 32 to 256 where one token is all. Any power of two
 * is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POOL) const uint POOL = POOL_NONE;
layout(constant_id = CONST_NORMALIZE) const uint NORMALIZE = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 0; /* 0: N */
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_IDS, uint, ids);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

const bool OF_TOKENS = POOL == POOL_MEAN || POOL == POOL_MAX || POOL == POOL_SUM || POOL == POOL_SQRT || POOL == POOL_WEIGHTED;
const uint ROW_ITEMS = STEPS > 1 ? LOCAL_SIZE : N / ACCESS;
const uint WALKERS = OF_TOKENS ? LOCAL_SIZE / ROW_ITEMS : 1;
const uint MANY = STEPS > 1 ? 4 : 8; /* tokens on the way */
const uint FEW = OF_TOKENS ? 4 : 1;  /* the same where no more are left */
shared float walked[WALKERS > 1 ? LOCAL_SIZE * ACCESS : 1];
const float NOTHING = POOL == POOL_MAX ? -3.402823466e38 : 0.0;

/* held = held and the tokens token, token + WALKERS, ...; past the last one loads repeat it. The branch also keeps
 * compilers from moving what uses a load ahead of the next loads. */
#define ADD_TOKENS(at_once)                                                                                            \
    {                                                                                                                  \
        raw_access raw[at_once][STEPS];                                                                                \
        UNROLL for (uint a = 0; a < at_once; a++)                                                                      \
        {                                                                                                              \
            const uint at = first + min(token + a * WALKERS, count - 1);                                               \
            UNROLL for (uint i = 0; i < STEPS; i++) { FETCH_ACCESS(raw[a][i], x, at * N + from(i)); }                  \
        }                                                                                                              \
        UNROLL for (uint a = 0; a < at_once; a++)                                                                      \
        {                                                                                                              \
            if (token + a * WALKERS < count) {                                                                         \
                UNROLL for (uint i = 0; i < STEPS; i++)                                                                \
                {                                                                                                      \
                    float v[VECTOR];                                                                                   \
                    UNPACK_ACCESS(raw[a][i], v);                                                                       \
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = together(held[i][c], weigh(v[c], token + a * WALKERS));\
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* A token's value, by its place in the sequence. */
float weigh(const float value, const uint token)
{
    return POOL == POOL_WEIGHTED ? value * float(token + 1) : value;
}

/* What the sum over `count` tokens is multiplied with. */
float share(const uint count)
{
    const float n = float(count);
    return POOL == POOL_SQRT ? 1.0 / sqrt(n) : POOL == POOL_WEIGHTED ? 2.0 / (n * (n + 1.0)) : 1.0 / n;
}

float together(const float a, const float b) { return POOL == POOL_MAX ? max(a, b) : a + b; }

/* The column that step i loads from: that of row.glsl, or what the neighbours' rows leave. */
uint from(const uint i) { return STEPS > 1 ? column_inside(i) : local_number() % ROW_ITEMS * ACCESS; }

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        uint first = row, count = 1;
        if (POOL != POOL_NONE) {
            const uint offsets = batch[HEADER_AT_OFFSETS];
            first = batch[offsets + row];
            const uint length = batch[offsets + row + 1] - first;
            if (OF_TOKENS) count = length;
            if (POOL == POOL_LAST) first += length - 1;
            if (POOL == POOL_ROW) first += ids[row];
        }
        const uint l = local_number(), walker = l / ROW_ITEMS;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = NOTHING;
        }
        uint token = walker < WALKERS ? walker : count;
        for (; token + FEW * WALKERS < count; token += MANY * WALKERS) ADD_TOKENS(MANY);
        if (token < count) ADD_TOKENS(FEW);
        if (WALKERS > 1) {
            if (l >= ROW_ITEMS) {
                UNROLL for (uint c = 0; c < ACCESS; c++) walked[c * LOCAL_SIZE + l] = held[0][c];
            }
            barrier();
            if (l < ROW_ITEMS) {
                for (uint w = 1; w < WALKERS; w++) {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                        held[0][c] = together(held[0][c], walked[c * LOCAL_SIZE + w * ROW_ITEMS + l]);
                }
            }
        }
        if (OF_TOKENS && POOL != POOL_MAX && POOL != POOL_SUM) row_scale(share(count));
        if (SUM != 0) {
            ROW_STORE(sum, row * N);
        }
        if (NORMALIZE != 0) row_scale(1.0 / max(sqrt(row_square_sum()), 1e-12));
        ROW_STORE(y, row * (Y_STRIDE == 0 ? N : Y_STRIDE) + Y_OFFSET);
    }
}
