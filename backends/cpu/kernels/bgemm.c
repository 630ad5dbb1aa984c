/* bgemm: the products of stored scores, one for each sequence and head (cl/bgemm.cl). */
#include "product.h"
#include "tokens.h"
#include "traffic.h"

enum { ROWS = 64 };
#define COLUMNS (8 * TILE_COLUMNS)

static size_t bgemm_scratch(const struct cpu_step *s)
{
    (void)s;
    return (ROWS + TILE_ROWS) * COLUMNS + product_scratch(ROWS, COLUMNS);
}

/* The operands of the tile's rows, and where they go. */
struct batched {
    struct operand x, w;
    size_t n, depth, y_row;
    float *y;
};

/* Of a head of K or V the head of Q number `member` is what is summed. */
static struct batched batched_of(const struct cpu_step *s, const struct tile_place *t, size_t member)
{
    size_t x_stride = s->value[CONST_X_STRIDE], w_stride = s->value[CONST_W_STRIDE],
           y_stride = s->value[CONST_Y_STRIDE], length = t->length, dim = s->value[CONST_HEAD_DIM];
    bool transposed = s->value[CONST_BATCHED] == BATCHED_TRANSPOSED;
    size_t head = transposed ? t->head * step_members(s) + member : t->head,
           w_head = transposed ? head : head / step_members(s);
    size_t scores = step_scores(s, t->sequence) + head * length * length;
    const float *x = s->at[SLOT_X];
    const float *w = s->at[SLOT_W] + s->value[CONST_W_OFFSET] + t->first * w_stride + step_head(s, w_head, w_stride);
    if (s->value[CONST_BATCHED] == BATCHED_SCORES) {
        x += s->value[CONST_X_OFFSET] + (t->first + t->at) * x_stride + step_head(s, t->head, x_stride);
        return (struct batched){
            {x, x_stride, 1}, {w, w_stride, 1}, length, dim, length, s->at[SLOT_Y] + scores + t->at * length};
    }
    x += scores + t->at * (transposed ? 1 : length);
    float *y =
        s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + (t->first + t->at) * y_stride + step_head(s, t->head, y_stride);
    return (struct batched){
        {x, transposed ? 1 : length, transposed ? length : 1}, {w, 1, w_stride}, dim, length, y_stride, y};
}

static void put_row(float *to, const float *from, size_t n, bool add)
{
    if (!add) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

static void tile(const struct cpu_step *s, const struct tile_place *t, float *scratch)
{
    size_t members = s->value[CONST_BATCHED] == BATCHED_TRANSPOSED ? step_members(s) : 1;
    if (t->head >= s->value[CONST_HEADS] / members) return;
    size_t rows = t->length - t->at < ROWS ? t->length - t->at : ROWS;
    for (size_t member = 0; member < members; member++) {
        struct batched b = batched_of(s, t, member);
        for (size_t column = 0; column < b.n; column += COLUMNS) {
            size_t n = b.n - column < COLUMNS ? b.n - column : COLUMNS, c_row = panels_of(n) * TILE_COLUMNS;
            struct operand w = b.w;
            w.at += column * w.row;
            product(&b.x, &w, NULL, NULL, rows, n, b.depth, scratch, c_row, scratch + (ROWS + TILE_ROWS) * COLUMNS);
            for (size_t r = 0; r < rows; r++) put_row(b.y + r * b.y_row + column, scratch + r * c_row, n, member > 0);
        }
    }
}

static void bgemm_run(const struct cpu_step *s, size_t item, float *scratch)
{
    tiles_run(s, item, ROWS, tile, scratch);
}

static void bgemm_count(const struct cpu_step *s, struct count *c)
{
    uint64_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM];
    bool scores = s->value[CONST_BATCHED] == BATCHED_SCORES;
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        uint64_t length = length_of(c, i), tiles = blocks_of(length, ROWS), square = length * length;
        count_tiles(c, SLOT_W, tiles, length * dim, (length * dim + ROWS * (length + dim)) * sizeof(float));
        reads(c, SLOT_X, heads * (scores ? length * dim : square));
        writes(c, SLOT_Y, heads * (scores ? square : length * dim));
    }
}

const struct cpu_kernel CPU_NAME(cpu_bgemm) = {
    .name = "bgemm", .items = tiles_items, .run = bgemm_run, .scratch = bgemm_scratch, .count = bgemm_count};
