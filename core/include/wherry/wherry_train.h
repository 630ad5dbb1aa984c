/* Trainers: a model on a device with a loss and an optimizer, which changes its weights. Part of wherry.h, whose rules
 * hold here. A loss of the caller's own goes with wherry_forward and wherry_backward instead (wherry_training.h).
 */
#ifndef WHERRY_TRAIN_H
#define WHERRY_TRAIN_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is minimized ---- */

/* "Rows" are those of the session's output, of all batches of a step one after the other. A loss over examples of c
 * columns has the rows of the first column first, for all examples, then those of the second, and so on: n anchors, n
 * positives, n first negatives, ... Every loss is a mean. */
typedef enum wherry_loss {
    /* Embeddings; columns: anchor, positive, further negatives. Cross-entropy of scale * cosine over all columns but
     * the anchors', with the anchor's own positive as the class: "multiple negatives ranking", InfoNCE. No targets. */
    WHERRY_LOSS_CONTRASTIVE = 1,
    /* Embeddings; 2 columns, and a score for each pair: log(1 + sum of exp(scale * (cos_j - cos_i))) over the pairs i
     * whose score is higher than that of pair j. */
    WHERRY_LOSS_COSENT,
    WHERRY_LOSS_COSINE, /* embeddings; 2 columns, and a score for each pair: squared error of the cosine */
    /* Embeddings; 1 column, and a vector for each row, of the same length: squared error, mean over all floats. */
    WHERRY_LOSS_VECTORS,
    /* Embeddings; 3 columns (query, positive, negative), and a number for each example: squared error of the difference
     * of the two dot products. */
    WHERRY_LOSS_MARGIN,
    /* Class scores, of texts or of tokens; a label for each row: softmax and cross-entropy. Label -100: the row counts
     * for nothing. With class_weights the mean is weighted as PyTorch's. */
    WHERRY_LOSS_CLASSES,
    WHERRY_LOSS_BINARY,     /* class scores; a number from 0 to 1 for each score: sigmoid and binary cross-entropy */
    WHERRY_LOSS_REGRESSION, /* class scores; a number for each score: squared error */
    /* Scores of the vocabulary for masked tokens, of models with WHERRY_HEAD_VOCABULARY; a label (token id) for each
     * token of the batches, -100: it does not count. The session's output is WHERRY_OUTPUT_ENTROPY whatever the
     * descriptor says. */
    WHERRY_LOSS_MASKED,
    /* Its sum with the cross-entropy of next sentences (BERT's pretraining), of models whose config has next_sentence;
     * wherry_batch.next has a label for each sequence, -100: it does not count. Both are means over all that count of a
     * step, and each batch has some of both. The session's output is WHERRY_OUTPUT_ENTROPY_NEXT. */
    WHERRY_LOSS_MASKED_NEXT
} wherry_loss;

typedef struct wherry_loss_desc {
    uint32_t struct_size;
    wherry_loss loss;
    float scale;                /* CONTRASTIVE, COSENT; 0: 20 */
    bool symmetric;             /* CONTRASTIVE: the mean with the same loss from positives to anchors */
    uint32_t columns;           /* CONTRASTIVE: at least 2, 0: 2; the others have theirs */
    const float *class_weights; /* CLASSES: [labels], NULL: all 1 */
    float positive_weight;      /* BINARY: factor of the positive part; 0: 1 */
    /* Losses of embeddings at several leading lengths, summed with weights ("Matryoshka"): the cut embedding is taken
     * as it is, so cosines are those of the cut one. [n_dimensions], 0: the whole embedding alone. */
    const uint32_t *dimensions;
    const float *dimension_weights; /* [n_dimensions], NULL: all 1 */
    uint32_t n_dimensions;
} wherry_loss_desc;

/* ---- how ---- */

typedef enum wherry_optimizer {
    WHERRY_OPTIMIZER_ADAMW = 0, /* as PyTorch's: decoupled decay, bias correction */
    WHERRY_OPTIMIZER_LAMB,
    WHERRY_OPTIMIZER_SGD /* with momentum, as PyTorch's */
} wherry_optimizer;

