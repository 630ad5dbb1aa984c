/* The tables of rotary positions, which no file has: for each position and pair of channels c the cosine and sine of
 * position / base^(2c / channels), in double until the last step. Where the base depends on a text's length, for each
 * length and pair of channels the frequency instead. */
#include "model/rotary.h"

#include <math.h>

#include "base/platform.h"
#include "graph/rotary.h"

enum { POSITIONS_OF_A_JOB = 64 };

struct table {
    float *to;
    double base, divisor; /* of all angles */
    double dynamic;       /* 0: bases are the same for all lengths */
    size_t positions, dim, trained;
};

static double frequency(const struct table *t, size_t channel)
{
    return pow(t->base, -(double)channel / (double)t->dim) / t->divisor;
}

static void fill(size_t item, void *user)
{
    const struct table *t = user;
    size_t end = (item + 1) * POSITIONS_OF_A_JOB;
    if (end > t->positions) end = t->positions;
    for (size_t c = 0; c < t->dim; c += 2) {
        double turned = frequency(t, c);
        for (size_t position = item * POSITIONS_OF_A_JOB; position < end; position++) {
            t->to[position * t->dim + c] = (float)cos((double)position * turned);
            t->to[position * t->dim + c + 1] = (float)sin((double)position * turned);
        }
    }
}

/* A base that is s^(channels / (channels - 2)) times as large makes frequency c less by s^(c / (channels - 2)). */
static void fill_frequencies(size_t item, void *user)
{
    const struct table *t = user;
    size_t end = (item + 1) * POSITIONS_OF_A_JOB;
    if (end > t->positions) end = t->positions;
    for (size_t c = 0; c < t->dim; c += 2) {
        double first = frequency(t, c);
        for (size_t row = item * POSITIONS_OF_A_JOB; row < end; row++) {
            double longer = (double)(row + 1) / (double)t->trained, s = longer > 1 ? t->dynamic * (longer - 1) + 1 : 1;
            struct frequency f = frequency_of(first * pow(s, -(double)c / (double)(t->dim - 2)));
            t->to[row * t->dim + c] = f.whole;
            t->to[row * t->dim + c + 1] = f.part;
        }
    }
}

static bool make(struct wherry_model *model, enum weight weight, float base, float **out, struct error *e)
{
    const wherry_model_config *config = &model->info.config;
    double factor = config->rotary_factor > 0 ? (double)config->rotary_factor : 1;
    struct table t = {.positions = config->positions, .dim = head_channels(config)};
    if (!(t.to = *out = host_alloc(&model->host, t.positions * t.dim, sizeof *t.to, e))) return false;
    t.base = factor * (double)base;
    t.divisor = pow(factor, 2 / (double)t.dim);
    t.trained = config->rotary_trained;
    t.dynamic = weight == WEIGHT_ROTARY ? (double)config->rotary_dynamic : 0;
    parallel_for((t.positions + POSITIONS_OF_A_JOB - 1) / POSITIONS_OF_A_JOB, 0,
                 t.dynamic > 0 ? fill_frequencies : fill, &t);
    model->weights[0][weight][0] =
        (struct weight_part){.memory = t.to, .type = WEIGHT_TYPE_F32, .elements = t.positions * t.dim};
    return true;
}

bool rotary_make(struct wherry_model *model, struct error *e)
{
    const wherry_model_config *config = &model->info.config;
    if (config->rotary_base > 0) TRY(make(model, WEIGHT_ROTARY, config->rotary_base, &model->rotary, e));
    if (config->rotary_base_local > 0)
        TRY(make(model, WEIGHT_ROTARY_LOCAL, config->rotary_base_local, &model->rotary_local, e));
    return true;
}
