/* Training: forward and backward passes of a session made with a wherry_training_desc, and its gradients. Part of
 * wherry.h, whose rules hold here.
 */
#ifndef WHERRY_TRAINING_H
#define WHERRY_TRAINING_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What dropout's random numbers depend on beside the place. */
typedef struct wherry_step {
    uint32_t struct_size;
    uint32_t step;
    uint64_t seed;
} wherry_step;

/* Forward pass; what the backward pass needs stays on the device. A stack takes float x [tokens][hidden] and of the
 * batch only the sequences' offsets (ids may be NULL); otherwise x is NULL. `step` may be NULL: seed and step 0. `out`
 * gets float [tokens][hidden] of a stack, else what wherry_encode gives; NULL: nothing is copied. */
WHERRY_API wherry_status wherry_forward(wherry_session *session, const wherry_batch *batch, const float *x,
                                        const wherry_step *step, float *out, size_t out_floats);
/* Backward pass of the last wherry_forward: `gradient` is that of the loss by its output, of the same shape.
 * `x_gradient` gets the one by x [tokens][hidden] (a stack's; NULL: it is not copied). Gradients of the weights are
 * read with wherry_gradient_read; each backward pass overwrites them. In f16 the caller scales the loss so that
 * gradients neither vanish nor overflow; f32 and bf16 have the range. */
WHERRY_API wherry_status wherry_backward(wherry_session *session, const float *gradient, size_t gradient_floats,
                                         float *x_gradient, size_t x_gradient_floats);

struct wherry_vulkan_submit; /* wherry_vulkan.h */
struct wherry_opencl_submit; /* wherry_opencl.h */

/* The device's own objects, of the API of the session's device; both NULL: none. Of their members a pass has no `ids`,
 * a forward pass no `gradient`, a backward pass no `result`. Rows are in the session's type: of f16 and bf16 that
 * is result_type. */
typedef struct wherry_pass_desc {
    uint32_t struct_size;
    const struct wherry_vulkan_submit *vulkan;
    const struct wherry_opencl_submit *opencl;
} wherry_pass_desc;

/* The two passes of a session that trains from ids, for a loss that the application computes on the same device: handed
 * to the device in the order of the calls, behind what waits and semaphores say, and not waited for. The forward pass
 * writes the output to the buffer `result`, the backward pass, which is of the last forward pass, takes the gradient by
 * it from the buffer `gradient`. Nobody looks whether rows are finite. A call that fails has neither waited for
 * anything nor signals anything. At most one of each is under way: another one waits for it first. */
WHERRY_API wherry_status wherry_forward_submit(wherry_session *session, const wherry_batch *batch,
                                               const wherry_step *step, const wherry_pass_desc *desc);
WHERRY_API wherry_status wherry_backward_submit(wherry_session *session, const wherry_pass_desc *desc);
/* Waits for both, and tells how they ended. wherry_gradient_read and the other calls of the session come after them by
 * themselves. */
WHERRY_API wherry_status wherry_passes_wait(wherry_session *session);

typedef struct wherry_gradient {
    uint32_t struct_size; /* set by the caller */
    char name[48];        /* of the weight: "layer.0.w_qkv" */
    char dims[16];        /* its letters, as in wherry_cost, in the model's order whatever the session's layouts */
    int32_t layer;        /* -1 outside the layers */
    uint64_t elements;
} wherry_gradient;

/* Gradients by index from 0, in the order in which the backward pass makes them. */
WHERRY_API size_t wherry_gradient_count(const wherry_session *session);
WHERRY_API wherry_status wherry_gradient_describe(const wherry_session *session, size_t index, wherry_gradient *out);
/* Copies one gradient of the last backward pass; `floats` is the capacity of `out`. */
WHERRY_API wherry_status wherry_gradient_read(wherry_session *session, size_t index, float *out, size_t floats);

#ifdef __cplusplus
}
#endif

#endif
