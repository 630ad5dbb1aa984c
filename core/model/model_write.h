/* Model folders written anew: a model's weights, or others of the same shapes, under the names of its files, and the
 * small files beside them. */
#ifndef WHERRY_MODEL_MODEL_WRITE_H
#define WHERRY_MODEL_MODEL_WRITE_H

#include "base/new_folder.h"
#include "model/model.h"

/* Everything that makes it a model folder: the weights in f32, of `weights`, which has the model's parts or such of
 * other values in memory (NULL: the model's own); other tensors of its files as they are, 16-bit floats as f32;
 * configurations, tokenizers and modules of the folder that it was opened from. Models of random weights get a
 * config.json. */
bool model_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                 const struct new_folder *folder, struct error *e);
/* Fails, as model_write would, where it can't be done at all. */
bool model_write_check(const struct wherry_model *model, struct error *e);

#endif
