/* What the fuzz targets share: a host, an input that is several files, a folder in memory to put them into, and checks
 * that end the program as a crash does. Include this first, as it asks for POSIX. */
#ifndef WHERRY_TESTS_FUZZ_H
#define WHERRY_TESTS_FUZZ_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"

/* libFuzzer calls this; 0: the input may go into the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what) fuzz_check(what, #what, __FILE__, __LINE__)

/* Standard error as it was at the start: libFuzzer closes it for what the code under test prints. */
static int fuzz_stderr;
__attribute__((constructor)) static void fuzz_keep_stderr(void) { fuzz_stderr = dup(2); }

static inline void fuzz_check(bool ok, const char *what, const char *file, int line)
{
    if (ok) return;
    dprintf(fuzz_stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* ---- the host: memory that is counted, so that a leak shows in the very input that makes it ---- */

static long fuzz_blocks;

static inline void *fuzz_alloc(size_t size, void *user)
{
    (void)user;
    void *pointer = malloc(size);
    fuzz_blocks += pointer != NULL;
    return pointer;
}

static inline void fuzz_free(void *pointer, void *user)
{
    (void)user;
    fuzz_blocks--;
    free(pointer);
}

static inline void fuzz_log(wherry_log_level level, const char *text, void *user)
{
    (void)user;
    CHECK(level <= WHERRY_LOG_DEBUG && strlen(text) < 4096);
}

static const struct host fuzz_host = {.alloc = fuzz_alloc, .free = fuzz_free, .log = fuzz_log};

/* A failure has a status and a sentence. */
static inline void fuzz_failed(const struct error *e)
{
    CHECK(e->status != WHERRY_STATUS_OK);
    CHECK(e->text[0] && strlen(e->text) < sizeof e->text);
}

/* ---- several files in one input: one after the other, with this byte between them, which is in no text ---- */

enum { FUZZ_SEPARATOR = 0x1E };

struct fuzz_part {
    const uint8_t *data;
    size_t size;
};

/* All `count` parts, the missing ones empty; the last one takes what is left. */
static inline void fuzz_split(const uint8_t *data, size_t size, struct fuzz_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *end = i + 1 < count && size ? memchr(data, FUZZ_SEPARATOR, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        parts[i] = (struct fuzz_part){data, length};
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
}

/* The part as a text, which the caller frees. */
static inline char *fuzz_text(struct fuzz_part part)
{
    char *text = malloc(part.size + 1);
    CHECK(text != NULL);
    if (part.size) memcpy(text, part.data, part.size);
    text[part.size] = 0;
    return text;
}

/* ---- files ---- */

/* This process's folder, made when it is first asked for: in $FUZZ_FOLDER, which scripts/fuzz.sh removes, else in /tmp.
 */
static inline const char *fuzz_folder(void)
{
    static char path[512];
    if (*path) return path;
    const char *base = getenv("FUZZ_FOLDER");
    snprintf(path, sizeof path, "%s/fuzz-XXXXXX", base && *base ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
    return path;
}

static inline const char *fuzz_path(const char *name)
{
    static char path[2][640];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", fuzz_folder(), name);
    return path[turn];
}

/* Writes the file; its folder is there. */
static inline void fuzz_write(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(fuzz_path(name), "wb");
    CHECK(file != NULL);
    CHECK(!size || fwrite(data, 1, size, file) == size);
    CHECK(fclose(file) == 0);
}

/* Writes each part into the file of its name; an empty part is no file. */
static inline void fuzz_write_parts(const struct fuzz_part *parts, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size)
            fuzz_write(names[i], parts[i].data, parts[i].size);
        else
            unlink(fuzz_path(names[i]));
    }
}

#endif
