/* What a session's group is, beside its times. */
#include "measure/describe.h"

#include <string.h>

#include "analysis/costs.h"
#include "runtime/calls.h"
#include "runtime/programs.h"

void group_describe(const struct wherry_session *s, const struct batch_shape *shape, int index, uint64_t cache_bytes,
                    wherry_group_measure *out)
{
    const int first = group_first_call(s, index);
    memset(out, 0, sizeof *out);
    while (first + (int)out->launches < s->n_calls && s->call_groups[first + (int)out->launches] == index)
        out->launches++;
    cost_of_group(&s->graph, shape, &s->groups[index], session_storage(s), &out->cost);
    session_traffic(s, shape, index, cache_bytes, &out->traffic);
    for (uint32_t i = 0; i < out->launches && i < WHERRY_GROUP_KERNELS; i++)
        session_kernel_use(s, first + (int)i, &out->kernels[i]);
}

void group_time_set(wherry_group_measure *out, wherry_time time)
{
    out->warm = time;
    out->cost.seconds = time.median;
    out->cost.seconds_p05 = time.p05;
    out->cost.seconds_p95 = time.p95;
}
