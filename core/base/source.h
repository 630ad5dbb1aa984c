/* Where a model's files are: folders of the system, or what an application gives (wherry_model_files). All reading of a
 * model's files goes through here. host.files says which of both; paths of the second kind begin with SOURCE_ROOT. */
#ifndef WHERRY_BASE_SOURCE_H
#define WHERRY_BASE_SOURCE_H

#include "base/host.h"
#include "base/platform.h"

/* What stands for the folder in paths and messages. */
#define SOURCE_ROOT "memory"

struct file_source;

/* Copies names and the list, not the blocks. Argument errors name the file. NULL: failed. */
struct file_source *file_source_create(const struct host *host, const wherry_model_files *files, struct error *e);
void file_source_destroy(const struct host *host, struct file_source *source); /* accepts NULL */

/* Whether a path that a model's file gives is relative and has no "..": what it names lies inside the folder (or where
 * a link in the folder leads, as in Hugging Face's cache). */
bool path_is_inside(const char *name);

/* As file_exists and file_read (base/platform.h). */
bool source_exists(const struct host *host, const char *path, bool *exists, struct error *e);
bool source_read_all(const struct host *host, const char *path, size_t max_bytes, char **data, size_t *size,
                     struct error *e);

/* A file that stays open, of which several threads may read. */
struct source_file {
    uint64_t bytes;
    const unsigned char *data; /* all of it, where it is a block of the application's; else NULL */
    const struct file_source *source;
    char *name; /* there; owned */
    struct file file;
    struct file_stamp opened; /* as it was then */
};
bool source_open(const struct host *host, const char *path, struct source_file *out, struct error *e);
void source_close(const struct host *host, struct source_file *file); /* accepts a zeroed one */
/* `path` is for messages. Fails where the file does not have all of these bytes, or is not what it was when it was
 * opened: shorter, longer, or written to. */
bool source_read(const struct source_file *file, const char *path, uint64_t offset, void *to, size_t bytes,
                 struct error *e);

#endif
