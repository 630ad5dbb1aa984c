/* SentencePiece's normalizer, by a precompiled character map, as Hugging Face's library applies it: a grapheme cluster
 * of fewer than six bytes is replaced as a whole where the map has a beginning of it; else its characters are, one by
 * one.
 */
#include "tokenizer/normalize_precompiled.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/character_map.h"
#include "tokenizer/graphemes.h"

enum { CLUSTER_BYTES = 6, PLAIN_FIRST = 0x20, PLAIN_END = 0x7F };

struct precompiled {
    struct character_map map;
    bool plain[PLAIN_END]; /* of printable ASCII: the map has nothing for it */
};

/* ---- read ---- */

bool precompiled_make(const struct part_reader *r, const unsigned char *map, size_t bytes, void **data)
{
    struct precompiled *p = host_alloc(r->host, 1, sizeof *p, r->e);
    if (!p) return false;
    *data = p;
    TRY(character_map_open(r, map, bytes, &p->map));
    for (unsigned char c = PLAIN_FIRST; c < PLAIN_END; c++) {
        size_t length;
        p->plain[c] = !character_map_find(&p->map, &c, 1, &length);
    }
    return true;
}

/* The value of a digit of base 64, 64: it is none. */
static unsigned base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z') return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9') return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* False: this is not base 64. */
static bool base64_decode(const char *text, size_t size, unsigned char *out, size_t *bytes)
{
    *bytes = 0;
    if (size % 4) return false;
    size_t padding = size && text[size - 1] == '=' ? 1 + (text[size - 2] == '=') : 0;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t group = 0;
        size_t digits = i + 4 == size ? 4 - padding : 4;
        for (size_t k = 0; k < 4; k++) {
            unsigned digit = k < digits ? base64_digit(text[i + k]) : 0;
            if (digit > 63) return false;
            group = group << 6 | digit;
        }
        for (size_t k = 0; k + 1 < digits; k++) out[(*bytes)++] = (unsigned char)(group >> (16 - 8 * k));
        if (group << (8 * (digits - 1)) & 0xFFFFFF) return false; /* bits that belong to no byte */
    }
    return true;
}

static bool open_precompiled(const struct part_reader *r, const json_t *json, void **data)
{
    const json_t *value = json_object_get(json, "precompiled_charsmap");
    size_t size = json_string_length(value), bytes = 0;
    if (!json_is_string(value)) return part_wrong(r, "precompiled_charsmap", "a string");
    unsigned char *map = host_alloc(r->host, size / 4 * 3 + 1, 1, r->e);
    if (!map) return false;
    bool ok = base64_decode(json_string_value(value), size, map, &bytes)
                  ? precompiled_make(r, map, bytes, data)
                  : part_wrong(r, "precompiled_charsmap", "in base 64");
    host_free(r->host, map);
    return ok;
}

static void close_precompiled(const struct host *host, void *data)
{
    struct precompiled *p = data;
    character_map_free(&p->map);
    host_free(host, p);
}

/* ---- at work ---- */

struct applying {
    const struct precompiled *p;
    struct rewrite r;
    bool any, inserted; /* something was written; the last of it was put in */
    struct error *e;
};

static void write_one(struct applying *a, uint32_t c, bool insert)
{
    if (insert || a->r.at >= a->r.from->length)
        rewrite_insert(&a->r, c);
    else
        rewrite_replace(&a->r, c);
    a->any = true;
    a->inserted = insert;
}

/* `count` characters more than there are now are dropped after the last one. In the reference that is a number which
 * the last one has: one that was put in then takes the place of a character that would be dropped. */
static void drop(struct applying *a, size_t count)
{
    if (!a->any || !count) return;
    struct list *places = &a->r.to->places;
    if (a->inserted && a->r.to->placed && a->r.at < a->r.from->length) {
        places->count -= 2;
        rewrite_place(&a->r, a->r.at);
    }
    a->inserted = false;
    rewrite_skip(&a->r, count);
}

/* `old` characters become those of `text`. */
static bool put(struct applying *a, size_t old, const char *text, size_t bytes)
{
    size_t count = 0;
    uint32_t c;
    TRY(text_reserve(a->r.to, bytes + (a->r.from->length - a->r.at), a->e));
    for (size_t i = 0; i < bytes; count++) i += utf8_decode(text + i, bytes - i, &c, NULL);
    size_t replaced = count < old ? count : old;
    for (size_t i = 0, n = 0; i < bytes; n++) {
        i += utf8_decode(text + i, bytes - i, &c, NULL);
        write_one(a, c, n >= replaced);
    }
    drop(a, old - replaced);
    return true;
}

/* The bytes of from[first, end), at most `most`; returns how many there are, or would be. */
static size_t encode(const uint32_t *characters, size_t count, unsigned char bytes[CLUSTER_BYTES + 4])
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < CLUSTER_BYTES; i++) n += utf8_write(characters[i], (char *)bytes + n);
    return n;
}

static bool apply_cluster(struct applying *a, const uint32_t *characters, size_t count)
{
    unsigned char bytes[CLUSTER_BYTES + 4];
    size_t n = encode(characters, count, bytes), length = 0;
    const char *found = n < CLUSTER_BYTES ? character_map_find(&a->p->map, bytes, n, &length) : NULL;
    if (found) return put(a, count, found, length);
    for (size_t i = 0; i < count; i++) {
        n = encode(characters + i, 1, bytes);
        found = count > 1 ? character_map_find(&a->p->map, bytes, n, &length) : NULL;
        if (found)
            TRY(put(a, 1, found, length));
        else
            write_one(a, characters[i], false);
    }
    return true;
}

static bool apply_precompiled(const void *data, const struct view *from, struct text *to, struct error *e)
{
    struct applying a = {.p = data, .e = e};
    const uint32_t *c = from->characters;
    TRY(rewrite_begin(&a.r, from, to, 0, e));
    for (size_t at = 0, end; at < from->length; at = end) {
        end = grapheme_end(c, from->length, at);
        if (end == at + 1 && c[at] - PLAIN_FIRST < PLAIN_END - PLAIN_FIRST && a.p->plain[c[at]])
            write_one(&a, c[at], false);
        else
            TRY(apply_cluster(&a, c + at, end - at));
    }
    return true;
}

const struct normalizer_kind normalizer_precompiled = {"Precompiled", open_precompiled, apply_precompiled,
                                                       close_precompiled};
