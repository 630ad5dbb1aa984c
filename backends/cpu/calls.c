/* Which calls this backend runs, and a step made ready: pointers and numbers instead of buffers and lists. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "cpu.h"
#include "interface/roof.h"
#include "plan/constants.h"
#include "plan/variants.h"

/* What the kernels of kernels/ know. A call with another constant that says what is computed is refused, so that an
 * operator that is added to a group fails here and not in the results. */
struct knowledge {
    const char *kernel;
    uint8_t constants[32], n;
    uint8_t slots[SLOT_COUNT]; /* that must be there, ended by a 0 */
};

#define KNOWS(...) {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})
#define OPERANDS                                                                                                       \
    CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,                \
        CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET

/* clang-format off */
static const struct knowledge knowledge[] = {
    {"gemm", KNOWS(CONST_N, CONST_K, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_RESIDUAL, CONST_SUM, CONST_X_STRIDE,
                   CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET, CONST_FORM, CONST_M,
                   CONST_DROPOUT, CONST_KEPT, CONST_DERIVATIVE, CONST_COLUMN_SUMS, CONST_RUNTIME, CONST_GATE, CONST_ROTARY,
                   CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_SCALES, CONST_KEY_HEADS), {SLOT_X, SLOT_W, SLOT_Y}},
    {"bgemm", KNOWS(OPERANDS), {SLOT_X, SLOT_W, SLOT_Y}},
    {"attention", KNOWS(OPERANDS, CONST_V_STRIDE, CONST_V_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE,
                        CONST_AFTER, CONST_ALIBI),
     {SLOT_X, SLOT_W, SLOT_V, SLOT_Y}},
    {"attention_backward", KNOWS(OPERANDS, CONST_V_STRIDE, CONST_V_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_DELTA, CONST_RELATIVE,
                                 CONST_BEFORE, CONST_AFTER, CONST_ALIBI),
     {SLOT_X, SLOT_W, SLOT_V, SLOT_LSE, SLOT_DELTA, SLOT_GRADIENT, SLOT_PARTIALS, SLOT_Y}},
    {"attention_dq", KNOWS(CONST_N, CONST_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_X_STRIDE, CONST_X_OFFSET,
                           CONST_BEFORE, CONST_AFTER),
     {SLOT_PARTIALS, SLOT_Y}},
    {"softmax", KNOWS(CONST_HEADS, CONST_SUM, CONST_DROPOUT, CONST_KEPT, CONST_LSE, CONST_SOFTMAX, CONST_RELATIVE, CONST_BEFORE,
                      CONST_AFTER, CONST_ALIBI), {SLOT_X, SLOT_Y}},
    {"softmax_backward", KNOWS(CONST_HEADS, CONST_DROPOUT, CONST_KEPT, CONST_SOFTMAX, CONST_DELTA),
     {SLOT_X, SLOT_SAVED, SLOT_Y}},
    {"layernorm", KNOWS(CONST_N, CONST_ROWS, CONST_BIAS, CONST_RESIDUAL, CONST_NORM, CONST_SUM, CONST_DROPOUT, CONST_KEPT,
                        CONST_RMS, CONST_BETA), {SLOT_X, SLOT_GAMMA, SLOT_BETA, SLOT_Y}},
    {"layernorm_backward", KNOWS(CONST_N, CONST_ROWS, CONST_RESIDUAL, CONST_SUM, CONST_DROPOUT, CONST_KEPT, CONST_NORM_DW,
                                 CONST_NORM_DX, CONST_BIAS_SUM, CONST_ADDEND, CONST_RMS, CONST_BETA), {SLOT_X}},
    {"layernorm_pool", KNOWS(CONST_N, CONST_ROWS, CONST_NORM, CONST_POOL, CONST_NORMALIZE, CONST_RMS, CONST_BETA),
     {SLOT_X, SLOT_GAMMA, SLOT_BETA, SLOT_Y}},
    {"embed", KNOWS(CONST_N, CONST_ROWS, CONST_WORD, CONST_POSITION, CONST_TYPE, CONST_NORM, CONST_SUM, CONST_RMS,
                    CONST_BETA), {SLOT_Y}},
    {"pool", KNOWS(CONST_N, CONST_ROWS, CONST_SUM, CONST_POOL, CONST_NORMALIZE, CONST_Y_STRIDE, CONST_Y_OFFSET),
     {SLOT_X, SLOT_Y}},
    {"gemm_pool", KNOWS(CONST_N, CONST_K, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_FORM, CONST_POOL), {SLOT_X, SLOT_W, SLOT_Y}},
    {"pool_backward", KNOWS(CONST_N, CONST_ROWS, CONST_POOL, CONST_NORMALIZE), {SLOT_X, SLOT_Y}},
    {"map", KNOWS(CONST_N, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_RESIDUAL, CONST_SUM, CONST_Y_STRIDE, CONST_M,
                  CONST_DROPOUT, CONST_KEPT, CONST_DERIVATIVE, CONST_RUNTIME, CONST_SCALE), {SLOT_X, SLOT_Y}},
    {"gate", KNOWS(CONST_N, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_SUM, CONST_DROPOUT, CONST_DERIVATIVE, CONST_GATE),
     {SLOT_X, SLOT_Y}},
    {"heads_norm", KNOWS(CONST_N, CONST_ROWS, CONST_NORM, CONST_HEADS, CONST_KEY_HEADS, CONST_RMS, CONST_ROTARY),
     {SLOT_X, SLOT_GAMMA, SLOT_Y}},
    {"heads_norm_backward", KNOWS(CONST_N, CONST_ROWS, CONST_NORM_DW, CONST_NORM_DX, CONST_HEADS, CONST_KEY_HEADS, CONST_RMS),
     {SLOT_X, SLOT_SAVED}},
    {"angles", KNOWS(CONST_N, CONST_ROWS, CONST_ROTARY), {SLOT_IDS, SLOT_POSITIONS, SLOT_POSITION, SLOT_ANGLES}},
    {"rotary", KNOWS(CONST_N, CONST_ROWS, CONST_BIAS, CONST_SUM, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_ROTARY, CONST_KEY_HEADS),
     {SLOT_X, SLOT_POSITIONS, SLOT_POSITION, SLOT_Y}},
    {"columns", KNOWS(CONST_N, CONST_ROWS, CONST_DROPOUT, CONST_KEPT, CONST_DERIVATIVE, CONST_COLUMN_SUMS),
     {SLOT_X, SLOT_PARTIALS}},
    {"reduce", KNOWS(CONST_N, CONST_ROWS, CONST_SETS), {SLOT_PARTIALS, SLOT_Y}},
    {"delta", KNOWS(CONST_N, CONST_ROWS, CONST_HEADS, CONST_HEAD_DIM), {SLOT_X, SLOT_SAVED, SLOT_DELTA}},
    {"distance_sums", KNOWS(CONST_HEADS, CONST_RELATIVE), {SLOT_X, SLOT_DISTANCES}},
    {"distance_dw", KNOWS(CONST_HEADS, CONST_RELATIVE, CONST_M, CONST_RESIDUAL), {SLOT_DISTANCES, SLOT_Y}},
    {"scatter", KNOWS(CONST_N, CONST_M, CONST_ROWS, CONST_WORD, CONST_POSITION, CONST_TYPE, CONST_COLUMN_SUMS, CONST_RESIDUAL), {SLOT_X}},
    {"transpose", KNOWS(CONST_M, CONST_N, CONST_RUNTIME), {SLOT_X, SLOT_Y}},
    {"optimizer_add", KNOWS(CONST_FORM), {SLOT_X, SLOT_IDS, SLOT_PARTIALS}},
    {"optimizer_sum", KNOWS(CONST_FORM), {SLOT_PARTIALS, SLOT_Y}},
    {"optimizer_step", KNOWS(CONST_FORM), {SLOT_W, SLOT_BIAS, SLOT_IDS}},
    {"bucket_add", {0}, 0, {SLOT_X, SLOT_IDS, SLOT_GRADIENT}},
    {"bucket_take", KNOWS(CONST_FORM), {SLOT_X, SLOT_IDS, SLOT_Y}},
    {"bucket_scan", {0}, 0, {SLOT_X, SLOT_IDS, SLOT_PARTIALS}},
    {"bucket_pack", KNOWS(CONST_FORM), {SLOT_X, SLOT_IDS, SLOT_Y}},
    {"bucket_sum", KNOWS(CONST_FORM), {SLOT_X, SLOT_IDS, SLOT_GRADIENT}},
    {"bucket_unpack", KNOWS(CONST_FORM), {SLOT_X, SLOT_IDS, SLOT_Y}},
    {"adapter_gradient", {0}, 0, {SLOT_X, SLOT_W, SLOT_IDS, SLOT_Y}},
    {"adapter_merge", {0}, 0, {SLOT_X, SLOT_W, SLOT_IDS, SLOT_GRADIENT}},
    {"handover_take", {0}, 0, {SLOT_X, SLOT_PARTIALS, SLOT_Y}},
    {"handover_give", {0}, 0, {SLOT_X, SLOT_BIAS, SLOT_PARTIALS, SLOT_Y}},
    {"take", KNOWS(CONST_N, CONST_M, CONST_ROWS, CONST_X_STRIDE, CONST_POSITION, CONST_SETS, CONST_FORM, CONST_RESIDUAL),
     {SLOT_X, SLOT_Y}},
    {"pairs", KNOWS(CONST_N, CONST_ROWS, CONST_SETS, CONST_FORM), {SLOT_X, SLOT_Y}},
    {"loss", KNOWS(CONST_N, CONST_ROWS, CONST_FORM, CONST_RUNTIME, CONST_SETS, CONST_LSE), {SLOT_X, SLOT_EXTRA, SLOT_Y}},
    {"loss_sum", KNOWS(CONST_M, CONST_ROWS, CONST_FORM, CONST_RESIDUAL, CONST_LSE), {SLOT_X, SLOT_Y}},
    {"loss_backward", KNOWS(CONST_N, CONST_ROWS, CONST_FORM, CONST_RUNTIME, CONST_SETS),
     {SLOT_X, SLOT_SAVED, SLOT_EXTRA, SLOT_Y}},
    {"pick", KNOWS(CONST_N, CONST_ROWS, CONST_K), {SLOT_X, SLOT_Y}},
    {"entropy", KNOWS(CONST_N, CONST_ROWS, CONST_POSITION, CONST_RESIDUAL), {SLOT_X}},
    {"entropy_sum", KNOWS(CONST_M, CONST_ROWS, CONST_Y_OFFSET, CONST_LSE), {SLOT_DELTA}},
    {"entropy_backward", KNOWS(CONST_N, CONST_ROWS, CONST_POSITION, CONST_W_OFFSET), {SLOT_X, SLOT_Y}},
    {"route", KNOWS(CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN, CONST_NORMALIZED), {SLOT_X, SLOT_IDS, SLOT_DELTA}},
    {"route_backward", KNOWS(CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN, CONST_NORMALIZED), {SLOT_IDS, SLOT_SAVED, SLOT_DELTA, SLOT_Y}},
    {"dispatch", KNOWS(CONST_M, CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN), {SLOT_IDS, SLOT_POSITIONS}},
    {"gemm_experts", KNOWS(CONST_N, CONST_K, CONST_M, CONST_ROWS, CONST_FORM, CONST_EXPERTS, CONST_CHOSEN, CONST_TOKEN_ROWS,
                           CONST_ACTIVATION, CONST_DERIVATIVE, CONST_SUM), {SLOT_X, SLOT_W, SLOT_IDS, SLOT_Y}},
    {"combine", KNOWS(CONST_N, CONST_ROWS, CONST_CHOSEN, CONST_FORM, CONST_WEIGHTED), {SLOT_X, SLOT_Y}},
    {"combine_weights", KNOWS(CONST_N, CONST_ROWS, CONST_CHOSEN, CONST_HEADS), {SLOT_X, SLOT_SAVED, SLOT_DELTA}},
    {"roof_memory", KNOWS(CONST_N, CONST_FORM, CONST_BATCHED), {SLOT_Y}},
    {"roof_arithmetic", KNOWS(CONST_N, CONST_FORM), {SLOT_Y}},
    {"roof_matrix", KNOWS(CONST_N), {SLOT_Y}},
};
/* clang-format on */

