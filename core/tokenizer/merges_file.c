/* RoBERTa's tokenizer from its older files: vocab.json and merges.txt, and tokenizer_config.json or
 * special_tokens_map.json where they are. */
#include <string.h>

#include "base/source.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/roberta_files.h"

static const size_t merges_max_bytes = (size_t)64 << 20;

/* GPT-2's and others have such files, too, and split or frame in another way. */
static bool check_class(const struct file_reader *r)
{
    return file_is_class(r, "RobertaTokenizer") ||
           file_refuse_class(r, "vocab.json and a merges.txt",
                             "from such files only that of RoBERTa is read: save it as a tokenizer.json");
}

/* ---- special tokens ---- */

static bool read_map(const struct file_reader *r, json_t **map)
{
    bool has = false;
    TRY(folder_has(r->part.host, r->folder, "special_tokens_map.json", &has, r->part.e));
    return !has || json_file_read(r->part.host, r->folder, "special_tokens_map.json", &json_tokenizer_config, 0,
                                        map, r->part.e);
}

/* Other files than these could name tokens: they must not be forgotten. */
static bool refuse_added(const struct file_reader *r)
{
    bool has = false;
    TRY(folder_has(r->part.host, r->folder, "added_tokens.json", &has, r->part.e));
    return !has || fail(r->part.e, WHERRY_STATUS_UNSUPPORTED,
                        "%.600s/added_tokens.json is not read: save the tokenizer as a tokenizer.json", r->folder);
}

/* The map counts where the configuration has no list of all tokens. */
static bool add_specials(struct file_reader *r, const json_t *map, const char *specials[ROBERTA_SPECIALS])
{
    struct added_entry entry;
    if (json_object_get(r->config, "added_tokens_decoder")) map = NULL;
    TRY(roberta_specials_add(r, map, true, specials));
    const json_t *more = json_object_get(map, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(more); i++) {
        const char *content;
        TRY(file_special(r, json_array_get(more, i), "additional_special_tokens", &content, &entry) &&
            added_add(&r->added, content, &entry, false, r->part.e));
    }
    return file_more_added(r);
}

static bool read_specials(struct file_reader *r, const char *specials[ROBERTA_SPECIALS], json_t **map)
{
    if (!read_map(r, map) || !refuse_added(r)) return false;
    return add_specials(r, *map, specials) ||
           file_fail(r, *map ? "special_tokens_map.json, tokenizer_config.json" : "tokenizer_config.json");
}

/* ---- the model ---- */

/* A merge a line, after a line with the version. */
static bool parse_merges(const struct part_reader *r, const char *text, size_t size, struct bpe_merge_list *out)
{
    for (size_t begin = 0, line = 1; begin < size; line++) {
        const char *end = memchr(text + begin, '\n', size - begin);
        size_t bytes = end ? (size_t)(end - text) - begin : size - begin, next = begin + bytes + 1;
        struct bpe_merge_text merge;
        if (end && bytes && text[begin + bytes - 1] == '\r') bytes--;
        bool version = bytes >= 8 && !memcmp(text + begin, "#version", 8);
        TRY(version || (bpe_merge_parse(r, text + begin, bytes, line, &merge) && bpe_merge_add(r, out, &merge)));
        begin = next;
    }
    return true;
}

static bool read_words(struct file_reader *r, struct words *words)
{
    const struct json_words none = {.count = 0};
    json_t *json = NULL;
    TRY(json_file_read(r->part.host, r->folder, "vocab.json", &json_tokenizer, 0, &json, r->part.e));
    bool ok = json_is_object(json) ? words_read(&r->part, &none, json, words)
                                   : fail(r->part.e, WHERRY_STATUS_BAD_FORMAT, "this is not a JSON object");
    json_decref(json);
    return ok || file_fail(r, "vocab.json");
}

/* Owns the words. */
static bool make_model(struct file_reader *r, const char *merges_text, size_t size, struct words *words)
{
    const struct bpe_options options = {.prefix = "", .suffix = ""};
    struct bpe_merge_list merges = {0};
    r->t->model.kind = &model_bpe;
    bool ok = parse_merges(&r->part, merges_text, size, &merges) &&
              bpe_model_make(&r->part, words, &merges, &options, &r->t->model.data);
    host_free(r->part.host, merges.items);
    return ok || file_fail(r, "merges.txt");
}

static bool read_model(struct file_reader *r)
{
    struct words words = {.count = 0};
    char *path = path_join(r->part.host, r->folder, "merges.txt", r->part.e), *text = NULL;
    size_t size = 0;
    bool ok = path && source_read_all(r->part.host, path, merges_max_bytes, &text, &size, r->part.e) &&
              read_words(r, &words) && make_model(r, text, size, &words);
    words_free(r->part.host, &words);
    host_free(r->part.host, text);
    host_free(r->part.host, path);
    return ok;
}

/* ---- all together ---- */

static bool make_parts(struct file_reader *r, const char *const specials[ROBERTA_SPECIALS])
{
    struct tokenizer *t = r->t;
    void *data = NULL;
    bool prefix = false, trim = true;
    TRY(part_optional_bool(&r->part, r->config, "add_prefix_space", &prefix) &&
        part_optional_bool(&r->part, r->config, "trim_offsets", &trim));
    TRY(byte_level_make(&r->part, prefix, &data) &&
        pre_tokenizers_add(&r->part, &pre_tokenizer_byte_level, data, &t->pre_tokenizers));
    if (trim) t->post.trims[t->post.trim_count++] = prefix;
    return roberta_frame(r, specials[ROBERTA_CLASS], specials[ROBERTA_SEPARATOR]);
}

bool read_merges(struct file_reader *r)
{
    const char *specials[ROBERTA_SPECIALS];
    json_t *map = NULL;
    bool ok = check_class(r) && read_specials(r, specials, &map) && read_model(r) &&
              (make_parts(r, specials) || file_fail(r, "tokenizer_config.json"));
    json_decref(map);
    return ok;
}
