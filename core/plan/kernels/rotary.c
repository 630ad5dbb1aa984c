/* rotary: Q and K turned by their tokens' positions; angles: by how much, where that depends on a text's length. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* What fills a compute unit. */
static void size(struct call *call, const struct sizes *s) { size_row(call, s, 256); }

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    (void)s;
    return call_get(call, CONST_ROTARY, ROTARY_NONE) || variant_refuse(reason, "there is nothing to turn");
}

/* Tokens of one position, which are in different sequences, read a row of a table; so do all heads of a token. Where
 * an access is one element, it reads its neighbour, too, and both of the pair's numbers. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 6), dim = get(c, CONST_HEAD_DIM, 2),
             keys = get(c, CONST_KEY_HEADS, 0), turned = keys ? n - keys * dim : n / 3 * 2;
    bool single = access_of(c) == 1;
    uint64_t x = rows * (n + (single ? turned : 0)), angles = rows * turned * (single ? 2 : 1);
    reads(c, SLOT_X, x);
    reads_again(c, SLOT_X, x - rows * n, 16);
    reads(c, SLOT_BIAS, x);
    if (rows) reads_again(c, SLOT_BIAS, x - n, count_row_bytes(c));
    reads(c, SLOT_POSITIONS, rows * turned / access_of(c));
    reads_again(c, SLOT_POSITIONS, rows * turned / access_of(c) - rows, 16);
    reads(c, SLOT_POSITION, angles);
    reads_again(c, SLOT_POSITION, angles - rows * dim, dim * sizeof(float));
    if (rows) reads_again(c, SLOT_POSITION, (rows - angle_rows_of(c)) * dim, angle_rows_of(c) * count_row_bytes(c));
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_rotary = {
    .kernel = "rotary",
    .name = "rotary",
    .takes = {CONST_N, CONST_ROWS, CONST_BIAS, CONST_SUM, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_KEY_HEADS,
              CONST_ROTARY},
    .why = "work-items hide the latency",
    .fits = fits,
    .size = size,
    .count = count_traffic,
    .candidates = choices_elements,
};

/* A text's tokens read one row of frequencies, both of a pair's numbers for each of its two results. */
static void count_angles(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 2), units = rows * n / access_of(c);
    reads(c, SLOT_IDS, units);
    reads_again(c, SLOT_IDS, units - rows, 16);
    reads(c, SLOT_POSITIONS, units);
    reads_again(c, SLOT_POSITIONS, units - rows, 16);
    reads(c, SLOT_POSITION, 2 * rows * n);
    reads_again(c, SLOT_POSITION, 2 * rows * n - c->words[HEADER_SEQUENCES] * n, n * sizeof(float));
    writes(c, SLOT_ANGLES, rows * n);
}

const struct variant variant_angles = {
    .kernel = "angles",
    .name = "angles",
    .takes = {CONST_N, CONST_ROWS, CONST_ROTARY},
    .why = "work-items hide the latency",
    .size = size,
    .count = count_angles,
    .candidates = choices_elements,
};
