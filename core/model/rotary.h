/* The table of rotary positions, which no file has. */
#ifndef WHERRY_MODEL_ROTARY_H
#define WHERRY_MODEL_ROTARY_H

#include "model/model.h"

/* Gives a model with rotary positions its tables, as WEIGHT_ROTARY and WEIGHT_ROTARY_LOCAL: of angles, or, where these
 * depend on a text's length, of frequencies (graph/rotary.h). */
bool rotary_make(struct wherry_model *model, struct error *e);

#endif
