/* BERT's tokenizer at work: added tokens, normalization, words, WordPiece, truncation, special tokens. */
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "tokenizer/added_tokens.h"
#include "tokenizer/unicode.h"

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    struct host host = t->host;
    vocabulary_free(&host, &t->words);
    patterns_free(&host, &t->continued);
    patterns_free(&host, &t->added_raw);
    patterns_free(&host, &t->added_normalized);
    host_free(&host, t->added);
    host_free(&host, t->single.pieces);
    host_free(&host, t->pair.pieces);
    host_free(&host, t);
}

/* ---- one text to ids ---- */

struct encoder {
    const struct tokenizer *tokenizer;
    struct list normalized; /* of the stretch of text at hand */
    struct list ids;
    struct list windows[2]; /* of the searches for raw and for normalized added tokens */
    struct list pieces;     /* of a long word */
    size_t limit;           /* what lies after that many ids doesn't matter */
    struct error *e;
};

static bool push_id(struct encoder *to, int32_t id)
{
    TRY(list_reserve(&to->ids, 1, to->e));
    to->ids.items[to->ids.count++] = (uint32_t)id;
    return true;
}

/* The longest token that continues a word at its character `at`: its length, 0 where there is none. */
static size_t match_piece(const struct encoder *to, const uint32_t *word, size_t length, size_t at, int32_t *id)
{
    const struct tokenizer *t = to->tokenizer;
    if (!at || length <= WORD_LONG)
        return vocabulary_match(&t->words, at ? t->continuation : VOCABULARY_ROOT, word + at, length - at, id);
    size_t n = 0;
    if (to->pieces.items[at]) *id = pattern_id(&t->continued, to->pieces.items[at], &n);
    return n;
}

/* The longest token first, then the longest that continues it; a word that does not come out even is unknown. */
static bool encode_word(struct encoder *to, const uint32_t *word, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    if (length > t->max_word) return push_id(to, t->unknown);
    if (length > WORD_LONG) TRY(patterns_find(&t->continued, word, length, 0, length, &to->pieces, to->e));
    size_t before = to->ids.count;
    for (size_t at = 0; at < length;) {
        int32_t id = 0;
        size_t n = match_piece(to, word, length, at, &id);
        if (!n) {
            to->ids.count = before;
            return push_id(to, t->unknown);
        }
        TRY(push_id(to, id));
        at += n;
    }
    return true;
}

/* Words end at white space, which is dropped, and at punctuation, each character of which is a word. */
static bool encode_words(struct encoder *to, const uint32_t *text, size_t length)
{
    size_t begin = 0;
    for (size_t i = 0; i <= length && to->ids.count <= to->limit; i++) {
        bool space = i == length || unicode_is_space(text[i]);
        bool alone = !space && unicode_classify(text[i]) == UNICODE_PUNCTUATION;
        if (!space && !alone) continue;
        if (begin < i) TRY(encode_word(to, text + begin, i - begin));
        if (alone) TRY(encode_word(to, text + i, 1));
        begin = i + 1;
    }
    return true;
}

/* A stretch without raw added tokens. */
static bool encode_stretch(struct encoder *to, const uint32_t *text, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    bool more = true;
    to->normalized.count = 0;
    TRY(tokenizer_normalize(t, text, length, &to->normalized, to->e));
    struct added_search s = {&t->added_normalized, to->normalized.items, to->normalized.count, &to->windows[1]};
    s.window->count = 0;
    while (to->ids.count <= to->limit) {
        TRY(added_next(t, &s, &more, to->e));
        if (!more) break;
        if (s.plain < s.start) TRY(encode_words(to, s.text + s.plain, s.start - s.plain));
        TRY(push_id(to, s.id));
    }
    return s.done == s.length || encode_words(to, s.text + s.done, s.length - s.done);
}

static bool encode_characters(struct encoder *to, const uint32_t *text, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    bool more = true;
    struct added_search s = {&t->added_raw, text, length, &to->windows[0]};
    while (to->ids.count <= to->limit) {
        TRY(added_next(t, &s, &more, to->e));
        if (!more) break;
        if (s.plain < s.start) TRY(encode_stretch(to, text + s.plain, s.start - s.plain));
        TRY(push_id(to, s.id));
    }
    return s.done == s.length || encode_stretch(to, text + s.done, s.length - s.done);
}

