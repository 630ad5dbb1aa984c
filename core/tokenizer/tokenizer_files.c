/* A tokenizer read from a model folder: tokenizer.json, or vocab.txt and tokenizer_config.json. */
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "base/utf8.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/json_words.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

/* The largest published vocab.txt has 5 MB and half a million tokens. */
static const size_t vocabulary_max_bytes = (size_t)16 << 20, vocabulary_max_lines = (size_t)1 << 21;

enum { SPECIAL_UNKNOWN, SPECIAL_SEPARATOR, SPECIAL_PAD, SPECIAL_CLASS, SPECIAL_MASK, SPECIAL_COUNT };

/* What is known while a tokenizer is being made. */
struct reader {
    struct tokenizer *t;
    const char *folder;
    uint32_t vocabulary; /* ids the model has */
    enum strip { STRIP_FOLLOWS_LOWERCASE, STRIP_OFF, STRIP_ON } strip;
    struct list text;     /* the characters of the vocabulary */
    struct token *tokens; /* [the vocabulary's entries] */
    size_t token_count;
    struct added_reader added;
    struct json_words json; /* the vocabulary of tokenizer.json, where it is plain */
    struct error *e;
};

/* Puts the file's path before the error. Always false. */
static bool fail_at(struct reader *r, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%.600s/%s", r->folder, name);
    return fail_in(r->e, path);
}

/* ---- texts and tokens ---- */

/* Room for the vocabulary; its characters, never more than its bytes, must not move while it is read. */
static bool words_reserve(struct reader *r, size_t tokens, size_t bytes)
{
    TRY(list_reserve(&r->text, bytes, r->e));
    r->tokens = host_alloc(&r->t->host, tokens, sizeof *r->tokens, r->e);
    return r->tokens;
}

/* `line`: white space at its end is not part of the token. */
static bool word_add(struct reader *r, const char *name, size_t bytes, bool line, uint64_t id)
{
    size_t first = r->text.count;
    TRY(list_add_text(&r->text, name, bytes, "a token of the vocabulary", r->e));
    const uint32_t *text = r->text.items + first;
    size_t length = r->text.count - first;
    while (line && length && unicode_is_space(text[length - 1])) length--;
    /* An empty line is a token as well, but one that no text contains. */
    if (id >= r->vocabulary && length)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "token \"%.*s\" has id %llu, but the model has %u ids: the files belong to different models",
                    bytes < 100 ? (int)bytes : 100, name, (unsigned long long)id, (unsigned)r->vocabulary);
    int32_t kept = id < r->vocabulary ? (int32_t)id : 0;
    r->tokens[r->token_count] = (struct token){text, length, kept, r->token_count};
    r->token_count++;
    return true;
}

static int32_t word_find(struct reader *r, const char *name)
{
    uint32_t text[256];
    size_t length = 0, bytes = strlen(name);
    for (size_t i = 0; i < bytes && length < 256;) i += utf8_decode(name + i, bytes - i, &text[length++], NULL);
    return length < 256 ? vocabulary_find(&r->t->words, text, length) : -1;
}

static bool words_build(struct reader *r, const char *unknown, const char *prefix)
{
    struct tokenizer *t = r->t;
    TRY(vocabulary_build(&t->host, r->tokens, r->token_count, &t->words, r->e));
    t->unknown = word_find(r, unknown);
    if (t->unknown < 0)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "the vocabulary (%zu tokens) has no \"%.100s\", which stands for unknown words", t->words.tokens,
                    unknown);
    struct list start = {.host = &t->host};
    bool ok = list_add_text(&start, prefix, strlen(prefix), NULL, r->e);
    t->continuation = vocabulary_walk(&t->words, VOCABULARY_ROOT, start.items, start.count);
    if (ok && t->max_word > WORD_LONG)
        ok = patterns_build_tails(&t->host, r->tokens, t->words.tokens, start.items, start.count, &t->continued, r->e);
    list_free(&start);
    return ok;
}

/* ---- JSON ---- */

static bool wrong_type(struct reader *r, const char *key, const char *wanted)
{
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is missing or is not %s", key, wanted);
}

static bool get_bool(struct reader *r, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) return wrong_type(r, key, "true or false");
    *out = json_is_true(value);
    return true;
}

static bool get_string(struct reader *r, const json_t *object, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(object, key));
    return *out || wrong_type(r, key, "a string");
}

static bool get_count(struct reader *r, const json_t *value, const char *key, uint32_t limit, uint32_t *out)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0) return wrong_type(r, key, "a whole number from 0 on");
    if (number >= limit)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is %lld, but must be below %u", key, (long long)number,
                    limit);
    *out = (uint32_t)number;
    return true;
}

