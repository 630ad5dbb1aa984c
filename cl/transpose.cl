/* Y[m][n] = X[n][m], of sizes that are the model's. Twin of shaders/transpose.comp.
 *
 * A work-group turns a tile of TILE_M x TILE_N of the output, columns fastest, in local memory. STRIP neighbours load
 * STRIP elements of each of ACCESS rows, and store them likewise: whole 64 bytes of a row at least, and with one element
 * more than a tile's row from one to the next the STRIP words that they touch in local memory, down a column or along a
 * row, lie in different banks. All loads of a work-item are in flight before the first is needed. Both tile sizes are
 * powers of two and multiples of STRIP, LOCAL_SIZE is at most TILE_M * TILE_N / VECTOR. */
#include "common.h"

#ifndef M
#define M 32
#endif
#ifndef N
#define N 32
#endif
#ifndef TILE_M
#define TILE_M 32
#endif
#ifndef TILE_N
#define TILE_N 32
#endif

#define STRIP 32
#define STEPS (TILE_M * TILE_N / ACCESS / LOCAL_SIZE)
/* Row and column of an access in a tile whose rows are of `width`. */
#define ROW_OF(access, width) ((access) / STRIP / ((width) / STRIP) * ACCESS + (access) % ACCESS)
#define COLUMN_OF(access, width) ((access) / STRIP % ((width) / STRIP) * STRIP + (access) % STRIP / ACCESS * ACCESS)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void transpose(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float tile[TILE_N * (TILE_M + 1)];
    const uint tiles = (N + TILE_N - 1) / TILE_N;
    const uint m0 = group_number() / tiles * TILE_M, n0 = group_number() % tiles * TILE_N;
    raw_access raw[STEPS];
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        const uint access = local_number() + i * LOCAL_SIZE;
        const uint n = n0 + ROW_OF(access, TILE_M), m = m0 + COLUMN_OF(access, TILE_M);
        if (n < N && m < M) {
            FETCH_ACCESS(raw[i], x, n * M + m);
        }
    }
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        const uint access = local_number() + i * LOCAL_SIZE;
        const uint row = ROW_OF(access, TILE_M), column = COLUMN_OF(access, TILE_M);
        if (n0 + row < N && m0 + column < M) {
            float v[ACCESS];
            UNPACK_ACCESS(raw[i], v);
            UNROLL for (uint c = 0; c < ACCESS; c++) tile[row * (TILE_M + 1) + column + c] = v[c];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_STORES for (uint i = 0; i < STEPS; i++)
    {
        const uint access = local_number() + i * LOCAL_SIZE;
        const uint row = ROW_OF(access, TILE_N), column = COLUMN_OF(access, TILE_N);
        if (m0 + row < M && n0 + column < N) {
            float v[ACCESS];
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = tile[(column + c) * (TILE_M + 1) + row];
            STORE_ACCESS(y, (m0 + row) * N + n0 + column, v);
        }
    }
}
