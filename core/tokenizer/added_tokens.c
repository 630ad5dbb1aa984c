/* Added tokens, which are looked for in the text itself, before it is split into words: "[MASK]". */
#include "tokenizer/added_tokens.h"

#include <string.h>

#include "tokenizer/unicode.h"

/* ---- read from files ---- */

bool added_add(struct added_reader *reader, const char *content, const struct added_entry *flags, bool optional,
               struct error *e)
{
    if (!content || !*content) return true;
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity ? reader->capacity * 2 : 16;
        struct added_entry *entries =
            host_grow(reader->text.host, reader->entries, reader->count, capacity, sizeof *entries, e);
        if (!entries) return false;
        reader->entries = entries;
        reader->capacity = capacity;
    }
    struct added_entry *entry = &reader->entries[reader->count];
    *entry = *flags;
    entry->optional = optional;
    entry->first = reader->text.count;
    TRY(list_add_text(&reader->text, content, strlen(content), "an added token", e));
    entry->length = reader->text.count - entry->first;
    reader->count++;
    return true;
}

void added_reader_free(struct added_reader *reader)
{
    host_free(reader->text.host, reader->entries);
    list_free(&reader->text);
}

/* Gives every added token its id: the vocabulary's own, or else the next free one. Of two with the same text the later
 * counts; the others, and optional ones without an id, are dropped from the list. */
static bool give_ids(const struct part_reader *r, const struct token_model *model, struct added_reader *reader,
                     struct token *texts)
{
    struct vocabulary last = {0};
    for (size_t i = 0; i < reader->count; i++) {
        struct added_entry *entry = &reader->entries[i];
        texts[i] = (struct token){reader->text.items + entry->first, entry->length, (int32_t)i, i};
        entry->token.id = -1;
    }
    TRY(vocabulary_build(r->host, texts, reader->count, &last, r->e));
    size_t next = model->kind->size(model->data), kept = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < reader->count; i++) {
        const struct added_entry *entry = &reader->entries[i];
        const uint32_t *text = reader->text.items + entry->first;
        struct added_entry *counts = &reader->entries[vocabulary_find(&last, text, entry->length)];
        if (counts->token.id < 0) counts->token.id = model->kind->find(model->data, text, entry->length);
        if (counts->token.id >= 0 || entry->optional) continue;
        if (next >= r->vocabulary)
            ok =
                fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                     "added token %zu would get id %zu, but the model has %u ids: the files belong to different models",
                     i, next, (unsigned)r->vocabulary);
        counts->token.id = (int32_t)next++;
    }
    for (size_t i = 0; ok && i < reader->count; i++) {
        if (reader->entries[i].token.id >= 0) reader->entries[kept++] = reader->entries[i];
    }
    reader->count = kept;
    vocabulary_free(r->host, &last);
    return ok;
}

/* Appends the added token's normalized form. */
static bool add_normalized(const struct normalizers *normalizers, const struct view *raw, struct list *out,
                           struct error *e)
{
    struct text between[2];
    struct view made;
    text_begin(&between[0], out->host);
    text_begin(&between[1], out->host);
    bool ok = normalizers_apply(normalizers, raw, between, &made, e) && list_reserve(out, made.length, e);
    if (ok && made.length) memcpy(out->items + out->count, made.characters, made.length * sizeof *out->items);
    if (ok) out->count += made.length;
    text_free(&between[0]);
    text_free(&between[1]);
    return ok;
}

