/* A model's files, in folders or given by an application. */
#include "base/source.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_BYTES = 1024 };

struct file_source {
    wherry_model_file *blocks; /* [count]; names owned, in their plain form */
    size_t count;
    bool (*find)(const char *name, uint64_t *bytes, void *user);
    bool (*read)(const char *name, uint64_t offset, void *to, size_t bytes, void *user);
    void *user;
};

/* ---- names ---- */

/* Without what a path may have more: "./", and separators twice or at the end. False: it is too long. */
static bool name_plain(const char *path, char name[NAME_BYTES])
{
    size_t used = 0;
    while (*path) {
        size_t n = strcspn(path, "/\\");
        bool counts = n && !(n == 1 && *path == '.');
        if (counts) {
            if (used + n + 2 > NAME_BYTES) return false;
            if (used) name[used++] = '/';
            memcpy(name + used, path, n);
            used += n;
        }
        path += n + (path[n] != 0);
    }
    name[used] = 0;
    return true;
}

static bool path_plain(const char *path, char name[NAME_BYTES])
{
    const size_t root = sizeof SOURCE_ROOT - 1;
    return name_plain(strncmp(path, SOURCE_ROOT, root) ? path : path + root, name);
}

bool path_is_inside(const char *name)
{
    if (*name == '/' || *name == '\\' || strchr(name, ':')) return false;
    while (*name) {
        size_t n = strcspn(name, "/\\");
        if (n == 2 && name[0] == '.' && name[1] == '.') return false;
        name += n + (name[n] != 0);
    }
    return true;
}

/* ---- what is given ---- */

void file_source_destroy(const struct host *host, struct file_source *source)
{
    if (!source) return;
    for (size_t i = 0; source->blocks && i < source->count; i++) host_free(host, (void *)source->blocks[i].name);
    host_free(host, source->blocks);
    host_free(host, source);
}

static const wherry_model_file *block_find(const struct file_source *source, const char *name)
{
    for (size_t i = 0; i < source->count; i++)
        if (source->blocks[i].name && !strcmp(source->blocks[i].name, name)) return &source->blocks[i];
    return NULL;
}

static bool block_add(const struct host *host, struct file_source *source, size_t index, const wherry_model_file *file,
                      struct error *e)
{
    char name[NAME_BYTES];
    if (!file->name || !path_is_inside(file->name) || !name_plain(file->name, name) || !*name)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_model_files: file %zu is named \"%.200s\": a name is a path in the model's folder, as "
                    "\"config.json\" or \"1_Pooling/config.json\"",
                    index, file->name ? file->name : "");
    if (!file->data && file->bytes)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_model_files: %.200s has %" PRIu64 " bytes and no data",
                    file->name, file->bytes);
    if (file->bytes > SIZE_MAX / 2)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_model_files: %.200s has %" PRIu64 " bytes, more than memory can have", file->name,
                    file->bytes);
    if (block_find(source, name))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_model_files: %.200s is there twice", file->name);
    source->blocks[index] = *file;
    return (source->blocks[index].name = host_strdup(host, name, e)) != NULL;
}

struct file_source *file_source_create(const struct host *host, const wherry_model_files *files, struct error *e)
{
    if (!files->find != !files->read || (!files->find && !files->count) || (files->count && !files->files)) {
        fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
             "wherry_model_files: it has `files` and their `count`, or `find` and `read`, or all of them");
        return NULL;
    }
    struct file_source *source = host_alloc(host, 1, sizeof *source, e);
    if (!source) return NULL;
    *source =
        (struct file_source){.count = files->count, .find = files->find, .read = files->read, .user = files->user};
    bool ok = (source->blocks = host_alloc(host, files->count, sizeof *source->blocks, e));
    for (size_t i = 0; ok && i < files->count; i++) ok = block_add(host, source, i, &files->files[i], e);
    if (ok) return source;
    file_source_destroy(host, source);
    return NULL;
}

static bool source_find(const struct file_source *source, const char *name, uint64_t *bytes, const unsigned char **data)
{
    const wherry_model_file *block = block_find(source, name);
    *data = block ? block->bytes ? block->data : (const void *)"" : NULL;
    *bytes = block ? block->bytes : 0;
    return block || (source->find && source->find(name, bytes, source->user));
}

