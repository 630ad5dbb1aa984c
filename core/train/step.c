/* A step: forward and backward passes of its batches, and the change of the weights. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/encode.h"
#include "train/trainer.h"

/* What a step is of. */
struct task {
    const wherry_batch *batches;
    size_t n_batches, rows;
    const wherry_targets *targets;
    double loss;
    bool overflow; /* f16 can't hold a scaled gradient of the output */
};

/* ---- passes of one batch ---- */

/* Masks of each batch of a step are others, and those of the first one are what the seed alone gives. */
static bool forward(struct wherry_trainer *t, const struct task *task, size_t batch, float *rows, size_t count,
                    struct error *e)
{
    const wherry_step step = {
        .struct_size = sizeof step, .step = (uint32_t)t->step, .seed = t->seed + batch * UINT64_C(0x9e3779b97f4a7c15)};
    char where[64];
    if (!wherry_forward(t->session, &task->batches[batch], NULL, &step, rows, rows ? count * t->row_floats : 0))
        return true;
    snprintf(where, sizeof where, "batch %zu", batch);
    return fail_in(e, where);
}

static bool held_by_f16(const struct wherry_trainer *t, const float *values, size_t count)
{
    bool held = true;
    for (size_t i = 0; t->session->f16 && i < count; i++) held &= fabsf(values[i]) < 65520;
    return held;
}

/* And adds the gradients, times their part in the step's. */
static bool backward(struct wherry_trainer *t, struct task *task, const float *d_rows, size_t count, double weight,
                     struct error *e)
{
    size_t floats = count * t->row_floats;
    if (!held_by_f16(t, d_rows, floats)) {
        task->overflow = true;
        return true;
    }
    return !wherry_backward(t->session, d_rows, floats, NULL, 0) && optimizer_accumulate(t->optimizer, weight, e);
}

/* ---- all batches ---- */

/* Each batch for itself: its rows' gradients do not depend on the others'. */
static bool batches_add(struct wherry_trainer *t, struct task *task, struct error *e)
{
    float scale = (float)optimizer_scale(t->optimizer);
    double all = trainer_share(t, task->targets, 0, task->rows);
    if (!(all > 0))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "no row has a label that counts: every one is %d, or of a class whose weight is 0", LOSS_IGNORED);
    for (size_t b = 0, first = 0, n; b < task->n_batches && !task->overflow; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        double loss, share = trainer_share(t, task->targets, first, n) / all;
        if (!(share > 0)) continue;
        TRY(trainer_rows_room(t, n, e) && forward(t, task, b, t->rows, n, e));
        TRY(trainer_loss(t, t->rows, first, n, task->targets, scale, &loss, t->d_rows, e) &&
            trainer_loss_check(loss, e));
        task->loss += share * loss;
        TRY(backward(t, task, t->d_rows, n, share, e));
    }
    return true;
}

/* All rows first, for the loss knows them together; then each batch again, with its part of the gradient. What the last
 * one's forward pass has left is there still, so it is the first to go back. */
static bool batches_join(struct wherry_trainer *t, struct task *task, struct error *e)
{
    size_t last = task->n_batches - 1, first = 0, n = 0;
    TRY(trainer_rows_room(t, task->rows, e));
    for (size_t b = 0; b < task->n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        TRY(forward(t, task, b, t->rows + first * t->row_floats, n, e));
    }
    TRY(trainer_loss(t, t->rows, 0, task->rows, task->targets, (float)optimizer_scale(t->optimizer), &task->loss,
                     t->d_rows, e));
    TRY(trainer_loss_check(task->loss, e));
    TRY(backward(t, task, t->d_rows + (first - n) * t->row_floats, n, 1, e));
    for (size_t b = first = 0; b < last && !task->overflow; b++, first += n) {
        n = trainer_batch_rows(t, &task->batches[b]);
        TRY(forward(t, task, b, NULL, n, e) && backward(t, task, t->d_rows + first * t->row_floats, n, 1, e));
    }
    return true;
}

/* ---- the step ---- */

static bool step(struct wherry_trainer *t, struct task *task, wherry_step_result *result, struct error *e)
{
    TRY(trainer_input_check(t, task->batches, task->n_batches, task->targets, &task->rows, e));
    TRY(t->coupled ? batches_join(t, task, e) : batches_add(t, task, e));
    return trainer_change(t, task->loss, task->overflow, result, e);
}

wherry_status wherry_trainer_step(wherry_trainer *trainer, const wherry_batch *batches, size_t n_batches,
                                  const wherry_targets *targets, wherry_step_result *out)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = trainer->context;
    const wherry_shard whole = {.struct_size = sizeof whole, .batches = batches, .n_batches = n_batches};
    if (trainer->sharding.buckets) return wherry_trainer_step_shards(trainer, &whole, 1, targets, out);
    if (!out || out->struct_size != sizeof *out)
        return context_invalid(context, "wherry_trainer_step: out is NULL, or its struct_size is not %zu", sizeof *out);
    struct task task = {.batches = batches, .n_batches = n_batches, .targets = targets};
    struct error *e = context_error(context);
    if (step(trainer, &task, out, e)) return WHERRY_STATUS_OK;
    char where[48];
    optimizer_clear(trainer->optimizer);
    snprintf(where, sizeof where, "step %" PRIu64, trainer->step);
    return context_status(context, fail_in(e, where));
}
