/* BERT's tokenizer at work: added tokens, normalization, words, WordPiece, truncation, special tokens. */
#include "model/tokenizer.h"

#include "model/tokenizer_parts.h"
#include "model/unicode.h"

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    struct host host = t->host;
    vocabulary_free(&host, &t->words);
    vocabulary_free(&host, &t->added_raw);
    vocabulary_free(&host, &t->added_normalized);
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
    size_t limit; /* what lies behind that many ids doesn't matter */
    struct error *e;
};

static bool push_id(struct encoder *to, int32_t id)
{
    TRY(list_reserve(&to->ids, 1, to->e));
    to->ids.items[to->ids.count++] = (uint32_t)id;
    return true;
}

/* The longest token first, then the longest that continues it; a word that does not come out even is unknown. */
static bool encode_word(struct encoder *to, const uint32_t *word, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    if (length > t->max_word) return push_id(to, t->unknown);
    size_t before = to->ids.count;
    for (size_t at = 0; at < length;) {
        int32_t id = 0;
        size_t n = vocabulary_match(&t->words, at ? t->continuation : VOCABULARY_ROOT, word + at, length - at, &id);
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

/* A walk over the added tokens in a text: leftmost first, then longest, none overlapping. */
struct search {
    const struct vocabulary *vocabulary;
    const uint32_t *text;
    size_t length;
    size_t at;         /* where to look next */
    size_t done;       /* what lies before has been dealt with */
    size_t spaces_end; /* of the white space that the last token swallowed behind it */
};

/* Moves on to the next token: it covers [*start, search->done); *plain is where the text before it begins. */
static bool search_next(const struct tokenizer *t, struct search *s, size_t *plain, size_t *start, int32_t *id)
{
    if (!s->vocabulary->nodes) return false;
    while (s->at < s->length) {
        int32_t index = 0;
        size_t first = s->at;
        size_t n = vocabulary_match(s->vocabulary, VOCABULARY_ROOT, s->text + first, s->length - first, &index);
        if (!n) {
            s->at++;
            continue;
        }
        size_t end = s->at = first + n;
        const struct added_token *added = &t->added[index];
        if (added->single_word &&
            ((first > 0 && unicode_is_word(s->text[first - 1])) || (end < s->length && unicode_is_word(s->text[end]))))
            continue;
        if (added->lstrip) {
            while (first > s->done && unicode_is_space(s->text[first - 1])) first--;
            if (first < s->done) first = s->done;
        }
        if (added->rstrip) {
            if (end < s->spaces_end) end = s->spaces_end;
            while (end < s->length && unicode_is_space(s->text[end])) end++;
            s->spaces_end = end;
        }
        *plain = s->done;
        *start = first;
        *id = added->id;
        s->done = end;
        return true;
    }
    return false;
}

/* A stretch without raw added tokens. */
static bool encode_stretch(struct encoder *to, const uint32_t *text, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    to->normalized.count = 0;
    TRY(tokenizer_normalize(t, text, length, &to->normalized, to->e));
    struct search s = {
        .vocabulary = &t->added_normalized, .text = to->normalized.items, .length = to->normalized.count};
    size_t plain, start;
    int32_t id;
    while (to->ids.count <= to->limit && search_next(t, &s, &plain, &start, &id)) {
        if (plain < start) TRY(encode_words(to, s.text + plain, start - plain));
        TRY(push_id(to, id));
    }
    return s.done == s.length || encode_words(to, s.text + s.done, s.length - s.done);
}

static bool encode_characters(struct encoder *to, const uint32_t *text, size_t length)
{
    const struct tokenizer *t = to->tokenizer;
    struct search s = {.vocabulary = &t->added_raw, .text = text, .length = length};
    size_t plain, start;
    int32_t id;
    while (to->ids.count <= to->limit && search_next(t, &s, &plain, &start, &id)) {
        if (plain < start) TRY(encode_stretch(to, text + plain, start - plain));
        TRY(push_id(to, id));
    }
    return s.done == s.length || encode_stretch(to, text + s.done, s.length - s.done);
}

static bool decode_text(const char *text, size_t bytes, struct list *out, struct error *e)
{
    TRY(list_reserve(out, bytes, e));
    for (size_t i = 0; i < bytes;) i += unicode_decode(text + i, bytes - i, &out->items[out->count++], NULL);
    return true;
}

/* `ids` gets all ids of the text, or at least the first `limit` + 1 of them. */
static bool encode_text(const struct host *host, const struct tokenizer *t, const char *text, size_t bytes,
                        size_t limit, struct list *ids, struct error *e)
{
    struct list characters = {.host = host};
    struct encoder to = {.tokenizer = t, .normalized = {.host = host}, .ids = {.host = host}, .limit = limit, .e = e};
    bool ok = decode_text(text, bytes, &characters, e) && encode_characters(&to, characters.items, characters.count);
    list_free(&characters);
    list_free(&to.normalized);
    *ids = to.ids;
    return ok;
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
