/* A tokenizer read from a model folder: tokenizer.json, or the older files. */
#include "tokenizer/tokenizer_files.h"

#include <string.h>

/* ---- tokenizer_config.json ---- */

/* Which side is cut: the configuration's word, else that of tokenizer.json's truncation. */
static bool read_side(const struct file_reader *r)
{
    const json_t *side = json_object_get(r->config, "truncation_side");
    const char *name = json_string_value(side);
    if (!side || json_is_null(side)) return true;
    if (!name || (strcmp(name, "left") && strcmp(name, "right")))
        return part_wrong(&r->part, "truncation_side", "\"left\" or \"right\"");
    r->t->cut_left = !strcmp(name, "left");
    return true;
}

/* ---- tokenizer.json ---- */

/* Of its truncation only the side is read, and its padding is not: the caller says where to cut, and nothing is padded.
 */
static bool read_truncation(struct file_reader *r, const json_t *truncation)
{
    const json_t *direction = json_object_get(truncation, "direction");
    const char *name = json_string_value(direction);
    if (!direction) return true;
    if (!name || (strcmp(name, "Left") && strcmp(name, "Right")))
        return part_wrong(&r->part, "direction", "\"Left\" or \"Right\"");
    r->t->cut_left = !strcmp(name, "Left");
    return true;
}

static bool read_added(struct file_reader *r, const json_t *added)
{
    if (added && !json_is_array(added)) return part_wrong(&r->part, "added_tokens", "an array");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const char *content;
        struct added_entry entry;
        TRY(file_added(r, json_array_get(added, i), &content, &entry) &&
            added_add(&r->added, content, &entry, false, r->part.e));
    }
    return true;
}

static bool read_parts(struct file_reader *r, const json_t *root, struct model_reader *model)
{
    struct tokenizer *t = r->t;
    if (!json_is_object(root)) return fail(r->part.e, WHERRY_STATUS_BAD_FORMAT, "this is not a JSON object");
    const char *version = json_string_value(json_object_get(root, "version"));
    if (version && strcmp(version, "1.0"))
        return fail(r->part.e, WHERRY_STATUS_UNSUPPORTED, "its version is \"%.100s\"; only 1.0 is supported", version);
    return model_read(model, json_object_get(root, "model"), &t->model) &&
           normalizers_read(&r->part, json_object_get(root, "normalizer"), &t->normalizers) &&
           pre_tokenizers_read(&r->part, json_object_get(root, "pre_tokenizer"), &t->pre_tokenizers) &&
           post_processor_read(&r->part, json_object_get(root, "post_processor"), &t->post) &&
           read_truncation(r, json_object_get(root, "truncation")) &&
           read_added(r, json_object_get(root, "added_tokens"));
}

/* Whether the reader of JSON finds nothing wrong in the whole file. */
static bool is_whole(struct file_reader *r)
{
    json_t *root = NULL;
    struct error wrong;
    bool ok = json_file_read(&r->t->host, r->folder, "tokenizer.json", &json_tokenizer, 0, &root, &wrong);
    if (ok)
        json_decref(root);
    else
        *r->part.e = wrong;
    return ok;
}

static bool read_json(struct file_reader *r)
{
    json_t *root = NULL;
    struct json_words words;
    TRY(json_words_read(&r->t->host, r->folder, "tokenizer.json", &json_tokenizer, &words, &root, r->part.e));
    struct model_reader model = {.part = r->part, .words = &words};
    bool ok = read_parts(r, root, &model);
    json_decref(root);
    /* Equal words are found by the reader of JSON, whose errors come first. */
    bool doubtful = words.count && (!ok || model.twice);
    json_words_free(&r->t->host, &words);
    if (doubtful) TRY(is_whole(r));
    if (!ok) return file_fail(r, "tokenizer.json");
    const char *class = json_string_value(json_object_get(r->config, "tokenizer_class"));
    struct bert_normalizer *bert = normalizers_bert(&r->t->normalizers);
    return !bert || (class && !file_is_bert(class)) || file_bert_settings(r, bert) ||
           file_fail(r, "tokenizer_config.json");
}

/* ---- all together ---- */

static bool read_config(const struct file_reader *r, json_t **config)
{
    bool has;
    TRY(folder_has(r->part.host, r->folder, "tokenizer_config.json", &has, r->part.e));
    if (!has) return true;
    TRY(json_file_read(r->part.host, r->folder, "tokenizer_config.json", &json_tokenizer_config,
                       JSON_DECODE_INT_AS_REAL, config, r->part.e));
    if (json_is_object(*config)) return true;
    return fail(r->part.e, WHERRY_STATUS_BAD_FORMAT, "%.600s/tokenizer_config.json is not a JSON object", r->folder);
}

/* In the order in which they are looked for. */
static const struct {
    const char *name;
    bool (*read)(struct file_reader *r);
} sources[] = {{"tokenizer.json", read_json},
               {"vocab.txt", read_vocabulary},
               {"sentencepiece.bpe.model", read_sentencepiece},
               {"vocab.json", read_merges}};

/* Which of the sources is there, their number: none. */
static bool find_source(const struct host *host, const char *folder, size_t *found, struct error *e)
{
    bool has = false;
    for (*found = 0; *found < sizeof sources / sizeof *sources; ++*found) {
        TRY(folder_has(host, folder, sources[*found].name, &has, e));
        if (has) return true;
    }
    return true;
}

bool tokenizer_file(const struct host *host, const char *folder, const char **name, struct error *e)
{
    size_t found;
    TRY(find_source(host, folder, &found, e));
    *name = found < sizeof sources / sizeof *sources ? sources[found].name : NULL;
    return true;
}

static bool read_folder(struct file_reader *r)
{
    size_t found;
    TRY(find_source(r->part.host, r->folder, &found, r->part.e));
    if (found == sizeof sources / sizeof *sources)
        return fail(r->part.e, WHERRY_STATUS_IO,
                    "%.600s has neither tokenizer.json nor vocab.txt, sentencepiece.bpe.model or vocab.json",
                    r->folder);
    TRY(sources[found].read(r));
    if (!read_side(r)) return file_fail(r, "tokenizer_config.json");
    r->t->needs_places = pre_tokenizers_need_places(&r->t->pre_tokenizers);
    return added_build(&r->part, &r->added, &r->t->model, &r->t->normalizers, &r->t->added) ||
           file_fail(r, sources[found].read == read_json ? "tokenizer.json" : "tokenizer_config.json");
}

struct tokenizer *tokenizer_open(const struct host *host, const char *folder, const char *class_name,
                                 uint32_t vocabulary, struct error *e)
{
    struct tokenizer *t = host_alloc(host, 1, sizeof *t, e);
    if (!t) return NULL;
    t->host = *host;
    struct file_reader r = {.t = t,
                            .folder = folder,
                            .class_name = class_name,
                            .part = {&t->host, vocabulary > INT32_MAX ? INT32_MAX : vocabulary, e},
                            .added = {.text = {.host = &t->host}}};
    json_t *config = NULL;
    bool ok = read_config(&r, &config);
    r.config = config;
    if (json_is_string(json_object_get(config, "tokenizer_class")))
        r.class_name = json_string_value(json_object_get(config, "tokenizer_class"));
    ok = ok && read_folder(&r);
    json_decref(config);
    added_reader_free(&r.added);
    if (ok) return t;
    tokenizer_close(t);
    return NULL;
}
