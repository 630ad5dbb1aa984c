/* A training step: forward pass, backward pass, and the gradients that it leaves on the device. */
#include "runtime/train.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/number.h"
#include "graph/experts.h"
#include "graph/kinds.h"
#include "interface/interface.h"
#include "runtime/encode.h"
#include "runtime/results.h"

enum { PIECE_ELEMENTS = 1 << 22 }; /* 32-bit ones: what is random at a time */

/* ---- floats in and out ---- */

/* To memory of the tensor's type, whose bytes are a multiple of 4. */
static bool storage_from_floats(const struct wherry_session *s, int tensor, const float *from, size_t count,
                                const char *what, void *to, struct error *e)
{
    const enum storage type = s->graph.tensors[tensor].f32 ? STORAGE_F32 : session_type(s);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(from[i]) || fabsf(from[i]) >= storage_beyond(type))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: value %zu is %s, which %s can't hold", what, i,
                        NUMBER("%g", (double)from[i]), type == STORAGE_F32 ? "no finite number" : storage_name(type));
        storage_put(type, from[i], to, i);
    }
    if (type != STORAGE_F32 && count % 2) ((uint16_t *)to)[count] = 0; /* copies are multiples of 4 bytes */
    return true;
}

/* What a pass gives its caller. */
static bool take_output(const struct wherry_session *s, int tensor, const char *what, size_t count, float *out,
                        struct error *e)
{
    if (s->graph.tensors[tensor].f32)
        memcpy(out, s->output_storage, count * sizeof *out);
    else
        session_floats(s, s->output_storage, count, out);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return fail(e, WHERRY_STATUS_VERIFY_FAILED, "%s is not finite at value %zu: %s", what, i,
                        session_type(s) == STORAGE_F16
                            ? "16-bit storage may have overflowed, so scale the loss down or try f32"
                            : "`wherry verify` names the kernel that is wrong on this device");
    return true;
}

static bool fits(const char *what, size_t have, size_t want, struct error *e)
{
    if (have >= want) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: room for %zu floats, there are %zu", what, have, want);
}

/* ---- the two passes ---- */

static bool forward(struct wherry_session *s, const wherry_batch *batch, const float *x, const wherry_step *step,
                    float *out, size_t out_floats, struct error *e)
{
    const struct graph *g = &s->graph;
    s->forward_done = false;
    TRY(session_batch(s, batch, &s->shape, e));
    s->seed = step ? step->seed : 0;
    s->step = step ? step->step : 0;
    if ((x != NULL) != (g->input >= 0))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_forward: x is for stacks, and they need it");
    if (x)
        TRY(storage_from_floats(s, g->input, x, (size_t)tensor_elements(g, &s->shape, g->input), "wherry_forward: x",
                                s->input_storage, e));
    size_t count = (size_t)tensor_elements(g, &s->shape, g->output);
    if (out) TRY(fits("wherry_forward: out", out_floats, count, e));
    TRY(session_run(s, &s->shape, WHERRY_PHASE_FORWARD, g->input, out ? g->output : -1, NULL, e));
    s->forward_done = true;
    return !out || take_output(s, g->output, "the output", count, out, e);
}

bool session_gradient_give(struct wherry_session *s, const float *gradient, size_t gradient_floats, struct error *e)
{
    const struct graph *g = &s->graph;
    if (!s->forward_done)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_backward: there was no forward pass before");
    size_t count = (size_t)tensor_elements(g, &s->shape, g->out_gradient);
    if (gradient_floats != count)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_backward: a gradient of %zu floats, the output has %zu",
                    gradient_floats, count);
    return storage_from_floats(s, g->out_gradient, gradient, count, "wherry_backward: gradient", s->input_storage, e);
}

static bool backward(struct wherry_session *s, const float *gradient, size_t gradient_floats, float *x_gradient,
                     size_t x_gradient_floats, struct error *e)
{
    const struct graph *g = &s->graph;
    if (x_gradient && g->in_gradient < 0)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_backward: only a stack has an x");
    size_t x_count = x_gradient ? (size_t)tensor_elements(g, &s->shape, g->in_gradient) : 0;
    TRY(fits("wherry_backward: x_gradient", x_gradient_floats, x_count, e));
    TRY(session_gradient_give(s, gradient, gradient_floats, e));
    /* What only the forward pass kept is gone when it begins: its memory is used again. */
    s->forward_done = false;
    TRY(session_run(s, &s->shape, WHERRY_PHASE_BACKWARD, g->out_gradient, x_gradient ? g->in_gradient : -1, NULL, e));
    s->backward_done = true;
    return !x_gradient || take_output(s, g->in_gradient, "the gradient of x", x_count, x_gradient, e);
}

