/* What a trainer is inside. */
#ifndef WHERRY_TRAIN_TRAINER_H
#define WHERRY_TRAIN_TRAINER_H

#include "train/loss.h"
#include "train/names.h"
#include "train/optimizer.h"
#include "train/shards.h"

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

    struct wherry_session *session; /* that trains */
    struct trained_weights weights;
    struct optimizer *optimizer;
    struct loss *loss;
    struct sharding sharding;
    size_t row_floats;
    bool rows_of_tokens; /* the output has a row for each token, else for each sequence */
    bool coupled;        /* a row's gradient depends on other rows of the step */
    uint32_t columns;
    size_t targets_each;
    size_t max_rows;
    uint64_t step; /* the next one's number */

    float *rows, *d_rows; /* [rows_room], of all batches of a step */
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

/* Rows of the output that a batch gives. The batch's own fields are checked by the session. */
size_t trainer_batch_rows(const struct wherry_trainer *t, const wherry_batch *batch);
/* Whether these are batches, rows that the loss takes, and targets for them; *rows: their number. */
bool trainer_input_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches,
                         const wherry_targets *targets, size_t *rows, struct error *e);
/* The two halves of this: of some of a step's batches, and of the rows of all. */
bool trainer_batches_check(const struct wherry_trainer *t, const wherry_batch *batches, size_t n_batches, size_t *rows,
                           struct error *e);
bool trainer_rows_check(const struct wherry_trainer *t, size_t rows, const wherry_targets *targets, struct error *e);
bool trainer_rows_room(struct wherry_trainer *t, size_t rows, struct error *e);
/* Runs the loss over `n` rows, of which those before `first` have targets that are left out; d_rows may be NULL. */
bool trainer_loss(struct wherry_trainer *t, const float *rows, size_t first, size_t n, const wherry_targets *targets,
                  float gradient_scale, double *value, float *d_rows, struct error *e);
/* What the rows of a batch count in the mean over all rows: the sum of their labels' weights, or their number. */
double trainer_share(const struct wherry_trainer *t, const wherry_targets *targets, size_t first, size_t n);

/* Whether it is finite. */
bool trainer_loss_check(double loss, struct error *e);
/* Changes the weights by what is accumulated: the end of a step. `overflow`: f16 can't hold a gradient of the output.
 */
bool trainer_change(struct wherry_trainer *t, double loss, bool overflow, wherry_step_result *result, struct error *e);

/* ---- view.c ---- */

/* Brings the host's copy of the weights up to date. */
bool view_refresh(struct wherry_trainer *t, struct error *e);
/* And the session without dropout, which is made and prepared where it was not. */
bool view_session(struct wherry_trainer *t, struct error *e);
/* The weights have changed on the device. */
void view_stale(struct wherry_trainer *t);
void view_destroy(struct wherry_trainer *t);

#endif
