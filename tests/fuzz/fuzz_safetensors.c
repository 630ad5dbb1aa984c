/* Headers of safetensors files, with tensors or without. */
#include "mutate.h"

#include "model/safetensors.h"

enum { LENGTH = 8 };

static uint64_t header_length(const uint8_t *data)
{
    uint64_t n = 0;
    for (int i = 0; i < LENGTH; i++) n |= (uint64_t)data[i] << 8 * i;
    return n;
}

/* Mutations of the header mostly keep its length true: else almost all would end at that. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t header = size > LENGTH ? header_length(data) : 0;
    if (seed % 8 == 0 || size <= LENGTH || header > size - LENGTH || max_size <= LENGTH)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t tensors = size - LENGTH - (size_t)header, room = max_size - LENGTH;
    if (seed % 8 == 1)
        return LENGTH + (size_t)header + fuzz_mutate_bytes(data + LENGTH + header, tensors, room - (size_t)header);
    uint8_t *copy = malloc(tensors + 1);
    CHECK(copy != NULL);
    memcpy(copy, data + LENGTH + header, tensors);
    header = fuzz_mutate_json(data + LENGTH, (size_t)header, room - tensors, seed / 8);
    memcpy(data + LENGTH + header, copy, tensors);
    free(copy);
    for (int i = 0; i < LENGTH; i++) data[i] = (uint8_t)(header >> 8 * i);
    return LENGTH + (size_t)header + tensors;
}

/* The tensors are in order, inside, cover all, and are found by their names. */
static void check_table(const struct safetensors *file, const uint8_t *data, size_t size)
{
    uint64_t at = LENGTH + header_length(data);
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        char shape[200];
        CHECK(t->offset == at && t->bytes <= size);
        CHECK(t->rank >= 0 && t->rank <= SAFETENSORS_MAX_RANK);
        CHECK(safetensors_find(file, t->name) == t);
        safetensors_shape_text(t->shape, t->rank, shape, sizeof shape);
        CHECK(strlen(shape) < sizeof shape);
        at += t->bytes;
    }
    CHECK(at == size);
    CHECK(!safetensors_find(file, "no such tensor"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;
    struct error e = {0};
    long before = fuzz_blocks;
    /* A copy of just that size, so that a byte read after it is found. */
    uint8_t *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    if (safetensors_parse(&fuzz_host, copy, size, &file, &e)) {
        check_table(&file, copy, size);
        safetensors_close(&fuzz_host, &file);
    } else {
        fuzz_failed(&e);
    }
    free(copy);
    CHECK(fuzz_blocks == before);
    return 0;
}
