/* What each kind of operator of a loss means, in double. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/kinds.h"
#include "graph/references.h"

static double *value(const struct graph *g, struct values *v, int tensor)
{
    return tensor < 0 ? NULL : v->of[tensor_owner(g, tensor)];
}

static size_t width_of(const struct graph *g, int tensor)
{
    const char *dims = g->tensors[tensor].dims;
    return g->dims.of[(unsigned char)dims[strlen(dims) - 1]];
}

/* Rows from the first of `column` on, so many columns of them; 0: all rows. */
static size_t taken(const struct op *o, const struct batch_shape *b)
{
    return o->columns ? (size_t)o->columns * b->sequences : (size_t)b->tokens;
}

REFERENCE(reference_take)
{
    (void)e;
    size_t n = width_of(g, o->out[0]), wide = width_of(g, o->in[0]), first = (size_t)o->column * b->sequences;
    size_t all = (size_t)tensor_elements(g, b, o->out[0]);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < all; i++) y[i] = i / n < taken(o, b) ? x[(first + i / n) * wide + i % n] : 0;
    return true;
}

REFERENCE(reference_take_dx)
{
    (void)e;
    size_t n = width_of(g, o->out[0]), narrow = width_of(g, o->in[0]), first = (size_t)o->column * b->sequences;
    size_t all = (size_t)tensor_elements(g, b, o->out[0]);
    const double *d = value(g, v, o->in[0]), *before = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < all; i++) {
        size_t row = i / n, c = i % n;
        bool inside = row >= first && row - first < taken(o, b) && c < narrow;
        y[i] = (inside ? d[(row - first) * narrow + c] : 0) + (before ? before[i] : 0);
    }
    return true;
}

/* The product of an example's first two rows, less that of the first and the third. */
REFERENCE(reference_pairs)
{
    (void)e;
    size_t n = width_of(g, o->in[0]), examples = b->sequences;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < examples; r++) {
        y[r] = 0;
        for (size_t c = 0; c < n; c++) {
            double other = x[(examples + r) * n + c];
            if (o->columns > 2) other -= x[(2 * examples + r) * n + c];
            y[r] += x[r * n + c] * other;
        }
    }
    return true;
}

REFERENCE(reference_pairs_dx)
{
    (void)e;
    size_t n = width_of(g, o->out[0]), examples = b->sequences;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < examples; r++)
        for (size_t c = 0; c < n; c++) {
            size_t at = r * n + c, second = at + examples * n, third = second + examples * n;
            y[at] = d[r] * (x[second] - (o->columns > 2 ? x[third] : 0));
            y[second] = d[r] * x[at];
            if (o->columns > 2) y[third] = -d[r] * x[at];
        }
    return true;
}

/* ---- losses of rows ---- */

/* Columns of a row that there are. */
static size_t columns_of(const struct graph *g, const struct op *o, const struct batch_shape *b, int x)
{
    return o->columns ? (size_t)o->columns * b->sequences : tensor_row_length(g, x);
}

/* Targets of a row with their weight. */
static size_t targets_of(const struct graph *g, int targets) { return tensor_row_length(g, targets); }

static bool label_fits(const struct op *o, double label, size_t columns, struct error *e)
{
    return (label >= 0 && label < (double)columns) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: label %d of %zu", o->name, (int)label, columns);
}

REFERENCE(reference_cross_entropy)
{
    size_t n = tensor_row_length(g, o->in[0]), columns = columns_of(g, o, b, o->in[0]);
    const double *x = value(g, v, o->in[0]), *t = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]), *lse = value(g, v, o->out[1]), scale = o->attribute;
    for (size_t r = 0; r < b->sequences; r++, x += n) {
        double peak = x[0], sum = 0;
        TRY(label_fits(o, t[2 * r], columns, e));
        for (size_t c = 1; c < columns; c++) peak = x[c] > peak ? x[c] : peak;
        for (size_t c = 0; c < columns; c++) sum += exp(scale * (x[c] - peak));
        lse[r] = scale * peak + log(sum);
        y[r] = t[2 * r + 1] * (log(sum) + scale * (peak - x[(size_t)t[2 * r]]));
    }
    return true;
}

REFERENCE(reference_cross_entropy_dx)
{
    size_t n = tensor_row_length(g, o->in[1]), columns = columns_of(g, o, b, o->in[1]);
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]), *t = value(g, v, o->in[2]),
                 *lse = value(g, v, o->in[3]);
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    for (size_t r = 0; r < b->sequences; r++, x += n, y += n) {
        double share = *d * t[2 * r + 1] * scale, others = 0;
        TRY(label_fits(o, t[2 * r], columns, e));
        size_t right = (size_t)t[2 * r];
        for (size_t c = 0; c < n; c++) {
            double p = c < columns && c != right ? exp(scale * x[c] - lse[r]) : 0;
            others += p;
            y[c] = share * p;
        }
        y[right] = -share * others; /* p - 1: the logarithm has the digits of its storage alone */
    }
    return true;
}

