/* memory.h */
#define _XOPEN_SOURCE 700
#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

void *need(void *memory)
{
    if (memory) return memory;
    fputs("search: out of memory\n", stderr);
    exit(1);
}

/* Twice as much whenever it is full: at a power of two. */
void *grown(void *memory, size_t count, size_t size)
{
    if (count & (count - 1)) return memory;
    size_t room = count ? 2 * count : 1;
    if (room > SIZE_MAX / size) need(NULL);
    char *all = need(realloc(memory, room * size));
    memset(all + count * size, 0, (room - count) * size);
    return all;
}

/* Bytes of the character there, 0: none that is well formed and may be shown. */
static size_t character(const unsigned char *at, size_t left, uint32_t *code)
{
    size_t bytes = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
    static const uint32_t first[] = {0, 0x20, 0x80, 0x800, 0x10000};
    *code = bytes == 1 ? *at : *at & (0xff >> (bytes + 1));
    if (bytes > left || (*at >= 0x80 && *at < 0xc2) || *at > 0xf4) return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    if (*code < first[bytes] || *code > 0x10ffff || (*code >= 0x7f && *code < 0xa0)) return 0;
    if (*code >= 0xd800 && *code < 0xe000) return 0;
    /* What turns the direction of text, or has no width. */
    return (*code >= 0x200b && *code < 0x2010) || (*code >= 0x2028 && *code < 0x2030) ||
                   (*code >= 0x2060 && *code < 0x2070)
               ? 0
               : bytes;
}

void harmless(char *text, size_t bytes)
{
    char *to = text;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        if (strchr(" \t\r\n", text[at]) && text[at]) {
            if (to > text && to[-1] != ' ') *to++ = ' ';
            at++;
            continue;
        }
        size_t n = character((const unsigned char *)text + at, bytes - at, &code);
        if (n)
            memmove(to, text + at, n), to += n;
        else
            *to++ = '?';
        at += n ? n : 1;
    }
    *to = 0;
}

size_t fitting(const char *text, size_t most, size_t *columns)
{
    size_t bytes = strlen(text), at = 0;
    *columns = 0;
    while (at < bytes) {
        uint32_t code;
        size_t n = character((const unsigned char *)text + at, bytes - at, &code);
        int width = n ? wcwidth((wchar_t)code) : 1;
        if (width < 0) width = 1;
        if (*columns + (size_t)width > most) break;
        *columns += (size_t)width;
        at += n ? n : 1;
    }
    return at;
}
