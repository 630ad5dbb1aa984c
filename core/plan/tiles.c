/* Chooses tile and work-group sizes by device and shape, the batch's contents never: the sum of every output has
 * one order whatever the tile of a product, and row kernels sum in an order that LOCAL_SIZE gives. */
#include "plan/tiles.h"

#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "plan/batch.h"
#include "plan/class_sizes.h"
#include "plan/variants.h"

/* ---- what several kernels compute alike ---- */

uint64_t device_units(const struct device_limits *limits)
{
    return limits->compute_units ? limits->compute_units : LARGE_GPU_UNITS;
}

/* Entries of the query tile table count as many rows, those of the score tile table as many in both directions. Where
 * shared memory is small, half as many let attention keep to 16 KiB. On a CPU the kernels of half as many are compiled
 * in half the time (backward: PoCL 20 -> 10 s, lavapipe 7 -> 4), and are faster but for lavapipe's with heads of 64. */
static uint32_t attention_rows(const struct device_limits *limits)
{
    bool portable = !(limits->rungs & RUNG_BIT(RUNG_COOPMAT)); /* kernels of cooperative matrices have 64 */
    bool small = limits->cpu && portable && !class_row("attention", limits);
    return small || limits->shared_bytes < 32768 ? 32 : 64;
}

uint32_t tile_queries(const struct device_limits *limits) { return attention_rows(limits); }

uint32_t tile_scores(const struct device_limits *limits) { return attention_rows(limits); }

uint32_t row_size(const struct device_limits *limits, uint32_t items)
{
    uint32_t size = class_least_local(limits);
    while (size < 256 && size < items && size * 2 <= limits->max_local_size) size *= 2;
    return size;
}

void size_row(struct call *call, const struct sizes *s, uint32_t items)
{
    call_set(call, CONST_LOCAL_SIZE, row_size(s->limits, items));
}

/* Short rows share a work-group: 8192 of 384 f16 take 7.5 us on an H200 through OpenCL in teams of 16, four of them a
 * group, 9.6 in groups of 32 for a row each, which wait for one another to be started. From 32 work-items on, a row
 * alone is faster: 16,384 of 768 take 16.2 us, in groups of four such teams 17.3. */
void size_team(struct call *call, const struct sizes *s)
{
    uint32_t items = call_get(call, CONST_N, 1) / (4 * s->vector), team = LEAST_TEAM;
    const struct class_row *row = class_row(call->kernel, s->limits);
    size_row(call, s, row && items < row->local ? row->local : items);
    while (team < items) team *= 2;
    if (team < 32) call_set(call, CONST_LOCAL_SIZE, row_size(s->limits, 64));
    call_set(call, CONST_TEAM, team < 32 ? team : call_get(call, CONST_LOCAL_SIZE, 1));
}

/* On a CPU as many parts as many cores want, each of so many rows that its sums, which it writes, cost little: 64 parts
 * of layernorm_backward take a core as long as 8 from 4096 x 768 on, 16 of 512 x 384 2 % longer. The number of cores
 * decides nothing, so that sums have the same bits on all of them. */
static uint64_t cpu_parts(uint64_t max_rows)
{
    uint64_t parts = max_rows / 32;
    return parts < 8 ? 8 : parts > 64 ? 64 : parts;
}

/* Four work-groups for each multiprocessor of a large GPU. */
uint32_t rows_of_part(const struct device_limits *limits, uint64_t max_rows, uint32_t columns)
{
    uint64_t parts = limits->cpu ? cpu_parts(max_rows) : 4 * LARGE_GPU_UNITS / (columns < 4 ? columns : 4),
             rows = divide_up(max_rows, parts);
    return rows ? (uint32_t)rows : 1;
}

/* ---- products ---- */

void call_sums_tiles(struct call *call)
{
    if (!call_get(call, CONST_COLUMN_SUMS, 0)) return;
    uint8_t side = call_runtime(call) == RUNTIME_N ? CONST_TILE_N : CONST_TILE_M;
    call_set(call, CONST_PART_ROWS, call_get(call, side, 1));
}

