/* Masked language models: the loss is a part of the session's graph, which gives two numbers for each batch. */
#include "runtime/batches.h"
#include "runtime/train.h"
#include "train/trainer.h"

enum { TOTAL_LOSS, TOTAL_RIGHT };

bool masked_check(const struct wherry_trainer *t, const wherry_batch *batch, const int32_t *labels, struct error *e)
{
    return session_labels_check(t->session, labels, batch->offsets[batch->sequences], e);
}

bool masked_forward(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                    const wherry_step *step, double count, double *loss, float total[MASKED_FLOATS])
{
    wherry_batch labelled = *batch;
    labelled.labels = labels;
    if (wherry_forward(session, &labelled, NULL, step, total, MASKED_FLOATS)) return false;
    *loss = (double)total[TOTAL_LOSS] / count;
    return true;
}

bool masked_submit(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                   const wherry_step *step, struct error *e)
{
    wherry_batch labelled = *batch;
    labelled.labels = labels;
    return session_forward_read(session, &labelled, step, e);
}

bool masked_loss(struct wherry_session *session, double count, double *loss, struct error *e)
{
    float total[MASKED_FLOATS];
    TRY(session_output_take(session, total, MASKED_FLOATS, e));
    *loss = (double)total[TOTAL_LOSS] / count;
    return trainer_loss_check(*loss, e);
}

void masked_gradient(double count, double scale, float gradient[MASKED_FLOATS])
{
    gradient[TOTAL_LOSS] = (float)(scale / count);
    gradient[TOTAL_RIGHT] = 0;
}
