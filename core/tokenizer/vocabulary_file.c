/* BERT's tokenizer from its older files: vocab.txt, and tokenizer_config.json where there is one. */
#include <string.h>

#include "base/source.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/word_piece.h"

/* The largest published vocab.txt has 5 MB and half a million tokens. */
static const size_t vocabulary_max_bytes = (size_t)16 << 20, vocabulary_max_lines = (size_t)1 << 21;

enum { SPECIAL_UNKNOWN, SPECIAL_SEPARATOR, SPECIAL_PAD, SPECIAL_CLASS, SPECIAL_MASK, SPECIAL_COUNT };

/* A special token that the vocabulary lacks has no row in the model, so its name in a text is text. */
static bool read_config_added(struct file_reader *r, const char *specials[SPECIAL_COUNT])
{
    static const struct {
        const char *key, *content;
    } names[SPECIAL_COUNT] = {
        [SPECIAL_UNKNOWN] = {"unk_token", "[UNK]"}, [SPECIAL_SEPARATOR] = {"sep_token", "[SEP]"},
        [SPECIAL_PAD] = {"pad_token", "[PAD]"},     [SPECIAL_CLASS] = {"cls_token", "[CLS]"},
        [SPECIAL_MASK] = {"mask_token", "[MASK]"},
    };
    struct added_entry entry;
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        const json_t *value = json_object_get(r->config, names[i].key);
        TRY(file_special(r, value, names[i].key, &specials[i], &entry));
        if (!value) specials[i] = names[i].content;
        if (!specials[i] && i != SPECIAL_PAD && i != SPECIAL_MASK) return part_wrong(&r->part, names[i].key, "a token");
        TRY(added_add(&r->added, specials[i], &entry, true, r->part.e));
    }
    return file_more_added(r);
}

/* A token a line, its id the line's number from 0. White space at a line's end is not part of the token. */
static bool read_lines(const struct part_reader *r, const char *data, size_t size, struct words *words)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    if (lines > vocabulary_max_lines)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "it has %zu lines, and %zu are the most that are read", lines,
                    vocabulary_max_lines);
    TRY(words_reserve(r, words, lines + 1, size));
    for (size_t begin = 0, line = 0; begin < size; line++) {
        const char *end = memchr(data + begin, '\n', size - begin);
        size_t length = end ? (size_t)(end - data) - begin : size - begin;
        TRY(words_add(r, words, data + begin, length, true, line));
        begin += length + 1;
    }
    return words->count || fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the file is empty: get it again");
}

static bool make_model(struct file_reader *r, const char *data, size_t size, const char *specials[SPECIAL_COUNT])
{
    enum { WORD_MOST = 100 };
    struct tokenizer *t = r->t;
    struct words words = {.count = 0};
    t->model.kind = &model_word_piece;
    bool ok = read_lines(&r->part, data, size, &words) &&
              word_piece_make(&r->part, &words, specials[SPECIAL_UNKNOWN], "##", WORD_MOST, &t->model.data);
    words_free(&t->host, &words);
    if (!ok) return false;
    int32_t cls = model_find(&t->model, specials[SPECIAL_CLASS]),
            sep = model_find(&t->model, specials[SPECIAL_SEPARATOR]);
    if (cls < 0 || sep < 0)
        return fail(r->part.e, WHERRY_STATUS_BAD_FORMAT, "the vocabulary (%zu tokens) has no \"%.100s\"",
                    t->model.kind->size(t->model.data), specials[cls < 0 ? SPECIAL_CLASS : SPECIAL_SEPARATOR]);
    return post_processor_bert(&r->part, cls, sep, &t->post);
}

/* BERT's normalizer, as the configuration says. */
static bool make_normalizer(struct file_reader *r)
{
    struct bert_normalizer *bert = host_alloc(&r->t->host, 1, sizeof *bert, r->part.e);
    if (!bert) return false;
    *bert = (struct bert_normalizer){.clean = true, .split_ideographs = true, .lowercase = true, .strip_follows = true};
    return normalizers_add(&r->part, &normalizer_bert, bert, &r->t->normalizers) && file_bert_settings(r, bert);
}

bool read_vocabulary(struct file_reader *r)
{
    struct tokenizer *t = r->t;
    const char *specials[SPECIAL_COUNT];
    if (r->class_name && !file_is_bert(r->class_name))
        return fail(r->part.e, WHERRY_STATUS_UNSUPPORTED,
                    "%.600s/tokenizer_config.json asks for \"%.100s\": from a vocab.txt only BERT's tokenizer is read",
                    r->folder, r->class_name);
    if (!make_normalizer(r) || !read_config_added(r, specials)) return file_fail(r, "tokenizer_config.json");
    char *path = path_join(&t->host, r->folder, "vocab.txt", r->part.e), *data = NULL;
    size_t size = 0;
    bool got = path && source_read_all(&t->host, path, vocabulary_max_bytes, &data, &size, r->part.e);
    bool ok = got && make_model(r, data, size, specials);
    if (got && !ok) file_fail(r, "vocab.txt");
    host_free(&t->host, data);
    host_free(&t->host, path);
    return ok && pre_tokenizers_add(&r->part, &pre_tokenizer_bert, NULL, &t->pre_tokenizers);
}
