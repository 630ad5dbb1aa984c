/* What the options of `wherry train` ask for, and what they come to for this model and data. */
#ifndef WHERRY_TOOLS_TRAIN_SETUP_H
#define WHERRY_TOOLS_TRAIN_SETUP_H

#include <wherry/wherry_train.h>

#include "session.h"
#include "train/batches.h"
#include "train/lora.h"

#define LOSS_CHOICES "cosent|cosine|classes|binary|squares"
enum { LOSS_COSENT = 1, LOSS_COSINE, LOSS_CLASSES, LOSS_BINARY, LOSS_SQUARES };

struct train_setup {
    struct example_form form;
    struct batches_desc batches;
    uint32_t run_tokens, run_sequences; /* of what runs at a time */
    uint32_t shards;
    uint64_t steps, warmup;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    wherry_training_desc training;
    wherry_session_desc session;
    wherry_trainer_desc trainer;
    struct lora_options lora;
    struct name_list frozen;
};

/* These complain and return an exit code. */

/* Whether the options go together, before anything is opened. */
int setup_check(const struct options *options);
/* What lines look like and how they become batches, for this model and device. */
int setup_data(struct train_setup *setup, const struct tool *tool);
/* Reads the first line for its columns, counts the steps, and makes the descriptors of session and trainer. */
int setup_trainer(struct train_setup *setup, const struct tool *tool, struct lines *lines);
/* Of what runs at a time, once the descriptors are made. */
struct part_limits setup_part_limits(const struct train_setup *setup);
/* How many shards a step has, with so many processes that mpirun started, 0: none. */
int setup_shards(struct train_setup *setup, const struct options *options, uint32_t processes);
void setup_close(struct train_setup *setup);
/* What a run's bits depend on beside model, loss, optimizer and seed, which checkpoints know themselves. */
json_t *setup_json(const struct train_setup *setup, const struct options *options, const struct lines *lines);

#endif
