/* A training step of random data: what `bench train` measures and `analyze --train` counts. */
#ifndef WHERRY_TOOLS_TRAIN_WORK_H
#define WHERRY_TOOLS_TRAIN_WORK_H

#include <wherry/wherry_train_measure.h>

#include "report/model.h"
#include "session.h"

/* A half-opened one may be closed. */
struct train_work {
    struct random_batch batch;
    wherry_targets targets; /* count 0: the loss has none */
    int32_t *labels;
    float *values;
    uint32_t masked; /* tokens that are predicted */
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    wherry_training_desc training;
    wherry_session_desc session;
    wherry_lora_desc lora;
    wherry_trainer_desc trainer;
};

/* Opens the tool's model with the head that the task needs, and makes a batch, targets and descriptors as the options
 * say; the plan is that of the descriptor's. Complains, and returns an exit code. */
int train_work_open(struct tool *tool, struct train_work *work);
void train_work_close(struct train_work *work);
/* What is trained and how, as a record has it. */
json_t *train_work_json(const struct tool *tool, const struct train_work *work);
const char *train_task_name(const struct options *options);
const char *train_optimizer_name(const struct options *options);

/* By report/model.h's memory_rows. */
void train_memory_rows(const wherry_train_memory *memory, uint64_t bytes[MEMORY_ROWS]);
json_t *train_memory_json(const wherry_train_memory *memory);
extern const char *const train_part_names[WHERRY_TRAIN_PARTS];

#endif
