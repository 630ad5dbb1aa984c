/* What the tests of the tokenizer share: memory that is counted, folders, and lines with what Hugging Face's
 * `tokenizers` makes of them. */
#ifndef WHERRY_TESTS_TOKENIZER_SUPPORT_H
#define WHERRY_TESTS_TOKENIZER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

/* Last, as it defines fail(). */
#include <cmocka.h>

/* ---- memory that is counted and can run out ---- */

static long blocks, until_failure = -1;

static inline void *counted_alloc(size_t size, void *user)
{
    (void)user;
    if (until_failure == 0) return NULL;
    if (until_failure > 0) until_failure--;
    void *pointer = malloc(size);
    if (pointer) blocks++;
    return pointer;
}

static inline void counted_free(void *pointer, void *user)
{
    (void)user;
    blocks--;
    free(pointer);
}

static const struct host host = {.alloc = counted_alloc, .free = counted_free};

/* ---- folders of one test ---- */

struct folder {
    char path[64];
    char files[4][96];
    int count;
};

static inline void folder_open(struct folder *folder)
{
    *folder = (struct folder){.path = "test_tokenizer_XXXXXX"};
    assert_non_null(mkdtemp(folder->path));
}

static inline void folder_write(struct folder *folder, const char *name, const char *data, size_t size)
{
    char path[sizeof folder->files[0]];
    assert_in_range(snprintf(path, sizeof path, "%s/%s", folder->path, name), 1, sizeof path - 1);
    memcpy(folder->files[folder->count++], path, sizeof path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline void folder_close(struct folder *folder)
{
    for (int i = 0; i < folder->count; i++) unlink(folder->files[i]);
    assert_int_equal(rmdir(folder->path), 0);
}

static inline char *read_data(const char *path, size_t *size)
{
    struct error e;
    char *data;
    if (!file_read(&host, path, (size_t)2 << 30, &data, size, &e)) fail_msg("%s", e.text);
    return data;
}

/* ---- the sample ---- */

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* Resolves \xNN in place; returns the length. */
static inline size_t unescape(char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\\') {
            text[n++] = text[i];
            continue;
        }
        text[n++] = (char)(hex_digit(text[i + 2]) << 4 | hex_digit(text[i + 3]));
        i += 3;
    }
    return n;
}

/* The next line, without its end; NULL past the last. */
static inline char *next_line(char **at, char *end, size_t *size)
{
    if (*at == end) return NULL;
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    *size = (size_t)(stop - line);
    *at = stop + (stop < end);
    *stop = 0;
    return line;
}

/* Whether the ids, types and places are those of the line "id id ...", "id id ...<TAB>types" or "id id
 * ...<TAB>types<TAB> first-end - ..." with "-" for special tokens. */
static bool equals(const char *expected, const int32_t *ids, const int32_t *types, const wherry_token_place *places,
                   size_t count)
{
    size_t i = 0;
    while (*expected && *expected != '\t') {
        char *end;
        long id = strtol(expected, &end, 10);
        if (end == expected || i == count || ids[i++] != id) return false;
        expected = *end == ' ' ? end + 1 : end;
    }
    if (i != count) return false;
    for (i = 0; !*expected && i < count; i++) {
        if (types[i] != 0) return false;
    }
    if (!*expected++) return true;
    for (i = 0; i < count; i++) {
        if (types[i] != *expected++ - '0') return false;
    }
    if (!*expected++) return true;
    for (i = 0; i < count; i++) {
        unsigned long first = 0, end = 0;
        char *after = (char *)expected + 1;
        if (*expected != '-') {
            first = strtoul(expected, &after, 10);
            end = strtoul(after + 1, &after, 10);
        }
        if (places[i].first_character != first || places[i].end_character != end) return false;
        expected = *after == ' ' ? after + 1 : after;
    }
    return !*expected;
}

/* A token's bytes are those of its characters. */
static bool bytes_fit(const char *text, size_t size, const char *pair, size_t pair_size,
                      const wherry_token_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const wherry_token_place *place = &places[i];
        const char *from = place->text ? pair : text;
        size_t bytes = place->text ? pair_size : size, at = 0, n = 0;
        if (place->text < 0) {
            if (place->first || place->end) return false;
            continue;
        }
        uint32_t c;
        for (; n < place->first_character && at < bytes; n++) at += utf8_decode(from + at, bytes - at, &c, NULL);
        if (at != place->first) return false;
        for (; n < place->end_character && at < bytes; n++) at += utf8_decode(from + at, bytes - at, &c, NULL);
        if (at != place->end) return false;
    }
    return true;
}

struct counts {
    size_t passed, failed;
};

static inline struct counts compare(const struct tokenizer *tokenizer, const char *lines_path, const char *ids_path)
{
    enum { MOST = 1 << 16 };
    struct counts counts = {0, 0};
    size_t lines_size, ids_size, size, expected_size;
    char *lines = read_data(lines_path, &lines_size), *ids_text = read_data(ids_path, &ids_size);
    char *line_at = lines, *ids_at = ids_text, *line;
    int32_t *ids = malloc(MOST * sizeof *ids), *types = malloc(MOST * sizeof *types),
            *again = malloc(MOST * sizeof *ids);
    wherry_token_place *places = malloc(MOST * sizeof *places);
    while ((line = next_line(&line_at, lines + lines_size, &size)) != NULL) {
        char *expected = next_line(&ids_at, ids_text + ids_size, &expected_size), *text = strchr(line, '\t');
        assert_true(expected && text);
        size_t limit = strtoul(line, NULL, 10), count = MOST;
        text++;
        char *pair = memchr(text, '\t', size - (size_t)(text - line));
        size_t bytes = (pair ? (size_t)(pair - text) : size - (size_t)(text - line)), pair_bytes = 0;
        if (pair) {
            pair_bytes = unescape(pair + 1, size - (size_t)(pair + 1 - line));
            pair++;
        }
        bytes = unescape(text, bytes);
        struct error e = {0};
        size_t count_again = MOST;
        bool ok =
            tokenizer_encode_places(&host, tokenizer, text, bytes, pair, pair_bytes, limit, ids, types, places, &count,
                                    &e) &&
            count <= MOST && equals(expected, ids, types, places, count) &&
            bytes_fit(text, bytes, pair, pair_bytes, places, count) &&
            /* and the same where nobody asks for places */
            tokenizer_encode(&host, tokenizer, text, bytes, pair, pair_bytes, limit, again, types, &count_again, &e) &&
            count_again == count && !memcmp(again, ids, count * sizeof *ids);
        counts.passed += ok;
        counts.failed += !ok;
        if (ok || counts.failed > 20) continue;
        printf("%s, line %zu: expected %s\n  got", lines_path, counts.passed + counts.failed, expected);
        for (size_t i = 0; i < count && !e.text[0]; i++)
            printf(" %d:%zu-%zu", (int)ids[i], places[i].first_character, places[i].end_character);
        printf(" %s\n", e.text);
    }
    assert_ptr_equal(ids_at, ids_text + ids_size);
    free(ids);
    free(types);
    free(again);
    free(places);
    host_free(&host, lines);
    host_free(&host, ids_text);
    return counts;
}

#endif
