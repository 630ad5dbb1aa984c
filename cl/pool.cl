/* One row per sequence: a mean, one or the largest of its tokens' rows of X, or row s of X itself (POOL_NONE);
 * NORMALIZE divides it by its L2 norm, SUM also stores what it was before. Rows of Y may be pieces of wider ones. A
 * sequence per work-group. Twin of
 * shaders/pool.comp.
 *
 * As many tokens as the work-items have rows for (WALKERS) are taken at a time, so that neighbours read one stretch of
 * memory. A work-item has its columns of every WALKERS-th token, in ascending order, eight tokens' loads in flight; then
 * the walkers' sums are added in ascending order. Which tokens a walker has depends on the sequence's own length alone.
 * LOCAL_SIZE: up to 1024, because sequences are few and long; from 32 to 256 where one token is all. Any power of two
 * is right. */
#include "common.h"

#ifndef POOL
#define POOL POOL_NONE
#endif
#ifndef NORMALIZE
#define NORMALIZE 0
#endif
#ifndef SUM
#define SUM 0
#endif
#include "row.h"

#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

#define OF_TOKENS (POOL == POOL_MEAN || POOL == POOL_MAX || POOL == POOL_SUM || POOL == POOL_SQRT || POOL == POOL_WEIGHTED)
#define ROW_ITEMS (STEPS > 1 ? LOCAL_SIZE : N / ACCESS)
#define WALKERS (OF_TOKENS ? LOCAL_SIZE / ROW_ITEMS : 1)
#define MANY (STEPS > 1 ? 4 : 8) /* tokens on the way */
#define FEW (OF_TOKENS ? 4 : 1)  /* the same where no more are left */
#define NOTHING (POOL == POOL_MAX ? -FLT_MAX : 0.0f)

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
                    float v[ACCESS];                                                                                   \
                    UNPACK_ACCESS(raw[a][i], v);                                                                       \
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = together(held[i][c], weigh(v[c], token + a * WALKERS));\
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* A token's value, by its place in the sequence. */
static inline float weigh(const float value, const uint token)
{
    return POOL == POOL_WEIGHTED ? value * (float)(token + 1) : value;
}

/* What the sum over `count` tokens is multiplied with. */
static inline float share(const uint count)
{
    const float n = (float)count;
    return POOL == POOL_SQRT ? 1.0f / sqrt(n) : POOL == POOL_WEIGHTED ? 2.0f / (n * (n + 1.0f)) : 1.0f / n;
}

static inline float together(const float a, const float b) { return POOL == POOL_MAX ? max(a, b) : a + b; }

/* The column that step i loads from: that of row.h, or what the neighbours' rows leave. */
static inline uint from(const uint i) { return STEPS > 1 ? column_inside(i) : local_number() % ROW_ITEMS * ACCESS; }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void pool(BATCH_ARGUMENT
    , INPUT(x)
#if POOL == POOL_ROW
    , INPUT_OF(uint, ids)
#endif
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if POOL == POOL_ROW
    BEGIN_OF(uint, ids);
#endif
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
#if WALKERS > 1
    __local float walked[LOCAL_SIZE * ACCESS];
#endif
    const uint row = group_number();
    if (row < batch[ROWS]) {
        uint first = row, count = 1;
        if (POOL != POOL_NONE) {
            const uint offsets = batch[HEADER_AT_OFFSETS];
            first = batch[offsets + row];
            const uint length = batch[offsets + row + 1] - first;
            if (OF_TOKENS) count = length;
            if (POOL == POOL_LAST) first += length - 1;
#if POOL == POOL_ROW
            first += ids[row];
#endif
        }
        const uint l = local_number(), walker = l / ROW_ITEMS;
        float held[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = NOTHING;
        }
        uint token = walker < WALKERS ? walker : count;
        for (; token + FEW * WALKERS < count; token += MANY * WALKERS) ADD_TOKENS(MANY);
        if (token < count) ADD_TOKENS(FEW);
#if WALKERS > 1
        if (l >= ROW_ITEMS) {
            UNROLL for (uint c = 0; c < ACCESS; c++) walked[c * LOCAL_SIZE + l] = held[0][c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < ROW_ITEMS) {
            for (uint w = 1; w < WALKERS; w++) {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                    held[0][c] = together(held[0][c], walked[c * LOCAL_SIZE + w * ROW_ITEMS + l]);
            }
        }
#endif
        if (OF_TOKENS && POOL != POOL_MAX && POOL != POOL_SUM) row_scale(held, share(count));
#if SUM
        BEGIN_OUTPUT(sum);
        ROW_STORE(sum, row * N);
#endif
        if (NORMALIZE != 0) row_scale(held, 1.0f / max(sqrt(row_square_sum(held, scratch)), 1e-12f));
        ROW_STORE(y, row * Y_STRIDE + Y_OFFSET);
#if WALKERS > 1
        LAST_BARRIER;
#endif
    }
}
