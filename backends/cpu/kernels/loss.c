/* take, pairs, loss, loss_sum and loss_backward: losses of rows (the files of those names in cl/). An item is a row, of
 * the sum all of them. */
#include <float.h>

#include "formulas.h"
#include "rows.h"
#include "traffic.h"

static size_t examples_of(const struct cpu_step *s) { return s->batch[HEADER_SEQUENCES]; }

static float step_scale(const struct cpu_step *s)
{
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    return scale;
}

/* ---- take ---- */

static size_t row_items(const struct cpu_step *s) { return step_rows(s); }

static size_t taken(const struct cpu_step *s)
{
    return s->value[CONST_SETS] ? s->value[CONST_SETS] * examples_of(s) : s->batch[HEADER_TOKENS];
}

/* Row `row` of the result. */
static void take_row(const struct cpu_step *s, size_t row)
{
    size_t n = s->value[CONST_N], stride = s->value[CONST_X_STRIDE], width = n < stride ? n : stride;
    size_t first = s->value[CONST_POSITION] * examples_of(s);
    bool forward = s->value[CONST_FORM] == OF_FORWARD, inside = forward ? row < taken(s) : row >= first;
    size_t from = forward ? row + first : row - first;
    float *y = s->at[SLOT_Y] + row * n;
    if (!forward) inside = inside && from < taken(s);
    if (!inside) width = 0;
    if (width) memcpy(y, s->at[SLOT_X] + from * stride, width * sizeof *y);
    memset(y + width, 0, (n - width) * sizeof *y);
    if (s->value[CONST_RESIDUAL])
        FOR_VECTORS(i, n) v_store_at(y, i, n, v_load_at(y, i, n) + v_load_at(s->at[SLOT_RESIDUAL] + row * n, i, n));
}

static void take_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t rows = step_rows(s), m = s->value[CONST_M];
    (void)scratch;
    take_row(s, item);
    for (size_t row = item + rows; row < m; row += rows) take_row(s, row);
}

static void take_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], m = s->value[CONST_M], made = rows > m ? rows : m;
    reads(c, SLOT_X, least(taken(s), made) * least(n, s->value[CONST_X_STRIDE]));
    reads(c, SLOT_RESIDUAL, made * n);
    writes(c, SLOT_Y, made * n);
}

/* ---- pairs ---- */

static float pair_dot(const float *a, const float *b, const float *third, size_t n)
{
    vec sum = v_zero();
    FOR_VECTORS(i, n)
    {
        vec other = v_load_at(b, i, n);
        if (third) other -= v_load_at(third, i, n);
        sum = v_fma(v_load_at(a, i, n), other, sum);
    }
    return v_sum(sum);
}

static void pairs_back(const struct cpu_step *s, size_t row)
{
    size_t n = s->value[CONST_N], examples = examples_of(s), example = row % examples;
    const float *saved = s->at[SLOT_SAVED];
    const float *from = saved + (row < examples ? example + examples : example) * n;
    const float *third = s->value[CONST_SETS] > 2 && row < examples ? saved + (example + 2 * examples) * n : NULL;
    float d = row >= 2 * examples ? -s->at[SLOT_X][example] : s->at[SLOT_X][example], *y = s->at[SLOT_Y] + row * n;
    FOR_VECTORS(i, n)
    {
        vec v = v_load_at(from, i, n);
        if (third) v -= v_load_at(third, i, n);
        v_store_at(y, i, n, v_set(d) * v);
    }
}

static void pairs_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N], examples = examples_of(s);
    (void)scratch;
    if (s->value[CONST_FORM] == OF_BACKWARD) {
        pairs_back(s, row);
        return;
    }
    const float *x = s->at[SLOT_X] + row * n, *second = x + examples * n;
    s->at[SLOT_Y][row] = pair_dot(x, second, s->value[CONST_SETS] > 2 ? second + examples * n : NULL, n);
}

static void pairs_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], sets = s->value[CONST_SETS], examples = examples_of(s);
    bool forward = s->value[CONST_FORM] == OF_FORWARD;
    if (forward) {
        reads(c, SLOT_X, sets * rows * n);
        writes(c, SLOT_Y, rows);
        return;
    }
    count_again(c, SLOT_X, rows, examples, examples * n * c->storage);
    count_again(c, SLOT_SAVED, 2 * (sets - 1) * examples * n, sets * examples * n, examples * n * c->storage);
    writes(c, SLOT_Y, rows * n);
}

/* ---- losses of rows ---- */

/* Columns of scores that a row has in this batch. */
static size_t columns_of(const struct cpu_step *s)
{
    return s->value[CONST_RUNTIME] == RUNTIME_N ? s->value[CONST_SETS] * step_rows(s) : s->value[CONST_N];
}

/* e^x for x of at most 0. */
static float exp_below(float x) { return x < -87.0f ? 0.0f : expf(x); }

