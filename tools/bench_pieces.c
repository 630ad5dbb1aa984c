/* `wherry bench gemm`, `bench attention`, `bench norm`: single groups of the plans at any size, each alone and again
 * and again over the same buffers, which is how other libraries time their kernels. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bench_run.h"
#include "commands.h"
#include "report/fields.h"
#include "system.h"

enum { MOST_DIMENSIONS = 4, MOST_GROUPS = 8, ROWS_OF_A_SEQUENCE = 64 };

/* What a session of some groups has around them. */
enum mode { INFERENCE, TRAINING, TRAINING_WITHOUT_DROPOUT };

/* Forms of one piece with the same plan and mode, one after the other, share a session. */
struct form {
    const char *name;
    const char *plan;
    enum mode mode;
    const char *groups; /* whose times count, with commas between them */
    const char *before; /* groups that make what they read, NULL: random values will do */
    uint32_t operators; /* of the group that has most: fewer where the device can't run it whole */
};

struct piece {
    const char *shape;  /* of an operand */
    const char *listed; /* the forms, for a message */
    int dimensions;
    const struct form *forms;
    size_t count;
    /* The layer that has groups of this size, and its rows. */
    void (*layer)(const uint32_t size[MOST_DIMENSIONS], wherry_model_config *config, uint32_t *rows, uint32_t *length);
    bool memory; /* also says what a session of this layer takes */
};

/* As usual, so that no other group of the plan has sizes that a device refuses. */
static uint32_t usual_heads(uint32_t hidden) { return hidden % 64 == 0 ? hidden / 64 : 1; }

static void gemm_layer(const uint32_t size[MOST_DIMENSIONS], wherry_model_config *config, uint32_t *rows,
                       uint32_t *length)
{
    *rows = size[0];
    *length = ROWS_OF_A_SEQUENCE;
    config->feed_forward = size[1];
    config->hidden = size[2];
    config->heads = usual_heads(size[2]);
}

static void attention_layer(const uint32_t size[MOST_DIMENSIONS], wherry_model_config *config, uint32_t *rows,
                            uint32_t *length)
{
    *rows = size[0] * size[2];
    *length = size[2];
    config->heads = size[1];
    config->hidden = size[1] * size[3];
    config->feed_forward = 4 * config->hidden;
}

static void norm_layer(const uint32_t size[MOST_DIMENSIONS], wherry_model_config *config, uint32_t *rows,
                       uint32_t *length)
{
    *rows = size[0];
    *length = ROWS_OF_A_SEQUENCE;
    config->hidden = config->feed_forward = size[1];
    config->heads = usual_heads(size[1]);
}

static const struct form gemm_forms[] = {
    {"forward", "unfused", TRAINING, "lin1", NULL, 1},
    {"dx", "unfused", TRAINING, "lin1_dx", NULL, 1},
    {"dw", "unfused", TRAINING, "lin1_dw", NULL, 1},
    {"epilogue", "flash", TRAINING, "lin1", NULL, 4}, /* the product, bias, GELU, dropout */
};
static const struct form attention_forms[] = {
    {"forward", "flash", INFERENCE, "attention", NULL, 3},
    {"forward_dropout", "flash", TRAINING, "attention", NULL, 4},
    {"backward", "flash", TRAINING, "delta,attention_dx", "attention", 9},
};
static const struct form norm_forms[] = {
    {"forward", "unfused", TRAINING, "norm1", NULL, 1},
    {"backward", "flash", TRAINING_WITHOUT_DROPOUT, "lnb2", NULL, 3}, /* with the gradients of gamma, beta and a bias */
    {"bdrln", "paper", TRAINING, "bdrln2", NULL, 4},
    {"brln", "paper", TRAINING_WITHOUT_DROPOUT, "bdrln2", NULL, 3},
};

static const struct piece gemm = {
    "MxNxK", "forward, dx, dw and epilogue", 3, gemm_forms, sizeof gemm_forms / sizeof *gemm_forms, gemm_layer, false};
static const struct piece attention = {"BxHxLxD",
                                       "forward, forward_dropout and backward",
                                       4,
                                       attention_forms,
                                       sizeof attention_forms / sizeof *attention_forms,
                                       attention_layer,
                                       true};
static const struct piece norm = {"RxN",      "forward, backward, bdrln and brln",    2,
                                  norm_forms, sizeof norm_forms / sizeof *norm_forms, norm_layer,
                                  false};

