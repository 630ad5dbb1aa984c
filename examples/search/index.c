/* Folders, their files, and the file that keeps their vectors (index.h). */
#define _XOPEN_SOURCE 700
#include "index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

enum { PATH_BYTES = 4096, FOLDERS_DEEP = 32, TEXT_MOST = 4 << 20, PASSAGE_LEAST = 200, PASSAGE_MOST = 900 };

static const char magic[8] = "wsearch1";

/* ---- passages ---- */

static void add_passage(struct entry *e, const char *text, size_t begin, size_t end, uint32_t line)
{
    while (begin < end && strchr(" \t\r\n", text[begin])) line += text[begin++] == '\n';
    while (end > begin && strchr(" \t\r\n", text[end - 1])) end--;
    if (begin == end) return;
    e->passages = grown(e->passages, e->count, sizeof *e->passages);
    e->passages[e->count++] = (struct passage){.offset = begin, .bytes = (uint32_t)(end - begin), .line = line};
}

/* A passage ends at an empty line or a heading once it is long enough to mean something, and at a line's or word's end
 * before it is longer than a model takes. */
static void divide(struct entry *e, const char *text, size_t size)
{
    size_t begin = 0;
    uint32_t line = 1, first = 1;
    for (size_t at = 0; at < size; at++) {
        bool newline = text[at] == '\n';
        line += newline;
        size_t bytes = at + 1 - begin;
        bool paragraph = newline && bytes >= PASSAGE_LEAST && at + 1 < size && strchr("\n#=", text[at + 1]);
        bool full = bytes >= PASSAGE_MOST && (newline || text[at] == ' ');
        if (!paragraph && !full && bytes < 2 * PASSAGE_MOST) continue;
        /* Within a word that does not end: not within a character of it. */
        while (at + 1 < size && ((unsigned char)text[at + 1] & 0xc0) == 0x80) at++;
        add_passage(e, text, begin, at + 1, first);
        begin = at + 1;
        first = line;
    }
    add_passage(e, text, begin, size, first);
}

static void forget(struct entry *e)
{
    free(e->passages);
    free(e->vectors);
    e->passages = NULL;
    e->vectors = NULL;
    e->count = e->done = 0;
    e->read = false;
}

static char *path_of(const struct index *index, const char *name, char *path)
{
    return snprintf(path, PATH_BYTES, "%s/%s", index->folder, name) < PATH_BYTES ? path : NULL;
}

/* `size` bytes from `offset` on, with a NUL after them; *got says how many there were. */
static bool read_part(const char *path, uint64_t offset, char *text, size_t size, size_t *got)
{
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat s;
    bool ok = file >= 0 && fstat(file, &s) == 0 && S_ISREG(s.st_mode);
    ssize_t n = 1;
    for (*got = 0; ok && n > 0 && *got<size; *got += n> 0 ? (size_t)n : 0)
        n = pread(file, text + *got, size - *got, (off_t)(offset + *got));
    if (file >= 0) close(file);
    text[*got] = 0;
    return ok && n >= 0;
}

char *index_read(struct index *index, size_t entry)
{
    struct entry *e = &index->entries[entry];
    char path[PATH_BYTES];
    forget(e);
    e->read = true;
    if (e->size > TEXT_MOST || !path_of(index, e->path, path)) return NULL;
    char *text = need(malloc((size_t)e->size + 1));
    size_t got;
    if (!read_part(path, 0, text, (size_t)e->size, &got) || memchr(text, 0, got)) {
        free(text);
        return NULL;
    }
    divide(e, text, got);
    e->vectors = need(calloc(e->count ? e->count : 1, index->dimensions * sizeof *e->vectors));
    return text;
}

/* ---- the folder ---- */

static struct entry *find(struct index *index, const char *path)
{
    for (size_t i = 0; i < index->count; i++)
        if (!strcmp(index->entries[i].path, path)) return &index->entries[i];
    index->entries = grown(index->entries, index->count, sizeof *index->entries);
    struct entry *e = &index->entries[index->count++];
    *e = (struct entry){.path = need(strdup(path))};
    return e;
}

static void see(struct index *index, const char *name, const struct stat *s)
{
    struct entry *e = find(index, name);
    bool same =
        e->seconds == s->st_mtim.tv_sec && e->nanoseconds == s->st_mtim.tv_nsec && e->size == (uint64_t)s->st_size;
    if (!same) forget(e);
    e->there = true;
    e->seconds = s->st_mtim.tv_sec;
    e->nanoseconds = s->st_mtim.tv_nsec;
    e->size = (uint64_t)s->st_size;
}

