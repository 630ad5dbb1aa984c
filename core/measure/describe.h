/* What a session's group is, beside its times. */
#ifndef WHERRY_MEASURE_DESCRIBE_H
#define WHERRY_MEASURE_DESCRIBE_H

#include "runtime/session.h"
#include "wherry/wherry_measure.h"

/* Of a prepared session that has `shape` in its tables; without times, and the timer as good. */
void group_describe(const struct wherry_session *s, const struct batch_shape *shape, int index, uint64_t cache_bytes,
                    wherry_group_measure *out);
/* Its time in the step. */
void group_time_set(wherry_group_measure *out, wherry_time time);

#endif
