/* The files that a model's weights are read from. */
#ifndef WHERRY_MODEL_MODEL_FILES_H
#define WHERRY_MODEL_MODEL_FILES_H

#include <jansson.h>

#include "model/safetensors.h"

struct shard {
    char *name; /* as the index gives it */
    struct safetensors file;
};

struct model_files {
    char *folder;
    json_t *index;         /* model.safetensors.index.json, NULL: one file */
    struct shard **shards; /* [count] of MAX_SHARDS; parts point into them */
    size_t count;
    uint64_t header_bytes; /* of all shards */
    const char *prefix;    /* of every tensor's name, one of the architecture's */
};

/* Finds files->folder's list of them: an error where it has none, and that of a kind that is not read. */
bool model_files_begin(const struct host *host, struct model_files *files, struct error *e);
/* Opens the file that has the tensor, if it is not open; *out is NULL where the model has no tensor of this name. */
bool model_files_find(const struct host *host, struct model_files *files, const char *name,
                      const struct safetensors **in, const struct safetensors_tensor **out, struct error *e);
void model_files_close(const struct host *host, struct model_files *files); /* accepts NULL */

#endif
