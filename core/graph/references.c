/* What each kind of operator means, in double. */
#include "graph/references.h"

#include <math.h>
#include <string.h>

#include "graph/kinds.h"
#include "graph/mask.h"
#include "interface/interface.h"
#include "interface/random.h"

static double *value(const struct graph *g, struct values *v, int tensor)
{
    double *of = v->of[tensor_owner(g, tensor)];
    return g->tensors[tensor].strip ? of + tensor_row_offset(g, tensor) : of;
}

/* Row `ids[r]` of the table at inputs[table], plus input 0 where `add`. */
static bool gather(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v, int ids_at,
                   bool add, struct error *e)
{
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    const uint32_t *ids = v->ids[o->in[ids_at]];
    int table = o->in[ids_at + 1];
    size_t limit = (size_t)tensor_elements(g, b, table) / cols;
    const double *entries = value(g, v, table), *x = add ? value(g, v, o->in[0]) : NULL;
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++) {
        if (ids[r] >= limit)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: row %u of a table of %zu", o->name, ids[r], limit);
        for (size_t c = 0; c < cols; c++) y[r * cols + c] = entries[ids[r] * cols + c] + (x ? x[r * cols + c] : 0);
    }
    return true;
}

REFERENCE(reference_gather) { return gather(g, o, b, v, 0, false, e); }

REFERENCE(reference_gather_add) { return gather(g, o, b, v, 1, true, e); }

/* y = x + in[1], repeated where it is shorter: a bias row, or a residual of the same shape. */
REFERENCE(reference_scale)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = (double)o->attribute * x[i];
    return true;
}

REFERENCE(reference_add)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]), m = (size_t)tensor_elements(g, b, o->in[1]);
    const double *x = value(g, v, o->in[0]), *z = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = x[i] + z[i % m];
    return true;
}

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = (uint32_t)((uint64_t)(a) * (b) >> 32);                                                                      \
    low = (a) * (b)

void reference_drop_row(const struct op *o, const struct values *v, uint32_t row, size_t columns, const double *x,
                        double *y)
{
    uint32_t threshold = dropout_threshold(o->dropout), words[4];
    double scale = 65536.0 / (65536.0 - threshold);
    for (size_t c = 0; c < columns; c++) {
        if (c % 8 == 0) {
            uint32_t c0 = row, c1 = (uint32_t)(c / 8), c2 = (uint32_t)(4 * o->layer + o->site), c3 = v->step;
            uint32_t k0 = (uint32_t)v->seed, k1 = (uint32_t)(v->seed >> 32);
            PHILOX(c0, c1, c2, c3, k0, k1)
            words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
        }
        uint32_t bits = words[c % 8 / 2] >> (c % 2 ? 16 : 0) & 0xffff;
        y[c] = bits < threshold ? 0 : x[c] * scale;
    }
}

REFERENCE(reference_dropout)
{
    (void)e;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    if (o->site != DROPOUT_ATTENTION) {
        size_t columns = tensor_row_length(g, o->out[0]);
        for (uint32_t r = 0; r < b->tokens; r++) reference_drop_row(o, v, r, columns, x + r * columns, y + r * columns);
        return true;
    }
    uint32_t heads = g->dims.of['h'];
    for (uint32_t s = 0; s < b->sequences; s++)
        for (uint32_t h = 0, length = b->offsets[s + 1] - b->offsets[s]; h < heads; h++)
            for (uint32_t j = 0; j < length; j++, x += length, y += length)
                reference_drop_row(o, v, (b->offsets[s] + j) * heads + h, length, x, y);
    return true;
}

/* Row j of head h of sequence s, and where its statistics are in a tensor of tokens and heads. */
#define FOR_SCORE_ROWS(s, h, j, length, statistic)                                                                     \
    for (uint32_t s = 0; s < b->sequences; s++)                                                                        \
        for (size_t h = 0, length = b->offsets[s + 1] - b->offsets[s]; h < g->dims.of['h']; h++)                       \
            for (size_t j = 0, statistic = b->offsets[s] * (size_t)g->dims.of['h'] + h; j < length;                    \
                 j++, statistic += g->dims.of['h'])