/* The "type" of one part of tokenizer.json, which must be `wanted`. */
static bool require_type(struct reader *r, const json_t *part, const char *what, const char *wanted)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type && !strcmp(type, wanted)) return true;
    return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its %s is %s%.100s%s; only %s is supported", what, type ? "\"" : "",
                type ? type : "of no kind", type ? "\"" : "", wanted);
}

/* ---- added tokens ---- */

/* An added token written as an object. */
static bool added_parse(struct reader *r, const json_t *object, const char **content, struct added_entry *out)
{
    *out = (struct added_entry){0};
    return get_string(r, object, "content", content) && get_bool(r, object, "single_word", &out->token.single_word) &&
           get_bool(r, object, "lstrip", &out->token.lstrip) && get_bool(r, object, "rstrip", &out->token.rstrip) &&
           get_bool(r, object, "normalized", &out->normalized);
}

/* ---- templates ---- */

/* A sequence of more special tokens than that is no model's, and would only make every text slow. */
enum { TEMPLATE_MOST = 64 };

static bool template_add(struct reader *r, struct template *form, enum piece_kind kind, int32_t id, uint32_t type)
{
    struct piece *pieces = host_grow(&r->t->host, form->pieces, form->count, form->count + 1, sizeof *pieces, r->e);
    if (!pieces) return false;
    form->pieces = pieces;
    pieces[form->count++] = (struct piece){kind, id, (int32_t)type};
    form->special += kind == PIECE_TOKEN;
    return true;
}

/* [CLS] first [SEP], and [CLS] first [SEP] second [SEP]; -1: without these. */
static bool template_bert(struct reader *r, int32_t cls, int32_t sep)
{
    for (int pair = 0; pair < 2; pair++) {
        struct template *form = pair ? &r->t->pair : &r->t->single;
        if (cls >= 0) TRY(template_add(r, form, PIECE_TOKEN, cls, 0));
        TRY(template_add(r, form, PIECE_FIRST, 0, 0));
        if (sep >= 0) TRY(template_add(r, form, PIECE_TOKEN, sep, 0));
        if (!pair) continue;
        TRY(template_add(r, form, PIECE_SECOND, 0, 1));
        if (sep >= 0) TRY(template_add(r, form, PIECE_TOKEN, sep, 1));
    }
    return true;
}

static bool template_special(struct reader *r, const json_t *processor, const char *name, uint32_t type,
                             struct template *form)
{
    const json_t *ids = json_object_get(json_object_get(json_object_get(processor, "special_tokens"), name), "ids");
    if (!json_is_array(ids))
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "its \"special_tokens\" lack \"%.100s\"", name);
    if (form->count + json_array_size(ids) > TEMPLATE_MOST) return wrong_type(r, "ids", "a short array");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        uint32_t id = 0;
        TRY(get_count(r, json_array_get(ids, i), "ids", r->vocabulary, &id));
        TRY(template_add(r, form, PIECE_TOKEN, (int32_t)id, type));
    }
    return true;
}

static bool template_parse(struct reader *r, const json_t *processor, const char *key, struct template *form)
{
    const json_t *pieces = json_object_get(processor, key);
    int texts[2] = {0}; /* how often each is there: where to cut is counted for once */
    if (!json_is_array(pieces) || json_array_size(pieces) > TEMPLATE_MOST) return wrong_type(r, key, "a short array");
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i), *sequence = json_object_get(piece, "Sequence"),
                     *special = json_object_get(piece, "SpecialToken"), *one = sequence ? sequence : special;
        const char *id = "";
        uint32_t type = 0;
        if (!one) return wrong_type(r, key, "made of \"Sequence\" and \"SpecialToken\"");
        TRY(get_string(r, one, "id", &id) &&
            get_count(r, json_object_get(one, "type_id"), "type_id", INT32_MAX, &type));
        if (special) {
            TRY(template_special(r, processor, id, type, form));
        } else {
            bool second = !strcmp(id, "B");
            if ((!second && strcmp(id, "A")) || (second && form == &r->t->single))
                return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" has a sequence \"%.100s\"", key, id);
            TRY(template_add(r, form, second ? PIECE_SECOND : PIECE_FIRST, 0, type));
            texts[second]++;
        }
    }
    bool pair = form == &r->t->pair;
    if (texts[0] == 1 && texts[1] == pair) return true;
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" does not have %s exactly once", key,
                pair ? "each of the sequences \"A\" and \"B\"" : "the sequence \"A\"");
}

