/* Mixtures of experts: their references in double and their kernels' constants. What experts read and make lies by
 * token, CHOSEN rows of each side by side; a list has the numbers of each expert's rows. */
#include "graph/experts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kind_constants.h"
#include "graph/references.h"
#include "interface/interface.h"

bool experts_check(const wherry_model_config *config, struct error *e)
{
    if (!config->experts) {
        return (!config->chosen_experts && !config->experts_every && !config->experts_normalized) ||
               fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "experts is 0, and chosen_experts, experts_every or experts_normalized are not: a mixture has "
                    "experts");
    }
    if (config->experts > EXPERTS_MOST)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "a mixture of %" PRIu32 " experts: up to %d are supported",
                    config->experts, EXPERTS_MOST);
    if (!config->chosen_experts || config->chosen_experts > config->experts)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a token takes %" PRIu32 " of %" PRIu32
                    " experts (chosen_experts): it must be from 1 to their number",
                    config->chosen_experts, config->experts);
    if (!config->experts_every)
        return fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "experts_every is 0: it must be at least 1, layers with (layer %% experts_every) == 1 are mixtures");
    return !config->gate || fail(e, WHERRY_STATUS_UNSUPPORTED, "experts with a gate are not supported");
}

/* ---- which experts ---- */

/* The largest score that is not chosen yet, of equal ones the first. */
static size_t next_best(const double *scores, size_t experts, const bool *chosen)
{
    size_t best = experts;
    for (size_t x = 0; x < experts; x++)
        if (!chosen[x] && (best == experts || scores[x] > scores[best])) best = x;
    return best;
}

static double exponents_sum(const double *scores, size_t experts)
{
    double peak = scores[0], sum = 0;
    for (size_t x = 1; x < experts; x++) peak = scores[x] > peak ? scores[x] : peak;
    for (size_t x = 0; x < experts; x++) sum += exp(scores[x] - peak);
    return peak + log(sum);
}

REFERENCE(reference_route)
{
    (void)e;
    size_t experts = g->dims.of['E'], most = g->dims.of['T'];
    for (size_t t = 0; t < b->tokens; t++) {
        const double *scores = v->of[o->in[0]] + t * experts;
        double *weights = v->of[o->out[0]] + t * most, *numbers = v->of[o->out[1]] + t * most, sum = 0;
        double all = exponents_sum(scores, experts);
        bool chosen[EXPERTS_MOST] = {false};
        for (size_t k = 0; k < most; k++) {
            size_t x = next_best(scores, experts, chosen);
            chosen[x] = true;
            numbers[k] = (double)x;
            sum += weights[k] = exp(scores[x] - all);
        }
        for (size_t k = 0; o->normalized && k < most; k++) weights[k] /= sum;
    }
    return true;
}

/* Of a weight p(x) of all experts' softmax the gradient by score y is p(x) ((x == y) - p(y)); normalized weights are
 * the softmax of those chosen alone. */
REFERENCE(reference_route_dx)
{
    (void)e;
    size_t experts = g->dims.of['E'], most = g->dims.of['T'];
    for (size_t t = 0; t < b->tokens; t++) {
        const double *d = v->of[o->in[0]] + t * most, *scores = v->of[o->in[1]] + t * experts,
                     *numbers = v->of[o->in[2]] + t * most;
        double *y = v->of[o->out[0]] + t * experts, all = exponents_sum(scores, experts), sum = 0, mean = 0;
        for (size_t k = 0; k < most; k++) sum += exp(scores[(size_t)numbers[k]] - all);
        if (!o->normalized) sum = 1;
        for (size_t k = 0; k < most; k++) mean += d[k] * exp(scores[(size_t)numbers[k]] - all) / sum;
        for (size_t x = 0; x < experts; x++) y[x] = o->normalized ? 0 : -mean * exp(scores[x] - all);
        for (size_t k = 0; k < most; k++) {
            size_t x = (size_t)numbers[k];
            y[x] += (d[k] - (o->normalized ? mean : 0)) * exp(scores[x] - all) / sum;
        }
    }
    return true;
}