/* The rate of step k, from 0: during warm-up rate * k / warmup_steps, as transformers has it; then */
typedef enum wherry_schedule {
    WHERRY_SCHEDULE_LINEAR = 0, /* down to 0 at total_steps */
    WHERRY_SCHEDULE_COSINE,     /* half a cosine down to 0 at total_steps */
    WHERRY_SCHEDULE_CONSTANT    /* the rate */
} wherry_schedule;

typedef struct wherry_optimizer_desc {
    uint32_t struct_size;
    wherry_optimizer kind;
    float learning_rate; /* required, over 0 */
    float beta1, beta2;  /* ADAMW, LAMB; 0: 0.9 and 0.999 */
    float epsilon;       /* ADAMW, LAMB; 0: 1e-8, of LAMB 1e-6 */
    float weight_decay;
    float momentum;   /* SGD */
    float max_norm;   /* gradients are scaled so that their norm over all weights is at most this; 0: they are not */
    float loss_scale; /* f16: the first one, a power of two; 0: 65536. It doubles after 2000 steps and halves where
                         a gradient is not finite. f32, bf16: always 1 */
    bool decay_all;   /* false: biases and layernorms do not decay */
    /* The rate of a layer is this times that of the layer above, of the embeddings this times that of the first layer;
     * heads have the whole rate. 0: 1. */
    float layer_decay;
    wherry_schedule schedule;
    uint64_t warmup_steps;
    uint64_t total_steps; /* 0: only with CONSTANT */
    /* Weights that do not change: patterns of their names in the model's files, with or without the family's prefix
     * ("bert."), "*" standing for any text and "?" for a character: "embeddings.*", "encoder.layer.0.*". One that fits
     * no weight is an error. Query, key and value of a layer are one weight here: all three or none. */
    const char *const *frozen;
    size_t n_frozen;
} wherry_optimizer_desc;

/* Low-rank adapters (LoRA), as PEFT has them: linear layers keep the model's W0, and W0 + scale B A is computed with,
 * of which A [rank][columns] and B [rows][rank] are trained and have state in the optimizer. A begins as PEFT's does,
 * uniform from -1 / sqrt(columns) to 1 / sqrt(columns), drawn by the trainer's seed, B as zeros. There is no dropout
 * before A (PEFT's lora_dropout is 0). All other weights are frozen, but those of `saved`. */
typedef struct wherry_lora_desc {
    uint32_t struct_size;
    uint32_t rank; /* 1 to 65536 */
    float alpha;   /* scale is alpha / rank; 0: 2 * rank */
    bool root;     /* scale is alpha / sqrt(rank) instead ("rank-stabilized", use_rslora) */
    /* The layers: PEFT's target_modules, each the end of a path, "query" or "attention.output.dense". NULL, or one
     * "all-linear": all but tables, the vocabulary's scores and classifiers. One that fits no layer is an error. */
    const char *const *targets;
    size_t n_targets;
    /* Modules that are trained as a whole: PEFT's modules_to_save. NULL: of class scores "classifier" and "score",
     * where there is such a one; else none. */
    const char *const *saved;
    size_t n_saved;
    /* The folder of an adapter of this model to begin with. It says all of the above, which is 0 then. NULL: a new one.
     */
    const char *adapter;
} wherry_lora_desc;

/* ---- with other processes ---- */

typedef struct wherry_message {
    uint32_t process;
    void *data; /* of one that is sent it is only read */
    size_t bytes;
} wherry_message;

/* How processes that train one model together send each other messages: the application's, of MPI or whatever it has.
 * Every process has a trainer of its own on a device of its own; all make the same calls of theirs with the same
 * arguments, in the same order: wherry_trainer_create, _step, _step_shards, _weights_compare. What differs in
 * descriptors, model or the session's plan is found when the trainer is created. Called by the thread that calls the
 * trainer. */
