/* What a model's JSON files say about it: its shape, how its token vectors become one, its longest sequence. */
#include "model/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "base/number.h"
#include "graph/distances.h"
#include "graph/experts.h"
#include "graph/mask.h"
#include "model/head.h"
#include "model/model.h"

/* ---- shapes ---- */

uint32_t model_usable_positions(const wherry_model_config *config)
{
    return config->positions - config->position_offset;
}

static bool rotary_check(const wherry_model_config *config, struct error *e)
{
    uint32_t channels = head_channels(config);
    const struct {
        const char *what;
        float value;
    } numbers[] = {{"the base of the rotary positions", config->rotary_base},
                   {"the base of the rotary positions in layers with a window", config->rotary_base_local},
                   {"the factor of the rotary positions", config->rotary_factor},
                   {"the factor of rotary positions that stretch", config->rotary_dynamic}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!(numbers[i].value >= 0 && numbers[i].value < 1e30f))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s is %s; it must be over 0, or 0 where there is none",
                        numbers[i].what, NUMBER("%g", (double)numbers[i].value));
        if (numbers[i].value > 0 && config->rotary_base == 0)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "%s is %s, and there are no rotary positions: give them a base, or leave it 0", numbers[i].what,
                        NUMBER("%g", (double)numbers[i].value));
    }
    if ((config->rotary_dynamic > 0) != (config->rotary_trained > 0))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "rotary positions stretch by a factor (rotary_dynamic) for texts beyond a length (rotary_trained): "
                    "give both, or leave both 0");
    if (config->rotary_base == 0) return true;
    if (config->rotary_dynamic > 0 && (channels <= 2 || config->rotary_factor > 1))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "rotary positions that stretch (rotary_dynamic) are of heads of more than 2 channels, and without "
                    "another factor (rotary_factor)");
    if (channels % 2)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "rotary positions turn pairs of channels, and a head has %" PRIu32, channels);
    return !config->position_offset ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "rotary positions begin with 0, not with %" PRIu32,
                config->position_offset);
}

