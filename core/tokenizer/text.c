/* Texts as the stages of a tokenizer hand them on: characters, and where each of them comes from. */
#include "tokenizer/text.h"

#include "base/utf8.h"

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

struct view view_slice(const struct view *view, size_t first, size_t end)
{
    struct view slice = {view->characters + first, NULL, end - first, 0};
    if (view->places) {
        slice.places = view->places + first;
        slice.origin = first < end ? slice.places[0].first : view->origin;
    }
    return slice;
}

void text_begin(struct text *text, const struct host *host)
{
    *text = (struct text){.characters = {.host = host}, .places = {.host = host}};
}

void text_free(struct text *text)
{
    list_free(&text->characters);
    list_free(&text->places);
}

struct view text_view(const struct text *text)
{
    return (struct view){text->characters.items, text->placed ? (const struct place *)text->places.items : NULL,
                         text->characters.count, text->origin};
}

bool text_reserve(struct text *text, size_t more, struct error *e)
{
    if (text->most && (text->characters.count > text->most || more > text->most - text->characters.count))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the tokenizer makes this text more than %d times as long as it is", (int)GROWTH_MOST);
    return list_reserve(&text->characters, more, e) &&
           (!text->placed || list_reserve(&text->places, more < SIZE_MAX / 2 ? 2 * more : SIZE_MAX, e));
}

bool rewrite_begin(struct rewrite *r, const struct view *from, struct text *to, size_t more, struct error *e)
{
    *r = (struct rewrite){from, 0, to};
    to->characters.count = to->places.count = 0;
    to->placed = from->places != NULL;
    to->origin = from->origin;
    return text_reserve(to, from->length + more, e);
}

void rewrite_insert(struct rewrite *r, uint32_t c)
{
    struct list *places = &r->to->places;
    r->to->characters.items[r->to->characters.count++] = c;
    if (!r->to->placed) return;
    if (r->at) {
        rewrite_place(r, r->at - 1);
        return;
    }
    places->items[places->count++] = r->to->origin;
    places->items[places->count++] = r->to->origin;
}

bool text_prepend(const struct view *from, const uint32_t *prefix, size_t count, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, count, e));
    for (size_t i = 0; i < (from->length ? count : 0); i++) {
        rewrite_replace(&r, prefix[i]);
        r.at = 0;
    }
    for (size_t i = 0; i < from->length; i++) rewrite_replace(&r, from->characters[i]);
    return true;
}
