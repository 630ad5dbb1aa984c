/* A mixture of experts but for its products: route, route_backward, dispatch, combine, combine_weights (the files of
 * those names in cl/). */
#include "rows.h"
#include "traffic.h"

/* ---- route and its gradient: an item has some tokens ---- */

enum { TOKENS = 64 };

static size_t token_items(const struct cpu_step *s) { return blocks_of(step_rows(s), TOKENS); }

/* The sum of the scores' exponents by their largest, *peak. */
static float exponents(const struct cpu_step *s, const float *scores, float *peak)
{
    size_t experts = s->value[CONST_EXPERTS];
    float sum = 0.0f;
    *peak = scores[0];
    for (size_t e = 1; e < experts; e++) *peak = scores[e] > *peak ? scores[e] : *peak;
    for (size_t e = 0; e < experts; e++) sum += expf(scores[e] - *peak);
    return sum;
}

/* The next in descending order after `last`, which has the score `before`. */
static size_t next_of(const float *scores, size_t experts, bool first, float before, size_t last)
{
    size_t best = experts;
    for (size_t e = 0; e < experts; e++) {
        bool left = first || scores[e] < before || (scores[e] == before && e > last);
        if (left && (best == experts || scores[e] > scores[best])) best = e;
    }
    return best < experts ? best : experts - 1; /* scores that are no numbers */
}

static void route_token(const struct cpu_step *s, size_t token)
{
    size_t experts = s->value[CONST_EXPERTS], chosen = s->value[CONST_CHOSEN], last = experts;
    const float *scores = s->at[SLOT_X] + token * experts;
    float *weights = s->at[SLOT_DELTA] + token * chosen, peak, all = exponents(s, scores, &peak), sum = 0.0f;
    uint32_t *numbers = (uint32_t *)s->at[SLOT_IDS] + token * chosen;
    for (size_t k = 0; k < chosen; k++) {
        last = next_of(scores, experts, k == 0, k ? scores[last] : 0.0f, last);
        numbers[k] = (uint32_t)last;
        sum += weights[k] = expf(scores[last] - peak);
    }
    for (size_t k = 0; k < chosen; k++) weights[k] /= s->value[CONST_NORMALIZED] ? sum : all;
}

static void route_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t end = block_end(item, TOKENS, step_rows(s));
    for (size_t token = item * TOKENS; token < end; token++) route_token(s, token);
}

static void derive_token(const struct cpu_step *s, size_t token)
{
    size_t experts = s->value[CONST_EXPERTS], chosen = s->value[CONST_CHOSEN];
    const float *scores = s->at[SLOT_SAVED] + token * experts, *d = s->at[SLOT_DELTA] + token * chosen;
    const uint32_t *numbers = (const uint32_t *)s->at[SLOT_IDS] + token * chosen;
    float *y = s->at[SLOT_Y] + token * experts, peak, sum = exponents(s, scores, &peak), mean = 0.0f;
    bool normalized = s->value[CONST_NORMALIZED] != 0;
    if (normalized) sum = 0.0f;
    for (size_t k = 0; normalized && k < chosen; k++) sum += expf(scores[numbers[k]] - peak);
    for (size_t k = 0; k < chosen; k++) mean += d[k] * (expf(scores[numbers[k]] - peak) / sum);
    for (size_t e = 0; e < experts; e++) {
        float of = normalized ? 0.0f : -mean;
        for (size_t k = 0; k < chosen; k++)
            if (numbers[k] == e) of = d[k] - mean;
        y[e] = of * (expf(scores[e] - peak) / sum);
    }
}

static void route_backward_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t end = block_end(item, TOKENS, step_rows(s));
    for (size_t token = item * TOKENS; token < end; token++) derive_token(s, token);
}

static void route_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), experts = s->value[CONST_EXPERTS], chosen = s->value[CONST_CHOSEN];
    reads(c, SLOT_X, rows * experts);
    writes(c, SLOT_DELTA, rows * chosen);
    writes(c, SLOT_IDS, rows * chosen);
}

static void route_backward_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), experts = s->value[CONST_EXPERTS], chosen = s->value[CONST_CHOSEN];
    reads(c, SLOT_SAVED, rows * experts);
    reads(c, SLOT_DELTA, rows * chosen);
    reads(c, SLOT_IDS, rows * chosen);
    writes(c, SLOT_Y, rows * experts);
}

