/* The innermost loop of products of bf16: a tile of sums in f32, by the instructions that multiply pairs. Each sum is
 * one chain over ascending pairs of k, whatever tile it stands in, so that a row's results do not depend on its
 * neighbours; the instruction says how it rounds (docs/design.md: bf16).
 *
 * The first operand's rows lie BF16_A_ROW apart, the second is a panel [k / 2][TILE_COLUMNS][2]. Depths are multiples
 * of BF16_DEPTH_UNIT, with zeros after the last k. */
#ifndef WHERRY_CPU_TILE_BF16_H
#define WHERRY_CPU_TILE_BF16_H

#include "backends/cpu/step.h"
#include "tile.h"

typedef int32_t loose_int __attribute__((aligned(2), may_alias));

enum {
    BF16_DEPTH_UNIT = 32, /* a line of the cache, and a row of a tile of AMX's */
    BF16_DEPTH_MOST = 512,
    BF16_A_ROW = BF16_DEPTH_MOST + BF16_DEPTH_UNIT, /* no power of two: its lines are in different sets of the cache */
    BF16_LINE = 32,
    BF16_STEP = BF16_DEPTH_UNIT * TILE_COLUMNS /* of a panel, in elements */
};

/* `lines` lines of what will be read next. */
INLINE void bf16_fetch(const uint16_t *ahead, size_t lines)
{
    for (size_t i = 0; i < lines; i++) v_prefetch_far(ahead + i * BF16_LINE);
}

