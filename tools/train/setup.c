/* What the options of `wherry train` come to. */
#include "train/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"
#include "train/mask.h"

/* Examples of a step that is filled by tokens: a contrastive loss compares each with each. */
enum { EXAMPLES_MOST = 4096, EXAMPLES_USUAL = 32 };

/* ---- options ---- */

static int check_loss(const struct options *options)
{
    static const struct {
        unsigned tasks;
        const char *name;
    } losses[] = {
        [LOSS_COSENT] = {1 << TASK_SCORED, "cosent"},
        [LOSS_COSINE] = {1 << TASK_SCORED, "cosine"},
        [LOSS_CLASSES] = {1 << TASK_CLASSIFY | 1 << TASK_TOKENS, "classes"},
        [LOSS_BINARY] = {1 << TASK_CLASSIFY | 1 << TASK_REGRESS, "binary"},
        [LOSS_SQUARES] = {1 << TASK_REGRESS, "squares"},
    };
    if (!options->loss || losses[options->loss].tasks & 1u << options->task) return EXIT_FINE;
    return complain(EXIT_USAGE, "--loss %s is not for --task %s; see wherry help train", losses[options->loss].name,
                    choice_name(TASK_CHOICES, options->task));
}

int setup_check(const struct options *options)
{
    bool vectors = options->task == TASK_CONTRASTIVE || options->task == TASK_SCORED;
    if (!options->task)
        return complain(EXIT_USAGE, "what to learn is missing: --task, one of contrastive, scored, classify, regress, "
                                    "tokens and mlm");
    if (!options->files_count) return complain(EXIT_USAGE, "examples are missing: --data FILE");
    if (!options->out) return complain(EXIT_USAGE, "a place for the trained model is missing: --out FOLDER");
    if (options->steps && options->epochs) return complain(EXIT_USAGE, "give --steps or --epochs, not both");
    if (options->symmetric && options->task != TASK_CONTRASTIVE)
        return complain(EXIT_USAGE, "--symmetric is for --task contrastive");
    if ((options->masked > 0 || options->whole_words) && options->task != TASK_MLM)
        return complain(EXIT_USAGE, "--masked and --whole-words are for --task mlm");
    if (options->next_sentence && options->task != TASK_MLM)
        return complain(EXIT_USAGE, "--next-sentence is for --task mlm");
    if (options->lengths.count && !vectors)
        return complain(EXIT_USAGE, "--dims is for --task contrastive and scored: other tasks make no embeddings");
    if (options->lengths.count > COLUMNS_MAX)
        return complain(EXIT_USAGE, "--dims takes at most %d lengths", COLUMNS_MAX);
    if (options->scale > 0 && (!vectors || options->loss == LOSS_COSINE))
        return complain(EXIT_USAGE, "--scale is for --task contrastive and for --loss cosent");
    if (options->eval_every && !options->dev) return complain(EXIT_USAGE, "--eval-every needs --dev FILE");
    int code = lora_check(options);
    return code ? code : check_loss(options);
}

/* ---- data ---- */

static const char *label_name(uint32_t label, const void *user) { return wherry_model_label(user, label); }

static int check_model(const struct tool *tool)
{
    const wherry_model_info *info = &tool->model_info;
    int task = tool->options->task;
    if (!info->has_tokenizer)
        return complain(EXIT_INPUT, "%s has no tokenizer: put the model's tokenizer.json, or its older files, there",
                        tool->options->model);
    if ((task == TASK_CLASSIFY || task == TASK_REGRESS) && info->config.head != WHERRY_HEAD_SEQUENCE)
        return complain(EXIT_INPUT,
                        "%s has no classifier of texts, which --task %s trains: take a model for sequence "
                        "classification",
                        tool->options->model, choice_name(TASK_CHOICES, task));
    if ((task == TASK_CLASSIFY || task == TASK_REGRESS) && strstr(info->architecture, "ForCausalLM"))
        return complain(
            EXIT_INPUT,
            "%s scores by two words of its vocabulary (%s), which --task %s does not train: take its form for "
            "sequence classification",
            tool->options->model, info->architecture, choice_name(TASK_CHOICES, task));
    if (task == TASK_TOKENS && info->config.head != WHERRY_HEAD_TOKENS)
        return complain(EXIT_INPUT,
                        "%s has no classifier of tokens, which --task tokens trains: take a model for token "
                        "classification",
                        tool->options->model);
    if (task == TASK_MLM && (info->config.head != WHERRY_HEAD_VOCABULARY || info->mask_token < 0))
        return complain(EXIT_INPUT, "%s has no masked-token head, which --task mlm trains: take a model with one",
                        tool->options->model);
    if (tool->options->next_sentence && !info->config.next_sentence)
        return complain(EXIT_INPUT,
                        "%s has no weights that tell next sentences, which --next-sentence trains: take a "
                        "BertForPreTraining, with a pooler and cls.seq_relationship",
                        tool->options->model);
    return EXIT_FINE;
}

