/* Masked language models: the loss is a part of the session's graph, which gives two numbers for each batch, or with
 * next sentences four. */
#include "runtime/batches.h"
#include "runtime/train.h"
#include "train/trainer.h"

enum { TOTAL_LOSS, TOTAL_RIGHT, NEXT_LOSS, NEXT_RIGHT };

static size_t labels_of(const int32_t *labels, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) n += labels[i] != LABEL_NONE;
    return n;
}

/* A batch is left out where it has no label of a word, and its sequences' labels would be, too. */
bool masked_check(const struct wherry_trainer *t, const wherry_batch *batch, const int32_t *labels, struct error *e)
{
    TRY(session_labels_check(t->session, labels, batch->offsets[batch->sequences], e));
    if (!trainer_next(t)) return true;
    if (!batch->next)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss needs wherry_batch.next, a label for each sequence");
    TRY(session_next_check(batch->next, batch->sequences, e));
    return (labels_of(labels, batch->offsets[batch->sequences]) && labels_of(batch->next, batch->sequences)) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "no token or no sequence has a label that counts: with next sentences each batch needs one of both");
}

double masked_next(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches)
{
    size_t n = 0;
    for (size_t b = 0; trainer_next(t) && b < n_batches; b++) n += labels_of(batches[b].next, batches[b].sequences);
    return (double)n;
}

struct masked_counts masked_counts(double labels, double share, double next_all)
{
    return (struct masked_counts){.labels = labels, .next = next_all * share};
}

static double loss_of(struct masked_counts counts, const float total[MASKED_FLOATS])
{
    double loss = (double)total[TOTAL_LOSS] / counts.labels;
    return counts.next > 0 ? loss + (double)total[NEXT_LOSS] / counts.next : loss;
}

bool masked_forward(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                    const wherry_step *step, struct masked_counts counts, double *loss, float total[MASKED_FLOATS])
{
    wherry_batch labelled = *batch;
    labelled.labels = labels;
    if (wherry_forward(session, &labelled, NULL, step, total, MASKED_FLOATS)) return false;
    *loss = loss_of(counts, total);
    return true;
}

bool masked_submit(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                   const wherry_step *step, struct error *e)
{
    wherry_batch labelled = *batch;
    labelled.labels = labels;
    return session_forward_read(session, &labelled, step, e);
}

bool masked_loss(struct wherry_session *session, struct masked_counts counts, double *loss, struct error *e)
{
    float total[MASKED_FLOATS];
    TRY(session_output_take(session, total, MASKED_FLOATS, e));
    *loss = loss_of(counts, total);
    return trainer_loss_check(*loss, e);
}

void masked_gradient(struct masked_counts counts, double scale, float gradient[MASKED_FLOATS])
{
    gradient[TOTAL_LOSS] = (float)(scale / counts.labels);
    gradient[NEXT_LOSS] = counts.next > 0 ? (float)(scale / counts.next) : 0;
    gradient[TOTAL_RIGHT] = gradient[NEXT_RIGHT] = 0;
}