/* 32 floats, rounded to nearest. */
INLINE __m512i bf16_round(vec low, vec high) { return (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }

static inline size_t bf16_depth(size_t k) { return blocks_of(k, BF16_DEPTH_UNIT) * BF16_DEPTH_UNIT; }

#ifdef __AMX_BF16__

/* ---- AMX: tiles of 16 x 16 sums, and 32 products for each at once ---- */

enum { BF16_TILE_ROWS = 32, BF16_BLOCK_ROWS = 64, BF16_BLOCK_PANELS = 8 };

/* All eight of 16 rows of 64 bytes: processor manual, "tile configuration". */
struct tile_configuration {
    uint8_t palette, start_row, zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static inline void bf16_begin(void)
{
    static const struct tile_configuration all = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
    /* The compiler does not know that tiles read what is in memory. */
    __asm__ volatile("" ::: "memory");
}

static inline void bf16_end(void) { _tile_release(); }

#define A_BYTES (BF16_A_ROW * sizeof(uint16_t))
#define B_BYTES (TILE_COLUMNS * 2 * sizeof(uint16_t))
#define C_BYTES (c_row * sizeof(float))

/* Up to 16 rows. */
static inline void bf16_tile_16(const uint16_t *a, const uint16_t *b, const uint16_t *ahead, size_t depth, float *c,
                                size_t c_row, bool add)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    if (add) {
        _tile_loadd(0, c, C_BYTES);
        _tile_loadd(1, c + 16, C_BYTES);
        _tile_loadd(2, c + 32, C_BYTES);
    }
    for (size_t k = 0; k < depth; k += BF16_DEPTH_UNIT, a += BF16_DEPTH_UNIT, b += BF16_STEP) {
        if (ahead) bf16_fetch(ahead + k * TILE_COLUMNS, BF16_STEP / BF16_LINE);
        _tile_loadd(6, a, A_BYTES);
        _tile_loadd(3, b, B_BYTES);
        _tile_dpbf16ps(0, 6, 3);
        _tile_loadd(4, b + 32, B_BYTES);
        _tile_dpbf16ps(1, 6, 4);
        _tile_loadd(5, b + 64, B_BYTES);
        _tile_dpbf16ps(2, 6, 5);
    }
    _tile_stored(0, c, C_BYTES);
    _tile_stored(1, c + 16, C_BYTES);
    _tile_stored(2, c + 32, C_BYTES);
}

/* Up to 32: six tiles of sums; of the two that are left each new one is multiplied with the one before. */
static inline void bf16_tile_32(const uint16_t *a, const uint16_t *b, const uint16_t *ahead, size_t depth, float *c,
                                size_t c_row, bool add)
{
    float *c1 = c + 16 * c_row;
    const uint16_t *a1 = a + 16 * BF16_A_ROW;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    if (add) {
        _tile_loadd(0, c, C_BYTES);
        _tile_loadd(1, c + 16, C_BYTES);
        _tile_loadd(2, c + 32, C_BYTES);
        _tile_loadd(3, c1, C_BYTES);
        _tile_loadd(4, c1 + 16, C_BYTES);
        _tile_loadd(5, c1 + 32, C_BYTES);
    }
    for (size_t k = 0; k < depth; k += BF16_DEPTH_UNIT, b += BF16_STEP) {
        if (ahead) bf16_fetch(ahead + k * TILE_COLUMNS, BF16_STEP / BF16_LINE);
        _tile_loadd(6, a + k, A_BYTES);
        _tile_loadd(7, b, B_BYTES);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(6, a1 + k, A_BYTES);
        _tile_dpbf16ps(3, 6, 7);
        _tile_loadd(7, b + 32, B_BYTES);
        _tile_dpbf16ps(4, 6, 7);
        _tile_loadd(6, a + k, A_BYTES);
        _tile_dpbf16ps(1, 6, 7);
        _tile_loadd(7, b + 64, B_BYTES);
        _tile_dpbf16ps(2, 6, 7);
        _tile_loadd(6, a1 + k, A_BYTES);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_stored(0, c, C_BYTES);
    _tile_stored(1, c + 16, C_BYTES);
    _tile_stored(2, c + 32, C_BYTES);
    _tile_stored(3, c1, C_BYTES);
    _tile_stored(4, c1 + 16, C_BYTES);
    _tile_stored(5, c1 + 32, C_BYTES);
}

#undef A_BYTES
#undef B_BYTES
#undef C_BYTES

static void bf16_tile(size_t rows, const uint16_t *a, const uint16_t *b, const uint16_t *ahead, size_t depth, float *c,
                      size_t c_row, bool add)
{
    if (rows > 16)
        bf16_tile_32(a, b, ahead, depth, c, c_row, add);
    else
        bf16_tile_16(a, b, ahead, depth, c, c_row, add);
}

#else

/* ---- AVX512-BF16: vectors of 16 sums, and 2 products for each at once ---- */

enum { BF16_TILE_ROWS = TILE_ROWS, BF16_BLOCK_ROWS = 64, BF16_BLOCK_PANELS = 16 };

static inline void bf16_begin(void) {}
static inline void bf16_end(void) {}

/* Inlined with constants. */
INLINE void bf16_multiply(const int rows, const uint16_t *a, const uint16_t *b, const uint16_t *ahead, size_t depth,
                          float *c, size_t c_row, bool add)
{
    vec sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = add ? v_load(c + i * c_row + j * LANES) : v_zero();
    }
    for (size_t k = 0; k < depth; k += 2, a += 2, b += 2 * TILE_COLUMNS) {
        if (ahead) bf16_fetch(ahead + k * TILE_COLUMNS, TILE_VECTORS);
        __m512i columns[TILE_VECTORS];
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) columns[j] = _mm512_loadu_si512(b + j * 2 * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            int32_t pair = *(const loose_int *)(const void *)(a + i * BF16_A_ROW);
            __m512i value = _mm512_set1_epi32(pair);
            UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] =
                (vec)_mm512_dpbf16_ps((__m512)sum[i][j], (__m512bh)value, (__m512bh)columns[j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) v_store(c + i * c_row + j * LANES, sum[i][j]);
    }
}

/* c has room for the next power of two of rows, and the first operand has zeros there. */
static void bf16_tile(size_t rows, const uint16_t *a, const uint16_t *b, const uint16_t *ahead, size_t depth, float *c,
                      size_t c_row, bool add)
{
    if (rows > 4)
        bf16_multiply(8, a, b, ahead, depth, c, c_row, add);
    else if (rows > 2)
        bf16_multiply(4, a, b, ahead, depth, c, c_row, add);
    else if (rows > 1)
        bf16_multiply(2, a, b, ahead, depth, c, c_row, add);
    else
        bf16_multiply(1, a, b, ahead, depth, c, c_row, add);
}

#endif
#endif
