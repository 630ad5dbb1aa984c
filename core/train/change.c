/* The end of a step: the loss, and the change of the weights. */
#include <math.h>

#include "base/number.h"
#include "train/schedule.h"
#include "train/trainer.h"

bool trainer_loss_check(double loss, struct error *e)
{
    return isfinite(loss) || fail(e, WHERRY_STATUS_VERIFY_FAILED,
                                  "the loss is %s: no weight was changed. Take the last checkpoint and a smaller "
                                  "learning rate, or look at the targets",
                                  isnan(loss) ? "NaN" : "infinite");
}

bool trainer_change(struct wherry_trainer *t, double loss, bool overflow, wherry_step_result *result, struct error *e)
{
    struct optimizer_result done;
    double scale = optimizer_scale(t->optimizer), rate = schedule_rate(&t->optimizer_desc, t->step);
    if (overflow) optimizer_overflow(t->optimizer);
    TRY(optimizer_step(t->optimizer, rate, &done, e));
    if (done.skipped && (!t->session->f16 || scale <= 1))
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "a gradient is not finite, at a loss of %s and a loss scale of %s: no weight was changed. Take the "
                    "last checkpoint and a smaller learning rate; wherry_trainer_check tells whether the device is "
                    "right",
                    NUMBER("%g", loss), NUMBER("%g", scale));
    *result = (wherry_step_result){.struct_size = sizeof *result,
                                   .skipped = done.skipped,
                                   .step = t->step++,
                                   .loss = loss,
                                   .gradient_norm = done.norm,
                                   .learning_rate = rate,
                                   .loss_scale = scale};
    if (!done.skipped) view_stale(t);
    return true;
}
