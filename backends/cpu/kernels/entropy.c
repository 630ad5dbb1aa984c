/* pick, entropy, entropy_sum and entropy_backward: the loss of masked language models (the files of those names in
 * cl/). An item is a row, of the sum all of them. */
#include "formulas.h"
#include "rows.h"
#include "traffic.h"

static size_t row_items(const struct cpu_step *s) { return step_rows(s); }

static const uint32_t *list_of(const struct cpu_step *s) { return (const uint32_t *)s->at[SLOT_IDS]; }

/* ---- pick ---- */

static void pick_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N];
    uint32_t id = list_of(s)[row];
    float *y = s->at[SLOT_Y] + row * n;
    (void)scratch;
    if (id == NO_ROW)
        memset(y, 0, n * sizeof *y);
    else
        memcpy(y, s->at[SLOT_X] + id * n, n * sizeof *y);
}

static void pick_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N];
    reads(c, SLOT_X, least(rows, s->batch[s->value[CONST_K]]) * n);
    reads(c, SLOT_IDS, rows);
    writes(c, SLOT_Y, rows * n);
}

/* ---- entropy ---- */

/* e^x for x of at most 0. */
static vec exp_below(vec x) { return v_choose(v_above(v_set(-87.0f), x), v_zero(), v_exp2(x * v_set(V_LOG2E))); }

static float row_peak(const float *x, size_t n)
{
    float peak = x[0];
    for (size_t i = 1; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

static float exp_sum(const float *x, size_t n, float peak)
{
    vec sum = v_zero();
    FOR_VECTORS(i, n)
    {
        vec power = exp_below(v_load_at(x, i, n) - v_set(peak));
        sum += i + LANES <= n ? power : v_first(power, n - i);
    }
    return v_sum(sum);
}

/* Where the label's score stands in the strip; n: it is of another. */
static size_t place_of(const struct cpu_step *s, size_t row)
{
    size_t n = s->value[CONST_N], label = list_of(s)[row], first = s->value[CONST_POSITION];
    return label >= first && label - first < n ? label - first : n;
}

static void entropy_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N], place = place_of(s, row);
    const float *x = s->at[SLOT_X] + row * n, *before = s->at[SLOT_DELTA];
    float *state = s->at[SLOT_EXTRA] + row * ENTROPY_STATE, peak = row_peak(x, n), sum = 0.0f, right = 0.0f;
    (void)scratch;
    if (s->value[CONST_RESIDUAL]) {
        before += row * ENTROPY_STATE;
        peak = before[0] > peak ? before[0] : peak;
        sum = before[0] - peak < -87.0f ? 0.0f : before[1] * expf(before[0] - peak);
        right = before[2];
    }
    state[0] = peak;
    state[1] = sum + exp_sum(x, n, peak);
    state[2] = place < n ? x[place] : right;
}

static void entropy_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N];
    reads(c, SLOT_X, rows * n);
    reads(c, SLOT_IDS, rows);
    reads(c, SLOT_DELTA, ENTROPY_STATE * rows);
    writes(c, SLOT_EXTRA, ENTROPY_STATE * rows);
}

/* ---- entropy_sum ---- */

static size_t one_item(const struct cpu_step *s) { return (void)s, 1; }

static void sum_run(const struct cpu_step *s, size_t item, float *scratch)
{
    const float *state = s->at[SLOT_DELTA];
    double loss = 0;
    float right = 0.0f;
    (void)item, (void)scratch;
    for (size_t r = 0; r < step_rows(s); r++, state += ENTROPY_STATE) {
        float lse = state[0] + logf(state[1]);
        if (s->value[CONST_LSE] == LSE_WRITE) s->at[SLOT_LSE][r] = lse;
        loss += (double)(lse - state[2]);
        right += state[2] >= state[0] ? 1.0f : 0.0f;
    }
    s->at[SLOT_EXTRA][s->value[CONST_Y_OFFSET]] = (float)loss;
    s->at[SLOT_EXTRA][s->value[CONST_Y_OFFSET] + 1] = right;
}

static void sum_count(const struct cpu_step *s, struct count *c)
{
    reads(c, SLOT_DELTA, ENTROPY_STATE * step_rows(s));
    writes(c, SLOT_LSE, step_rows(s));
    writes(c, SLOT_EXTRA, 2);
}

/* ---- entropy_backward ---- */

static void back_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N], place = place_of(s, row);
    const float *x = s->at[SLOT_X] + row * n;
    float *y = s->at[SLOT_Y] + row * n, d = s->at[SLOT_EXTRA][s->value[CONST_W_OFFSET]], lse = s->at[SLOT_DELTA][row];
    (void)scratch;
    FOR_VECTORS(i, n) v_store_at(y, i, n, v_set(d) * exp_below(v_load_at(x, i, n) - v_set(lse)));
    if (place < n) y[place] -= d;
}

static void back_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N];
    reads(c, SLOT_X, rows * n);
    reads(c, SLOT_IDS, rows);
    reads(c, SLOT_DELTA, rows);
    count_again(c, SLOT_EXTRA, rows, 1, count_row_bytes(c));
    writes(c, SLOT_Y, rows * n);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_pick) = {.name = "pick", .items = row_items, .run = pick_run, .count = pick_count};
const struct cpu_kernel CPU_NAME(cpu_entropy) = {.name = "entropy", .items = row_items, .run = entropy_run, .count = entropy_count};
const struct cpu_kernel CPU_NAME(cpu_entropy_sum) = {.name = "entropy_sum", .items = one_item, .run = sum_run, .count = sum_count};
const struct cpu_kernel CPU_NAME(cpu_entropy_backward) = {.name = "entropy_backward", .items = row_items, .run = back_run, .count = back_count};
/* clang-format on */
