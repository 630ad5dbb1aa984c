/* Losses on the device: from rows of a session's output (vectors, scores of classes) to one number and to the gradient
 * of that number by the rows, which the session's backward pass takes. A loss is a graph of its own, with a plan and a
 * program as a session has (graph/loss.h).
 *
 * An example has `columns` rows. Rows are given column by column: those of all examples' first column (the anchors),
 * then those of the second (the positives), then the first negatives, and so on: row r is of example r % examples.
 * Everything is computed in 32-bit floats, and every sum has a fixed order.
 *
 * Forms are sentence-transformers' and PyTorch's. A row of length 0 has the cosine 0
 * and the length 1e-12, with COSINE, too, where torch.cosine_similarity has 1e-8. */
#ifndef WHERRY_TRAIN_LOSS_H
#define WHERRY_TRAIN_LOSS_H

#include "graph/loss.h"
#include "runtime/context.h"

enum { LOSS_IGNORED = -100 }; /* a label: such a row counts nowhere */

struct loss_options {
    enum loss_kind kind;
    float scale;      /* CONTRASTIVE, COSENT; 0: 20 */
    bool symmetric;   /* CONTRASTIVE: half of it, and half of the cross-entropy of each positive over all anchors */
    uint32_t columns; /* 0: the fewest that the kind takes */
    /* The same loss of rows that are cut to so many leading values and have length 1 again, times a weight, summed
     * (Matryoshka). CONTRASTIVE, COSENT, COSINE, MARGIN, VECTORS (whose values are cut likewise). A row_length among
     * them is not cut, but has length 1, too. Ascending or not; 0 of them: rows as they are. weights NULL: 1 each. */
    const uint32_t *dimensions;
    const float *dimension_weights;
    uint32_t n_dimensions;
    const float *class_weights; /* CLASSES: [row_length], NULL: 1 each */
    float positive_weight;      /* BINARY; 0: 1 */
    bool planned;               /* its plan alone, to ask what it takes: it can't run */
    bool keep;                  /* every tensor is there after a run, with zones around it: for loss_session */
};

/* What the rows should be; `count` of labels or of values, whichever the kind takes. The other is NULL. */
struct loss_targets {
    const int32_t *labels;
    const float *values; /* [examples][values each] */
    size_t count;
};

struct loss;

/* The rows of an example that the kind has where `columns` is 0. */
uint32_t loss_columns(enum loss_kind kind);
/* Values or labels of an example. */
size_t loss_targets_each(enum loss_kind kind, size_t row_length);

/* Plans, allocates and compiles, for up to max_rows rows of row_length floats. NULL: failed, *e says why. The options
 * are copied. */
struct loss *loss_create(struct wherry_device *device, const struct loss_options *options, size_t max_rows,
                         size_t row_length, struct error *e);
/* The loss of `n` rows, a multiple of the columns, and, where d_rows is not NULL, its gradient by each of them, times
 * gradient_scale (1, or what 16-bit gradients are scaled by). Fails, with nothing written, where a row or a target is
 * not finite, a label is out of range, there are no rows or no labels that count, or the number of targets is another
 * one than the rows'. A loss that is not finite is given as it is. */
bool loss_run(struct loss *loss, const float *rows, size_t n, const struct loss_targets *targets, float gradient_scale,
              double *value, float *d_rows, struct error *e);
/* The same of rows that are on the device, in the place of loss_rows: submitted behind what is under way there, and not
 * waited for; the gradients are where loss_gradients says. Targets are the caller's again. Where LOSS_UNDER_WAY are
 * under way, loss_wait comes before the next one. A row that is not finite makes the loss one that is not. */
enum { LOSS_UNDER_WAY = RUN_SLOTS };
bool loss_submit(struct loss *loss, size_t n, const struct loss_targets *targets, float gradient_scale,
                 struct error *e);
/* Waits for the oldest that is under way, and gives its loss. */
bool loss_wait(struct loss *loss, double *value, struct error *e);
/* How many are. */
int loss_under_way(const struct loss *loss);
/* Tensors of loss_session: rows, their gradients, float [max_rows][row_length] both, and the number. */
int loss_rows(const struct loss *loss);
int loss_gradients(const struct loss *loss);
int loss_value(const struct loss *loss);
void loss_destroy(struct loss *loss); /* accepts NULL */
/* What runs it: its graph, groups, plan and notes, for reports and wherry_verify. */
struct wherry_session *loss_session(const struct loss *loss);

#endif