static const struct knowledge *knowledge_of(const char *kernel)
{
    for (size_t i = 0; i < sizeof knowledge / sizeof *knowledge; i++)
        if (!strcmp(knowledge[i].kernel, kernel)) return &knowledge[i];
    return NULL;
}

/* Why the kernel does not run the call; NULL: it does. */
static const char *unknown(const struct knowledge *k, const struct call *call)
{
    for (int i = 0; i < call->n_constants; i++) {
        uint8_t id = call->constants[i].id;
        if (id >= CONST_COUNT) return "it does not know one of its constants";
        if (constants[id].role == CONSTANT_WORK && !memchr(k->constants, id, k->n)) return constants[id].unknown;
    }
    if (!strcmp(k->kernel, "gemm") && call_runtime(call) == RUNTIME_K &&
        (call_get(call, CONST_COLUMN_SUMS, 0) || call_get(call, CONST_SUM, 0)))
        return "a weight's gradient is summed as a whole here, and no operand's columns";
    if (call_has_slopes(call)) return "slopes of activations are kept where a GPU's products make them on the way";
    if (!strcmp(k->kernel, "roof_arithmetic") && call_get(call, CONST_FORM, ROOF_PORTABLE) != ROOF_PORTABLE)
        return "it has no instructions of NVIDIA's";
    return NULL;
}

