/* Which ids a model's special tokens have. */
#ifndef WHERRY_MODEL_SPECIAL_TOKENS_H
#define WHERRY_MODEL_SPECIAL_TOKENS_H

#include "model/model.h"

/* Fills in mask_token and its like of the model's info, as tokenizer_config.json in `folder` names them, else as most
 * models do. */
bool special_tokens_find(struct wherry_model *model, const char *folder, struct error *e);

#endif
