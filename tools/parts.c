/* A long work on texts that several processes share. Every process walks through the whole input, which is cheap beside
 * what is made of it, and so finds a part by its number alone; numbers come from a counter that all share. */
#include "parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "new_folder.h"
#include "system.h"

/* Of texts: so few that all processes end at about the same time, and so many that a part takes longer than its file.
 * They depend on the input alone, so that a work goes on with any number of processes. */
enum { PARTS = 512, BYTES_LEAST = 1 << 16, BYTES_MOST = 1 << 24 };
/* A part's file begins with the hash of what it is made from and its number of rows. */
enum { HEADER = 16 + 1 + 20 + 1 };

int parts_open(struct parts *p, struct ranks *ranks, struct text_source *source, const char *target, uint64_t identity)
{
    uint64_t bytes;
    *p = (struct parts){.ranks = ranks, .source = source, .target = target, .identity = identity};
    int code = text_source_bytes(source, &bytes);
    if (code) return code;
    p->bytes = bytes / PARTS < BYTES_LEAST ? BYTES_LEAST : bytes / PARTS > BYTES_MOST ? BYTES_MOST : bytes / PARTS;
    p->folder = need(malloc(strlen(target) + sizeof ".parts"));
    strcat(strcpy(p->folder, target), ".parts");
    if (!ranks->process && !some_folder(p->folder)) return EXIT_OUTPUT;
    code = ranks_same(ranks, identity, "embeddings of the first texts",
                      "all hosts need the same command, files, model, kind of device and driver");
    return code ? code : text_source_seek(source, p->place, UINT64_MAX);
}

void parts_close(struct parts *p)
{
    free(p->folder);
    *p = (struct parts){.ranks = NULL};
}

void parts_remove(const struct parts *p) { remove_all(p->folder); }

/* ---- a part's file ---- */

static char *path_of(const struct parts *p, uint64_t number)
{
    size_t size = strlen(p->folder) + 32;
    char *path = need(malloc(size));
    snprintf(path, size, "%s/part-%08" PRIu64, p->folder, number);
    return path;
}

/* Opened behind its header; NULL: there is none, or it is none of these. */
static FILE *file_of(const char *path, uint64_t *hash, uint64_t *rows)
{
    char header[HEADER + 1] = "";
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    bool fine = fread(header, 1, HEADER, file) == HEADER && header[HEADER - 1] == '\n' &&
                sscanf(header, "%16" SCNx64 " %20" SCNu64, hash, rows) == 2;
    if (fine) return file;
    fclose(file);
    errno = EINVAL;
    return NULL;
}

static bool is_there(const struct part *part)
{
    uint64_t hash = 0, rows;
    FILE *file = file_of(part->path, &hash, &rows);
    if (file) fclose(file);
    return file && hash == part->hash;
}

int part_begin(struct part *part, struct output *out)
{
    if (!output_open(out, part->path)) {
        free(part->path);
        return EXIT_OUTPUT;
    }
    output_format(out, "%016" PRIx64 " %020" PRIu64 "\n", part->hash, part->texts);
    return EXIT_FINE;
}

int part_end(struct parts *p, struct part *part, struct output *out, bool keep)
{
    bool written = output_close(out, keep);
    free(part->path);
    if (!written) return EXIT_OUTPUT;
    if (keep) p->made++;
    return EXIT_FINE;
}

/* ---- the walk ---- */

/* Over the part that the walk is at; *any false: the input has ended. */
static int walk(struct parts *p, struct part *part, bool *any)
{
    uint64_t hash = hash_more(p->identity, &p->texts, sizeof p->texts);
    *part = (struct part){.place = p->place, .number = p->walked, .first = p->texts};
    int code = text_source_skip(p->source, p->bytes, &part->texts, &hash, any);
    part->hash = hash;
    if (code || !*any) return code;
    p->place = p->source->place;
    p->texts += part->texts;
    p->walked++;
    return EXIT_FINE;
}

int parts_next(struct parts *p, struct part *part, bool *more)
{
    uint64_t number;
    for (;;) {
        int code = ranks_count(p->ranks, &number);
        for (*more = true; !code && *more && p->walked <= number;) code = walk(p, part, more);
        if (code || !*more) return code;
        part->path = path_of(p, number);
        if (!is_there(part)) return text_source_seek(p->source, part->place, p->bytes);
        free(part->path);
        part->path = NULL;
        p->kept++;
    }
}

/* ---- the end ---- */

int parts_rows(const struct parts *p, uint64_t *rows)
{
    uint64_t hash, some = 0;
    *rows = 0;
    for (uint64_t n = 0; n < p->walked; n++) {
        char *path = path_of(p, n);
        FILE *file = file_of(path, &hash, &some);
        if (!file) complain(0, "can't read %s: %s", path, strerror(errno));
        free(path);
        if (!file) return EXIT_OUTPUT;
        fclose(file);
        *rows += some;
    }
    return EXIT_FINE;
}

static int copy(FILE *file, const char *path, struct output *out)
{
    char chunk[1 << 14];
    for (size_t size; (size = fread(chunk, 1, sizeof chunk, file)) > 0;) {
        output_write(out, chunk, size);
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    }
    return ferror(file) ? complain(EXIT_OUTPUT, "can't read %s: %s", path, strerror(errno)) : EXIT_FINE;
}

int parts_join(const struct parts *p, struct output *out)
{
    uint64_t hash, rows;
    int code = EXIT_FINE;
    for (uint64_t n = 0; !code && n < p->walked; n++) {
        char *path = path_of(p, n);
        FILE *file = file_of(path, &hash, &rows);
        code = file ? copy(file, path, out) : complain(EXIT_OUTPUT, "can't read %s: %s", path, strerror(errno));
        if (file) fclose(file);
        free(path);
    }
    return code;
}