/* Element by element; the result is a row's sum, or the gradient. */
static void each(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                 double (*function)(double x, double t, double scale), bool gradient)
{
    int at = o->in[gradient], targets = o->in[gradient + 1];
    size_t n = tensor_row_length(g, at), width = targets_of(g, targets);
    const double *x = value(g, v, at), *t = value(g, v, targets), *d = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < b->sequences; r++, x += n, t += width) {
        double sum = 0, weight = t[width - 1];
        for (size_t c = 0; c < n; c++) {
            double one = weight * function(x[c], t[c], o->attribute);
            if (gradient) y[r * n + c] = *d * one;
            sum += one;
        }
        if (!gradient) y[r] = sum;
    }
}

static double squared(double x, double t, double scale) { return (void)scale, (x - t) * (x - t); }
static double squared_slope(double x, double t, double scale) { return (void)scale, 2 * (x - t); }

/* -log sigmoid(x) */
static double minus_log_sigmoid(double x) { return log1p(exp(-fabs(x))) + (x < 0 ? -x : 0); }

static double binary(double x, double t, double scale)
{
    return scale * t * minus_log_sigmoid(x) + (1 - t) * minus_log_sigmoid(-x);
}

static double binary_slope(double x, double t, double scale)
{
    return (1 - t) / (1 + exp(-x)) - scale * t / (1 + exp(x));
}

#define EACH(name, function, gradient)                                                                                 \
    REFERENCE(name)                                                                                                    \
    {                                                                                                                  \
        (void)e;                                                                                                       \
        each(g, o, b, v, function, gradient);                                                                          \
        return true;                                                                                                   \
    }
EACH(reference_squared, squared, false)
EACH(reference_squared_dx, squared_slope, true)
EACH(reference_binary, binary, false)
EACH(reference_binary_dx, binary_slope, true)

/* A row that no other has a larger target than has no pairs: -FLT_MAX, whose exponential is 0. */
REFERENCE(reference_cosent)
{
    (void)e;
    const double *x = value(g, v, o->in[0]), *t = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    for (size_t i = 0; i < b->sequences; i++) {
        double peak = -FLT_MAX, sum = 0;
        for (size_t j = 0; j < b->sequences; j++)
            if (t[2 * j] > t[2 * i] && scale * (x[i] - x[j]) > peak) peak = scale * (x[i] - x[j]);
        for (size_t j = 0; j < b->sequences; j++)
            if (t[2 * j] > t[2 * i]) sum += exp(scale * (x[i] - x[j]) - peak);
        y[i] = sum > 0 ? peak + log(sum) : -FLT_MAX;
    }
    return true;
}

REFERENCE(reference_cosent_dx)
{
    (void)e;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]), *t = value(g, v, o->in[2]),
                 *lse = value(g, v, o->in[3]);
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    for (size_t i = 0; i < b->sequences; i++) {
        double sum = 0;
        for (size_t j = 0; j < b->sequences; j++) {
            if (t[2 * j] > t[2 * i]) sum += exp(scale * (x[i] - x[j]) - *lse);
            if (t[2 * j] < t[2 * i]) sum -= exp(scale * (x[j] - x[i]) - *lse);
        }
        y[i] = *d * t[2 * i + 1] * scale * sum;
    }
    return true;
}

REFERENCE(reference_loss_sum)
{
    (void)e;
    const double *x = value(g, v, o->in[0]), *before = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]), sum = 0;
    for (size_t r = 0; r < b->sequences; r++) sum += x[r];
    *y = sum + (before ? *before : 0);
    return true;
}

/* ln(1 + the sum of the rows' exponentials), times the weight, which all rows have alike. */
REFERENCE(reference_cosent_sum)
{
    (void)e;
    const double *x = value(g, v, o->in[0]), *before = value(g, v, o->in[1]), *t = value(g, v, o->in[2]);
    double *y = value(g, v, o->out[0]), *lse = value(g, v, o->out[1]), peak = 0, sum = 0;
    for (size_t r = 0; r < b->sequences; r++) peak = x[r] > peak ? x[r] : peak;
    for (size_t r = 0; r < b->sequences; r++) sum += exp(x[r] - peak);
    *lse = peak + log(exp(-peak) + sum);
    *y = t[1] * *lse + (before ? *before : 0);
    return true;
}
