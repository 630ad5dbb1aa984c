/* WordPiece: the longest token that a word begins with, then the longest that continues it. */
#include "tokenizer/word_piece.h"

#include <string.h>

#include "tokenizer/patterns.h"

/* A longer word is searched in linear time; trying all pieces at each place of a shorter one is faster. Hugging Face's
 * limit of a word, which next to all models have, is this. */
enum { WORD_LONG = 100 };

struct word_piece {
    struct vocabulary words;
    uint32_t continuation; /* the node that "##" leads to */
    bool marked;           /* that is not empty */
    int32_t unknown;
    size_t max_word;           /* in characters; a longer word is unknown */
    struct patterns continued; /* tokens that continue a word, without "##"; only where words may be WORD_LONG */
};

/* ---- read ---- */

bool word_piece_make(const struct part_reader *r, struct words *words, const char *unknown, const char *prefix,
                     size_t max_word, void **data)
{
    struct word_piece *m = host_alloc(r->host, 1, sizeof *m, r->e);
    if (!m) return false;
    *data = m;
    m->max_word = max_word;
    TRY(vocabulary_build(r->host, words->tokens, words->count, &m->words, r->e));
    m->unknown = words_find(&m->words, unknown);
    if (m->unknown < 0)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "the vocabulary (%zu tokens) has no \"%.100s\", which stands for unknown words", m->words.tokens,
                    unknown);
    struct list start = {.host = r->host};
    bool ok = list_add_text(&start, prefix, strlen(prefix), NULL, r->e);
    m->marked = start.count > 0;
    m->continuation = vocabulary_walk(&m->words, VOCABULARY_ROOT, start.items, start.count);
    if (ok && m->max_word > WORD_LONG)
        ok = patterns_build_tails(r->host, words->tokens, m->words.tokens, start.items, start.count, &m->continued,
                                  r->e);
    list_free(&start);
    return ok;
}

static bool open_word_piece(struct model_reader *r, const json_t *json, void **data)
{
    const char *unknown, *prefix;
    uint32_t max_word = 0;
    struct words words = {.count = 0};
    const json_t *vocabulary = json_object_get(json, "vocab");
    if (!json_is_object(vocabulary)) return part_wrong(&r->part, "vocab", "an object");
    TRY(part_string(&r->part, json, "unk_token", &unknown) &&
        part_string(&r->part, json, "continuing_subword_prefix", &prefix) &&
        part_count(&r->part, json_object_get(json, "max_input_chars_per_word"), "max_input_chars_per_word", UINT32_MAX,
                   &max_word));
    bool ok = words_read(&r->part, r->words, vocabulary, &words) &&
              word_piece_make(&r->part, &words, unknown, prefix, max_word, data);
    const struct word_piece *m = *data;
    r->twice = m && m->words.tokens < words.count;
    words_free(r->part.host, &words);
    return ok;
}

static void close_word_piece(const struct host *host, void *data)
{
    struct word_piece *m = data;
    vocabulary_free(host, &m->words);
    patterns_free(host, &m->continued);
    host_free(host, m);
}

static size_t size_word_piece(const void *data) { return ((const struct word_piece *)data)->words.tokens; }

static int32_t find_word_piece(const void *data, const uint32_t *text, size_t length)
{
    return vocabulary_find(&((const struct word_piece *)data)->words, text, length);
}

/* ---- at work ---- */

/* The longest token that continues a word at its character `at`: its length, 0 where there is none. `found`: of a long
 * word, what begins at each place. */
static size_t match_piece(const struct word_piece *m, const struct list *found, const struct view *word, size_t at,
                          int32_t *id)
{
    if (!at || word->length <= WORD_LONG)
        return vocabulary_match(&m->words, at ? m->continuation : VOCABULARY_ROOT, word->characters + at,
                                word->length - at, id);
    size_t n = 0;
    if (found->items[at]) *id = pattern_id(&m->continued, found->items[at], &n);
    return n;
}

static bool encode_pieces(const struct word_piece *m, const struct list *found, const struct view *word,
                          struct tokens *out)
{
    size_t before = out->count;
    for (size_t at = 0; at < word->length;) {
        int32_t id = 0;
        size_t n = match_piece(m, found, word, at, &id);
        if (!n) { /* a word that does not come out even is unknown */
            tokens_cut(out, before);
            return tokens_add(out, m->unknown, word, 0, word->length, TOKEN_OTHER);
        }
        TRY(tokens_add(out, id, word, at, at + n, at && m->marked ? TOKEN_MARKED : TOKEN_LITERAL));
        at += n;
    }
    return true;
}

static bool encode_word_piece(const void *data, const struct view *word, struct tokens *out)
{
    const struct word_piece *m = data;
    if (word->length > m->max_word) return tokens_add(out, m->unknown, word, 0, word->length, TOKEN_OTHER);
    if (word->length <= WORD_LONG) return encode_pieces(m, NULL, word, out);
    struct list found = {.host = out->host};
    bool ok = patterns_find(&m->continued, word->characters, word->length, 0, word->length, &found, out->e) &&
              encode_pieces(m, &found, word, out);
    list_free(&found);
    return ok;
}

static bool each_word_piece(const void *data, const struct host *host, vocabulary_visit visit, void *user,
                            struct error *e)
{
    const struct word_piece *m = data;
    return vocabulary_walk_all(host, &m->words, visit, user, e);
}

const struct model_kind model_word_piece = {"WordPiece",     open_word_piece,   close_word_piece, size_word_piece,
                                            find_word_piece, encode_word_piece, each_word_piece};
