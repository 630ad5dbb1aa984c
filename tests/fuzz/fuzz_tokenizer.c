/* Tokenizer files, and texts for the tokenizer that they give. */
#include "mutate.h"

#include "tokenizer/tokenizer.h"

static const char *const names[] = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"};
enum { NAMES = sizeof names / sizeof *names, TEXT = NAMES, PAIR, PARTS, VOCABULARY = 400 };

struct tokens {
    int32_t *ids, *types;
    size_t count;
};

/* The tokens of the text, counted first: exactly as many as there is room for. */
static struct tokens encode(const struct tokenizer *t, struct fuzz_part text, const char *pair, size_t pair_bytes,
                            size_t max)
{
    struct tokens out = {0};
    struct error e = {0};
    size_t counted = 0;
    const char *bytes = (const char *)text.data;
    if (!tokenizer_encode(&fuzz_host, t, bytes, text.size, pair, pair_bytes, max, NULL, NULL, &counted, &e)) {
        fuzz_failed(&e);
        CHECK(max); /* fewer than the special tokens are */
        return out;
    }
    CHECK(!max || counted <= max);
    out.ids = malloc(counted * sizeof *out.ids + 1);
    out.types = malloc(counted * sizeof *out.types + 1);
    out.count = counted;
    CHECK(out.ids && out.types);
    CHECK(tokenizer_encode(&fuzz_host, t, bytes, text.size, pair, pair_bytes, max, out.ids, out.types, &out.count, &e));
    CHECK(out.count == counted);
    for (size_t i = 0; i < counted; i++) CHECK(out.ids[i] >= 0 && out.ids[i] < VOCABULARY);
    return out;
}

static void release(struct tokens *tokens)
{
    free(tokens->ids);
    free(tokens->types);
    *tokens = (struct tokens){0};
}

/* The same text gives the same again, and one that is short enough is not cut. */
static void check_text(const struct tokenizer *t, struct fuzz_part text, const char *pair, size_t pair_bytes)
{
    static const size_t limits[] = {2, 7, 64};
    struct tokens all = encode(t, text, pair, pair_bytes, 0);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        struct tokens cut = encode(t, text, pair, pair_bytes, limits[l]);
        if (cut.ids && all.count <= limits[l]) {
            CHECK(cut.count == all.count && !memcmp(cut.ids, all.ids, all.count * sizeof *all.ids));
            CHECK(!memcmp(cut.types, all.types, all.count * sizeof *all.types));
        }
        release(&cut);
    }
    release(&all);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_part(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part parts[PARTS];
    struct error e = {0};
    fuzz_split(data, size, parts, PARTS);
    fuzz_write_parts(parts, names, NAMES);
    long before = fuzz_blocks;
    struct tokenizer *t = tokenizer_open(&fuzz_host, fuzz_folder(), VOCABULARY, &e);
    if (t) {
        check_text(t, parts[TEXT], NULL, 0);
        check_text(t, parts[TEXT], (const char *)parts[PAIR].data, parts[PAIR].size);
        tokenizer_close(t);
    } else {
        fuzz_failed(&e);
    }
    CHECK(fuzz_blocks == before);
    return 0;
}
