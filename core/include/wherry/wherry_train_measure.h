/* What training a whole model takes: its memory, and the times of its steps. Part of wherry_measure.h, whose rules hold
 * here. */
#ifndef WHERRY_TRAIN_MEASURE_H
#define WHERRY_TRAIN_MEASURE_H

#include <wherry/wherry_compile.h>
#include <wherry/wherry_measure.h>
#include <wherry/wherry_train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a device's memory that a trainer has, by what they are for. */
typedef struct wherry_train_memory {
    uint32_t struct_size; /* set by the caller */
    uint64_t weights;     /* that kernels read; in f32 these are what is trained, too */
    uint64_t masters;     /* f16, bf16: what is trained, in f32 */
    uint64_t moments;     /* of the optimizer */
    uint64_t gradients;   /* of one batch, in the session's type */
    uint64_t accumulated; /* of a step, in f32 */
    uint64_t saved;       /* what the forward pass keeps for the backward pass, unless gradients lie there later */
    uint64_t workspace;   /* what else lives at the same time, at most, and the batch */
    uint64_t loss;        /* rows, targets and what is computed of them */
    uint64_t tables;      /* the optimizer's: where tensors lie, sums of their squares; messages between processes */
    uint64_t total;
} wherry_train_memory;

WHERRY_API wherry_status wherry_trainer_memory(const wherry_trainer *trainer, wherry_train_memory *out);

/* The parts of a training step, in the order of their groups. */
typedef enum wherry_train_part {
    WHERRY_TRAIN_FORWARD = 0,
    WHERRY_TRAIN_BACKWARD,
    WHERRY_TRAIN_LOSS,
    WHERRY_TRAIN_OPTIMIZER,
    WHERRY_TRAIN_PARTS
} wherry_train_part;

/* What a trainer of these would take, and what a step of one batch of its limits computes and moves, of whose tokens
 * `labelled` have a label where the loss is of masked tokens (0: all); nothing is allocated on the device or compiled.
 * Fills at most *count entries of `groups` (NULL: none), those of each part after each other, and sets *count to the
 * number there is and parts[] to how many each part has. Groups of the loss are named "loss.NAME", the optimizer's
 * kernels "optimizer.NAME". */
WHERRY_API wherry_status wherry_trainer_plan(wherry_context *context, wherry_device *device, const wherry_model *model,
                                             const wherry_session_desc *session, const wherry_trainer_desc *desc,
                                             uint32_t labelled, wherry_train_memory *memory, wherry_cost *groups,
                                             size_t *count, size_t parts[WHERRY_TRAIN_PARTS]);

/* Every distinct program of a trainer of these: of its session and its loss as wherry_session_programs has them, then
 * of the kernels of its optimizer (gradients added up or stepped by at once), of the way between session and loss, of
 * adapters, and of messages where desc->exchange has several processes, whose functions are not called. Nothing is
 * allocated on the device or compiled, so that a device that only compiles does. Callbacks and errors are those of
 * wherry_session_programs. */
WHERRY_API wherry_status wherry_trainer_programs(wherry_context *context, wherry_device *device,
                                                 const wherry_model *model, const wherry_session_desc *session,
                                                 const wherry_trainer_desc *desc, wherry_program_callback callback,
                                                 void *user);
/* Called with each kernel; valid until it returns. Returning false ends the listing. */
typedef bool (*wherry_kernel_callback)(const wherry_session_kernel *kernel, void *user);
/* What the kernels of a trainer take on its device, in that order; what is not compiled yet is now. Optimizers' are
 * those of steps of one batch, and of several where a step was made of several or is divided into shards. */
WHERRY_API wherry_status wherry_trainer_kernels(wherry_trainer *trainer, wherry_kernel_callback callback, void *user);

/* A gradient that processes exchange. */
typedef struct wherry_train_gradient {
    uint64_t elements;
    uint32_t rows;  /* > 0: the word table's so many, of which a step exchanges those of its tokens */
    uint32_t group; /* of the backward pass, from 0: the last that writes to it */
} wherry_train_gradient;

/* The trained gradients of a trainer of these, in the order of their weights; planned as by wherry_trainer_plan, whose
 * groups of the backward pass are meant. Fills at most *count entries (gradients NULL: none), and sets *count to the
 * number there is. */
WHERRY_API wherry_status wherry_trainer_gradients(wherry_context *context, wherry_device *device,
                                                  const wherry_model *model, const wherry_session_desc *session,
                                                  const wherry_trainer_desc *desc, wherry_train_gradient *gradients,
                                                  size_t *count);

typedef struct wherry_train_measure {
    uint32_t struct_size;                  /* set by the caller */
    wherry_time host;                      /* a step, without timestamps: what a caller waits for */
    wherry_time kernels;                   /* the sum of its groups' times by the device's timer */
    wherry_time parts[WHERRY_TRAIN_PARTS]; /* the same of each part */
    size_t groups[WHERRY_TRAIN_PARTS];     /* how many each part has */
    uint32_t skipped;                      /* steps whose gradients overflowed, which were made again */
    wherry_timer_info timer;
    wherry_step_result last;
    wherry_exchange_times exchange; /* of the measured steps, where processes train together */
} wherry_train_measure;

/* Makes steps of this batch, `repeats` without timestamps and as many with the device's around every group, after at
 * least warm_seconds of the same: wherry_trainer_step, with its copies. The weights change. desc: phase ALL, neither
 * cold nor alone; the rest as for wherry_measure, groups as wherry_trainer_plan has them. A trainer of several shards
 * has the same batch in each: then nothing is timed but the whole steps, and there are no groups; where processes train
 * together all of them call this, with the same numbers. */
WHERRY_API wherry_status wherry_trainer_measure(wherry_trainer *trainer, const wherry_batch *batch,
                                                const wherry_targets *targets, const wherry_measure_desc *desc,
                                                wherry_group_measure *groups, size_t *count, wherry_train_measure *out);

#ifdef __cplusplus
}
#endif

#endif