/* Hidden files are left out, and links: what they lead to has a name of its own, or is elsewhere. */
static bool walk(struct index *index, const char *below, int deep)
{
    char path[PATH_BYTES], name[PATH_BYTES];
    DIR *folder = path_of(index, below, path) ? opendir(path) : NULL;
    if (!folder) return false;
    for (const struct dirent *d; (d = readdir(folder)) != NULL;) {
        struct stat s;
        if (d->d_name[0] == '.' ||
            snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", d->d_name) >= PATH_BYTES ||
            !path_of(index, name, path) || lstat(path, &s))
            continue;
        if (S_ISREG(s.st_mode) && s.st_size) see(index, name, &s);
        if (S_ISDIR(s.st_mode) && deep) walk(index, name, deep - 1);
    }
    closedir(folder);
    return true;
}

bool index_scan(struct index *index)
{
    size_t kept = 0;
    for (size_t i = 0; i < index->count; i++) index->entries[i].there = false;
    if (!walk(index, "", FOLDERS_DEEP)) return false;
    for (size_t i = 0; i < index->count; i++) {
        if (index->entries[i].there) {
            index->entries[kept++] = index->entries[i];
            continue;
        }
        forget(&index->entries[i]);
        free(index->entries[i].path);
    }
    index->count = kept;
    return true;
}

/* ---- the file ---- */

struct header {
    char magic[sizeof magic];
    uint32_t order, dimensions; /* 1, in the byte order of whoever wrote it */
    char model[sizeof((struct index *)0)->model];
    uint64_t entries;
};

struct record {
    int64_t seconds, nanoseconds;
    uint64_t size;
    uint32_t path_bytes, count; /* then the path, the passages, and their vectors */
};

struct cursor {
    const char *at;
    size_t left;
};

/* The next bytes; NULL: there are not so many. */
static const void *take(struct cursor *c, uint64_t count, size_t size)
{
    const char *at = c->at;
    if (count > c->left / size) return NULL;
    c->at += count * size;
    c->left -= (size_t)count * size;
    return at;
}

static bool load_entry(struct index *index, struct cursor *c)
{
    struct record r;
    const void *at = take(c, 1, sizeof r);
    if (!at) return false;
    memcpy(&r, at, sizeof r);
    const char *path = take(c, r.path_bytes, 1);
    const void *passages = take(c, r.count, sizeof(struct passage));
    const void *vectors = take(c, r.count, index->dimensions * sizeof(float));
    if (!path || !passages || !vectors || !r.path_bytes || memchr(path, 0, r.path_bytes)) return false;
    index->entries = grown(index->entries, index->count, sizeof *index->entries);
    struct entry *e = &index->entries[index->count++];
    *e = (struct entry){.path = need(strndup(path, r.path_bytes)),
                        .seconds = r.seconds,
                        .nanoseconds = r.nanoseconds,
                        .size = r.size,
                        .count = r.count,
                        .done = r.count,
                        .passages = need(calloc(r.count ? r.count : 1, sizeof *e->passages)),
                        .vectors = need(calloc(r.count ? r.count : 1, index->dimensions * sizeof *e->vectors)),
                        .read = true};
    memcpy(e->passages, passages, r.count * sizeof *e->passages);
    memcpy(e->vectors, vectors, (size_t)r.count * index->dimensions * sizeof *e->vectors);
    for (uint32_t i = 0; i < r.count; i++)
        if (e->passages[i].bytes > 4 * PASSAGE_MOST || e->passages[i].offset > TEXT_MOST) return false;
    return true;
}

static const char *load(struct index *index, struct cursor c)
{
    struct header h;
    const void *at = take(&c, 1, sizeof h);
    if (!at) return "it is too short";
    memcpy(&h, at, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) || h.order != 1) return "another program wrote it";
    if (h.dimensions != index->dimensions || memcmp(h.model, index->model, sizeof h.model))
        return "it is another model's";
    for (uint64_t i = 0; i < h.entries; i++)
        if (!load_entry(index, &c)) return "it is damaged";
    return c.left ? "it is damaged" : NULL;
}

