/* A training step of random data: its model, batch, targets and descriptors. */
#include "train_work.h"

#include <stdlib.h>

#include "train/example.h"
#include "train/mask.h"

const char *const train_part_names[WHERRY_TRAIN_PARTS] = {"forward", "backward", "loss", "optimizer"};

enum { BATCH = 32, SEQ = 512, CLASSES_USUAL = 2, TOKEN_CLASSES_USUAL = 9 };
static const double masked_usual = 0.15;

static int task_of(const struct options *options) { return options->task ? options->task : TASK_MLM; }

/* Of a choice there is one name at a time. */
const char *train_task_name(const struct options *options)
{
    static const char *const names[] = {
        [TASK_CONTRASTIVE] = "contrastive", [TASK_SCORED] = "scored", [TASK_CLASSIFY] = "classify",
        [TASK_REGRESS] = "regress",         [TASK_TOKENS] = "tokens", [TASK_MLM] = "mlm"};
    return names[task_of(options)];
}

const char *train_optimizer_name(const struct options *options)
{
    static const char *const names[] = {"adamw", "adamw", "lamb", "sgd"};
    return names[options->optimizer];
}

/* ---- the model ---- */

static void head_set(wherry_model_config *config, int task)
{
    if (task == TASK_CLASSIFY || task == TASK_REGRESS) {
        config->head = WHERRY_HEAD_SEQUENCE;
        config->head_activation = WHERRY_HEAD_TANH;
        config->labels = task == TASK_CLASSIFY ? CLASSES_USUAL : 1;
    } else if (task == TASK_TOKENS) {
        config->head = WHERRY_HEAD_TOKENS;
        config->labels = TOKEN_CLASSES_USUAL;
    } else if (task == TASK_MLM) {
        config->head = WHERRY_HEAD_VOCABULARY;
        config->head_activation = WHERRY_HEAD_GELU;
    }
    if (config->head == WHERRY_HEAD_TOKENS || config->head == WHERRY_HEAD_VOCABULARY) config->pooler = false;
}

static int open_model(struct tool *tool)
{
    const struct options *options = tool->options;
    wherry_model_config config = {.struct_size = sizeof config};
    if (options->model && options->config) return complain(EXIT_USAGE, "give --model or --config, not both");
    if (options->model && options->layers)
        return complain(EXIT_USAGE, "--layers changes a --config; a --model has its own");
    if (options->model || !options->config) return tool_open_model(tool);
    if (wherry_model_config_named(tool->context, options->config, &config)) {
        tool_error(tool, WHERRY_STATUS_INVALID_ARGUMENT, NULL);
        return EXIT_USAGE;
    }
    if (options->layers) config.layers = options->layers;
    if (options->hidden) config.hidden = options->hidden;
    if (options->heads) config.heads = options->heads;
    if (options->feed_forward) config.feed_forward = options->feed_forward;
    head_set(&config, task_of(options));
    return tool_open_random(tool, &config);
}

/* ---- the batch and its targets ---- */

static int make_batch(const struct tool *tool, struct train_work *w)
{
    const struct options *options = tool->options;
    const int task = task_of(options);
    uint32_t count = options->batch ? options->batch : BATCH, length = options->seq ? options->seq : SEQ;
    if (!options->seq && length > tool->model_info.max_tokens) length = tool->model_info.max_tokens;
    if (count % 2 && (task == TASK_CONTRASTIVE || task == TASK_SCORED))
        return complain(EXIT_USAGE, "--batch %u: an example of --task %s has two texts, so the number is even", count,
                        train_task_name(options));
    uint32_t *lengths = need(malloc(count * sizeof *lengths));
    for (uint32_t s = 0; s < count; s++) lengths[s] = length;
    int code = random_batch_create(tool, lengths, count, &w->batch);
    free(lengths);
    return code;
}

static double masked_share(const struct options *options)
{
    return options->masked > 0 ? options->masked : masked_usual;
}

/* From 0 to below 1, the same on every machine. */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static void make_targets(const struct tool *tool, struct train_work *w)
{
    const struct options *options = tool->options;
    const int task = task_of(options);
    const uint32_t labels = tool->model_info.config.labels;
    uint64_t state = options->seed ? options->seed : 1;
    size_t n = task == TASK_SCORED ? w->batch.batch.sequences / 2 : w->batch.batch.sequences;
    const double share = masked_share(options);
    w->targets.struct_size = sizeof w->targets;
    if (task == TASK_CONTRASTIVE) return;
    if (task == TASK_MLM || task == TASK_TOKENS) n = w->batch.tokens;
    w->targets.count = n;
    if (task == TASK_SCORED || task == TASK_REGRESS) {
        w->targets.values = w->values = need(malloc(n * sizeof *w->values));
        for (size_t i = 0; i < n; i++) w->values[i] = (float)draw(&state);
        return;
    }
    w->targets.labels = w->labels = need(malloc(n * sizeof *w->labels));
    for (size_t i = 0; i < n; i++) {
        /* Exactly that share of the tokens, spread evenly: a kernel's time does not hang on the seed. */
        bool masked = (uint64_t)((double)(i + 1) * share) > (uint64_t)((double)i * share);
        w->labels[i] = task != TASK_MLM ? (int32_t)(draw(&state) * labels) : masked ? w->batch.ids[i] : -100;
        w->masked += task == TASK_MLM && masked;
    }
}

/* ---- descriptors ---- */

