/* gemm_experts: products of rows with the weights of their experts, and the weights' gradients (cl/gemm_experts.cl says
 * what is computed). An item is a block of one expert's rows and of columns; of a gradient, of an expert's weight.
 * There are as many items as experts could need; those past the last do nothing. */
#include "formulas.h"
#include "product.h"
#include "traffic.h"

enum { ROWS = 64, PANELS = 8 };

#define COLUMNS ((size_t)PANELS * TILE_COLUMNS)

/* Rows of an expert: begin to end in the list. */
struct expert {
    size_t number, begin, end;
};

static const uint32_t *list_of(const struct cpu_step *s)
{
    return (const uint32_t *)s->at[SLOT_IDS] + s->value[CONST_EXPERTS];
}

static struct expert expert_at(const struct cpu_step *s, size_t number)
{
    const uint32_t *ends = (const uint32_t *)s->at[SLOT_IDS];
    return (struct expert){number, number ? ends[number - 1] : 0, ends[number]};
}

static bool is_gradient(const struct cpu_step *s) { return s->value[CONST_FORM] == GEMM_TN; }

static size_t in_a_row(const struct cpu_step *s) { return blocks_of(s->value[CONST_N], COLUMNS); }

static size_t experts_items(const struct cpu_step *s)
{
    size_t experts = s->value[CONST_EXPERTS], rows = step_rows(s) * s->value[CONST_CHOSEN];
    size_t blocks = is_gradient(s) ? experts * blocks_of(s->value[CONST_M], ROWS) : blocks_of(rows, ROWS) + experts;
    return blocks * in_a_row(s);
}

/* A row of an operand that has one for each row of the list, or one for each token. */
static const float *row_of(const struct cpu_step *s, uint8_t slot, size_t length, bool by_token, uint32_t row)
{
    return s->at[slot] + (by_token ? row / s->value[CONST_CHOSEN] : row) * length;
}

static size_t experts_scratch(const struct cpu_step *s)
{
    size_t rows = ROWS + TILE_ROWS, gathered = is_gradient(s) ? 0 : rows * padded(s->value[CONST_K]);
    return gathered + rows * COLUMNS + product_scratch(rows, COLUMNS);
}

/* ---- rows with an expert's weight ---- */

static void finish_row(const struct cpu_step *s, float *values, size_t n, size_t at)
{
    if (s->value[CONST_SUM]) FOR_VECTORS(i, n) v_store_at(s->at[SLOT_SUM] + at, i, n, v_load(values + i));
    row_activate(values, n, s->value[CONST_ACTIVATION]);
    if (s->value[CONST_DERIVATIVE]) row_derive(values, n, s->value[CONST_DERIVATIVE], s->at[SLOT_SAVED] + at);
    FOR_VECTORS(i, n) v_store_at(s->at[SLOT_Y] + at, i, n, v_load(values + i));
}

static void run_rows(const struct cpu_step *s, size_t block, size_t column, float *scratch)
{
    struct expert of = expert_at(s, 0);
    while (block >= blocks_of(of.end - of.begin, ROWS)) {
        block -= blocks_of(of.end - of.begin, ROWS);
        if (of.number + 1 == s->value[CONST_EXPERTS]) return;
        of = expert_at(s, of.number + 1);
    }
    const uint32_t *list = list_of(s) + of.begin + block * ROWS;
    size_t left = of.end - of.begin - block * ROWS, rows = left < ROWS ? left : ROWS;
    size_t n = s->value[CONST_N], k = s->value[CONST_K], columns = n - column < COLUMNS ? n - column : COLUMNS;
    float *x = scratch, *c = x + (ROWS + TILE_ROWS) * padded(k);
    for (size_t r = 0; r < rows; r++)
        memcpy(x + r * k, row_of(s, SLOT_X, k, s->value[CONST_TOKEN_ROWS] != 0, list[r]), k * sizeof *x);
    bool along = s->value[CONST_FORM] == GEMM_NT;
    struct operand a = {x, k, 1, NULL, NULL}, b = {s->at[SLOT_W] + of.number * n * k + column * (along ? k : 1),
                                                   along ? k : 1, along ? 1 : n, NULL, NULL};
    product(&a, &b, NULL, NULL, rows, columns, k, c, COLUMNS, c + (ROWS + TILE_ROWS) * COLUMNS);
    for (size_t r = 0; r < rows; r++) finish_row(s, c + r * COLUMNS, columns, list[r] * n + column);
}

/* ---- a weight's gradient ---- */

/* to[k][width] = `count` elements from `first` on of each of `depth` rows of the list, and zeros. */
static void pack_listed(const struct cpu_step *s, uint8_t slot, size_t length, bool by_token, const uint32_t *list,
                        size_t depth, size_t first, size_t count, size_t width, float *to)
{
    for (size_t k = 0; k < depth; k++, to += width) {
        memcpy(to, row_of(s, slot, length, by_token, list[k]) + first, count * sizeof *to);
        for (size_t r = count; r < width; r++) to[r] = 0.0f;
    }
}

