/* distance_sums and distance_dw: the gradient of a bias by distance (the files of those names in cl/). */
#include "distances.h"
#include "rows.h"
#include "traffic.h"

/* ---- distance_sums: of stored scores' gradients; an item is a sequence and a head ---- */

static size_t sums_items(const struct cpu_step *s)
{
    return (size_t)s->batch[HEADER_SEQUENCES] * s->value[CONST_HEADS];
}

static size_t sums_scratch(const struct cpu_step *s) { return 2 * (size_t)s->value[CONST_RELATIVE] + 1; }

/* What a row has beyond the sums' ends is added up first, for it is much. */
static void sums_add(const float *x, ptrdiff_t query, ptrdiff_t length, ptrdiff_t far, float *sums)
{
    float before = 0.0f, after = 0.0f;
    for (ptrdiff_t key = 0; key < length; key++) {
        ptrdiff_t offset = key - query;
        if (offset <= -far)
            before += x[key];
        else if (offset >= far)
            after += x[key];
        else
            sums[offset + far] += x[key];
    }
    sums[0] += before;
    sums[2 * far] += after;
}

static void sums_run(const struct cpu_step *s, size_t item, float *sums)
{
    size_t heads = s->value[CONST_HEADS], head = item % heads, far = s->value[CONST_RELATIVE];
    struct stretch own = step_sequence(s, item / heads);
    const float *x = s->at[SLOT_X] + step_scores(s, item / heads) + head * own.length * own.length;
    float *y = s->at[SLOT_DISTANCES] + 2 * own.first * heads + head;
    if (far > own.length - 1) far = own.length - 1;
    memset(sums, 0, (2 * far + 1) * sizeof *sums);
    for (size_t query = 0; far && query < own.length; query++)
        sums_add(x + query * own.length, (ptrdiff_t)query, (ptrdiff_t)own.length, (ptrdiff_t)far, sums);
    if (!far) sums[0] = x[0]; /* of one token */
    for (size_t i = 0; i < 2 * own.length; i++) y[i * heads] = i <= 2 * far ? sums[i] : 0.0f;
}

static void sums_count(const struct cpu_step *s, struct count *c)
{
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++)
        reads(c, SLOT_X, length_of(c, i) * length_of(c, i) * s->value[CONST_HEADS]);
    writes(c, SLOT_DISTANCES, 2 * (uint64_t)s->batch[HEADER_TOKENS] * s->value[CONST_HEADS]);
}

/* ---- distance_dw: an item is an element of the table ---- */

static size_t dw_items(const struct cpu_step *s) { return s->value[CONST_M]; }

static void dw_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t heads = s->value[CONST_HEADS], head = item % heads, row = item / heads;
    const uint32_t *buckets = s->batch + s->batch[HEADER_AT_BUCKETS];
    ptrdiff_t relative = s->value[CONST_RELATIVE];
    float sum = 0.0f, scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    for (size_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        struct stretch own = step_sequence(s, i);
        ptrdiff_t far = (ptrdiff_t)own.length - 1 < relative ? (ptrdiff_t)own.length - 1 : relative;
        const float *x = s->at[SLOT_DISTANCES] + 2 * own.first * heads + head;
        for (ptrdiff_t offset = -far; offset <= far; offset++)
            if (buckets[offset + relative] == row) sum += x[(size_t)(offset + far) * heads];
    }
    float before = s->value[CONST_RESIDUAL] ? s->at[SLOT_RESIDUAL][item] : 0.0f;
    s->at[SLOT_Y][item] = sum / scale + before;
}

/* Every distance has one row. */
static void dw_count(const struct cpu_step *s, struct count *c)
{
    uint64_t heads = s->value[CONST_HEADS];
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) reads(c, SLOT_DISTANCES, heads * distance_sums_of(c, i));
    reads(c, SLOT_RESIDUAL, s->value[CONST_M]);
    writes(c, SLOT_Y, s->value[CONST_M]);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_distance_sums) = {.name = "distance_sums", .items = sums_items, .run = sums_run, .scratch = sums_scratch, .count = sums_count};
const struct cpu_kernel CPU_NAME(cpu_distance_dw) = {.name = "distance_dw", .items = dw_items, .run = dw_run, .count = dw_count};
/* clang-format on */
