/* A step's work-groups as several launches, each of which is done before a driver's watchdog ends it. */
#ifndef WHERRY_PLAN_LAUNCHES_H
#define WHERRY_PLAN_LAUNCHES_H

#include "plan/device.h"
#include "plan/schedule.h"

enum { LAUNCHES_MOST = 1024 }; /* of one step */

enum { LAUNCH_WHOLE = 0 }; /* step.groups_most of steps that are launched whole */

/* Work-groups `first` and those behind it, by group_number() of the kernels. */
struct launch_part {
    struct grid grid;
    uint32_t first;
};

/* Whether it does not matter to the kernel which of its work-groups are launched together. To those that stay on the
 * device and take tiles in turns (wgmma) it does: they are of GPUs that take milliseconds for what others take seconds
 * for. Nor of one that is the backend's own. */
bool call_divides(const struct call *call);
/* What to set groups_most to, so that this many work-groups of the step, at the session's limits, are about `launches`
 * launches, of which none begins or ends inside a row of the grid that another one has, too. */
uint32_t launch_groups(uint64_t groups, double launches);
/* Work-groups of a step at the session's limits, 0: any number. */
uint64_t step_groups_most(const struct step *step);
/* Launches of a grid, at least 1; and at the session's limits. */
uint32_t launch_count(const struct step *step, const struct grid *grid);
uint32_t launch_count_most(const struct step *step);
/* Number `index` of them. */
struct launch_part launch_part(const struct step *step, const struct grid *grid, uint32_t index);

#endif
