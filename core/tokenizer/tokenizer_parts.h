/* What a tokenizer is made of: shared by the code that reads it from files and the code that runs it. */
#ifndef WHERRY_TOKENIZER_TOKENIZER_PARTS_H
#define WHERRY_TOKENIZER_TOKENIZER_PARTS_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/models.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/pair_frame.h"
#include "tokenizer/post_processors.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/tokenizer.h"

/* In the order in which a text passes them. */
struct tokenizer {
    struct host host; /* a copy: the tokenizer may outlive the one it was made with */
    struct added_tokens added;
    struct normalizers normalizers;
    struct pre_tokenizers pre_tokenizers;
    struct token_model model;
    struct post_processor post;
    bool cut_left;              /* what is too much is cut off the beginning */
    bool needs_places;          /* a pre-tokenizer asks where a text begins */
    struct pair_frame frame;    /* parts NULL: pairs are the post-processor's */
    struct template frame_form; /* of a framed pair's tokens */
};

/* What is kept of one text's tokens. */
struct kept {
    struct tokens all;
    size_t first, count;
};

/* `tokens` gets all of the text, or at least the first `limit` + 1 of them; no special ones. */
bool tokenizer_text(const struct host *host, const struct tokenizer *t, const char *text, size_t bytes,
                    struct tokens *tokens);
/* Writes at most `room` tokens; returns how many there are. */
size_t template_write(const struct template *form, const struct kept both[2], size_t room, int32_t *ids, int32_t *types,
                      wherry_token_place *places);
/* Where the characters of places in text `which` are, in bytes. */
bool places_find_bytes(const struct host *host, const char *text, size_t bytes, int32_t which,
                       wherry_token_place *places, size_t count, struct error *e);

#endif