static int find_limits(struct train_setup *s, const struct tool *tool)
{
    const struct options *options = tool->options;
    const wherry_device_info *device = &tool->device_info;
    uint32_t limit = tool->model_info.max_tokens, length = options->max_tokens ? options->max_tokens : limit;
    if (length > limit) return complain(EXIT_USAGE, "--max-tokens %u: this model takes at most %u", length, limit);
    if (options->run_tokens && options->run_tokens < length)
        return complain(EXIT_USAGE, "--run-tokens %u is less than the longest text, %u tokens; give --max-tokens too",
                        options->run_tokens, length);
    s->run_tokens = options->run_tokens                    ? options->run_tokens
                    : strcmp(device->id, "reference") == 0 ? 1024
                    : device->type == WHERRY_DEVICE_CPU    ? 4096
                                                           : 16384;
    if (s->run_tokens < length) s->run_tokens = length;
    s->batches.max_length = length;
    s->batches.tokens = options->batch_tokens;
    s->batches.examples = options->batch ? options->batch : options->batch_tokens ? EXAMPLES_MOST : EXAMPLES_USUAL;
    return EXIT_FINE;
}

static bool ends_in_jsonl(const char *name)
{
    size_t length = strlen(name);
    return (length > 6 && !strcmp(name + length - 6, ".jsonl")) || (length > 5 && !strcmp(name + length - 5, ".json"));
}

int setup_data(struct train_setup *s, const struct tool *tool)
{
    const struct options *options = tool->options;
    int code = check_model(tool);
    if (code) return code;
    s->form = (struct example_form){.task = (enum train_task)options->task,
                                    .jsonl = options->input ? options->input == INPUT_JSONL + 1
                                                            : ends_in_jsonl(options->files[0]),
                                    .several = options->loss == LOSS_BINARY && options->task == TASK_CLASSIFY,
                                    .next = options->next_sentence,
                                    .labels = tool->model_info.config.labels,
                                    .label_name = label_name,
                                    .user = tool->model};
    if (options->columns && !s->form.jsonl)
        return complain(EXIT_USAGE, "--columns names fields of JSONL, and the data is plain lines: give --input jsonl");
    if (options->columns && !example_columns(&s->form, options->columns)) return EXIT_USAGE;
    s->batches = (struct batches_desc){.context = tool->context,
                                       .model = tool->model,
                                       .info = &tool->model_info,
                                       .seed = options->seed ? options->seed : 1,
                                       .truncate = options->truncate,
                                       .masked = options->masked > 0 ? options->masked : 0.15,
                                       .whole_words = options->whole_words};
    return find_limits(s, tool);
}

/* ---- steps ---- */

static int read_first(struct train_setup *s, struct lines *lines)
{
    struct example example = {.object = NULL};
    char *line;
    size_t bytes;
    int code = lines_read(lines, 0, &line, &bytes);
    if (!code && !example_read(&example, &s->form, line, bytes)) code = lines_complain(lines, 0, example.problem);
    if (!code && !s->form.columns) s->form.columns = example.columns;
    example_clear(&example);
    return code;
}

/* Where an epoch's order decides how batches are filled each is counted, else all are like the first. */
static int count_steps(struct train_setup *s, const struct options *options, struct lines *lines)
{
    struct batches batches;
    uint64_t count = 0, epochs = options->epochs ? options->epochs : 1;
    bool each = s->batches.tokens || s->form.task == TASK_CONTRASTIVE;
    int code = EXIT_FINE;
    s->steps = options->steps;
    if (s->steps) return EXIT_FINE;
    batches_open(&batches, &s->batches, lines, &s->form);
    for (uint64_t epoch = 0; epoch < epochs && !code; epoch++) {
        if (!epoch || each) code = batches_count(&batches, epoch, &count);
        s->steps += count;
        if (system_stopped()) code = complain(EXIT_STOPPED, "interrupted");
    }
    batches_close(&batches);
    return code;
}

/* ---- descriptors ---- */

static wherry_loss loss_kind(const struct options *options)
{
    switch (options->task) {
    case TASK_CONTRASTIVE:
        return WHERRY_LOSS_CONTRASTIVE;
    case TASK_SCORED:
        return options->loss == LOSS_COSINE ? WHERRY_LOSS_COSINE : WHERRY_LOSS_COSENT;
    case TASK_CLASSIFY:
        return options->loss == LOSS_BINARY ? WHERRY_LOSS_BINARY : WHERRY_LOSS_CLASSES;
    case TASK_REGRESS:
        return options->loss == LOSS_BINARY ? WHERRY_LOSS_BINARY : WHERRY_LOSS_REGRESSION;
    case TASK_TOKENS:
        return WHERRY_LOSS_CLASSES;
    default:
        return options->next_sentence ? WHERRY_LOSS_MASKED_NEXT : WHERRY_LOSS_MASKED;
    }
}

