/* What `wherry tune` says of the orders that it chose, and of all that it measured for that. */
#ifndef WHERRY_TOOLS_TUNE_LAYOUTS_H
#define WHERRY_TOOLS_TUNE_LAYOUTS_H

#include <wherry/wherry_measure.h>

#include "output.h"

/* Times are microseconds; `others` are added to each: what runs beside the kernel in its operator. */
json_t *candidates_json(const wherry_tune_result *result, double others);
/* `works`: what wherry_tune_layouts told meanwhile. */
json_t *layouts_json(const wherry_layouts_chosen *chosen, const wherry_tune_result *works, size_t n_works);
void layouts_print(const wherry_layouts_chosen *chosen, struct output *out);
/* Copies the four figures of the first plan with layouts to the top of a record that has "plans". */
void layouts_totals(json_t *record);

#endif
