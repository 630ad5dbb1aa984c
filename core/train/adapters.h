/* Low-rank adapters on the device: instead of a matrix W0 of the model, A [rank][columns] and B [rows][rank] are
 * trained, and the session computes with W = W0 + scale B A ("LoRA", Hu et al. 2021). The session knows nothing of
 * them: its passes, kernels and orders of weights are those of training W itself. From its gradient of W follow those
 * of A and B, dA = scale B^T dW,  dB = scale dW A^T, after each backward pass, and W is made anew of W0, which is kept
 * as the model's files have it, after each change of A and B. All are floats, whatever the session stores.
 *
 * Its tensors are A and B of each matrix in turn. An optimizer counts them behind the session's gradients. */
#ifndef WHERRY_TRAIN_ADAPTERS_H
#define WHERRY_TRAIN_ADAPTERS_H

#include "runtime/session.h"

/* A matrix that gets an adapter: part `part` of the `parts` in the weight of gradient number `gradient`. */
struct adapter_target {
    size_t gradient;
    uint32_t part, parts;
    uint64_t rows, columns;       /* as the model's files have it */
    uint64_t first_row, all_rows; /* of the weight's: where the part begins, and how many there are */
};

struct adapters_options {
    const struct adapter_target *targets; /* [count], copied; in the order of gradients */
    size_t count;
    uint32_t rank;
    float scale;
};

struct adapters;
/* A part of a buffer, in bytes. */
struct range {
    uint64_t begin, end;
};

/* Plans them; the session outlives them. NULL: failed. */
struct adapters *adapters_create(const struct wherry_session *session, const struct adapters_options *options,
                                 struct error *e);
/* Their memory on the device, with the model's matrices and zeros for A and B, and what computes. The session is
 * prepared. */
bool adapters_make(struct adapters *adapters, struct error *e);
void adapters_destroy(struct adapters *adapters); /* accepts NULL */

size_t adapters_tensors(const struct adapters *adapters); /* NULL: 0 */
/* Where the values of a tensor are in adapters_values, and its gradient in adapters_gradients. */
struct range adapters_range(const struct adapters *adapters, size_t tensor);
struct buffer *adapters_values(const struct adapters *adapters);
struct buffer *adapters_gradients(const struct adapters *adapters);
/* All values of a tensor. After a write, adapters_merge. */
bool adapters_read(const struct adapters *adapters, size_t tensor, float *values, struct error *e);
bool adapters_write(const struct adapters *adapters, size_t tensor, const float *values, struct error *e);

/* Submitted behind what is under way, and not waited for; accept NULL. The first after a backward pass, the second
 * before the next forward pass. */
bool adapters_differentiate(struct adapters *adapters, struct error *e);
bool adapters_merge(struct adapters *adapters, struct error *e);

/* Bytes on the device, planned or made: of A and B, or of their gradients; of the model's matrices that are kept; of
 * tables. */
struct adapters_bytes {
    uint64_t values, base, tables;
};
struct adapters_bytes adapters_bytes(const struct adapters *adapters); /* NULL: zeros */

/* ---- measuring ---- */

/* What one of the two does over all its launches: "factors", then "merge". */
struct adapters_work {
    const char *name, *kernel;
    uint64_t read, written; /* bytes, each element for each time that a kernel reads or writes it */
    double flops;
    uint32_t launches, first; /* steps of the program */
    struct program *program;  /* NULL: planned alone */
};
bool adapters_work(const struct adapters *adapters, int index, struct adapters_work *out);
/* Steps of the program; runs are timed from now on, and a step's seconds put to its place in `seconds`; NULL: not. */
size_t adapters_steps(const struct adapters *adapters);
void adapters_time(struct adapters *adapters, double *seconds);

#endif