/* `ids` gets all ids of the text, or at least the first `limit` + 1 of them. */
static bool encode_text(const struct host *host, const struct tokenizer *t, const char *text, size_t bytes,
                        size_t limit, struct list *ids, struct error *e)
{
    struct list characters = {.host = host};
    struct encoder to = {.tokenizer = t,
                         .normalized = {.host = host},
                         .ids = {.host = host},
                         .windows = {{.host = host}, {.host = host}},
                         .pieces = {.host = host},
                         .limit = limit,
                         .e = e};
    bool ok =
        list_add_text(&characters, text, bytes, NULL, e) && encode_characters(&to, characters.items, characters.count);
    list_free(&characters);
    list_free(&to.normalized);
    list_free(&to.windows[0]);
    list_free(&to.windows[1]);
    list_free(&to.pieces);
    *ids = to.ids;
    return ok;
}

/* ---- classes ---- */

/* Others that come with a vocab.txt (BertJapanese, MPNet) split words or frame sequences in their own way. */
bool tokenizer_is_bert(const char *name)
{
    static const char *const names[] = {"BertTokenizer",       "DistilBertTokenizer", "ElectraTokenizer",
                                        "MobileBertTokenizer", "ConvBertTokenizer",   "SqueezeBertTokenizer",
                                        "LayoutLMTokenizer",   "RetriBertTokenizer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(name, names[i], n) && (!name[n] || !strcmp(name + n, "Fast"))) return true;
    }
    return false;
}

/* ---- the sequence ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Hugging Face's "longest_first": the longer one is cut, and when that is not enough, both to half. */
static void truncate_longest(size_t max, size_t *first, size_t *second)
{
    if (*first <= max && *second <= max - *first) return;
    size_t *shorter = *first > *second ? second : first, *longer = *first > *second ? first : second;
    if (*shorter <= max / 2) {
        *longer = max - *shorter;
        return;
    }
    *shorter = max / 2;
    *longer = max - max / 2;
}

static bool encode_both(const struct host *host, const struct tokenizer *t, const char *text, size_t text_bytes,
                        const char *pair, size_t pair_bytes, size_t max_tokens, struct list ids[2], struct error *e)
{
    const struct template *form = pair ? &t->pair : &t->single;
    size_t limit = SIZE_MAX;
    if (max_tokens) {
        if (max_tokens < form->special)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "max_tokens is %zu, but the special tokens alone are %zu: allow at least that many", max_tokens,
                        form->special);
        limit = max_tokens - form->special;
    }
    /* How a pair is cut depends on which of the two is longer, so both are needed whole. */
    TRY(encode_text(host, t, text, text_bytes, pair ? SIZE_MAX : limit, &ids[0], e));
    if (pair) TRY(encode_text(host, t, pair, pair_bytes, SIZE_MAX, &ids[1], e));
    if (max_tokens) truncate_longest(limit, &ids[0].count, &ids[1].count);
    return true;
}

static size_t template_fill(const struct template *form, const struct list ids[2], size_t room, int32_t *out,
                            int32_t *types)
{
    size_t total = 0;
    for (size_t p = 0; p < form->count; p++) {
        const struct piece *piece = &form->pieces[p];
        const struct list *from = piece->kind == PIECE_TOKEN ? NULL : &ids[piece->kind == PIECE_SECOND];
        size_t n = from ? from->count : 1, fits = total < room ? smaller(n, room - total) : 0;
        for (size_t i = 0; i < fits; i++) {
            out[total + i] = from ? (int32_t)from->items[i] : piece->id;
            if (types) types[total + i] = piece->type;
        }
        total += n;
    }
    return total;
}

bool tokenizer_encode(const struct host *host, const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                      size_t *count, struct error *e)
{
    struct list both[2] = {{.host = host}, {.host = host}};
    bool ok = encode_both(host, tokenizer, text, text_bytes, pair, pair_bytes, max_tokens, both, e);
    if (ok) *count = template_fill(pair ? &tokenizer->pair : &tokenizer->single, both, ids ? *count : 0, ids, types);
    list_free(&both[0]);
    list_free(&both[1]);
    return ok;
}
