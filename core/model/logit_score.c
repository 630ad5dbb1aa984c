/* Rerankers that are causal language models: a head of one row, the difference of those that make the logits of "yes"
 * and of "no" (in f32: subtracting afterwards would lose digits where both are large), and the template of pairs. */
#include "model/logit_score.h"

#include <string.h>

#include "base/folder.h"
#include "base/source.h"
#include "model/architecture.h"
#include "model/chat_template.h"
#include "model/head.h"
#include "model/model_files.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

enum { TEMPLATE_BYTES = 1 << 20 };

/* What Qwen3-Reranker was trained with, for folders whose own template is for chats. */
static const char usual_template[] =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    "answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n"
    "<Instruct>: {{ messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first | "
    "default('Given a web search query, retrieve relevant passages that answer the query') }}\n"
    "<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n\n";

/* ---- the template of pairs ---- */

static const char *default_template(const json_t *templates)
{
    if (json_is_string(templates)) return json_string_value(templates);
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *one = json_array_get(templates, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default")) return json_string_value(json_object_get(one, "template"));
    }
    return NULL;
}

/* chat_template.jinja, else what tokenizer_config.json has; *out NULL: there is none. To be freed. */
static bool template_text(const struct host *host, const char *folder, char **out, struct error *e)
{
    static const char file[] = "chat_template.jinja", config[] = "tokenizer_config.json";
    bool has = false;
    size_t size = 0;
    json_t *json;
    *out = NULL;
    TRY(folder_has(host, folder, file, &has, e));
    if (has) {
        char *path = path_join(host, folder, file, e);
        bool ok = path && source_read_all(host, path, TEMPLATE_BYTES, out, &size, e);
        host_free(host, path);
        return ok;
    }
    TRY(folder_has(host, folder, config, &has, e));
    if (!has) return true;
    TRY(json_file_read(host, folder, config, &json_tokenizer_config, JSON_DECODE_INT_AS_REAL, &json, e));
    const char *text = default_template(json_object_get(json, "chat_template"));
    bool ok = !text || (*out = host_strdup(host, text, e)) != NULL;
    json_decref(json);
    return ok;
}

static bool frame_pairs(struct wherry_model *model, const char *text, struct error *e)
{
    struct pair_frame frame;
    const char *why;
    if (!chat_template_read(&model->host, text, &frame, &why, e)) {
        return why ? fail(e, WHERRY_STATUS_UNSUPPORTED,
                          "its chat template has %s: read are texts with the first messages of the roles system, "
                          "query and document in this order",
                          why)
                   : false;
    }
    if (!tokenizer_frame_pairs(model->tokenizer, &frame, e)) return false;
    return model->info.pair_template = true;
}

/* `usual`: for a template that has no places for a pair there is one. */
static bool frame_find(struct wherry_model *model, bool usual, struct error *e)
{
    const struct host *host = &model->host;
    char *text;
    TRY(template_text(host, model->files->folder, &text, e));
    bool own = text && (!usual || chat_template_has_roles(text)), ok;
    if (!own && !usual)
        ok = fail(e, WHERRY_STATUS_BAD_FORMAT, "it has no chat template, which makes a question of a pair");
    else
        ok = frame_pairs(model, own ? text : usual_template, e);
    host_free(host, text);
    if (!ok) fail_in(e, model->files->folder);
    return ok;
}

static bool has_messages(const json_t *json)
{
    return json_is_object(json_object_get(json_object_get(json, "modality_config"), "message"));
}

bool pair_messages_find(struct wherry_model *model, const char *folder, struct error *e)
{
    static const char file[] = "sentence_bert_config.json";
    bool has = false;
    json_t *json;
    if (model->info.config.head != WHERRY_HEAD_SEQUENCE || !model->tokenizer) return true;
    TRY(folder_has(&model->host, folder, file, &has, e));
    if (!has) return true;
    TRY(json_file_read(&model->host, folder, file, &json_config, 0, &json, e));
    bool messages = has_messages(json);
    json_decref(json);
    return !messages || frame_find(model, false, e);
}

/* ---- the two words ---- */

struct words {
    int64_t yes, no; /* their ids; -1: not known, or none */
};

static bool id_read(const json_t *json, const char *key, uint32_t vocabulary, int64_t *out, struct error *e)
{
    const json_t *value = json_object_get(json, key);
    *out = -1;
    if (!value || json_is_null(value)) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= vocabulary)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is no id of this model's vocabulary of %u: get the file again",
                    key, (unsigned)vocabulary);
    *out = json_integer_value(value);
    return true;
}

static bool words_parse(const json_t *json, uint32_t vocabulary, struct words *out, struct error *e)
{
    const char *input = json_string_value(json_object_get(json, "module_input_name"));
    TRY(id_read(json, "true_token_id", vocabulary, &out->yes, e) &&
        id_read(json, "false_token_id", vocabulary, &out->no, e));
    if (out->yes < 0) return fail(e, WHERRY_STATUS_BAD_FORMAT, "there is no \"true_token_id\": get the file again");
    return !input || !strcmp(input, "causal_logits") ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "\"module_input_name\" is %.100s: supported is causal_logits", input);
}

