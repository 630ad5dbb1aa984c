/* The end of a step: the loss, and the change of the weights. */
#include <math.h>

#include "base/number.h"
#include "runtime/encode.h"
#include "train/schedule.h"
#include "train/trainer.h"

bool trainer_loss_check(double loss, struct error *e)
{
    return isfinite(loss) || fail(e, WHERRY_STATUS_VERIFY_FAILED,
                                  "the loss is %s: no weight was changed. Take the last checkpoint and a smaller "
                                  "learning rate, or look at the targets",
                                  isnan(loss) ? "NaN" : "infinite");
}

static double rate_of(const struct wherry_trainer *t) { return schedule_rate(&t->optimizer_desc, t->step); }

bool trainer_change_begin(struct wherry_trainer *t, struct error *e)
{
    return optimizer_step_begin(t->optimizer, rate_of(t), e);
}

bool trainer_change_end(struct wherry_trainer *t, double loss, wherry_step_result *result, struct error *e)
{
    struct optimizer_result done;
    const double scale = optimizer_scale(t->optimizer);
    TRY(optimizer_step_end(t->optimizer, &done, e) && session_passes_wait(t->session, e));
    if (done.skipped && (session_type(t->session) != STORAGE_F16 || scale <= 1))
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "a gradient is not finite, at a loss of %s and a loss scale of %s: no weight was changed. Take the "
                    "last checkpoint and a smaller learning rate; wherry_trainer_check tells whether the device is "
                    "right",
                    NUMBER("%g", loss), NUMBER("%g", scale));
    *result = (wherry_step_result){.struct_size = sizeof *result,
                                   .skipped = done.skipped,
                                   .step = t->step,
                                   .loss = loss,
                                   .gradient_norm = done.norm,
                                   .learning_rate = rate_of(t),
                                   .loss_scale = scale};
    t->step++;
    if (!done.skipped) view_stale(t);
    return true;
}
