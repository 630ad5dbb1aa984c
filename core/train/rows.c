/* The rows of a step: what batches give, what the loss takes of them, and what each counts. */
#include <stdio.h>

#include "runtime/batches.h"
#include "train/trainer.h"

size_t trainer_batch_rows(const struct wherry_trainer *t, const wherry_batch *batch)
{
    return t->rows_of_tokens ? batch->offsets[batch->sequences] : batch->sequences;
}

/* A label for each row, or targets_each values for each example. */
static bool targets_check(const struct wherry_trainer *t, const wherry_targets *targets, size_t rows, struct error *e)
{
    bool labels = t->loss_kind == WHERRY_LOSS_CLASSES || trainer_masked(t),
         none = t->loss_kind == WHERRY_LOSS_CONTRASTIVE;
    size_t want = rows / t->columns * t->targets_each;
    if (targets && targets->struct_size != sizeof *targets)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_targets.struct_size is not %zu", sizeof *targets);
    if (none) {
        if (!targets || (!targets->labels && !targets->values)) return true;
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "this loss has no targets: an example's own positive is the right one");
    }
    if (!targets || !(labels ? (const void *)targets->labels : (const void *)targets->values))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss needs wherry_targets.%s",
                    labels ? "labels" : "values");
    return targets->count == want || fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                                          "wherry_targets.count is %zu, and the %zu rows of these batches have %zu %s",
                                          targets->count, rows, want, labels ? "labels" : "values");
}

bool trainer_batches_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t *rows,
                           struct error *e)
{
    size_t count = 0;
    if (!batches || !n_batches)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "there are no batches: give one at least");
    for (size_t b = 0; b < n_batches; b++) {
        if (!session_batch_check(t->session, &batches[b], true, e)) {
            char where[64];
            snprintf(where, sizeof where, "batch %zu", b);
            return fail_in(e, where);
        }
        count += trainer_batch_rows(t, &batches[b]);
    }
    *rows = count;
    return count % t->columns == 0 ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "the batches have %zu rows, which is no multiple of the loss' %u columns", count, (unsigned)t->columns);
}

bool trainer_rows_check(const struct wherry_trainer *t, size_t rows, const wherry_targets *targets, struct error *e)
{
    if (t->coupled && rows > t->max_rows)
        return fail(e, WHERRY_STATUS_TOO_LONG,
                    "the batches have %zu rows and this trainer was made for %zu: raise wherry_trainer_desc.max_rows, "
                    "or take fewer examples",
                    rows, t->max_rows);
    return targets_check(t, targets, rows, e);
}

bool trainer_labels_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t first,
                          const wherry_targets *targets, struct error *e)
{
    for (size_t b = 0; trainer_masked(t) && b < n_batches; first += trainer_batch_rows(t, &batches[b++])) {
        char where[64];
        snprintf(where, sizeof where, "batch %zu", b);
        if (!masked_check(t, &batches[b], targets->labels + first, e)) return fail_in(e, where);
    }
    return true;
}

bool trainer_input_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                         const wherry_targets *targets, size_t *rows, struct error *e)
{
    return trainer_batches_check(t, batches, n_batches, rows, e) && trainer_rows_check(t, *rows, targets, e) &&
           trainer_labels_check(t, batches, n_batches, 0, targets, e);
}

bool trainer_rows_room(struct wherry_trainer *t, size_t rows, struct error *e)
{
    const struct host *host = &t->context->host;
    if (rows <= t->rows_room) return true;
    host_free(host, t->rows);
    t->rows_room = 0;
    t->rows = host_alloc_unset(host, rows, t->row_floats * sizeof *t->rows, e);
    if (!t->rows) return false;
    t->rows_room = rows;
    return true;
}

struct loss_targets trainer_targets(const struct wherry_trainer *t, const wherry_targets *targets, size_t first,
                                    size_t n)
{
    struct loss_targets part = {0};
    size_t before = first / t->columns * t->targets_each, count = n / t->columns * t->targets_each;
    if (targets && targets->labels) part.labels = targets->labels + before, part.count = count;
    if (targets && targets->values) part.values = targets->values + before, part.count = count;
    return part;
}

double trainer_share(const struct wherry_trainer *t, const wherry_targets *targets, size_t first, size_t n)
{
    double sum = 0;
    if (t->loss_kind != WHERRY_LOSS_CLASSES && !trainer_masked(t)) return (double)n;
    for (size_t i = first; i < first + n; i++) {
        int32_t label = targets->labels[i];
        if (label == LOSS_IGNORED) continue;
        /* One that is out of range the loss refuses. */
        bool weighted = t->class_weights && label >= 0 && (size_t)label < t->row_floats;
        sum += weighted ? (double)t->class_weights[label] : 1;
    }
    return sum;
}

bool trainer_share_all(const struct wherry_trainer *t, const wherry_targets *targets, size_t rows, double *all,
                       struct error *e)
{
    *all = trainer_share(t, targets, 0, rows);
    return *all > 0 ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "no row has a label that counts: every one is %d, or of a class whose weight is 0", LOSS_IGNORED);
}

wherry_step trainer_masks(const struct wherry_trainer *t, size_t shard, size_t batch)
{
    return (wherry_step){.struct_size = sizeof(wherry_step),
                         .step = (uint32_t)t->step,
                         .seed = t->seed + batch * UINT64_C(0x9e3779b97f4a7c15) + shard * UINT64_C(0xd1b54a32d192ed03)};
}
