/* What late interaction (ColBERT) makes of queries and documents. */
#include "model/late.h"

#include <string.h>

#include "base/folder.h"
#include "tokenizer/tokenizer.h"

enum { SKIPPED_MOST = 4096, LENGTH_MOST = 1 << 20 };

static const char *const tasks[LATE_TASKS] = {"query", "document"};

void late_free(const struct host *host, struct late *late)
{
    if (!late) return;
    for (int task = 0; task < LATE_TASKS; task++) host_free(host, late->marks[task]);
    host_free(host, late->skipped);
    host_free(host, late);
}

/* ---- ids of tokens ---- */

struct lookup {
    const char *const *words;
    int32_t *ids; /* [count]: -1 where there is none */
    size_t count;
};

static bool look(int32_t id, const char *text, size_t bytes, void *user)
{
    const struct lookup *l = user;
    for (size_t i = 0; i < l->count; i++)
        if (strlen(l->words[i]) == bytes && !memcmp(l->words[i], text, bytes)) l->ids[i] = id;
    return true;
}

static bool look_up(const struct wherry_model *model, const char *const *words, size_t count, int32_t *ids,
                    struct error *e)
{
    struct lookup l = {words, ids, count};
    memset(ids, 0xff, count * sizeof *ids);
    return !model->tokenizer || tokenizer_tokens(&model->host, model->tokenizer, look, &l, e);
}

/* Words that are no single token do not count, as in the reference. */
static bool skip_words(struct wherry_model *model, const json_t *list, struct error *e)
{
    struct late *late = model->late;
    size_t count = json_array_size(list), kept = 0;
    const struct host *host = &model->host;
    if (!json_is_array(list) || count > SKIPPED_MOST)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"skiplist_words\" is no list of at most %d words: get the file again", SKIPPED_MOST);
    if (!count) return true;
    const char **words = host_alloc(host, count, sizeof *words, e);
    host_free(host, late->skipped);
    late->skipped = words ? host_alloc(host, count, sizeof *late->skipped, e) : NULL;
    bool ok = late->skipped != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = (words[i] = json_string_value(json_array_get(list, i))) != NULL ||
             fail(e, WHERRY_STATUS_BAD_FORMAT, "a word of \"skiplist_words\" is no string: get the file again");
    ok = ok && look_up(model, words, count, late->skipped, e);
    for (size_t i = 0; ok && i < count; i++)
        if (late->skipped[i] >= 0) late->skipped[kept++] = late->skipped[i];
    late->skipped_count = kept;
    host_free(host, words);
    return ok;
}

/* PyLate's and ColBERT's own list. */
static bool skip_punctuation(struct wherry_model *model, struct error *e)
{
    static const char all[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    json_t *list = json_array();
    for (const char *c = all; list && *c; c++) json_array_append_new(list, json_stringn(c, 1));
    bool ok = list ? skip_words(model, list, e) : fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "out of memory");
    json_decref(list);
    return ok;
}

/* ---- lengths and expansion ---- */

static bool length_read(const json_t *json, const char *key, uint32_t *out, struct error *e)
{
    const json_t *value = json_object_get(json, key);
    if (!value || json_is_null(value)) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > LENGTH_MOST)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a whole number from 1 to %d: get the file again", key,
                    LENGTH_MOST);
    *out = (uint32_t)json_integer_value(value);
    return true;
}

static bool lengths_read(const json_t *json, struct late *late, struct error *e)
{
    return length_read(json, "query_length", &late->lengths[LATE_QUERY], e) &&
           length_read(json, "document_length", &late->lengths[LATE_DOCUMENT], e);
}

