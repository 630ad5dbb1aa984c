/* Byte pair encoding as a kind of model, read from tokenizer.json. */
#include "tokenizer/bpe_model.h"

#include <string.h>

/* ---- merges ---- */

bool bpe_merge_parse(const struct part_reader *r, const char *text, size_t bytes, size_t number,
                     struct bpe_merge_text *out)
{
    const char *space = memchr(text, ' ', bytes), *end = text + bytes;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "merge %zu, \"%.*s\", is not two tokens with one space between them", number,
                    bytes < 100 ? (int)bytes : 100, text);
    *out = (struct bpe_merge_text){{text, (size_t)(space - text)}, {space + 1, (size_t)(end - space - 1)}};
    return true;
}

/* The largest published vocabularies have some 600,000. */
enum { MERGES_MOST = 1 << 21 };

bool bpe_merge_add(const struct part_reader *r, struct bpe_merge_list *list, const struct bpe_merge_text *merge)
{
    if (list->count == MERGES_MOST)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "it has more than %d merges, the most that are read", MERGES_MOST);
    struct bpe_merge_text *items = host_grow_one(r->host, list->items, list->count, &list->room, sizeof *items, r->e);
    if (!items) return false;
    list->items = items;
    items[list->count++] = *merge;
    return true;
}

static struct bpe_part part_of(const json_t *string)
{
    return (struct bpe_part){json_string_value(string), json_string_length(string)};
}

/* One of "merges": "a b" or ["a", "b"], as `pairs` says. */
static bool read_merge(const struct part_reader *r, const json_t *json, bool pairs, size_t number,
                       struct bpe_merge_text *out)
{
    if (!pairs && json_is_string(json))
        return bpe_merge_parse(r, json_string_value(json), json_string_length(json), number, out);
    *out = (struct bpe_merge_text){part_of(json_array_get(json, 0)), part_of(json_array_get(json, 1))};
    if (pairs && json_array_size(json) == 2 && out->left.text && out->right.text) return true;
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "merge %zu is not %s, as the first is", number,
                pairs ? "an array of two strings" : "a string");
}

static bool read_merges(const struct part_reader *r, const json_t *json, struct bpe_merge_list *out)
{
    if (!json_is_array(json)) return part_wrong(r, "merges", "an array");
    bool pairs = json_is_array(json_array_get(json, 0));
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct bpe_merge_text merge;
        const char *text = json_string_value(json_array_get(json, i));
        if (!pairs && text && !strncmp(text, "#version", strlen("#version"))) continue;
        TRY(read_merge(r, json_array_get(json, i), pairs, i, &merge) && bpe_merge_add(r, out, &merge));
    }
    return true;
}

/* ---- the model ---- */

static bool get_text(const struct part_reader *r, const json_t *json, const char *key, const char *otherwise,
                     const char **out)
{
    const json_t *value = json_object_get(json, key);
    *out = otherwise;
    return !value || json_is_null(value) || part_string(r, json, key, out);
}

static bool read_options(const struct part_reader *r, const json_t *json, struct bpe_options *out)
{
    const json_t *dropout = json_object_get(json, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return fail(r->e, WHERRY_STATUS_UNSUPPORTED,
                    "\"dropout\" of its merges is not null or 0: it would encode a text each time in another way");
    *out = (struct bpe_options){0};
    return get_text(r, json, "unk_token", NULL, &out->unknown) &&
           get_text(r, json, "continuing_subword_prefix", "", &out->prefix) &&
           get_text(r, json, "end_of_word_suffix", "", &out->suffix) &&
           part_optional_bool(r, json, "fuse_unk", &out->fuse_unknown) &&
           part_optional_bool(r, json, "byte_fallback", &out->byte_fallback) &&
           part_optional_bool(r, json, "ignore_merges", &out->ignore_merges);
}

bool bpe_model_make(const struct part_reader *r, struct words *words, const struct bpe_merge_list *merges,
                    const struct bpe_options *options, void **data)
{
    struct bpe *bpe = host_alloc(r->host, 1, sizeof *bpe, r->e);
    *data = bpe;
    if (!bpe) words_free(r->host, words);
    return bpe && bpe_make(r, words, merges->items, merges->count, options, bpe);
}

static bool open_bpe(struct model_reader *r, const json_t *json, void **data)
{
    struct bpe_options options;
    struct bpe_merge_list merges = {0};
    struct words words = {.count = 0};
    const json_t *vocabulary = json_object_get(json, "vocab");
    if (!json_is_object(vocabulary)) return part_wrong(&r->part, "vocab", "an object");
    bool ok = read_options(&r->part, json, &options) && words_read(&r->part, r->words, vocabulary, &words) &&
              read_merges(&r->part, json_object_get(json, "merges"), &merges) &&
              bpe_model_make(&r->part, &words, &merges, &options, data);
    const struct bpe *bpe = *data;
    r->twice = bpe && bpe->duplicates;
    words_free(r->part.host, &words);
    host_free(r->part.host, merges.items);
    return ok;
}

static void close_bpe(const struct host *host, void *data)
{
    bpe_free(host, data);
    host_free(host, data);
}

static size_t size_bpe(const void *data)
{
    const struct bpe *bpe = data;
    return bpe->words.count - bpe->duplicates;
}

static int32_t find_bpe(const void *data, const uint32_t *text, size_t length)
{
    const struct bpe *bpe = data;
    uint32_t token = bpe_find(bpe, text, length);
    return token == BPE_NONE ? -1 : bpe->words.tokens[token].id;
}

static bool encode_bpe(const void *data, const struct view *piece, struct tokens *out)
{
    return bpe_encode(data, piece, out);
}

/* Of a token that is there twice, the one that counts. */
static bool each_bpe(const void *data, const struct host *host, vocabulary_visit visit, void *user, struct error *e)
{
    const struct bpe *bpe = data;
    (void)host, (void)e;
    for (size_t i = 0; i < bpe->words.count; i++) {
        const struct token *token = &bpe->words.tokens[i];
        if (token->length && bpe_find(bpe, token->text, token->length) == i)
            TRY(visit(token->text, token->length, token->id, user));
    }
    return true;
}

const struct model_kind model_bpe = {"BPE", open_bpe, close_bpe, size_bpe, find_bpe, encode_bpe, each_bpe};
