/* The kernels of optimizers and of the way between a session and a loss (the files of their names in cl/), element by
 * element in double. */
#include "alone.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "interface/optimizer.h"

struct chunk {
    uint32_t at, gradient, weight, count, tensor;
    double rate, decay;
};

static double word_value(const struct alone_step *s, uint32_t word)
{
    float value;
    memcpy(&value, (const uint32_t *)s->at[SLOT_BATCH] + word, sizeof value);
    return (double)value;
}

static struct chunk chunk_read(const struct alone_step *s, uint32_t number)
{
    const uint32_t *entry = (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + number * CHUNK_WORDS;
    const uint32_t rates = OPTIMIZER_RATES + 2 * entry[CHUNK_TENSOR];
    return (struct chunk){.at = entry[CHUNK_AT],
                          .gradient = entry[CHUNK_GRADIENT],
                          .weight = entry[CHUNK_WEIGHT],
                          .count = entry[CHUNK_COUNT],
                          .tensor = entry[CHUNK_TENSOR],
                          .rate = word_value(s, rates),
                          .decay = word_value(s, rates + 1)};
}

static uint32_t chunks(const struct alone_step *s)
{
    return ((const uint32_t *)s->at[SLOT_BATCH])[OPTIMIZER_ACTIVE] ? ((const uint32_t *)s->at[SLOT_IDS])[0] : 0;
}

static double storage_load(const struct alone_step *s, uint8_t slot, uint32_t at)
{
    return (double)storage_float(step_type(s->step), s->at[slot], at);
}

/* A gradient as it is accumulated, a float, where it is the session's own, too. */
static double direct_load(const struct alone_step *s, const struct chunk *c, uint32_t i)
{
    return (double)(float)(word_value(s, OPTIMIZER_FACTOR) * storage_load(s, SLOT_X, c->gradient + i));
}

static double gradient_load(const struct alone_step *s, const struct chunk *c, uint32_t i)
{
    if (call_get(s->step->call, CONST_FORM, 0) & OPTIMIZER_DIRECT) return direct_load(s, c, i);
    return (double)((const float *)s->at[SLOT_GRADIENT])[c->at + i];
}

static double add_element(const struct alone_step *s, const struct chunk *c, uint32_t i)
{
    const uint32_t mode = ((const uint32_t *)s->at[SLOT_BATCH])[OPTIMIZER_MODE];
    if (call_get(s->step->call, CONST_FORM, 0) == OPTIMIZER_DIRECT) return direct_load(s, c, i);
    float *gradient = (float *)s->at[SLOT_GRADIENT] + c->at + i;
    double g = mode == OPTIMIZER_SET ? 0 : (double)*gradient;
    if (mode != OPTIMIZER_KEEP) g += word_value(s, OPTIMIZER_FACTOR) * storage_load(s, SLOT_X, c->gradient + i);
    *gradient = (float)g;
    return (double)*gradient;
}

static void add_chunk(const struct alone_step *s, uint32_t number)
{
    const struct chunk c = chunk_read(s, number);
    float *sums = (float *)s->at[SLOT_PARTIALS] + 2 * number;
    double sum = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        double g = add_element(s, &c, i);
        sum += g * g;
    }
    sums[0] = (float)sum;
    sums[1] = 0;
}

static void add_run(const struct alone_step *s)
{
    for (uint32_t number = 0; number < chunks(s); number++) add_chunk(s, number);
}

/* ---- sums of sums ---- */

static void norm_tell(const struct alone_step *s)
{
    const float *partials = s->at[SLOT_PARTIALS];
    float *verdict = s->at[SLOT_Y];
    const double most = word_value(s, OPTIMIZER_MAX_NORM);
    double sum = 0;
    for (uint32_t i = 0; i < ((const uint32_t *)s->at[SLOT_BATCH])[OPTIMIZER_SUMS]; i++) sum += (double)partials[i];
    verdict[VERDICT_FINITE] = isfinite(sum) ? 1 : 0;
    verdict[VERDICT_NORM] = (float)sqrt(sum);
    verdict[VERDICT_CLIP] = most > 0 ? (float)fmin(1, most / (sqrt(sum) + 1e-6)) : 1;
}

static void ratio_tell(const struct alone_step *s, uint32_t tensor)
{
    const uint32_t *table = s->at[SLOT_IDS], *entry = table + RATIO_WORDS * tensor;
    const float *partials = s->at[SLOT_PARTIALS];
    double weights = 0, changes = 0;
    for (uint32_t i = entry[RATIO_BEGIN]; i < entry[RATIO_END]; i++) {
        weights += (double)partials[table[i]];
        changes += (double)partials[table[i] + 1];
    }
    const bool adapts = entry[RATIO_ADAPTS] && weights > 0 && changes > 0;
    ((float *)s->at[SLOT_Y])[VERDICT_RATIOS + tensor] = adapts ? (float)(sqrt(weights) / sqrt(changes)) : 1;
}

static void sum_run(const struct alone_step *s)
{
    const uint32_t *batch = s->at[SLOT_BATCH];
    if (!batch[OPTIMIZER_ACTIVE]) return;
    if (call_get(s->step->call, CONST_FORM, OPTIMIZER_SUM_NORM) == OPTIMIZER_SUM_NORM)
        norm_tell(s);
    else
        for (uint32_t tensor = 0; tensor < batch[OPTIMIZER_TENSORS]; tensor++) ratio_tell(s, tensor);
}

/* ---- the step ---- */

/* One element: its weight, moments, and gradient or change. */
struct element {
    double p, m, v, g;
};