static bool expansion_read(struct wherry_model *model, const json_t *json, struct error *e)
{
    struct late *late = model->late;
    const char *strategy = json_string_value(json_object_get(json, "strategy")),
               *token = json_string_value(json_object_get(json, "token"));
    const json_t *attend = json_object_get(json, "attend");
    if (!json || json_is_null(json)) return true;
    if (!strategy || (strcmp(strategy, "fixed") && strcmp(strategy, "min")))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the strategy %.60s of \"query_expansion\" is not supported: supported are fixed and min",
                    strategy ? strategy : "that is no string");
    if (attend && !json_is_boolean(attend))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"attend\" is neither true nor false: get the file again");
    TRY(length_read(json, "length", &late->expanded, e));
    if (!late->expanded)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"query_expansion\" has no \"length\": get the file again");
    late->fixed = !strcmp(strategy, "fixed");
    late->attends = json_is_true(attend);
    late->token = model->info.mask_token;
    if (token) TRY(look_up(model, &token, 1, &late->token, e));
    return late->token >= 0 || !model->tokenizer ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "queries are expanded with the token %.60s, which the tokenizer has not: get its files again",
                token ? token : "that stands for masks");
}

static bool sentence_parse(struct wherry_model *model, const json_t *json, struct error *e)
{
    return lengths_read(json, model->late, e) && expansion_read(model, json_object_get(json, "query_expansion"), e);
}

/* ---- the modules' and PyLate's ---- */

static bool mask_parse(struct wherry_model *model, const json_t *json, struct error *e)
{
    struct late *late = model->late;
    const json_t *words = json_object_get(json, "skiplist_words"), *of = json_object_get(json, "skiplist_tasks"),
                 *only = json_object_get(json, "keep_only_token_ids");
    if (json_array_size(only))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"keep_only_token_ids\" is there: it is not supported");
    if (words && !json_is_null(words)) TRY(skip_words(model, words, e));
    for (int task = 0; task < LATE_TASKS; task++) {
        late->skips[task] = !of || json_is_null(of) ? task == LATE_DOCUMENT : false;
        const char *one = json_string_value(of);
        if (one && !strcmp(one, tasks[task])) late->skips[task] = true;
        for (size_t i = 0; i < json_array_size(of); i++) {
            const char *name = json_string_value(json_array_get(of, i));
            if (name && !strcmp(name, tasks[task])) late->skips[task] = true;
        }
    }
    return true;
}

static bool mark_read(struct wherry_model *model, const json_t *json, const char *key, char **out, struct error *e)
{
    const json_t *value = json_object_get(json, key);
    if (!value || json_is_null(value)) return true;
    if (!json_is_string(value))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a string: get the file again", key);
    return (*out = host_strdup(&model->host, json_string_value(value), e)) != NULL;
}

/* Its keys stand beside the prompts; the vectors have length 1 without a module that says so. */
static bool pylate_parse(struct wherry_model *model, const json_t *json, struct error *e)
{
    static const char *const keys[] = {"query_prefix", "document_prefix", "do_query_expansion",
                                       "attend_to_expansion_tokens", "skiplist_words"};
    struct late *late = model->late;
    const char *type = json_string_value(json_object_get(json, "model_type"));
    bool is = type && !strcmp(type, "ColBERT");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) is |= json_object_get(json, keys[i]) != NULL;
    if (!is || model->info.pool != WHERRY_POOL_NONE) return true;
    model->info.normalize = true;
    TRY(lengths_read(json, late, e));
    TRY(mark_read(model, json, "query_prefix", &late->marks[LATE_QUERY], e));
    TRY(mark_read(model, json, "document_prefix", &late->marks[LATE_DOCUMENT], e));
    late->skips[LATE_DOCUMENT] = true;
    const json_t *words = json_object_get(json, "skiplist_words"), *own = json_object_get(json, "query_expansion");
    TRY(words && !json_is_null(words) ? skip_words(model, words, e) : skip_punctuation(model, e));
    if (own) return expansion_read(model, own, e);
    if (json_is_false(json_object_get(json, "do_query_expansion"))) return true;
    late->expanded = late->lengths[LATE_QUERY] ? late->lengths[LATE_QUERY] : 32;
    late->fixed = true;
    late->attends = json_is_true(json_object_get(json, "attend_to_expansion_tokens"));
    late->token = model->info.mask_token;
    return true;
}

