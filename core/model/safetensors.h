/* Reading of the safetensors format: a checked table of tensors that point into the mapped file. */
#ifndef WHERRY_MODEL_SAFETENSORS_H
#define WHERRY_MODEL_SAFETENSORS_H

#include "base/platform.h"

enum { SAFETENSORS_MAX_RANK = 8, SAFETENSORS_MAX_HEADER = 100000000 };

struct json_t;

struct safetensors_tensor {
    const char *name;  /* lives as long as the table */
    const char *dtype; /* "F32", ...: a string constant */
    int rank;
    uint64_t shape[SAFETENSORS_MAX_RANK];
    const unsigned char *data; /* any alignment, little-endian */
    uint64_t bytes;
};

struct safetensors {
    struct file_map map;
    struct json_t *header; /* owns the names */
    struct safetensors_tensor *tensors;
    size_t count; /* in the order of the file's bytes */
};

/* Maps and checks the file. Every rule of the format is checked before anything is returned: length and syntax of the
 * header, types, shapes, and that the tensors cover the rest of the file exactly, in order and without overlap. The
 * file must not be shortened while it is open. */
bool safetensors_open(const struct host *host, const char *path, struct safetensors *out, struct error *e);
/* The same for bytes in memory, which must outlive the table. */
bool safetensors_parse(const struct host *host, const void *data, size_t size, struct safetensors *out,
                       struct error *e);
void safetensors_close(const struct host *host, struct safetensors *file); /* accepts a zeroed one */
/* NULL when there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
/* "[30522, 384]" for messages. */
void safetensors_shape_text(const uint64_t *shape, int rank, char *text, size_t size);

#endif
