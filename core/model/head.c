/* A model's head: which one its configuration has, its labels, and what makes scores of its logits. */
#include "model/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "model/architecture.h"

/* More than any published classifier has. */
enum { LABELS_MOST = 1 << 20 };

/* ---- what goes together ---- */

bool model_has_dense(const wherry_model_config *config)
{
    bool classes = config->head == WHERRY_HEAD_SEQUENCE || config->head == WHERRY_HEAD_TOKENS;
    return classes && config->head_activation != WHERRY_HEAD_PLAIN;
}

bool head_check(const wherry_model_config *config, struct error *e)
{
    bool classes = config->head == WHERRY_HEAD_SEQUENCE || config->head == WHERRY_HEAD_TOKENS;
    if ((unsigned)config->head > WHERRY_HEAD_VOCABULARY)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_head", (int)config->head);
    if ((unsigned)config->head_activation > WHERRY_HEAD_GELU_TANH)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_head_activation",
                    (int)config->head_activation);
    if (classes && (!config->labels || config->labels > LABELS_MOST))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "labels is %" PRIu32 "; a classifier has from 1 to %d",
                    config->labels, LABELS_MOST);
    if (!classes && config->labels)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "labels is %" PRIu32 " and there is no classifier: leave it 0",
                    config->labels);
    if (config->untied && config->head != WHERRY_HEAD_VOCABULARY)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "untied is for a head of the vocabulary: leave it false");
    if (config->head_norm && !model_has_dense(config))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "head_norm is for a classifier with a dense layer: leave it false");
    if (config->head_mean && config->head != WHERRY_HEAD_SEQUENCE)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "head_mean is for classes of texts: leave it false");
    if (config->next_sentence && config->head != WHERRY_HEAD_VOCABULARY)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "next_sentence is for a head of the vocabulary: leave it false");
    if ((uint64_t)config->labels * config->hidden > UINT32_MAX)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the classifier would have more elements than 32 bits can count: take fewer labels");
    return true;
}

/* ---- config.json ---- */

/* What the class is for: "BertForTokenClassification" gives "TokenClassification". */
static const char *task_of(const char *class)
{
    const char *task = strstr(class, "For");
    return task ? task + strlen("For") : "";
}

static bool count_read(const json_t *json, const char *key, uint32_t *out, struct error *e)
{
    const json_t *value = json_object_get(json, key);
    if (!value || json_is_null(value)) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > LABELS_MOST)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a whole number from 1 to %d: get the file again", key,
                    LABELS_MOST);
    *out = (uint32_t)json_integer_value(value);
    return true;
}

/* As many as id2label names, else as many as are said, else 2, which is transformers' own default. */
static bool labels_count(const json_t *json, uint32_t *out, struct error *e)
{
    const json_t *names = json_object_get(json, "id2label");
    uint32_t said = 0;
    TRY(count_read(json, "_num_labels", &said, e) && count_read(json, "num_labels", &said, e));
    if (names && !json_is_null(names)) {
        size_t count = json_object_size(names);
        if (!count || count > LABELS_MOST)
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "\"id2label\" is not an object with 1 to %d labels: get the file again", LABELS_MOST);
        if (said && said != count)
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "\"num_labels\" is %" PRIu32 " and \"id2label\" has %zu labels: get the file again", said,
                        count);
        said = (uint32_t)count;
    }
    *out = said ? said : 2;
    return true;
}

/* Of the dense layer before the vocabulary, where it is the feed-forward's. */
static wherry_head_activation head_activation(wherry_activation activation)
{
    return activation == WHERRY_ACTIVATION_RELU        ? WHERRY_HEAD_RELU
           : activation == WHERRY_ACTIVATION_GELU_TANH ? WHERRY_HEAD_GELU_TANH
                                                       : WHERRY_HEAD_GELU;
}

bool head_read(const json_t *json, const char *class, const struct head_names *names, wherry_model_config *config,
               struct error *e)
{
    const char *task = task_of(class);
    if (!strcmp(task, "SequenceClassification")) {
        config->head = WHERRY_HEAD_SEQUENCE;
        config->head_activation = names->activation;
        config->head_norm = names->norm;
        return labels_count(json, &config->labels, e);
    }
    config->head_mean = false; /* it is said of a file's task whatever it has */
    if (!strcmp(task, "TokenClassification")) {
        config->head = WHERRY_HEAD_TOKENS;
        if (names->tokens) config->head_activation = names->activation, config->head_norm = names->norm;
        return labels_count(json, &config->labels, e);
    }
    if (!strcmp(task, "MaskedLM") || !strcmp(task, "PreTraining")) {
        config->untied = json_is_false(json_object_get(json, "tie_word_embeddings"));
        config->head = WHERRY_HEAD_VOCABULARY;
        config->next_sentence = !strcmp(task, "PreTraining"); /* where the architecture has it and the file does */
        config->head_activation = names->vocabulary ? names->vocabulary : head_activation(config->activation);
    }
    return true;
}

