/* Decides where a barrier must stand between steps. */
#include "vulkan.h"

static bool conflicts(const struct access *a, const struct access *b)
{
    return (a->written || b->written) && a->buffer == b->buffer && a->begin < b->end && b->begin < a->end;
}

bool hazards_step(struct hazards *h, const struct binding *bindings, int n)
{
    size_t before = h->count;
    bool barrier = false;
    for (int i = 0; i < n; i++) {
        const struct binding *b = &bindings[i];
        struct access *new = &h->list[h->count++];
        *new = (struct access){b->buffer, b->offset, b->offset + b->bytes, b->written};
        for (size_t k = 0; k < before && !barrier; k++) barrier = conflicts(&h->list[k], new);
    }
    if (!barrier) return false;
    for (int i = 0; i < n; i++) h->list[i] = h->list[before + (size_t)i];
    h->count = (size_t)n;
    return true;
}
