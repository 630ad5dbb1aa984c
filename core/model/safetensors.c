/* Reading of the safetensors format: a checked table of tensors that point into the mapped file.
 *
 * The format: 8 bytes, the length of the header (little-endian); the header, a JSON object {"name": {"dtype", "shape",
 * "data_offsets": [begin, end]}, "__metadata__": {...}}, perhaps with spaces behind it; then the tensors' bytes, to
 * which the offsets refer. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { LENGTH_BYTES = 8 };

/* More values than any model's header has: JSON takes some 100 bytes of memory for each of them, so without a bound a
 * hostile header of 100 MB would take gigabytes. */
static const size_t header_max_values = (size_t)1 << 22;

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

/* Leaves t->data at the beginning of the data, plus the offset: the caller has checked that it lies inside. */
static bool check_tensor(const char *name, const json_t *value, const unsigned char *data, uint64_t data_bytes,
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
    t->data = data + begin;
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
    if (s->data != t->data) return s->data < t->data ? -1 : 1;
    return s->bytes == t->bytes ? 0 : s->bytes < t->bytes ? -1 : 1;
}

/* Offsets that leave nothing out and nothing twice also leave no place to hide another file in. */
static bool check_cover(const struct safetensors *file, const unsigned char *data, uint64_t data_bytes, struct error *e)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        if (t->data < at) return bad(e, t->name, "overlaps the tensor before it");
        if (t->data > at) return bad(e, t->name, "has unused bytes before it");
        at += t->bytes;
    }
    if (at == data + data_bytes) return true;
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%" PRIu64 " bytes follow the last tensor: the file is damaged, get it again",
                data_bytes - (uint64_t)(at - data));
}

static bool check_header_size(const unsigned char *data, size_t size, uint64_t *header_bytes, struct error *e)
{
    if (size < LENGTH_BYTES) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%zu bytes are too few for a safetensors file: get it again", size);
    }
    uint64_t n = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) n |= (uint64_t)data[i] << 8 * i;
    if (n > SAFETENSORS_MAX_HEADER) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header says that it has %" PRIu64 " bytes, and %d are the most: not a safetensors file, or "
                    "damaged; get it again",
                    n, SAFETENSORS_MAX_HEADER);
    }
    if (n > size - LENGTH_BYTES) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header says that it has %" PRIu64 " bytes, and the file has %zu behind its length: the file "
                    "is truncated, get it again",
                    n, size - LENGTH_BYTES);
    }
    if (n < 2 || data[LENGTH_BYTES] != '{') {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header does not begin with '{': not a safetensors file, or "
                    "damaged; get it again");
    }
    size_t values = 0;
    for (uint64_t i = 0; i < n; i++) {
        unsigned char c = data[LENGTH_BYTES + i];
        values += c == ',' || c == '[' || c == '{';
    }
    if (values > header_max_values) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "the header has %zu values, and %zu are the most that are read",
                    values, header_max_values);
    }
    *header_bytes = n;
    return true;
}

static bool parse(const struct host *host, const unsigned char *data, size_t size, struct safetensors *file,
                  struct error *e)
{
    uint64_t header_bytes = 0;
    TRY(check_header_size(data, size, &header_bytes, e));
    json_error_t at;
    file->header = json_loadb((const char *)data + LENGTH_BYTES, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &at);
    if (!file->header) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the header is not valid JSON (byte %d: %s): the file is damaged, get it again", at.position,
                    at.text);
    }
    file->tensors = host_alloc(host, json_object_size(file->header), sizeof *file->tensors, e);
    if (!file->tensors) return false;
    const unsigned char *first = data + LENGTH_BYTES + header_bytes;
    uint64_t data_bytes = size - LENGTH_BYTES - header_bytes;
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value)
    {
        if (!strcmp(name, "__metadata__")) {
            TRY(check_metadata(value, e));
        } else {
            TRY(check_tensor(name, value, first, data_bytes, &file->tensors[file->count++], e));
        }
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    return check_cover(file, first, data_bytes, e);
}

bool safetensors_parse(const struct host *host, const void *data, size_t size, struct safetensors *out, struct error *e)
{
    struct safetensors file = {0};
    if (!parse(host, data, size, &file, e)) {
        safetensors_close(host, &file);
        return false;
    }
    *out = file;
    return true;
}

bool safetensors_open(const struct host *host, const char *path, struct safetensors *out, struct error *e)
{
    struct file_map map;
    TRY(file_map(path, &map, e));
    if (!safetensors_parse(host, map.data, map.size, out, e)) {
        file_unmap(&map);
        return fail_in(e, path);
    }
    out->map = map;
    return true;
}

void safetensors_close(const struct host *host, struct safetensors *file)
{
    json_decref(file->header);
    host_free(host, file->tensors);
    file_unmap(&file->map);
    *file = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    }
    return NULL;
}
