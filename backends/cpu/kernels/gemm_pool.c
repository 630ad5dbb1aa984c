/* gemm_pool: weights of words (cl/gemm_pool.cl says what is computed). An item is a block of words and a sequence,
 * whose tokens are multiplied so many at a time, and joined to one row in scratch memory. */
#include "formulas.h"
#include "product.h"
#include "rows.h"
#include "traffic.h"

enum { TOKENS_MOST = 64, PANELS_MOST = 8, WORDS_MOST = PANELS_MOST * TILE_COLUMNS };

/* Words of a block. */
static size_t words_of(const struct cpu_step *s)
{
    size_t panels = panels_of(s->value[CONST_N]), wanted = 3 * s->threads, least = panels / wanted;
    return (least < 1 ? 1 : least < PANELS_MOST ? least : PANELS_MOST) * TILE_COLUMNS;
}

static size_t words_items(const struct cpu_step *s)
{
    return s->batch[HEADER_SEQUENCES] * blocks_of(s->value[CONST_N], words_of(s));
}

static size_t words_scratch(const struct cpu_step *s)
{
    (void)s;
    return (TOKENS_MOST + TILE_ROWS + 1) * WORDS_MOST + product_scratch(TOKENS_MOST + TILE_ROWS, WORDS_MOST);
}

static struct operand words_operand(const struct cpu_step *s, uint8_t slot)
{
    return (struct operand){s->at[slot], s->value[CONST_K], 1, NULL, NULL};
}

static size_t words_packed(const struct cpu_step *s, size_t *panels)
{
    *panels = panels_of(s->value[CONST_N]);
    return *panels * TILE_COLUMNS * s->value[CONST_K] * sizeof(float);
}

static void words_pack(const struct cpu_step *s, size_t item, void *packed)
{
    size_t n = s->value[CONST_N], k = s->value[CONST_K], first = item * TILE_COLUMNS, left = n - first;
    const struct operand w = words_operand(s, SLOT_W);
    pack_panel(&w, first, left < TILE_COLUMNS ? left : TILE_COLUMNS, TILE_COLUMNS, 0, k, (float *)packed + first * k);
}

static void finish(const struct cpu_step *s, float *row, size_t column, size_t columns)
{
    const float *bias = s->at[SLOT_BIAS];
    if (s->value[CONST_BIAS])
        FOR_VECTORS(i, columns) v_store(row + i, v_load(row + i) + v_load_at(bias + column, i, columns));
    row_activate(row, columns, s->value[CONST_ACTIVATION]);
}

/* The largest is looked for among the products: bias and activation rise with them. */
static void join(bool largest, float *held, const float *row, size_t columns)
{
    FOR_VECTORS(i, columns)
    v_store(held + i, largest ? v_max(v_load(row + i), v_load(held + i)) : v_load(held + i) + v_load(row + i));
}

static void words_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], k = s->value[CONST_K], words = words_of(s), sequences = s->batch[HEADER_SEQUENCES];
    size_t sequence = item % sequences, column = item / sequences * words;
    size_t columns = n - column < words ? n - column : words, c_row = panels_of(columns) * TILE_COLUMNS;
    bool largest = s->value[CONST_POOL] == POOL_MAX;
    float *c = held + WORDS_MOST, *rest = c + (TOKENS_MOST + TILE_ROWS) * WORDS_MOST;
    const float *packed = s->packed, *panels = packed ? packed + column * k : NULL;
    struct stretch own = step_sequence(s, sequence);
    struct operand x = words_operand(s, SLOT_X), w = words_operand(s, SLOT_W);
    w.at += column * k;
    for (size_t token = 0; token < own.length; token += TOKENS_MOST) {
        size_t rows = own.length - token < TOKENS_MOST ? own.length - token : TOKENS_MOST;
        x.at = s->at[SLOT_X] + (own.first + token) * k;
        product(&x, &w, panels, panels, rows, columns, k, c, c_row, rest);
        for (size_t r = 0; r < rows; r++) {
            if (!largest) finish(s, c + r * c_row, column, columns);
            if (token || r)
                join(largest, held, c + r * c_row, columns);
            else
                memcpy(held, c, c_row * sizeof *held);
        }
    }
    if (largest) finish(s, held, column, columns);
    float *y = s->at[SLOT_Y] + sequence * n + column;
    FOR_VECTORS(i, columns) v_store_at(y, i, columns, v_load(held + i));
}

/* Sequences share a block's words, and blocks all tokens. */
static void words_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], k = s->value[CONST_K], words = words_of(s), blocks = blocks_of(n, words);
    uint64_t sequences = s->batch[HEADER_SEQUENCES], x = s->batch[HEADER_TOKENS] * k, w = n * k;
    uint64_t panels = s->packed ? panels_of(n) * TILE_COLUMNS * k : w, block = (x + words * k) * sizeof(float);
    count_again(c, SLOT_X, x * blocks, x, block);
    count_again(c, SLOT_W, panels * sequences, panels, block);
    c->out->model_read += (panels - w) * sizeof(float);
    count_vector(c, SLOT_BIAS, sequences, n);
    writes(c, SLOT_Y, sequences * n);
}

const struct cpu_kernel CPU_NAME(cpu_gemm_pool) = {.name = "gemm_pool",
                                                   .items = words_items,
                                                   .run = words_run,
                                                   .scratch = words_scratch,
                                                   .packed = words_packed,
                                                   .pack = words_pack,
                                                   .count = words_count};
