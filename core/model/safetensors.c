/* Reading of the safetensors format: a checked table of tensors, and their bytes from the file that stays open.
 *
 * The format: 8 bytes, the length of the header (little-endian); the header, a JSON object {"name": {"dtype", "shape",
 * "data_offsets": [begin, end]}, "__metadata__": {...}}, perhaps with spaces after it; then the tensors' bytes, to
 * which the offsets refer. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#include "base/text.h"

enum { LENGTH_BYTES = 8, MAX_DEPTH = 8 };

static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
    {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"BOOL", 8},    {"U8", 8},
    {"I8", 8},          {"U16", 16},    {"I16", 16},    {"U32", 32},    {"I32", 32},    {"U64", 64},
    {"I64", 64},        {"C64", 64},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
};

static bool bad(struct error *e, const char *name, const char *what)
{
    return fail(e, WHERRY_STATUS_BAD_FORMAT, "tensor %.200s %s: the file is damaged, get it again", name, what);
}

void safetensors_shape_text(const uint64_t *shape, int rank, char *text, size_t size)
{
    struct text_writer t = text_begin(text, size);
    text_add(&t, "[");
    for (int i = 0; i < rank; i++) text_add(&t, "%s%" PRIu64, i ? ", " : "", shape[i]);
    text_add(&t, "]");
}

/* A JSON integer that is not negative. */
static bool read_unsigned(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool check_dtype(const json_t *value, struct safetensors_tensor *t, unsigned *bits, struct error *e)
{
    const char *name = json_string_value(value);
    if (!name) return bad(e, t->name, "has no dtype");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(name, dtypes[i].name)) continue;
        t->dtype = dtypes[i].name;
        *bits = dtypes[i].bits;
        return true;
    }
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "tensor %.200s has the unknown dtype %.40s: save the model again with dtype F32, F16 or BF16", t->name,
                name);
}

static bool check_shape(const json_t *value, struct safetensors_tensor *t, unsigned bits, uint64_t *bytes,
                        struct error *e)
{
    if (!json_is_array(value)) return bad(e, t->name, "has no shape");
    if (json_array_size(value) > SAFETENSORS_MAX_RANK) return bad(e, t->name, "has more than 8 dimensions");
    uint64_t total = bits;
    bool empty = false;
    t->rank = (int)json_array_size(value);
    for (int i = 0; i < t->rank; i++) {
        if (!read_unsigned(json_array_get(value, (size_t)i), &t->shape[i])) {
            return bad(e, t->name, "has a shape that is not of whole numbers");
        }
        if (!t->shape[i]) {
            empty = true; /* but the other sizes must still be sane */
        } else if (total > UINT64_MAX / t->shape[i]) {
            return bad(e, t->name, "has a shape larger than any file");
        } else {
            total *= t->shape[i];
        }
    }
    if (empty) total = 0;
    if (total % 8) return bad(e, t->name, "does not end at a whole byte");
    *bytes = total / 8;
    return true;
}

/* The data, to which the file's own offsets refer, begin at byte `data` of the file. */
static bool check_tensor(const char *name, const json_t *value, uint64_t data, uint64_t data_bytes,
                         struct safetensors_tensor *t, struct error *e)
{
    t->name = name;
    if (!json_is_object(value)) return bad(e, name, "is not described by an object");
    unsigned bits = 0;
    uint64_t bytes = 0, begin, end;
    TRY(check_dtype(json_object_get(value, "dtype"), t, &bits, e));
    TRY(check_shape(json_object_get(value, "shape"), t, bits, &bytes, e));
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (json_array_size(offsets) != 2 || !read_unsigned(json_array_get(offsets, 0), &begin) ||
        !read_unsigned(json_array_get(offsets, 1), &end)) {
        return bad(e, name, "has no data_offsets of two whole numbers");
    }
    if (begin > end || end > data_bytes) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "tensor %.200s lies at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                    ": the file is truncated or damaged, get it again",
                    name, begin, end, data_bytes);
    }
    if (end - begin != bytes) {
        char shape[200];
        safetensors_shape_text(t->shape, t->rank, shape, sizeof shape);
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "tensor %.200s of %s %s needs %" PRIu64 " bytes but has %" PRIu64
                    ": the file is damaged, get it again",
                    name, t->dtype, shape, bytes, end - begin);
    }
    t->offset = data + begin;
    t->bytes = bytes;
    return true;
}

static bool check_metadata(json_t *value, struct error *e)
{
    const char *key;
    json_t *text;
    bool ok = json_is_object(value) || json_is_null(value);
    json_object_foreach(value, key, text) ok = ok && json_is_string(text);
    if (ok) return true;
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "__metadata__ is not an object of strings: the file is damaged, get it "
                "again");
}

/* Empty tensors first, so that they stand before the one that begins where they do. */
static int by_place(const void *a, const void *b)
{
    const struct safetensors_tensor *s = a, *t = b;
    if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
    return s->bytes == t->bytes ? 0 : s->bytes < t->bytes ? -1 : 1;
}

/* Offsets that leave nothing out and nothing twice also leave no place to hide another file in. */
static bool check_cover(const struct safetensors *file, uint64_t data, uint64_t data_bytes, struct error *e)
{
    uint64_t at = data;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        if (t->offset < at) return bad(e, t->name, "overlaps the tensor before it");
        if (t->offset > at) return bad(e, t->name, "has unused bytes before it");
        at += t->bytes;
    }
    if (at == data + data_bytes) return true;
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%" PRIu64 " bytes follow the last tensor: the file is damaged, get it again",
                data_bytes - (at - data));
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_tensor *const *s = a, *const *t = b;
    return strcmp((*s)->name, (*t)->name);
}

