/* The kernels between a session and a loss, handover_take and handover_give (the files of those names in cl/). An item
 * is what a work-group has there. */
#include "interface/optimizer.h"
#include "vector.h"

#include "backends/cpu/step.h"

static size_t groups(const struct cpu_step *s) { return s->batch[HANDOVER_ACTIVE] ? HANDOVER_GROUPS : 0; }

/* A stretch of the elements, copied; `bad`: one that is not finite, or something else is wrong. */
static void copy(const struct cpu_step *s, size_t item, const float *x, float *y, bool bad)
{
    const size_t count = s->batch[HANDOVER_COUNT], share = (count + HANDOVER_GROUPS - 1) / HANDOVER_GROUPS;
    const size_t end = (item + 1) * share < count ? (item + 1) * share : count;
    float *flag = s->at[SLOT_PARTIALS] + item;
    for (size_t i = item * share; i < end; i++) {
        y[i] = x[i];
        bad |= !isfinite(x[i]);
    }
    if (!s->batch[HANDOVER_KEEPS]) *flag = 0;
    if (bad) *flag = INFINITY;
}

static void take_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    copy(s, item, s->at[SLOT_X], s->at[SLOT_Y] + s->batch[HANDOVER_AT], false);
}

static void give_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    copy(s, item, s->at[SLOT_X] + s->batch[HANDOVER_AT], s->at[SLOT_Y], !item && !isfinite(s->at[SLOT_BIAS][0]));
}

const struct cpu_kernel CPU_NAME(cpu_handover_take) = {.name = "handover_take", .items = groups, .run = take_run};
const struct cpu_kernel CPU_NAME(cpu_handover_give) = {.name = "handover_give", .items = groups, .run = give_run};
