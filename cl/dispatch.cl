/* The list of each expert's rows: POSITIONS [EXPERTS] the ends of their rows, and after them the rows, those of the first
 * expert, the second, ..., each expert's in the tokens' order: token * CHOSEN + number, where IDS has it. So the list of
 * an expert has the same order whatever else is in the batch, and nothing is padded. Twin of shaders/dispatch.comp.
 *
 * A work-group per expert, which looks at all of IDS, each work-item at a stretch: how many are of experts before, and of
 * this one; and, from where its own ones begin in the list, once more. Any LOCAL_SIZE is right. */
#include "common.h"

#ifndef EXPERTS
#define EXPERTS 1
#endif
#ifndef CHOSEN
#define CHOSEN 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void dispatch(BATCH_ARGUMENT
    , INPUT_OF(uint, ids)
    , OUTPUT_OF(uint, positions)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, ids);
    BEGIN_OUTPUT_OF(uint, positions);
    __local uint before[LOCAL_SIZE], own[LOCAL_SIZE];
    const uint expert = group_number(), rows = batch[ROWS] * CHOSEN;
    const uint stretch = (rows + LOCAL_SIZE - 1) / LOCAL_SIZE;
    const uint first = min(local_number() * stretch, rows), end = min(first + stretch, rows);
    uint lower = 0, mine = 0;
    for (uint row = first; row < end; row++) {
        lower += ids[row] < expert ? 1 : 0;
        mine += ids[row] == expert ? 1 : 0;
    }
    before[local_number()] = lower;
    own[local_number()] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = 0, all = 0;
    for (uint i = 0; i < LOCAL_SIZE; i++) {
        at += before[i] + (i < local_number() ? own[i] : 0);
        all += before[i] + own[i];
    }
    if (expert < EXPERTS) {
        for (uint row = first; row < end; row++)
            if (ids[row] == expert) positions[EXPERTS + at++] = row;
        if (local_number() == 0) positions[expert] = all;
    }
}
