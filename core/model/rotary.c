/* The tables of rotary positions, which no file has: for each position and pair of channels c the cosine and sine of
 * position / base^(2c / channels), in double until the last step. */
#include "model/rotary.h"

#include <math.h>

#include "base/platform.h"

enum { POSITIONS_OF_A_JOB = 64 };

struct table {
    float *to;
    double base, divisor; /* of all angles */
    size_t positions, dim;
};

static void fill(size_t item, void *user)
{
    const struct table *t = user;
    size_t end = (item + 1) * POSITIONS_OF_A_JOB;
    if (end > t->positions) end = t->positions;
    for (size_t c = 0; c < t->dim; c += 2) {
        double frequency = pow(t->base, -(double)c / (double)t->dim) / t->divisor;
        for (size_t position = item * POSITIONS_OF_A_JOB; position < end; position++) {
            t->to[position * t->dim + c] = (float)cos((double)position * frequency);
            t->to[position * t->dim + c + 1] = (float)sin((double)position * frequency);
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
    parallel_for((t.positions + POSITIONS_OF_A_JOB - 1) / POSITIONS_OF_A_JOB, 0, fill, &t);
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
