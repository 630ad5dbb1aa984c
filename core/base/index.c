/* A table of hashes with open addressing, at most half full. */
#include "base/index.h"

#include <string.h>

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t hash_text(uint64_t hash, const char *text) { return hash_bytes(hash, text, strlen(text) + 1); }

/* The high bits depend on all of the key. */
static size_t place(const struct index *index, uint64_t hash, size_t step)
{
    return ((size_t)(hash ^ hash >> 32) + step) & (index->room - 1);
}

bool index_next(const struct index *index, uint64_t hash, size_t *at, size_t *item)
{
    if (!index->room) return false;
    for (;; ++*at) {
        const struct index_slot *slot = &index->slots[place(index, hash, *at)];
        if (!slot->item) return false;
        if (slot->hash != hash) continue;
        *item = (size_t)slot->item - 1;
        ++*at;
        return true;
    }
}

static void put(struct index *index, uint64_t hash, uint64_t item)
{
    size_t step = 0;
    while (index->slots[place(index, hash, step)].item) step++;
    index->slots[place(index, hash, step)] = (struct index_slot){hash, item};
    index->used++;
}

bool index_add(const struct host *host, struct index *index, uint64_t hash, size_t item, struct error *e)
{
    if (2 * index->used >= index->room) {
        struct index grown = {.room = index->room ? 2 * index->room : 64};
        grown.slots = host_alloc(host, grown.room, sizeof *grown.slots, e);
        if (!grown.slots) return false;
        for (size_t i = 0; i < index->room; i++)
            if (index->slots[i].item) put(&grown, index->slots[i].hash, index->slots[i].item);
        index_free(host, index);
        *index = grown;
    }
    put(index, hash, (uint64_t)item + 1);
    return true;
}

void index_free(const struct host *host, struct index *index)
{
    host_free(host, index->slots);
    *index = (struct index){0};
}
