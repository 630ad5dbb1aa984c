/* An example's tokens, with what is to be said of them. */
#ifndef WHERRY_TOOLS_TRAIN_TOKENS_H
#define WHERRY_TOOLS_TRAIN_TOKENS_H

#include "train/batches.h"

/* Sequences of one example or of several, one after the other. */
struct token_list {
    uint32_t sequences, tokens;
    uint32_t *ends;                /* [sequences] */
    int32_t *ids, *types, *labels; /* [tokens] */
    wherry_token_place *places;    /* of the sequence that was read last */
    size_t room, ends_room, places_room;
};

/* Adds the sequences of an example: one for each column where columns are compared, else one of all. Complains with
 * the line where a text is too long, or has no tokens; the list is then as it was. */
int token_list_add(struct token_list *list, const struct batches *batches, uint64_t number);
void token_list_cut(struct token_list *list, uint32_t sequences);
void token_list_free(struct token_list *list);

#endif