/* y = what the exponential is taken of, of the row of query j: -infinity for keys that it does not see. */
static void scale_scores(const struct graph *g, const struct op *o, size_t head, size_t j, size_t length,
                         const double *x, double *y)
{
    struct mask mask = graph_mask(g, o->layer);
    double slope = mask.alibi ? mask_slope(g->dims.of['h'], (uint32_t)head) : 0;
    for (size_t k = 0; k < length; k++) {
        double apart = k < j ? (double)(j - k) : (double)(k - j);
        y[k] = mask_sees(&mask, (int64_t)j, (int64_t)k) ? o->attribute * x[k] - slope * apart : -INFINITY;
    }
}

REFERENCE(reference_softmax)
{
    (void)e;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    double *lse = o->out[1] >= 0 ? value(g, v, o->out[1]) : NULL;
    FOR_SCORE_ROWS(s, h, j, length, statistic)
    {
        double max = -INFINITY, sum = 0;
        scale_scores(g, o, h, j, length, x, y);
        for (size_t i = 0; i < length; i++) max = y[i] > max ? y[i] : max;
        for (size_t i = 0; i < length; i++) sum += y[i] = exp(y[i] - max);
        for (size_t i = 0; i < length; i++) y[i] /= sum;
        if (lse) lse[statistic] = max + log(sum);
        x += length;
        y += length;
    }
    return true;
}

REFERENCE(reference_softmax_recompute)
{
    (void)e;
    const double *x = value(g, v, o->in[0]), *lse = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    FOR_SCORE_ROWS(s, h, j, length, statistic)
    {
        scale_scores(g, o, h, j, length, x, y);
        for (size_t i = 0; i < length; i++) y[i] = exp(y[i] - lse[statistic]);
        x += length;
        y += length;
    }
    return true;
}

/* d x = scale * y * (d y - sum over k of y * d y), y the weights; the sum may come from outside. */
REFERENCE(reference_softmax_dx)
{
    (void)e;
    const double *d = value(g, v, o->in[0]), *weights = value(g, v, o->in[1]);
    const double *delta = o->in[2] >= 0 ? value(g, v, o->in[2]) : NULL;
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    FOR_SCORE_ROWS(s, h, j, length, statistic)
    {
        double sum = delta ? delta[statistic] : 0;
        for (size_t i = 0; !delta && i < length; i++) sum += weights[i] * d[i];
        for (size_t i = 0; i < length; i++) y[i] = scale * weights[i] * (d[i] - sum);
        d += length;
        weights += length;
        y += length;
    }
    return true;
}

REFERENCE(reference_delta)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]), p = g->dims.of['p'];
    const double *x = value(g, v, o->in[0]), *z = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++, x += p, z += p) {
        y[i] = 0;
        for (size_t c = 0; c < p; c++) y[i] += x[c] * z[c];
    }
    return true;
}

/* ---- gradients ---- */

REFERENCE(reference_column_sum)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->in[0]), rows = (size_t)tensor_elements(g, b, o->in[0]) / cols;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    memset(y, 0, cols * sizeof *y);
    for (size_t r = 0; r < rows; r++, x += cols)
        for (size_t c = 0; c < cols; c++) y[c] += x[c];
    return true;
}

/* Mean and 1 / sqrt(variance + epsilon) of a row; of an RMS norm's the mean counts as 0. */
static double row_statistics(const struct op *o, const double *x, size_t cols, double *mean)
{
    double variance = 0;
    *mean = 0;
    for (size_t c = 0; c < cols && !o->norm; c++) *mean += x[c];
    *mean /= (double)cols;
    for (size_t c = 0; c < cols; c++) variance += (x[c] - *mean) * (x[c] - *mean);
    return 1 / sqrt(variance / (double)cols + o->attribute);
}

/* What a norm multiplies with, of its weight. */
static double norm_scale(const struct op *o, double gamma) { return o->norm == RMS_ONE_GAMMA ? 1 + gamma : gamma; }

REFERENCE(reference_norm_dw)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->in[0]), rows = (size_t)tensor_elements(g, b, o->in[0]) / cols;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]);
    double *d_gamma = value(g, v, o->out[0]), *d_beta = o->out[1] >= 0 ? value(g, v, o->out[1]) : NULL, mean;
    memset(d_gamma, 0, cols * sizeof *d_gamma);
    if (d_beta) memset(d_beta, 0, cols * sizeof *d_beta);
    for (size_t r = 0; r < rows; r++, d += cols, x += cols) {
        double rstd = row_statistics(o, x, cols, &mean);
        for (size_t c = 0; c < cols; c++) d_gamma[c] += d[c] * (x[c] - mean) * rstd;
        for (size_t c = 0; c < cols && d_beta; c++) d_beta[c] += d[c];
    }
    return true;
}

