/* A text through a tokenizer that was opened: what must hold of its tokens, whatever the files were. */
#ifndef WHERRY_TESTS_FUZZ_TOKENS_H
#define WHERRY_TESTS_FUZZ_TOKENS_H

#include "fuzz.h"

#include "tokenizer/tokenizer.h"

enum { TOKENS_VOCABULARY = 400 };

struct tokens {
    int32_t *ids, *types;
    wherry_token_place *places;
    size_t count;
};

static inline void tokens_release(struct tokens *tokens)
{
    free(tokens->ids);
    free(tokens->types);
    free(tokens->places);
    *tokens = (struct tokens){.count = 0};
}

/* A token lies in the text or its pair, in bytes and in characters. */
static inline void tokens_check_place(const wherry_token_place *place, size_t text_bytes, size_t pair_bytes)
{
    size_t bytes = place->text == 0 ? text_bytes : place->text == 1 ? pair_bytes : 0;
    CHECK(place->text >= -1 && place->text <= 1);
    CHECK(place->first <= bytes && place->end <= bytes);
    CHECK(place->first_character <= place->first && place->end_character <= place->end);
}

/* The tokens of the text, counted first: exactly as many as there is room for. Not cut, there are none only where a
 * character has no token, the text would grow without end, or a pattern takes too long on it.
 */
static inline struct tokens tokens_of(const struct tokenizer *t, struct fuzz_part text, const char *pair,
                                      size_t pair_bytes, size_t max)
{
    struct tokens out = {0};
    struct error e = {0};
    size_t counted = 0, again;
    const char *bytes = (const char *)text.data;
    if (!tokenizer_encode(&fuzz_host, t, bytes, text.size, pair, pair_bytes, max, NULL, NULL, &counted, &e)) {
        fuzz_failed(&e);
        CHECK(max || strstr(e.text, "no token has") || strstr(e.text, "times as long") ||
              strstr(e.text, "too many steps") || strstr(e.text, "can't be matched"));
        return out;
    }
    CHECK(!max || counted <= max);
    out.ids = malloc(counted * sizeof *out.ids + 1);
    out.types = malloc(counted * sizeof *out.types + 1);
    out.places = malloc(counted * sizeof *out.places + 1);
    int32_t *placed = malloc(counted * sizeof *placed + 1);
    out.count = again = counted;
    CHECK(out.ids && out.types && out.places && placed);
    CHECK(tokenizer_encode(&fuzz_host, t, bytes, text.size, pair, pair_bytes, max, out.ids, out.types, &out.count, &e));
    CHECK(tokenizer_encode_places(&fuzz_host, t, bytes, text.size, pair, pair_bytes, max, placed, NULL, out.places,
                                  &again, &e));
    CHECK(out.count == counted && again == counted && !memcmp(placed, out.ids, counted * sizeof *placed));
    free(placed);
    for (size_t i = 0; i < counted; i++) {
        CHECK(out.ids[i] >= 0 && out.ids[i] < TOKENS_VOCABULARY);
        tokens_check_place(&out.places[i], text.size, pair ? pair_bytes : 0);
    }
    return out;
}

/* The same text gives the same again, and one that is short enough is not cut. */
static inline void tokens_check(const struct tokenizer *t, struct fuzz_part text, const char *pair, size_t pair_bytes)
{
    static const size_t limits[] = {2, 7, 64};
    struct tokens all = tokens_of(t, text, pair, pair_bytes, 0);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        struct tokens cut = tokens_of(t, text, pair, pair_bytes, limits[l]);
        if (cut.ids && all.ids && all.count <= limits[l]) {
            CHECK(cut.count == all.count && !memcmp(cut.ids, all.ids, all.count * sizeof *all.ids));
            CHECK(!memcmp(cut.types, all.types, all.count * sizeof *all.types));
        }
        tokens_release(&cut);
    }
    tokens_release(&all);
}

/* The folder's files were written: the tokenizer that they give, or an error, and nothing that stays behind. */
static inline void tokens_check_folder(struct fuzz_part text, const char *pair, size_t pair_bytes)
{
    struct error e = {0};
    long before = fuzz_blocks;
    struct tokenizer *t = tokenizer_open(&fuzz_host, fuzz_folder(), NULL, TOKENS_VOCABULARY, &e);
    if (t) {
        tokens_check(t, text, NULL, 0);
        tokens_check(t, text, pair, pair_bytes);
        tokenizer_close(t);
    } else {
        fuzz_failed(&e);
    }
    CHECK(fuzz_blocks == before);
}

#endif
