/* Reads the tensors of a small file that torch.save wrote: the state of one module, as bge-m3 keeps its two heads. Such
 * a file is a zip with a pickle, a program for a machine that may call anything. Here is a machine of two dozen
 * instructions that knows three names, makes tensors of stored bytes and refuses everything else. */
#ifndef WHERRY_MODEL_TORCH_FILE_H
#define WHERRY_MODEL_TORCH_FILE_H

#include "model/model.h"

enum { TORCH_FILE_MOST = 128 << 20, TORCH_TENSORS_MOST = 8, TORCH_RANK_MOST = 2 };

struct torch_tensor {
    const char *name; /* "weight": `name_bytes` of the file, with no 0 after them */
    size_t name_bytes;
    int rank; /* 1 or 2 */
    uint64_t shape[TORCH_RANK_MOST];
    struct weight_part part; /* in the file's memory, row-major */
};

struct torch_file {
    char *bytes; /* all of it; owned */
    struct torch_tensor tensors[TORCH_TENSORS_MOST];
    size_t count;
};

/* Reads a file of at most TORCH_FILE_MOST bytes. To be closed where it succeeds. Time and memory are bounded by the
 * file's size. A file that is damaged is WHERRY_STATUS_BAD_FORMAT; one that has more than tensors of F32, F16 or BF16,
 * by name, row after row, WHERRY_STATUS_UNSUPPORTED: the message names what it asks for. */
bool torch_file_open(const struct host *host, const char *path, struct torch_file *out, struct error *e);
/* The same of bytes that are in memory, which stay the caller's; `out` is not to be closed then. */
bool torch_file_parse(const void *bytes, size_t size, struct torch_file *out, struct error *e);
void torch_file_close(const struct host *host, struct torch_file *file); /* accepts a zeroed one */
/* NULL when there is none. */
const struct torch_tensor *torch_file_find(const struct torch_file *file, const char *name);

#endif
