/* A text as weights of words, as lexical search takes it: SPLADE's, or bge-m3's of a text's own tokens. */
#include "sparse.h"

#include <stdlib.h>

/* By id, the largest weight of each first. */
static int by_id(const void *a, const void *b)
{
    const struct sparse_word *p = a, *q = b;
    if (p->id != q->id) return p->id < q->id ? -1 : 1;
    return (p->weight < q->weight) - (p->weight > q->weight);
}

static int by_weight(const void *a, const void *b)
{
    const struct sparse_word *p = a, *q = b;
    if (p->weight != q->weight) return p->weight > q->weight ? -1 : 1;
    return (p->id > q->id) - (p->id < q->id);
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

static void write_weight(struct output *out, float weight)
{
    char text[NUMBER_SIZE];
    output_write(out, text, format_float(weight, text));
}

void sparse_write_json(struct output *out, const struct token_names *names, const struct sparse_words *words)
{
    output_text(out, "\"weights\":{");
    for (uint32_t i = 0; i < words->count; i++) {
        output_format(out, i ? ",\"%u\":" : "\"%u\":", words->of[i].id);
        write_weight(out, words->of[i].weight);
    }
    output_text(out, "},\"words\":[");
    qsort(words->of, words->count, sizeof *words->of, by_weight);
    for (uint32_t i = 0; i < words->count; i++) {
        output_text(out, i ? ",[" : "[");
        token_name_write(names, words->of[i].id, true, out);
        output_text(out, ",");
        write_weight(out, words->of[i].weight);
        output_text(out, "]");
    }
    output_text(out, "]");
}

void sparse_write_text(struct output *out, const struct token_names *names, const struct sparse_words *words)
{
    qsort(words->of, words->count, sizeof *words->of, by_weight);
    for (uint32_t i = 0; i < words->count; i++) {
        if (i) output_text(out, "\t");
        token_name_write(names, words->of[i].id, false, out);
        output_text(out, " ");
        write_weight(out, words->of[i].weight);
    }
    output_text(out, "\n");
}