/* Those of the added tokens that are looked for in the raw, or in the normalized, text. */
static bool make_patterns(const struct part_reader *r, const struct added_reader *reader,
                          const struct normalizers *normalizers, struct token *texts, struct patterns *out)
{
    struct list text = {.host = r->host};
    size_t count = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < reader->count; i++) {
        const struct added_entry *entry = &reader->entries[i];
        if (entry->normalized != (normalizers != NULL)) continue;
        struct view raw = {reader->text.items + entry->first, NULL, entry->length, 0};
        size_t before = text.count;
        if (normalizers) ok = add_normalized(normalizers, &raw, &text, r->e);
        size_t length = normalizers ? text.count - before : entry->length;
        if (ok && !length)
            ok = fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the added token of id %d is empty once normalized",
                      (int)entry->token.id);
        /* Of two that are equal once normalized, the first counts. */
        texts[count++] = (struct token){raw.characters, length, (int32_t)i, SIZE_MAX - i};
    }
    if (normalizers) { /* only now does the text lie still */
        for (size_t i = 0, at = 0; i < count; at += texts[i++].length) texts[i].text = text.items + at;
    }
    ok = ok && patterns_build(r->host, texts, count, out, r->e);
    list_free(&text);
    return ok;
}

bool added_build(const struct part_reader *r, struct added_reader *reader, const struct token_model *model,
                 const struct normalizers *normalizers, struct added_tokens *out)
{
    struct token *texts = host_alloc(r->host, reader->count, sizeof *texts, r->e);
    bool ok = texts && give_ids(r, model, reader, texts) && make_patterns(r, reader, NULL, texts, &out->raw) &&
              make_patterns(r, reader, normalizers, texts, &out->normalized);
    host_free(r->host, texts);
    if (!ok) return false;
    out->list = host_alloc(r->host, reader->count, sizeof *out->list, r->e);
    if (!out->list) return false;
    for (size_t i = 0; i < reader->count; i++) out->list[i] = reader->entries[i].token;
    return true;
}

void added_tokens_free(const struct host *host, struct added_tokens *added)
{
    patterns_free(host, &added->raw);
    patterns_free(host, &added->normalized);
    host_free(host, added->list);
}

/* ---- found in texts ---- */

/* The node of the token at s->at, of which the window is made to have something. It has as many places as the longest
 * token, so that the characters read after it are no more than those in it. */
static bool look(struct added_search *s, uint32_t *node, struct error *e)
{
    enum { WINDOW_LEAST = 1024 };
    if (s->at - s->window_first >= s->window->count) {
        size_t most = s->patterns->longest > WINDOW_LEAST ? s->patterns->longest : WINDOW_LEAST;
        size_t end = s->text.length - s->at > most ? s->at + most : s->text.length;
        TRY(patterns_find(s->patterns, s->text.characters, s->text.length, s->at, end, s->window, e));
        s->window_first = s->at;
    }
    *node = s->window->items[s->at - s->window_first];
    return true;
}

/* Whether no word character touches text[first, end). */
static bool stands_alone(const struct added_search *s, size_t first, size_t end)
{
    return !(first > 0 && unicode_is_word(s->text.characters[first - 1])) &&
           !(end < s->text.length && unicode_is_word(s->text.characters[end]));
}

/* Takes the token at text[first, end), with the white space that it swallows. False for one that is white space, all of
 * which the token before has swallowed: nothing is left of it. */
static bool take(struct added_search *s, const struct added_token *token, size_t first, size_t end)
{
    if (token->lstrip) {
        while (first > s->done && unicode_is_space(s->text.characters[first - 1])) first--;
        if (first < s->done) first = s->done;
    }
    if (token->rstrip) {
        if (end < s->spaces_end) end = s->spaces_end;
        while (end < s->text.length && unicode_is_space(s->text.characters[end])) end++;
        s->spaces_end = end;
    }
    if (first >= end) return false;
    s->plain = s->done;
    s->start = first;
    s->id = token->id;
    s->done = end;
    return true;
}

bool added_next(struct added_search *s, bool *more, struct error *e)
{
    *more = false;
    if (!s->patterns->longest) return true;
    while (!*more && s->at < s->text.length) {
        uint32_t node;
        TRY(look(s, &node, e));
        if (node == VOCABULARY_ROOT) {
            s->at++;
            continue;
        }
        size_t length, first = s->at;
        const struct added_token *token = &s->tokens[pattern_id(s->patterns, node, &length)];
        s->at += length;
        if (token->single_word && !stands_alone(s, first, s->at)) continue;
        *more = take(s, token, first, s->at);
    }
    return true;
}
