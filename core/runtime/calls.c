/* A group's calls with the sizes that the device, a tuning or the caller gives them, and the bytes that they move. */
#include "runtime/calls.h"

#include "interface/interface.h"
#include "plan/traffic.h"
#include "plan/variants.h"

/* Rows of a group's output at the limits: what tile sizes are chosen by. */
static uint64_t call_rows(const struct call *call, const struct batch_shape *limits)
{
    return batch_rows(limits, call_get(call, CONST_ROWS, HEADER_TOKENS));
}

uint64_t session_scratch_bytes(const struct wherry_session *s, const struct call *call)
{
    return call_scratch_bytes(call, call_rows(call, &s->limits));
}

/* Sizes that were measured for this call, where there are some. */
static bool call_tuned(struct wherry_session *s, const struct call *call, const struct sizes *sizes, struct choice *out,
                       const char **reason, struct error *e)
{
    const struct tuned *entry = NULL;
    switch (tuning_find(&s->context->host, &s->tuning, call, sizes, out, &entry)) {
    case TUNED_NONE:
        return false;
    case TUNED_FOUND:
        *reason = entry->why;
        return true;
    case TUNED_STALE:
        session_note(s, e, "tuned sizes of %s are not used: this library has no \"%.200s\" for it; tune again",
                     kernel_base(call->kernel), entry->use);
    }
    return false;
}

bool session_calls(struct wherry_session *s, const struct graph *g, const struct group *group,
                   const struct choice *const forced[GROUP_MAX_CALLS], struct call calls[GROUP_MAX_CALLS],
                   const char *reasons[GROUP_MAX_CALLS], int *count, uint64_t *scratch, struct error *e)
{
    TRY(group_calls(g, group, calls, count, e));
    const struct device_limits *limits = &s->device_limits;
    *scratch = 0;
    for (int i = 0, made = *count; i < *count; i++) {
        uint64_t rows = call_rows(&calls[i], &s->limits);
        const struct call *before = i ? &calls[0] : NULL;
        const struct choice *choice = forced ? forced[i] : NULL;
        struct sizes sizes = call_sizes(&calls[i], before, limits, s->f16, rows, s->limits.longest);
        struct choice tuned;
        reasons[i] = NULL;
        if (!forced && call_tuned(s, &calls[i], &sizes, &tuned, &reasons[i], e)) choice = &tuned;
        if (choice)
            choice_apply(choice, calls, i, count, &sizes);
        else if (i < made)
            reasons[i] = call_tiles(&calls[i], before, limits, s->f16, rows, s->limits.longest);
        if (!i && !choice) calls_divide(calls, count, limits, s->f16, rows);
        uint64_t bytes = session_scratch_bytes(s, &calls[i]);
        *scratch = bytes > *scratch ? bytes : *scratch;
    }
    return true;
}

/* ---- what they move ---- */

struct group_steps {
    const struct wherry_session *session;
    int first;
};

static bool count_step(const void *kernels, int call, struct count *count)
{
    const struct group_steps *steps = kernels;
    const struct wherry_device *device = steps->session->device;
    return device->backend->program_traffic(device->handle, steps->session->program, steps->first + call, count);
}

/* Where a backend's kernels are its own, so are the rules. */
bool session_traffic(const struct wherry_session *s, const struct batch_shape *shape, int group, uint64_t cache_bytes,
                     wherry_traffic *out)
{
    const struct group_steps steps = {s, group_first_call(s, group)};
    const struct traffic_rules own = {count_step, &steps};
    int count = 0;
    while (steps.first + count < s->n_calls && s->call_groups[steps.first + count] == group) count++;
    return call_traffic(&s->graph, shape, &s->groups[group], &s->calls[steps.first], count, s->f16, s->words,
                        cache_bytes, s->device->backend->program_traffic ? &own : NULL, out);
}
