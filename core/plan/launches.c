/* Which work-groups each launch of a divided step has. Kernels number their work-groups x + y * GRID_WIDTH, and an API
 * adds what is launched first to the number. */
#include "plan/launches.h"

#include "base/round.h"
#include "interface/interface.h"
#include "plan/variants.h"

bool call_divides(const struct call *call)
{
    const struct variant *row = kernel_row(call->kernel);
    return row && row->rung != RUNG_WGMMA;
}

uint32_t launch_groups(uint64_t groups, double launches)
{
    const double most = launches < LAUNCHES_MOST ? launches : LAUNCHES_MOST;
    if (groups < 2 || !(most > 1)) return LAUNCH_WHOLE;
    uint64_t wanted = (uint64_t)((double)groups / most);
    /* At most LAUNCHES_MOST, whatever is rounded. */
    if (wanted < divide_up(groups, LAUNCHES_MOST)) wanted = divide_up(groups, LAUNCHES_MOST);
    if (wanted >= GRID_WIDTH) return (uint32_t)(wanted - wanted % GRID_WIDTH);
    /* A power of two divides rows evenly. */
    uint32_t power = 1;
    while (power < wanted) power *= 2;
    const bool room = groups / (power > 1 ? power / 2 : 1) < LAUNCHES_MOST;
    return power > wanted && room ? power / 2 : power;
}

uint64_t step_groups_most(const struct step *step)
{
    return step->items_most / call_get(step->call, CONST_LOCAL_SIZE, 1);
}

static uint32_t count_of(const struct step *step, uint64_t groups)
{
    if (step->groups_most == LAUNCH_WHOLE || groups <= step->groups_most) return 1;
    return (uint32_t)divide_up(groups, step->groups_most);
}

uint32_t launch_count(const struct step *step, const struct grid *grid)
{
    return count_of(step, (uint64_t)grid->x * grid->y);
}

uint32_t launch_count_most(const struct step *step) { return count_of(step, step_groups_most(step)); }

struct launch_part launch_part(const struct step *step, const struct grid *grid, uint32_t index)
{
    struct launch_part range = {.grid = *grid};
    if (launch_count(step, grid) == 1) return range;
    const uint64_t groups = (uint64_t)grid->x * grid->y, first = (uint64_t)index * step->groups_most,
                   left = groups - first, own = left < step->groups_most ? left : step->groups_most;
    range.first = (uint32_t)first;
    range.grid.x = (uint32_t)(own < GRID_WIDTH ? own : GRID_WIDTH);
    range.grid.y = (uint32_t)divide_up(own, GRID_WIDTH);
    return range;
}
