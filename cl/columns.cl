/* v = dropout(X) * derivative(saved), and partials [part][N] = the sum of v over the PART_ROWS rows of each part;
 * COLUMN_SUMS 1 also stores v to Y, 2 the sums alone. Twin of shaders/columns.comp.
 *
 * A work-group walks over one part's rows of TILE_N = LOCAL_SIZE * ACCESS columns, which belong to its work-items: a
 * column is summed in ascending order in one register. AT_ONCE rows' loads are in flight, the last rows' too, where
 * some repeat. LOCAL_SIZE: the power of two up to 256 that leaves the fewest work-items idle. Any is right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef X_STRIDE
#define X_STRIDE N
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 1
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "dropout.h"
#include "formulas.h"

#define TILES ((N + LOCAL_SIZE * ACCESS - 1) / (LOCAL_SIZE * ACCESS))
#define AT_ONCE (DERIVATIVE != ACTIVATION_NONE ? 4 : 8)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void columns(BATCH_ARGUMENT
    , INPUT(x)
#if DERIVATIVE
    , INPUT(saved)
#endif
    , OUTPUT_OF(float, partials)
#if COLUMN_SUMS == 1
    , OUTPUT(y)
#endif
#if DROPOUT
    , const uint site
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if DERIVATIVE
    BEGIN(saved);
#endif
    BEGIN_OUTPUT_OF(float, partials);
#if COLUMN_SUMS == 1
    BEGIN_OUTPUT(y);
#endif
    const uint column = (group_number() % TILES * LOCAL_SIZE + local_number()) * ACCESS;
    const uint part = group_number() / TILES;
    const uint end = min((part + 1) * PART_ROWS, batch[ROWS]);
    if (part * PART_ROWS < end && column < N) {
        float sum[ACCESS];
        UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = 0.0f;
        for (uint first = part * PART_ROWS; first < end; first += AT_ONCE) {
            raw_access raw[AT_ONCE], raw_saved[AT_ONCE];
            UNROLL for (uint r = 0; r < AT_ONCE; r++)
            {
                FETCH_ACCESS(raw[r], x, min(first + r, end - 1) * X_STRIDE + column);
#if DERIVATIVE
                FETCH_ACCESS(raw_saved[r], saved, min(first + r, end - 1) * N + column);
#endif
            }
            UNROLL for (uint r = 0; r < AT_ONCE; r++)
            {
                if (first + r < end) {
                    float v[ACCESS];
                    UNPACK_ACCESS(raw[r], v);
#if KEPT
                    UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= DROPOUT_SCALE;
#elif DROPOUT
                    dropout_access(v, batch, site, first + r, column);
#endif
#if DERIVATIVE
                    float s[ACCESS];
                    UNPACK_ACCESS(raw_saved[r], s);
                    UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= derivative(DERIVATIVE, s[c]);
#endif
#if COLUMN_SUMS == 1
                    STORE_ACCESS(y, (first + r) * N + column, v);
#endif
                    UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] += v[c];
                }
            }
        }
        STORE_FLOATS(partials, part * N + column, sum);
    }
}
