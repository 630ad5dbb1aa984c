/* What an optimizer takes: memory, and what its kernels move and compute. */
#include <string.h>

#include "train/state.h"

static uint64_t moment_floats(const struct optimizer *o)
{
    return (o->parts >> ARENA_FIRST & 1u) + (o->parts >> ARENA_SECOND & 1u);
}

static void norm_work(const struct optimizer *o, struct optimizer_work *out)
{
    *out = (struct optimizer_work){.name = "squares",
                                   .kernel = "optimizer_add",
                                   .read = o->arena.parameters * session_storage(o->session),
                                   .flops = 3 * (double)o->arena.parameters};
}

static void sum_work(const struct optimizer *o, const char *name, struct optimizer_work *out)
{
    *out = (struct optimizer_work){.name = name,
                                   .kernel = "optimizer_sum",
                                   .read = o->arena.partials_bytes,
                                   .flops = (double)o->arena.partials_bytes / 4};
}

/* Reads gradient, weight and moments; LAMB writes u, the others the weight. Square roots and divisions count as one. */
static void step_work(const struct optimizer *o, struct optimizer_work *out)
{
    static const double adamw = 14, lambs = 18, momentum = 7, plain = 5;
    const uint64_t n = o->arena.parameters, floats = 1 + moment_floats(o), storage = session_storage(o->session);
    *out = (struct optimizer_work){.name = "step",
                                   .kernel = "optimizer_step",
                                   .read = n * (floats * sizeof(float) + storage),
                                   .written =
                                       n * (floats * sizeof(float) + (o->session->f16 && !optimizer_lamb(o) ? 2 : 0)),
                                   .flops = (double)n * (o->options.kind == OPTIMIZER_ADAMW ? adamw
                                                         : optimizer_lamb(o)                ? lambs
                                                         : floats > 1                       ? momentum
                                                                                            : plain)};
}

static void change_work(const struct optimizer *o, struct optimizer_work *out)
{
    const uint64_t n = o->arena.parameters;
    *out = (struct optimizer_work){.name = "change",
                                   .kernel = "optimizer_step",
                                   .read = n * 2 * sizeof(float),
                                   .written = n * (sizeof(float) + (o->session->f16 ? 2 : 0)),
                                   .flops = 2 * (double)n};
}

static bool adapter_work(const struct optimizer *o, int index, struct optimizer_work *out)
{
    struct adapters_work work;
    if (!adapters_work(o->options.adapters, index, &work)) return false;
    *out = (struct optimizer_work){.name = work.name,
                                   .kernel = work.kernel,
                                   .read = work.read,
                                   .written = work.written,
                                   .flops = work.flops,
                                   .launches = work.launches,
                                   .first = work.first,
                                   .program = work.program,
                                   .timed = (uint32_t)o->ways[WAY_DIRECT].schedule.n_steps + work.first};
    return true;
}

size_t optimizer_timed(const struct optimizer *o)
{
    return (size_t)o->ways[WAY_DIRECT].schedule.n_steps + adapters_steps(o->options.adapters);
}

void optimizer_time(struct optimizer *o, double *seconds)
{
    o->timed = seconds;
    adapters_time(o->options.adapters, seconds ? seconds + o->ways[WAY_DIRECT].schedule.n_steps : NULL);
}

bool optimizer_work(const struct optimizer *o, int index, struct optimizer_work *out)
{
    const uint32_t launches = (uint32_t)o->arena.n_launches;
    const int phases = optimizer_lamb(o) ? PHASES : PHASE_STEP + 1;
    if (index >= phases) return adapter_work(o, index - phases, out);
    if (index < 0) return false;
    if (index == PHASE_ADD) norm_work(o, out);
    if (index == PHASE_NORM) sum_work(o, "norm", out);
    if (index == PHASE_STEP) step_work(o, out);
    if (index == PHASE_RATIOS) sum_work(o, "ratios", out);
    if (index == PHASE_CHANGE) change_work(o, out);
    out->launches = phase_sums((enum phase)index) ? 1 : launches;
    out->first = out->timed = (uint32_t)o->ways[WAY_DIRECT].first[index];
    out->program = o->ways[WAY_DIRECT].program;
    return true;
}

/* Of the parameters alone: sums of chunks are left out. A step by what is accumulated reads its floats once, where a
 * direct one reads the session's gradients twice. `accumulate` reads nothing of what was accumulated before. */
struct optimizer_bytes optimizer_bytes(const struct optimizer *o)
{
    const uint64_t n = o->arena.parameters, storage = session_storage(o->session);
    uint64_t direct = 0;
    struct optimizer_work work;
    for (int i = 0; optimizer_work(o, i, &work); i++)
        if (strcmp(work.kernel, "optimizer_sum") != 0) direct += work.read + work.written;
    return (struct optimizer_bytes){.memory = arena_bytes(&o->arena, o->parts) + o->header_bytes + o->verdict_bytes +
                                              o->table_bytes,
                                    .accumulate = n * (storage + sizeof(float)),
                                    .step = direct + n * sizeof(float) - 2 * n * storage,
                                    .direct = direct};
}