void index_open(struct index *index, const char *folder, const char *model, uint32_t dimensions, const char **why)
{
    char path[PATH_BYTES];
    struct stat s;
    *index = (struct index){.folder = need(strdup(folder)), .dimensions = dimensions};
    snprintf(index->model, sizeof index->model, "%s", model);
    *why = NULL;
    if (!path_of(index, INDEX_FILE, path) || lstat(path, &s)) return;
    char *data = S_ISREG(s.st_mode) ? malloc((size_t)s.st_size + 1) : NULL;
    size_t got = 0;
    if (!data || !read_part(path, 0, data, (size_t)s.st_size, &got))
        *why = "it can't be read";
    else
        *why = load(index, (struct cursor){data, got});
    free(data);
    if (!*why) return;
    for (size_t i = 0; i < index->count; i++) forget(&index->entries[i]), free(index->entries[i].path);
    index->count = 0;
}

void index_close(struct index *index)
{
    for (size_t i = 0; i < index->count; i++) forget(&index->entries[i]), free(index->entries[i].path);
    free(index->entries);
    free(index->folder);
    *index = (struct index){.folder = NULL};
}

static bool entry_done(const struct entry *e) { return e->read && e->done == e->count; }

static bool put(FILE *file, const void *data, size_t size, size_t count)
{
    return !count || fwrite(data, size, count, file) == count;
}

static bool write_all(const struct index *index, FILE *file)
{
    struct header h = {.order = 1, .dimensions = index->dimensions};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.model, index->model, sizeof h.model);
    for (size_t i = 0; i < index->count; i++) h.entries += entry_done(&index->entries[i]);
    bool ok = put(file, &h, sizeof h, 1);
    for (size_t i = 0; ok && i < index->count; i++) {
        const struct entry *e = &index->entries[i];
        if (!entry_done(e)) continue;
        const struct record r = {.seconds = e->seconds,
                                 .nanoseconds = e->nanoseconds,
                                 .size = e->size,
                                 .path_bytes = (uint32_t)strlen(e->path),
                                 .count = e->count};
        size_t floats = (size_t)e->count * index->dimensions;
        ok = put(file, &r, sizeof r, 1) && put(file, e->path, 1, r.path_bytes) &&
             put(file, e->passages, sizeof *e->passages, e->count) && put(file, e->vectors, sizeof *e->vectors, floats);
    }
    return ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

bool index_save(const struct index *index)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    if (!path_of(index, INDEX_FILE, path) || !path_of(index, INDEX_FILE ".XXXXXX", temporary)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int handle = mkstemp(temporary);
    FILE *file = handle >= 0 ? fdopen(handle, "wb") : NULL;
    bool ok = file && write_all(index, file);
    int error = errno;
    if (file ? fclose(file) : handle >= 0 && close(handle)) error = errno, ok = false;
    if (ok && rename(temporary, path)) error = errno, ok = false;
    if (!ok && handle >= 0) unlink(temporary);
    int folder = ok ? open(index->folder, O_RDONLY | O_DIRECTORY) : -1; /* the name, too, has to be on the disk */
    if (folder >= 0) fsync(folder), close(folder);
    errno = error;
    return ok;
}

/* ---- searching ---- */

size_t index_search(const struct index *index, const float *query, struct found *found, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < index->count; i++) {
        const struct entry *e = &index->entries[i];
        for (uint32_t p = 0; entry_done(e) && p < e->count; p++) {
            const float *v = e->vectors + (size_t)p * index->dimensions;
            float score = 0;
            for (uint32_t n = 0; n < index->dimensions; n++) score += v[n] * query[n];
            if (count == most && score <= found[count - 1].score) continue;
            size_t at = count < most ? count++ : count - 1;
            for (; at && found[at - 1].score < score; at--) found[at] = found[at - 1];
            found[at] = (struct found){.entry = i, .passage = p, .score = score};
        }
    }
    return count;
}

void index_place(const struct index *index, const struct found *found, char *text, size_t size)
{
    const struct entry *e = &index->entries[found->entry];
    snprintf(text, size, "%s:%u", e->path, e->passages[found->passage].line);
    harmless(text, strlen(text));
}

void index_text(const struct index *index, const struct found *found, char *text, size_t size)
{
    const struct entry *e = &index->entries[found->entry];
    const struct passage *p = &e->passages[found->passage];
    char path[PATH_BYTES];
    size_t wanted = p->bytes < size - 1 ? p->bytes : size - 1, got = 0;
    *text = 0;
    if (path_of(index, e->path, path)) read_part(path, p->offset, text, wanted, &got);
    harmless(text, got);
}
