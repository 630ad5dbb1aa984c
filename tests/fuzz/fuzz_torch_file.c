/* Files of tensors that torch.save wrote: a zip and the machine of its pickle. */
#include "fuzz.h"

#include "model/torch_file.h"

/* Every tensor lies inside, and has a name that does. */
static void check_tensors(const struct torch_file *file, const uint8_t *data, size_t size)
{
    CHECK(file->count >= 1 && file->count <= TORCH_TENSORS_MOST);
    for (size_t i = 0; i < file->count; i++) {
        const struct torch_tensor *t = &file->tensors[i];
        const uint8_t *first = t->part.memory, *name = (const uint8_t *)t->name;
        uint64_t bytes = t->part.elements * (t->part.type == WEIGHT_TYPE_F32 ? 4 : 2);
        CHECK(first >= data && bytes > 0 && bytes <= size && (size_t)(first - data) <= size - bytes);
        CHECK(name >= data && t->name_bytes <= size && (size_t)(name - data) <= size - t->name_bytes);
        CHECK(t->part.elements == t->shape[0] * (t->rank == 2 ? t->shape[1] : 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct torch_file file;
    struct error e = {0};
    /* A copy of just that size, so that a byte read after it is found. */
    uint8_t *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    if (torch_file_parse(copy, size, &file, &e))
        check_tensors(&file, copy, size);
    else
        fuzz_failed(&e);
    free(copy);
    return 0;
}
