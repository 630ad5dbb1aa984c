/* A text as weights of words, as lexical search takes it: SPLADE's, or bge-m3's of a text's own tokens. */
#ifndef WHERRY_TOOLS_SPARSE_H
#define WHERRY_TOOLS_SPARSE_H

#include <wherry/wherry.h>

struct sparse_word {
    uint32_t id;
    float weight;
};

/* Weights above 0, each id once, in the order of ids. */
struct sparse_words {
    struct sparse_word *of;
    uint32_t count;
};

/* Of a row of the vocabulary. */
struct sparse_words sparse_of_row(const float *weights, uint32_t vocabulary);
/* Of a text's tokens: the largest weight of each id. The ids of beginning, end, padding and unknown tokens are left
 * out, as FlagEmbedding does, wherever they stand. */
struct sparse_words sparse_of_tokens(const wherry_model_info *info, const int32_t *ids, const float *weights,
                                     uint32_t tokens);
void sparse_free(struct sparse_words *words);

#endif