static float cross_entropy(const struct cpu_step *s, size_t row)
{
    size_t columns = columns_of(s);
    const float *x = s->at[SLOT_X] + row * s->value[CONST_N], *t = s->at[SLOT_EXTRA] + 2 * row;
    float scale = step_scale(s), peak = x[0];
    for (size_t i = 1; i < columns; i++) peak = x[i] > peak ? x[i] : peak;
    vec sum = v_zero(), least = v_set(-87.0f);
    FOR_VECTORS(i, columns)
    {
        vec v = v_set(scale) * (v_load_at(x, i, columns) - v_set(peak));
        vec power = v_choose(v_above(least, v), v_zero(), v_exp2(v * v_set(V_LOG2E)));
        sum += i + LANES <= columns ? power : v_first(power, columns - i);
    }
    float rest = logf(v_sum(sum));
    if (s->value[CONST_LSE] == LSE_WRITE) s->at[SLOT_LSE][row] = scale * peak + rest;
    return t[1] * (rest + scale * (peak - x[(size_t)t[0]]));
}

static float cosent(const struct cpu_step *s, size_t row)
{
    const float *x = s->at[SLOT_X], *t = s->at[SLOT_EXTRA];
    float scale = step_scale(s), peak = -FLT_MAX, sum = 0.0f;
    for (size_t r = 0; r < step_rows(s); r++)
        if (t[2 * r] > t[2 * row] && scale * (x[row] - x[r]) > peak) peak = scale * (x[row] - x[r]);
    for (size_t r = 0; r < step_rows(s); r++)
        if (t[2 * r] > t[2 * row]) sum += exp_below(scale * (x[row] - x[r]) - peak);
    return sum > 0.0f ? peak + logf(sum) : -FLT_MAX;
}

/* -log(sigmoid(x)) */
static float minus_log_sigmoid(float x) { return log1pf(exp_below(-fabsf(x))) + (x < 0.0f ? -x : 0.0f); }

static float sigmoid(float x)
{
    float e = exp_below(-fabsf(x));
    return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

static float squared(const float *x, const float *t, size_t n)
{
    vec sum = v_zero();
    FOR_VECTORS(i, n)
    {
        vec d = v_load_at(x, i, n) - v_load_at(t, i, n);
        sum = v_fma(d, d, sum);
    }
    return v_sum(sum);
}

static float binary(const float *x, const float *t, size_t n, float scale)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += scale * t[i] * minus_log_sigmoid(x[i]) + (1.0f - t[i]) * minus_log_sigmoid(-x[i]);
    return sum;
}

static void loss_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N];
    const float *x = s->at[SLOT_X] + row * n, *t = s->at[SLOT_EXTRA] + row * (n + 1);
    float *y = s->at[SLOT_Y] + row;
    (void)scratch;
    switch (s->value[CONST_FORM]) {
    case FORM_CROSS_ENTROPY:
        *y = cross_entropy(s, row);
        break;
    case FORM_COSENT:
        *y = cosent(s, row);
        break;
    case FORM_SQUARED:
        *y = t[n] * squared(x, t, n);
        break;
    default:
        *y = t[n] * binary(x, t, n, step_scale(s));
    }
}

static size_t one_item(const struct cpu_step *s) { return (void)s, 1; }

static void sum_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t rows = step_rows(s);
    const float *x = s->at[SLOT_X];
    float before = s->value[CONST_RESIDUAL] ? *s->at[SLOT_RESIDUAL] : 0.0f, peak = 0.0f;
    vec sum = v_zero();
    (void)item, (void)scratch;
    if (s->value[CONST_FORM] != FORM_COSENT) {
        FOR_VECTORS(i, rows) sum += v_load_at(x, i, rows);
        *s->at[SLOT_Y] = v_sum(sum) + before;
        return;
    }
    float all = 0.0f;
    for (size_t r = 0; r < rows; r++) peak = x[r] > peak ? x[r] : peak;
    for (size_t r = 0; r < rows; r++) all += exp_below(x[r] - peak);
    all = peak + logf(exp_below(-peak) + all);
    if (s->value[CONST_LSE] == LSE_WRITE) *s->at[SLOT_LSE] = all;
    *s->at[SLOT_Y] = s->at[SLOT_EXTRA][1] * all + before;
}

/* ---- their gradients ---- */

