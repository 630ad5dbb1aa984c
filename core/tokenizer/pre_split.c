/* Pre-tokenizers that split at characters of a kind, or at a pattern. */
#include "tokenizer/behavior.h"
#include "tokenizer/search.h"
#include "tokenizer/unicode.h"

/* ---- BERT's: at white space, which is dropped, and at punctuation, each character of which is a piece ---- */

static bool split_bert(const void *data, const struct view *text, struct pieces *to)
{
    size_t begin = 0;
    (void)data;
    for (size_t i = 0; i <= text->length && !*to->full; i++) {
        bool space = i == text->length || unicode_is_space(text->characters[i]);
        bool alone = !space && unicode_classify(text->characters[i]) == UNICODE_PUNCTUATION;
        if (!space && !alone) continue;
        TRY(piece_add(to, text, begin, i));
        if (alone) TRY(piece_add(to, text, i, i + 1));
        begin = i + 1;
    }
    return true;
}

const struct pre_tokenizer_kind pre_tokenizer_bert = {"BertPreTokenizer", NULL, split_bert, NULL, NULL};

/* ---- words, and runs of what is neither word nor white space ---- */

static bool split_whitespace(const void *data, const struct view *text, struct pieces *to)
{
    enum { SPACE, WORD, OTHER } before = SPACE, now;
    size_t begin = 0;
    (void)data;
    for (size_t i = 0; i <= text->length && !*to->full; i++, before = now) {
        uint32_t c = i < text->length ? text->characters[i] : ' ';
        now = unicode_is_word(c) ? WORD : unicode_is_space(c) ? SPACE : OTHER;
        if (now == before) continue;
        if (before != SPACE) TRY(piece_add(to, text, begin, i));
        begin = i;
    }
    return true;
}

const struct pre_tokenizer_kind pre_tokenizer_whitespace = {"Whitespace", NULL, split_whitespace, NULL, NULL};

/* ---- at each character of a kind ---- */

struct at_characters {
    enum behavior behavior;
    uint32_t character; /* of CharDelimiterSplit */
};

static bool split_at(const struct at_characters *at, const struct view *text, struct pieces *to,
                     bool (*is)(const struct at_characters *at, uint32_t c))
{
    struct splitting s = {.text = text, .to = to, .behavior = at->behavior};
    size_t begin = 0;
    for (size_t i = 0; i < text->length && !*to->full; i++) {
        if (!is(at, text->characters[i])) continue;
        TRY(splitting_add(&s, begin, i, false) && splitting_add(&s, i, i + 1, true));
        begin = i + 1;
    }
    return splitting_add(&s, begin, text->length, false) && splitting_end(&s);
}

static struct at_characters *open_at(const struct part_reader *r, void **data, enum behavior behavior)
{
    struct at_characters *at = host_alloc(r->host, 1, sizeof *at, r->e);
    if (at) at->behavior = behavior;
    *data = at;
    return at;
}

static void close_at(const struct host *host, void *data) { host_free(host, data); }

static bool is_space(const struct at_characters *at, uint32_t c)
{
    (void)at;
    return unicode_is_space(c);
}

static bool split_space(const void *data, const struct view *text, struct pieces *to)
{
    const struct at_characters removed = {.behavior = REMOVED};
    (void)data;
    return split_at(&removed, text, to, is_space);
}

static bool open_punctuation(const struct part_reader *r, const json_t *json, void **data)
{
    struct at_characters *at = open_at(r, data, ISOLATED);
    return at && (!json_object_get(json, "behavior") || behavior_read(r, json, "behavior", &at->behavior));
}

static bool is_punctuation(const struct at_characters *at, uint32_t c)
{
    (void)at;
    return unicode_classify(c) == UNICODE_PUNCTUATION;
}

static bool split_punctuation(const void *data, const struct view *text, struct pieces *to)
{
    return split_at(data, text, to, is_punctuation);
}

static bool open_digits(const struct part_reader *r, const json_t *json, void **data)
{
    bool individual = false;
    struct at_characters *at = open_at(r, data, CONTIGUOUS);
    if (!at) return false;
    TRY(part_bool(r, json, "individual_digits", &individual));
    if (individual) at->behavior = ISOLATED;
    return true;
}

static bool is_number(const struct at_characters *at, uint32_t c)
{
    (void)at;
    return unicode_is_number(c);
}

static bool split_digits(const void *data, const struct view *text, struct pieces *to)
{
    return split_at(data, text, to, is_number);
}

static bool open_delimiter(const struct part_reader *r, const json_t *json, void **data)
{
    struct at_characters *at = open_at(r, data, REMOVED);
    return at && part_character(r, json, "delimiter", &at->character);
}

static bool is_delimiter(const struct at_characters *at, uint32_t c) { return c == at->character; }

static bool split_delimiter(const void *data, const struct view *text, struct pieces *to)
{
    return split_at(data, text, to, is_delimiter);
}

const struct pre_tokenizer_kind pre_tokenizer_whitespace_split = {"WhitespaceSplit", NULL, split_space, NULL, NULL};
const struct pre_tokenizer_kind pre_tokenizer_punctuation = {"Punctuation", open_punctuation, split_punctuation,
                                                             close_at, NULL};
const struct pre_tokenizer_kind pre_tokenizer_digits = {"Digits", open_digits, split_digits, close_at, NULL};
const struct pre_tokenizer_kind pre_tokenizer_delimiter = {"CharDelimiterSplit", open_delimiter, split_delimiter,
                                                           close_at, NULL};

/* ---- at a pattern ---- */

struct at_pattern {
    struct search search;
    enum behavior behavior;
    bool invert; /* the matches are what is kept, and what lies between them is split at */
};

static bool open_pattern(const struct part_reader *r, const json_t *json, void **data)
{
    struct at_pattern *at = host_alloc(r->host, 1, sizeof *at, r->e);
    if (!at) return false;
    *data = at;
    return search_read(r, json_object_get(json, "pattern"), &at->search) &&
           behavior_read(r, json, "behavior", &at->behavior) && part_bool(r, json, "invert", &at->invert);
}

static bool split_pattern(const void *data, const struct view *text, struct pieces *to)
{
    const struct at_pattern *at = data;
    struct splitting s = {.text = text, .to = to, .behavior = at->behavior};
    struct search_walk walk;
    size_t begin = 0, first = 0, end = 0;
    bool more = true, ok = search_begin(&at->search, to->scratch.characters.host, text, &walk, to->e);
    while (ok && !*to->full && (ok = search_next(&walk, &more, &first, &end, to->e)) && more) {
        /* An empty match parts what is before it from what is behind it. */
        ok = splitting_add(&s, begin, first, at->invert) &&
             (first < end ? splitting_add(&s, first, end, !at->invert) : splitting_end(&s));
        begin = end;
    }
    search_end(&walk);
    return ok && splitting_add(&s, begin, text->length, at->invert) && splitting_end(&s);
}

static void close_pattern(const struct host *host, void *data)
{
    struct at_pattern *at = data;
    search_free(&at->search);
    host_free(host, at);
}

const struct pre_tokenizer_kind pre_tokenizer_split = {"Split", open_pattern, split_pattern, close_pattern, NULL};