REFERENCE(reference_norm_dx)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]), *gamma = value(g, v, o->in[2]);
    double *y = value(g, v, o->out[0]), mean;
    for (size_t r = 0; r < rows; r++, d += cols, x += cols, y += cols) {
        double rstd = row_statistics(o, x, cols, &mean), sum = 0, product = 0;
        for (size_t c = 0; c < cols; c++) {
            sum += o->norm ? 0 : d[c] * norm_scale(o, gamma[c]);
            product += d[c] * norm_scale(o, gamma[c]) * (x[c] - mean) * rstd;
        }
        sum /= (double)cols;
        product /= (double)cols;
        for (size_t c = 0; c < cols; c++)
            y[c] = rstd * (d[c] * norm_scale(o, gamma[c]) - sum - (x[c] - mean) * rstd * product);
    }
    return true;
}

REFERENCE(reference_scatter)
{
    size_t cols = tensor_row_length(g, o->in[0]), limit = tensor_row_length(g, o->out[0]) / cols;
    const uint32_t *ids = v->ids[o->in[1]];
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    memset(y, 0, limit * cols * sizeof *y);
    if (o->in[2] >= 0) memcpy(y, value(g, v, o->in[2]), limit * cols * sizeof *y);
    for (size_t r = 0; r < b->tokens; r++) {
        if (ids[r] >= limit)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: row %u of a table of %zu", o->name, ids[r], limit);
        for (size_t c = 0; c < cols; c++) y[ids[r] * cols + c] += x[r * cols + c];
    }
    return true;
}

REFERENCE(reference_transpose)
{
    (void)b, (void)e;
    size_t rows = op_transposed_rows(g, o), columns = tensor_row_length(g, o->in[0]) / rows;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) y[c * rows + r] = x[r * columns + c];
    return true;
}

REFERENCE(reference_pool_mean_dx)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]);
    const double *d = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (uint32_t s = 0; s < b->sequences; s++, d += cols) {
        size_t first = b->offsets[s], count = b->offsets[s + 1] - first;
        for (size_t r = first; r < first + count; r++)
            for (size_t c = 0; c < cols; c++) y[r * cols + c] = d[c] / (double)count;
    }
    return true;
}

/* The one row that was taken: the first, the last, or that of the largest value where the values are there (max). */
static void give_row(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                     bool last)
{
    size_t cols = tensor_row_length(g, o->out[0]);
    const double *d = value(g, v, o->in[0]), *x = o->in[1] >= 0 ? value(g, v, o->in[1]) : NULL;
    double *y = value(g, v, o->out[0]);
    for (uint32_t s = 0; s < b->sequences; s++, d += cols) {
        size_t first = b->offsets[s], count = b->offsets[s + 1] - first;
        for (size_t c = 0; c < cols; c++) {
            size_t chosen = last ? first + count - 1 : first;
            for (size_t r = first; x && r < first + count; r++)
                if (x[r * cols + c] > x[chosen * cols + c]) chosen = r;
            for (size_t r = first; r < first + count; r++) y[r * cols + c] = r == chosen ? d[c] : 0;
        }
    }
}

REFERENCE(reference_pool_row_dx)
{
    (void)e;
    give_row(g, o, b, v, false);
    return true;
}

REFERENCE(reference_pool_last_dx)
{
    (void)e;
    give_row(g, o, b, v, true);
    return true;
}

/* d x = (d y - n (n . d y)) / |x|, n = x / |x|. */
REFERENCE(reference_normalize_dx)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, d += cols, x += cols, y += cols) {
        double sum = 0, product = 0;
        for (size_t c = 0; c < cols; c++) sum += x[c] * x[c];
        double length = sqrt(sum) > 1e-12 ? sqrt(sum) : 1e-12;
        for (size_t c = 0; c < cols; c++) product += x[c] / length * d[c];
        for (size_t c = 0; c < cols; c++) y[c] = (d[c] - x[c] / length * product) / length;
    }
    return true;
}

REFERENCE(reference_layernorm)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    const double *x = value(g, v, o->in[0]), *gamma = value(g, v, o->in[1]),
                 *beta = o->in[2] >= 0 ? value(g, v, o->in[2]) : NULL;
    double *y = value(g, v, o->out[0]), mean;
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double rstd = row_statistics(o, x, cols, &mean);
        for (size_t c = 0; c < cols; c++) y[c] = (x[c] - mean) * rstd * norm_scale(o, gamma[c]) + (beta ? beta[c] : 0);
    }
    return true;
}

