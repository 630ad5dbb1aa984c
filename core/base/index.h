/* Which item of an array has a key, found by the key's hash: for arrays that grow while they are asked. */
#ifndef WHERRY_BASE_INDEX_H
#define WHERRY_BASE_INDEX_H

#include <stdint.h>

#include "base/host.h"

struct index_slot {
    uint64_t hash;
    uint64_t item; /* from 1; 0: the slot is free */
};

/* A zeroed one is empty. */
struct index {
    struct index_slot *slots;
    size_t room, used; /* room: a power of two */
};

/* Goes through the items of this hash, which the caller compares: `*at` begins with 0. False: no more. */
bool index_next(const struct index *index, uint64_t hash, size_t *at, size_t *item);
bool index_add(const struct host *host, struct index *index, uint64_t hash, size_t item, struct error *e);
void index_free(const struct host *host, struct index *index);

/* FNV-1a, to go on with; a text's ends with its NUL, so that texts back to back differ. Nothing here defends
 * against an attacker. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);
uint64_t hash_text(uint64_t hash, const char *text);

#endif
