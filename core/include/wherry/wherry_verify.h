/* Whether this device computes it right. Part of wherry.h, whose rules hold here.
 */
#ifndef WHERRY_VERIFY_H
#define WHERRY_VERIFY_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wherry_verify_result {
    char name[64];
    char kernel[32];
    double nmse; /* sum of squared differences over sum of squares, against the double reference on the same inputs */
    double max_error;            /* largest absolute difference */
    double tolerance;            /* what nmse may be at most */
    uint64_t values, not_finite; /* not_finite: NaN or infinity, the device's or the reference's */
    bool guards_intact;          /* nothing was written outside the group's outputs */
    bool passed;
} wherry_verify_result;

/* Called once per group. Returning false cancels. */
typedef bool (*wherry_verify_callback)(const wherry_verify_result *result, void *user);

typedef struct wherry_verify_summary {
    uint32_t struct_size; /* set by the caller */
    uint32_t groups, failed;
    uint32_t replays, replays_different; /* runs of the same batch; of them, those whose bits differ from the first's */
} wherry_verify_summary;

/* A training session gets random x and loss gradient. Runs every group of the session's plan on the device and compares
 * it with the reference, at this batch's shapes; then replays the step `replays` times and compares bits. Memory is
 * filled with a pattern before each run. The session must have been created with keep_intermediates.
 * WHERRY_STATUS_VERIFY_FAILED when anything differs or the reference itself is not finite; the summary is filled all
 * the same. Before all that, the device must show that it executes anything (wherry_session_prepare). */
WHERRY_API wherry_status wherry_verify(wherry_session *session, const wherry_batch *batch, uint32_t replays,
                                       wherry_verify_callback callback, void *user, wherry_verify_summary *summary);

#ifdef __cplusplus
}
#endif

#endif
