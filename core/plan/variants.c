/* Finds kernels in the table of core/plan/kernels, and chooses among those that can stand for one another. */
#include "plan/variants.h"

#include <string.h>

#include "interface/interface.h"
#include "plan/constants.h"

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

const struct variant *variant_at(size_t index)
{
    for (int rung = RUNG_COUNT - 1; rung >= 0; rung--)
        for (const struct variant *const *v = variants; *v; v++)
            if ((int)(*v)->rung == rung && !index--) return *v;
    return NULL;
}

/* A kernel may have several rows: that of the highest of these rungs. */
static const struct variant *find(const char *name, uint32_t rungs)
{
    const struct variant *best = NULL;
    for (const struct variant *const *v = variants; *v; v++)
        if (rungs & RUNG_BIT((*v)->rung) && (!best || (*v)->rung > best->rung) && !strcmp((*v)->name, name)) best = *v;
    return best;
}

const struct variant *kernel_row(const char *name) { return find(name, UINT32_MAX); }

const struct variant *variant_find(const char *name) { return find(name, ~RUNG_BIT(RUNG_TILED)); }

const char *kernel_class(const char *kernel, uint32_t rungs)
{
    const struct variant *variant = find(kernel, rungs);
    return rung_class(variant ? variant->rung : RUNG_TILED);
}

const char *kernel_base(const char *kernel)
{
    const struct variant *variant = kernel_row(kernel);
    return variant ? variant->kernel : kernel;
}

bool call_sums_operand(const struct call *call)
{
    return call_runtime(call) == RUNTIME_K && call_get(call, CONST_SUM, 0);
}

bool call_has_slopes(const struct call *call)
{
    uint32_t activation = call_get(call, CONST_ACTIVATION, ACTIVATION_NONE);
    return call_get(call, CONST_SUM, 0) == SUM_SLOPE || activation == SLOPE_GELU || activation == SLOPE_TANH_GELU ||
           activation >= SLOPES_OF || call_get(call, CONST_DERIVATIVE, ACTIVATION_NONE) == ACTIVATION_GIVEN;
}

bool call_pairs_fit(const struct call *call, uint32_t channels, const char **reason)
{
    bool gates = call_get(call, CONST_GATE, GATE_NONE), turns = call_get(call, CONST_ROTARY, ROTARY_NONE);
    if (!gates && !turns) return true;
    if (call_runtime(call) != RUNTIME_M) return variant_refuse(reason, "pairs are of rows of tokens");
    if (call_get(call, CONST_COLUMN_SUMS, 0)) return variant_refuse(reason, "of pairs it sums no columns");
    if (turns && call_get(call, CONST_HEAD_DIM, 1) % channels)
        return variant_refuse(reason, channels == 8 ? "it turns heads of a multiple of 8 channels"
                                                    : "it turns heads of a multiple of 4 channels");
    return true;
}

bool call_moments_fit(const struct call *call, const char **reason)
{
    static const uint8_t others[] = {CONST_ACTIVATION, CONST_GATE, CONST_ROTARY};
    static const uint8_t never[] = {CONST_SUM,    CONST_DROPOUT, CONST_DERIVATIVE,  CONST_KEPT,
                                    CONST_NORM_Y, CONST_DELTA,   CONST_COLUMN_SUMS, CONST_Y_OFFSET};
    const uint32_t moments = call_get(call, CONST_MOMENTS, MOMENTS_NONE), n = call_get(call, CONST_N, 1);
    const bool read = moments == MOMENTS_READ;
    bool more = (read && call_get(call, CONST_RESIDUAL, 0)) || call_get(call, CONST_Y_STRIDE, n) != n;
    if (!moments) return true;
    for (size_t i = 0; i < sizeof others; i++) more |= !read && call_get(call, others[i], 0);
    for (size_t i = 0; i < sizeof never; i++) more |= call_get(call, never[i], 0) != 0;
    const uint32_t length = read ? call_get(call, CONST_K, 1) : n;
    *reason = call_runtime(call) != RUNTIME_M ? "moments are of rows of tokens"
              : length % MOMENTS_STRIP        ? "rows are no whole strips of moments"
              : more                          ? "moments come with sums that little comes after"
                                              : NULL;
    return !*reason;
}

bool variant_of_rung(const char *name, enum rung rung)
{
    for (const struct variant *const *v = variants; *v; v++)
        if (!strcmp((*v)->name, name) && (*v)->rung == rung) return true;
    return false;
}

/* Whether it knows what the call says is computed. */
static bool knows(const struct variant *variant, const struct call *call, const char **reason)
{
    if (call_sums_operand(call) && !variant->sums_operand)
        return variant_refuse(reason, "it sums no columns of an operand");
    if (call_has_slopes(call) && !variant->slopes) return variant_refuse(reason, "it knows no slopes of activations");
    for (int i = 0; i < call->n_constants; i++) {
        uint8_t id = call->constants[i].id;
        if (constants[id].role == CONSTANT_WORK && !memchr(variant->takes, id, sizeof variant->takes))
            return variant_refuse(reason, constants[id].unknown);
    }
    return true;
}

bool call_fuses(const struct call *call)
{
    const char *reason;
    const struct variant *portable = kernel_row(call->kernel);
    return portable && portable->rung == RUNG_TILED && !knows(portable, call, &reason);
}

bool variant_runs(const struct variant *variant, const struct call *call, const struct sizes *s, const char **reason)
{
    *reason = NULL;
    return (!variant->fits || variant->fits(call, s, reason)) && knows(variant, call, reason);
}

bool call_runs(const struct call *call, const struct sizes *s, const char **reason)
{
    const struct variant *variant = kernel_row(call->kernel);
    *reason = NULL;
    return !variant || variant->rung != RUNG_TILED || variant_runs(variant, call, s, reason);
}

const struct variant *variant_choose(const struct call *call, const struct sizes *s, const char **reason)
{
    *reason = NULL;
    for (int rung = RUNG_COUNT - 1; rung > RUNG_TILED; rung--)
        for (const struct variant *const *v = variants; *v && s->limits->rungs & RUNG_BIT(rung); v++) {
            const char *refused;
            if ((int)(*v)->rung != rung || strcmp((*v)->kernel, call->kernel)) continue;
            if (variant_runs(*v, call, s, &refused)) return *v;
            if (!*reason) *reason = refused;
        }
    return NULL;
}