/* In bf16 the kernel that multiplies so, where there is one. NULL: there is none at all. */
static const struct cpu_kernel *kernel_find(const struct backend_device *device, const char *name, bool bf16)
{
    const struct cpu_kernel *kernel = bf16 && device->bf16 ? cpu_kernel_find(device->bf16, name) : NULL;
    return kernel ? kernel : cpu_kernel_find(device->kernels, name);
}

bool cpu_supports(struct backend_device *device, const struct call *call, enum storage type, char *reason,
                  size_t reason_size)
{
    const struct knowledge *k = knowledge_of(call->kernel);
    const struct sizes sizes = {.limits = &device->limits, .f16 = type != STORAGE_F32};
    const char *refused = NULL;
    if (type != STORAGE_F32)
        snprintf(reason, reason_size, "the device cpu stores 32-bit floats alone: use dtype f32");
    else if (!k || !kernel_find(device, call->kernel, true))
        snprintf(reason, reason_size, "this build has no kernel \"%s\" for the host's cores", call->kernel);
    else if (!call_runs(call, &sizes, &refused) || (refused = unknown(k, call)))
        snprintf(reason, reason_size, "the kernel %s does not run this: %s", call->kernel, refused);
    else
        return true;
    return false;
}

/* ---- a step ---- */