/* ---- the same, to be followed by others ---- */

static bool batch_take(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step, struct error *e)
{
    s->forward_done = false;
    TRY(session_batch(s, batch, &s->shape, e));
    s->seed = step ? step->seed : 0;
    s->step = step ? step->step : 0;
    return true;
}

bool session_forward(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step,
                     const struct outside *outside, struct error *e)
{
    TRY(batch_take(s, batch, step, e) && session_pass(s, WHERRY_PHASE_FORWARD, outside, e));
    s->forward_done = true;
    return true;
}

bool session_forward_read(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step, struct error *e)
{
    const struct pass_part part = {.end = s->boundary, .upload = -1, .download = s->graph.output, .listed = true};
    TRY(batch_take(s, batch, step, e) && session_pass_part(s, &part, e));
    s->forward_done = true;
    return true;
}

bool session_output_take(struct wherry_session *s, float *out, size_t floats, struct error *e)
{
    const size_t count = (size_t)tensor_elements(&s->graph, &s->shape, s->graph.output);
    TRY(fits("the output", floats, count, e) && pass_wait(s->device, s->program, 0, &s->passes[0], e));
    return take_output(s, s->graph.output, "the output", count, out, e);
}

bool session_backward_given(struct wherry_session *s, struct error *e)
{
    const struct pass_part part = {.slot = 1,
                                   .first = s->boundary,
                                   .end = s->n_calls,
                                   .upload = s->graph.out_gradient,
                                   .download = -1,
                                   .listed = true};
    s->forward_done = false;
    TRY(session_pass_part(s, &part, e));
    s->backward_done = true;
    return true;
}

bool session_backward(struct wherry_session *s, const struct outside *outside, struct error *e)
{
    s->forward_done = false;
    TRY(session_pass(s, WHERRY_PHASE_BACKWARD, outside, e));
    s->backward_done = true;
    return true;
}

/* ---- public calls ---- */

/* The loss of masked tokens is there without training, too. */
static wherry_status ready(wherry_session *session, bool forward, const char *call)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (session->graph.out_gradient < 0 && !(forward && session_labels(session)))
        return context_invalid(session->context, "%s: this session does not train (wherry_session_desc.training)",
                               call);
    if (session->part) return context_invalid(session->context, "%s: this session has a part of its plan alone", call);
    return session->prepared ? WHERRY_STATUS_OK : wherry_session_prepare(session, NULL, NULL, NULL);
}

wherry_status wherry_forward(wherry_session *session, const wherry_batch *batch, const float *x,
                             const wherry_step *step, float *out, size_t out_floats)
{
    wherry_status status = ready(session, true, "wherry_forward");
    if (status) return status;
    struct wherry_context *context = session->context;
    if (!batch || (step && step->struct_size != sizeof *step))
        return context_invalid(context, "wherry_forward: batch is NULL, or step->struct_size is not %zu", sizeof *step);
    return context_status(context, forward(session, batch, x, step, out, out_floats, context_error(context)));
}

wherry_status wherry_backward(wherry_session *session, const float *gradient, size_t gradient_floats, float *x_gradient,
                              size_t x_gradient_floats)
{
    wherry_status status = ready(session, false, "wherry_backward");
    if (status) return status;
    struct wherry_context *context = session->context;
    if (!gradient) return context_invalid(context, "wherry_backward: gradient is NULL");
    return context_status(
        context, backward(session, gradient, gradient_floats, x_gradient, x_gradient_floats, context_error(context)));
}

int session_gradient(const struct wherry_session *s, size_t index)
{
    size_t n = 0;
    for (int t = 0; t < s->graph.n_tensors; t++)
        if (s->graph.tensors[t].gradient_of >= 0 && n++ == index) return t;
    return -1;
}

size_t wherry_gradient_count(const wherry_session *session)
{
    size_t n = 0;
    while (session && session_gradient(session, n) >= 0) n++;
    return n;
}