typedef struct wherry_exchange {
    uint32_t struct_size;
    uint32_t process, processes; /* which this is, from 0, of how many */
    void *user;
    /* Starts sending and receiving all of these, and returns without waiting; their memory stays as it is, or unread,
     * until `finish`. There are as many receives as others send to this process, with the same sizes: what one process
     * sends another arrives in the order in which it was started. False: it failed, `problem` says why. */
    bool (*start)(void *user, const wherry_message *sends, size_t n_sends, const wherry_message *receives,
                  size_t n_receives);
    /* Waits for the end of the oldest `start` that was not waited for; *seconds: how long all of it took. */
    bool (*finish)(void *user, double *seconds);
    const char *(*problem)(void *user); /* of what failed last */
    /* Memory that processes of one host share, so that messages between them need not be sent. All processes call this,
     * at the same time: each makes `bytes` of it, whole pages, and memory[p], of `processes`, becomes what process p
     * has made, where this process and p reach each other's memory, else NULL; its own where it has made any. It stays
     * as long as `user` does. It is pinned for the device, which NVIDIA's driver does for one context of a process
     * alone: of processes, not of threads. NULL, itself: there is no such memory. False: it failed, `problem` says why.
     */
    bool (*share)(void *user, size_t bytes, void **memory);
} wherry_exchange;

typedef enum wherry_wire {
    WHERRY_WIRE_F32 = 0,
    WHERRY_WIRE_F16, /* gradients are rounded to 16-bit floats, each piece scaled by a power of two, and summed in f32;
                        of two processes with a batch each, what the session stores in f16 goes as it is */
    WHERRY_WIRE_BF16 /* the same rounded to bf16, without scaling; what the session stores in bf16 goes as it is */
} wherry_wire;

typedef struct wherry_trainer_desc {
    uint32_t struct_size;
    const wherry_loss_desc *loss;
    const wherry_optimizer_desc *optimizer;
    uint64_t seed; /* dropout's */
    /* Of losses whose rows know each other, of a step over all its batches (the device has matrices of so many rows
     * squared); others take each batch by itself. 0: what one batch may have, at most 1024. */
    uint32_t max_rows;
    /* Of a step: wherry_trainer_step_shards. Sums of gradients are kept apart for them: one more on the device, f32,
     * for each doubling of those that one process has. 0: 1. */
    uint32_t shards;
    const wherry_exchange *exchange; /* copied, `user` must outlive the trainer; NULL: this process is alone */
    wherry_wire wire;
    uint32_t bucket_bytes; /* of gradients that are exchanged at a time, at least 4096; 0: 32 MiB. Bits do not depend
                              on it in f32 */
    const wherry_lora_desc *lora; /* NULL: weights are trained themselves */
} wherry_trainer_desc;

typedef struct wherry_trainer wherry_trainer;

/* Makes the session to train with, of `session`, which may name everything but `only` and keep_intermediates;
 * session.training NULL: that of zeros, without dropout. Losses of embeddings normalize by themselves where they need
 * it. All that it has on the device is within session.memory_budget, 0 being what the device has, but for buckets of
 * an exchange: where that needs it, and session.training.save is WHERRY_SAVE_DEFAULT, the first layers, as few as are
 * enough, keep the least for the backward pass (wherry_training_desc.least_layers; a note of the session says so).
 * Else it is WHERRY_STATUS_OUT_OF_DEVICE_MEMORY. The descriptors are copied; context, device and model must outlive
 * the trainer. The model stays what it is: the trainer has weights of its own, on the device, in f32 (and in 16 bits
 * for the kernels of f16 and bf16 sessions). */
WHERRY_API wherry_status wherry_trainer_create(wherry_context *context, wherry_device *device,
                                               const wherry_model *model, const wherry_session_desc *session,
                                               const wherry_trainer_desc *desc, wherry_trainer **out);
WHERRY_API void wherry_trainer_destroy(wherry_trainer *trainer);
/* The session that trains, for wherry_session_query, wherry_session_note and wherry_gradient_read: the trainer's. Its
 * max_tokens and max_sequences are the limits of each batch of a step. */
WHERRY_API wherry_session *wherry_trainer_session(wherry_trainer *trainer);
/* Floats in a row of the output. */
WHERRY_API size_t wherry_trainer_row_floats(const wherry_trainer *trainer);

/* ---- steps ---- */

