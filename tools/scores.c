/* What the commands share that write scores. */
#include "scores.h"

#include <stdlib.h>

int scores_check(const struct options *options, bool *jsonl)
{
    *jsonl = options->json || options->format == FORMAT_JSONL + 1;
    if (options->json && options->format && options->format != FORMAT_JSONL + 1)
        return complain(EXIT_USAGE, "--json means --format jsonl, and another format was given");
    if (options->with_text && !*jsonl) return complain(EXIT_USAGE, "--with-text needs --format jsonl");
    if (options->pairs && options->input == INPUT_JSONL + 1)
        return complain(EXIT_USAGE, "--pairs is for --input lines; JSONL has \"pair\"");
    return EXIT_FINE;
}

wherry_scores scores_chosen(const struct text_run *run)
{
    int choice = run->tool.options->scores; /* none, sigmoid, softmax: in the order of wherry_scores */
    return choice ? (wherry_scores)(choice - 1) : run->tool.model_info.scores;
}

struct scored {
    float score;
    uint32_t label;
};

/* Labels of one score stay in their order. */
static int compare(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->label < y->label ? -1 : x->label > y->label;
}

void scores_sort(const float *scores, uint32_t labels, uint32_t *order)
{
    struct scored *list = need(malloc(labels * sizeof *list));
    for (uint32_t i = 0; i < labels; i++) list[i] = (struct scored){scores[i], i};
    qsort(list, labels, sizeof *list, compare);
    for (uint32_t i = 0; i < labels; i++) order[i] = list[i].label;
    free(list);
}
