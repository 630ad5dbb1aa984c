/* A folder that is written whole or not at all: its files are written into one of another name beside it, which gets
 * its own when the disk has all of them. */
#ifndef WHERRY_BASE_NEW_FOLDER_H
#define WHERRY_BASE_NEW_FOLDER_H

#include "base/host.h"
#include "base/platform.h"

struct new_folder {
    const struct host *host;
    char *path, *temporary; /* owned */
};

/* `path` must be free (folder_is_free), and the folder that it is in be there. What an interrupted one of the same path
 * has left is removed. */
bool new_folder_begin(const struct host *host, const char *path, struct new_folder *out, struct error *e);
/* A file in it, by its path there, with "/" between folders, which are made. To be ended by new_file_end. */
struct new_file {
    struct file file;
    char *path; /* owned */
};
bool new_file_begin(const struct new_folder *folder, const char *name, struct new_file *out, struct error *e);
bool new_file_add(const struct new_file *file, const void *data, size_t size, struct error *e);
/* Closes it; where `ok`, after the disk has it. Returns whether that and `ok` are true. */
bool new_file_end(const struct new_folder *folder, struct new_file *file, bool ok, struct error *e);
/* All three at once. */
bool new_file_write(const struct new_folder *folder, const char *name, const void *data, size_t size, struct error *e);
/* Gives it its name where `ok`, and removes it otherwise. Returns whether it is there. Accepts a zeroed one. */
bool new_folder_end(struct new_folder *folder, bool ok, struct error *e);

#endif
