/* Gammas of norms in the weights of products. */
#include "runtime/weight_fold.h"

#include <math.h>

#include "base/half.h"

struct weight_fold weight_fold_of(const struct wherry_session *s, int tensor, enum weight_type as)
{
    const struct tensor *t = &s->graph.tensors[tensor];
    const wherry_norm norm = s->model->info.config.norm;
    struct weight_fold fold = {.columns = s->graph.dims.of['i'],
                               .itself = t->folded == t->weight,
                               .one_more = norm == WHERRY_NORM_RMS_ONE,
                               .centred = norm == WHERRY_NORM_LAYER,
                               .as = as};
    if (!t->folded) return (struct weight_fold){0};
    model_weight(s->model, t->folded, t->layer, &fold.gamma);
    return fold;
}

/* Of two, by which weights are divided in f16. Sums of rows that are not normalized yet are stored in 16 bits before
 * they are multiplied, and are as many times larger as rows deviate more than 1: so most factors become less than 1/8,
 * and such sums may be 8 times and more what f16 holds. None is above 1/2: no weight that f16 holds goes beyond it, nor
 * does one less its row's mean. bf16 holds everything. */
static float power_of(const struct weight_fold *fold, double sum, float largest)
{
    enum { LEAST = -14, MOST = 15 }; /* gamma's place holds it */
    int usual = 0, needed = 0;
    if (fold->as != WEIGHT_TYPE_F16 || !(largest > 0)) return 1;
    frexpf(8 * (float)(sum / fold->columns), &usual);
    frexpf(2 * largest, &needed);
    const int exponent = usual > needed ? usual : needed;
    return ldexpf(1, exponent < LEAST ? LEAST : exponent > MOST ? MOST : exponent);
}

bool weight_fold_factors(const struct weight_fold *fold, void *raw, float *factors, struct error *e)
{
    float largest = 0;
    double sum = 0;
    TRY(weight_convert(fold->gamma, 0, fold->columns, WEIGHT_TYPE_F32, raw, factors, e));
    for (uint32_t c = 0; c < fold->columns; c++) {
        factors[c] += fold->one_more ? 1 : 0;
        largest = fabsf(factors[c]) > largest ? fabsf(factors[c]) : largest;
        sum += (double)fabsf(factors[c]);
    }
    const float power = power_of(fold, sum, largest);
    for (uint32_t c = 0; c < fold->columns; c++) factors[c] = fold->itself ? power : factors[c] / power;
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
