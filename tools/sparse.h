/* A text as weights of token ids, as bge-m3's lexical search takes it. */
#ifndef WHERRY_TOOLS_SPARSE_H
#define WHERRY_TOOLS_SPARSE_H

#include "output.h"
#include "wherry/wherry.h"

/* A JSON object of one text: the largest weight of each id, where it is above 0, in the order of ids. The ids of
 * beginning, end, padding and unknown tokens are left out, as FlagEmbedding does, wherever they stand. */
void sparse_write(struct output *out, const wherry_model_info *info, const int32_t *ids, const float *weights,
                  uint32_t tokens);

#endif