static void describe(const struct tool *tool, struct train_work *w)
{
    static const wherry_loss losses[] = {
        [TASK_CONTRASTIVE] = WHERRY_LOSS_CONTRASTIVE, [TASK_SCORED] = WHERRY_LOSS_COSENT,
        [TASK_CLASSIFY] = WHERRY_LOSS_CLASSES,        [TASK_REGRESS] = WHERRY_LOSS_REGRESSION,
        [TASK_TOKENS] = WHERRY_LOSS_CLASSES,          [TASK_MLM] = WHERRY_LOSS_MASKED};
    static const wherry_output outputs[] = {[TASK_CLASSIFY] = WHERRY_OUTPUT_CLASSES,
                                            [TASK_REGRESS] = WHERRY_OUTPUT_CLASSES,
                                            [TASK_TOKENS] = WHERRY_OUTPUT_TOKEN_CLASSES,
                                            [TASK_MLM] = WHERRY_OUTPUT_VOCABULARY};
    static const wherry_optimizer kinds[] = {WHERRY_OPTIMIZER_ADAMW, WHERRY_OPTIMIZER_ADAMW, WHERRY_OPTIMIZER_LAMB,
                                             WHERRY_OPTIMIZER_SGD};
    const struct options *options = tool->options;
    const int task = task_of(options);
    w->loss = (wherry_loss_desc){.struct_size = sizeof w->loss, .loss = losses[task]};
    /* A rate that leaves random weights about what they are, so that steps are alike. */
    w->optimizer = (wherry_optimizer_desc){.struct_size = sizeof w->optimizer,
                                           .kind = kinds[options->optimizer],
                                           .learning_rate = 1e-6f,
                                           .weight_decay = 0.01f,
                                           .momentum = kinds[options->optimizer] == WHERRY_OPTIMIZER_SGD ? 0.9f : 0,
                                           .max_norm = 1,
                                           .schedule = WHERRY_SCHEDULE_CONSTANT};
    w->training = (wherry_training_desc){.struct_size = sizeof w->training,
                                         .dropout = options->dropout < 0 ? 0.1f : (float)options->dropout,
                                         .save = (wherry_save)options->save};
    /* As of `wherry train`, whose batches have not always the same number. */
    const uint32_t sequences = w->batch.batch.sequences,
                   labels = task == TASK_MLM ? mask_most(masked_share(options), w->batch.tokens, sequences) : 0;
    w->session = (wherry_session_desc){.struct_size = sizeof w->session,
                                       .max_tokens = w->batch.tokens,
                                       .max_sequences = sequences,
                                       .max_length = w->batch.longest,
                                       .max_labels = labels,
                                       .dtype = (wherry_dtype)options->dtype,
                                       .normalize = task == TASK_CONTRASTIVE || task == TASK_SCORED ? -1 : 0,
                                       .memory_budget = options->memory_budget,
                                       .training = &w->training,
                                       .kernels = tool_kernels(tool),
                                       .tuning = options->tuning,
                                       .layouts = options->orders,
                                       .output = outputs[task]};
    w->lora = (wherry_lora_desc){.struct_size = sizeof w->lora, .rank = options->lora};
    w->trainer = (wherry_trainer_desc){.struct_size = sizeof w->trainer,
                                       .loss = &w->loss,
                                       .optimizer = &w->optimizer,
                                       .seed = options->seed ? options->seed : 1,
                                       .lora = options->lora ? &w->lora : NULL};
}

int train_work_open(struct tool *tool, struct train_work *work)
{
    int code = open_model(tool);
    if (!code) code = make_batch(tool, work);
    if (code) return code;
    make_targets(tool, work);
    describe(tool, work);
    return EXIT_FINE;
}

void train_work_close(struct train_work *work)
{
    random_batch_destroy(&work->batch);
    free(work->labels);
    free(work->values);
    *work = (struct train_work){.labels = NULL};
}

/* ---- telling ---- */

json_t *train_work_json(const struct tool *tool, const struct train_work *work)
{
    const wherry_model_config *config = &tool->model_info.config;
    json_t *json = need(json_pack("{s:s, s:s, s:I, s:I, s:b, s:s, s:f, s:s}", "task", train_task_name(tool->options),
                                  "optimizer", train_optimizer_name(tool->options), "masked_tokens",
                                  (json_int_t)work->masked, "layers", (json_int_t)config->layers, "pre_layernorm",
                                  config->pre_layernorm, "activation", activation_name(config->activation), "dropout",
                                  (double)work->training.dropout, "save", save_name(work->training.save)));
    if (work->trainer.lora) json_object_set_new(json, "lora", json_integer(work->lora.rank));
    if (work->session.memory_budget)
        json_object_set_new(json, "memory_budget", json_integer((json_int_t)work->session.memory_budget));
    return json;
}

void train_memory_rows(const wherry_train_memory *m, uint64_t bytes[MEMORY_ROWS])
{
    const uint64_t list[MEMORY_ROWS] = {m->weights, m->masters,   m->moments, m->gradients, m->accumulated,
                                        m->saved,   m->workspace, m->loss,    m->tables,    m->total};
    for (int n = 0; n < MEMORY_ROWS; n++) bytes[n] = list[n];
}

json_t *train_memory_json(const wherry_train_memory *memory)
{
    uint64_t bytes[MEMORY_ROWS];
    json_t *value = need(json_object());
    train_memory_rows(memory, bytes);
    for (int n = 0; n < MEMORY_ROWS; n++)
        json_object_set_new(value, memory_rows[n].name, json_integer((json_int_t)bytes[n]));
    return value;
}