/* Of each strip the sum of squares, and before it, but for an RMS norm, the sum: [strips][rows][each]. */
REFERENCE(reference_moments)
{
    (void)e;
    size_t each = o->norm ? 1 : 2, strips = tensor_row_length(g, o->in[0]) / MOMENTS_STRIP;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]) / each, rows = n / strips;
    const double *x = value(g, v, o->in[0]);
    for (size_t i = 0; i < n; i++, x += MOMENTS_STRIP) {
        double sum = 0, squares = 0, *y = value(g, v, o->out[0]) + (i % strips * rows + i / strips) * each;
        for (size_t c = 0; c < MOMENTS_STRIP; c++) sum += x[c];
        for (size_t c = 0; c < MOMENTS_STRIP; c++) squares += x[c] * x[c];
        y[0] = sum;
        y[each - 1] = squares;
    }
    return true;
}

/* Not less the mean: that is what the product's weight takes from it. */
REFERENCE(reference_moments_norm)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    size_t each = o->norm ? 1 : 2, strips = cols / MOMENTS_STRIP;
    const double *x = value(g, v, o->in[0]), *gamma = value(g, v, o->in[1]), *moments = value(g, v, o->in[2]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, x += cols, y += cols, moments += each) {
        double sum = 0, squares = 0;
        for (size_t s = 0; s < strips && !o->norm; s++) sum += moments[s * rows * 2];
        for (size_t s = 0; s < strips; s++) squares += moments[s * rows * each + each - 1];
        double variance = fmax(squares - sum * sum / (double)cols, 0) / (double)cols;
        double scale = gamma[0] / sqrt(variance + o->attribute);
        for (size_t c = 0; c < cols; c++) y[c] = x[c] * scale;
    }
    return true;
}

/* What a token at place `at` of `count` counts in a sum. */
static double pool_weight(uint32_t pool, size_t at, size_t count)
{
    double n = (double)count;
    if (pool == POOL_SUM) return 1;
    return pool == POOL_MEAN ? 1 / n : pool == POOL_SQRT ? 1 / sqrt(n) : 2 * (double)(at + 1) / (n * (n + 1));
}

/* One row per sequence out of the rows of its tokens. */
static bool pool(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                 uint32_t pool)
{
    size_t cols = tensor_row_length(g, o->out[0]), stride = tensor_row_stride(g, o->out[0]);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]) + tensor_row_offset(g, o->out[0]);
    for (uint32_t s = 0; s < b->sequences; s++, y += stride) {
        size_t first = b->offsets[s], count = b->offsets[s + 1] - first, one = 0;
        bool largest = pool == POOL_MAX,
             sum = pool == POOL_MEAN || pool == POOL_SUM || pool == POOL_SQRT || pool == POOL_WEIGHTED;
        if (pool == POOL_LAST) one = count - 1;
        if (pool == POOL_ROW) one = v->ids[o->in[1]][s];
        for (size_t c = 0; c < cols; c++) y[c] = sum ? 0 : x[(first + one) * cols + c];
        for (size_t r = 0; (largest || sum) && r < count; r++) {
            const double *row = x + (first + r) * cols, weight = sum ? pool_weight(pool, r, count) : 0;
            for (size_t c = 0; c < cols; c++) y[c] = sum ? y[c] + weight * row[c] : fmax(y[c], row[c]);
        }
    }
    return true;
}

#define POOL_REFERENCE(name, which)                                                                                    \
    REFERENCE(reference_pool_##name)                                                                                   \
    {                                                                                                                  \
        (void)e;                                                                                                       \
        return pool(g, o, b, v, which);                                                                                \
    }
POOL_REFERENCE(mean, POOL_MEAN)
POOL_REFERENCE(cls, POOL_CLS)
POOL_REFERENCE(max, POOL_MAX)
POOL_REFERENCE(row, POOL_ROW)
POOL_REFERENCE(last, POOL_LAST)
POOL_REFERENCE(sum, POOL_SUM)
POOL_REFERENCE(sqrt, POOL_SQRT)
POOL_REFERENCE(weighted, POOL_WEIGHTED)

/* As torch.nn.functional.normalize: lengths below 1e-12 count as 1e-12. */
REFERENCE(reference_normalize)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / cols;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) sum += x[c] * x[c];
        double length = sqrt(sum);
        for (size_t c = 0; c < cols; c++) y[c] = x[c] / (length > 1e-12 ? length : 1e-12);
    }
    return true;
}
