/* Writing of the safetensors format, into a folder that is new. */
#ifndef WHERRY_MODEL_SAFETENSORS_WRITE_H
#define WHERRY_MODEL_SAFETENSORS_WRITE_H

#include "base/new_folder.h"
#include "model/safetensors.h"

/* What a tensor of the file will be. */
struct safetensors_entry {
    const char *name;
    const char *dtype; /* "F32" */
    int rank;
    uint64_t shape[SAFETENSORS_MAX_RANK];
    uint64_t bytes;
};
/* Begins the file with its header; then the entries' bytes are added in their order, little-endian, and the file is
 * ended by new_file_end. */
bool safetensors_begin(const struct new_folder *folder, const char *name, const struct safetensors_entry *entries,
                       size_t count, struct new_file *out, struct error *e);

#endif
