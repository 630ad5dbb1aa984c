/* What the model gives as it is now, without dropout. */
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

static bool encode(struct wherry_trainer *t, const wherry_batch *batches, size_t batch, float *rows, size_t count,
                   struct error *e)
{
    char where[64];
    if (!wherry_encode(t->view.session, &batches[batch], rows, count * t->row_floats)) return true;
    snprintf(where, sizeof where, "batch %zu", batch);
    return fail_in(e, where);
}

static bool loss_of(struct wherry_trainer *t, size_t first, size_t n, const wherry_targets *targets, double *loss,
                    struct error *e)
{
    const struct loss_targets part = trainer_targets(t, targets, first, n);
    return loss_run(t->loss, t->rows + first * t->row_floats, n, &part, 1, loss, NULL, e);
}

/* The mean over batches whose rows do not know each other, each batch's counting as many rows as it has. */
static bool losses_add(struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t rows,
                       const wherry_targets *targets, double *loss, struct error *e)
{
    double all = trainer_share(t, targets, 0, rows), sum = 0;
    if (!(all > 0)) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "no row has a label that counts");
    for (size_t b = 0, first = 0, n; b < n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &batches[b]);
        double one, share = trainer_share(t, targets, first, n) / all;
        if (!(share > 0)) continue;
        TRY(loss_of(t, first, n, targets, &one, e));
        sum += share * one;
    }
    *loss = sum;
    return true;
}

/* The mean over all labels of all batches; `out` gets a row for each batch. */
static bool masked_evaluate(struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t rows,
                            const wherry_targets *targets, double *loss, float *out, struct error *e)
{
    double all = trainer_share(t, targets, 0, rows), next = masked_next(t, batches, n_batches), sum = 0;
    if (!(all > 0)) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "no token has a label that counts");
    TRY(view_session(t, e));
    for (size_t b = 0, first = 0, n; b < n_batches; b++, first += n) {
        float total[MASKED_FLOATS] = {0};
        double one, labels;
        char where[64];
        n = trainer_batch_rows(t, &batches[b]);
        labels = trainer_share(t, targets, first, n);
        snprintf(where, sizeof where, "batch %zu", b);
        if (labels > 0) {
            if (!masked_forward(t->view.session, &batches[b], targets->labels + first, NULL,
                                masked_counts(labels, labels / all, next), &one, total))
                return fail_in(e, where);
            sum += labels / all * one;
        }
        if (out) memcpy(out + b * t->row_floats, total, t->row_floats * sizeof *total);
    }
    *loss = sum;
    return true;
}

static bool evaluate(struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                     const wherry_targets *targets, double *loss, float *out, size_t out_floats, struct error *e)
{
    size_t rows;
    double value;
    TRY(trainer_input_check(t, batches, n_batches, targets, &rows, e));
    size_t floats = (trainer_masked(t) ? n_batches : rows) * t->row_floats;
    if (out && out_floats < floats)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "room for %zu floats, the batches give %zu", out_floats, floats);
    if (trainer_masked(t)) return masked_evaluate(t, batches, n_batches, rows, targets, loss, out, e);
    TRY(view_session(t, e) && trainer_rows_room(t, rows, e));
    for (size_t b = 0, first = 0, n; b < n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &batches[b]);
        TRY(encode(t, batches, b, t->rows + first * t->row_floats, n, e));
    }
    TRY(t->coupled ? loss_of(t, 0, rows, targets, &value, e)
                   : losses_add(t, batches, n_batches, rows, targets, &value, e));
    if (out) memcpy(out, t->rows, rows * t->row_floats * sizeof *out);
    *loss = value;
    return true;
}

wherry_status wherry_trainer_evaluate(wherry_trainer *trainer, const wherry_batch *batches, size_t n_batches,
                                      const wherry_targets *targets, double *loss, float *rows, size_t row_floats)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = trainer->context;
    if (!loss) return context_invalid(context, "wherry_trainer_evaluate: loss is NULL");
    struct error *e = context_error(context);
    bool ok = evaluate(trainer, batches, n_batches, targets, loss, rows, row_floats, e);
    return context_status(context, ok || fail_in(e, "evaluation"));
}

wherry_status wherry_trainer_encode(wherry_trainer *trainer, const wherry_batch *batch, float *out, size_t out_floats)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = trainer->context;
    if (!view_session(trainer, context_error(context))) return context_status(context, false);
    return wherry_encode(trainer->view.session, batch, out, out_floats);
}