static bool read_processor(struct reader *r, const json_t *processor)
{
    if (!processor || json_is_null(processor)) return template_bert(r, -1, -1);
    const char *type = json_string_value(json_object_get(processor, "type"));
    if (!type || strcmp(type, "BertProcessing")) {
        TRY(require_type(r, processor, "post-processor", "TemplateProcessing"));
        return template_parse(r, processor, "single", &r->t->single) &&
               template_parse(r, processor, "pair", &r->t->pair);
    }
    uint32_t cls = 0, sep = 0;
    TRY(get_count(r, json_array_get(json_object_get(processor, "cls"), 1), "cls", r->vocabulary, &cls) &&
        get_count(r, json_array_get(json_object_get(processor, "sep"), 1), "sep", r->vocabulary, &sep));
    return template_bert(r, (int32_t)cls, (int32_t)sep);
}

/* ---- tokenizer_config.json ---- */

/* Settings of the normalizer, which Hugging Face's BertTokenizerFast prefers to those of tokenizer.json. */
static bool read_settings(struct reader *r, const json_t *config)
{
    struct tokenizer *t = r->t;
    bool strip = false, lowercase = t->lowercase, ideographs = t->split_ideographs;
    enum strip old = r->strip;
    if (json_object_get(config, "do_lower_case")) TRY(get_bool(r, config, "do_lower_case", &t->lowercase));
    if (json_object_get(config, "tokenize_chinese_chars"))
        TRY(get_bool(r, config, "tokenize_chinese_chars", &t->split_ideographs));
    if (json_is_null(json_object_get(config, "strip_accents"))) {
        r->strip = STRIP_FOLLOWS_LOWERCASE;
    } else if (json_object_get(config, "strip_accents")) {
        TRY(get_bool(r, config, "strip_accents", &strip));
        r->strip = strip ? STRIP_ON : STRIP_OFF;
    }
    if (lowercase != t->lowercase || ideographs != t->split_ideographs || old != r->strip)
        host_log(&t->host, WHERRY_LOG_INFO, "%.500s: tokenizer_config.json overrides how text is normalized",
                 r->folder);
    return true;
}

/* A special token's name: a string, an object, or null for none. */
static bool read_special(struct reader *r, const json_t *value, const char *key, const char **content,
                         struct added_entry *entry)
{
    *entry = (struct added_entry){0};
    *content = NULL;
    if (!value || json_is_null(value)) return true;
    if (json_is_object(value)) return added_parse(r, value, content, entry);
    *content = json_string_value(value);
    return *content || wrong_type(r, key, "a string or an object");
}

/* Added tokens where there is no tokenizer.json. A special token that the vocabulary lacks has no row in the model, so
 * its name in a text is text. */
static bool read_config_added(struct reader *r, const json_t *config, const char *specials[SPECIAL_COUNT])
{
    static const struct {
        const char *key, *content;
    } names[SPECIAL_COUNT] = {
        [SPECIAL_UNKNOWN] = {"unk_token", "[UNK]"}, [SPECIAL_SEPARATOR] = {"sep_token", "[SEP]"},
        [SPECIAL_PAD] = {"pad_token", "[PAD]"},     [SPECIAL_CLASS] = {"cls_token", "[CLS]"},
        [SPECIAL_MASK] = {"mask_token", "[MASK]"},
    };
    struct added_entry entry;
    const char *content, *id;
    json_t *value;
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        value = json_object_get(config, names[i].key);
        TRY(read_special(r, value, names[i].key, &specials[i], &entry));
        if (!value) specials[i] = names[i].content;
        if (!specials[i] && i != SPECIAL_PAD && i != SPECIAL_MASK) return wrong_type(r, names[i].key, "a token");
        TRY(added_add(&r->added, specials[i], &entry, true, r->e));
    }
    const json_t *more = json_object_get(config, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(more); i++)
        TRY(read_special(r, json_array_get(more, i), "additional_special_tokens", &content, &entry) &&
            added_add(&r->added, content, &entry, false, r->e));
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), id, value)
        TRY(added_parse(r, value, &content, &entry) && added_add(&r->added, content, &entry, false, r->e));
    return true;
}

/* ---- vocab.txt ---- */

