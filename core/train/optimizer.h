/* Optimizers on the device: float32 masters and moments of a training session's weights, what its gradients add up to,
 * and the step that changes them. Gradients are numbered as wherry_gradient_read numbers them; the weight of gradient n
 * is what it is the gradient of.
 *
 * All parameters that are trained lie in one arena in the order of their numbers, each in the order of letters in which
 * the session keeps it, so that a kernel runs once over all of them: once for each block of memory that the session's
 * weights and gradients lie in. In a session of f32 the masters are the session's weights themselves.
 *
 * With gradient g (the accumulated sum, times min(1, max_norm / (norm + 1e-6)) where max_norm is set), step number t
 * from 1, rate r (the step's learning rate times the tensor's rate_factor), decay d (weight_decay where the tensor
 * decays, else 0), weight p:
 *
 *   ADAMW, as torch.optim.AdamW:  p = p (1 - r d);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *                                 p = p - r / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
 *   SGD, as torch.optim.SGD:      g = g + d p;  m = momentum m + g;  p = p - r m    (momentum 0: there is no m)
 *   LAMB, as algorithm 2 of You et al., version 3, the moments' bias corrected, of each tensor of the model's files
 *   (query, key and value apart where these have them apart):
 *                                 m, v as AdamW's;  u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + d p
 *                                 p = p - r q u,  q = |p| / |u|
 *                                 q is 1 where one of the norms is 0, and of tensors that do not decay
 *                                 (so do its authors' code and NVIDIA's apex); the identity stands for phi.
 *
 * Sums of squares have a fixed order: in float in a stretch of OPTIMIZER_CHUNK elements of a tensor, and over those.
 * The same gradients give the same bits on the same device.
 *
 * What is accumulated and the step are submitted to the device's queue, behind the session's passes, and not waited
 * for: the device finds the norm, clips, and skips the step by itself. Not for several threads at once. */
#ifndef WHERRY_TRAIN_OPTIMIZER_H
#define WHERRY_TRAIN_OPTIMIZER_H

#include "runtime/session.h"

enum optimizer_kind { OPTIMIZER_ADAMW, OPTIMIZER_LAMB, OPTIMIZER_SGD };

/* Of one gradient. */
struct optimizer_tensor {
    bool frozen;       /* it has no state and does not change */
    bool decays;       /* weight_decay is for it, too */
    float rate_factor; /* of the learning rate, not negative */
};

/* No field has a default: those that the kind does not name are not looked at. */
struct optimizer_options {
    enum optimizer_kind kind;
    double beta1, beta2;                    /* from 0 to, and without, 1 */
    double epsilon;                         /* above 0 */
    double weight_decay;                    /* not negative */
    double momentum;                        /* from 0 to, and without, 1 */
    double max_norm;                        /* of all gradients together; 0: they are not clipped */
    const struct optimizer_tensor *tensors; /* [count], copied */
    size_t count;                           /* wherry_gradient_count's, and adapters_tensors' */
    /* In a session of f16 the caller multiplies the gradient that it gives wherry_backward with optimizer_scale. */
    double loss_scale;    /* the first one, a power of two; 0: 65536. f32: it is 1 and stays */
    uint32_t clean_steps; /* after which the scale doubles; 0: 2000 */
    /* For optimizer_add_sum: memory and programs of what is accumulated are made at once, and further sums beside it.
     */
    bool accumulates;
    int sums;     /* 0: none; else it accumulates */
    bool planned; /* its plan alone, to ask what it takes: the session is not prepared, and it can't step */
    /* Whose tensors are trained, too: behind the session's gradients in `tensors` and in all numbers. Planned, made by
     * the optimizer where it is not planned alone, and to outlive it. NULL: none. */
    struct adapters *adapters;
};

/* What a step did. */
struct optimizer_result {
    double norm;   /* of all gradients together before clipping, without the loss scale; not finite where skipped */
    double scale;  /* optimizer_scale's, from now on */
    bool skipped;  /* a gradient was not finite: nothing changed but the scale, which is half of what it was (never
                      below 1), and what was accumulated is dropped */
    uint64_t step; /* that have been done, without those that were skipped */
};

/* Where training stands, beside the tensors: for checkpoints. */
struct optimizer_state {
    uint64_t step; /* done */
    double scale;
    uint32_t clean; /* steps since the scale last changed */
};

enum optimizer_part {
    OPTIMIZER_MASTER,   /* the weight */
    OPTIMIZER_FIRST,    /* m */
    OPTIMIZER_SECOND,   /* v; SGD has none */
    OPTIMIZER_GRADIENT, /* what is accumulated, without the loss scale */
    OPTIMIZER_PARTS
};

struct adapters;
struct arena;
struct optimizer;

/* The session was created for training, and is prepared here where it was not; it and the model outlive the optimizer,
 * and it has one optimizer while it lives. Masters are the model's weights (in f16 read anew from its files, not
 * rounded); moments are 0. NULL: failed. */
struct optimizer *optimizer_create(struct wherry_session *session, const struct optimizer_options *options,
                                   struct error *e);
void optimizer_destroy(struct optimizer *optimizer); /* accepts NULL; the session keeps the weights */

