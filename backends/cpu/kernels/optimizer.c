/* The kernels of optimizers, optimizer_add and optimizer_step (the files of those names in cl/). An item is a chunk. */
#include "interface/optimizer.h"
#include "vector.h"

#include "backends/cpu/step.h"

struct chunk {
    size_t at, gradient, weight, count;
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

static void add_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    struct chunk c = chunk_read(s, item);
    const float *x = s->at[SLOT_X] + c.gradient;
    float *g = s->at[SLOT_GRADIENT] + c.at, factor = word_float(s, OPTIMIZER_FACTOR);
    if (s->batch[OPTIMIZER_MODE] == OPTIMIZER_SET)
        for (size_t i = 0; i < c.count; i++) g[i] = factor * x[i];
    if (s->batch[OPTIMIZER_MODE] == OPTIMIZER_ADD)
        for (size_t i = 0; i < c.count; i++) g[i] += factor * x[i];
    s->at[SLOT_PARTIALS][item] = square_sum(g, c.count);
}

/* The words that a step's formula has, by their names in interface/optimizer.h. */
struct words {
    float factor, first_old, first_new, second_old, second_new, epsilon, first_scale, second_scale;
};

static struct words words_read(const struct cpu_step *s)
{
    return (struct words){word_float(s, OPTIMIZER_FACTOR),      word_float(s, OPTIMIZER_FIRST_OLD),
                          word_float(s, OPTIMIZER_FIRST_NEW),   word_float(s, OPTIMIZER_SECOND_OLD),
                          word_float(s, OPTIMIZER_SECOND_NEW),  word_float(s, OPTIMIZER_EPSILON),
                          word_float(s, OPTIMIZER_FIRST_SCALE), word_float(s, OPTIMIZER_SECOND_SCALE)};
}

static void adamw(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p,
                  float *restrict m, float *restrict v)
{
    for (size_t i = 0; i < c->count; i++) {
        float x = g[i] * w->factor;
        m[i] += (x - m[i]) * w->first_new;
        v[i] = v[i] * w->second_old + x * x * w->second_new;
        p[i] = p[i] * c->decay - c->rate * (m[i] / (sqrtf(v[i]) * w->second_scale + w->epsilon));
    }
}

static void lamb(const struct words *w, const struct chunk *c, float *restrict g, const float *restrict p,
                 float *restrict m, float *restrict v)
{
    for (size_t i = 0; i < c->count; i++) {
        float x = g[i] * w->factor;
        m[i] += (x - m[i]) * w->first_new;
        v[i] = v[i] * w->second_old + x * x * w->second_new;
        g[i] = m[i] * w->first_scale / (sqrtf(v[i] * w->second_scale) + w->epsilon) + c->decay * p[i];
    }
}

static void momentum(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p,
                     float *restrict m)
{
    for (size_t i = 0; i < c->count; i++) {
        m[i] = m[i] * w->first_old + (g[i] * w->factor + c->decay * p[i]);
        p[i] -= c->rate * m[i];
    }
}

static void plain(const struct words *w, const struct chunk *c, const float *restrict g, float *restrict p)
{
    for (size_t i = 0; i < c->count; i++) p[i] -= c->rate * (g[i] * w->factor + c->decay * p[i]);
}

static void change(const struct chunk *c, const float *restrict g, float *restrict p)
{
    for (size_t i = 0; i < c->count; i++) p[i] -= c->rate * g[i];
}

static void step_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const struct chunk c = chunk_read(s, item);
    const struct words w = words_read(s);
    float *p = s->at[SLOT_W] + c.weight, *g = s->at[SLOT_GRADIENT] + c.at;
    float *m = s->at[SLOT_DELTA] ? s->at[SLOT_DELTA] + c.at : NULL;
    float *v = s->at[SLOT_EXTRA] ? s->at[SLOT_EXTRA] + c.at : NULL;
    switch (s->value[CONST_FORM]) {
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
        lamb(&w, &c, g, p, m, v);
        s->at[SLOT_PARTIALS][2 * item] = square_sum(p, c.count);
        s->at[SLOT_PARTIALS][2 * item + 1] = square_sum(g, c.count);
        break;
    default:
        change(&c, g, p);
    }
}

const struct cpu_kernel CPU_NAME(cpu_optimizer_add) = {.name = "optimizer_add", .items = chunks, .run = add_run};
const struct cpu_kernel CPU_NAME(cpu_optimizer_step) = {.name = "optimizer_step", .items = chunks, .run = step_run};
