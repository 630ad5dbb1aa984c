/* SentencePiece's precompiled character map: what short strings of UTF-8 are replaced by. */
#include "tokenizer/character_map.h"

#include <string.h>

#include "base/utf8.h"

/* In bytes; the longest that Unicode's NFKC has is 33. A longer one would let a short text become a very long one. */
enum { REPLACEMENT_MOST = 1024 };

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- one unit ---- */

static bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
static uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
static uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

/* ---- read ---- */

static bool wrong(const struct part_reader *r, const char *what)
{
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "its character map is damaged: %s; get the file again", what);
}

/* Whether wherever a node leads lies in the array, and what a leaf names in the pool. The root is a node, and those
 * that have the label of a byte. */
static bool check_unit(const struct part_reader *r, const struct character_map *map, size_t i)
{
    uint32_t unit = map->units[i];
    if (i && label_of(unit) > 0xFF) return true; /* a value */
    uint32_t base = (uint32_t)i ^ offset_of(unit);
    if ((base | 0xFF) >= map->count) return wrong(r, "it is not a trie");
    if (!has_leaf(unit)) return true;
    uint32_t value = value_of(map->units[base]);
    if (value >= map->bytes) return wrong(r, "it leads beyond its replacements");
    if ((map->pool[value] & 0xC0) == 0x80) return wrong(r, "it leads into the middle of a character");
    if (!memchr(map->pool + value, 0, map->bytes - value < REPLACEMENT_MOST ? map->bytes - value : REPLACEMENT_MOST))
        return wrong(r, "a replacement has no end, or is very long");
    return true;
}

bool character_map_open(const struct part_reader *r, const unsigned char *blob, size_t bytes, struct character_map *map)
{
    *map = (struct character_map){.host = r->host};
    if (bytes < 4) return wrong(r, "it is empty");
    uint32_t trie = read_u32(blob);
    if (trie > bytes - 4) return wrong(r, "it is shorter than its trie");
    map->count = trie / 4;
    map->bytes = bytes - 4 - 4 * map->count;
    if (!(map->units = host_alloc(r->host, map->count, sizeof *map->units, r->e))) return false;
    if (!(map->pool = host_alloc(r->host, map->bytes, 1, r->e))) return false;
    for (size_t i = 0; i < map->count; i++) map->units[i] = read_u32(blob + 4 + 4 * i);
    if (map->bytes) memcpy(map->pool, blob + 4 + 4 * map->count, map->bytes);
    bool valid = true;
    uint32_t c;
    for (size_t i = 0; i < map->bytes && valid;) i += utf8_decode(map->pool + i, map->bytes - i, &c, &valid);
    if (!valid) return wrong(r, "its replacements are not valid UTF-8");
    if (!map->count) return wrong(r, "it is not a trie");
    for (size_t i = 0; i < map->count; i++) TRY(check_unit(r, map, i));
    return true;
}

void character_map_free(struct character_map *map)
{
    if (!map->host) return;
    host_free(map->host, map->units);
    host_free(map->host, map->pool);
}

const char *character_map_find(const struct character_map *map, const unsigned char *key, size_t bytes, size_t *length)
{
    uint32_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < bytes && key[i]; i++) {
        at ^= key[i];
        uint32_t unit = map->units[at];
        if (label_of(unit) != key[i]) return NULL;
        at ^= offset_of(unit);
        if (!has_leaf(unit)) continue;
        const char *found = map->pool + value_of(map->units[at]);
        *length = strlen(found);
        return found;
    }
    return NULL;
}
