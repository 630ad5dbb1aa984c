/* Byte-level texts: GPT-2's words, and a character for every byte. */
#include "tokenizer/byte_level.h"

#include "base/utf8.h"
#include "tokenizer/letters.h"
#include "tokenizer/normalizers.h"

/* ---- the alphabet ---- */

/* A byte that Latin-1 shows is that character; the others are, in order, those from U+0100 on. */
static uint32_t byte_character(uint8_t byte)
{
    if (byte <= ' ') return 0x100 + byte;
    if (byte < 0x7F) return byte;
    if (byte <= 0xA0) return 0x121 + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143 : byte;
}

/* The other way round; false: it is no character of the alphabet. */
static bool character_byte(uint32_t c, uint8_t *byte)
{
    *byte = (uint8_t)(c < 0x100 ? c : c <= 0x120 ? c - 0x100 : c <= 0x142 ? c - 0x121 + 0x7F : 0xAD);
    return byte_character(*byte) == c;
}

bool byte_level_spells(const uint32_t *text, size_t length, char *bytes)
{
    for (size_t i = 0; i < length; i++) {
        uint8_t byte;
        if (!character_byte(text[i], &byte)) return false;
        bytes[i] = (char)byte;
    }
    return true;
}

/* Writes the next character's bytes, all in its place. There is room. */
static void rewrite_bytes(struct rewrite *r)
{
    char bytes[4];
    size_t n = utf8_write(r->from->characters[r->at], bytes);
    rewrite_replace(r, byte_character((uint8_t)bytes[0]));
    for (size_t i = 1; i < n; i++) rewrite_insert(r, byte_character((uint8_t)bytes[i]));
}

/* Writes from[first, end) as bytes into `to`, which was emptied; `space`: after a space in the first one's place. */
static bool write_bytes(const struct view *from, bool space, struct text *to, struct error *e)
{
    struct rewrite r;
    TRY(rewrite_begin(&r, from, to, 3 * from->length + 1, e));
    if (space) {
        rewrite_replace(&r, byte_character(' '));
        r.at = 0;
    }
    while (r.at < from->length) rewrite_bytes(&r);
    return true;
}

/* ---- as a normalizer ---- */

static bool apply_bytes(const void *data, const struct view *from, struct text *to, struct error *e)
{
    (void)data;
    return write_bytes(from, false, to, e);
}

const struct normalizer_kind normalizer_byte_level = {"ByteLevel", NULL, apply_bytes, NULL};

/* ---- GPT-2's words ---- */

/* What the apostrophe at text[0] begins of 's 't 'm 'd 're 've 'll, in characters; 0: none of them. */
static size_t contraction(const uint32_t *text, size_t length)
{
    uint32_t a = length > 1 ? text[1] : 0, b = length > 2 ? text[2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Where the word ends that begins at text[at]: one of
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * `space`: as if a space stood before it, which is the word's first character. */
static size_t word_end(const uint32_t *text, size_t length, size_t at, bool space)
{
    size_t i = at, n = !space && text[at] == '\'' ? contraction(text + at, length - at) : 0;
    if (n) return at + n;
    if (!space && text[at] == ' ') i++;
    enum letter kind = i < length ? letter_of(text[i]) : LETTER_SPACE;
    if (kind == LETTER_SPACE) i = at;
    while (i < length && letter_of(text[i]) == kind) i++;
    /* The last space of a run belongs to the word after it. */
    bool run = i - at + space > 1;
    return kind == LETTER_SPACE && i < length && run ? i - 1 : i;
}

struct byte_level {
    bool prefix_space, words;
};

bool byte_level_make(const struct part_reader *r, bool prefix_space, void **data)
{
    struct byte_level *b = host_alloc(r->host, 1, sizeof *b, r->e);
    if (!b) return false;
    *b = (struct byte_level){prefix_space, true};
    *data = b;
    return true;
}

static bool open_byte_level(const struct part_reader *r, const json_t *json, void **data)
{
    TRY(byte_level_make(r, true, data));
    struct byte_level *b = *data;
    return part_bool(r, json, "add_prefix_space", &b->prefix_space) &&
           part_optional_bool(r, json, "use_regex", &b->words);
}

static void close_byte_level(const struct host *host, void *data) { host_free(host, data); }

static bool split_byte_level(const void *data, const struct view *text, struct pieces *to)
{
    const struct byte_level *b = data;
    bool space = b->prefix_space && text->characters[0] != ' ';
    for (size_t at = 0; at < text->length && !*to->full; space = false) {
        size_t end = b->words ? word_end(text->characters, text->length, at, space) : text->length;
        struct view word = view_slice(text, at, end), bytes;
        TRY(write_bytes(&word, space, &to->scratch, to->e));
        bytes = text_view(&to->scratch);
        TRY(piece_add(to, &bytes, 0, bytes.length));
        at = end;
    }
    return true;
}

const struct pre_tokenizer_kind pre_tokenizer_byte_level = {"ByteLevel", open_byte_level, split_byte_level,
                                                            close_byte_level, NULL};
