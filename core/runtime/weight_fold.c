/* Gammas of norms in the weights of products. */
#include "runtime/weight_fold.h"

#include <math.h>

#include "base/half.h"
#include "base/number.h"
#include "graph/fold.h"

/* Of gamma, in f16: what is normalized deviates by 1, so that a norm that runs alone makes values up to a channel's
 * share of the row's length times twice as much. */
static const float MOST_F16 = 256;

static struct weight_fold fold_of(const struct wherry_session *s, enum weight gamma, const struct tensor *t,
                                  enum weight_type as)
{
    const wherry_norm norm = s->model->info.config.norm;
    struct weight_fold fold = {.columns = s->graph.dims.of['i'],
                               .itself = gamma == t->weight,
                               .one_more = norm == WHERRY_NORM_RMS_ONE,
                               .centred = norm == WHERRY_NORM_LAYER,
                               .as = as};
    model_weight(s->model, gamma, t->layer, &fold.gamma);
    return fold;
}

struct weight_fold weight_fold_of(const struct wherry_session *s, int tensor, enum weight_type as)
{
    const struct tensor *t = &s->graph.tensors[tensor];
    return t->folded ? fold_of(s, t->folded, t, as) : (struct weight_fold){0};
}

/* Reads gamma; returns the largest factor. */
static bool gamma_read(const struct weight_fold *fold, void *raw, float *factors, float *largest, struct error *e)
{
    TRY(weight_convert(fold->gamma, 0, fold->columns, WEIGHT_TYPE_F32, raw, factors, e));
    *largest = 0;
    for (uint32_t c = 0; c < fold->columns; c++) {
        factors[c] += fold->one_more ? 1 : 0;
        *largest = fabsf(factors[c]) > *largest ? fabsf(factors[c]) : *largest;
    }
    return true;
}

/* Of two, by which weights are divided in f16: then no factor is above 1/2, and no weight that f16 holds goes beyond
 * it, nor does one less its row's mean. */
static float power_of(const struct weight_fold *fold, float largest)
{
    int exponent = 0;
    if (fold->as == WEIGHT_TYPE_F16) frexpf(2 * largest, &exponent);
    return exponent > 0 ? ldexpf(1, exponent) : 1;
}

bool weight_fold_factors(const struct weight_fold *fold, void *raw, float *factors, struct error *e)
{
    float largest;
    TRY(gamma_read(fold, raw, factors, &largest, e));
    const float power = power_of(fold, largest);
    for (uint32_t c = 0; c < fold->columns; c++)
        factors[c] = fold->itself ? power - (fold->one_more ? 1.0f : 0.0f) : factors[c] / power;
    return true;
}

static uint16_t narrow(enum weight_type as, float v)
{
    return as == WEIGHT_TYPE_F16 ? half_from_float(v) : bf16_from_float(v);
}

static float widen(enum weight_type as, uint16_t bits)
{
    return as == WEIGHT_TYPE_F16 ? half_to_float(bits) : bf16_to_float(bits);
}

/* What rounding takes from one is given to the next, and what is left in the end to the smallest, whose neighbours are
 * nearest. */
static void row_centred(const struct weight_fold *fold, const float *factors, const float *row, uint16_t *to)
{
    double sum = 0;
    float left = 0, smallest = INFINITY;
    uint32_t last = 0;
    for (uint32_t c = 0; c < fold->columns; c++) sum += (double)row[c] * (double)factors[c];
    const float mean = (float)(sum / fold->columns);
    for (uint32_t c = 0; c < fold->columns; c++) {
        const float v = row[c] * factors[c] - mean + left;
        to[c] = narrow(fold->as, v);
        const float kept = widen(fold->as, to[c]);
        left = v - kept;
        if (fabsf(kept) < smallest) smallest = fabsf(kept), last = c;
    }
    to[last] = narrow(fold->as, widen(fold->as, to[last]) + left);
}

void weight_fold_row(const struct weight_fold *fold, const float *factors, const float *row, uint16_t *to)
{
    if (fold->centred && !fold->itself) {
        row_centred(fold, factors, row, to);
        return;
    }
    for (uint32_t c = 0; c < fold->columns; c++)
        to[c] = narrow(fold->as, fold->itself ? factors[c] : row[c] * factors[c]);
}

/* ---- which ---- */

static bool fold_one(struct wherry_session *s, const struct op *o, void *raw, float *factors, struct error *e)
{
    const struct tensor *gamma = &s->graph.tensors[o->in[1]];
    const bool f16 = session_type(s) == STORAGE_F16;
    const struct weight_fold fold = fold_of(s, gamma->weight, gamma, f16 ? WEIGHT_TYPE_F16 : WEIGHT_TYPE_BF16);
    float largest;
    TRY(gamma_read(&fold, raw, factors, &largest, e));
    if (f16 && largest > MOST_F16)
        return session_note(s, e, "%s, up to %s, is not folded into the weights of products: f16 is too short for that",
                            gamma->name, NUMBER("%g", (double)largest));
    norm_fold(&s->graph, o);
    return true;
}

bool session_fold(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    void *raw = NULL;
    float *factors = NULL;
    bool ok = true;
    for (int i = 0; i < s->graph.n_ops && ok; i++) {
        if (!norm_folds(&s->graph, &s->graph.ops[i])) continue;
        if (!raw) raw = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e);
        if (raw && !factors) factors = host_alloc_unset(host, s->graph.dims.of['i'], sizeof *factors, e);
        ok = factors && fold_one(s, &s->graph.ops[i], raw, factors, e);
    }
    host_free(host, raw);
    host_free(host, factors);
    return ok;
}
