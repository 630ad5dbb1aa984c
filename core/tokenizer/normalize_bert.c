/* BERT's normalization of a text: cleaning, spaces around ideographs, accents off, lower case, in this order. */
#include <string.h>

#include "tokenizer/normalizers.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_forms.h"

static bool open_bert(const struct part_reader *r, const json_t *json, void **data)
{
    struct bert_normalizer *bert = host_alloc(r->host, 1, sizeof *bert, r->e);
    if (!bert) return false;
    *data = bert;
    TRY(part_bool(r, json, "clean_text", &bert->clean) &&
        part_bool(r, json, "handle_chinese_chars", &bert->split_ideographs) &&
        part_bool(r, json, "lowercase", &bert->lowercase));
    const json_t *strip = json_object_get(json, "strip_accents");
    bert->strip_follows = !strip || json_is_null(strip);
    return bert->strip_follows || part_bool(r, json, "strip_accents", &bert->strip_accents);
}

static bool strips(const struct bert_normalizer *bert)
{
    return bert->strip_follows ? bert->lowercase : bert->strip_accents;
}

/* ---- characters alone: all steps at once ---- */

/* Sorts the last `count` characters by their combining class, equal ones staying in order: each goes after those of
 * its class, whose place follows from how many there are of the lower ones. */
static bool reorder_marks(struct list *out, size_t count, struct error *e)
{
    size_t place[256] = {0}, before = 0;
    bool sorted = true;
    uint8_t last = 0;
    for (size_t i = out->count - count; i < out->count; i++) {
        uint8_t order = unicode_order(out->items[i]);
        place[order]++;
        sorted = sorted && last <= order;
        last = order;
    }
    if (sorted) return true;
    TRY(list_reserve(out, count, e));
    uint32_t *copy = out->items + out->count, *to = copy - count;
    memcpy(copy, to, count * sizeof *to);
    for (unsigned order = 0; order < 256; order++) {
        size_t own = place[order];
        place[order] = before;
        before += own;
    }
    for (size_t i = 0; i < count; i++) to[place[unicode_order(copy[i])]++] = copy[i];
    return true;
}

/* The caller has made room. */
static void push_lower(const struct bert_normalizer *bert, uint32_t c, struct list *out)
{
    if (bert->lowercase)
        out->count += unicode_lower(c, out->items + out->count);
    else
        out->items[out->count++] = c;
}

/* Appends c without accents. *marks counts the characters at the end of `out` that may still have to change places. */
static bool push_stripped(const struct bert_normalizer *bert, uint32_t c, struct list *out, size_t *marks,
                          struct error *e)
{
    uint32_t parts[UNICODE_DECOMPOSED_MAX];
    size_t count = unicode_decompose(c, parts);
    for (size_t i = 0; i < count; i++) {
        enum unicode_class class = unicode_classify(parts[i]);
        if (class == UNICODE_MARK) continue;
        if (class == UNICODE_COMBINING) {
            TRY(list_reserve(out, 1, e));
            out->items[out->count++] = parts[i];
            (*marks)++;
            continue;
        }
        if (*marks > 1) TRY(reorder_marks(out, *marks, e));
        *marks = 0;
        if (class == UNICODE_STARTER_MARK) continue;
        TRY(list_reserve(out, UNICODE_LOWER_MAX, e));
        push_lower(bert, parts[i], out);
    }
    return true;
}

static bool push(const struct bert_normalizer *bert, uint32_t c, struct list *out, size_t *marks, struct error *e)
{
    if (strips(bert)) return push_stripped(bert, c, out, marks, e);
    TRY(list_reserve(out, UNICODE_LOWER_MAX, e));
    push_lower(bert, c, out);
    return true;
}

static bool normalize_characters(const struct bert_normalizer *bert, const struct view *from, struct list *out,
                                 struct error *e)
{
    size_t marks = 0;
    TRY(list_reserve(out, from->length, e));
    for (size_t i = 0; i < from->length; i++) {
        uint32_t c = from->characters[i];
        if (bert->clean) {
            if (unicode_classify(c) == UNICODE_REMOVED) continue;
            if (unicode_is_space(c)) c = ' ';
        }
        bool alone = bert->split_ideographs && unicode_is_ideograph(c);
        if (alone) TRY(push(bert, ' ', out, &marks, e));
        TRY(push(bert, c, out, &marks, e));
        if (alone) TRY(push(bert, ' ', out, &marks, e));
    }
    return marks <= 1 || reorder_marks(out, marks, e);
}

/* ---- the same with places, step by step as the reference goes: where a place ends up depends on it ---- */

static bool clean_and_split(const struct bert_normalizer *bert, const struct view *from, struct text *to,
                            struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) {
        uint32_t c = from->characters[i];
        if (bert->clean && unicode_classify(c) == UNICODE_REMOVED) {
            rewrite_skip(&r, 1);
            continue;
        }
        if (bert->clean && unicode_is_space(c)) c = ' ';
        TRY(text_reserve(to, 3 + from->length - i, e));
        bool alone = bert->split_ideographs && unicode_is_ideograph(c);
        rewrite_replace(&r, alone ? ' ' : c);
        if (!alone) continue;
        rewrite_insert(&r, c);
        rewrite_insert(&r, ' ');
    }
    return true;
}

static bool strip_marks(const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) {
        enum unicode_class class = unicode_classify(from->characters[i]);
        if (class == UNICODE_MARK || class == UNICODE_STARTER_MARK)
            rewrite_skip(&r, 1);
        else
            rewrite_replace(&r, from->characters[i]);
    }
    return true;
}

/* `to` begins as the first step's text and ends as the last one's. */
static bool normalize_places(const struct bert_normalizer *bert, struct text *to, struct text *other, struct error *e)
{
    struct view view = text_view(to);
    if (strips(bert)) {
        TRY(unicode_form(UNICODE_NFD, &view, other, e));
        view = text_view(other);
        TRY(strip_marks(&view, to, e));
        view = text_view(to);
    }
    if (!bert->lowercase) return true;
    TRY(unicode_lower_text(&view, other, e));
    struct text swap = *to;
    *to = *other;
    *other = swap;
    return true;
}

static bool apply_bert(const void *data, const struct view *from, struct text *to, struct error *e)
{
    const struct bert_normalizer *bert = data;
    struct text other;
    if (!from->places) {
        to->characters.count = 0;
        to->placed = false;
        to->origin = 0;
        return normalize_characters(bert, from, &to->characters, e);
    }
    text_begin(&other, to->characters.host);
    bool ok = clean_and_split(bert, from, to, e) && normalize_places(bert, to, &other, e);
    text_free(&other);
    return ok;
}

static void close_bert(const struct host *host, void *data) { host_free(host, data); }

const struct normalizer_kind normalizer_bert = {"BertNormalizer", open_bert, apply_bert, close_bert};
