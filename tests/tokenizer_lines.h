/* Lines to tokenize and what Hugging Face's `tokenizers` makes of them: files of tests/tokenizer/compare_bpe.py.
 *
 * A line is "max_tokens<TAB>text" or "max_tokens<TAB>text<TAB>pair", with \xNN for control bytes, bytes that are not
 * UTF-8 and the backslash. What is expected of it: "id id ...<TAB>types<TAB>first-end first-end ...", a digit a type,
 * and places in characters, 0-0 of special tokens; "*": of any place. */
#ifndef WHERRY_TESTS_TOKENIZER_LINES_H
#define WHERRY_TESTS_TOKENIZER_LINES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "tokenizer/tokenizer.h"

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* Resolves \xNN in place; returns the length. */
static size_t unescape(char *text)
{
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] != '\\') {
            text[n++] = text[i];
            continue;
        }
        text[n++] = (char)(hex_digit(text[i + 2]) << 4 | hex_digit(text[i + 3]));
        i += 3;
    }
    return n;
}

/* The text up to the next `stop`, which becomes a NUL; *at goes behind it, to NULL where there is none. */
static char *next_field(char **at, char stop)
{
    char *field = *at, *end = field ? strchr(field, stop) : NULL;
    *at = end ? end + 1 : NULL;
    if (end) *end = 0;
    return field;
}

struct line {
    size_t limit, text_bytes, pair_bytes;
    char *text, *pair; /* pair NULL: none */
};

static struct line line_read(char *at)
{
    struct line line = {.limit = strtoul(next_field(&at, '\t'), NULL, 10)};
    line.text = next_field(&at, '\t');
    line.pair = at;
    line.text_bytes = unescape(line.text);
    if (line.pair) line.pair_bytes = unescape(line.pair);
    return line;
}

enum { LINE_TOKENS = 1 << 16 };

/* What a line became. */
struct line_tokens {
    int32_t ids[LINE_TOKENS], types[LINE_TOKENS];
    wherry_token_place places[LINE_TOKENS];
    size_t count;
};

/* Whether `found` is what the line `expected` says, which is cut into pieces. */
static bool line_equals(char *expected, const struct line_tokens *found)
{
    char *ids = next_field(&expected, '\t'), *types = next_field(&expected, '\t'), *places = expected;
    if (!places || strlen(types) != found->count) return false;
    for (size_t i = 0; i < found->count; i++) {
        const wherry_token_place *place = &found->places[i];
        bool special = place->text < 0;
        if (strtol(ids, &ids, 10) != found->ids[i] || types[i] - '0' != found->types[i]) return false;
        if (*places == '*') continue;
        unsigned long first = strtoul(places, &places, 10), end = strtoul(places + 1, &places, 10);
        if (first != (special ? 0 : place->first_character) || end != (special ? 0 : place->end_character))
            return false;
    }
    return !*ids && (!*places || *places == '*');
}

static void line_show(const char *name, size_t number, const char *expected, const struct line_tokens *found)
{
    printf("%s, line %zu: expected %s\n  got", name, number, expected);
    for (size_t i = 0; i < found->count; i++)
        printf(" %d(%zu-%zu)", (int)found->ids[i], found->places[i].first_character, found->places[i].end_character);
    printf("\n");
}

struct counts {
    size_t passed, failed;
};

/* Compares all lines of a file; shows the first ones that differ. */
static struct counts lines_compare(const struct host *host, const struct tokenizer *tokenizer, const char *lines_path,
                                   const char *expected_path)
{
    enum { SHOWN = 10 };
    struct counts counts = {0, 0};
    struct error e = {0};
    size_t size;
    char *lines = NULL, *all_expected = NULL, *line_at, *expected_at, *line;
    struct line_tokens *found = malloc(sizeof *found);
    if (!found || !file_read(host, lines_path, (size_t)2 << 30, &lines, &size, &e) ||
        !file_read(host, expected_path, (size_t)2 << 30, &all_expected, &size, &e)) {
        printf("%s\n", e.text);
        exit(2);
    }
    line_at = lines;
    expected_at = all_expected;
    while ((line = next_field(&line_at, '\n')) != NULL && *line) {
        char *expected = next_field(&expected_at, '\n'), *copy = expected ? strdup(expected) : NULL;
        struct line read = line_read(line);
        found->count = LINE_TOKENS;
        e.text[0] = 0;
        bool ok = tokenizer_encode_places(host, tokenizer, read.text, read.text_bytes, read.pair, read.pair_bytes,
                                          read.limit, found->ids, found->types, found->places, &found->count, &e);
        if (!ok) found->count = 0;
        ok = ok && expected && found->count <= LINE_TOKENS && line_equals(expected, found);
        if (!ok && counts.failed < SHOWN) {
            line_show(lines_path, counts.passed + counts.failed + 1, copy ? copy : "nothing", found);
            if (e.text[0]) printf("  %s\n", e.text);
        }
        counts.passed += ok;
        counts.failed += !ok;
        free(copy);
    }
    if (expected_at && *expected_at) counts.failed++; /* more is expected */
    host_free(host, lines);
    host_free(host, all_expected);
    free(found);
    return counts;
}

#endif