static bool file_read(struct wherry_model *model, const char *folder, const char *name,
                      bool (*parse)(struct wherry_model *model, const json_t *json, struct error *e), struct error *e)
{
    bool has = false;
    json_t *json;
    TRY(folder_has(&model->host, folder, name, &has, e));
    if (!has) return true;
    TRY(json_file_read(&model->host, folder, name, &json_config, 0, &json, e));
    return json_file_end(&model->host, folder, name, json, parse(model, json, e), e);
}

bool late_read(struct wherry_model *model, const char *folder, const char *encoder, const char *mask, struct error *e)
{
    if (!(model->late = host_alloc(&model->host, 1, sizeof *model->late, e))) return false;
    if (model->info.pool != WHERRY_POOL_NONE) return true;
    return file_read(model, encoder, "sentence_bert_config.json", sentence_parse, e) &&
           (!mask || file_read(model, mask, "config.json", mask_parse, e)) &&
           file_read(model, folder, "config_sentence_transformers.json", pylate_parse, e);
}

/* ---- what a text with a prompt is ---- */

/* A mark that the vocabulary has must be one token where it stands in front of a text. */
static bool mark_check(const struct wherry_model *model, const char *prompt, struct error *e)
{
    char mark[64];
    const char *name = mark;
    int32_t id, ids[8];
    size_t bytes = strcspn(prompt, " "), count = 8;
    if (!bytes || bytes >= sizeof mark || !model->tokenizer) return true;
    memcpy(mark, prompt, bytes);
    mark[bytes] = 0;
    TRY(look_up(model, &name, 1, &id, e));
    if (id < 0) return true;
    TRY(tokenizer_encode(&model->host, model->tokenizer, mark, bytes, NULL, 0, 0, ids, NULL, &count, e));
    for (size_t i = 0; i < count && i < 8; i++)
        if (ids[i] == id) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the mark %s in front of texts is a token that the tokenizer makes of no text: it has to stand under "
                "\"added_tokens\" of tokenizer.json (sentence-transformers' MultiVectorEncoder writes it so: load the "
                "model with it and save it)",
                mark);
}

bool late_form(const struct wherry_model *model, const char *name, wherry_text_form *out, struct error *e)
{
    const struct late *late = model->late;
    int task = name && !strcmp(name, tasks[LATE_QUERY]) ? LATE_QUERY : LATE_DOCUMENT;
    bool named = name && !strcmp(name, tasks[task]);
    const char *prompt = "";
    *out = (wherry_text_form){.struct_size = sizeof *out, .added_token = -1};
    if (!late || model->info.pool != WHERRY_POOL_NONE) return true;
    if (named && prompts_find(&model->prompts, name, &prompt, e)) TRY(mark_check(model, prompt, e));
    if (named) out->max_tokens = late->lengths[task];
    if (late->skips[task]) out->left_out = late->skipped, out->left_out_count = late->skipped_count;
    if (!named || task != LATE_QUERY || !late->expanded) return true;
    if (!late->attends)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model expands its queries with tokens that no other token sees (query_expansion with attend "
                    "false, PyLate's attend_to_expansion_tokens false), which is not supported: documents are");
    if (late->token < 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model expands its queries with masks, and its tokenizer has no mask: get its files again");
    out->added_token = late->token;
    out->least_tokens = late->expanded;
    if (late->fixed) out->max_tokens = late->expanded;
    if (out->max_tokens && out->max_tokens < out->least_tokens) out->max_tokens = out->least_tokens;
    if (out->least_tokens > model->info.max_tokens)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "queries are expanded to %u tokens, and the model takes %u",
                    out->least_tokens, model->info.max_tokens);
    return true;
}