/* ---- what was asked for ---- */

static bool parse_shape(const struct piece *piece, const char *text, uint32_t size[MOST_DIMENSIONS])
{
    const char *at = text;
    int n = 0;
    double rows = 1;
    for (; n < piece->dimensions; n++) {
        char *end;
        if (!isdigit((unsigned char)*at)) break;
        unsigned long value = strtoul(at, &end, 10);
        if (value < 1 || value > 1 << 20 || *end != (n + 1 < piece->dimensions ? 'x' : '\0')) break;
        size[n] = (uint32_t)value;
        at = *end ? end + 1 : end;
        rows *= n % 2 == 0 ? (double)value : 1; /* of attention B and L */
    }
    if (n == piece->dimensions && rows < INT32_MAX) return true;
    return complain(0, "\"%s\" is no size of this piece: it is %s, as whole numbers from 1 to 1048576", text,
                    piece->shape),
           false;
}

static bool in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = list; *word; word += strspn(word, ",")) {
        size_t n = strcspn(word, ",");
        if (n == length && strncmp(word, name, n) == 0) return true;
        word += n;
    }
    return false;
}

static bool form_asked(const struct options *options, const struct form *form)
{
    return !options->only || in_list(options->only, form->name);
}

/* --only has names of forms alone. */
static bool check_only(const struct options *options, const struct piece *piece)
{
    char word[32];
    for (const char *at = options->only ? options->only : ""; *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ","), f = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
        while (f < piece->count && strcmp(piece->forms[f].name, word) != 0) f++;
        if (f == piece->count)
            return complain(0, "--only %s: wherry %s measures %s", options->only, options->command->name,
                            piece->listed),
                   false;
        at += n;
    }
    return true;
}

/* ---- one session ---- */

struct work {
    struct tool *tool;
    const struct piece *piece;
    const char *shape;
    struct random_batch batch;
    wherry_group_measure groups[MOST_GROUPS];
    size_t count;
    json_t *rows;
};

static wherry_session_desc session_desc(const struct work *w, const wherry_training_desc *training)
{
    return (wherry_session_desc){.struct_size = sizeof(wherry_session_desc),
                                 .max_tokens = w->batch.tokens,
                                 .max_sequences = w->batch.batch.sequences,
                                 .max_length = w->batch.longest,
                                 .dtype = (wherry_dtype)w->tool->options->dtype,
                                 .training = training};
}

static wherry_training_desc training_desc(const struct options *options, enum mode mode)
{
    float dropout = options->dropout >= 0 ? (float)options->dropout : 0.1f;
    return (wherry_training_desc){.struct_size = sizeof(wherry_training_desc),
                                  .dropout = mode == TRAINING ? dropout : 0,
                                  .save = WHERRY_SAVE_DEFAULT,
                                  .stack = true};
}

static void list_add(char *list, size_t size, const char *names)
{
    struct text_writer t = text_behind(list, size);
    if (names && !in_list(list, names)) text_add(&t, "%s%s", t.used ? "," : "", names);
}

static int measure_groups(struct work *w, const struct form *form, const char *only)
{
    const struct options *options = w->tool->options;
    wherry_training_desc training = training_desc(options, form->mode);
    wherry_session_desc desc = session_desc(w, form->mode == INFERENCE ? NULL : &training);
    desc.only = only;
    int code = tool_open_session(w->tool, form->plan, desc);
    if (code) return code;
    const wherry_measure_desc measure = {.struct_size = sizeof measure,
                                         .repeats = options->repeats ? options->repeats : 32,
                                         .warm_seconds = options->warm > 0   ? options->warm
                                                         : options->warm < 0 ? 0.5
                                                                             : 1e-9,
                                         .alone = true};
    w->count = MOST_GROUPS;
    wherry_status status = wherry_measure(w->tool->session, &w->batch.batch, &measure, w->groups, &w->count, NULL);
    return status ? tool_error(w->tool, status, NULL) : EXIT_FINE;
}

/* ---- rows ---- */

static json_t *group_row(const wherry_group_measure *g)
{
    return need(json_pack("{s:s, s:o, s:o, s:s}", "id", g->cost.name, "seconds", time_json(&g->alone), "kernels",
                          kernels_json(g), "timer", wherry_timer_status_name(g->timer)));
}

