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

wherry_model *small_model(const struct wherry_session *of, struct error *e)
{
    const wherry_model_info *info = &of->model->info;
    wherry_model_config config = info->config;
    wherry_model *model = NULL;
    config.struct_size = sizeof config;
    config.positions = of->max_length + config.position_offset;
    if (!scores_words(of)) config.vocabulary = SMALL_VOCABULARY;
    if (config.layers > SMALL_LAYERS) config.layers = SMALL_LAYERS;
    if (!model_random(&of->context->host, &config, 1, &model, e)) return NULL;
    model->info.pool = info->pool;
    model->info.normalize = info->normalize;
    model->info.words = info->words;
    lend_modules(of->model, model);
    return model;
}

bool small_begin(const struct wherry_session *of, struct wherry_session *s, const wherry_session_desc *of_desc,
                 bool keep, wherry_session_desc *desc, char layouts[ORDERS_TEXT], struct error *e)
{
    orders_text(&of->layout, layouts);
    *desc = *of_desc;
    desc->dtype = session_dtype(of);
    desc->keep_intermediates = keep;
    desc->layouts = layouts;
    desc->only = NULL;
    desc->memory_budget = 0;
    TRY(session_begin(s, desc, false, e));
    s->device_limits = of->device_limits;
    s->library = of->library;
    s->tuning = of->tuning;
    return true;
}