/* Of a file of `size` bytes that begins with these; they are 8, or all that it has. */
static bool check_length(const unsigned char *begin, uint64_t size, uint64_t *header_bytes, struct error *e)
{
    if (size < LENGTH_BYTES) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%" PRIu64 " bytes are too few for a safetensors file: get it again",
                    size);
    }
    uint64_t n = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) n |= (uint64_t)begin[i] << 8 * i;
    if (n > SAFETENSORS_MAX_HEADER) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header says that it has %" PRIu64 " bytes, and %d are the most that are read: not a "
                    "safetensors file, or damaged; get it again",
                    n, SAFETENSORS_MAX_HEADER);
    }
    if (n > size - LENGTH_BYTES) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header says that it has %" PRIu64 " bytes, and the file has %" PRIu64
                    " after its length: the file is truncated, get it again",
                    n, size - LENGTH_BYTES);
    }
    *header_bytes = n;
    return true;
}

/* Memory for the tensors and for their names, which outlive the header. */
static bool make_room(const struct host *host, json_t *header, struct safetensors *file, struct error *e)
{
    size_t count = json_object_size(header), bytes = 0;
    if (count > SAFETENSORS_MAX_TENSORS) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the file has %zu tensors, and %d are the most that are read: save the model in more files", count,
                    SAFETENSORS_MAX_TENSORS);
    }
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value) bytes += strlen(name) + 1;
    file->tensors = host_alloc(host, count, sizeof *file->tensors, e);
    file->by_name = file->tensors ? host_alloc(host, count, sizeof *file->by_name, e) : NULL;
    file->names = file->by_name ? host_alloc(host, bytes, 1, e) : NULL;
    return file->names != NULL;
}

static bool read_tensors(json_t *header, uint64_t file_bytes, struct safetensors *file, struct error *e)
{
    uint64_t data = LENGTH_BYTES + file->header_bytes, data_bytes = file_bytes - data;
    const char *key;
    char *name = file->names;
    json_t *value;
    json_object_foreach(header, key, value)
    {
        if (!strcmp(key, "__metadata__")) {
            TRY(check_metadata(value, e));
            continue;
        }
        size_t bytes = strlen(key) + 1;
        memcpy(name, key, bytes);
        TRY(check_tensor(name, value, data, data_bytes, &file->tensors[file->count++], e));
        name += bytes;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    TRY(check_cover(file, data, data_bytes, e));
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof(struct safetensors_tensor *), by_name);
    return true;
}

static bool parse(const struct host *host, const char *text, uint64_t file_bytes, struct safetensors *file,
                  struct error *e)
{
    static const struct json_limits limits = {SAFETENSORS_MAX_HEADER, SAFETENSORS_MAX_VALUES, MAX_DEPTH};
    char why[JSON_WHY];
    json_t *header;
    if (file->header_bytes < 2 || *text != '{') {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header does not begin with '{': not a safetensors file, or damaged; get it again");
    }
    wherry_status status = json_read(text, (size_t)file->header_bytes, &limits, 0, &header, why);
    if (status) {
        return fail(e, status, "the header: %s%s", why,
                    status == WHERRY_STATUS_BAD_FORMAT ? ": the file is damaged, get it again" : "");
    }
    bool ok = make_room(host, header, file, e) && read_tensors(header, file_bytes, file, e);
    json_decref(header);
    return ok;
}

bool safetensors_parse(const struct host *host, const void *data, size_t size, struct safetensors *out, struct error *e)
{
    struct safetensors file = {0};
    if (!check_length(data, size, &file.header_bytes, e) ||
        !parse(host, (const char *)data + LENGTH_BYTES, size, &file, e)) {
        safetensors_close(host, &file);
        return false;
    }
    *out = file;
    return true;
}

/* ---- files ---- */

static bool open_header(const struct host *host, struct safetensors *file, struct error *e)
{
    unsigned char length[LENGTH_BYTES];
    TRY(source_open(host, file->path, &file->file, e));
    uint64_t size = file->file.bytes;
    TRY(source_read(&file->file, file->path, 0, length, size < LENGTH_BYTES ? (size_t)size : LENGTH_BYTES, e));
    if (!check_length(length, size, &file->header_bytes, e)) return fail_in(e, file->path);
    char *text = host_alloc(host, (size_t)file->header_bytes, 1, e);
    bool ok = text && source_read(&file->file, file->path, LENGTH_BYTES, text, (size_t)file->header_bytes, e);
    if (ok && !parse(host, text, size, file, e)) ok = fail_in(e, file->path);
    host_free(host, text);
    return ok;
}

bool safetensors_open(const struct host *host, const char *path, struct safetensors *out, struct error *e)
{
    struct safetensors file = {.path = host_strdup(host, path, e)};
    if (!file.path || !open_header(host, &file, e)) {
        safetensors_close(host, &file);
        return false;
    }
    *out = file;
    return true;
}

void safetensors_close(const struct host *host, struct safetensors *file)
{
    source_close(host, &file->file);
    host_free(host, file->by_name);
    host_free(host, file->tensors);
    host_free(host, file->names);
    host_free(host, file->path);
    *file = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    const struct safetensors_tensor key = {.name = name}, *wanted = &key;
    struct safetensors_tensor **found = bsearch(&wanted, file->by_name, file->count, sizeof *file->by_name, by_name);
    return found ? *found : NULL;
}

bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                      size_t bytes, void *to, struct error *e)
{
    return source_read(&file->file, file->path, tensor->offset + first, to, bytes, e);
}

const void *safetensors_in_memory(const struct safetensors *file, const struct safetensors_tensor *tensor)
{
    return file->file.data ? file->file.data + tensor->offset : NULL;
}