/* What the form's groups add up to. */
static int add_row(struct work *w, const struct form *form)
{
    double seconds = 0, flops = 0, bytes = 0;
    uint32_t operators = 0;
    json_t *groups = need(json_array());
    for (size_t n = 0; n < w->count; n++) {
        const wherry_group_measure *g = &w->groups[n];
        if (!in_list(form->groups, cost_kind(&g->cost))) continue;
        seconds += g->alone.median;
        flops += g->cost.flops;
        bytes += (double)g->traffic.unique_read + (double)g->traffic.unique_written;
        if (g->cost.operators > operators) operators = g->cost.operators;
        json_array_append_new(groups, group_row(g));
    }
    if (operators < form->operators) {
        json_decref(groups);
        return complain(EXIT_DEVICE, "%s does not run %s as one kernel: %s", w->tool->device_info.id, form->groups,
                        wherry_session_note(w->tool->session, 0) ? wherry_session_note(w->tool->session, 0) : "");
    }
    json_array_append_new(
        w->rows,
        need(json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:o}", "shape", w->shape, "form", form->name, "plan",
                       form->plan, "dropout", (double)training_desc(w->tool->options, form->mode).dropout, "seconds",
                       seconds, "flops", flops, "bytes", bytes, "groups", groups, "notes", notes_json(w->tool))));
    return EXIT_FINE;
}

static bool shares(const struct work *w, const struct form *a, const struct form *b)
{
    return form_asked(w->tool->options, a) && a->mode == b->mode && !strcmp(a->plan, b->plan);
}

/* All forms that share a session with forms[first]. */
static int measure_forms(struct work *w, size_t first)
{
    const struct piece *piece = w->piece;
    const struct form *with = &piece->forms[first];
    char only[128] = "";
    int code = EXIT_FINE;
    for (size_t f = 0; f < piece->count; f++) {
        const struct form *form = &piece->forms[f];
        if (!shares(w, form, with)) continue;
        if (f < first) return EXIT_FINE; /* it was measured with that one */
        list_add(only, sizeof only, form->before);
        list_add(only, sizeof only, form->groups);
    }
    if (!*only) return EXIT_FINE;
    code = measure_groups(w, with, only);
    for (size_t f = first; !code && f < piece->count; f++)
        if (shares(w, &piece->forms[f], with)) code = add_row(w, &piece->forms[f]);
    tool_close_session(w->tool);
    return code;
}

/* What sessions of the whole layer at this size would take, without making them. */
static int add_memory(struct work *w)
{
    static const char *const names[] = {"inference", "training"};
    json_t *memory = need(json_object());
    wherry_training_desc training = training_desc(w->tool->options, TRAINING);
    int code = EXIT_FINE;
    for (int n = 0; n < 2 && !code; n++) {
        wherry_session_desc desc = session_desc(w, n ? &training : NULL);
        wherry_session_plan plan = {.struct_size = sizeof plan};
        wherry_session *session = NULL;
        wherry_status status =
            wherry_session_create(w->tool->context, w->tool->device, w->tool->model, &desc, &session);
        if (!status) status = wherry_session_query(session, &plan);
        wherry_session_destroy(session);
        if (status) code = tool_error(w->tool, status, NULL);
        json_object_set_new(memory, names[n],
                            need(json_pack("{s:I, s:I}", "activation_bytes", (json_int_t)plan.activation_bytes,
                                           "weight_bytes", (json_int_t)plan.weight_bytes)));
    }
    json_array_append_new(w->rows,
                          need(json_pack("{s:s, s:s, s:o}", "shape", w->shape, "form", "memory", "memory", memory)));
    return code;
}

/* ---- one size ---- */

/* What fails keeps nothing else from being measured, unless the user ends it. Of two exit codes the first counts. */
static bool went_on(int *code, int now)
{
    if (!*code) *code = now;
    return now != EXIT_STOPPED;
}

static int make_batch(struct work *w, uint32_t rows, uint32_t length)
{
    uint32_t count = (rows + length - 1) / length;
    uint32_t *lengths = need(malloc(count * sizeof *lengths));
    for (uint32_t s = 0; s < count; s++) lengths[s] = s + 1 < count ? length : rows - s * length;
    int code = random_batch_create(w->tool, lengths, count, &w->batch);
    free(lengths);
    return code;
}

