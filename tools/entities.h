/* What a model says of tokens, as entities: tokens of one kind that follow each other, by the rules of transformers'
 * pipeline. */
#ifndef WHERRY_TOOLS_ENTITIES_H
#define WHERRY_TOOLS_ENTITIES_H

#include "text_run.h"

struct entity {
    const char *label;   /* without B- or I-, where tokens were joined; the model's */
    float score;         /* the mean of its tokens' or words' */
    size_t start, end;   /* characters of the text: [start, end) */
    size_t first, bytes; /* the same in bytes */
};

/* Those of a sequence of the batch, from its logits [tokens][labels], in the order of the text; without label "O".
 * *out: memory to free. Complains and returns an exit code. */
int entities_find(const struct text_run *run, uint32_t sequence, const float *logits, struct entity **out,
                  size_t *count);

#endif
