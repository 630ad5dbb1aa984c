/* What activations and gates mean, in double. */
#include <math.h>

#include "graph/kinds.h"
#include "graph/references.h"
#include "interface/interface.h"

static double *value(const struct graph *g, struct values *v, int tensor) { return v->of[tensor_owner(g, tensor)]; }

static double relu(double x) { return x > 0 ? x : 0; }

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2.0))); }

static double silu(double x) { return x / (1 + exp(-x)); }

static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))); }

static bool each(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                 double (*function)(double))
{
    size_t n = (size_t)tensor_elements(g, b, o->out[0]);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = function(x[i]);
    return true;
}

REFERENCE(reference_relu)
{
    (void)e;
    return each(g, o, b, v, relu);
}

REFERENCE(reference_gelu)
{
    (void)e;
    return each(g, o, b, v, gelu);
}

REFERENCE(reference_gelu_tanh)
{
    (void)e;
    return each(g, o, b, v, gelu_tanh);
}

REFERENCE(reference_silu)
{
    (void)e;
    return each(g, o, b, v, silu);
}

REFERENCE(reference_tanh)
{
    (void)e;
    return each(g, o, b, v, tanh);
}

static double log1p_relu(double x) { return log1p(relu(x)); }

static double log1p_log1p_relu(double x) { return log1p(log1p_relu(x)); }

REFERENCE(reference_log1p_relu)
{
    (void)e;
    return each(g, o, b, v, log1p_relu);
}

REFERENCE(reference_log1p_log1p_relu)
{
    (void)e;
    return each(g, o, b, v, log1p_log1p_relu);
}

static double relu_slope(double x) { return x > 0; }

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2.0))) + x * exp(-0.5 * x * x) / sqrt(2 * acos(-1.0));
}

static double gelu_tanh_slope(double x)
{
    double a = sqrt(2 / acos(-1.0)), t = tanh(a * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x)
{
    double s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

static double tanh_slope(double y) { return 1 - y * y; } /* of what came out */

/* d x = d y * slope(what was saved). */
static bool each_slope(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                       double (*slope)(double))
{
    size_t n = (size_t)tensor_elements(g, b, o->out[0]);
    const double *d = value(g, v, o->in[0]), *saved = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = d[i] * slope(saved[i]);
    return true;
}

REFERENCE(reference_relu_dx)
{
    (void)e;
    return each_slope(g, o, b, v, relu_slope);
}

REFERENCE(reference_gelu_dx)
{
    (void)e;
    return each_slope(g, o, b, v, gelu_slope);
}

REFERENCE(reference_gelu_tanh_dx)
{
    (void)e;
    return each_slope(g, o, b, v, gelu_tanh_slope);
}

REFERENCE(reference_silu_dx)
{
    (void)e;
    return each_slope(g, o, b, v, silu_slope);
}

REFERENCE(reference_tanh_dx)
{
    (void)e;
    return each_slope(g, o, b, v, tanh_slope);
}

static double as_it_is(double x) { return x; }

REFERENCE(reference_given_dx)
{
    (void)e;
    return each_slope(g, o, b, v, as_it_is);
}

/* The slope of each element, and 0 where dropout leaves nothing of it. */
static bool slopes(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                   double (*slope)(double))
{
    size_t columns = tensor_row_length(g, o->out[0]);
    double *y = value(g, v, o->out[0]);
    TRY(each(g, o, b, v, slope));
    for (uint32_t r = 0; o->dropout > 0 && r < b->tokens; r++)
        reference_drop_row(o, v, r, columns, y + r * columns, y + r * columns);
    return true;
}

REFERENCE(reference_gelu_slope)
{
    (void)e;
    return slopes(g, o, b, v, gelu_slope);
}

REFERENCE(reference_gelu_tanh_slope)
{
    (void)e;
    return slopes(g, o, b, v, gelu_tanh_slope);
}

/* ---- gates: of two neighbours, one through an activation, times the other ---- */

static double activation_of(uint32_t activation, double x)
{
    return activation == ACTIVATION_RELU        ? relu(x)
           : activation == ACTIVATION_SILU      ? silu(x)
           : activation == ACTIVATION_GELU_TANH ? gelu_tanh(x)
                                                : gelu(x);
}

static double slope_of(uint32_t activation, double x)
{
    return activation == ACTIVATION_RELU        ? relu_slope(x)
           : activation == ACTIVATION_SILU      ? silu_slope(x)
           : activation == ACTIVATION_GELU_TANH ? gelu_tanh_slope(x)
                                                : gelu_slope(x);
}

REFERENCE(reference_gate)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]), gate = o->gate == GATE_ODD;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = activation_of(o->activation, x[2 * i + gate]) * x[2 * i + !gate];
    return true;
}

REFERENCE(reference_gate_dx)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->in[0]), gate = o->gate == GATE_ODD;
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) {
        y[2 * i + gate] = d[i] * x[2 * i + !gate] * slope_of(o->activation, x[2 * i + gate]);
        y[2 * i + !gate] = d[i] * activation_of(o->activation, x[2 * i + gate]);
    }
    return true;
}

/* What the gradient of a result is multiplied by for each of its pair, and 0 where dropout leaves nothing of it. The
 * factors of a row stand in its second half until its slopes are there. */
REFERENCE(reference_gate_slopes)
{
    (void)e;
    size_t n = tensor_row_length(g, o->out[0]) / 2, gate = o->gate == GATE_ODD;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (uint32_t r = 0; r < b->tokens; r++, x += 2 * n, y += 2 * n) {
        for (size_t i = 0; i < n; i++) y[n + i] = 1;
        if (o->dropout > 0) reference_drop_row(o, v, r, n, y + n, y + n);
        for (size_t i = 0; i < n; i++) {
            double factor = y[n + i];
            y[2 * i + gate] = factor * x[2 * i + !gate] * slope_of(o->activation, x[2 * i + gate]);
            y[2 * i + !gate] = factor * activation_of(o->activation, x[2 * i + gate]);
        }
    }
    return true;
}

REFERENCE(reference_gate_given_dx)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out[0]);
    const double *d = value(g, v, o->in[0]), *slopes = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = d[i / 2] * slopes[i];
    return true;
}
