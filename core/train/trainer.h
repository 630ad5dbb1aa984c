/* What a trainer is inside. */
#ifndef WHERRY_TRAIN_TRAINER_H
#define WHERRY_TRAIN_TRAINER_H

#include "train/handover.h"
#include "train/lora.h"
#include "train/loss.h"
#include "train/names.h"
#include "train/optimizer.h"
#include "train/shards.h"
#include "wherry/wherry_train_measure.h"

struct wherry_trainer {
    struct wherry_context *context;
    struct wherry_device *device;
    const struct wherry_model *model;
    /* Copies, whose texts and lists are the trainer's. */
    wherry_session_desc session_desc;
    wherry_training_desc training;
    char *texts[4]; /* of session_desc; owned */
    wherry_optimizer_desc optimizer_desc;
    wherry_loss loss_kind;
    const float *class_weights; /* [labels], of loss_desc; owned, NULL: all 1 */
    uint64_t seed;
    bool planned; /* it has plans alone, no memory and no kernels: to ask what it takes */

    struct wherry_session *session; /* that trains */
    struct trained_weights weights;
    struct lora *lora; /* NULL: weights are trained themselves */
    struct optimizer *optimizer;
    struct loss *loss;         /* NULL where the session's graph has it */
    struct handover *handover; /* between the session and the loss; NULL without one */
    struct sharding sharding;
    size_t row_floats;
    bool rows_of_tokens; /* the output has a row for each token, else for each sequence */
    bool coupled;        /* a row's gradient depends on other rows of the step */
    uint32_t columns;
    size_t targets_each;
    size_t max_rows;
    uint64_t step; /* the next one's number */

    float *rows; /* [rows_room], of all batches of an evaluation */
    size_t rows_room;

    /* The model with the weights as they are now, on the host: what is saved, and what the session without dropout
     * reads. Made when it is first asked for. */
    struct {
        struct wherry_model *model; /* a copy that shares all but the weights; owned, NULL: not made yet */
        float *memory;              /* owned */
        bool fresh;                 /* it has what the device has */
        struct wherry_session *session;
        bool session_fresh;
    } view;
};

/* wherry_trainer_create; `planned`: see above. */
wherry_status trainer_create(wherry_context *context, wherry_device *device, const wherry_model *model,
                             const wherry_session_desc *session, const wherry_trainer_desc *desc, bool planned,
                             wherry_trainer **out);
/* Makes it of a zeroed one that has its context, device and model. */
bool trainer_make(struct wherry_trainer *t, const wherry_session_desc *session, const wherry_trainer_desc *desc,
                  struct error *e);
/* What its memory is for, planned or made. */
void trainer_memory(const struct wherry_trainer *t, wherry_train_memory *out);
/* Rows of the output that a batch gives. The batch's own fields are checked by the session. */
size_t trainer_batch_rows(const struct wherry_trainer *t, const wherry_batch *batch);
/* Whether these are batches, rows that the loss takes, and targets for them; *rows: their number. */
bool trainer_input_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                         const wherry_targets *targets, size_t *rows, struct error *e);
/* The parts of this: of some of a step's batches, of the rows of all, and, where the loss is of masked tokens, of the
 * labels of batches whose rows begin with number `first`. */
bool trainer_batches_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t *rows,
                           struct error *e);
bool trainer_rows_check(const struct wherry_trainer *t, size_t rows, const wherry_targets *targets, struct error *e);
bool trainer_labels_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t first,
                          const wherry_targets *targets, struct error *e);
bool trainer_rows_room(struct wherry_trainer *t, size_t rows, struct error *e);
/* Of `n` rows, of which those before `first` have targets that are left out; `targets` may be NULL. */
struct loss_targets trainer_targets(const struct wherry_trainer *t, const wherry_targets *targets, size_t first,
                                    size_t n);
/* What the rows of a batch count in the mean over all rows: the sum of their labels' weights, or their number. */
double trainer_share(const struct wherry_trainer *t, const wherry_targets *targets, size_t first, size_t n);
/* Of all rows of a step; fails where none counts. */
bool trainer_share_all(const struct wherry_trainer *t, const wherry_targets *targets, size_t rows, double *all,
                       struct error *e);
/* Dropout's numbers of a batch: they follow from its shard and its number there, and the first one's of the first shard
 * are what the seed alone gives. */
wherry_step trainer_masks(const struct wherry_trainer *t, size_t shard, size_t batch);

/* ---- change.c ---- */

/* Whether it is finite. */
bool trainer_loss_check(double loss, struct error *e);
/* The end of a step: the weights are changed by what is accumulated. The first half submits it and waits for nothing;
 * the device leaves the weights as they are where a row, the loss or a gradient is not finite. */
bool trainer_change_begin(struct wherry_trainer *t, struct error *e);
bool trainer_change_end(struct wherry_trainer *t, double loss, wherry_step_result *result, struct error *e);

/* ---- masked.c ---- */

/* Floats at most of a row of the output (wherry_trainer.row_floats): the sum of the labels' losses, and how many were
 * told right; and the same of next sentences. */
enum { MASKED_FLOATS = 4 };
static inline bool trainer_next(const struct wherry_trainer *t) { return t->loss_kind == WHERRY_LOSS_MASKED_NEXT; }
static inline bool trainer_masked(const struct wherry_trainer *t)
{
    return t->loss_kind == WHERRY_LOSS_MASKED || trainer_next(t);
}
/* By how much a batch's two sums are divided. */
struct masked_counts {
    double labels; /* that it has */
    double next;   /* 0: there is no such loss */
};
bool masked_check(const struct wherry_trainer *t, const wherry_batch *batch, const int32_t *labels, struct error *e);
/* Sequences of batches that have a label. */
double masked_next(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches);
/* Of a batch that has `share` of all labels of a step, `next_all` sequences of which have one: such that its loss times
 * its share is what it adds to the step's. */
struct masked_counts masked_counts(double labels, double share, double next_all);
/* The loss of a batch; false: the context has the error. */
bool masked_forward(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                    const wherry_step *step, struct masked_counts counts, double *loss, float total[MASKED_FLOATS]);
/* The same, submitted; masked_loss waits for it, at any time before the next forward pass. */
bool masked_submit(struct wherry_session *session, const wherry_batch *batch, const int32_t *labels,
                   const wherry_step *step, struct error *e);
bool masked_loss(struct wherry_session *session, struct masked_counts counts, double *loss, struct error *e);
/* Its gradient, times `scale`. */
void masked_gradient(struct masked_counts counts, double scale, float gradient[MASKED_FLOATS]);

/* ---- weights.c ---- */

/* All values of a weight by its number. Of adapters, adapters_merge is the caller's after the last. */
bool trainer_weight_get(struct wherry_trainer *t, size_t index, float *values, struct error *e);
bool trainer_weight_put(struct wherry_trainer *t, size_t index, const float *values, struct error *e);

/* ---- view.c ---- */

/* Brings the host's copy of the weights up to date. */
bool view_refresh(struct wherry_trainer *t, struct error *e);
/* And the session without dropout, which is made and prepared where it was not. */
bool view_session(struct wherry_trainer *t, struct error *e);
/* The weights have changed on the device. */
void view_stale(struct wherry_trainer *t);
void view_destroy(struct wherry_trainer *t);

/* A step of one process and one shard, which follows itself on the device (step.c). What is under way has ended where
 * it fails. */
bool trainer_step_alone(struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                        const wherry_targets *targets, wherry_step_result *out, struct error *e);

#endif
