/* Where training stands, in two files of a folder beside the model's: moments and the caller's bytes, and numbers. */
#ifndef WHERRY_TRAIN_CHECKPOINT_H
#define WHERRY_TRAIN_CHECKPOINT_H

#include "base/new_folder.h"
#include "model/safetensors.h"
#include "train/trainer.h"

bool checkpoint_write(struct wherry_trainer *t, const struct new_folder *folder, const void *data, size_t bytes,
                      struct error *e);

struct checkpoint {
    uint64_t step;
    struct optimizer_state optimizer;
    struct safetensors file; /* moments and the caller's bytes */
};
/* Reads the numbers, and fails where they are of a trainer that this one is not. */
bool checkpoint_open(const struct wherry_trainer *t, const char *folder, struct checkpoint *out, struct error *e);
void checkpoint_close(const struct wherry_trainer *t, struct checkpoint *state);
size_t checkpoint_data_bytes(const struct checkpoint *state);
/* Takes all of it, the weights from `model`, which was opened from the folder. Nothing is changed before everything was
 * checked. */
bool checkpoint_read(struct wherry_trainer *t, const struct checkpoint *state, const char *folder,
                     const struct wherry_model *model, void *data, struct error *e);

#endif
