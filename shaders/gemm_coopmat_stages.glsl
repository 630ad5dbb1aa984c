/* Stages of a product on cooperative matrices: how its operands' vectors come from memory to registers and from there to
 * shared memory. Included by gemm_coopmat_tile.glsl. A shader may have defined before
 * X_AT(r, row, k), W_AT(r, row, k): where the operand's elements from `row` and `k` on begin, a multiple of 8; `r`: its row
 *     of the stage in shared memory, or one past the last;
 * WIDENS: whether w has elements of 8 bits, w_bytes;
 * STAGES_MORE: vectors of shared memory after the stages. */
#ifndef X_AT
#define X_AT(r, row, k) (X_OFFSET + (X_MAJOR ? (k) * X_STRIDE + (row) : (row) * X_STRIDE + (k)))
#define W_AT(r, row, k) (W_OFFSET + (W_MAJOR ? (k) * W_STRIDE + (row) : (row) * W_STRIDE + (k)))
#endif
#ifdef WIDENS
#define BYTES_OF_W(at) uvec4(w_bytes[at], 0, 0)
#else
#define WIDENS false
#define BYTES_OF_W(at) uvec4(0)
#endif
#ifndef STAGES_MORE
#define STAGES_MORE 0
#endif

/* A stage lies in shared memory as in memory, in vectors of 16 bytes, with one more at the end of each row: then rows
 * that are read together begin in different banks. */
#define X_WIDTH ((X_MAJOR ? TILE_M : TILE_K) / 8)
#define W_WIDTH ((W_MAJOR ? TILE_N : TILE_K) / 8)
#define X_PITCH (X_WIDTH + 1)
#define W_PITCH (W_WIDTH + 1)
#define X_VECTORS ((X_MAJOR ? TILE_K : TILE_M) * X_PITCH)
#define W_VECTORS ((W_MAJOR ? TILE_K : TILE_N) * W_PITCH)
#define STAGE_VECTORS (X_VECTORS + W_VECTORS)
#define SUMS_PITCH (THREAD_N / 4 + 1)
#define STAGE_LEAST (PIECES * SPLIT * SUMS_PITCH * MATRIX_M)
#define PLACE (STAGES * STAGE_VECTORS > STAGE_LEAST ? STAGES * STAGE_VECTORS : STAGE_LEAST)
shared uvec4 stages[PLACE + STAGES_MORE];

/* Its vectors are distributed in the order of memory. */
#define X_LOADS ((TILE_M * TILE_K / 8 + LOCAL_SIZE - 1) / LOCAL_SIZE)
#define W_LOADS ((TILE_N * TILE_K / 8 + LOCAL_SIZE - 1) / LOCAL_SIZE)
/* Where there are many, the last stage is loaded once more instead of asking whether there is a next one: on an H200 420
 * us instead of 440 for 4096 x 4096 x 4096. */
#define LOADS_ALWAYS (RUNTIME == RUNTIME_K ? false : K >= 32 * TILE_K)
/* Whether the registers in which stages come are free while the last one is multiplied. */
#define ENDS_FREE (LOADS_ALWAYS ? false : RUNTIME != RUNTIME_K)
/* Stages end where the sum does. */
#define WHOLE_STAGES (RUNTIME == RUNTIME_K ? false : K % TILE_K == 0)
/* It may end within a vector of x. */
#define CUT_VECTORS (RUNTIME == RUNTIME_K ? !X_MAJOR : false)
uvec4 raw_x[X_LOADS], raw_w[W_LOADS];

/* Row and place in it of this work-item's vector i of an operand. */
uint vector_row(const uint width, const uint i)
{
    return LOCAL_SIZE % width == 0 ? local_number() / width + i * (LOCAL_SIZE / width)
                                   : (local_number() + i * LOCAL_SIZE) / width;
}
uint vector_place(const uint width, const uint i)
{
    return LOCAL_SIZE % width == 0 ? local_number() % width : (local_number() + i * LOCAL_SIZE) % width;
}

