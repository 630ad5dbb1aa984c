/* Unigram: of all ways to cut a piece of text into tokens, the one whose scores add up to the most. */
#include "tokenizer/unigram.h"

#include <math.h>

#include "base/utf8.h"

static const double unknown_penalty = 10;

/* In characters; published vocabularies have at most some 30. Every place of a text costs as many steps as the longest
 * token has characters. */
enum { TOKEN_MOST = 256 };

struct unigram {
    struct vocabulary words;
    double *scores; /* [size] by id */
    size_t size;
    double unknown_score; /* of a character that no token has */
    int32_t unknown;
    bool byte_fallback;
    int32_t bytes[256]; /* the tokens of bytes, -1: there is none */
};

/* ---- read ---- */

static void find_bytes(struct unigram *m)
{
    static const char digits[] = "0123456789ABCDEF";
    char name[] = "<0x00>";
    for (int i = 0; i < 256; i++) {
        name[3] = digits[i >> 4];
        name[4] = digits[i & 15];
        m->bytes[i] = words_find(&m->words, name);
    }
}

bool unigram_make(const struct part_reader *r, struct words *words, const double *scores, int32_t unknown,
                  bool byte_fallback, void **data)
{
    struct unigram *m = host_alloc(r->host, 1, sizeof *m, r->e);
    if (!m) return false;
    *data = m;
    m->size = words->count;
    m->unknown = unknown;
    m->byte_fallback = byte_fallback;
    if (!(m->scores = host_alloc(r->host, m->size, sizeof *m->scores, r->e))) return false;
    double least = HUGE_VAL;
    for (size_t i = 0; i < m->size; i++) {
        if (!isfinite(scores[i]))
            return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the score of token %zu is not finite: the file is damaged", i);
        if (words->tokens[i].length > TOKEN_MOST)
            return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                        "token %zu has %zu characters, and %d are the most that are read", i, words->tokens[i].length,
                        (int)TOKEN_MOST);
        m->scores[i] = scores[i];
        if (scores[i] < least) least = scores[i];
    }
    m->unknown_score = least - unknown_penalty;
    TRY(vocabulary_build(r->host, words->tokens, words->count, &m->words, r->e));
    if (byte_fallback) find_bytes(m);
    return true;
}

/* The words that are not plain, one by one. */
static bool read_listed(const struct model_reader *r, const json_t *vocabulary, struct words *words, double *scores)
{
    for (size_t i = 0; i < json_array_size(vocabulary); i++) {
        const json_t *entry = json_array_get(vocabulary, i), *name = json_array_get(entry, 0),
                     *score = json_array_get(entry, 1);
        if (json_array_size(entry) != 2 || !json_is_string(name) || !json_is_number(score))
            return part_wrong(&r->part, "vocab", "made of [token, score]");
        scores[i] = json_number_value(score);
        TRY(words_add(&r->part, words, json_string_value(name), json_string_length(name), false, i));
    }
    return true;
}

static bool read_words(const struct model_reader *r, const json_t *vocabulary, struct words *words, double **scores)
{
    const struct json_words *plain = r->words;
    size_t bytes = 0, count = json_array_size(vocabulary) + plain->count;
    for (size_t i = 0; i < plain->count; i++) bytes += plain->list[i].bytes;
    for (size_t i = 0; i < json_array_size(vocabulary); i++)
        bytes += json_string_length(json_array_get(json_array_get(vocabulary, i), 0));
    TRY(words_reserve(&r->part, words, count, bytes));
    if (!(*scores = host_alloc(r->part.host, count, sizeof **scores, r->part.e))) return false;
    for (size_t i = 0; i < plain->count; i++) {
        const struct json_word *word = &plain->list[i];
        (*scores)[i] = word->score;
        TRY(words_add(&r->part, words, word->text, word->bytes, false, word->id));
    }
    return read_listed(r, vocabulary, words, *scores);
}

static bool open_unigram(struct model_reader *r, const json_t *json, void **data)
{
    const json_t *vocabulary = json_object_get(json, "vocab"), *unknown = json_object_get(json, "unk_id");
    struct words words = {.count = 0};
    double *scores = NULL;
    bool byte_fallback = false;
    uint32_t id = 0;
    if (!json_is_array(vocabulary)) return part_wrong(&r->part, "vocab", "an array");
    TRY(part_optional_bool(&r->part, json, "byte_fallback", &byte_fallback));
    bool has_unknown = unknown && !json_is_null(unknown);
    bool ok =
        read_words(r, vocabulary, &words, &scores) &&
        (!has_unknown || part_count(&r->part, unknown, "unk_id", (uint32_t)words.count, &id)) &&
        unigram_make(&r->part, &words, scores, has_unknown ? (int32_t)id : UNIGRAM_NO_UNKNOWN, byte_fallback, data);
    host_free(r->part.host, scores);
    words_free(r->part.host, &words);
    return ok;
}

