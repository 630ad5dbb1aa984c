/* Elements of outputs, for checking what layout_rows and layout_product write: SPOIL puts a value there that no kernel
 * gives, GATHER copies them to floats. Element number i is X or Y [IDS[i]]. Twin of shaders/layout_samples.comp. */
#include "common.h"
#include "layouts.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layout_samples(BATCH_ARGUMENT
#if FORM == LAYOUT_GATHER
    , INPUT(x)
#endif
    , INPUT_OF(uint, ids)
#if FORM == LAYOUT_GATHER
    , OUTPUT_OF(float, y)
#else
    , OUTPUT(y)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, ids);
    const uint i = group_number() * LOCAL_SIZE + local_number();
#if FORM == LAYOUT_GATHER
    BEGIN(x);
    BEGIN_OUTPUT_OF(float, y);
    if (batch[LAYOUT_LIVE] != 0 && i < batch[LAYOUT_COUNT]) y[i] = LOAD(x, ids[i]);
#else
    BEGIN_OUTPUT(y);
    if (batch[LAYOUT_LIVE] != 0 && i < batch[LAYOUT_COUNT]) STORE(y, ids[i], LAYOUT_SPOILED);
#endif
}