REFERENCE(reference_dispatch)
{
    (void)e;
    size_t experts = g->dims.of['E'], all = (size_t)b->tokens * g->dims.of['T'], n = 0;
    const double *numbers = v->of[o->in[0]];
    double *ends = v->of[o->out[0]], *rows = ends + experts;
    for (size_t x = 0; x < experts; x++) {
        for (size_t i = 0; i < all; i++)
            if (numbers[i] == (double)x) rows[n++] = (double)i;
        ends[x] = (double)n;
    }
    return true;
}

/* ---- for parts of a plan ---- */

/* A token's are neighbours in a ring, and so all different. */
static uint32_t some_expert(const struct graph *g, size_t row)
{
    uint32_t experts = g->dims.of['E'], most = g->dims.of['T'];
    return (uint32_t)((row / most % (experts / 2 + 1) + row % most) % experts);
}

void experts_numbers(const struct graph *g, const struct batch_shape *b, int tensor, uint32_t *to)
{
    uint32_t experts = g->tensors[tensor].before, n = 0;
    size_t all = (size_t)b->tokens * g->dims.of['T'];
    for (size_t i = 0; !experts && i < all; i++) to[i] = some_expert(g, i);
    for (uint32_t x = 0; x < experts; x++) {
        for (size_t i = 0; i < all; i++)
            if (some_expert(g, i) == x) to[experts + n++] = (uint32_t)i;
        to[x] = n;
    }
}

/* ---- their products ---- */

/* Whether a tensor has a row for each token, and not one for each of its experts. */
static bool by_token(const struct graph *g, int tensor) { return !strchr(g->tensors[tensor].dims, 'T'); }

/* Whether the weight's last letter is summed over, or is the result's. */
static bool sums_last(const struct graph *g, const struct op *o)
{
    const char *w = g->tensors[o->in[1]].dims;
    return !strchr(g->tensors[o->out[0]].dims, w[strlen(w) - 1]);
}

/* A row of a tensor by its number in the list. */
static double *row_at(const struct graph *g, struct values *v, int tensor, size_t row)
{
    size_t length = tensor_row_length(g, tensor), chosen = g->dims.of['T'];
    return v->of[tensor] + (by_token(g, tensor) ? row / chosen * length : row * (length / chosen));
}

REFERENCE(reference_experts)
{
    (void)b, (void)e;
    size_t experts = g->dims.of['E'], n = tensor_row_length(g, o->out[0]) / g->dims.of['T'];
    size_t k = tensor_row_length(g, o->in[1]) / experts / n;
    size_t n_step = sums_last(g, o) ? k : 1, k_step = sums_last(g, o) ? 1 : n;
    const double *ends = v->of[o->in[2]], *rows = ends + experts;
    for (size_t x = 0, at = 0; x < experts; x++)
        for (; (double)at < ends[x]; at++) {
            const double *in = row_at(g, v, o->in[0], (size_t)rows[at]), *w = v->of[o->in[1]] + x * n * k;
            double *out = row_at(g, v, o->out[0], (size_t)rows[at]);
            for (size_t c = 0; c < n; c++) {
                double sum = 0;
                for (size_t i = 0; i < k; i++) sum += in[i] * w[c * n_step + i * k_step];
                out[c] = sum;
            }
        }
    return true;
}

REFERENCE(reference_experts_dw)
{
    (void)b, (void)e;
    size_t experts = g->dims.of['E'], m = tensor_row_length(g, o->in[0]) / g->dims.of['T'];
    size_t n = tensor_row_length(g, o->out[0]) / experts / m;
    const double *ends = v->of[o->in[2]], *rows = ends + experts;
    memset(v->of[o->out[0]], 0, experts * m * n * sizeof(double));
    for (size_t x = 0, at = 0; x < experts; x++)
        for (; (double)at < ends[x]; at++) {
            const double *left = row_at(g, v, o->in[0], (size_t)rows[at]),
                         *right = row_at(g, v, o->in[1], (size_t)rows[at]);
            double *y = v->of[o->out[0]] + x * m * n;
            for (size_t r = 0; r < m; r++)
                for (size_t c = 0; c < n; c++) y[r * n + c] += left[r] * right[c];
        }
    return true;
}

