/* A file of weights, written anew with other values. */
#ifndef WHERRY_MODEL_WEIGHT_FILE_WRITE_H
#define WHERRY_MODEL_WEIGHT_FILE_WRITE_H

#include "base/new_folder.h"
#include "model/model.h"

/* The tensors of `count` files as one file: those that are parts of the model with the values of `weights`, in f32;
 * other floats in f32, too, and the rest as it is. count 0: all weights of the model, under model_tensor's names. */
bool weight_file_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                       const struct safetensors *const *files, size_t count, const struct new_folder *folder,
                       const char *name, struct error *e);

#endif
