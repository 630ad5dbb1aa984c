/* The learning rate of a step. */
#include "train/schedule.h"

#include <inttypes.h>
#include <math.h>

bool schedule_check(const wherry_optimizer_desc *desc, struct error *e)
{
    if ((unsigned)desc->schedule > WHERRY_SCHEDULE_CONSTANT)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_schedule", (int)desc->schedule);
    if (!desc->total_steps && desc->schedule != WHERRY_SCHEDULE_CONSTANT)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_optimizer_desc.total_steps is 0, and the schedule ends there: give the number of steps, or "
                    "take WHERRY_SCHEDULE_CONSTANT");
    if (desc->total_steps && desc->warmup_steps > desc->total_steps)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_optimizer_desc: %" PRIu64 " steps of warm-up are more than all %" PRIu64 " steps",
                    desc->warmup_steps, desc->total_steps);
    return true;
}

double schedule_rate(const wherry_optimizer_desc *desc, uint64_t step)
{
    double rate = (double)desc->learning_rate;
    if (step < desc->warmup_steps) return rate * (double)step / (double)desc->warmup_steps;
    if (desc->schedule == WHERRY_SCHEDULE_CONSTANT) return rate;
    if (step >= desc->total_steps) return 0;
    double all = (double)(desc->total_steps - desc->warmup_steps), done = (double)(step - desc->warmup_steps) / all;
    if (desc->schedule == WHERRY_SCHEDULE_LINEAR) return rate * (1 - done);
    return rate * 0.5 * (1 + cos(3.14159265358979323846 * done));
}
