/* The kernels of optimizers, optimizer_add, optimizer_sum and optimizer_step (the files of those names in cl/). An item
 * is a chunk, or what a sum is of. */
#include "interface/optimizer.h"
#include "vector.h"

#include "backends/cpu/step.h"

struct chunk {
    size_t at, gradient, weight, count, tensor;
    float rate, decay;
};

static float word_float(const struct cpu_step *s, size_t word)
{
    float value;
    memcpy(&value, &s->batch[word], sizeof value);
    return value;
}

static struct chunk chunk_read(const struct cpu_step *s, size_t item)
{
    const uint32_t *entry = (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + item * CHUNK_WORDS;
    size_t rates = OPTIMIZER_RATES + 2 * (size_t)entry[CHUNK_TENSOR];
    return (struct chunk){.at = entry[CHUNK_AT],
                          .gradient = entry[CHUNK_GRADIENT],
                          .weight = entry[CHUNK_WEIGHT],
                          .count = entry[CHUNK_COUNT],
                          .tensor = entry[CHUNK_TENSOR],
                          .rate = word_float(s, rates),
                          .decay = word_float(s, rates + 1)};
}

static size_t chunks(const struct cpu_step *s)
{
    return s->batch[OPTIMIZER_ACTIVE] ? ((const uint32_t *)s->at[SLOT_IDS])[0] : 0;
}

/* Of what ends anywhere: behind it is whatever memory holds. */
static float square_sum(const float *x, size_t count)
{
    const size_t whole = count / LANES * LANES;
    const vec last = whole < count ? v_load_at(x, whole, count) : v_zero();
    return row_dot(x, x, whole) + v_sum(last * last);
}

/* Of the products, each rounded as one that is accumulated. */
static float scaled_square_sum(const float *x, float factor, size_t count)
{
    enum { PIECE = 256 };
    float products[PIECE], sum = 0;
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t n = count - first < PIECE ? count - first : PIECE;
        for (size_t i = 0; i < n; i++) products[i] = factor * x[first + i];
        sum += square_sum(products, n);
    }
    return sum;
}

static void add_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    struct chunk c = chunk_read(s, item);
    const float *x = s->at[SLOT_X] + c.gradient;
    const float factor = word_float(s, OPTIMIZER_FACTOR);
    float *sums = s->at[SLOT_PARTIALS] + 2 * item;
    sums[1] = 0;
    if (s->value[CONST_FORM] == OPTIMIZER_DIRECT) {
        sums[0] = scaled_square_sum(x, factor, c.count);
        return;
    }
    float *g = s->at[SLOT_GRADIENT] + c.at;
    if (s->batch[OPTIMIZER_MODE] == OPTIMIZER_SET)
        for (size_t i = 0; i < c.count; i++) g[i] = factor * x[i];
    if (s->batch[OPTIMIZER_MODE] == OPTIMIZER_ADD)
        for (size_t i = 0; i < c.count; i++) g[i] += factor * x[i];
    sums[0] = scaled_square_sum(g, 1, c.count);
}

/* ---- sums of sums ---- */

static size_t sums(const struct cpu_step *s)
{
    return !s->batch[OPTIMIZER_ACTIVE]                  ? 0
           : s->value[CONST_FORM] == OPTIMIZER_SUM_NORM ? 1
                                                        : s->batch[OPTIMIZER_TENSORS];
}

static void norm_tell(const struct cpu_step *s)
{
    const float *partials = s->at[SLOT_PARTIALS];
    float *verdict = s->at[SLOT_Y];
    const double most = (double)word_float(s, OPTIMIZER_MAX_NORM);
    double sum = 0;
    for (size_t i = 0; i < s->batch[OPTIMIZER_SUMS]; i++) sum += (double)partials[i];
    verdict[VERDICT_FINITE] = isfinite(sum) ? 1 : 0;
    verdict[VERDICT_NORM] = (float)sqrt(sum);
    verdict[VERDICT_CLIP] = most > 0 ? (float)fmin(1, most / (sqrt(sum) + 1e-6)) : 1;
}

static void sum_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    if (s->value[CONST_FORM] == OPTIMIZER_SUM_NORM) {
        norm_tell(s);
        return;
    }
    const uint32_t *table = (const uint32_t *)s->at[SLOT_IDS], *entry = table + RATIO_WORDS * item;
    const float *partials = s->at[SLOT_PARTIALS];
    double weights = 0, changes = 0;
    for (size_t i = entry[RATIO_BEGIN]; i < entry[RATIO_END]; i++) {
        weights += (double)partials[table[i]];
        changes += (double)partials[table[i] + 1];
    }
    const bool adapts = entry[RATIO_ADAPTS] && weights > 0 && changes > 0;
    s->at[SLOT_Y][VERDICT_RATIOS + item] = adapts ? (float)(sqrt(weights) / sqrt(changes)) : 1;
}