/* ---- names ---- */

void labels_free(const struct host *host, struct labels *labels)
{
    if (!labels) return;
    for (uint32_t i = 0; labels->names && i < labels->count; i++) host_free(host, labels->names[i]);
    host_free(host, labels->names);
    host_free(host, labels);
}

static struct labels *labels_allocate(const struct host *host, uint32_t count, struct error *e)
{
    struct labels *labels = host_alloc(host, 1, sizeof *labels, e);
    if (!labels) return NULL;
    labels->count = count;
    labels->names = host_alloc(host, count, sizeof *labels->names, e);
    if (labels->names) return labels;
    labels_free(host, labels);
    return NULL;
}

/* What the file calls the label, or its number where the file names none. */
static bool label_name(const struct host *host, const json_t *names, uint32_t index, char **out, struct error *e)
{
    char key[32];
    snprintf(key, sizeof key, "LABEL_%" PRIu32, index);
    const char *number = strchr(key, '_') + 1, *name = key;
    if (names) {
        const json_t *value = json_object_get(names, number);
        if (!value)
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "\"id2label\" has %zu labels and none with the number %s: get the file again",
                        json_object_size(names), number);
        if (!(name = json_string_value(value)))
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "label %s of \"id2label\" is not a string: get the file again",
                        number);
    }
    return (*out = host_strdup(host, name, e)) != NULL;
}

static bool labels_make(const struct host *host, const json_t *names, uint32_t count, struct labels **out,
                        struct error *e)
{
    struct labels *labels = labels_allocate(host, count, e);
    if (!labels) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (label_name(host, names, i, &labels->names[i], e)) continue;
        labels_free(host, labels);
        return false;
    }
    *out = labels;
    return true;
}

bool labels_numbered(const struct host *host, uint32_t count, struct labels **out, struct error *e)
{
    return labels_make(host, NULL, count, out, e);
}

/* ---- scores ---- */

/* By the last part of an import path: "torch.nn.modules.activation.Sigmoid". */
static bool scores_named(const char *path, wherry_scores *out, struct error *e)
{
    static const struct {
        const char *name;
        wherry_scores scores;
    } names[] = {
        {"Identity", WHERRY_SCORES_IDENTITY}, {"Sigmoid", WHERRY_SCORES_SIGMOID}, {"Softmax", WHERRY_SCORES_SOFTMAX}};
    const char *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name)) continue;
        *out = names[i].scores;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the activation %.200s on a classifier's logits is not supported: supported are Sigmoid, Softmax and "
                "Identity",
                path);
}

/* sentence-transformers' key, new and old, else what transformers' pipelines do. */
static bool scores_parse(const json_t *json, const wherry_model_config *config, wherry_scores *out, struct error *e)
{
    const json_t *own = json_object_get(json_object_get(json, "sentence_transformers"), "activation_fn");
    if (!own || json_is_null(own)) own = json_object_get(json, "sbert_ce_default_activation_function");
    const char *path = json_string_value(own), *type = json_string_value(json_object_get(json, "problem_type"));
    *out = WHERRY_SCORES_SOFTMAX;
    if (config->head == WHERRY_HEAD_TOKENS) return true;
    if (path) return scores_named(path, out, e);
    if (own && !json_is_null(own))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"activation_fn\" is not a string: get the file again");
    if (type && !strcmp(type, "regression"))
        *out = WHERRY_SCORES_IDENTITY;
    else if (config->labels == 1 || (type && !strcmp(type, "multi_label_classification")))
        *out = WHERRY_SCORES_SIGMOID;
    return true;
}

static bool labels_parse(const struct host *host, const json_t *json, const wherry_model_config *config,
                         struct labels **out, wherry_scores *scores, struct error *e)
{
    const json_t *names = json_object_get(json, "id2label");
    TRY(scores_parse(json, config, scores, e));
    return labels_make(host, names && !json_is_null(names) ? names : NULL, config->labels, out, e);
}

bool labels_read(const struct host *host, const char *folder, const wherry_model_config *config, struct labels **out,
                 wherry_scores *scores, struct error *e)
{
    json_t *json;
    *out = NULL;
    if (!config->labels) return true;
    TRY(json_file_read(host, folder, "config.json", &json_config, 0, &json, e));
    return json_file_end(host, folder, "config.json", json, labels_parse(host, json, config, out, scores, e), e);
}
