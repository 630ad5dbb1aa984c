/* Texts that were seen. */
#include "train/text_set.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "train/draws.h"

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t n = 0; n < bytes; n++) hash = (hash ^ (unsigned char)text[n]) * 0x100000001B3u;
    hash = draw_bits(hash, bytes, 0);
    return hash ? hash : 1;
}

/* Where the hash is, or would be. */
static size_t slot_of(const struct text_set *set, uint64_t hash)
{
    size_t at = hash & (set->room - 1);
    while (set->hashes[at] && set->hashes[at] != hash) at = (at + 1) & (set->room - 1);
    return at;
}

bool text_set_has(const struct text_set *set, const char *text, size_t bytes)
{
    return set->room && set->hashes[slot_of(set, hash_of(text, bytes))];
}

static void grow(struct text_set *set)
{
    struct text_set larger = {.room = set->room ? 2 * set->room : 256};
    larger.hashes = need(calloc(larger.room, sizeof *larger.hashes));
    for (size_t n = 0; n < set->room; n++)
        if (set->hashes[n]) larger.hashes[slot_of(&larger, set->hashes[n])] = set->hashes[n];
    larger.count = set->count;
    free(set->hashes);
    *set = larger;
}

void text_set_add(struct text_set *set, const char *text, size_t bytes)
{
    uint64_t hash = hash_of(text, bytes);
    if (2 * (set->count + 1) > set->room) grow(set);
    size_t at = slot_of(set, hash);
    set->count += !set->hashes[at];
    set->hashes[at] = hash;
}

void text_set_clear(struct text_set *set)
{
    if (set->room) memset(set->hashes, 0, set->room * sizeof *set->hashes);
    set->count = 0;
}

void text_set_free(struct text_set *set)
{
    free(set->hashes);
    *set = (struct text_set){.hashes = NULL};
}
