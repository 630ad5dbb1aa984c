/* Pairs of lines, of which the second may come after the first (BERT's next sentences). */
#ifndef WHERRY_TOOLS_TRAIN_PAIRS_H
#define WHERRY_TOOLS_TRAIN_PAIRS_H

#include "train/example.h"
#include "train/lines.h"

enum { PAIR_LINES_LEAST = 3 }; /* a line, the next one, and another */

/* The line that goes with line `number` of so many, a function of `key`: as often as not the next one (*label:
 * NEXT_FOLLOWS), else any but that and itself. The last line has no next one. */
uint64_t pair_draw(uint64_t key, uint64_t number, uint64_t count, int32_t *label);
/* Adds it to an example that is line `number` itself. Complains and returns an exit code. */
int pair_add(struct example *example, const struct example_form *form, struct lines *lines, uint64_t key,
             uint64_t number);

#endif
