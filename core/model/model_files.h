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

#endif
