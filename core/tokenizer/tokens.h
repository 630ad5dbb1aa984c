/* What a text becomes: ids, and where in the text each of them comes from. */
#ifndef WHERRY_TOKENIZER_TOKENS_H
#define WHERRY_TOKENIZER_TOKENS_H

#include "tokenizer/text.h"

/* Of a token: its place, and how many characters of white space it begins and ends with, for post-processors that leave
 * these out. */
struct token_place {
    uint32_t first, end, leading, trailing;
    bool marked; /* it continues a word */
};

struct tokens {
    const struct host *host;
    int32_t *ids;
    struct token_place *places; /* [count] where `placed` */
    size_t count, capacity;
    bool placed;
    size_t limit;  /* what comes after that many doesn't matter: */
    bool full;     /* there are more than that */
    void *scratch; /* of the model's, see tokens_scratch */
    size_t scratch_bytes;
    struct error *e;
};

void tokens_free(struct tokens *tokens);

/* Makes room for one more token at least. */
bool tokens_grow(struct tokens *tokens);
/* What a token's own text is beside the stretch that it comes from: another, the same, or the same after a mark that is
 * not white space. */
enum token_text { TOKEN_OTHER, TOKEN_LITERAL, TOKEN_MARKED };

/* The place of piece[first, end). */
struct token_place token_place_of(const struct view *piece, size_t first, size_t end, enum token_text text);

/* Appends the token that piece[first, end) became. */
static inline bool tokens_add(struct tokens *tokens, int32_t id, const struct view *piece, size_t first, size_t end,
                              enum token_text text)
{
    if (tokens->count == tokens->capacity && !tokens_grow(tokens)) return false;
    if (tokens->placed) tokens->places[tokens->count] = token_place_of(piece, first, end, text);
    tokens->ids[tokens->count++] = id;
    tokens->full = tokens->count > tokens->limit;
    return true;
}

/* Forgets the last ones. */
static inline void tokens_cut(struct tokens *tokens, size_t count)
{
    tokens->count = count;
    tokens->full = count > tokens->limit;
}

/* Memory for the model while it encodes a piece; what was in it is lost. NULL: there is none, and an error. */
void *tokens_scratch(struct tokens *tokens, size_t count, size_t size);

#endif
