/* BERT's normalization of a text: cleaning, spaces around ideographs, accents off, lower case, in this order. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

bool list_reserve(struct list *list, size_t more, struct error *e)
{
    if (list->capacity - list->count >= more) return true;
    if (list->count > SIZE_MAX / 4 || more > SIZE_MAX / 4)
        return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "the text is longer than memory can hold");
    size_t capacity = list->count + more;
    if (capacity < list->capacity * 2) capacity = list->capacity * 2;
    uint32_t *items = host_grow(list->host, list->items, list->count, capacity, sizeof *items, e);
    if (!items) return false;
    list->items = items;
    list->capacity = capacity;
    return true;
}

void list_free(struct list *list)
{
    host_free(list->host, list->items);
    list->items = NULL;
    list->count = list->capacity = 0;
}

bool list_add_text(struct list *list, const char *text, size_t bytes, const char *what, struct error *e)
{
    bool valid = true;
    TRY(list_reserve(list, bytes, e));
    for (size_t i = 0; i < bytes;) i += utf8_decode(text + i, bytes - i, &list->items[list->count++], &valid);
    return valid || !what ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "%s is not valid UTF-8: the file is damaged, get it again", what);
}

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
static void push_lower(const struct tokenizer *t, uint32_t c, struct list *out)
{
    if (t->lowercase)
        out->count += unicode_lower(c, out->items + out->count);
    else
        out->items[out->count++] = c;
}

/* Appends c without accents. *marks counts the characters at the end of `out` that may still have to change places. */
static bool push_stripped(const struct tokenizer *t, uint32_t c, struct list *out, size_t *marks, struct error *e)
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
        push_lower(t, parts[i], out);
    }
    return true;
}

static bool push(const struct tokenizer *t, uint32_t c, struct list *out, size_t *marks, struct error *e)
{
    if (t->strip_accents) return push_stripped(t, c, out, marks, e);
    TRY(list_reserve(out, UNICODE_LOWER_MAX, e));
    push_lower(t, c, out);
    return true;
}

bool tokenizer_normalize(const struct tokenizer *t, const uint32_t *text, size_t length, struct list *out,
                         struct error *e)
{
    size_t marks = 0;
    TRY(list_reserve(out, length, e));
    for (size_t i = 0; i < length; i++) {
        uint32_t c = text[i];
        if (t->clean) {
            if (unicode_classify(c) == UNICODE_REMOVED) continue;
            if (unicode_is_space(c)) c = ' ';
        }
        bool alone = t->split_ideographs && unicode_is_ideograph(c);
        if (alone) TRY(push(t, ' ', out, &marks, e));
        TRY(push(t, c, out, &marks, e));
        if (alone) TRY(push(t, ' ', out, &marks, e));
    }
    if (marks > 1) TRY(reorder_marks(out, marks, e));
    return true;
}
