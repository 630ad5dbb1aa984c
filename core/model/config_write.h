/* config.json of a model that has none: one of random weights. */
#ifndef WHERRY_MODEL_CONFIG_WRITE_H
#define WHERRY_MODEL_CONFIG_WRITE_H

#include "base/new_folder.h"
#include "model/model.h"

/* Fails with WHERRY_STATUS_UNSUPPORTED where no architecture has such a shape; `folder` NULL: does only that. */
bool config_write(const struct wherry_model *model, const struct new_folder *folder, struct error *e);

#endif
