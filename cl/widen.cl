/* Y = X in 32 bits: rows of N of what sessions store in 16, for applications whose buffer wants floats. Nothing else of
 * a session's is a float but statistics. Twin of shaders/widen.comp. */
#include "common.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void widen(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT_OF(float, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT_OF(float, y);
    const uint at = group_number() * LOCAL_SIZE + local_number();
    if (at < batch[ROWS] * N) y[at] = LOAD(x, at);
}