static wherry_output output_kind(int task)
{
    return task == TASK_CLASSIFY || task == TASK_REGRESS ? WHERRY_OUTPUT_CLASSES
           : task == TASK_TOKENS                         ? WHERRY_OUTPUT_TOKEN_CLASSES
           : task == TASK_MLM                            ? WHERRY_OUTPUT_ENTROPY
                                                         : WHERRY_OUTPUT_EMBEDDING;
}

/* A class' or a number's two texts are one sequence. */
static void describe_loss(struct train_setup *s, const struct options *options)
{
    s->loss = (wherry_loss_desc){.struct_size = sizeof s->loss,
                                 .loss = loss_kind(options),
                                 .scale = (float)options->scale,
                                 .symmetric = options->symmetric,
                                 .columns = options->task == TASK_CONTRASTIVE ? s->form.columns : 0,
                                 .dimensions = options->lengths.count ? options->lengths.values : NULL,
                                 .n_dimensions = options->lengths.count};
}

static void describe_optimizer(struct train_setup *s, const struct options *options)
{
    static const wherry_optimizer kinds[] = {WHERRY_OPTIMIZER_ADAMW, WHERRY_OPTIMIZER_ADAMW, WHERRY_OPTIMIZER_LAMB,
                                             WHERRY_OPTIMIZER_SGD};
    static const wherry_schedule schedules[] = {WHERRY_SCHEDULE_LINEAR, WHERRY_SCHEDULE_LINEAR, WHERRY_SCHEDULE_COSINE,
                                                WHERRY_SCHEDULE_CONSTANT};
    double warmup = options->warmup < 0 ? 0.1 : options->warmup;
    s->warmup = (uint64_t)(warmup < 1 ? ceil(warmup * (double)s->steps) : warmup);
    s->optimizer =
        (wherry_optimizer_desc){.struct_size = sizeof s->optimizer,
                                .kind = kinds[options->optimizer],
                                .learning_rate = (float)(options->learning_rate > 0 ? options->learning_rate : 2e-5),
                                .weight_decay = (float)(options->weight_decay < 0 ? 0.01 : options->weight_decay),
                                .momentum = kinds[options->optimizer] != WHERRY_OPTIMIZER_SGD ? 0
                                            : options->momentum < 0                           ? 0.9f
                                                                    : (float)options->momentum,
                                .max_norm = (float)(options->max_norm < 0 ? 1 : options->max_norm),
                                .layer_decay = (float)options->layer_decay,
                                .schedule = schedules[options->schedule],
                                .warmup_steps = s->warmup,
                                .total_steps = s->steps};
    names_split(options->freeze, &s->frozen);
    s->optimizer.frozen = s->frozen.names;
    s->optimizer.n_frozen = s->frozen.count;
}

static void describe_session(struct train_setup *s, const struct options *options)
{
    bool vectors = options->task == TASK_CONTRASTIVE || options->task == TASK_SCORED;
    bool per_token = options->task == TASK_TOKENS || options->task == TASK_MLM;
    uint64_t sequences = (uint64_t)s->batches.examples * (vectors ? s->form.columns : 1);
    uint64_t tokens = s->batches.tokens ? s->batches.tokens : sequences * s->batches.max_length;
    uint64_t longest = (uint64_t)s->batches.max_length * (vectors ? s->form.columns : 1);
    uint64_t shard = s->shards > 1 ? tokens / s->shards + longest : tokens; /* as parts_of_shards has them, at most */
    uint64_t rows = s->shards > 1 ? 2 * sequences / s->shards + s->form.columns : sequences;
    if (shard > tokens) shard = tokens;
    if (rows > sequences) rows = sequences;
    s->run_sequences = rows < s->run_tokens ? (uint32_t)rows : s->run_tokens;
    if (shard < s->run_tokens) s->run_tokens = (uint32_t)shard;
    if (options->task == TASK_MLM) s->batches.labels = mask_most(s->batches.masked, s->run_tokens, s->run_sequences);
    s->training = (wherry_training_desc){.struct_size = sizeof s->training,
                                         .dropout = (float)(options->dropout < 0 ? 0.1 : options->dropout),
                                         .save = (wherry_save)options->save};
    s->session =
        (wherry_session_desc){.struct_size = sizeof s->session,
                              .max_tokens = s->run_tokens,
                              .max_sequences = s->run_sequences,
                              .max_length = s->batches.max_length,
                              .max_labels = s->batches.labels,
                              .dtype = (wherry_dtype)options->dtype,
                              .plan = plan_name(options->plan),
                              .normalize = vectors ? -1 : 0,
                              .memory_budget = options->memory_budget,
                              .training = &s->training,
                              .kernels = options->kernels ? choice_name(KERNEL_CHOICES, options->kernels) : NULL,
                              .tuning = options->tuning,
                              .layouts = options->orders,
                              .output = output_kind(options->task)};
    s->trainer = (wherry_trainer_desc){.struct_size = sizeof s->trainer,
                                       .loss = &s->loss,
                                       .optimizer = &s->optimizer,
                                       .seed = s->batches.seed,
                                       .max_rows = (uint32_t)(per_token ? tokens : sequences),
                                       .shards = s->shards,
                                       .wire = options->wire ? (wherry_wire)(options->wire - 1) : WHERRY_WIRE_F32};
}

