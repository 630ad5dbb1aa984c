/* The table of rotary positions, which no file has: for each position and pair of channels c the cosine and sine of
 * position / base^(2c / channels), in double until the last step. */
#include "model/rotary.h"

#include <math.h>

#include "base/platform.h"

enum { POSITIONS_OF_A_JOB = 64 };

static void fill(size_t item, void *user)
{
    const struct wherry_model *model = user;
    const wherry_model_config *config = &model->info.config;
    size_t dim = head_channels(config), end = (item + 1) * POSITIONS_OF_A_JOB;
    if (end > config->positions) end = config->positions;
    for (size_t c = 0; c < dim; c += 2) {
        double frequency = pow((double)config->rotary_base, -(double)c / (double)dim);
        for (size_t position = item * POSITIONS_OF_A_JOB; position < end; position++) {
            model->rotary[position * dim + c] = (float)cos((double)position * frequency);
            model->rotary[position * dim + c + 1] = (float)sin((double)position * frequency);
        }
    }
}

bool rotary_make(struct wherry_model *model, struct error *e)
{
    const wherry_model_config *config = &model->info.config;
    size_t elements = (size_t)config->positions * head_channels(config);
    if (!(config->rotary_base > 0)) return true;
    if (!(model->rotary = host_alloc(&model->host, elements, sizeof *model->rotary, e))) return false;
    parallel_for((config->positions + POSITIONS_OF_A_JOB - 1) / POSITIONS_OF_A_JOB, 0, fill, model);
    model->weights[0][WEIGHT_ROTARY][0] =
        (struct weight_part){.memory = model->rotary, .type = WEIGHT_TYPE_F32, .elements = elements};
    return true;
}
