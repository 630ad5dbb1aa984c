/* The check of a rung's numbers: one small layer on the device, its groups against their references. */
#ifndef WHERRY_RUNTIME_RUNG_CHECK_H
#define WHERRY_RUNTIME_RUNG_CHECK_H

#include "plan/variants.h"
#include "runtime/session.h"

/* The weights of the check's model that may lie transposed; it has no pooler. */
enum {
    CHECK_TRANSPOSED =
        WEIGHT_BIT(WEIGHT_QKV) | WEIGHT_BIT(WEIGHT_OUT) | WEIGHT_BIT(WEIGHT_LIN1) | WEIGHT_BIT(WEIGHT_LIN2)
};

/* Whether the rung's kernels compute rightly on the session's device, for its head size, its pass and these orders.
 * OK: they do, now or when it was looked at before (rung_kept.h). Verify failed: a wrong result, or none; unsupported:
 * no kernel of it fits. `reason` says why not. */
wherry_status rung_check(struct wherry_session *s, enum rung rung, const struct layout_choice *layout, char *reason,
                         size_t reason_size);

#endif