wherry_status wherry_gradient_describe(const wherry_session *session, size_t index, wherry_gradient *out)
{
    if (!session || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    int tensor = session_gradient(session, index);
    if (tensor < 0) return WHERRY_STATUS_INVALID_ARGUMENT;
    const struct tensor *weight = &session->graph.tensors[session->graph.tensors[tensor].gradient_of];
    const char *dims = weight->model_dims ? weight->model_dims : weight->dims;
    memcpy(out->name, weight->name, sizeof out->name);
    memset(out->dims, 0, sizeof out->dims);
    strncpy(out->dims, dims, sizeof out->dims - 1);
    out->layer = weight->layer;
    out->elements = tensor_elements(&session->graph, &session->limits, tensor);
    return WHERRY_STATUS_OK;
}

/* Between a tensor's memory and `storage`, block by block. */
static bool tensor_copy(const struct wherry_session *s, int tensor, bool write, void *storage, uint64_t all,
                        struct error *e)
{
    const struct backend *backend = s->device->backend;
    bool ok = true;
    for (uint64_t at = 0, bytes; ok && at < all; at += bytes) {
        int block;
        uint64_t offset;
        void *part = (char *)storage + at;
        bytes = placement_find(&s->memory.of[tensor], at, &block, &offset);
        if (bytes > all - at) bytes = all - at;
        ok = write ? backend->buffer_write(s->device->handle, s->buffers[block], offset, part, bytes, e)
                   : backend->buffer_read(s->device->handle, s->buffers[block], offset, part, bytes, e);
    }
    return ok;
}

bool session_tensor_read(const struct wherry_session *s, int tensor, float *out, size_t count, struct error *e)
{
    const struct host *host = &s->context->host;
    struct transfer t = session_transfer(s, &s->limits, tensor, NULL);
    struct matrix_order order;
    bool reordered = tensor_reordered(&s->graph, tensor, &order);
    void *storage = host_alloc(host, (size_t)t.bytes, 1, e);
    float *floats = storage && reordered ? host_alloc(host, count, sizeof *floats, e) : out;
    bool ok = storage && floats && tensor_copy(s, tensor, false, storage, t.bytes, e);
    if (ok) session_floats(s, storage, count, floats);
    if (ok && reordered) floats_from_order(&order, floats, out);
    if (reordered && storage) host_free(host, floats);
    host_free(host, storage);
    return ok;
}

bool session_tensor_write(const struct wherry_session *s, int tensor, const float *values, struct error *e)
{
    const struct host *host = &s->context->host;
    const struct transfer t = session_transfer(s, &s->limits, tensor, NULL);
    const size_t count = (size_t)tensor_elements(&s->graph, &s->limits, tensor);
    struct matrix_order order;
    bool reordered = tensor_reordered(&s->graph, tensor, &order);
    void *storage = host_alloc(host, (size_t)t.bytes, 1, e);
    float *turned = storage && reordered ? host_alloc(host, count, sizeof *turned, e) : NULL;
    bool ok = storage && (turned || !reordered);
    if (ok && reordered) floats_to_order(&order, values, turned);
    ok =
        ok &&
        storage_from_floats(s, tensor, reordered ? turned : values, count, s->graph.tensors[tensor].name, storage, e) &&
        tensor_copy(s, tensor, true, storage, t.bytes, e);
    host_free(host, turned);
    host_free(host, storage);
    return ok;
}

wherry_status wherry_gradient_read(wherry_session *session, size_t index, float *out, size_t floats)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    int tensor = session_gradient(session, index);
    if (tensor < 0) return context_invalid(context, "wherry_gradient_read: there is no gradient number %zu", index);
    if (!out || !session->backward_done)
        return context_invalid(context, "wherry_gradient_read: out is NULL, or there was no backward pass");
    size_t count = (size_t)tensor_elements(&session->graph, &session->limits, tensor);
    if (!fits("wherry_gradient_read: out", floats, count, context_error(context)))
        return context_status(context, false);
    return context_status(context, session_tensor_read(session, tensor, out, count, context_error(context)));
}

/* ---- for measuring and verify ---- */

/* Uniform with this deviation, and the same on every host. */
static void fill_random(void *to, enum storage type, size_t count, float deviation, uint64_t seed)
{
    for (size_t i = 0; i < count + count % 2; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float value = ((float)(seed >> 40) / 8388608.0f - 1) * 1.7320508f * deviation;
        if (type != STORAGE_F32 || i < count) storage_put(type, value, to, i);
    }
}

static bool made_before(const struct wherry_session *s, int group, int tensor)
{
    for (int i = 0; i < group; i++)
        for (int w = 0; w < s->groups[i].n_writes; w++)
            if (tensor_owner(&s->graph, s->groups[i].writes[w]) == tensor) return true;
    return false;
}

/* The same values again and again, `piece` bytes of them at a time. */
static bool write_pieces(const struct wherry_session *s, struct transfer t, const void *values, uint64_t piece,
                         struct error *e)
{
    for (uint64_t at = 0; at < t.bytes; at += piece) {
        uint64_t left = t.bytes - at;
        TRY(s->device->backend->buffer_write(s->device->handle, t.buffer, t.offset + at, values,
                                             left < piece ? left : piece, e));
    }
    return true;
}