static bool find_word(int32_t id, const char *text, size_t bytes, void *user)
{
    struct words *words = user;
    if (bytes == 3 && !memcmp(text, "yes", bytes)) words->yes = id;
    if (bytes == 2 && !memcmp(text, "no", bytes)) words->no = id;
    return words->yes < 0 || words->no < 0;
}

/* *found false: the tokenizer has no such words. */
static bool words_find(const struct wherry_model *model, const struct modules *modules, struct words *out, bool *found,
                       struct error *e)
{
    const struct host *host = &model->host;
    json_t *json;
    *out = (struct words){-1, -1};
    if (modules->logit_score) {
        *found = true;
        TRY(json_file_read(host, modules->logit_score, "config.json", &json_config, 0, &json, e));
        return json_file_end(host, modules->logit_score, "config.json", json,
                             words_parse(json, model->info.config.vocabulary, out, e), e);
    }
    TRY(tokenizer_tokens(host, model->tokenizer, find_word, out, e));
    *found = out->yes >= 0 && out->no >= 0;
    return true;
}

/* ---- their row ---- */

/* The matrix that makes logits of the last layer's vectors: the word table where the two are one. *out.elements 0:
 * there is none. */
static bool matrix_find(const struct wherry_model *model, struct weight_part *out, struct error *e)
{
    const struct host *host = &model->host;
    const struct safetensors_tensor *tensor;
    const struct safetensors *file;
    const uint64_t shape[] = {model->info.config.vocabulary, model->info.config.hidden};
    json_t *json;
    char name[64];
    TRY(json_file_read(host, model->files->folder, "config.json", &json_config, 0, &json, e));
    bool tied = json_is_true(json_object_get(json, "tie_word_embeddings"));
    json_decref(json);
    *out = model->weights[0][WEIGHT_WORD][0];
    if (tied) return true;
    *out = (struct weight_part){.elements = 0};
    snprintf(name, sizeof name, "%s.weight", model->architecture->head.logits);
    TRY(model_files_find(host, model->files, name, &file, &tensor, e));
    return !tensor || weight_part_check(file, tensor, shape, 2, out, e);
}

static bool row_read(const struct wherry_model *model, const struct weight_part *matrix, int64_t id, void *raw,
                     float *out, struct error *e)
{
    const uint64_t hidden = model->info.config.hidden;
    return weight_convert(matrix, (uint64_t)id * hidden, hidden, WEIGHT_TYPE_F32, raw, out, e);
}

static bool row_make(struct wherry_model *model, const struct weight_part *matrix, const struct words *words,
                     struct error *e)
{
    const struct host *host = &model->host;
    const size_t hidden = model->info.config.hidden;
    float *other = host_alloc(host, hidden, sizeof *other, e);
    void *raw = other ? host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e) : NULL;
    model->word_row = raw ? host_alloc_unset(host, hidden, sizeof *model->word_row, e) : NULL;
    bool ok = model->word_row && row_read(model, matrix, words->yes, raw, model->word_row, e) &&
              (words->no < 0 || row_read(model, matrix, words->no, raw, other, e));
    for (size_t i = 0; ok && i < hidden; i++) model->word_row[i] -= other[i];
    host_free(host, raw);
    host_free(host, other);
    if (!ok) return false;
    model->weights[0][WEIGHT_CLASSIFIER][0] =
        (struct weight_part){.memory = model->word_row, .type = WEIGHT_TYPE_F32, .elements = hidden};
    return true;
}

/* ---- both ---- */

static bool head_make(struct wherry_model *model, struct error *e)
{
    wherry_model_config *config = &model->info.config;
    config->head = WHERRY_HEAD_SEQUENCE;
    config->head_activation = WHERRY_HEAD_PLAIN;
    config->labels = 1;
    return labels_read(&model->host, model->files->folder, config, &model->labels, &model->info.scores, e);
}

bool logit_score_find(struct wherry_model *model, const struct modules *modules, struct error *e)
{
    static const char ending[] = "ForCausalLM";
    const char *class = model->info.architecture, *task = strstr(class, "For");
    const bool asked = modules->logit_score != NULL, causal = task && !strcmp(task, ending);
    struct weight_part matrix = {.elements = 0};
    struct words words;
    bool found = false;
    if (asked && (!causal || !model->architecture->head.logits))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.600s has a LogitScore, and its encoder is a %.64s: supported is one of Qwen3ForCausalLM",
                    model->files->folder, class);
    if (asked && !model->tokenizer)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.600s has a LogitScore and no tokenizer, which makes a question of a pair: get tokenizer.json",
                    model->files->folder);
    if (!asked && (modules->listed || !causal || !model->architecture->head.logits || !model->tokenizer)) return true;
    TRY(words_find(model, modules, &words, &found, e));
    if (found) TRY(matrix_find(model, &matrix, e));
    if (asked && !matrix.elements)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.600s has no tensor %s.weight, which config.json asks for: the files belong to different models "
                    "or are incomplete, get them again",
                    model->files->folder, model->architecture->head.logits);
    if (!matrix.elements) return true;
    return row_make(model, &matrix, &words, e) && frame_find(model, !asked, e) && head_make(model, e);
}
