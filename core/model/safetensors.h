/* Reading of the safetensors format: a checked table of tensors, and their bytes from the file that stays open. */
#ifndef WHERRY_MODEL_SAFETENSORS_H
#define WHERRY_MODEL_SAFETENSORS_H

#include "base/source.h"

/* The format allows headers of 100 MB. Headers of published models have some 130 bytes and 8 JSON values a tensor; the
 * largest models of all have 100,000 tensors in more than a hundred files, encoders some hundreds in one or two. */
enum {
    SAFETENSORS_MAX_RANK = 8,
    SAFETENSORS_MAX_HEADER = 16 << 20, /* bytes */
    SAFETENSORS_MAX_VALUES = 1 << 19,  /* of JSON, in the header; the dearest take 100 MB while it is read */
    SAFETENSORS_MAX_TENSORS = 1 << 15
};

struct safetensors_tensor {
    const char *name;  /* lives as long as the table */
    const char *dtype; /* "F32", ...: a string constant */
    int rank;
    uint64_t shape[SAFETENSORS_MAX_RANK];
    uint64_t offset, bytes; /* in the file; little-endian */
};

struct safetensors {
    char *path;
    struct source_file file;
    char *names;
    uint64_t header_bytes;
    struct safetensors_tensor *tensors; /* in the order of the file's bytes */
    struct safetensors_tensor **by_name;
    size_t count;
};

/* Opens and checks the file, which stays open. Every rule of the format is checked before anything is returned: length
 * and syntax of the header, types, shapes, and that the tensors cover the rest of the file exactly, in order and
 * without overlap. */
bool safetensors_open(const struct host *host, const char *path, struct safetensors *out, struct error *e);
/* The same checks of a file that is in memory; safetensors_read does not read it. */
bool safetensors_parse(const struct host *host, const void *data, size_t size, struct safetensors *out,
                       struct error *e);
void safetensors_close(const struct host *host, struct safetensors *file); /* accepts a zeroed one */
/* NULL when there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
/* `bytes` of the tensor from byte `first` on, which the tensor has. Fails where the file is not what it was when it was
 * opened: shorter, longer, or written to. Several threads may read one file at once. */
bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                      size_t bytes, void *to, struct error *e);
/* All of the tensor, where it is in memory already; NULL: it is read. */
const void *safetensors_in_memory(const struct safetensors *file, const struct safetensors_tensor *tensor);
/* "[30522, 384]" for messages. */
void safetensors_shape_text(const uint64_t *shape, int rank, char *text, size_t size);

#endif
