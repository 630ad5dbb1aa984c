/* What `bench layer` and `verify layer` work on: a stack of layers in training, and sequences for it. */
#include "layer.h"

#include <stdlib.h>

enum { BATCH = 8, SEQ = 512 }; /* where only one of --batch and --seq is given */

/* ---- the model ---- */

static void choose(uint32_t *value, uint32_t option)
{
    if (option) *value = option;
}

/* A stack has no embeddings, so that their tables are as small as they can be. */
static void reduce_embeddings(wherry_model_config *config, uint32_t longest)
{
    config->vocabulary = config->token_types = 1;
    config->positions = longest;
    config->position_offset = config->embedding = 0;
    config->pooler = false;
}

static int open_config(struct tool *tool, bool stack, uint32_t longest)
{
    const struct options *options = tool->options;
    wherry_model_config config = {.struct_size = sizeof config};
    if (wherry_model_config_named(tool->context, options->config, &config)) {
        tool_error(tool, WHERRY_STATUS_INVALID_ARGUMENT, NULL);
        return EXIT_USAGE;
    }
    if (stack || options->layers) config.layers = options->layers ? options->layers : 1;
    choose(&config.hidden, options->hidden);
    choose(&config.heads, options->heads);
    choose(&config.feed_forward, options->feed_forward);
    if (options->activation)
        config.activation = (wherry_activation)(options->activation - 1);
    else if (stack && !config.gate)
        config.activation = WHERRY_ACTIVATION_RELU; /* the paper's */
    config.pre_layernorm |= options->pre_layernorm;
    if (stack) reduce_embeddings(&config, longest);
    return tool_open_random(tool, &config);
}

static int open_model(struct tool *tool, bool stack, uint32_t longest)
{
    const struct options *options = tool->options;
    if (options->config && !options->model) return open_config(tool, stack, longest);
    if (options->model && (options->layers || options->hidden || options->heads || options->feed_forward ||
                           options->activation || options->pre_layernorm))
        return complain(EXIT_USAGE, "--layers, --hidden, --heads, --feed-forward, --activation and --pre-layernorm "
                                    "change a --config; a --model has its own");
    return tool_open_model(tool);
}

/* ---- the batch ---- */

static uint32_t *choose_lengths(const struct options *options, const uint32_t *usual, uint32_t *count)
{
    bool uniform = options->batch || options->seq;
    const uint32_t *from = options->lengths.count ? options->lengths.values : usual;
    if (options->lengths.count) *count = options->lengths.count;
    if (uniform) *count = options->batch ? options->batch : BATCH;
    uint32_t *lengths = need(malloc(*count * sizeof *lengths));
    for (uint32_t s = 0; s < *count; s++) lengths[s] = !uniform ? from[s] : options->seq ? options->seq : SEQ;
    return lengths;
}

int layer_open(struct tool *tool, bool stack, const uint32_t *usual, uint32_t count, struct layer *layer)
{
    const struct options *options = tool->options;
    if (options->lengths.count && (options->batch || options->seq))
        return complain(EXIT_USAGE, "give --lengths or --batch and --seq, not both");
    layer->training = (wherry_training_desc){.struct_size = sizeof layer->training,
                                             .dropout = options->dropout >= 0 ? (float)options->dropout : 0.1f,
                                             .save = (wherry_save)options->save,
                                             .stack = stack,
                                             .qkv_products = options->qkv_products};
    uint32_t longest = 0, *lengths = choose_lengths(options, usual, &count);
    for (uint32_t s = 0; s < count; s++) longest = lengths[s] > longest ? lengths[s] : longest;
    int code = open_model(tool, stack, longest);
    uint32_t limit = tool->model_info.max_tokens;
    for (uint32_t s = 0; !options->lengths.count && !options->seq && s < count; s++)
        if (lengths[s] > limit) lengths[s] = limit;
    if (!code) code = random_batch_create(tool, lengths, count, &layer->batch);
    free(lengths);
    return code;
}

void layer_close(struct layer *layer) { random_batch_destroy(&layer->batch); }

/* ---- writing ---- */

void layer_print(const struct tool *tool, const struct layer *layer, struct output *out)
{
    const wherry_model_config *config = &tool->model_info.config;
    output_format(out, "%u layer%s, %s, %s, dropout %g, saved: %s\n", config->layers, config->layers > 1 ? "s" : "",
                  config->pre_layernorm ? "pre-LN" : "post-LN", activation_name(config->activation),
                  (double)layer->training.dropout, save_name(layer->training.save));
}

json_t *layer_json(const struct tool *tool, const struct layer *layer)
{
    const wherry_model_config *config = &tool->model_info.config;
    return need(json_pack("{s:I, s:I, s:b, s:s, s:f, s:s}", "qkv_products",
                          (json_int_t)(layer->training.qkv_products ? layer->training.qkv_products : 1), "layers",
                          (json_int_t)config->layers, "pre_layernorm", config->pre_layernorm, "activation",
                          activation_name(config->activation), "dropout", (double)layer->training.dropout, "save",
                          save_name(layer->training.save)));
}
