/* The paper's kernels and contractions as works of `wherry bench layouts`, by number: kernels first. */
#ifndef WHERRY_TOOLS_LAYOUTS_PAPER_H
#define WHERRY_TOOLS_LAYOUTS_PAPER_H

#include <jansson.h>

#include "paper.h"

enum { LAYOUT_WORKS = PAPER_KERNELS + PAPER_EINSUMS };

/* The paper's name. */
const char *layouts_work_name(int number);
/* -1: there is none of this name. */
int layouts_work_number(const char *name);
/* What a record says of it that is the paper's: "kind", "tensors", "paper". */
json_t *layouts_paper_json(int number);

#endif