/* Numbers that something is found by, no random ones. */
static bool write_numbers(const struct wherry_session *s, const struct batch_shape *shape, int tensor, struct error *e)
{
    const struct transfer t = session_transfer(s, shape, tensor, NULL);
    uint32_t *numbers = host_alloc(&s->context->host, (size_t)t.bytes, 1, e);
    if (!numbers) return false;
    experts_numbers(&s->graph, shape, tensor, numbers);
    bool ok = s->device->backend->buffer_write(s->device->handle, t.buffer, t.offset, numbers, t.bytes, e);
    host_free(&s->context->host, numbers);
    return ok;
}

/* What moments of strips could be, of values about as far apart as random inputs are: none have squares below 0. */
static void fill_moments(float *values, size_t count, uint32_t each)
{
    fill_random(values, STORAGE_F32, count, 0.2f, 4);
    for (size_t i = 0; i < count; i++) values[i] = MOMENTS_STRIP * (i % each == each - 1 ? 1 + values[i] : values[i]);
}

/* How many moments of a strip a tensor has, 0 of any other. */
static uint32_t moments_each(const struct graph *g, int tensor)
{
    const int maker = tensor_maker(g, tensor);
    if (maker < 0 || g->ops[maker].kind != &kind_moments) return 0;
    return g->ops[maker].norm ? 1 : 2;
}

/* Of a part of a plan. Statistics are 32-bit floats in every type. */
static bool part_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e)
{
    const struct graph *g = &s->graph;
    const uint64_t piece = (uint64_t)PIECE_ELEMENTS * sizeof(float);
    void *values = host_alloc(&s->context->host, 3, piece, e); /* in the type of storage, after them f32, and moments */
    if (!values) return false;
    fill_random(values, session_type(s), 2 * PIECE_ELEMENTS, 1, 2);
    fill_random((char *)values + piece, STORAGE_F32, PIECE_ELEMENTS, 1, 3);
    bool ok = true;
    uint32_t filled = 0; /* with moments of so many a strip, as all of a graph are */
    for (int i = 0; ok && i < s->n_groups; i++)
        for (int r = 0; ok && r < s->groups[i].n_reads; r++) {
            int t = tensor_owner(g, s->groups[i].reads[r]);
            if (g->tensors[t].role != TENSOR_VALUE || made_before(s, i, t)) continue;
            const uint32_t each = moments_each(g, t);
            if (each && each != filled)
                fill_moments((float *)values + 2 * (size_t)PIECE_ELEMENTS, PIECE_ELEMENTS, each);
            if (each) filled = each;
            const char *from = (char *)values + (each ? 2 * piece : g->tensors[t].f32 ? piece : 0);
            ok = g->tensors[t].u32 ? write_numbers(s, shape, t, e)
                                   : write_pieces(s, session_transfer(s, shape, t, NULL), from, piece, e);
        }
    host_free(&s->context->host, values);
    return ok;
}

/* From 0 to below 1, so that what targets name is there: the first class. */
static bool loss_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e)
{
    for (int t = 0; t < s->graph.n_tensors; t++) {
        float *values = s->input_storage;
        size_t count = (size_t)tensor_elements(&s->graph, shape, t);
        if (!s->graph.tensors[t].input) continue;
        fill_random(values, STORAGE_F32, count, 0.28f, 2u + (uint64_t)t);
        for (size_t i = 0; i < count; i++) values[i] += t == s->graph.input ? 0.0f : 0.5f;
        struct transfer to = session_transfer(s, shape, t, values);
        TRY(s->device->backend->buffer_write(s->device->handle, to.buffer, to.offset, to.host, to.bytes, e));
    }
    return true;
}

bool session_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e)
{
    if (s->part) return part_random_inputs(s, shape, e);
    if (s->graph.loss) return loss_random_inputs(s, shape, e);
    const int tensors[] = {s->graph.input, s->graph.out_gradient};
    for (int i = 0; i < 2; i++) {
        if (tensors[i] < 0) continue;
        struct transfer t = session_transfer(s, shape, tensors[i], s->input_storage);
        /* A small scale of the loss, without which the scores' gradients of long sequences lie where 16-bit floats lose
         * digits. */
        float deviation = tensors[i] == s->graph.out_gradient && session_type(s) == STORAGE_F16 ? 8 : 1;
        fill_random(s->input_storage, s->graph.tensors[tensors[i]].f32 ? STORAGE_F32 : session_type(s),
                    (size_t)tensor_elements(&s->graph, shape, tensors[i]), deviation, 2u + (uint64_t)i);
        TRY(s->device->backend->buffer_write(s->device->handle, t.buffer, t.offset, t.host, t.bytes, e));
    }
    return true;
}
