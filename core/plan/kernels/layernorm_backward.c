/* layernorm_backward: gradients of a layernorm's input and weights, and of the bias that follows. */
#include "base/text.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/class_sizes.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Vectors of sums over rows. */
static uint32_t sets_of(const struct call *call)
{
    return (1 + call_get(call, CONST_BETA, 1)) * call_get(call, CONST_NORM_DW, 0) +
           (call_get(call, CONST_BIAS_SUM, BIAS_SUM_NONE) != BIAS_SUM_NONE);
}

/* Rows that a work-group takes at a time, at most its `share`, and so many that four groups run on a multiprocessor: a
 * row takes the registers of d and z and of what is loaded of the next one. Measured on an H200; the most leaves room
 * for the sums over rows. */
static uint32_t rows_at_once(const struct call *call, uint32_t access, uint32_t share)
{
    uint32_t size = call_get(call, CONST_LOCAL_SIZE, 1), dx = call_get(call, CONST_NORM_DX, 0);
    uint32_t steps = (uint32_t)divide_up(call_get(call, CONST_N, 1), (uint64_t)access * size);
    uint32_t operands = 1 + call_get(call, CONST_RESIDUAL, 0) + (dx || call_get(call, CONST_NORM_DW, 0)) +
                        (call_get(call, CONST_BIAS_SUM, BIAS_SUM_NONE) == BIAS_SUM_OPERAND);
    uint32_t registers = (2 * steps * access + operands * steps * (access > 1 ? 4 : 1)) * size;
    uint32_t most = (dx ? 7168 : 12288) / registers;
    if (share < most) most = share;
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* Work-items for a row's vectors, in whole sub-groups: one without columns would have each instruction executed for
 * nothing. 8192 rows of 768 f16 take 23.8 us on an H200 through OpenCL in groups of 96, 26.2 in groups of 128; through
 * Vulkan 29.4 and 28.9, and RADV's compiler takes more registers for what is no power of two. */
static uint32_t whole_size(const struct call *call, const struct sizes *s, uint32_t most)
{
    uint64_t items = divide_up(call_get(call, CONST_N, 1), s->vector);
    uint64_t whole = round_up(items, class_least_local(s->limits));
    return whole < most ? (uint32_t)whole : most;
}

/* A work-item owns one vector's columns, which with all sums and two rows of f16 take up to 128 registers: so few that
 * four groups of 128 run on a multiprocessor. Where there are sums over rows, all groups run at the same time;
 * elsewhere a group has up to four rows. */
static void size(struct call *call, const struct sizes *s)
{
    size_row(call, s, (uint32_t)divide_up(call_get(call, CONST_N, 1), s->vector));
    uint32_t share = rows_of_part(s->limits, s->max_rows, 1);
    const struct class_row *row = class_row(call->kernel, s->limits);
    uint32_t at_once = rows_at_once(call, s->access, share);
    call_set(call, CONST_PART_ROWS, row && row->part_rows < at_once ? row->part_rows : at_once);
    if (s->limits->rungs & RUNG_BIT(RUNG_MMA)) /* NVIDIA's through OpenCL */
        call_set(call, CONST_LOCAL_SIZE, whole_size(call, s, call_get(call, CONST_LOCAL_SIZE, 1)));
    if (!sets_of(call) && share > 4) share = 4;
    call_set(call, CONST_PARTS, (uint32_t)divide_up(s->max_rows ? s->max_rows : 1, share));
}

static uint64_t scratch_bytes(const struct call *call, uint64_t max_rows)
{
    return call_parts(call, max_rows) * sets_of(call) * call_get(call, CONST_N, 1) * sizeof(float);
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    uint64_t all = choices_bucket(s->max_rows);
    for (int i = 0; i < PART_COUNTS; i++)
        for (uint32_t rows = 1; rows <= 4; rows *= 2) { /* at a time */
            uint64_t parts = sets_of(sized) ? choices_parts(list, i) : divide_up(all, 1u << i);
            if (parts > divide_up(all, rows)) continue;
            call_set(&call, CONST_PARTS, (uint32_t)parts);
            call_set(&call, CONST_PART_ROWS, rows);
            choices_local_sizes(list, &call, LOCAL_LEAST, 256);
            call_set(&call, CONST_LOCAL_SIZE, whole_size(sized, s, 256));
            choices_add(list, &call);
        }
}

static void describe(const struct call *call, struct text_writer *text)
{
    uint32_t rows = call_get(call, CONST_PART_ROWS, 0);
    text_add(text, "%u a work-group, %u row%s at a time", (unsigned)call_get(call, CONST_LOCAL_SIZE, 0), (unsigned)rows,
             rows > 1 ? "s" : "");
}

/* ---- its traffic ---- */

static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), at_once = get(c, CONST_PART_ROWS, 1);
    uint64_t loads = divide_up(rows, at_once) * at_once * row_loads(c), parts = call_parts(c->call, rows);
    uint64_t sets = sets_of(c->call);
    reads(c, SLOT_X, loads);
    reads(c, SLOT_RESIDUAL, loads);
    reads_vector(c, SLOT_GAMMA, parts, row_loads(c));
    reads(c, SLOT_SAVED, loads);
    if (get(c, CONST_BIAS_SUM, BIAS_SUM_NONE) == BIAS_SUM_OPERAND) reads(c, SLOT_EXTRA, loads);
    if (sets) writes_scratch(c, SLOT_PARTIALS, parts * sets * n);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_layernorm_backward = {
    .kernel = "layernorm_backward",
    .name = "layernorm_backward",
    .takes = {CONST_N, CONST_ROWS, CONST_RESIDUAL, CONST_SUM, CONST_DROPOUT, CONST_KEPT, CONST_NORM_DW, CONST_NORM_DX,
              CONST_BIAS_SUM, CONST_ADDEND, CONST_RMS, CONST_BETA},
    .why = "registers for four work-groups a multiprocessor",
    .size = size,
    .scratch_bytes = scratch_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .describe = describe,
};