static void element_step(const struct alone_step *s, uint32_t form, const struct chunk *c, struct element *x)
{
    if (form != OPTIMIZER_FORM_CHANGE) x->g *= (double)((const float *)s->at[SLOT_BIAS])[VERDICT_CLIP];
    if (form == OPTIMIZER_FORM_ADAMW || form == OPTIMIZER_FORM_LAMB) {
        x->m += (x->g - x->m) * word_value(s, OPTIMIZER_FIRST_NEW);
        x->v = x->v * word_value(s, OPTIMIZER_SECOND_OLD) + x->g * x->g * word_value(s, OPTIMIZER_SECOND_NEW);
    }
    const double epsilon = word_value(s, OPTIMIZER_EPSILON), scale = word_value(s, OPTIMIZER_SECOND_SCALE);
    switch (form) {
    case OPTIMIZER_FORM_ADAMW:
        x->p = x->p * c->decay - c->rate * x->m / (sqrt(x->v) * scale + epsilon);
        break;
    case OPTIMIZER_FORM_LAMB:
        x->g = x->m * word_value(s, OPTIMIZER_FIRST_SCALE) / (sqrt(x->v * scale) + epsilon) + c->decay * x->p;
        break;
    case OPTIMIZER_FORM_MOMENTUM:
        x->m = x->m * word_value(s, OPTIMIZER_FIRST_OLD) + x->g + c->decay * x->p;
        x->p -= c->rate * x->m;
        break;
    case OPTIMIZER_FORM_PLAIN:
        x->p -= c->rate * (x->g + c->decay * x->p);
        break;
    default:
        x->p -= c->rate * x->g;
    }
}

static void step_chunk(const struct alone_step *s, uint32_t form, uint32_t number)
{
    struct chunk c = chunk_read(s, number);
    float *p = s->step->f16 ? (float *)s->at[SLOT_SAVED] + c.at : (float *)s->at[SLOT_W] + c.weight;
    float *g = s->at[SLOT_GRADIENT], *m = s->at[SLOT_DELTA], *v = s->at[SLOT_EXTRA];
    double weights = 0, changes = 0;
    if (form == OPTIMIZER_FORM_CHANGE) c.rate *= (double)((const float *)s->at[SLOT_BIAS])[VERDICT_RATIOS + c.tensor];
    for (uint32_t i = 0; i < c.count; i++) {
        struct element x = {.p = (double)p[i], .g = gradient_load(s, &c, i)};
        if (m) x.m = (double)m[c.at + i];
        if (v) x.v = (double)v[c.at + i];
        element_step(s, form, &c, &x);
        if (m) m[c.at + i] = (float)x.m;
        if (v) v[c.at + i] = (float)x.v;
        if (form == OPTIMIZER_FORM_LAMB) {
            g[c.at + i] = (float)x.g;
            weights += x.p * x.p;
            changes += x.g * x.g;
            continue;
        }
        p[i] = (float)x.p;
        if (s->step->f16) storage_put(step_type(s->step), p[i], s->at[SLOT_W], c.weight + i);
    }
    if (form != OPTIMIZER_FORM_LAMB) return;
    ((float *)s->at[SLOT_PARTIALS])[2 * number] = (float)weights;
    ((float *)s->at[SLOT_PARTIALS])[2 * number + 1] = (float)changes;
}

static void step_run(const struct alone_step *s)
{
    const uint32_t form = call_get(s->step->call, CONST_FORM, OPTIMIZER_FORM_ADAMW) % OPTIMIZER_DIRECT;
    if (((const float *)s->at[SLOT_BIAS])[VERDICT_FINITE] == 0) return;
    for (uint32_t number = 0; number < chunks(s); number++) step_chunk(s, form, number);
}

/* ---- between a session and a loss ---- */

static void flag(const struct alone_step *s, bool bad)
{
    float *flags = s->at[SLOT_PARTIALS];
    for (int i = 0; i < HANDOVER_GROUPS; i++)
        if (!((const uint32_t *)s->at[SLOT_BATCH])[HANDOVER_KEEPS]) flags[i] = 0;
    if (bad) flags[0] = INFINITY;
}

static void take_run(const struct alone_step *s)
{
    const uint32_t *batch = s->at[SLOT_BATCH];
    float *y = (float *)s->at[SLOT_Y] + batch[HANDOVER_AT];
    bool bad = false;
    for (uint32_t i = 0; i < batch[HANDOVER_COUNT]; i++) {
        y[i] = (float)storage_load(s, SLOT_X, i);
        bad |= !isfinite(y[i]);
    }
    if (batch[HANDOVER_ACTIVE]) flag(s, bad);
}

static void give_run(const struct alone_step *s)
{
    const uint32_t *batch = s->at[SLOT_BATCH];
    const float *x = (const float *)s->at[SLOT_X] + batch[HANDOVER_AT];
    bool bad = !isfinite(((const float *)s->at[SLOT_BIAS])[0]);
    for (uint32_t i = 0; i < batch[HANDOVER_COUNT]; i++) {
        bad |= !isfinite(x[i]) || fabsf(x[i]) >= storage_beyond(step_type(s->step));
        storage_put(step_type(s->step), x[i], s->at[SLOT_Y], i);
    }
    if (batch[HANDOVER_ACTIVE]) flag(s, bad);
}

alone_run alone_find(const char *kernel)
{
    const alone_run bucket = alone_find_bucket(kernel);
    if (bucket) return bucket;
    static const struct {
        const char *kernel;
        alone_run run;
    } kernels[] = {{"optimizer_add", add_run},
                   {"optimizer_sum", sum_run},
                   {"optimizer_step", step_run},
                   {"adapter_gradient", alone_adapter_gradient},
                   {"adapter_merge", alone_adapter_merge},
                   {"handover_take", take_run},
                   {"handover_give", give_run}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].kernel, kernel)) return kernels[i].run;
    return NULL;
}
