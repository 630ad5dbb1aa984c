/* What a session's elements are, and its weights': which of it a device has. */
#include "runtime/types.h"
#include "runtime/context.h"
#include "runtime/ranges.h"

static bool types_choose(struct wherry_session *s, const wherry_session_desc *desc, const struct device_limits *device,
                         struct error *e)
{
    const bool gpu = s->device->info.type != WHERRY_DEVICE_CPU, beyond = s->model->info.config.beyond_f16;
    wherry_dtype dtype = desc->dtype;
    if (dtype == WHERRY_DTYPE_DEFAULT) dtype = gpu && device->f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
    if (dtype == WHERRY_DTYPE_F16 && beyond) {
        if (desc->dtype == WHERRY_DTYPE_F16)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "values of %s models go beyond the range of 16-bit floats (65504): use bf16 or f32",
                        s->model->info.architecture);
        dtype = WHERRY_DTYPE_BF16;
        TRY(session_note(s, e, "bf16 instead of f16, beyond whose range values of %s models go",
                         s->model->info.architecture));
    }
    s->bf16 = dtype == WHERRY_DTYPE_BF16;
    s->f16 = dtype == WHERRY_DTYPE_F16 || (s->bf16 && !device->bf16);
    s->int8 = desc->weights == WHERRY_WEIGHTS_INT8;
    return true;
}

bool types_fit(struct wherry_session *s, const wherry_session_desc *desc, bool *changed, struct error *e)
{
    struct error cause = {0};
    *changed = false;
    if (session_type(s) != STORAGE_F16) return true;
    TRY(weights_beyond_f16(s, changed, &cause, e));
    if (!*changed) return true;
    if (desc->dtype == WHERRY_DTYPE_F16) return fail(e, cause.status, "%.950s: use bf16, or use f32", cause.text);
    s->bf16 = true;
    return session_note(s, e, "bf16 instead of f16: %s", cause.text);
}

bool types_resolve(struct wherry_session *s, const wherry_session_desc *desc, const struct device_limits *device,
                   struct error *e)
{
    TRY(types_choose(s, desc, device, e));
    if ((unsigned)desc->dtype > WHERRY_DTYPE_BF16)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "dtype %d is none of wherry_dtype", (int)desc->dtype);
    if (s->bf16 && !device->bf16 && !device->f16)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s has no bf16, which takes 16-bit storage or, on the device cpu, a processor with AVX512-BF16 or "
                    "AMX: use f32",
                    s->device->info.id);
    if (s->f16 && !device->f16)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s does not store 16-bit floats: use f32", s->device->info.id);
    if ((unsigned)desc->weights > WHERRY_WEIGHTS_INT8)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "weights %d is none of wherry_weights", (int)desc->weights);
    if (s->int8 && desc->training)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "int8 weights are for inference: train with those of the dtype");
    if (s->int8 && s->bf16 && !s->f16)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "int8 weights are multiplied in f32 on %s: use that dtype",
                    s->device->info.id);
    if (s->bf16 && !s->f16 && desc->training)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s does not train in bf16: use f32", s->device->info.id);
    return true;
}
