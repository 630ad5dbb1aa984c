/* A text as weights of words, as lexical search takes it: SPLADE's, or bge-m3's of a text's own tokens. */
#include "sparse.h"

#include <stdlib.h>

#include "complain.h"

/* By id, the largest weight of each first. */
static int by_id(const void *a, const void *b)
{
    const struct sparse_word *p = a, *q = b;
    if (p->id != q->id) return p->id < q->id ? -1 : 1;
    return (p->weight < q->weight) - (p->weight > q->weight);
}

struct sparse_words sparse_of_row(const float *weights, uint32_t vocabulary)
{
    struct sparse_words words = {need(malloc((vocabulary + 1) * sizeof *words.of)), 0};
    for (uint32_t id = 0; id < vocabulary; id++)
        if (weights[id] > 0) words.of[words.count++] = (struct sparse_word){id, weights[id]};
    return words;
}

static bool counts(const wherry_model_info *info, int32_t id)
{
    return id >= 0 && id != info->cls_token && id != info->eos_token && id != info->pad_token &&
           id != info->unknown_token;
}

struct sparse_words sparse_of_tokens(const wherry_model_info *info, const int32_t *ids, const float *weights,
                                     uint32_t tokens)
{
    struct sparse_words words = {need(malloc((tokens + 1) * sizeof *words.of)), 0};
    uint32_t all = 0;
    for (uint32_t t = 0; t < tokens; t++)
        if (weights[t] > 0 && counts(info, ids[t]))
            words.of[all++] = (struct sparse_word){(uint32_t)ids[t], weights[t]};
    qsort(words.of, all, sizeof *words.of, by_id);
    for (uint32_t i = 0; i < all; i++)
        if (!words.count || words.of[words.count - 1].id != words.of[i].id) words.of[words.count++] = words.of[i];
    return words;
}

void sparse_free(struct sparse_words *words)
{
    free(words->of);
    words->of = NULL;
}