static size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

static void run_gradient(const struct cpu_step *s, size_t block, size_t column, float *scratch)
{
    size_t m = s->value[CONST_M], n = s->value[CONST_N], in_m = blocks_of(m, ROWS), row = block % in_m * ROWS;
    struct expert of = expert_at(s, block / in_m);
    size_t rows = at_most(m - row, ROWS), columns = at_most(n - column, COLUMNS), depth = of.end - of.begin;
    float *c = scratch, *packed = c + (ROWS + TILE_ROWS) * COLUMNS, *panel = packed + DEPTH_MOST * (ROWS + TILE_ROWS);
    bool by_token = s->value[CONST_TOKEN_ROWS] != 0;
    if (!depth) memset(c, 0, (ROWS + TILE_ROWS) * COLUMNS * sizeof *c);
    for (size_t from = 0; from < depth; from += DEPTH_MOST) {
        size_t deep = at_most(depth - from, DEPTH_MOST);
        const uint32_t *list = list_of(s) + of.begin + from;
        for (size_t r = 0; r < rows; r += TILE_ROWS)
            pack_listed(s, SLOT_X, m, false, list, deep, row + r, at_most(rows - r, TILE_ROWS), TILE_ROWS,
                        packed + r * DEPTH_MOST);
        for (size_t first = 0; first < columns; first += TILE_COLUMNS) {
            pack_listed(s, SLOT_W, n, by_token, list, deep, column + first, at_most(columns - first, TILE_COLUMNS),
                        TILE_COLUMNS, panel);
            for (size_t r = 0; r < rows; r += TILE_ROWS)
                tile_beside_3(packed + r * DEPTH_MOST, TILE_ROWS, panel, deep, c + r * COLUMNS + first, COLUMNS,
                              from > 0);
        }
    }
    float *y = s->at[SLOT_Y] + (of.number * m + row) * n + column;
    for (size_t r = 0; r < rows; r++) memcpy(y + r * n, c + r * COLUMNS, columns * sizeof *y);
}

static void experts_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t column = item % in_a_row(s) * COLUMNS;
    if (is_gradient(s))
        run_gradient(s, item / in_a_row(s), column, scratch);
    else
        run_rows(s, item / in_a_row(s), column, scratch);
}

/* ---- what it moves ---- */

/* The list, of which items read so many ends of experts' rows, and so many rows. */
static void count_list(struct count *c, uint64_t ends, uint64_t rows, uint64_t length)
{
    uint64_t all = ends + rows;
    reads(c, SLOT_IDS, all);
    if (all > length) reads_again(c, SLOT_IDS, all - length, length * sizeof(uint32_t));
}

/* With as many rows for each expert, of which nothing is known before route has run: experts have a block more or less
 * than that, and as much more or less of their weights is read, and of the ends of rows. */
static void experts_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), all = rows * s->value[CONST_CHOSEN], experts = s->value[CONST_EXPERTS];
    uint64_t with_rows = least(all, experts), each = blocks_of(all, experts), row_blocks = blocks_of(each, ROWS);
    uint64_t m = s->value[CONST_M], n = s->value[CONST_N], k = s->value[CONST_K], in_row = in_a_row(s);
    uint64_t some = s->value[CONST_TOKEN_ROWS] ? rows : all;
    if (is_gradient(s)) {
        uint64_t in_m = blocks_of(m, ROWS), distance = each * (m + n) * sizeof(float);
        count_again(c, SLOT_X, all * m * in_row, all * m, distance);
        count_again(c, SLOT_W, all * n * in_m, some * n, distance);
        count_list(c, (2 * experts - 1) * in_m * in_row, all * in_m * in_row, all + experts);
        writes(c, SLOT_Y, experts * m * n);
        return;
    }
    count_again(c, SLOT_X, all * k * in_row, some * k, s->threads * (ROWS + COLUMNS) * k * sizeof(float));
    count_again(c, SLOT_W, with_rows * row_blocks * n * k, with_rows * n * k, n * k * sizeof(float));
    count_list(c, in_row * ends_walked(blocks_of(all, ROWS) + experts, row_blocks, with_rows, experts), all * in_row,
               all + experts);
    reads(c, SLOT_SAVED, all * n);
    writes(c, SLOT_SUM, all * n);
    writes(c, SLOT_Y, all * n);
}

const struct cpu_kernel CPU_NAME(cpu_gemm_experts) = {.name = "gemm_experts",
                                                      .items = experts_items,
                                                      .run = experts_run,
                                                      .scratch = experts_scratch,
                                                      .count = experts_count};