/* ---- the step ---- */

/* The words that a step's formula has, by their names in interface/optimizer.h. */
struct words {
    float factor, clip, first_old, first_new, second_old, second_new, epsilon, first_scale, second_scale;
};

static struct words words_read(const struct cpu_step *s)
{
    return (struct words){word_float(s, OPTIMIZER_FACTOR),      s->at[SLOT_BIAS][VERDICT_CLIP],
                          word_float(s, OPTIMIZER_FIRST_OLD),   word_float(s, OPTIMIZER_FIRST_NEW),
                          word_float(s, OPTIMIZER_SECOND_OLD),  word_float(s, OPTIMIZER_SECOND_NEW),
                          word_float(s, OPTIMIZER_EPSILON),     word_float(s, OPTIMIZER_FIRST_SCALE),
                          word_float(s, OPTIMIZER_SECOND_SCALE)};
}

static void adamw(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p,
                  float *restrict m, float *restrict v)
{
    for (size_t i = 0; i < c->count; i++) {
        float x = g[i] * w->factor * w->clip;
        m[i] += (x - m[i]) * w->first_new;
        v[i] = v[i] * w->second_old + x * x * w->second_new;
        p[i] = p[i] * c->decay - c->rate * (m[i] / (sqrtf(v[i]) * w->second_scale + w->epsilon));
    }
}

/* u may be where g is. */
static void lamb(const struct words *w, const struct chunk *c, const float *g, float *u, const float *restrict p,
                 float *restrict m, float *restrict v)
{
    for (size_t i = 0; i < c->count; i++) {
        float x = g[i] * w->factor * w->clip;
        m[i] += (x - m[i]) * w->first_new;
        v[i] = v[i] * w->second_old + x * x * w->second_new;
        u[i] = m[i] * w->first_scale / (sqrtf(v[i] * w->second_scale) + w->epsilon) + c->decay * p[i];
    }
}

static void momentum(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p,
                     float *restrict m)
{
    for (size_t i = 0; i < c->count; i++) {
        m[i] = m[i] * w->first_old + (g[i] * w->factor * w->clip + c->decay * p[i]);
        p[i] -= c->rate * m[i];
    }
}

static void plain(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p)
{
    for (size_t i = 0; i < c->count; i++) p[i] -= c->rate * (g[i] * w->factor * w->clip + c->decay * p[i]);
}

static void change(const struct chunk *c, const float *restrict g, float *restrict p)
{
    for (size_t i = 0; i < c->count; i++) p[i] -= c->rate * g[i];
}

static size_t step_chunks(const struct cpu_step *s) { return s->at[SLOT_BIAS][VERDICT_FINITE] != 0 ? chunks(s) : 0; }

static void step_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    struct chunk c = chunk_read(s, item);
    const struct words w = words_read(s);
    const uint32_t form = s->value[CONST_FORM];
    float *p = s->at[SLOT_W] + c.weight, *u = s->at[SLOT_GRADIENT] ? s->at[SLOT_GRADIENT] + c.at : NULL;
    const float *g = form & OPTIMIZER_DIRECT ? s->at[SLOT_X] + c.gradient : u;
    float *m = s->at[SLOT_DELTA] ? s->at[SLOT_DELTA] + c.at : NULL;
    float *v = s->at[SLOT_EXTRA] ? s->at[SLOT_EXTRA] + c.at : NULL;
    switch (form % OPTIMIZER_DIRECT) {
    case OPTIMIZER_FORM_ADAMW:
        adamw(&w, &c, g, p, m, v);
        break;
    case OPTIMIZER_FORM_MOMENTUM:
        momentum(&w, &c, g, p, m);
        break;
    case OPTIMIZER_FORM_PLAIN:
        plain(&w, &c, g, p);
        break;
    case OPTIMIZER_FORM_LAMB:
        lamb(&w, &c, g, u, p, m, v);
        s->at[SLOT_PARTIALS][2 * item] = square_sum(p, c.count);
        s->at[SLOT_PARTIALS][2 * item + 1] = square_sum(u, c.count);
        break;
    default:
        c.rate *= s->at[SLOT_BIAS][VERDICT_RATIOS + c.tensor];
        change(&c, g, p);
    }
}

const struct cpu_kernel CPU_NAME(cpu_optimizer_add) = {.name = "optimizer_add", .items = chunks, .run = add_run};
const struct cpu_kernel CPU_NAME(cpu_optimizer_sum) = {.name = "optimizer_sum", .items = sums, .run = sum_run};
const struct cpu_kernel CPU_NAME(cpu_optimizer_step) = {
    .name = "optimizer_step", .items = step_chunks, .run = step_run};
