/* SentencePiece's precompiled character map: what short strings of UTF-8 are replaced by. */
#ifndef WHERRY_TOKENIZER_CHARACTER_MAP_H
#define WHERRY_TOKENIZER_CHARACTER_MAP_H

#include "tokenizer/parts.h"

struct character_map {
    const struct host *host;
    uint32_t *units; /* a trie of bytes as a double array (of Darts-clone), every step in which stays inside */
    size_t count;
    char *pool; /* the replacements, each up to a NUL */
    size_t bytes;
};

/* Of the bytes as files have them, which are copied. `map` is freed also after a failure. */
bool character_map_open(const struct part_reader *r, const unsigned char *blob, size_t bytes,
                        struct character_map *map);
void character_map_free(struct character_map *map); /* accepts a zeroed one */

/* What stands in the map for the shortest beginning of `key` that it has, up to a NUL; NULL: it has none. */
const char *character_map_find(const struct character_map *map, const unsigned char *key, size_t bytes, size_t *length);

#endif
