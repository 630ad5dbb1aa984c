/* Byte pair encoding, byte-level texts and patterns against Hugging Face's, on the committed sample or on files made by
 * tests/tokenizer/compare_bpe.py:
 *   test_bpe
 *   test_bpe --compare LINES EXPECTED MODEL_FOLDER
 *   test_bpe --time LINES MODEL_FOLDER      processor time of one thread
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer_lines.h"

/* Last, as it defines fail(). */
#include <cmocka.h>

enum { VOCABULARY = 1 << 20 };

/* ---- memory that is counted and can run out ---- */

static long blocks, until_failure = -1;

static void *counted_alloc(size_t size, void *user)
{
    (void)user;
    if (until_failure == 0) return NULL;
    if (until_failure > 0) until_failure--;
    void *pointer = malloc(size);
    if (pointer) blocks++;
    return pointer;
}

static void counted_free(void *pointer, void *user)
{
    (void)user;
    blocks--;
    free(pointer);
}

static const struct host host = {.alloc = counted_alloc, .free = counted_free};

static int run_compare(char **arguments)
{
    struct error e;
    struct tokenizer *t = tokenizer_open(&host, arguments[2], VOCABULARY, &e);
    if (!t) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    struct counts counts = lines_compare(&host, t, arguments[0], arguments[1]);
    tokenizer_close(t);
    printf("%zu equal, %zu different\n", counts.passed, counts.failed);
    return counts.failed != 0;
}

/* Each line is a text, as it is. */
static int run_time(char **arguments)
{
    struct error e;
    char *lines, *at, *line;
    size_t size, tokens = 0;
    uint64_t begin = processor_ns();
    struct tokenizer *t = tokenizer_open(&host, arguments[1], VOCABULARY, &e);
    if (!t || !file_read(&host, arguments[0], (size_t)2 << 30, &lines, &size, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    uint64_t opened = processor_ns();
    int32_t *ids = malloc((size + 64) * sizeof *ids);
    for (at = lines; (line = next_field(&at, '\n')) != NULL;) {
        size_t count = size + 64;
        if (!tokenizer_encode(&host, t, line, strlen(line), NULL, 0, 0, ids, NULL, &count, &e)) {
            fprintf(stderr, "%s\n", e.text);
            return 2;
        }
        tokens += count;
    }
    printf("{\"open_ms\": %.1f, \"encode_s\": %.4f, \"bytes\": %zu, \"tokens\": %zu}\n", (double)(opened - begin) / 1e6,
           (double)(processor_ns() - opened) / 1e9, size, tokens);
    free(ids);
    host_free(&host, lines);
    tokenizer_close(t);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "--compare")) return run_compare(argv + 2);
    if (argc == 4 && !strcmp(argv[1], "--time")) return run_time(argv + 2);
    return 0;
}