/* A token a line, its id the line's number from 0. White space at a line's end is not part of the token. */
static bool read_lines(struct reader *r, const char *data, size_t size)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    if (lines > vocabulary_max_lines)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "it has %zu lines, and %zu are the most that are read", lines,
                    vocabulary_max_lines);
    TRY(words_reserve(r, lines + 1, size));
    for (size_t begin = 0, line = 0; begin < size; line++) {
        const char *end = memchr(data + begin, '\n', size - begin);
        size_t length = end ? (size_t)(end - data) - begin : size - begin;
        TRY(word_add(r, data + begin, length, true, line));
        begin += length + 1;
    }
    return r->token_count || fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the file is empty: get it again");
}

static bool read_words(struct reader *r, const char *data, size_t size, const char *specials[SPECIAL_COUNT])
{
    TRY(read_lines(r, data, size) && words_build(r, specials[SPECIAL_UNKNOWN], "##"));
    int32_t cls = word_find(r, specials[SPECIAL_CLASS]), sep = word_find(r, specials[SPECIAL_SEPARATOR]);
    if (cls < 0 || sep < 0)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the vocabulary (%zu tokens) has no \"%.100s\"", r->t->words.tokens,
                    specials[cls < 0 ? SPECIAL_CLASS : SPECIAL_SEPARATOR]);
    return template_bert(r, cls, sep);
}

static bool read_vocabulary(struct reader *r, const json_t *config)
{
    struct tokenizer *t = r->t;
    const char *specials[SPECIAL_COUNT];
    t->clean = t->split_ideographs = t->lowercase = true;
    t->max_word = 100;
    if (!read_settings(r, config) || !read_config_added(r, config, specials))
        return fail_at(r, "tokenizer_config.json");
    char *path = path_join(&t->host, r->folder, "vocab.txt", r->e), *data = NULL;
    size_t size = 0;
    bool got = path && file_read(&t->host, path, vocabulary_max_bytes, &data, &size, r->e);
    bool ok = got && read_words(r, data, size, specials);
    if (got && !ok) fail_at(r, "vocab.txt");
    host_free(&t->host, data);
    host_free(&t->host, path);
    return ok;
}

/* ---- tokenizer.json ---- */

static bool read_model(struct reader *r, const json_t *model)
{
    const char *unknown, *prefix, *name;
    json_t *value;
    uint32_t max_word = 0;
    /* Files of early versions don't name the type. */
    if (!json_is_object(model) || json_object_get(model, "type")) TRY(require_type(r, model, "model", "WordPiece"));
    if (json_object_get(model, "merges"))
        return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its model is \"BPE\"; only WordPiece is supported");
    const json_t *vocabulary = json_object_get(model, "vocab");
    if (json_is_array(vocabulary))
        return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its model is \"Unigram\"; only WordPiece is supported");
    if (!json_is_object(vocabulary)) return wrong_type(r, "vocab", "an object");
    TRY(get_string(r, model, "unk_token", &unknown) && get_string(r, model, "continuing_subword_prefix", &prefix) &&
        get_count(r, json_object_get(model, "max_input_chars_per_word"), "max_input_chars_per_word", UINT32_MAX,
                  &max_word));
    r->t->max_word = max_word;
    size_t bytes = 0;
    for (size_t i = 0; i < r->json.count; i++) bytes += r->json.list[i].bytes;
    json_object_foreach((json_t *)vocabulary, name, value) bytes += strlen(name);
    TRY(words_reserve(r, json_object_size(vocabulary) + r->json.count, bytes));
    for (size_t i = 0; i < r->json.count; i++)
        TRY(word_add(r, r->json.list[i].text, r->json.list[i].bytes, false, r->json.list[i].id));
    json_object_foreach((json_t *)vocabulary, name, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the id of token \"%.100s\" is not a whole number from 0 on",
                        name);
        TRY(word_add(r, name, strlen(name), false, (uint64_t)json_integer_value(value)));
    }
    return words_build(r, unknown, prefix);
}

static bool read_normalizer(struct reader *r, const json_t *normalizer)
{
    struct tokenizer *t = r->t;
    bool strip = false;
    r->strip = STRIP_OFF;
    if (!normalizer || json_is_null(normalizer)) return true;
    TRY(require_type(r, normalizer, "normalizer", "BertNormalizer"));
    TRY(get_bool(r, normalizer, "clean_text", &t->clean) &&
        get_bool(r, normalizer, "handle_chinese_chars", &t->split_ideographs) &&
        get_bool(r, normalizer, "lowercase", &t->lowercase));
    const json_t *value = json_object_get(normalizer, "strip_accents");
    r->strip = STRIP_FOLLOWS_LOWERCASE;
    if (!value || json_is_null(value)) return true;
    TRY(get_bool(r, normalizer, "strip_accents", &strip));
    r->strip = strip ? STRIP_ON : STRIP_OFF;
    return true;
}

