/* A step: forward and backward passes of its batches, and the change of the weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/encode.h"
#include "runtime/train.h"
#include "train/trainer.h"

/* What a step is of. Everything is submitted, batch after batch, and waited for at the end, but for losses of more
 * batches than may be under way. */
struct task {
    const wherry_batch *batches;
    size_t n_batches, rows;
    const wherry_targets *targets;
    double loss;
    double shares[LOSS_UNDER_WAY]; /* in the step's loss, of those under way, the oldest first */
    bool given;                    /* a gradient by rows */
};

/* ---- passes of one batch ---- */

static bool forward(struct wherry_trainer *t, const struct task *task, size_t batch, struct error *e)
{
    const wherry_step step = trainer_masks(t, 0, batch);
    char where[64];
    if (session_forward(t->session, &task->batches[batch], &step, NULL, e)) return true;
    snprintf(where, sizeof where, "batch %zu", batch);
    return fail_in(e, where);
}

/* To the optimizer, times their part in the step's: what is added to nothing is left where it is. */
static bool gradients_hand(struct wherry_trainer *t, const struct task *task, double weight, struct error *e)
{
    return task->n_batches > 1 ? optimizer_accumulate(t->optimizer, weight, e)
                               : optimizer_direct(t->optimizer, weight, e);
}

static bool backward(struct wherry_trainer *t, struct task *task, size_t rows, size_t at, double weight,
                     struct error *e)
{
    TRY(handover_give(t->handover, rows, at, !task->given, e) && session_backward(t->session, NULL, e));
    task->given = true;
    return gradients_hand(t, task, weight, e);
}

/* ---- the loss ---- */

static bool loss_take(struct wherry_trainer *t, struct task *task, struct error *e)
{
    double loss;
    TRY(loss_wait(t->loss, &loss, e));
    task->loss += task->shares[0] * loss;
    memmove(task->shares, task->shares + 1, sizeof task->shares - sizeof *task->shares);
    return true;
}

/* Of `n` rows, of which those before `first` have targets that are left out. */
static bool loss_begin(struct wherry_trainer *t, struct task *task, size_t first, size_t n, double share,
                       struct error *e)
{
    const struct loss_targets targets = trainer_targets(t, task->targets, first, n);
    if (loss_under_way(t->loss) == LOSS_UNDER_WAY) TRY(loss_take(t, task, e));
    task->shares[loss_under_way(t->loss)] = share;
    return loss_submit(t->loss, n, &targets, (float)optimizer_scale(t->optimizer), e);
}

/* Both passes of one batch, whose labels are `share` of the step's. The loss is waited for while the backward pass
 * runs. */
static bool masked_add(struct wherry_trainer *t, struct task *task, size_t batch, size_t first,
                       struct masked_counts counts, double share, struct error *e)
{
    const wherry_step step = trainer_masks(t, 0, batch);
    float gradient[MASKED_FLOATS];
    double loss;
    char where[64];
    snprintf(where, sizeof where, "batch %zu", batch);
    if (!masked_submit(t->session, &task->batches[batch], task->targets->labels + first, &step, e))
        return fail_in(e, where);
    masked_gradient(counts, optimizer_scale(t->optimizer), gradient);
    TRY(session_gradient_give(t->session, gradient, t->row_floats, e) && session_backward_given(t->session, e));
    TRY(gradients_hand(t, task, share, e));
    if (!masked_loss(t->session, counts, &loss, e)) return fail_in(e, where);
    task->loss += share * loss;
    return true;
}

/* ---- all batches ---- */

/* Each batch for itself: its rows' gradients do not depend on the others'. */
static bool batches_add(struct wherry_trainer *t, struct task *task, struct error *e)
{
    double all, next = masked_next(t, task->batches, task->n_batches);
    TRY(trainer_share_all(t, task->targets, task->rows, &all, e));
    for (size_t b = 0, first = 0, n; b < task->n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        double share = trainer_share(t, task->targets, first, n) / all;
        if (!(share > 0)) continue;
        if (trainer_masked(t)) {
            TRY(masked_add(t, task, b, first, masked_counts(share * all, share, next), share, e));
            continue;
        }
        TRY(forward(t, task, b, e) && handover_take(t->handover, n, 0, !task->given, e));
        TRY(loss_begin(t, task, first, n, share, e) && backward(t, task, n, 0, share, e));
    }
    return true;
}

/* All rows first, for the loss knows them together; then each batch again, with its part of the gradient. What the last
 * one's forward pass has left is there still, so it is the first to go back. */
static bool batches_join(struct wherry_trainer *t, struct task *task, struct error *e)
{
    size_t last = task->n_batches - 1, first = 0, n = 0;
    for (size_t b = 0; b < task->n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        TRY(forward(t, task, b, e) && handover_take(t->handover, n, first, !b, e));
    }
    TRY(loss_begin(t, task, 0, task->rows, 1, e) && backward(t, task, n, first - n, 1, e));
    for (size_t b = first = 0; b < last; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        TRY(forward(t, task, b, e) && backward(t, task, n, first, 1, e));
    }
    return true;
}

/* ---- the step ---- */

/* The device has left the weights as they are where a row or the loss is not finite. */
static bool change(struct wherry_trainer *t, struct task *task, wherry_step_result *result, struct error *e)
{
    TRY(trainer_change_begin(t, e));
    while (t->loss && loss_under_way(t->loss)) TRY(loss_take(t, task, e));
    TRY(handover_wait(t->handover, e) && trainer_loss_check(task->loss, e));
    return trainer_change_end(t, task->loss, result, e);
}

static bool step(struct wherry_trainer *t, struct task *task, wherry_step_result *result, struct error *e)
{
    TRY(trainer_input_check(t, task->batches, task->n_batches, task->targets, &task->rows, e));
    TRY(t->coupled ? batches_join(t, task, e) : batches_add(t, task, e));
    return change(t, task, result, e);
}

/* Waits for what is under way, whatever comes of it. */
static void step_drop(struct wherry_trainer *t)
{
    struct error ignored;
    double loss;
    while (t->loss && loss_under_way(t->loss)) loss_wait(t->loss, &loss, &ignored);
    handover_wait(t->handover, &ignored);
    session_passes_wait(t->session, &ignored);
    optimizer_clear(t->optimizer);
}

bool trainer_step_alone(struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                        const wherry_targets *targets, wherry_step_result *out, struct error *e)
{
    struct task task = {.batches = batches, .n_batches = n_batches, .targets = targets};
    if (step(t, &task, out, e)) return true;
    step_drop(t);
    return false;
}
