/* Writing of the safetensors format. */
#include "model/safetensors_write.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* "format": transformers asks for it. */
static json_t *header_make(const struct safetensors_entry *entries, size_t count)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0;
    for (size_t i = 0; header && i < count; i++) {
        const struct safetensors_entry *t = &entries[i];
        json_t *shape = json_array();
        bool ok = shape != NULL;
        for (int d = 0; ok && d < t->rank; d++)
            ok = !json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_t *value = ok ? json_pack("{s:s, s:O, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                                       (json_int_t)at, (json_int_t)(at + t->bytes))
                           : NULL;
        json_decref(shape);
        at += t->bytes;
        if (value && !json_object_set_new(header, t->name, value)) continue;
        json_decref(header);
        header = NULL;
    }
    return header;
}

static bool header_write(const struct new_file *file, const char *text, struct error *e)
{
    static const char spaces[8] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    unsigned char length[8];
    size_t bytes = strlen(text), pad = (8 - bytes % 8) % 8; /* the tensors begin at a multiple of 8 bytes */
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)(bytes + pad) >> 8 * i);
    return new_file_add(file, length, sizeof length, e) && new_file_add(file, text, bytes, e) &&
           new_file_add(file, spaces, pad, e);
}

bool safetensors_begin(const struct new_folder *folder, const char *name, const struct safetensors_entry *entries,
                       size_t count, struct new_file *out, struct error *e)
{
    json_t *header = header_make(entries, count);
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    struct new_file file;
    bool ok = text || fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "no memory for the header of %.200s", name);
    ok = ok && new_file_begin(folder, name, &file, e);
    if (ok && !header_write(&file, text, e)) ok = new_file_end(folder, &file, false, e);
    if (ok) *out = file;
    free(text); /* jansson takes it from malloc */
    json_decref(header);
    return ok;
}