/* ---- dispatch: an item has an expert, and looks at all rows twice ---- */

static size_t dispatch_items(const struct cpu_step *s) { return s->value[CONST_EXPERTS]; }

static void dispatch_run(const struct cpu_step *s, size_t expert, float *scratch)
{
    (void)scratch;
    size_t rows = step_rows(s) * s->value[CONST_CHOSEN], at = 0;
    const uint32_t *numbers = (const uint32_t *)s->at[SLOT_IDS];
    uint32_t *ends = (uint32_t *)s->at[SLOT_POSITIONS], *list = ends + s->value[CONST_EXPERTS];
    for (size_t row = 0; row < rows; row++) at += numbers[row] < expert;
    for (size_t row = 0; row < rows; row++)
        if (numbers[row] == expert) list[at++] = (uint32_t)row;
    ends[expert] = (uint32_t)at;
}

static void dispatch_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s) * s->value[CONST_CHOSEN], experts = s->value[CONST_EXPERTS];
    count_again(c, SLOT_IDS, experts * rows, rows, rows * sizeof(uint32_t));
    writes(c, SLOT_POSITIONS, rows + experts);
}

/* ---- combine, and the gradients of its weights ---- */

static float weight_of(const struct cpu_step *s, size_t row)
{
    return s->value[CONST_WEIGHTED] ? s->at[SLOT_DELTA][row] : 1.0f;
}

static void combine_row(const struct cpu_step *s, size_t row)
{
    size_t n = s->value[CONST_N], chosen = s->value[CONST_CHOSEN], first = row * chosen;
    bool backward = s->value[CONST_FORM] == OF_BACKWARD;
    const float *x = s->at[SLOT_X];
    float *y = s->at[SLOT_Y];
    FOR_VECTORS(i, n)
    {
        vec sum = backward ? v_load_at(x + row * n, i, n) : v_zero();
        for (size_t k = first; k < first + chosen; k++) {
            if (backward)
                v_store_at(y + k * n, i, n, sum * v_set(weight_of(s, k)));
            else
                sum = v_fma(v_load_at(x + k * n, i, n), v_set(weight_of(s, k)), sum);
        }
        if (!backward) v_store_at(y + row * n, i, n, sum);
    }
}

static void combine_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t row = item * unit; row < end; row++) combine_row(s, row);
}

static void combine_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], chosen = s->value[CONST_CHOSEN];
    bool backward = s->value[CONST_FORM] == OF_BACKWARD;
    reads(c, SLOT_X, rows * n * (backward ? 1 : chosen));
    reads(c, SLOT_DELTA, rows * chosen);
    writes(c, SLOT_Y, rows * n * (backward ? chosen : 1));
}

static size_t weights_scratch(const struct cpu_step *s) { return 2 * row_scratch(s); }

static void weights_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t n = s->value[CONST_N], chosen = s->value[CONST_CHOSEN], unit = rows_at_once(s);
    size_t end = block_end(item, unit, step_rows(s));
    float *saved = scratch + padded(n);
    for (size_t row = item * unit; row < end; row++) {
        row_load(scratch, s->at[SLOT_X] + row * n, n);
        for (size_t k = row * chosen; k < (row + 1) * chosen; k++) {
            row_load(saved, s->at[SLOT_SAVED] + k * n, n);
            s->at[SLOT_DELTA][k] = row_dot(scratch, saved, n);
        }
    }
}

static void weights_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], chosen = s->value[CONST_CHOSEN];
    reads(c, SLOT_X, rows * n);
    reads(c, SLOT_SAVED, rows * n * chosen);
    writes(c, SLOT_DELTA, rows * chosen);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_route) = {.name = "route", .items = token_items, .run = route_run, .count = route_count};
const struct cpu_kernel CPU_NAME(cpu_route_backward) = {.name = "route_backward", .items = token_items, .run = route_backward_run, .count = route_backward_count};
const struct cpu_kernel CPU_NAME(cpu_dispatch) = {.name = "dispatch", .items = dispatch_items, .run = dispatch_run, .count = dispatch_count};
const struct cpu_kernel CPU_NAME(cpu_combine) = {.name = "combine", .items = rows_items, .run = combine_run, .count = combine_count};
const struct cpu_kernel CPU_NAME(cpu_combine_weights) = {.name = "combine_weights", .items = rows_items, .run = weights_run, .scratch = weights_scratch, .count = weights_count};
/* clang-format on */