static void cross_entropy_back(const struct cpu_step *s, size_t row, float d)
{
    size_t n = s->value[CONST_N], columns = columns_of(s);
    const float *x = s->at[SLOT_SAVED] + row * n, *t = s->at[SLOT_EXTRA] + 2 * row;
    float scale = step_scale(s), share = d * t[1] * scale, *y = s->at[SLOT_Y] + row * n;
    vec all = v_set(s->at[SLOT_LSE][row]), least = v_set(-87.0f);
    size_t right = (size_t)t[0];
    vec sum = v_zero();
    FOR_VECTORS(i, columns)
    {
        vec v = v_set(scale) * v_load_at(x, i, columns) - all;
        v = v_choose(v_above(least, v), v_zero(), v_exp2(v * v_set(V_LOG2E)));
        float p[LANES];
        v_store(p, v);
        if (right >= i && right < i + LANES) p[right - i] = 0.0f;
        for (size_t c = columns - i; c < LANES; c++) p[c] = 0.0f;
        v = v_load(p);
        sum += v;
        v_store_at(y, i, columns, v_set(share) * v);
    }
    memset(y + columns, 0, (n - columns) * sizeof *y);
    y[right] = -share * v_sum(sum); /* p - 1 with its digits where p is nearly 1 */
}

static float cosent_back(const struct cpu_step *s, size_t row)
{
    const float *x = s->at[SLOT_SAVED], *t = s->at[SLOT_EXTRA];
    float scale = step_scale(s), all = *s->at[SLOT_LSE], sum = 0.0f;
    for (size_t r = 0; r < step_rows(s); r++) {
        if (t[2 * r] > t[2 * row]) sum += exp_below(scale * (x[row] - x[r]) - all);
        if (t[2 * r] < t[2 * row]) sum -= exp_below(scale * (x[r] - x[row]) - all);
    }
    return t[2 * row + 1] * scale * sum;
}

static void back_run(const struct cpu_step *s, size_t row, float *scratch)
{
    size_t n = s->value[CONST_N];
    uint32_t form = s->value[CONST_FORM];
    const float *x = s->at[SLOT_SAVED] + row * n, *t = s->at[SLOT_EXTRA] + row * (n + 1);
    float d = *s->at[SLOT_X], *y = s->at[SLOT_Y] + row * n, scale = step_scale(s);
    (void)scratch;
    if (form == FORM_CROSS_ENTROPY)
        cross_entropy_back(s, row, d);
    else if (form == FORM_COSENT)
        *y = d * cosent_back(s, row);
    else if (form == FORM_SQUARED)
        FOR_VECTORS(i, n) v_store_at(y, i, n, v_set(d * t[n] * 2.0f) * (v_load_at(x, i, n) - v_load_at(t, i, n)));
    else
        for (size_t i = 0; i < n; i++)
            y[i] = d * t[n] * ((1.0f - t[i]) * sigmoid(x[i]) - scale * t[i] * sigmoid(-x[i]));
}

/* ---- what they move ---- */

/* Targets of a row, with its weight. */
static uint64_t targets_of(const struct cpu_step *s)
{
    return s->value[CONST_FORM] == FORM_CROSS_ENTROPY ? 2 : s->value[CONST_N] + 1;
}

/* `x`: the slot of what it is the loss of. Of COSENT every row reads all. */
static void count_rows(const struct cpu_step *s, struct count *c, uint8_t x)
{
    uint64_t rows = step_rows(s), columns = columns_of(s);
    if (s->value[CONST_FORM] == FORM_COSENT) {
        count_again(c, x, rows * rows, rows, rows * 3 * c->storage);
        count_again(c, SLOT_EXTRA, 2 * rows * rows, 2 * rows, rows * 3 * c->storage);
        return;
    }
    reads(c, x, rows * columns);
    reads(c, SLOT_EXTRA, rows * targets_of(s));
}

static void loss_count(const struct cpu_step *s, struct count *c)
{
    count_rows(s, c, SLOT_X);
    writes(c, SLOT_LSE, step_rows(s));
    writes(c, SLOT_Y, step_rows(s));
}

static void sum_count(const struct cpu_step *s, struct count *c)
{
    reads(c, SLOT_X, step_rows(s));
    reads(c, SLOT_RESIDUAL, 1);
    reads(c, SLOT_EXTRA, 1);
    writes(c, SLOT_LSE, 1);
    writes(c, SLOT_Y, 1);
}

static void back_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), of_lse = s->value[CONST_FORM] == FORM_COSENT ? 1 : rows;
    count_rows(s, c, SLOT_SAVED);
    count_again(c, SLOT_X, rows, 1, count_row_bytes(c));
    count_again(c, SLOT_LSE, rows, of_lse, count_row_bytes(c));
    writes(c, SLOT_Y, rows * s->value[CONST_N]);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_take) = {.name = "take", .items = row_items, .run = take_run, .count = take_count};
const struct cpu_kernel CPU_NAME(cpu_pairs) = {.name = "pairs", .items = row_items, .run = pairs_run, .count = pairs_count};
const struct cpu_kernel CPU_NAME(cpu_loss) = {.name = "loss", .items = row_items, .run = loss_run, .count = loss_count};
const struct cpu_kernel CPU_NAME(cpu_loss_sum) = {.name = "loss_sum", .items = one_item, .run = sum_run, .count = sum_count};
const struct cpu_kernel CPU_NAME(cpu_loss_backward) = {.name = "loss_backward", .items = row_items, .run = back_run, .count = back_count};
/* clang-format on */