/* Where the last vector of a row of so many elements begins. */
#define LAST_VECTOR(size) (((size) + 7) / 8 * 8 - 8)

/* Starts the loads of one operand's part of the stage at k0. Past the end of rows or of k the last vector is loaded
 * again, for a load under a condition would be waited for; outputs past the end are not stored, and put_stage makes 0 of
 * what lies beyond k. `row0`: first row of the tile, or column. */
#define FETCH(raw, elements, loads, vectors, width, major, row0, end, place)                                           \
    UNROLL for (uint i = 0; i < (loads); i++)                                                                          \
    {                                                                                                                  \
        const uint r = vector_row(width, i), c = vector_place(width, i) * 8;                                           \
        const uint row = min((row0) + ((major) ? c : r), (major) ? LAST_VECTOR(end) : (end)-1);                        \
        const uint k = k0 + ((major) ? r : c);                                                                         \
        const bool within = WHOLE_STAGES && !LOADS_ALWAYS && (vectors) % LOCAL_SIZE == 0;                              \
        const uint k_there = within ? k : min(k, (major) ? depth - 1 : LAST_VECTOR(depth));                            \
        raw[i] = elements(place(r, row, k_there) / 8);                                                                 \
    }
#define ELEMENTS_OF_X(at) x_wide[at]
#define ELEMENTS_OF_W(at) w_wide[at]
#define PUT(raw, loads, vectors, width, pitch, major, at)                                                              \
    UNROLL for (uint i = 0; i < (loads); i++)                                                                          \
    {                                                                                                                  \
        const uint r = vector_row(width, i), c = vector_place(width, i);                                               \
        const bool there = WHOLE_STAGES || k0 + ((major) ? r : c * 8) < depth;                                         \
        if ((vectors) % LOCAL_SIZE == 0 || local_number() + i * LOCAL_SIZE < (vectors))                                \
            stages[(at) + r * (pitch) + c] = there ? raw[i] : uvec4(0);                                                \
    }

void fetch_stage(const uint k0, const uint depth, const uint row0, const uint row_end, const uint column0,
                const uint column_end)
{
    FETCH(raw_x, ELEMENTS_OF_X, X_LOADS, TILE_M * TILE_K / 8, X_WIDTH, X_MAJOR, row0, row_end, X_AT)
    if (WIDENS) {
        FETCH(raw_w, BYTES_OF_W, W_LOADS, TILE_N * TILE_K / 8, W_WIDTH, W_MAJOR, column0, column_end, W_AT)
    } else {
        FETCH(raw_w, ELEMENTS_OF_W, W_LOADS, TILE_N * TILE_K / 8, W_WIDTH, W_MAJOR, column0, column_end, W_AT)
    }
}

void put_stage(const uint at, const uint k0, const uint depth)
{
    if (CUT_VECTORS && k0 + TILE_K > depth) {
        UNROLL
        for (uint i = 0; i < X_LOADS; i++) {
            const uvec4 k = k0 + vector_place(X_WIDTH, i) * 8 + uvec4(0, 2, 4, 6);
            const uvec4 first = mix(uvec4(0), uvec4(0xffff), lessThan(k, uvec4(depth)));
            raw_x[i] &= mix(first, uvec4(0xffffffffu), lessThan(k + 1, uvec4(depth)));
        }
    }
    PUT(raw_x, X_LOADS, TILE_M * TILE_K / 8, X_WIDTH, X_PITCH, X_MAJOR, at)
    if (WIDENS) {
        UNROLL
        for (uint i = 0; i < W_LOADS; i++) WIDEN_BYTES(raw_w[i])
    }
    PUT(raw_w, W_LOADS, TILE_N * TILE_K / 8, W_WIDTH, W_PITCH, W_MAJOR, at + X_VECTORS)
}