struct extents call_extents(const struct call *call, const struct sizes *s)
{
    uint32_t runtime = call_runtime(call);
    return (struct extents){.m = runtime == RUNTIME_M ? s->max_rows : call_get(call, CONST_M, 1),
                            .n = runtime == RUNTIME_N ? s->max_rows : call_get(call, CONST_N, 1),
                            .k = runtime == RUNTIME_K ? s->max_rows : call_get(call, CONST_K, 1)};
}

uint64_t experts_rows(const struct call *call, uint64_t rows)
{
    return divide_up(rows * call_get(call, CONST_CHOSEN, 1), call_get(call, CONST_EXPERTS, 1));
}

int tile_search(const struct tile_search *search, const struct call *call, const struct sizes *s, uint64_t *parts)
{
    uint64_t depth = call_extents(call, s).k;
    double least = 0;
    int best = -1;
    *parts = 1;
    for (int i = 0; i < search->tiles; i++) {
        if (search->fits && !search->fits(call, s, i)) continue;
        for (uint64_t p = 1; p <= search->most_parts && (p == 1 || p * search->least_depth <= depth); p++) {
            double cost = search->cost(call, s, i, p);
            if (best >= 0 && cost >= least) continue;
            best = i;
            *parts = p;
            least = cost;
        }
    }
    return best;
}

uint32_t rows_in_parts(uint64_t rows, uint64_t parts, uint32_t unit)
{
    return (uint32_t)round_up(divide_up(rows, parts), unit);
}

/* ---- alignment ---- */

/* Tensors begin on 256 bytes, so that lengths, strides and offsets decide; where rows have a pitch, N, the first, need
 * not. */
static bool aligned(const struct call *call, uint32_t vector)
{
    static const uint8_t lengths[] = {CONST_N,        CONST_M,        CONST_K,        CONST_HEAD_DIM,
                                      CONST_X_STRIDE, CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET,
                                      CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET};
    const struct variant *variant = kernel_row(call->kernel);
    bool pitched = variant && variant->pitched && call_get(call, CONST_X_STRIDE, 0);
    for (size_t i = pitched ? 1 : 0; i < sizeof lengths / sizeof *lengths; i++)
        if (call_get(call, lengths[i], 0) % vector) return false;
    return true;
}

/* ---- the table ---- */

struct sizes call_sizes(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                        uint64_t max_rows, uint32_t longest)
{
    struct sizes s = {.before = before,
                      .limits = limits,
                      .f16 = f16,
                      .vector = f16 ? 8 : 4,
                      .max_rows = max_rows,
                      .longest = longest};
    call_set(call, CONST_ALIGNED, aligned(call, s.vector));
    s.access = call_get(call, CONST_ALIGNED, 0) ? s.vector : 1;
    return s;
}

const char *call_size(struct call *call, const struct sizes *s)
{
    const struct variant *variant = kernel_row(call->kernel);
    if (!variant) return NULL;
    variant->size(call, s);
    const struct class_row *row = variant->rung == RUNG_TILED ? class_row(call->kernel, s->limits) : NULL;
    return row ? row->why : variant->why;
}

const char *call_tiles(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                       uint64_t max_rows, uint32_t longest)
{
    const struct sizes sizes = call_sizes(call, before, limits, f16, max_rows, longest);
    const char *refused;
    const struct variant *variant = variant_choose(call, &sizes, &refused);
    if (variant) call->kernel = variant->name;
    const char *why = call_size(call, &sizes);
    return refused && !variant ? refused : why;
}

/* ---- weights' gradients in parts ---- */

enum { MOST_PARTS = 8 };

double parts_seconds(uint64_t m, uint64_t n, uint64_t parts)
{
    return parts > 1 ? (double)(parts * m * n) * 2 * sizeof(float) / 3.5e12 + 4e-6 : 0;
}

/* Before the results, in the order of slots. */
static void add_partials(struct call *call)
{
    int at = call->n_arguments++;
    for (; at > 0 && call->arguments[at - 1].slot > SLOT_PARTIALS; at--) call->arguments[at] = call->arguments[at - 1];
    call->arguments[at] = (struct call_argument){.slot = SLOT_PARTIALS, .written = true, .tensor = TENSOR_SCRATCH};
}

