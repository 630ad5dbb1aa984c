/* Texts as the stages of a tokenizer hand them on: characters, and where each of them comes from. */
#ifndef WHERRY_TOKENIZER_TEXT_H
#define WHERRY_TOKENIZER_TEXT_H

#include "base/host.h"

/* Growing memory for characters or ids. */
struct list {
    const struct host *host;
    uint32_t *items;
    size_t count, capacity;
};

/* Makes room for `more` items after the last. */
bool list_reserve(struct list *list, size_t more, struct error *e);
void list_free(struct list *list);
/* Appends the characters of `text`; what is not UTF-8 becomes U+FFFD, or, where `what` names the text, a failure. */
bool list_add_text(struct list *list, const char *text, size_t bytes, const char *what, struct error *e);

/* Of the text as it was given: the characters [first, end). */
struct place {
    uint32_t first, end;
};

/* A stretch of text. */
struct view {
    const uint32_t *characters;
    const struct place *places; /* of each character; NULL where nobody asks for them */
    size_t length;
    uint32_t origin; /* where in the given text the stretch begins; 0 without places */
};

/* Part of a stretch: the characters [first, end). */
struct view view_slice(const struct view *view, size_t first, size_t end);

/* A text that is being written. */
struct text {
    struct list characters, places; /* places: two items a character, as struct place has them */
    bool placed;                    /* the places are kept */
    uint32_t origin;
    size_t most; /* characters that it may have, 0: any number */
};

/* How long a text may become on its way to the model: that many times what it was, and more for a short one. Unicode's
 * forms make it up to 18 times as long; parts of a hostile file one after the other would fill the memory. */
enum { GROWTH_MOST = 64, GROWTH_MORE = 4096 };

void text_begin(struct text *text, const struct host *host);
void text_free(struct text *text);
struct view text_view(const struct text *text);
bool text_reserve(struct text *text, size_t more, struct error *e);

/* ---- rewriting a view, character by character, so that each keeps the place that it has in the reference ---- */

/* What is read and what is written. Whoever pushes has made room. */
struct rewrite {
    const struct view *from;
    size_t at; /* the next character to be read */
    struct text *to;
};

/* Empties `to` and makes room for as many characters as there are, and `more`. */
bool rewrite_begin(struct rewrite *r, const struct view *from, struct text *to, size_t more, struct error *e);

static inline void rewrite_place(struct rewrite *r, size_t at)
{
    struct list *places = &r->to->places;
    places->items[places->count] = r->from->places[at].first;
    places->items[places->count + 1] = r->from->places[at].end;
    places->count += 2;
}

/* c takes the place of the next character. */
static inline void rewrite_replace(struct rewrite *r, uint32_t c)
{
    r->to->characters.items[r->to->characters.count++] = c;
    if (r->to->placed) rewrite_place(r, r->at);
    r->at++;
}

/* One character more, which has the place of the one before it; at the very beginning, an empty one. */
void rewrite_insert(struct rewrite *r, uint32_t c);

/* The whole text with characters before it, which have the place of its first one. An empty text stays empty. */
bool text_prepend(const struct view *from, const uint32_t *prefix, size_t count, struct text *to, struct error *e);

/* The next characters have nothing in their place. */
static inline void rewrite_skip(struct rewrite *r, size_t count) { r->at += count; }

#endif