int setup_shards(struct train_setup *s, const struct options *options, uint32_t processes)
{
    enum { SHARDS_USUAL = 8 };
    s->shards = options->shards ? options->shards : processes ? SHARDS_USUAL : 1;
    if (!options->shards)
        while (s->shards < processes) s->shards *= 2;
    return s->shards >= processes
               ? EXIT_FINE
               : complain(EXIT_USAGE, "--shards %u: mpirun started %u processes, and each needs one at least",
                          (unsigned)s->shards, (unsigned)processes);
}

int setup_trainer(struct train_setup *s, const struct tool *tool, struct lines *lines)
{
    int code = read_first(s, lines);
    if (!code) code = count_steps(s, tool->options, lines);
    if (code) return code;
    describe_loss(s, tool->options);
    describe_optimizer(s, tool->options);
    describe_session(s, tool->options);
    lora_describe(&s->lora, tool->options);
    s->trainer.lora = s->lora.used ? &s->lora.desc : NULL;
    return EXIT_FINE;
}

struct part_limits setup_part_limits(const struct train_setup *s)
{
    return (struct part_limits){s->run_tokens, s->run_sequences, s->batches.labels};
}

void setup_close(struct train_setup *s)
{
    names_free(&s->frozen);
    lora_close(&s->lora);
}

/* What steps depend on beside the data. */
static json_t *how_json(const struct train_setup *s)
{
    const wherry_optimizer_desc *o = &s->optimizer;
    json_t *frozen = need(json_array()), *dimensions = need(json_array());
    for (size_t n = 0; n < o->n_frozen; n++) json_array_append_new(frozen, need(json_string(o->frozen[n])));
    for (uint32_t n = 0; n < s->loss.n_dimensions; n++)
        json_array_append_new(dimensions, need(json_integer(s->loss.dimensions[n])));
    return need(json_pack("{s:i, s:f, s:b, s:o, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:I, s:o, s:f}", "loss",
                          (int)s->loss.loss, "scale", s->loss.scale, "symmetric", s->loss.symmetric, "dims", dimensions,
                          "optimizer", (int)o->kind, "lr", o->learning_rate, "weight_decay", o->weight_decay,
                          "momentum", o->momentum, "max_norm", o->max_norm, "layer_decay", o->layer_decay, "schedule",
                          (int)o->schedule, "warmup", (json_int_t)o->warmup_steps, "freeze", frozen, "dropout",
                          s->training.dropout));
}

json_t *setup_json(const struct train_setup *s, const struct options *options, const struct lines *lines)
{
    char hash[20];
    json_t *columns = need(json_array());
    for (uint32_t n = 0; s->form.jsonl && n < s->form.columns; n++)
        json_array_append_new(columns, need(json_string(s->form.names[n])));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)lines_hash(lines));
    json_t *how = how_json(s), *lora = lora_json(&s->lora);
    json_t *whole =
        json_pack("{s:s, s:I, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:b, s:I, s:I, s:I}", "task",
                  choice_name(TASK_CHOICES, options->task), "lines", (json_int_t)lines->count, "data", hash, "columns",
                  columns, "batch", (json_int_t)s->batches.examples, "batch_tokens", (json_int_t)s->batches.tokens,
                  "run_tokens", (json_int_t)s->run_tokens, "run_sequences", (json_int_t)s->run_sequences, "max_tokens",
                  (json_int_t)s->batches.max_length, "truncate", s->batches.truncate, "masked", s->batches.masked,
                  "whole_words", s->batches.whole_words, "steps", (json_int_t)s->steps, "shards", (json_int_t)s->shards,
                  "wire", (json_int_t)s->trainer.wire);
    if (need(whole)) json_object_update(whole, how);
    if (s->form.next) json_object_set_new(whole, "next_sentence", json_true());
    if (lora) json_object_set_new(whole, "lora", lora);
    json_decref(how);
    return whole;
}