/* What the gradient of the output is to be multiplied with before wherry_backward; 1 in f32. */
double optimizer_scale(const struct optimizer *optimizer);
/* Adds the session's gradients, divided by optimizer_scale, times `weight` to what is accumulated: after each backward
 * pass. The memory for it is made with the first, where optimizer_options.accumulates does not say otherwise. */
bool optimizer_accumulate(struct optimizer *optimizer, double weight, struct error *e);
/* The same where one backward pass makes a step: nothing is accumulated, and the next step reads the session's own
 * gradients, before its next forward pass. The bits are those of optimizer_accumulate. */
bool optimizer_direct(struct optimizer *optimizer, double weight, struct error *e);
/* The same, to sum number `sum`: 0 is what is accumulated, and optimizer_options.sums follow. `first`: it was empty. */
bool optimizer_add_sum(struct optimizer *optimizer, int sum, bool first, double weight, struct error *e);
/* Adds a further sum to the one before it, which `first` says was empty. */
bool optimizer_join_sum(struct optimizer *optimizer, int sum, bool first, struct error *e);
/* Sum 0 was written on the device: it is accumulated. */
bool optimizer_sums_written(struct optimizer *optimizer, struct error *e);
/* Makes all sums 0, and what lies between tensors there. */
bool optimizer_sums_clear(struct optimizer *optimizer, struct error *e);
const struct arena *optimizer_arena(const struct optimizer *optimizer);
/* The next step is to be skipped as if a gradient were not finite: for a loss, or a scaled gradient of the output, that
 * a 16-bit float can't hold. */
void optimizer_overflow(struct optimizer *optimizer);
/* Changes the weights by what is accumulated, which is empty afterwards. Fails where nothing is. It waits for the norm;
 * what changes the weights may still be under way, before all that is done with them later. */
bool optimizer_step(struct optimizer *optimizer, double learning_rate, struct optimizer_result *out, struct error *e);
/* The same in two: the first submits all of it and waits for nothing. */
bool optimizer_step_begin(struct optimizer *optimizer, double learning_rate, struct error *e);
bool optimizer_step_end(struct optimizer *optimizer, struct optimizer_result *out, struct error *e);
/* Drops what is accumulated, and waits for a step that was begun, whatever becomes of it. */
void optimizer_clear(struct optimizer *optimizer);

/* Whether there is such a part of gradient `index`: frozen tensors have a MASTER alone, nothing has a SECOND with SGD,
 * nor a FIRST without momentum, and a GRADIENT is there from the first optimizer_accumulate to the step. */
bool optimizer_has(const struct optimizer *optimizer, enum optimizer_part part, size_t index);
/* All `count` values of a part, in the order of the model's files, to or from float32 on the host. Writing MASTER
 * writes the session's weight, too; GRADIENT may be written before anything was accumulated, and is 0 elsewhere
 * then. A frozen MASTER is read from the model, and can't be written. */
bool optimizer_tensor_read(struct optimizer *optimizer, enum optimizer_part part, size_t index, float *values,
                           size_t count, struct error *e);
bool optimizer_tensor_write(struct optimizer *optimizer, enum optimizer_part part, size_t index, const float *values,
                            size_t count, struct error *e);
struct optimizer_state optimizer_state_get(const struct optimizer *optimizer);
void optimizer_state_set(struct optimizer *optimizer, const struct optimizer_state *state);

/* Bytes of device memory that it has now, beside the session's; and those that one accumulation and one step move, each
 * element of each tensor once for each time that a kernel reads or writes it. Of a parameter in f32: accumulate 8 (4
 * more where something was accumulated before), AdamW's step 28, LAMB's 40, SGD's 20 with momentum and 12 without; in
 * f16 accumulate 6, and 2 more in the step. `direct` is all of a step after optimizer_direct: in f32 4, in f16 2 more
 * than the step, of which it reads 2 less. */
struct optimizer_bytes {
    uint64_t memory, accumulate, step, direct;
};
struct optimizer_bytes optimizer_bytes(const struct optimizer *optimizer);
/* What one of its kernels does in a step after optimizer_direct, over all launches of it. */
struct optimizer_work {
    /* "squares", "norm", "step"; LAMB: "ratios" and "change", too; adapters: "factors" and "merge" */
    const char *name, *kernel;
    uint64_t read, written; /* bytes, each element of each tensor once */
    double flops;
    uint32_t launches, first; /* first: the number of the first of them in its program, */
    struct program *program;  /* NULL where it is planned alone */
    uint32_t timed;           /* and its place in optimizer_time's */
};
/* Number `index` from 0, in the order in which they run; false: there are no more. */
bool optimizer_work(const struct optimizer *optimizer, int index, struct optimizer_work *out);
/* Runs are timed from now on, and seconds of launches put there, which has optimizer_timed places; NULL: they are not.
 */
void optimizer_time(struct optimizer *optimizer, double *seconds);
size_t optimizer_timed(const struct optimizer *optimizer);
/* Parameters that are trained. */
uint64_t optimizer_parameters(const struct optimizer *optimizer);

#endif