/* Its padding and truncation are not read: there is no padding here, and the caller says where to cut. */
static bool read_parts(struct reader *r, const json_t *root)
{
    if (!json_is_object(root)) return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "this is not a JSON object");
    const char *version = json_string_value(json_object_get(root, "version"));
    if (version && strcmp(version, "1.0"))
        return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its version is \"%.100s\"; only 1.0 is supported", version);
    TRY(read_model(r, json_object_get(root, "model")) && read_normalizer(r, json_object_get(root, "normalizer")));
    TRY(require_type(r, json_object_get(root, "pre_tokenizer"), "pre-tokenizer", "BertPreTokenizer"));
    TRY(read_processor(r, json_object_get(root, "post_processor")));
    const json_t *added = json_object_get(root, "added_tokens");
    if (added && !json_is_array(added)) return wrong_type(r, "added_tokens", "an array");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const char *content;
        struct added_entry entry;
        TRY(added_parse(r, json_array_get(added, i), &content, &entry) &&
            added_add(&r->added, content, &entry, false, r->e));
    }
    return true;
}

static bool read_json(struct reader *r, const json_t *config)
{
    json_t *root = NULL;
    TRY(json_words_read(&r->t->host, r->folder, "tokenizer.json", &json_tokenizer, &r->json, &root, r->e));
    bool ok = read_parts(r, root);
    json_decref(root);
    /* Equal words are found by the reader of JSON, whose errors come first. */
    bool whole = r->json.count && (!ok || r->t->words.tokens < r->token_count);
    struct error wrong;
    if (whole && !json_file_read(&r->t->host, r->folder, "tokenizer.json", &json_tokenizer, 0, &root, &wrong)) {
        *r->e = wrong;
        return false;
    }
    if (whole) json_decref(root);
    if (!ok) return fail_at(r, "tokenizer.json");
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    return (class && !tokenizer_is_bert(class)) || read_settings(r, config) || fail_at(r, "tokenizer_config.json");
}

/* ---- all together ---- */

static bool read_config(struct reader *r, json_t **config)
{
    bool has;
    TRY(folder_has(&r->t->host, r->folder, "tokenizer_config.json", &has, r->e));
    if (!has) return true;
    TRY(json_file_read(&r->t->host, r->folder, "tokenizer_config.json", &json_tokenizer_config, JSON_DECODE_INT_AS_REAL,
                       config, r->e));
    if (json_is_object(*config)) return true;
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "%.600s/tokenizer_config.json is not a JSON object", r->folder);
}

static bool read_folder(struct reader *r, const json_t *config)
{
    bool json, lines;
    TRY(folder_has(&r->t->host, r->folder, "tokenizer.json", &json, r->e) &&
        folder_has(&r->t->host, r->folder, "vocab.txt", &lines, r->e));
    if (!json && !lines)
        return fail(r->e, WHERRY_STATUS_IO, "%.600s has neither tokenizer.json nor vocab.txt", r->folder);
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    if (!json && class && !tokenizer_is_bert(class))
        return fail(
            r->e, WHERRY_STATUS_UNSUPPORTED,
            "%.600s/tokenizer_config.json asks for \"%.100s\": without a tokenizer.json only BERT's is supported",
            r->folder, class);
    TRY(json ? read_json(r, config) : read_vocabulary(r, config));
    r->t->strip_accents = r->strip == STRIP_FOLLOWS_LOWERCASE ? r->t->lowercase : r->strip == STRIP_ON;
    return added_build(r->t, &r->added, r->vocabulary, r->e) ||
           fail_at(r, json ? "tokenizer.json" : "tokenizer_config.json");
}

struct tokenizer *tokenizer_open(const struct host *host, const char *folder, uint32_t vocabulary, struct error *e)
{
    struct tokenizer *t = host_alloc(host, 1, sizeof *t, e);
    if (!t) return NULL;
    t->host = *host;
    struct reader r = {.t = t,
                       .folder = folder,
                       .vocabulary = vocabulary,
                       .text = {.host = &t->host},
                       .added = {.text = {.host = &t->host}},
                       .e = e};
    if (vocabulary > INT32_MAX) r.vocabulary = INT32_MAX;
    json_t *config = NULL;
    bool ok = read_config(&r, &config) && read_folder(&r, config);
    json_decref(config);
    json_words_free(host, &r.json);
    list_free(&r.text);
    host_free(host, r.tokens);
    added_reader_free(&r.added);
    if (ok) return t;
    tokenizer_close(t);
    return NULL;
}
