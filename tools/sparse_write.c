/* Weights of words as files have them. */
#include "sparse_write.h"

#include <stdlib.h>

static int by_weight(const void *a, const void *b)
{
    const struct sparse_word *p = a, *q = b;
    if (p->weight != q->weight) return p->weight > q->weight ? -1 : 1;
    return (p->id > q->id) - (p->id < q->id);
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
