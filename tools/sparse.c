/* A text as weights of token ids, as bge-m3's lexical search takes it. */
#include "sparse.h"

#include <stdlib.h>

struct token {
    int32_t id;
    float weight;
};

/* By id, the largest weight of each first. */
static int compare(const void *a, const void *b)
{
    const struct token *p = a, *q = b;
    if (p->id != q->id) return p->id < q->id ? -1 : 1;
    return (p->weight < q->weight) - (p->weight > q->weight);
}

static bool counts(const wherry_model_info *info, const struct token *token)
{
    int32_t id = token->id;
    return token->weight > 0 && id != info->cls_token && id != info->eos_token && id != info->pad_token &&
           id != info->unknown_token;
}

void sparse_write(struct output *out, const wherry_model_info *info, const int32_t *ids, const float *weights,
                  uint32_t tokens)
{
    struct token *list = need(malloc((tokens + 1) * sizeof *list));
    uint32_t n = 0;
    for (uint32_t t = 0; t < tokens; t++) {
        list[n] = (struct token){ids[t], weights[t]};
        n += counts(info, &list[n]);
    }
    qsort(list, n, sizeof *list, compare);
    output_text(out, "{");
    for (uint32_t i = 0; i < n; i++) {
        char text[NUMBER_SIZE];
        if (i && list[i].id == list[i - 1].id) continue;
        output_format(out, i ? ",\"%d\":" : "\"%d\":", (int)list[i].id);
        output_write(out, text, format_float(list[i].weight, text));
    }
    output_text(out, "}");
    free(list);
}