static int measure_shape(struct work *w, const uint32_t size[MOST_DIMENSIONS])
{
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = 1,
                                  .vocabulary = 1,
                                  .token_types = 1,
                                  .activation = WHERRY_ACTIVATION_GELU};
    uint32_t rows, length;
    w->piece->layer(size, &config, &rows, &length);
    config.positions = length;
    int code = tool_open_random(w->tool, &config);
    if (!code) code = make_batch(w, rows, length);
    bool open = !code;
    for (size_t f = 0; open && f < w->piece->count; f++)
        if (form_asked(w->tool->options, &w->piece->forms[f]))
            open = went_on(&code, system_stopped() ? complain(EXIT_STOPPED, "interrupted") : measure_forms(w, f));
    if (open && w->piece->memory) went_on(&code, add_memory(w));
    random_batch_destroy(&w->batch);
    wherry_model_close(w->tool->model);
    w->tool->model = NULL;
    return code;
}

/* ---- all ---- */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void print_row(struct table *table, const json_t *row)
{
    double seconds = number_of(row, "seconds");
    const json_t *groups = json_object_get(row, "groups");
    const json_t *last = json_array_get(groups, json_array_size(groups) - 1); /* of attention's two the larger one */
    const json_t *kernel = json_array_get(json_object_get(last, "kernels"), 0);
    if (!(seconds > 0)) return;
    table_cell(table, "%s", text_of(row, "shape"));
    table_cell(table, "%s", text_of(row, "form"));
    table_cell(table, "%.1f", 1e6 * seconds);
    table_cell(table, "%.1f", 1e-12 * number_of(row, "flops") / seconds);
    table_cell(table, "%.2f", 1e-12 * number_of(row, "bytes") / seconds);
    table_cell(table, "%s", text_of(kernel, "kernel"));
    table_cell(table, "%s", text_of(kernel, "variant"));
}

static void print_memory(struct output *out, const json_t *row)
{
    const json_t *memory = json_object_get(row, "memory");
    if (!memory) return;
    output_format(out, "%s: a session of this layer has %.1f MB beside its weights, in training %.1f MB\n",
                  text_of(row, "shape"), 1e-6 * number_of(json_object_get(memory, "inference"), "activation_bytes"),
                  1e-6 * number_of(json_object_get(memory, "training"), "activation_bytes"));
}

static int write_rows(const struct work *w)
{
    const struct options *options = w->tool->options;
    struct output out;
    size_t n;
    json_t *row;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (options->json) {
        const char *dtype = dtype_name(w->tool->plan.dtype);
        output_json(&out,
                    need(json_pack("{s:s, s:s, s:s, s:o, s:o, s:O}", "schema", "wherry-pieces-1", "piece",
                                   options->command->name + strlen("bench "), "dtype", dtype, "run", run_json(options),
                                   "device", device_json(&w->tool->device_info), "rows", w->rows)));
    } else {
        struct table table = {.columns = "<shape|<form|>us|>Tflop/s|>TB/s|<kernel|~variant"};
        output_format(&out, "%s, %s: medians; alone, over the same buffers again and again\n\n",
                      w->tool->device_info.id, dtype_name(w->tool->plan.dtype));
        json_array_foreach(w->rows, n, row) print_row(&table, row);
        table_print(&table, &out);
        json_array_foreach(w->rows, n, row) print_memory(&out, row);
    }
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

static int bench_piece(const struct options *options, const struct piece *piece)
{
    uint32_t size[MOST_DIMENSIONS];
    struct tool tool;
    if (!options->files_count)
        return complain(EXIT_USAGE, "a size is missing: wherry %s %s...", options->command->name, piece->shape);
    for (uint32_t n = 0; n < options->files_count; n++)
        if (!parse_shape(piece, options->files[n], size)) return EXIT_USAGE;
    if (!check_only(options, piece)) return EXIT_USAGE;
    struct work w = {.tool = &tool, .piece = piece, .rows = need(json_array())};
    int code = tool_open_context(&tool, options);
    if (!code) code = tool_open_device(&tool);
    bool open = !code;
    for (uint32_t n = 0; open && n < options->files_count; n++) {
        parse_shape(piece, options->files[n], size);
        w.shape = options->files[n];
        open = went_on(&code, measure_shape(&w, size));
    }
    if (json_array_size(w.rows)) went_on(&code, write_rows(&w));
    json_decref(w.rows);
    tool_close(&tool);
    return code;
}

int bench_gemm_command(const struct options *options) { return bench_piece(options, &gemm); }
int bench_attention_command(const struct options *options) { return bench_piece(options, &attention); }
int bench_norm_command(const struct options *options) { return bench_piece(options, &norm); }
