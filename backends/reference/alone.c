/* The kernels of optimizers (the files of their names in cl/), element by element in double. */
#include "alone.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "interface/optimizer.h"

struct chunk {
    uint32_t at, gradient, weight, count;
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
                          .rate = word_value(s, rates),
                          .decay = word_value(s, rates + 1)};
}

static uint32_t chunks(const struct alone_step *s)
{
    return ((const uint32_t *)s->at[SLOT_BATCH])[OPTIMIZER_ACTIVE] ? ((const uint32_t *)s->at[SLOT_IDS])[0] : 0;
}

static double storage_load(const struct alone_step *s, uint8_t slot, uint32_t at)
{
    return (double)(s->step->f16 ? half_to_float(((const uint16_t *)s->at[slot])[at])
                                 : ((const float *)s->at[slot])[at]);
}

static void add_chunk(const struct alone_step *s, uint32_t number)
{
    const struct chunk c = chunk_read(s, number);
    const uint32_t mode = ((const uint32_t *)s->at[SLOT_BATCH])[OPTIMIZER_MODE];
    const double factor = word_value(s, OPTIMIZER_FACTOR);
    float *gradient = (float *)s->at[SLOT_GRADIENT] + c.at;
    double sum = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        double g = mode == OPTIMIZER_SET ? 0 : (double)gradient[i];
        if (mode != OPTIMIZER_KEEP) g += factor * storage_load(s, SLOT_X, c.gradient + i);
        gradient[i] = (float)g;
        sum += (double)gradient[i] * (double)gradient[i];
    }
    ((float *)s->at[SLOT_PARTIALS])[number] = (float)sum;
}

static void add_run(const struct alone_step *s)
{
    for (uint32_t number = 0; number < chunks(s); number++) add_chunk(s, number);
}

/* One element: its weight, moments, and gradient or change. */
struct element {
    double p, m, v, g;
};

static void element_step(const struct alone_step *s, uint32_t form, const struct chunk *c, struct element *x)
{
    if (form != OPTIMIZER_FORM_CHANGE) x->g *= word_value(s, OPTIMIZER_FACTOR);
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
    const struct chunk c = chunk_read(s, number);
    float *p = s->step->f16 ? (float *)s->at[SLOT_SAVED] + c.at : (float *)s->at[SLOT_W] + c.weight;
    float *g = (float *)s->at[SLOT_GRADIENT] + c.at, *m = s->at[SLOT_DELTA], *v = s->at[SLOT_EXTRA];
    double weights = 0, changes = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        struct element x = {.p = (double)p[i], .g = (double)g[i]};
        if (m) x.m = (double)m[c.at + i];
        if (v) x.v = (double)v[c.at + i];
        element_step(s, form, &c, &x);
        if (m) m[c.at + i] = (float)x.m;
        if (v) v[c.at + i] = (float)x.v;
        if (form == OPTIMIZER_FORM_LAMB) {
            g[i] = (float)x.g;
            weights += x.p * x.p;
            changes += x.g * x.g;
            continue;
        }
        p[i] = (float)x.p;
        if (s->step->f16) ((uint16_t *)s->at[SLOT_W])[c.weight + i] = half_from_float(p[i]);
    }
    if (form != OPTIMIZER_FORM_LAMB) return;
    ((float *)s->at[SLOT_PARTIALS])[2 * number] = (float)weights;
    ((float *)s->at[SLOT_PARTIALS])[2 * number + 1] = (float)changes;
}

static void step_run(const struct alone_step *s)
{
    const uint32_t form = call_get(s->step->call, CONST_FORM, OPTIMIZER_FORM_ADAMW);
    for (uint32_t number = 0; number < chunks(s); number++) step_chunk(s, form, number);
}

alone_run alone_find(const char *kernel)
{
    static const struct {
        const char *kernel;
        alone_run run;
    } kernels[] = {{"optimizer_add", add_run}, {"optimizer_step", step_run}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].kernel, kernel)) return kernels[i].run;
    return NULL;
}
