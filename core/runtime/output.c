/* What a session returns: which of the model's outputs, pooled and cut how. */
#include "runtime/output.h"

#include <string.h>

#include "base/round.h"
#include "model/token_heads.h"

static bool resolve_pool(const struct wherry_model *model, const wherry_session_desc *desc,
                         struct graph_options *options, struct error *e)
{
    const struct head_modules *own = &model->modules;
    options->pool = desc->pool ? desc->pool : model->info.pool ? model->info.pool : WHERRY_POOL_MEAN;
    if ((unsigned)options->pool > WHERRY_POOL_COMBINED)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "pool %d is none of wherry_pool", (int)desc->pool);
    if (options->pool == WHERRY_POOL_COMBINED && model->info.pool != WHERRY_POOL_COMBINED)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "this model's files combine no poolings: name one");
    bool raw = options->pool == WHERRY_POOL_NONE && model->info.pool != WHERRY_POOL_NONE; /* tokens' vectors */
    if (own->count && options->pool != model->info.pool && !raw)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model has %u layers after its own pooling, which are for no other: leave the pool out",
                    own->count);
    memcpy(options->pools, own->pools, sizeof options->pools);
    options->n_pools = own->n_pools;
    options->modules = own->list;
    options->n_modules = raw ? 0 : own->count;
    if (options->pool == WHERRY_POOL_POOLER && !model->info.config.pooler)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "this model has no pooler weights: use the pool mean, cls or max");
    options->normalize = desc->normalize > 0 || (desc->normalize == 0 && model->info.normalize);
    if (raw && desc->normalize <= 0) options->normalize = false;
    return true;
}

/* Floats of an embedding before it is cut. */
static uint64_t embedding_floats(const struct graph_options *options, const wherry_model_info *info)
{
    if (options->n_modules) return options->modules[options->n_modules - 1].width;
    return (uint64_t)info->config.hidden * (options->pool == WHERRY_POOL_COMBINED ? options->n_pools : 1);
}

/* What a session gives: the files' own where nothing is named. */
static wherry_output own_output(const wherry_session_desc *desc, const wherry_model_info *info)
{
    return !desc->output && info->words && !desc->pool ? WHERRY_OUTPUT_WORDS : desc->output;
}

uint32_t output_dimensions(const wherry_session_desc *desc, const wherry_model_info *info)
{
    if (own_output(desc, info) || desc->training) return 0;
    return desc->dimensions ? desc->dimensions : info->dimensions;
}

static bool check_dimensions(const wherry_session_desc *desc, const struct graph_options *options,
                             const wherry_model_info *info, struct error *e)
{
    uint64_t all = embedding_floats(options, info), cut = output_dimensions(desc, info);
    if (desc->dimensions && desc->training)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "embeddings are not cut in training: leave dimensions out");
    return cut <= all ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "embeddings cut to %llu dimensions: this model's have %llu",
                (unsigned long long)cut, (unsigned long long)all);
}

/* The head that an output is of, and what such models are. */
static const struct {
    wherry_head head;
    const char *output, *models;
} needs[] = {
    [WHERRY_OUTPUT_CLASSES] = {WHERRY_HEAD_SEQUENCE, "classes of texts", "BertForSequenceClassification"},
    [WHERRY_OUTPUT_TOKEN_CLASSES] = {WHERRY_HEAD_TOKENS, "classes of tokens", "BertForTokenClassification"},
    [WHERRY_OUTPUT_VOCABULARY] = {WHERRY_HEAD_VOCABULARY, "scores of the vocabulary", "BertForMaskedLM"},
    [WHERRY_OUTPUT_SPARSE] = {WHERRY_HEAD_NONE, "weights of tokens", ""},
    [WHERRY_OUTPUT_TOKEN_VECTORS] = {WHERRY_HEAD_NONE, "projected vectors of tokens", ""},
    [WHERRY_OUTPUT_ENTROPY] = {WHERRY_HEAD_VOCABULARY, "loss of masked tokens", "BertForMaskedLM"},
    [WHERRY_OUTPUT_WORDS] = {WHERRY_HEAD_VOCABULARY, "weights of words", "BertForMaskedLM"},
    [WHERRY_OUTPUT_ENTROPY_NEXT] = {WHERRY_HEAD_VOCABULARY, "losses of masked tokens and next sentences",
                                    "BertForPreTraining"},
};

/* What a module makes of each token, whatever else the model has. */
static bool resolve_tokens(const struct wherry_model *model, struct graph_options *options, struct error *e)
{
    bool vectors = options->output == WHERRY_OUTPUT_TOKEN_VECTORS;
    const struct token_head *head = token_head_find(model, vectors ? TOKEN_HEAD_VECTORS : TOKEN_HEAD_WEIGHTS, e);
    if (!head) return false;
    options->pool = WHERRY_POOL_NONE;
    options->modules = &head->module;
    options->n_modules = 1;
    options->first_weight = vectors ? WEIGHT_COLBERT : WEIGHT_SPARSE;
    options->normalize = vectors;
    return true;
}

bool output_resolve(const struct wherry_model *model, const wherry_session_desc *desc, struct graph_options *options,
                    struct error *e)
{
    const wherry_model_info *info = &model->info;
    wherry_output output = options->output = own_output(desc, info);
    if ((unsigned)output > WHERRY_OUTPUT_ENTROPY_NEXT)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "output %d is none of wherry_output", (int)output);
    if (!output) return resolve_pool(model, desc, options, e) && check_dimensions(desc, options, info, e);
    if (desc->pool || desc->normalize || desc->dimensions)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "pool, normalize and dimensions are for embeddings: leave them out for %s", needs[output].output);
    if (output == WHERRY_OUTPUT_SPARSE || output == WHERRY_OUTPUT_TOKEN_VECTORS)
        return resolve_tokens(model, options, e);
    if (info->config.head != needs[output].head)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model (%.63s) has no %s: that takes one such as %s, with the head's weights",
                    info->architecture, needs[output].output, needs[output].models);
    if (output == WHERRY_OUTPUT_ENTROPY_NEXT && !info->config.next_sentence)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model (%.63s) has no weights that tell next sentences (bert.pooler.dense and "
                    "cls.seq_relationship): take a BertForPreTraining, or leave the next sentences out",
                    info->architecture);
    options->pool = WHERRY_POOL_NONE;
    options->normalize = false;
    options->words = model->modules.words;
    return true;
}

uint32_t output_sequences(const struct graph_options *options, uint32_t tokens)
{
    enum { WIDE_ROWS = 256 };
    bool wide = options->output == WHERRY_OUTPUT_VOCABULARY || options->output == WHERRY_OUTPUT_WORDS;
    return wide && tokens > WIDE_ROWS ? WIDE_ROWS : tokens;
}

/* Kept where they are little beside what the layers keep: few tokens have a label, and nothing else is to be made
 * again. Then strips only make a matrix unit's products smaller. */
void output_scores(const struct batch_shape *limits, struct graph_options *options)
{
    bool few = 4 * limits->labelled <= limits->tokens, least = options->save == WHERRY_SAVE_LEAST;
    options->scores_kept = options->training && few && !least && !options->least_layers;
    if (!options->scores_kept || !options->pitched) return;
    options->strips =
        limits->labelled * round_up(options->config->vocabulary, CHANNEL_ROUND) >= UINT32_MAX; /* indices */
}

void output_of_stack(struct graph_options *options)
{
    options->output = WHERRY_OUTPUT_EMBEDDING;
    options->pool = WHERRY_POOL_NONE;
    options->normalize = false;
}
