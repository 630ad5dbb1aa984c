/* A mutator of JSON: most mutations of its bytes end in the parser, and what reads the values never sees them. */
#ifndef WHERRY_TESTS_FUZZ_MUTATE_H
#define WHERRY_TESTS_FUZZ_MUTATE_H

#include "fuzz.h"

#include <jansson.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
/* libFuzzer calls it, where a target has one, to mutate in place. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* libFuzzer's own way, which wants room for a byte at least. */
static inline size_t fuzz_mutate_bytes(uint8_t *data, size_t size, size_t max_size)
{
    return max_size ? LLVMFuzzerMutate(data, size, max_size) : 0;
}

static inline unsigned fuzz_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Visits all values in order; returns number `*left`, and where it lies. */
static inline json_t *fuzz_find(json_t *value, size_t *left, json_t **parent, size_t *index, const char **key)
{
    size_t n;
    const char *name;
    json_t *child, *found = NULL;
    if ((*left)-- == 0) return value;
    if (json_is_array(value)) {
        json_array_foreach(value, n, child)
        {
            found = fuzz_find(child, left, parent, index, key);
            if (!found) continue;
            if (found == child && !*parent) *parent = value, *index = n;
            return found;
        }
    }
    json_object_foreach(value, name, child)
    {
        found = fuzz_find(child, left, parent, index, key);
        if (!found) continue;
        if (found == child && !*parent) *parent = value, *key = name;
        return found;
    }
    return NULL;
}

static inline size_t fuzz_count(const json_t *value)
{
    size_t n, count = 1;
    const char *name;
    json_t *child;
    json_array_foreach(value, n, child) count += fuzz_count(child);
    json_object_foreach((json_t *)value, name, child) count += fuzz_count(child);
    return count;
}

/* A new value in the place of one. */
static inline json_t *fuzz_value(json_t *root, const json_t *old, unsigned *random)
{
    static const double reals[] = {0, -1, 0.5, 1e-300, 1e300, 1e18, 4294967296.0, 1e6};
    static const json_int_t integers[] = {0,     1,          -1,         2,          8,         64,
                                          65536, 2147483647, 2147483648, 4294967295, INT64_MAX, INT64_MIN};
    json_t *parent = NULL;
    size_t index, other = fuzz_random(random) % fuzz_count(root);
    const char *key;
    switch (fuzz_random(random) % 8) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(fuzz_random(random) % 2);
    case 2:
        return json_real(reals[fuzz_random(random) % 8]);
    case 3:
        return json_integer(integers[fuzz_random(random) % 12]);
    case 4:
        return fuzz_random(random) % 2 ? json_array() : json_object();
    case 5:
        if (json_is_number(old)) return json_real(json_number_value(old) * (fuzz_random(random) % 2 ? 2 : -0.25));
        /* fallthrough */
    case 6:
        if (json_is_string(old)) {
            uint8_t text[256];
            size_t size = json_string_length(old) < 128 ? json_string_length(old) : 128;
            memcpy(text, json_string_value(old), size);
            size = LLVMFuzzerMutate(text, size, sizeof text);
            return json_stringn((const char *)text, size); /* NULL where it is no UTF-8 any more */
        }
        /* fallthrough */
    default:
        return json_deep_copy(fuzz_find(root, &other, &parent, &index, &key));
    }
}

static inline void fuzz_mutate_value(json_t *root, unsigned *random)
{
    json_t *parent = NULL;
    size_t index = 0, at = fuzz_random(random) % fuzz_count(root);
    const char *key = NULL;
    json_t *old = fuzz_find(root, &at, &parent, &index, &key);
    if (!parent) return;
    unsigned what = fuzz_random(random) % 8;
    if (what == 0) {
        if (key)
            json_object_del(parent, key);
        else
            json_array_remove(parent, index);
    } else if (what == 1 && !key) {
        json_array_insert_new(parent, index, json_deep_copy(old));
    } else {
        json_t *value = fuzz_value(root, old, random);
        if (key)
            json_object_set_new(parent, key, value); /* NULL is refused */
        else
            json_array_set_new(parent, index, value);
    }
}

/* The size of what `data` became; it may be no JSON, and is then mutated as bytes. */
static inline size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    unsigned random = seed;
    json_t *root = seed % 4 ? json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    for (unsigned n = fuzz_random(&random) % 3 + 1; root && n--;) fuzz_mutate_value(root, &random);
    size_t made = root ? json_dumpb(root, (char *)data, 0, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
    if (made && made <= max_size)
        json_dumpb(root, (char *)data, max_size, JSON_ENCODE_ANY | JSON_COMPACT);
    else
        made = fuzz_mutate_bytes(data, size, max_size);
    json_decref(root);
    return made;
}

/* The same of one of the parts of an input. */
static inline size_t fuzz_mutate_part(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    enum { MOST = 64 };
    struct fuzz_part parts[MOST];
    size_t count = 1, chosen;
    for (size_t i = 0; i < size; i++) count += data[i] == FUZZ_SEPARATOR;
    if (count > MOST || seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
    fuzz_split(data, size, parts, count);
    unsigned random = seed / 16;
    chosen = fuzz_random(&random) % count;
    uint8_t *begin = data + (parts[chosen].data - data), *end = begin + parts[chosen].size;
    size_t after = (size_t)(data + size - end), room = max_size - (size_t)(begin - data) - after;
    uint8_t *rest = malloc(after + 1);
    CHECK(rest != NULL);
    memcpy(rest, end, after);
    end = begin + fuzz_mutate_json(begin, parts[chosen].size, room, fuzz_random(&random));
    memcpy(end, rest, after);
    free(rest);
    return (size_t)(end - data) + after;
}

#endif
