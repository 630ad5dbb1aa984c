/* How a text becomes the tokens that are encoded: with the prompt in front of it, or as the second one of a pair. */
#ifndef WHERRY_SERVE_TOKENIZE_H
#define WHERRY_SERVE_TOKENIZE_H

#include <stddef.h>
#include <wherry/wherry.h>

/* A text, and its pair where it has one. */
struct passage {
    const char *text, *pair; /* pair NULL: none */
    size_t text_bytes, pair_bytes;
};

struct token_form {
    uint32_t max_length; /* what there is room for */
    bool truncate;       /* to it */
    const char *prompt;  /* NULL: none */
    const char *query;   /* which texts are the second ones of pairs with; NULL: none */
    size_t query_bytes;
    wherry_text_form taken; /* what the prompt makes of texts */
};

/* Each of form.max_length; places may be NULL. */
struct token_room {
    int32_t *ids, *types;
    wherry_token_place *places;
};

/* *count: how many tokens there are, which may be more than there is room for. Else as wherry_tokenize_places. */
wherry_status tokenize_text(wherry_context *context, const wherry_model *model, const struct token_form *form,
                            const struct passage *text, const struct token_room *room, size_t *count);

#endif
