/* Small copies of a session. */
#include "runtime/rung_small.h"

#include <string.h>

/* Products with the vocabulary have its size. */
static bool scores_words(const struct wherry_session *s)
{
    bool scores = false;
    for (int o = 0; o < s->graph.n_ops; o++) scores |= s->graph.ops[o].role == VOCABULARY_SCORES;
    return scores;
}

uint32_t small_words(const wherry_model *model)
{
    uint32_t words = model->info.config.vocabulary;
    return words < SMALL_VOCABULARY ? words : SMALL_VOCABULARY;
}

/* What stands after an encoder reads what one of the same width makes: it is lent, with its weights. */
static void lend_modules(const struct wherry_model *of, wherry_model *to)
{
    to->modules = of->modules;
    memset(to->modules.paths, 0, sizeof to->modules.paths);
    to->modules.files = NULL;
    to->modules.opened = 0;
    to->token_heads = of->token_heads;
    for (int weight = WEIGHT_MODULE; weight <= WEIGHT_MODULE_LAST; weight++)
        to->weights[0][weight][0] = of->weights[0][weight][0];
    for (int i = 0; i < 2; i++) { /* a matrix and its bias */
        to->weights[0][WEIGHT_SPARSE + i][0] = of->weights[0][WEIGHT_SPARSE + i][0];
        to->weights[0][WEIGHT_COLBERT + i][0] = of->weights[0][WEIGHT_COLBERT + i][0];
    }
}

void small_model_close(wherry_model *model)
{
    if (model) model->token_heads = NULL;
    wherry_model_close(model);
}

/* Layers of the session's model, and of those how many keep the least. */
static uint32_t least_layers(const struct wherry_session *of, const wherry_session_desc *of_desc, uint32_t *layers)
{
    *layers = of->model->info.config.layers;
    return of_desc->training ? of_desc->training->least_layers : 0;
}

wherry_model *small_model(const struct wherry_session *of, const wherry_session_desc *of_desc, struct error *e)
{
    uint32_t layers, least = least_layers(of, of_desc, &layers);
    uint32_t most = least && least < layers ? 2 * SMALL_LAYERS : SMALL_LAYERS;
    const wherry_model_info *info = &of->model->info;
    wherry_model_config config = info->config;
    wherry_model *model = NULL;
    config.struct_size = sizeof config;
    config.positions = of->max_length + config.position_offset;
    if (!scores_words(of)) config.vocabulary = SMALL_VOCABULARY;
    if (config.layers > most) config.layers = most;
    if (!model_random(&of->context->host, &config, 1, &model, e)) return NULL;
    model->info.pool = info->pool;
    model->info.normalize = info->normalize;
    model->info.words = info->words;
    lend_modules(of->model, model);
    return model;
}

/* Of the small model's layers: as many of both kinds as there are, up to SMALL_LAYERS. */
static uint32_t small_least(uint32_t least, uint32_t layers)
{
    if (!least || least == layers) return least > SMALL_LAYERS ? SMALL_LAYERS : least;
    if (layers <= 2 * SMALL_LAYERS || least < SMALL_LAYERS) return least;
    return layers - least < SMALL_LAYERS ? 2 * SMALL_LAYERS - (layers - least) : SMALL_LAYERS;
}

bool small_begin(const struct wherry_session *of, struct wherry_session *s, const wherry_session_desc *of_desc,
                 bool keep, struct small *small, struct error *e)
{
    wherry_session_desc *desc = &small->desc;
    uint32_t layers, least = least_layers(of, of_desc, &layers);
    orders_text(&of->layout, small->layouts);
    *desc = *of_desc;
    if (of_desc->training) {
        small->training = *of_desc->training;
        small->training.least_layers = small_least(least, layers);
        desc->training = &small->training;
    }
    desc->dtype = session_dtype(of);
    desc->keep_intermediates = keep;
    desc->layouts = small->layouts;
    desc->only = NULL;
    desc->memory_budget = 0;
    TRY(session_begin(s, desc, false, e));
    s->device_limits = of->device_limits;
    s->library = of->library;
    s->tuning = of->tuning;
    return true;
}
