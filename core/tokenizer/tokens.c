/* What a text becomes: ids, and where in the text each of them comes from. */
#include "tokenizer/tokens.h"

#include "tokenizer/unicode.h"

enum {
    SPACE_OF_BYTES = 0x120 /* what byte-level tokens have for a space */
};

void tokens_free(struct tokens *tokens)
{
    host_free(tokens->host, tokens->ids);
    host_free(tokens->host, tokens->places);
    host_free(tokens->host, tokens->scratch);
    *tokens = (struct tokens){.host = tokens->host};
}

bool tokens_grow(struct tokens *tokens)
{
    size_t capacity = tokens->capacity ? tokens->capacity * 2 : 64;
    int32_t *ids = host_grow(tokens->host, tokens->ids, tokens->count, capacity, sizeof *ids, tokens->e);
    if (!ids) return false;
    tokens->ids = ids;
    if (tokens->placed) {
        struct token_place *places =
            host_grow(tokens->host, tokens->places, tokens->count, capacity, sizeof *places, tokens->e);
        if (!places) return false;
        tokens->places = places;
    }
    tokens->capacity = capacity;
    return true;
}

static bool is_blank(uint32_t c) { return c == SPACE_OF_BYTES || unicode_is_space(c); }

struct token_place token_place_of(const struct view *piece, size_t first, size_t end, enum token_text text)
{
    struct token_place place = {piece->places[first].first, piece->places[end - 1].end, 0, 0};
    place.marked = text == TOKEN_MARKED;
    if (text == TOKEN_OTHER) return place;
    while (text == TOKEN_LITERAL && first + place.leading < end && is_blank(piece->characters[first + place.leading]))
        place.leading++;
    while (end - place.trailing > first && is_blank(piece->characters[end - 1 - place.trailing])) place.trailing++;
    return place;
}

void *tokens_scratch(struct tokens *tokens, size_t count, size_t size)
{
    if (count <= tokens->scratch_bytes / size) return tokens->scratch;
    size_t wanted = count < 64 ? 64 : count;
    void *memory = host_alloc_unset(tokens->host, wanted, size, tokens->e);
    if (!memory) return NULL;
    host_free(tokens->host, tokens->scratch);
    tokens->scratch = memory;
    tokens->scratch_bytes = wanted * size;
    return memory;
}