/* ---- their sum ---- */

REFERENCE(reference_combine)
{
    (void)e;
    size_t n = tensor_row_length(g, o->out[0]), most = g->dims.of['T'];
    for (size_t t = 0; t < b->tokens; t++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t k = t * most; k < (t + 1) * most; k++)
                sum += v->of[o->in[0]][k * n + i] * (o->in[1] < 0 ? 1 : v->of[o->in[1]][k]);
            v->of[o->out[0]][t * n + i] = sum;
        }
    return true;
}

REFERENCE(reference_combine_dx)
{
    (void)e;
    size_t n = tensor_row_length(g, o->in[0]), most = g->dims.of['T'];
    for (size_t k = 0; k < b->tokens * most; k++)
        for (size_t i = 0; i < n; i++)
            v->of[o->out[0]][k * n + i] = v->of[o->in[0]][k / most * n + i] * v->of[o->in[1]][k];
    return true;
}

REFERENCE(reference_combine_dw)
{
    (void)e;
    size_t n = tensor_row_length(g, o->in[0]), most = g->dims.of['T'];
    for (size_t k = 0; k < b->tokens * most; k++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += v->of[o->in[0]][k / most * n + i] * v->of[o->in[1]][k * n + i];
        v->of[o->out[0]][k] = sum;
    }
    return true;
}

/* ---- constants ---- */

static void set_mixture(const struct graph *g, struct call *call)
{
    call_set(call, CONST_EXPERTS, g->dims.of['E']);
    call_set(call, CONST_CHOSEN, g->dims.of['T']);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
}

CONSTANTS(constants_route)
{
    (void)group;
    set_mixture(g, call);
    if (o->normalized) call_set(call, CONST_NORMALIZED, 1);
}

CONSTANTS(constants_dispatch)
{
    (void)group, (void)o;
    set_mixture(g, call);
    call_set(call, CONST_M, g->dims.of['E']);
}

/* What follows the product in its group has rows of all of a token's experts, which here are rows of their own. */
CONSTANTS(constants_experts)
{
    (void)group;
    uint32_t n = tensor_row_length(g, o->out[0]) / g->dims.of['T'];
    set_mixture(g, call);
    call_set(call, CONST_FORM, sums_last(g, o) ? GEMM_NT : GEMM_NN);
    call_set(call, CONST_N, n);
    call_set(call, CONST_K, tensor_row_length(g, o->in[1]) / g->dims.of['E'] / n);
    if (by_token(g, o->in[0])) call_set(call, CONST_TOKEN_ROWS, 1);
}

CONSTANTS(constants_experts_dw)
{
    (void)group;
    uint32_t m = tensor_row_length(g, o->in[0]) / g->dims.of['T'];
    set_mixture(g, call);
    call_set(call, CONST_FORM, GEMM_TN);
    call_set(call, CONST_M, m);
    call_set(call, CONST_N, tensor_row_length(g, o->out[0]) / g->dims.of['E'] / m);
    if (by_token(g, o->in[1])) call_set(call, CONST_TOKEN_ROWS, 1);
}

static void set_combine(const struct graph *g, int tokens, struct call *call, uint32_t form)
{
    call_set(call, CONST_N, tensor_row_length(g, tokens));
    call_set(call, CONST_CHOSEN, g->dims.of['T']);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, CONST_FORM, form);
}

CONSTANTS(constants_combine)
{
    (void)group;
    set_combine(g, o->out[0], call, OF_FORWARD);
    if (o->in[1] >= 0) call_set(call, CONST_WEIGHTED, 1);
}

CONSTANTS(constants_combine_dx)
{
    (void)group;
    set_combine(g, o->in[0], call, OF_BACKWARD);
    call_set(call, CONST_WEIGHTED, 1);
}

CONSTANTS(constants_combine_dw)
{
    (void)group;
    call_set(call, CONST_N, tensor_row_length(g, o->in[0]));
    call_set(call, CONST_CHOSEN, g->dims.of['T']);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, CONST_HEADS, g->dims.of['T']); /* what LAUNCH_SCORE_ROWS counts */
}
