/* The static table of variants, from the highest rung down: each entry is a class of devices, a kernel, and why. */
#include "plan/variants.h"

#include <string.h>

#include "interface/interface.h"

extern const struct variant variant_gemm_small_batch, variant_attention_small_batch, variant_attention_out,
    variant_gemm_wgmma, variant_attention_wgmma, variant_attention_backward_wgmma, variant_gemm_mma,
    variant_attention_mma, variant_gemm_coopmat, variant_attention_coopmat, variant_attention_backward_coopmat;

/* clang-format off */
static const struct variant *const variants[] = {
    &variant_gemm_small_batch,
    &variant_attention_small_batch,
    &variant_attention_out,
    &variant_gemm_wgmma,
    &variant_attention_wgmma,
    &variant_attention_backward_wgmma,
    &variant_gemm_mma,
    &variant_attention_mma,
    &variant_gemm_coopmat,
    &variant_attention_coopmat,
    &variant_attention_backward_coopmat,
    NULL, /* ends the list */
};
/* clang-format on */

const char *rung_name(enum rung rung)
{
    static const char *const names[RUNG_COUNT] = {[RUNG_TILED] = "tiled",
                                                  [RUNG_COOPMAT] = "coopmat",
                                                  [RUNG_MMA] = "mma",
                                                  [RUNG_WGMMA] = "wgmma",
                                                  [RUNG_SMALL_BATCH] = "small_batch"};
    return names[rung];
}

bool variant_refuse(const char **reason, const char *why)
{
    *reason = why;
    return false;
}

const char *rung_class(enum rung rung)
{
    static const char *const names[RUNG_COUNT] = {[RUNG_TILED] = "generic",
                                                  [RUNG_COOPMAT] = "coopmat-generic",
                                                  [RUNG_MMA] = "nvidia-mma",
                                                  [RUNG_WGMMA] = "nvidia-sm90",
                                                  [RUNG_SMALL_BATCH] = "nvidia-small-batch"};
    return names[rung];
}

const struct variant *variant_at(size_t index) { return variants[index]; }

const char *kernel_class(const char *kernel, uint32_t rungs)
{
    for (const struct variant *const *v = variants; *v; v++)
        if (!strcmp((*v)->name, kernel) && rungs & RUNG_BIT((*v)->rung)) return rung_class((*v)->rung);
    return rung_class(RUNG_TILED);
}

const char *kernel_base(const char *kernel)
{
    const struct variant *variant = variant_find(kernel);
    return variant ? variant->kernel : kernel;
}

const struct variant *variant_find(const char *name)
{
    for (const struct variant *const *v = variants; *v; v++)
        if (!strcmp((*v)->name, name)) return *v;
    return NULL;
}

bool call_sums_operand(const struct call *call)
{
    return call_runtime(call) == RUNTIME_K && call_get(call, CONST_SUM, 0);
}

bool call_fuses(const struct call *call)
{
    if (!strcmp(call->kernel, "gemm"))
        return call_get(call, CONST_NORM, 0) || call_get(call, CONST_NORM_Y, 0) || call_sums_operand(call);
    return !strcmp(call->kernel, "attention") && call_has_slot(call, SLOT_EXTRA);
}

bool variant_of_rung(const char *name, enum rung rung)
{
    for (const struct variant *const *v = variants; *v; v++)
        if (!strcmp((*v)->name, name) && (*v)->rung == rung) return true;
    return false;
}

const struct variant *variant_choose(const struct call *call, const struct sizes *s, const char **reason)
{
    *reason = NULL;
    for (const struct variant *const *v = variants; *v; v++) {
        const char *refused = NULL;
        if (strcmp((*v)->kernel, call->kernel) || !(s->limits->rungs & RUNG_BIT((*v)->rung))) continue;
        if (call_fuses(call) && !(*v)->fuses) continue;
        if ((*v)->fits(call, s, &refused)) return *v;
        if (!*reason) *reason = refused;
    }
    return NULL;
}