typedef struct wherry_targets {
    uint32_t struct_size;
    const int32_t *labels; /* CLASSES, MASKED, MASKED_NEXT */
    const float *values;   /* all others but CONTRASTIVE */
    size_t count;          /* of labels, or of floats in values; another number than the batches need is an error */
} wherry_targets;

typedef struct wherry_step_result {
    uint32_t struct_size; /* set by the caller */
    bool skipped; /* f16: a gradient was not finite: no weight has changed, and the loss scale is half of what it was */
    uint64_t step; /* the step's number, from 0 */
    double loss;
    double gradient_norm; /* over all weights that change, before it is limited; of a skipped step not finite */
    double learning_rate; /* that the step had */
    double loss_scale;    /* that the step had; 1 in f32 */
} wherry_step_result;

/* Forward and backward passes of all batches, and one change of the weights by the gradient of their loss together.
 * Losses whose rows know each other (CONTRASTIVE, COSENT, and those of several columns) with several batches run the
 * forward passes twice, first for the embeddings, then with each batch's part of the loss' gradient ("GradCache"); so
 * an example's columns need not be in one batch, and memory does not bound the step. Other losses have their gradients
 * added up. `targets` may be NULL where the loss has none.
 * Dropout depends on the seed, the step's number and the batch's number in the step.
 * A loss that is not finite in f32 is WHERRY_STATUS_VERIFY_FAILED with the step in its message, as is a gradient: no
 * weight has changed then. */
WHERRY_API wherry_status wherry_trainer_step(wherry_trainer *trainer, const wherry_batch *batches, size_t n_batches,
                                             const wherry_targets *targets, wherry_step_result *out);
/* Part of a step that one process computes. */
typedef struct wherry_shard {
    uint32_t struct_size;
    const wherry_batch *batches; /* one after the other; rows of a loss of several columns: as in a step, of the shard's
                                    examples alone */
    size_t n_batches;            /* 0: an empty one */
} wherry_shard;

/* The same of a step that is divided into wherry_trainer_desc.shards shards, or one, as the caller likes. Targets are
 * those of the first shard, then those of the second, ... Gradients are added up in f32 along a binary tree over the
 * shards (pairs, pairs of pairs,
 * ...), and dropout depends on the shard and on the batch's number in it. Process p of n computes the shards from
 * n_shards * p / n to, without, n_shards * (p + 1) / n; so the same shards give the same bits with any number of
 * processes on devices of one kind, and all processes have the same weights afterwards. A single shard is a
 * wherry_trainer_step. Every process gives all shards, and all of them get the result. */
WHERRY_API wherry_status wherry_trainer_step_shards(wherry_trainer *trainer, const wherry_shard *shards,
                                                    size_t n_shards, const wherry_targets *targets,
                                                    wherry_step_result *out);
/* Of the exchange of gradients in all steps so far. */
typedef struct wherry_exchange_times {
    uint32_t struct_size; /* set by the caller */
    uint64_t steps;
    uint64_t bytes_sent;    /* by this process */
    double seconds;         /* from the first bucket of gradients on its way to the last one at its end */
    double exposed_seconds; /* of these, after the backward pass. That this takes longer beside it is not in them */
    double device_seconds;  /* that this process waited for messages from its device, hidden or not */
    double others_seconds;  /* that it waited for other processes likewise */
    uint32_t sharing;       /* other processes whose memory this one's device reads (wherry_exchange.share) */
} wherry_exchange_times;
WHERRY_API wherry_status wherry_trainer_exchange_times(const wherry_trainer *trainer, wherry_exchange_times *out);
/* Whether the weights of all processes have the same bits: WHERRY_STATUS_VERIFY_FAILED with the process whose differ
 * where they have not. */
WHERRY_API wherry_status wherry_trainer_weights_compare(wherry_trainer *trainer);
/* The loss of these, without dropout; nothing changes. `rows` (NULL: not wanted) gets the output's rows, `row_floats`
 * being its capacity in floats; of MASKED and MASKED_NEXT one row for each batch (WHERRY_OUTPUT_ENTROPY,
 * WHERRY_OUTPUT_ENTROPY_NEXT). */