bool call_sums_in_parts(const struct call *call)
{
    const struct variant *variant = kernel_row(call->kernel);
    uint32_t runtime = call_runtime(call);
    return runtime == RUNTIME_K ||
           (runtime == RUNTIME_M && variant && variant->adds && !call_get(call, CONST_COLUMN_SUMS, 0));
}

void calls_split(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s, uint32_t part_rows)
{
    struct call *call = &calls[0], *reduce = &calls[1];
    uint32_t m = call_get(call, CONST_M, 0), n = call_get(call, CONST_N, 1);
    const struct variant *variant = kernel_row(call->kernel);
    if (call_runtime(call) == RUNTIME_K) call_set(call, CONST_COLUMN_SUMS, 1);
    call_set(call, CONST_PART_ROWS, part_rows);
    if (variant && variant->adds) {
        add_partials(call);
        variant->adds(call, s);
        return;
    }
    *reduce = (struct call){.kernel = "reduce", .launch = LAUNCH_COLUMNS};
    for (int i = 0; i < call->n_arguments; i++) {
        struct call_argument *y = &call->arguments[i];
        if (y->slot != SLOT_Y) continue;
        reduce->arguments[reduce->n_arguments++] =
            (struct call_argument){.slot = SLOT_PARTIALS, .tensor = TENSOR_SCRATCH};
        reduce->arguments[reduce->n_arguments++] = *y;
        *y = (struct call_argument){.slot = SLOT_PARTIALS, .written = true, .tensor = TENSOR_SCRATCH};
    }
    call_set(reduce, CONST_N, m * n);
    call_set(reduce, CONST_ROWS, call_get(call, CONST_ROWS, HEADER_TOKENS));
    call_set(reduce, CONST_SETS, 1);
    call_set(reduce, CONST_LOCAL_SIZE, row_size(s->limits, 256));
    call_set(reduce, CONST_TILE_N, call_get(reduce, CONST_LOCAL_SIZE, 1)); /* few parts, many columns */
    call_set(reduce, CONST_PART_ROWS, part_rows);
    *count = 2;
}

void call_take_away(struct call *call, uint8_t slot)
{
    int kept = 0;
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot != slot) call->arguments[kept++] = call->arguments[i];
    call->n_arguments = kept;
}

static bool writes_scratch(const struct call *call)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].written && call->arguments[i].tensor == TENSOR_SCRATCH) return true;
    return false;
}

void calls_drop(const struct call *call, int *count)
{
    if (*count > 1 && !writes_scratch(call)) *count = 1;
}

bool call_writes_slice(const struct call *call)
{
    return call_get(call, CONST_Y_OFFSET, 0) || call_get(call, CONST_Y_STRIDE, 0);
}

void calls_divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, bool f16,
                  uint64_t max_rows)
{
    struct call *call = &calls[0];
    const struct variant *variant = kernel_row(call->kernel);
    calls_drop(call, count);
    uint64_t m = call_get(call, CONST_M, 0), n = call_get(call, CONST_N, 1);
    if (call_runtime(call) == RUNTIME_M) m = max_rows;
    if (*count > 1 || limits->cpu || !variant || !variant->divide || !call_sums_in_parts(call) ||
        (call_writes_slice(call) && !variant->adds) || m * n > UINT32_MAX / MOST_PARTS)
        return;
    const struct sizes sizes = call_sizes(call, NULL, limits, f16, max_rows, 0);
    variant->divide(calls, count, &sizes);
}

/* ---- memory ---- */

uint64_t call_scratch_bytes(const struct call *call, uint64_t max_rows)
{
    const struct variant *variant = kernel_row(call->kernel);
    if (!variant || !writes_scratch(call)) return 0;
    if (!variant->scratch_bytes) variant = kernel_row(variant->kernel);
    return variant->scratch_bytes ? variant->scratch_bytes(call, max_rows)
                                  : call_parts(call, max_rows) * call_get(call, CONST_N, 1) * sizeof(float);
}

size_t call_bias_bytes(const struct call *call)
{
    uint32_t farthest = call_get(call, CONST_RELATIVE, 0);
    return farthest ? (2 * (size_t)farthest + 1) * sizeof(float) : 0;
}

size_t call_shared_bytes(const struct call *call)
{
    const struct variant *variant = kernel_row(call->kernel);
    return variant && variant->shared_bytes ? variant->shared_bytes(call) : 0;
}
