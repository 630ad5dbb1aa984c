/* A text that grows: bodies of requests and of answers. */
#include "bytes.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "plain_text.h"

char *bytes_room(struct bytes *b, size_t more)
{
    if (b->room - b->used < more) {
        size_t room = b->room ? b->room : 256;
        while (room - b->used < more) room += room / 2 > more ? room / 2 : more;
        b->at = need(realloc(b->at, room));
        b->room = room;
    }
    return b->at + b->used;
}

void bytes_put(struct bytes *b, const void *data, size_t size)
{
    if (!size) return;
    memcpy(bytes_room(b, size), data, size);
    b->used += size;
}

void bytes_text(struct bytes *b, const char *text) { bytes_put(b, text, strlen(text)); }

void bytes_format(struct bytes *b, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) bytes_put(b, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void bytes_free(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){.at = NULL};
}

/* ---- JSON ---- */

void bytes_quoted(struct bytes *b, const char *text, size_t size)
{
    char *to = bytes_room(b, JSON_QUOTED_MOST * size + 2);
    b->used += json_quote(text, size, to);
}

void bytes_name(struct bytes *b, const char *text) { bytes_quoted(b, text, strlen(text)); }

void bytes_float(struct bytes *b, float value) { b->used += format_float(value, bytes_room(b, NUMBER_SIZE)); }

void bytes_floats(struct bytes *b, const float *values, size_t count)
{
    char *at = bytes_room(b, (NUMBER_SIZE + 1) * count + 2), *begin = at;
    *at++ = '[';
    for (size_t i = 0; i < count; i++) {
        if (i) *at++ = ',';
        at += format_float(values[i], at);
    }
    *at++ = ']';
    b->used += (size_t)(at - begin);
}

void bytes_base64(struct bytes *b, const float *values, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = count * sizeof *values;
    unsigned char *raw = need(malloc(size + 2));
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        for (int n = 0; n < 4; n++) raw[4 * i + (size_t)n] = (unsigned char)(word >> 8 * n);
    }
    raw[size] = raw[size + 1] = 0;
    char *at = bytes_room(b, (size + 2) / 3 * 4 + 2), *begin = at;
    *at++ = '"';
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)raw[i] << 16 | (uint32_t)raw[i + 1] << 8 | raw[i + 2];
        for (int n = 0; n < 4; n++) *at++ = digits[three >> (18 - 6 * n) & 63];
    }
    for (size_t n = (3 - size % 3) % 3; n > 0; n--) at[-(ptrdiff_t)n] = '=';
    *at++ = '"';
    b->used += (size_t)(at - begin);
    free(raw);
}

void bytes_number(struct bytes *b, double value) { bytes_float(b, (float)value); }
