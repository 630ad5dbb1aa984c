/* FNV-1a: what tells whether bytes are those of before. */
#ifndef WHERRY_TOOLS_HASH_H
#define WHERRY_TOOLS_HASH_H

#include <stddef.h>
#include <stdint.h>

/* What a hash begins with. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* `hash` continued over these bytes. */
static inline uint64_t hash_more(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t n = 0; n < size; n++) hash = (hash ^ bytes[n]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
