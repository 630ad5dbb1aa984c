/* Token ids that nobody looked at, as an application's buffer has them: what is none of the M of the vocabulary, negative
 * ones included, becomes 0, so that no row is read which the table of words does not have. Twin of shaders/known_ids.comp. */
#include "common.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void known_ids(BATCH_ARGUMENT
    , OUTPUT_OF(uint, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OUTPUT_OF(uint, y);
    const uint at = group_number() * LOCAL_SIZE + local_number();
    if (at < batch[ROWS] && y[at] >= M) y[at] = 0;
}
