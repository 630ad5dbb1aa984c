/* Normalizers that look at each character, or at the ends of the text, alone. */
#include "tokenizer/normalizers.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_forms.h"

/* ---- lower case, and the normalization forms ---- */

static bool apply_lowercase(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return unicode_lower_text(from, to, e);
}

static bool apply_nfc(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return unicode_form(UNICODE_NFC, from, to, e);
}

static bool apply_nfd(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return unicode_form(UNICODE_NFD, from, to, e);
}

static bool apply_nfkc(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return unicode_form(UNICODE_NFKC, from, to, e);
}

static bool apply_nfkd(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return unicode_form(UNICODE_NFKD, from, to, e);
}

const struct normalizer_kind normalizer_lowercase = {"Lowercase", NULL, apply_lowercase, NULL};
const struct normalizer_kind normalizer_nfc = {"NFC", NULL, apply_nfc, NULL};
const struct normalizer_kind normalizer_nfd = {"NFD", NULL, apply_nfd, NULL};
const struct normalizer_kind normalizer_nfkc = {"NFKC", NULL, apply_nfkc, NULL};
const struct normalizer_kind normalizer_nfkd = {"NFKD", NULL, apply_nfkd, NULL};

/* ---- what is dropped ---- */

static bool apply_strip_accents(const void *data, const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    (void)data;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) {
        if (unicode_is_mark(from->characters[i]))
            rewrite_skip(&r, 1);
        else
            rewrite_replace(&r, from->characters[i]);
    }
    return true;
}

const struct normalizer_kind normalizer_strip_accents = {"StripAccents", NULL, apply_strip_accents, NULL};

struct strip {
    bool left, right;
};

static bool open_strip(const struct part_reader *r, const json_t *json, void **data)
{
    struct strip *strip = host_alloc(r->host, 1, sizeof *strip, r->e);
    if (!strip) return false;
    *data = strip;
    return part_bool(r, json, "strip_left", &strip->left) && part_bool(r, json, "strip_right", &strip->right);
}

static bool apply_strip(const void *data, const struct view *from, struct text *to, struct error *e)
{
    const struct strip *strip = data;
    struct rewrite r;
    size_t first = 0, end = from->length;
    TRY(rewrite_begin(&r, from, to, 0, e));
    while (strip->left && first < end && unicode_is_space(from->characters[first])) first++;
    while (strip->right && end > first && unicode_is_space(from->characters[end - 1])) end--;
    rewrite_skip(&r, first);
    for (size_t i = first; i < end; i++) rewrite_replace(&r, from->characters[i]);
    return true;
}

static void close_flat(const struct host *host, void *data) { host_free(host, data); }

const struct normalizer_kind normalizer_strip = {"Strip", open_strip, apply_strip, close_flat};

/* ---- SentencePiece's rules for machine translation ---- */

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

static bool nmt_is_space(uint32_t c)
{
    return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
           c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

static bool apply_nmt(const void *data, const struct view *from, struct text *to, struct error *e)
{
    struct rewrite r;
    (void)data;
    TRY(rewrite_begin(&r, from, to, 0, e));
    for (size_t i = 0; i < from->length; i++) {
        uint32_t c = from->characters[i];
        if (nmt_drops(c))
            rewrite_skip(&r, 1);
        else
            rewrite_replace(&r, nmt_is_space(c) ? ' ' : c);
    }
    return true;
}

const struct normalizer_kind normalizer_nmt = {"Nmt", NULL, apply_nmt, NULL};

/* ---- what is put before the text ---- */

static bool open_prepend(const struct part_reader *r, const json_t *json, void **data)
{
    struct list *prefix = host_alloc(r->host, 1, sizeof *prefix, r->e);
    if (!prefix) return false;
    *data = prefix;
    return part_characters(r, json, "prepend", prefix);
}

static bool apply_prepend(const void *data, const struct view *from, struct text *to, struct error *e)
{
    const struct list *prefix = data;
    return text_prepend(from, prefix->items, prefix->count, to, e);
}

static void close_prepend(const struct host *host, void *data)
{
    list_free(data);
    host_free(host, data);
}

const struct normalizer_kind normalizer_prepend = {"Prepend", open_prepend, apply_prepend, close_prepend};