WHERRY_API wherry_status wherry_trainer_evaluate(wherry_trainer *trainer, const wherry_batch *batches, size_t n_batches,
                                                 const wherry_targets *targets, double *loss, float *rows,
                                                 size_t row_floats);
/* wherry_encode with the weights as they are now: the output's rows of one batch, without dropout. The session for it
 * is made at the first call, with weights in memory of their own. */
WHERRY_API wherry_status wherry_trainer_encode(wherry_trainer *trainer, const wherry_batch *batch, float *out,
                                               size_t out_floats);
/* Steps that were made, those that were skipped included: the next one's number. */
WHERRY_API uint64_t wherry_trainer_steps(const wherry_trainer *trainer);

/* Whether this device computes the gradients right: every group of forward and backward pass against the reference, at
 * this batch's shapes and with the model's weights as it was opened with, and the same bits again. `batch` NULL: a
 * small one of the library's. WHERRY_STATUS_VERIFY_FAILED with what differs where it does not. */
WHERRY_API wherry_status wherry_trainer_check(wherry_trainer *trainer, const wherry_batch *batch);

/* ---- weights ---- */

/* A weight as the model's files have it. */
typedef struct wherry_weight {
    uint32_t struct_size; /* set by the caller */
    int32_t layer;        /* -1 outside the layers */
    char name[160];       /* "bert.encoder.layer.0.attention.self.query.weight" */
    uint64_t shape[2];    /* row-major; of a vector the second is 0 */
    uint64_t elements;
    /* The index of the gradient that it is in, or is a part of (wherry_gradient_describe); those of adapters follow the
     * session's, and have none there. */
    size_t gradient;
    bool frozen, decays;
    float rate; /* factor of the learning rate */
} wherry_weight;

/* Those that the session has gradients of, by index from 0; and behind them A and B of adapters, by their names in
 * PEFT's files. A weight that has an adapter is frozen, and is the model's. */
WHERRY_API size_t wherry_trainer_weight_count(const wherry_trainer *trainer);
WHERRY_API wherry_status wherry_trainer_weight_describe(const wherry_trainer *trainer, size_t index,
                                                        wherry_weight *out);
/* As they are now, in f32; `floats` is the capacity, or the number, which must be the weight's. */
WHERRY_API wherry_status wherry_trainer_weight_read(wherry_trainer *trainer, size_t index, float *out, size_t floats);
WHERRY_API wherry_status wherry_trainer_weight_write(wherry_trainer *trainer, size_t index, const float *values,
                                                     size_t floats);

/* ---- folders ---- */

/* Writes a model folder that wherry_model_open, transformers and sentence-transformers open: the weights in f32 under
 * the names of the model's files, and beside them the small files of the folder that the model was opened from. It is
 * written under another name beside it, synced and renamed, so that it is there whole or not at all. `folder` must not
 * exist, or be empty. */
WHERRY_API wherry_status wherry_trainer_save(wherry_trainer *trainer, const char *folder);
/* Writes an adapter's folder, which PEFT and wherry_model_adapt open: adapter_config.json, adapter_model.safetensors.
 * Of a trainer with adapters; wherry_trainer_save writes the model with them merged. */
WHERRY_API wherry_status wherry_trainer_save_adapter(wherry_trainer *trainer, const char *folder);
/* The model, or the adapter, and what wherry_trainer_load_state needs to go on: moments, loss scale, numbers of steps,
 * and `bytes` of the caller's (the place in the data), which are kept as they are. */
WHERRY_API wherry_status wherry_trainer_save_state(wherry_trainer *trainer, const char *folder, const void *data,
                                                   size_t bytes);
/* Takes weights and state from such a folder, written by a trainer of the same model, loss, optimizer and seed: another
 * is WHERRY_STATUS_INVALID_ARGUMENT, whose message has what differs. Steps from here on have the same bits as if the
 * trainer had not been interrupted. *bytes is the capacity of `data`, and set to the number there is; where `data` is
 * NULL nothing else is done: to learn it. */
WHERRY_API wherry_status wherry_trainer_load_state(wherry_trainer *trainer, const char *folder, void *data,
                                                   size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