/* ---- files ---- */

bool source_exists(const struct host *host, const char *path, bool *exists, struct error *e)
{
    char name[NAME_BYTES];
    const unsigned char *data;
    uint64_t bytes;
    if (!host->files) return file_exists(path, exists, e);
    *exists = path_plain(path, name) && source_find(host->files, name, &bytes, &data);
    return true;
}

void source_close(const struct host *host, struct source_file *file)
{
    file_close(&file->file);
    host_free(host, file->name);
    *file = (struct source_file){0};
}

bool source_open(const struct host *host, const char *path, struct source_file *out, struct error *e)
{
    char name[NAME_BYTES];
    struct source_file file = {.source = host->files};
    if (!host->files) {
        bool ok = file_open(path, &file.file, e) && file_stamp(&file.file, path, &file.opened, e);
        file.bytes = file.opened.bytes;
        if (ok) *out = file;
        if (!ok) file_close(&file.file);
        return ok;
    }
    if (!path_plain(path, name) || !source_find(host->files, name, &file.bytes, &file.data))
        return fail(e, WHERRY_STATUS_IO, "%.600s is not there: give all files of the model", path);
    if (!(file.name = host_strdup(host, name, e))) return false;
    *out = file;
    return true;
}

static bool read_given(const struct source_file *file, const char *path, uint64_t offset, void *to, size_t bytes,
                       struct error *e)
{
    if (offset > file->bytes || bytes > file->bytes - offset)
        return fail(e, WHERRY_STATUS_IO, "%.600s has %" PRIu64 " bytes: there are no %zu at byte %" PRIu64, path,
                    file->bytes, bytes, offset);
    if (file->data) {
        if (bytes) memcpy(to, file->data + offset, bytes);
        return true;
    }
    if (!bytes || file->source->read(file->name, offset, to, bytes, file->source->user)) return true;
    return fail(e, WHERRY_STATUS_IO, "%.600s: the application did not give %zu bytes at byte %" PRIu64, path, bytes,
                offset);
}

bool source_read(const struct source_file *file, const char *path, uint64_t offset, void *to, size_t bytes,
                 struct error *e)
{
    size_t got;
    struct file_stamp now;
    if (file->source) return read_given(file, path, offset, to, bytes, e);
    TRY(file_read_at(&file->file, path, offset, to, bytes, &got, e));
    TRY(file_stamp(&file->file, path, &now, e)); /* after the read: what was read is of before the change */
    if (now.bytes != file->opened.bytes) {
        return fail(e, WHERRY_STATUS_IO,
                    "%.600s had %" PRIu64 " bytes when it was opened and has %" PRIu64 " now: open the model again",
                    path, file->opened.bytes, now.bytes);
    }
    if (now.modified != file->opened.modified) {
        return fail(e, WHERRY_STATUS_IO, "%.600s was written to since it was opened: open the model again", path);
    }
    if (got == bytes) return true;
    return fail(e, WHERRY_STATUS_IO,
                "%.600s gave %zu of %zu bytes at byte %" PRIu64 ": check the disk or the network, and try again", path,
                got, bytes, offset);
}

bool source_read_all(const struct host *host, const char *path, size_t max_bytes, char **data, size_t *size,
                     struct error *e)
{
    struct source_file file;
    char *text = NULL;
    if (!host->files) return file_read(host, path, max_bytes, data, size, e);
    TRY(source_open(host, path, &file, e));
    bool ok = file.bytes <= max_bytes ||
              fail(e, WHERRY_STATUS_BAD_FORMAT, "%.600s has %" PRIu64 " bytes; at most %zu are expected here", path,
                   file.bytes, max_bytes);
    ok = ok && (text = host_alloc(host, (size_t)file.bytes + 1, 1, e)) &&
         source_read(&file, path, 0, text, (size_t)file.bytes, e);
    if (ok) {
        *data = text;
        *size = (size_t)file.bytes;
    } else {
        host_free(host, text);
    }
    source_close(host, &file);
    return ok;
}
