/* A folder that is written whole or not at all. */
#include "base/new_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/folder.h"

static const char ending[] = ".unfinished";

bool new_folder_begin(const struct host *host, const char *path, struct new_folder *out, struct error *e)
{
    bool is_free = false;
    size_t length = strlen(path);
    *out = (struct new_folder){0};
    while (length > 1 && path[length - 1] == '/') length--;
    if (!length) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the folder to write is an empty path: give a path");
    struct new_folder f = {.host = host,
                           .path = host_alloc(host, length + 1, 1, e),
                           .temporary = host_alloc(host, length + sizeof ending, 1, e)};
    bool ok = f.path && f.temporary;
    if (ok) {
        memcpy(f.path, path, length);
        snprintf(f.temporary, length + sizeof ending, "%s%s", f.path, ending);
        ok = folder_is_free(f.path, &is_free, e);
    }
    if (ok && !is_free)
        ok = fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                  "%.600s is there already, and not empty: nothing is overwritten, give another path or remove it",
                  f.path);
    if (ok) {
        folder_remove(f.temporary);
        ok = folder_create(f.temporary, e);
    }
    if (ok)
        *out = f;
    else
        host_free(host, f.path), host_free(host, f.temporary);
    return ok;
}

/* The folders that a file's path goes through. Of one that can't be made, making the file tells. */
static void make_between(const struct new_folder *folder, char *path)
{
    struct error ignored;
    for (char *at = path + strlen(folder->temporary) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        folder_create(path, &ignored);
        *at = '/';
    }
}

bool new_file_begin(const struct new_folder *folder, const char *name, struct new_file *out, struct error *e)
{
    struct new_file f = {.path = path_join(folder->host, folder->temporary, name, e)};
    if (f.path) make_between(folder, f.path);
    if (f.path && file_create(f.path, &f.file, e)) {
        *out = f;
        return true;
    }
    host_free(folder->host, f.path);
    return false;
}

bool new_file_add(const struct new_file *file, const void *data, size_t size, struct error *e)
{
    return file_write(&file->file, file->path, data, size, e);
}

bool new_file_end(const struct new_folder *folder, struct new_file *file, bool ok, struct error *e)
{
    ok = ok && file_sync(&file->file, file->path, e);
    file_close(&file->file);
    host_free(folder->host, file->path);
    file->path = NULL;
    return ok;
}

bool new_file_write(const struct new_folder *folder, const char *name, const void *data, size_t size, struct error *e)
{
    struct new_file file;
    TRY(new_file_begin(folder, name, &file, e));
    return new_file_end(folder, &file, new_file_add(&file, data, size, e), e);
}

struct tree {
    const struct host *host;
    const char *path;
};

static bool sync_tree(const struct host *host, const char *path, struct error *e);

static bool sync_entry(const char *name, bool is_folder, uint64_t bytes, void *user, struct error *e)
{
    const struct tree *above = user;
    (void)bytes;
    if (!is_folder) return true;
    char *path = path_join(above->host, above->path, name, e);
    bool ok = path && sync_tree(above->host, path, e);
    host_free(above->host, path);
    return ok;
}

/* The lists of files: what is in these new_file_end has synced. */
static bool sync_tree(const struct host *host, const char *path, struct error *e)
{
    struct tree tree = {host, path};
    return folder_list(path, sync_entry, &tree, e) && folder_sync(path, e);
}

bool new_folder_end(struct new_folder *folder, bool ok, struct error *e)
{
    if (!folder->path) return false;
    ok = ok && sync_tree(folder->host, folder->temporary, e) && folder_rename(folder->temporary, folder->path, e);
    if (!ok) folder_remove(folder->temporary);
    host_free(folder->host, folder->path);
    host_free(folder->host, folder->temporary);
    *folder = (struct new_folder){0};
    return ok;
}
