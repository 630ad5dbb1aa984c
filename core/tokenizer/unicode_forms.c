/* Texts in Unicode's normalization forms and in lower case. */
#include "tokenizer/unicode_forms.h"

#include <string.h>

#include "tokenizer/unicode.h"

/* A character of the result, and how many characters more than one it stands for, as a negative number: 0 takes the
 * place of one, -1 that of two; 1 was put in. What is put in goes without a place of its own. */
struct made {
    uint32_t c;
    int32_t change;
};

struct making {
    const struct host *host;
    struct made *items;
    size_t count, capacity;
    size_t sorted; /* what lies before does not change its order any more */
};

static bool making_reserve(struct making *m, size_t more, struct error *e)
{
    if (m->capacity - m->count >= more) return true;
    size_t capacity = m->capacity * 2 > m->count + more ? m->capacity * 2 : m->count + more;
    struct made *items = host_grow(m->host, m->items, m->count, capacity, sizeof *items, e);
    if (!items) return false;
    m->items = items;
    m->capacity = capacity;
    return true;
}

/* Sorts what lies from m->sorted on by combining class, equal ones staying in order. */
static bool sort_marks(struct making *m, struct error *e)
{
    size_t place[256] = {0}, before = 0, count = m->count - m->sorted;
    bool sorted = true;
    uint8_t last = 0;
    for (size_t i = m->sorted; i < m->count; i++) {
        uint8_t order = unicode_order(m->items[i].c);
        place[order]++;
        sorted = sorted && last <= order;
        last = order;
    }
    if (!sorted) {
        TRY(making_reserve(m, count, e));
        struct made *to = m->items + m->sorted, *copy = m->items + m->count;
        memcpy(copy, to, count * sizeof *to);
        for (unsigned order = 0; order < 256; order++) {
            size_t own = place[order];
            place[order] = before;
            before += own;
        }
        for (size_t i = 0; i < count; i++) to[place[unicode_order(copy[i].c)]++] = copy[i];
    }
    m->sorted = m->count;
    return true;
}

static bool decompose(const struct view *from, bool compatible, struct making *m, struct error *e)
{
    TRY(making_reserve(m, from->length, e));
    for (size_t i = 0; i < from->length; i++) {
        uint32_t parts[UNICODE_COMPATIBLE_MAX] = {from->characters[i]};
        size_t count = 1;
        if (parts[0] >= 0xA0)
            count = compatible ? unicode_decompose_compatible(parts[0], parts) : unicode_decompose(parts[0], parts);
        TRY(making_reserve(m, count, e));
        for (size_t k = 0; k < count; k++) {
            if (!unicode_order(parts[k])) {
                if (m->count - m->sorted > 1) TRY(sort_marks(m, e));
                m->sorted = m->count + 1;
            }
            m->items[m->count++] = (struct made){parts[k], k > 0};
        }
    }
    return m->count - m->sorted <= 1 || sort_marks(m, e);
}

/* Joins what has one character for two: a starter with the marks after it that no mark of the same or a higher class
 * lies before, and with a starter right after it. */
static void compose(struct making *m)
{
    enum { NONE = -1 };
    size_t kept = 0, starter = SIZE_MAX;
    int last = NONE; /* the class of the last mark that stayed behind the starter */
    for (size_t i = 0; i < m->count; i++) {
        struct made one = m->items[i];
        int order = unicode_order(one.c);
        if (starter != SIZE_MAX && (last == NONE || last < order)) {
            struct made *first = &m->items[starter];
            uint32_t joined = unicode_compose(first->c, one.c);
            if (joined) {
                *first = (struct made){joined, first->change + one.change - 1};
                continue;
            }
        }
        if (!order) {
            starter = kept;
            last = NONE;
        } else if (starter != SIZE_MAX) {
            last = order;
        }
        m->items[kept++] = one;
    }
    m->count = kept;
}

static bool write_made(const struct making *m, const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, m->count, e));
    for (size_t i = 0; i < m->count; i++) {
        const struct made *one = &m->items[i];
        if (one->change > 0 || r.at >= from->length) {
            rewrite_insert(&r, one->c);
        } else {
            rewrite_replace(&r, one->c);
            rewrite_skip(&r, (size_t)-one->change);
        }
    }
    return true;
}

/* The characters before which all stay as they are and apart, in each form. */
static bool is_plain(enum unicode_form form, const struct view *from)
{
    uint32_t most = form == UNICODE_NFC ? 0x300 : form == UNICODE_NFD ? 0xC0 : 0xA0;
    for (size_t i = 0; i < from->length; i++)
        if (from->characters[i] >= most) return false;
    return true;
}

static bool copy(const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) rewrite_replace(&r, from->characters[i]);
    return true;
}

bool unicode_form(enum unicode_form form, const struct view *from, struct text *to, struct error *e)
{
    if (is_plain(form, from)) return copy(from, to, e);
    struct making m = {.host = to->characters.host};
    bool ok = decompose(from, form == UNICODE_NFKD || form == UNICODE_NFKC, &m, e);
    if (ok && (form == UNICODE_NFC || form == UNICODE_NFKC)) compose(&m);
    ok = ok && write_made(&m, from, to, e);
    host_free(m.host, m.items);
    return ok;
}

bool unicode_lower_text(const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) {
        uint32_t parts[UNICODE_LOWER_MAX];
        size_t count = unicode_lower(from->characters[i], parts);
        TRY(text_reserve(to, count + from->length - i, e));
        rewrite_replace(&r, parts[0]);
        for (size_t k = 1; k < count; k++) rewrite_insert(&r, parts[k]);
    }
    return true;
}