bool model_config_check(const wherry_model_config *config, struct error *e)
{
    uint32_t width = config->embedding ? config->embedding : config->hidden;
    const struct {
        const char *name;
        uint32_t value, most;
    } sizes[] = {
        {"layers", config->layers, 1024},
        {"hidden size", config->hidden, 1 << 20},
        {"heads", config->heads, 1 << 20},
        {"feed-forward size", config->feed_forward, 1 << 24},
        {"vocabulary", config->vocabulary, INT32_MAX},
        {"positions", config->positions, 1 << 24},
        {"embedding size", width, 1 << 20},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value && sizes[i].value <= sizes[i].most) continue;
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s is %" PRIu32 "; it must be from 1 to %" PRIu32,
                    sizes[i].name, sizes[i].value, sizes[i].most);
    }
    if (!config->head_channels && config->hidden % config->heads) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "hidden size %" PRIu32 " is not a multiple of the number of heads, %" PRIu32, config->hidden,
                    config->heads);
    }
    if (config->head_channels > 1 << 16)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a head has %" PRIu32 " channels; it may have up to 65536",
                    config->head_channels);
    if (config->heads % key_heads(config))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "%" PRIu32 " heads of K and V do not divide the %" PRIu32 " heads of Q", config->key_heads,
                    config->heads);
    if (heads_grouped(config) && config->relative_buckets)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "scores get a bias by distance where K and V have as many heads as Q alone");
    if (config->position_offset >= config->positions) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the first token has position %" PRIu32 ", and the table of positions has %" PRIu32 " rows",
                    config->position_offset, config->positions);
    }
    const struct {
        const char *name;
        uint64_t rows, columns;
    } matrices[] = {
        {"the word embeddings", config->vocabulary, width},
        {"the position embeddings", config->positions, width},
        {"the token type embeddings", config->token_types, width},
        {"the matrix that widens the embeddings", config->hidden, config->embedding},
        {"the table of rotary positions", config->rotary_base > 0 ? config->positions : 0, head_channels(config)},
        {"the matrices of Q, K and V", ((uint64_t)config->heads + 2 * key_heads(config)) * head_channels(config),
         config->hidden},
        {"a matrix of the feed-forward", (uint64_t)config->feed_forward * (config->gate ? 2 : 1), config->hidden},
        {"a matrix of the experts",
         config->experts <= EXPERTS_MOST ? (uint64_t)config->feed_forward * config->experts : 0, config->hidden},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        uint64_t elements = matrices[i].rows * matrices[i].columns;
        if (elements <= UINT32_MAX) continue;
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "%s would have %" PRIu64 " elements, more than 32 bits can count: take a smaller model",
                    matrices[i].name, elements);
    }
    if (!(config->embedding_scale >= 0 && config->embedding_scale < 1e30f))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the scale of the embeddings is %s; it must be over 0, or 0 where there is none",
                    NUMBER("%g", (double)config->embedding_scale));
    if (config->block_norms && !config->pre_layernorm)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "block_norms are for layers with norms before their blocks (pre_layernorm): leave it false");
    if (config->double_norms && (config->pre_layernorm || config->block_norms))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "double_norms are for layers with norms after their blocks: leave pre_layernorm and block_norms "
                    "false");
    if (config->wide_norms && (config->head_norms || config->rotary_base > 0 || heads_grouped(config) ||
                               config->norm != WHERRY_NORM_LAYER || config->without & WHERRY_WITHOUT_NORM_BIAS))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wide_norms are layernorms with a bias, of models without rotary positions (rotary_base), norms of "
                    "single heads (head_norms) and grouped queries (key_heads, head_channels)");
    if (config->activation > WHERRY_ACTIVATION_SILU) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_activation",
                    (int)config->activation);
    }
    if (config->gate > WHERRY_GATE_SECOND)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_gate", (int)config->gate);
    const uint32_t all = 2 * WHERRY_WITHOUT_CLASSIFIER_BIAS - 1;
    if (config->without & ~all)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "without is %#" PRIx32 ", which has bits that mean nothing",
                    config->without);
    if (config->norm > WHERRY_NORM_RMS_ONE)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_norm", (int)config->norm);
    if (config->without & WHERRY_WITHOUT_FIRST_NORM && !config->pre_layernorm)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the first layer's norm may be missing before attention (pre_layernorm) alone");
    if (!rotary_check(config, e)) return false;
    if (!distances_check(config->relative_buckets, config->relative_distance, e)) return false;
    if (!masks_check(config, e) || !experts_check(config, e)) return false;
    if (!(config->epsilon >= 0 && config->epsilon < 1)) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the layernorms' epsilon is %s; it must be at least 0 and less than 1",
                    NUMBER("%g", (double)config->epsilon));
    }
    return head_check(config, e);
}

/* ---- limits ---- */

static bool sentence_parse(const json_t *json, double *longest, bool *lower_case, struct error *e)
{
    const json_t *length = json_object_get(json, "max_seq_length");
    *lower_case = json_is_true(json_object_get(json, "do_lower_case"));
    if (!length || json_is_null(length)) return true;
    if (!json_is_integer(length) || json_integer_value(length) < 1) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"max_seq_length\" is not a whole number of at least 1: get the file "
                    "again");
    }
    *longest = (double)json_integer_value(length);
    return true;
}

bool limits_read(const struct host *host, const char *folder, uint32_t positions, uint32_t *max_tokens,
                 bool *lower_case, struct error *e)
{
    static const char sentence[] = "sentence_bert_config.json", tokenizer[] = "tokenizer_config.json";
    bool has = false;
    double longest = 0;
    json_t *json;
    *lower_case = false;
    TRY(folder_has(host, folder, sentence, &has, e));
    if (has) {
        TRY(json_file_read(host, folder, sentence, &json_config, 0, &json, e));
        TRY(json_file_end(host, folder, sentence, json, sentence_parse(json, &longest, lower_case, e), e));
    }
    TRY(folder_has(host, folder, tokenizer, &has, e));
    if (has && longest == 0) {
        /* Hugging Face writes "no limit" as 10^30, which is too large for an integer. */
        TRY(json_file_read(host, folder, tokenizer, &json_tokenizer_config, JSON_DECODE_INT_AS_REAL, &json, e));
        longest = json_number_value(json_object_get(json, "model_max_length"));
        json_decref(json);
    }
    *max_tokens = longest >= 1 && longest < positions ? (uint32_t)longest : positions;
    return true;
}