static void close_unigram(const struct host *host, void *data)
{
    struct unigram *m = data;
    vocabulary_free(host, &m->words);
    host_free(host, m->scores);
    host_free(host, m);
}

static size_t size_unigram(const void *data) { return ((const struct unigram *)data)->size; }

static int32_t find_unigram(const void *data, const uint32_t *text, size_t length)
{
    return vocabulary_find(&((const struct unigram *)data)->words, text, length);
}

/* ---- at work ---- */

/* The best way to a place of the piece: its last token is `id`, from `start` on. */
struct node {
    double score;
    uint32_t start; /* NOWHERE: there is no way yet */
    uint32_t end;   /* on the best way of all: where the token that begins here ends */
    int32_t id;
};

#define NOWHERE UINT32_MAX

static void offer(struct node *node, double score, size_t start, int32_t id)
{
    if (node->start != NOWHERE && !(score > node->score)) return;
    node->score = score;
    node->start = (uint32_t)start;
    node->id = id;
}

/* Viterbi's search. Of two ways of the same score the one that is found first stays: that whose last token begins
 * earlier. False: a character has no token. */
static bool find_ways(const struct unigram *m, const struct view *piece, struct node *nodes)
{
    for (size_t i = 0; i <= piece->length; i++) nodes[i].start = NOWHERE;
    nodes[0].score = 0;
    for (size_t at = 0; at < piece->length; at++) {
        double here = nodes[at].score;
        bool single = false;
        uint32_t node = VOCABULARY_ROOT;
        for (size_t i = at; i < piece->length; i++) {
            node = vocabulary_walk(&m->words, node, &piece->characters[i], 1);
            if (node == VOCABULARY_NOWHERE) break;
            int32_t id = m->words.nodes[node].id;
            if (id < 0) continue;
            offer(&nodes[i + 1], m->scores[id] + here, at, id);
            single = single || i == at;
        }
        if (single) continue;
        if (m->unknown < 0) return false;
        offer(&nodes[at + 1], m->unknown_score + here, at, m->unknown);
    }
    return true;
}

/* The tokens of the bytes of piece[first, end), each of which comes from all of it. *done: all are there. */
static bool add_bytes(const struct unigram *m, const struct view *piece, size_t first, size_t end, struct tokens *out,
                      bool *done)
{
    size_t before = out->count;
    *done = false;
    for (size_t i = first; i < end; i++) {
        char bytes[4];
        size_t n = utf8_write(piece->characters[i], bytes);
        for (size_t k = 0; k < n; k++) {
            if (m->bytes[(unsigned char)bytes[k]] < 0) {
                tokens_cut(out, before);
                return true;
            }
            TRY(tokens_add(out, m->bytes[(unsigned char)bytes[k]], piece, first, end, TOKEN_OTHER));
        }
    }
    *done = true;
    return true;
}

/* Unknown characters in a row: one token, which the vocabulary may have after all. */
static bool add_unknown(const struct unigram *m, const struct view *piece, size_t first, size_t end, struct tokens *out)
{
    int32_t id = vocabulary_find(&m->words, piece->characters + first, end - first);
    bool done = false;
    if (id >= 0) return tokens_add(out, id, piece, first, end, TOKEN_LITERAL);
    if (m->byte_fallback) TRY(add_bytes(m, piece, first, end, out, &done));
    return done || tokens_add(out, m->unknown, piece, first, end, TOKEN_LITERAL);
}

static bool encode_unigram(const void *data, const struct view *piece, struct tokens *out)
{
    const struct unigram *m = data;
    struct node *nodes = tokens_scratch(out, piece->length + 1, sizeof *nodes);
    if (!nodes) return false;
    if (!find_ways(m, piece, nodes))
        return fail(out->e, WHERRY_STATUS_BAD_FORMAT,
                    "the text has a character that no token has, and the tokenizer has no token for that (unk_id)");
    for (size_t end = piece->length; end; end = nodes[end].start) nodes[nodes[end].start].end = (uint32_t)end;
    for (size_t at = 0, end; at < piece->length && !out->full; at = end) {
        end = nodes[at].end;
        int32_t id = nodes[end].id;
        if (id != m->unknown) {
            TRY(tokens_add(out, id, piece, at, end, TOKEN_LITERAL));
            continue;
        }
        while (end < piece->length && nodes[nodes[end].end].id == m->unknown) end = nodes[end].end;
        TRY(add_unknown(m, piece, at, end, out));
    }
    return true;
}

static bool each_unigram(const void *data, const struct host *host, vocabulary_visit visit, void *user, struct error *e)
{
    const struct unigram *m = data;
    return vocabulary_walk_all(host, &m->words, visit, user, e);
}

const struct model_kind model_unigram = {"Unigram",    open_unigram,   close_unigram, size_unigram,
                                         find_unigram, encode_unigram, each_unigram};
