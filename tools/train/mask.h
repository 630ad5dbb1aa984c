/* Masked language models: which tokens of a text are to be predicted, and what stands in their places, as BERT has it.
 */
#ifndef WHERRY_TOOLS_TRAIN_MASK_H
#define WHERRY_TOOLS_TRAIN_MASK_H

#include <wherry/wherry.h>

struct mask_form {
    double share;     /* of tokens that are predicted; of a text with tokens at least one */
    bool whole_words; /* all tokens of a word, or none */
    uint32_t most;    /* of a text: what would come after so many is not predicted; 0: no limit */
    int32_t mask;     /* the token's id */
    uint32_t vocabulary;
};

/* Of each predicted token labels[t] is its id, and ids[t] becomes the mask (80 %), any token (10 %) or stays; other
 * labels are -100. Special tokens are not predicted. Everything is a function of the key and of the text's tokens. */
void mask_tokens(const struct mask_form *form, uint64_t key, const wherry_token_place *places, size_t count,
                 int32_t *ids, int32_t *labels);

/* How many tokens of a batch are predicted, at most: those to be expected of so many tokens, four times the square root
 * of that, about what chance adds in a batch of thousands, and one of each sequence, which has one at least. Parts of a
 * batch end before they have more (batches.h), and a text has no more. */
uint32_t mask_most(double share, uint32_t tokens, uint32_t sequences);

#endif
