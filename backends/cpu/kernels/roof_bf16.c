/* roof_matrix (cl/roof_matrix.cl): what this processor multiplies in bf16 from its first cache. Of each sub-group of 32
 * work-items 2 x THREAD_M products 16 x 8 x 16 are added up again and again: here one of 32 rows, 48 columns and as
 * many k as a turn has. */
#include "base/bits.h"
#include "interface/roof.h"
#include "tile_bf16.h"

enum { ITEMS = 32, ROWS = 32, MMA_COLUMNS = 8, DEPTH = 16, TURN = ROOF_UNROLLED * DEPTH };

static size_t groups(const struct cpu_step *s) { return s->batch[ROOF_GROUPS]; }

static size_t matrix_scratch(const struct cpu_step *s)
{
    (void)s;
    return ROWS * TILE_COLUMNS + (ROWS * BF16_A_ROW + TURN * TILE_COLUMNS) / 2;
}

/* Multiples of 1/8, which bf16 has. */
static uint16_t eighths(size_t number) { return (uint16_t)(float_bits((float)(number % 16) * 0.125f - 1.0f) >> 16); }

static void matrix_run(const struct cpu_step *s, size_t group, float *scratch)
{
    size_t local = s->value[CONST_LOCAL_SIZE];
    float *c = scratch, *y = s->at[SLOT_Y] + group * local;
    uint16_t *a = (uint16_t *)(void *)(c + ROWS * TILE_COLUMNS), *b = a + ROWS * BF16_A_ROW;
    for (size_t k = 0; k < DEPTH; k++) {
        for (size_t r = 0; r < ROWS; r++) a[r * BF16_A_ROW + k] = eighths(r * 5 + k * 3);
        for (size_t n = 0; n < TILE_COLUMNS; n++) b[(k / 2 * TILE_COLUMNS + n) * 2 + k % 2] = eighths(k * 7 + n * 11);
    }
    for (size_t k = DEPTH; k < TURN; k += DEPTH) {
        for (size_t r = 0; r < ROWS; r++) memcpy(a + r * BF16_A_ROW + k, a + r * BF16_A_ROW, DEPTH * sizeof *a);
        memcpy(b + k * TILE_COLUMNS, b, DEPTH * TILE_COLUMNS * sizeof *b);
    }
    for (size_t sub = 0; sub < local; sub += ITEMS) {
        bf16_begin();
        for (size_t r = 0; r < ROWS; r += BF16_TILE_ROWS)
            for (uint32_t turn = 0; turn < s->batch[ROOF_TURNS]; turn++)
                bf16_tile(BF16_TILE_ROWS, a + r * BF16_A_ROW, b, NULL, TURN, c + r * TILE_COLUMNS, TILE_COLUMNS,
                          turn > 0);
        bf16_end();
        for (size_t item = 0; item < ITEMS; item++) {
            float sum = 0;
            for (size_t q = 0; q < 4; q++)
                for (size_t r = item / 4 + q / 2 * 8; r < ROWS; r += 16)
                    for (size_t n = item % 4 * 2 + q % 2; n < TILE_COLUMNS; n += MMA_COLUMNS)
                        sum += (float)(q + 1) * c[r * TILE_COLUMNS + n];
            y[sub + item] = sum;
        }
    }
}

const struct cpu_kernel CPU_NAME(cpu_roof_matrix_bf16) = {
    .name = "roof_matrix", .items = groups, .run = matrix_run, .scratch = matrix_scratch};