static void set_default(struct cpu_step *s, const struct call *call, uint8_t id, uint32_t value)
{
    s->value[id] = call_get(call, id, value);
}

/* As cl/NAME.cl has them, where it is not 0. */
static void set_constants(struct cpu_step *s, const struct call *call)
{
    static const uint8_t strides[] = {CONST_X_STRIDE, CONST_W_STRIDE, CONST_V_STRIDE, CONST_Y_STRIDE};
    for (int i = 0; i < call->n_constants; i++) s->value[call->constants[i].id] = call->constants[i].value;
    set_default(s, call, CONST_EPSILON, float_bits(1e-12f));
    set_default(s, call, CONST_SCALE, float_bits(1.0f));
    set_default(s, call, CONST_SOFTMAX, 1);
    set_default(s, call, CONST_SETS, 1);
    set_default(s, call, CONST_BETA, 1);
    set_default(s, call, CONST_HEADS, 1);
    set_default(s, call, CONST_PART_ROWS, 1);
    set_default(s, call, CONST_TILE_M, 32);
    set_default(s, call, CONST_THREAD_M, 1);
    set_default(s, call, CONST_PARTS, !strcmp(call->kernel, "reduce") ? UINT32_MAX : 1);
    if (!call_get(call, CONST_HEAD_DIM, 0) || !strcmp(call->kernel, "gemm")) return;
    for (size_t i = 0; i < sizeof strides; i++) set_default(s, call, strides[i], s->value[CONST_HEAD_DIM]);
}

/* Products with weights have to be in bf16 in its sessions: there is nothing else that reads them. */
static bool kernel_choose(const struct backend_device *device, const struct step *step, struct cpu_step *out,
                          struct error *e)
{
    const struct call *call = step->call;
    out->how = kernel_find(device, step->kernel, step->bf16);
    out->bf16 = step->bf16 && out->how != kernel_find(device, step->kernel, false) ? device->bf16->isa : NULL;
    bool product = !strcmp(step->kernel, "gemm"),
         forward = call_get(call, CONST_FORM, GEMM_NT) != GEMM_TN && call_runtime(call) == RUNTIME_M,
         trains = call_get(call, CONST_DROPOUT, 0) || call_get(call, CONST_LSE, 0);
    if (!out->how)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the device cpu runs %s in bf16 alone", step->name, step->kernel);
    if (!step->bf16 || (!product && !out->bf16) || (out->bf16 && !trains && (!product || forward))) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the device cpu does not run this in bf16: use f32", step->name);
}

bool cpu_step_resolve(const struct backend_device *device, const struct step *step, struct cpu_step *out,
                      struct error *e)
{
    const struct knowledge *k = knowledge_of(step->kernel);
    char reason[256];
    if (!cpu_supports((struct backend_device *)device, step->call, step_type(step), reason, sizeof reason))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: %s", step->name, reason);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < step->n_bindings; i++) {
        const struct binding *b = &step->bindings[i];
        if (b->slot >= SLOT_COUNT || b->offset % 256)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "%s: the argument of slot %d begins at %llu, not at a multiple of 256", step->name, b->slot,
                        (unsigned long long)b->offset);
        if (!cpu_buffer_holds(b->buffer, b->offset, b->bytes, e)) return fail_in(e, step->name);
        out->at[b->slot] = (float *)(void *)(b->buffer->data + b->offset);
        out->room[b->slot] = (size_t)(b->bytes / sizeof(float));
    }
    for (const uint8_t *slot = k->slots; *slot; slot++)
        if (!out->at[*slot] && (*slot != SLOT_BETA || call_get(step->call, CONST_BETA, 1)))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: the kernel %s has no argument of slot %d", step->name,
                        step->kernel, *slot);
    set_constants(out, step->call);
    out->batch = (const uint32_t *)out->at[SLOT_BATCH];
    out->site = step->call->site;
    out->threads = workers_count(device->workers);
    out->cache_bytes = device->cache_bytes;
    return kernel_choose(device, step, out, e);
}
