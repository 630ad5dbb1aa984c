/* layernorm_backward: gradients of a layernorm's input and weights, and of the bias that follows
 * (cl/layernorm_backward.cl). An item is a part of the rows, which are dealt out in turns. */
#include "dropout.h"
#include "rows.h"
#include "traffic.h"

static size_t sets_of(const struct cpu_step *s)
{
    return (1 + s->value[CONST_BETA]) * s->value[CONST_NORM_DW] + (s->value[CONST_BIAS_SUM] != BIAS_SUM_NONE);
}

static size_t parts_of(const struct cpu_step *s)
{
    size_t parts = s->value[CONST_PARTS], needed = blocks_of(step_rows(s), s->value[CONST_PART_ROWS]);
    return parts < needed ? parts : needed;
}

/* d, z, what is made of them, and three sums. */
static size_t backward_scratch(const struct cpu_step *s) { return 6 * padded(s->value[CONST_N]); }

struct held {
    float *d, *z, *result;
    float *gamma_sums, *beta_sums, *bias_sums;
};

/* result = rstd * (g - mean(g) - z * mean(g * z)) with g = d * gamma; with RMS without mean(g). */
static void norm_dx(const struct cpu_step *s, const struct held *h, float rstd, size_t n)
{
    const float *gamma = s->at[SLOT_GAMMA];
    if (s->value[CONST_RMS]) {
        FOR_VECTORS(i, n) v_store(h->result + i, v_load(h->d + i) * (v_load_at(gamma, i, n) + row_one(s)));
    } else {
        FOR_VECTORS(i, n) v_store(h->result + i, v_load(h->d + i) * v_load_at(gamma, i, n));
    }
    float mean = s->value[CONST_RMS] ? 0.0f : row_sum(h->result, n) / (float)n,
          along = row_dot(h->result, h->z, n) / (float)n;
    FOR_VECTORS(i, n)
    {
        vec left = v_load(h->result + i) - v_set(mean);
        v_store(h->result + i, v_set(rstd) * v_fma(-v_load(h->z + i), v_set(along), left));
    }
    row_end(h->result, n);
}

/* The sums of gamma's and beta's gradients. */
static void norm_dw(const struct held *h, size_t n)
{
    FOR_VECTORS(i, n)
    {
        vec d = v_load(h->d + i);
        v_store(h->gamma_sums + i, v_fma(d, v_load(h->z + i), v_load(h->gamma_sums + i)));
        v_store(h->beta_sums + i, v_load(h->beta_sums + i) + d);
    }
}

static void run_row(const struct cpu_step *s, const struct held *h, const struct dropout *drop, size_t row)
{
    size_t n = s->value[CONST_N], at = row * n;
    bool addend = s->value[CONST_ADDEND] != 0, residual = s->value[CONST_RESIDUAL] != 0;
    float rstd = 0.0f;
    row_load(h->d, s->at[SLOT_X] + at, n);
    if (residual && !addend) row_add(h->d, s->at[SLOT_RESIDUAL] + at, n);
    if (s->value[CONST_NORM_DX] || s->value[CONST_NORM_DW]) {
        row_load(h->z, s->at[SLOT_SAVED] + at, n);
        rstd = row_standardize(s, h->z, n);
    }
    if (s->value[CONST_NORM_DW]) norm_dw(h, n);
    if (s->value[CONST_NORM_DX])
        norm_dx(s, h, rstd, n);
    else
        memcpy(h->result, h->d, padded(n) * sizeof(float));
    if (addend && residual) row_add(h->result, s->at[SLOT_RESIDUAL] + at, n);
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + at, h->result, n);
    if (drop->threshold && s->value[CONST_KEPT])
        row_scale(h->result, n, drop->scale);
    else if (drop->threshold)
        row_drop(drop, h->result, n, (uint32_t)row, 0);
    if (s->value[CONST_BIAS_SUM] == BIAS_SUM_RESULT) row_add(h->bias_sums, h->result, n);
    if (s->value[CONST_BIAS_SUM] == BIAS_SUM_OPERAND) row_add(h->bias_sums, s->at[SLOT_EXTRA] + at, n);
    if (s->value[CONST_NORM_DX] || residual) row_store(s->at[SLOT_Y] + at, h->result, n);
}

static void backward_run(const struct cpu_step *s, size_t part, float *scratch)
{
    size_t n = s->value[CONST_N], wide = padded(n), rows = step_rows(s), unit = s->value[CONST_PART_ROWS];
    const struct held h = {
        scratch, scratch + wide, scratch + 2 * wide, scratch + 3 * wide, scratch + 4 * wide, scratch + 5 * wide};
    struct dropout drop = dropout_of(s);
    memset(h.gamma_sums, 0, 3 * wide * sizeof(float));
    for (size_t first = part * unit; first < rows; first += s->value[CONST_PARTS] * unit)
        for (size_t row = first; row < rows && row < first + unit; row++) run_row(s, &h, &drop, row);
    if (!sets_of(s)) return;
    float *to = s->at[SLOT_PARTIALS] + part * sets_of(s) * n;
    if (s->value[CONST_NORM_DW]) {
        row_store(to, h.gamma_sums, n);
        if (s->value[CONST_BETA]) row_store(to + n, h.beta_sums, n);
        to += (1 + s->value[CONST_BETA]) * n;
    }
    if (s->value[CONST_BIAS_SUM] != BIAS_SUM_NONE) row_store(to, h.bias_sums, n);
}

static void backward_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n, parts = parts_of(s);
    reads(c, SLOT_X, all);
    reads(c, SLOT_RESIDUAL, all);
    reads(c, SLOT_SAVED, all);
    if (s->value[CONST_BIAS_SUM] == BIAS_SUM_OPERAND) reads(c, SLOT_EXTRA, all);
    if (s->value[CONST_NORM_DX]) count_vector(c, SLOT_GAMMA, parts, n);
    if (sets_of(s)) writes_scratch(c, SLOT_PARTIALS, parts * sets_of(s) * n);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, all);
}

const struct cpu_kernel CPU_NAME(cpu_layernorm_backward) = {.name = "layernorm_backward",
                                                            .items = parts_of,
                                                            .run = backward_run,
                                                            .scratch = backward_scratch,
                                                            .count = backward_count};
