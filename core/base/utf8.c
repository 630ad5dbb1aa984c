/* UTF-8 from files, drivers and command lines: reading it, and showing it to people without being steered by it. */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

size_t utf8_decode(const char *text, size_t size, uint32_t *c, bool *valid)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned lead = s[0];
    if (lead < 0x80) {
        *c = lead;
        return 1;
    }
    /* The second byte's range excludes overlong forms, surrogates, and what lies beyond U+10FFFF. */
    unsigned low = 0x80, high = 0xBF;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2, used = 1;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (lead >= 0xC2 && lead <= 0xF4) {
        uint32_t value = lead & (0x7Fu >> length);
        while (used < length && used < size && s[used] >= low && s[used] <= high) {
            value = value << 6 | (s[used++] & 0x3Fu);
            low = 0x80;
            high = 0xBF;
        }
        if (used == length) {
            *c = value;
            return used;
        }
    }
    *c = UTF8_REPLACEMENT;
    if (valid) *valid = false;
    return used;
}

size_t utf8_write(uint32_t c, char out[4])
{
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(leads[n] | c);
    return n;
}

/* Characters that a terminal obeys or does not show: controls, the soft hyphen, marks and overrides of direction,
 * spaces and joiners without width, line and paragraph separators, annotations, tags. */
static bool must_escape(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } spans[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},      {0x61C, 0x61C},
                 {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                 {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (c >= spans[i].first && c <= spans[i].last) return true;
    return false;
}

/* What stands for the character at `text`, in `piece`; *used: the bytes that it has. */
static size_t show_one(const char *text, size_t bytes, size_t *used, char piece[16])
{
    static const char named[] = "\n\r\t", letters[] = "nrt";
    uint32_t c;
    bool valid = true;
    *used = utf8_decode(text, bytes, &c, &valid);
    if (!valid) *used = 1;
    if (valid && !must_escape(c)) {
        memcpy(piece, text, *used);
        return *used;
    }
    const char *name = valid && c && c < 0x20 ? strchr(named, (int)c) : NULL;
    if (name) return (size_t)snprintf(piece, 16, "\\%c", letters[name - named]);
    if (!valid || c < 0x80) return (size_t)snprintf(piece, 16, "\\x%02x", (unsigned)(unsigned char)*text);
    return (size_t)snprintf(piece, 16, "\\u{%x}", (unsigned)c);
}

size_t utf8_show(const char *text, size_t bytes, char *to, size_t size)
{
    size_t length = 0, used;
    char piece[16];
    for (size_t i = 0; i < bytes; i += used) {
        size_t n = show_one(text + i, bytes - i, &used, piece);
        if (length + n + 1 > size) break;
        memcpy(to + length, piece, n);
        length += n;
    }
    if (size) to[length] = 0;
    return length;
}

enum { FORMAT_MAX = 1024 };

void utf8_show_within(char *text, size_t size)
{
    char raw[FORMAT_MAX];
    size_t bytes = 0;
    while (bytes < sizeof raw && bytes < size && text[bytes]) bytes++;
    memcpy(raw, text, bytes);
    utf8_show(raw, bytes, text, size);
}

int utf8_cut(const char *text, size_t most)
{
    size_t bytes = 0;
    while (bytes < most && text[bytes]) bytes++;
    if (bytes < most || !text[bytes]) return (int)bytes;
    size_t last = bytes; /* where the character begins that may go on past the end */
    while (last && bytes - last < 3 && ((unsigned char)text[last] & 0xC0) == 0x80) last--;
    return (int)(((unsigned char)text[last] & 0xC0) == 0xC0 ? last : bytes);
}

void utf8_format(char *to, size_t size, const char *format, va_list ap)
{
    char raw[FORMAT_MAX];
    int wanted = vsnprintf(raw, sizeof raw, format, ap);
    if (wanted < 0) raw[0] = 0;
    size_t bytes = strlen(raw);
    if (wanted >= (int)sizeof raw) bytes = (size_t)utf8_cut(raw, bytes - 1);
    utf8_show(raw, bytes, to, size);
}
