/* Norms of single heads of Q and K: what they mean, in double, and the constants of their kernels. A token's row of Q,
 * K and V has all heads of Q, then of K, then of V, which are left as they are. A wide norm is one of all heads of Q,
 * or of K, as one head: a layernorm, with a mean and a beta. */
#include <math.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kind_constants.h"
#include "graph/references.h"
#include "interface/interface.h"

/* Heads of a row, of which the last `values` are V's; before them are as many of K. */
struct heads {
    size_t all, values, channels;
};

static bool is_wide(const struct op *o) { return o->norm == RMS_NONE; }

static struct heads heads_of(const struct graph *g, const struct op *o, int tensor)
{
    size_t p = g->dims.of['p'];
    if (is_wide(o)) return (struct heads){3, 1, tensor_row_length(g, tensor) / 3};
    return (struct heads){tensor_row_length(g, tensor) / p, g->dims.of['H'], p};
}

/* Where the weight of a head of Q or K begins. */
static size_t weight_of(const struct heads *n, size_t head) { return head < n->all - 2 * n->values ? 0 : n->channels; }

static bool is_normed(const struct heads *n, size_t head) { return head < n->all - n->values; }

static double scale_of(const struct op *o, double gamma) { return o->norm == RMS_ONE_GAMMA ? 1 + gamma : gamma; }

static double mean_of(const struct op *o, const double *x, size_t channels)
{
    double sum = 0;
    for (size_t c = 0; c < channels && is_wide(o); c++) sum += x[c];
    return sum / (double)channels;
}

static double root_of(const struct op *o, const double *x, size_t channels)
{
    double sum = 0, mean = mean_of(o, x, channels);
    for (size_t c = 0; c < channels; c++) sum += (x[c] - mean) * (x[c] - mean);
    return 1 / sqrt(sum / (double)channels + o->attribute);
}

static double *value(const struct graph *g, const struct values *v, int tensor)
{
    return v->of[tensor_owner(g, tensor)];
}

REFERENCE(reference_heads_norm)
{
    (void)e;
    const struct heads n = heads_of(g, o, o->out[0]);
    const double *x = value(g, v, o->in[0]), *gamma = value(g, v, o->in[1]),
                 *beta = is_wide(o) ? value(g, v, o->in[2]) : NULL;
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < b->tokens; r++)
        for (size_t h = 0; h < n.all; h++, x += n.channels, y += n.channels) {
            double root = root_of(o, x, n.channels), mean = mean_of(o, x, n.channels);
            for (size_t c = 0; c < n.channels; c++) {
                size_t weight = is_normed(&n, h) ? weight_of(&n, h) + c : 0;
                double normed = (x[c] - mean) * root * scale_of(o, gamma[weight]) + (beta ? beta[weight] : 0);
                y[c] = is_normed(&n, h) ? normed : x[c];
            }
        }
    return true;
}

REFERENCE(reference_heads_norm_dw)
{
    (void)e;
    const struct heads n = heads_of(g, o, o->in[0]);
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]);
    double *d_gamma = value(g, v, o->out[0]), *d_beta = is_wide(o) ? value(g, v, o->out[1]) : NULL;
    memset(d_gamma, 0, 2 * n.channels * sizeof *d_gamma);
    if (d_beta) memset(d_beta, 0, 2 * n.channels * sizeof *d_beta);
    for (size_t r = 0; r < b->tokens; r++)
        for (size_t h = 0; h < n.all; h++, d += n.channels, x += n.channels) {
            double root = root_of(o, x, n.channels), mean = mean_of(o, x, n.channels);
            for (size_t c = 0; c < n.channels && is_normed(&n, h); c++) {
                d_gamma[weight_of(&n, h) + c] += d[c] * (x[c] - mean) * root;
                if (d_beta) d_beta[weight_of(&n, h) + c] += d[c];
            }
        }
    return true;
}

REFERENCE(reference_heads_norm_dx)
{
    (void)e;
    const struct heads n = heads_of(g, o, o->out[0]);
    const double *d = value(g, v, o->in[0]), *x = value(g, v, o->in[1]), *gamma = value(g, v, o->in[2]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < b->tokens; r++)
        for (size_t h = 0; h < n.all; h++, d += n.channels, x += n.channels, y += n.channels) {
            const double *scale = gamma + (is_normed(&n, h) ? weight_of(&n, h) : 0);
            double root = root_of(o, x, n.channels), mean = mean_of(o, x, n.channels), along = 0, level = 0;
            for (size_t c = 0; c < n.channels; c++) {
                along += d[c] * scale_of(o, scale[c]) * (x[c] - mean) * root;
                level += is_wide(o) ? d[c] * scale_of(o, scale[c]) : 0;
            }
            along /= (double)n.channels;
            level /= (double)n.channels;
            for (size_t c = 0; c < n.channels; c++) {
                double moved = d[c] * scale_of(o, scale[c]) - level - (x[c] - mean) * root * along;
                y[c] = is_normed(&n, h) ? root * moved : d[c];
            }
        }
    return true;
}

/* A row of the kernel is a head. */
static void set_heads(const struct graph *g, const struct op *o, int tensor, uint8_t which, struct call *call)
{
    const struct heads n = heads_of(g, o, tensor);
    call_set(call, which, 1);
    call_set(call, CONST_N, (uint32_t)n.channels);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, CONST_HEADS, (uint32_t)n.all);
    call_set(call, CONST_KEY_HEADS, (uint32_t)n.values);
    call_set(call, CONST_RMS, o->norm);
    call_set_float(call, CONST_EPSILON, o->attribute);
}

CONSTANTS(constants_heads_norm)
{
    (void)group;
    set_heads(g, o, o->out[0], CONST_NORM, call);
}

CONSTANTS(constants_heads_norm_dw)
{
    (void)group;
    set_heads(g, o, o->in[0], CONST_NORM_DW, call);
}

CONSTANTS(constants_heads_norm_dx)
{
    (void)group;
    set_heads(g, o, o->out[0], CONST_NORM_DX, call);
}
