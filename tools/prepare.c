/* `wherry prepare`: compiles what sessions of a model run, so that the cache has it, and tells what each kernel takes;
 * or writes what would be compiled. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry_compile.h>

#include "base/text.h"
#include "commands.h"
#include "dump.h"
#include "layer.h"
#include "system.h"
#include "train_work.h"

struct preparation {
    struct tool tool;
    struct layer layer; /* limits of the sessions; what --train says */
    const struct random_batch *limits;
    const wherry_training_desc *training; /* NULL: inference */
    struct train_work work;               /* with --task: whole trainers instead */
    struct dump dump;
    struct output out;
    json_t *sessions; /* NULL: tables */
};

/* ---- the device ---- */

static int complain_target(const char *name)
{
    char names[600];
    struct text_writer t = text_begin(names, sizeof names);
    const wherry_target *target;
    for (size_t n = 0; (target = wherry_target_at(n)); n++) text_add(&t, "%s%s", n ? ", " : "", target->name);
    return complain(EXIT_USAGE, "there is no target \"%.40s\": there are %s", name, names);
}

static int open_device(struct preparation *p)
{
    struct tool *tool = &p->tool;
    const struct options *options = tool->options;
    if (!options->target) return tool_open_device(tool);
    if (options->device) return complain(EXIT_USAGE, "give --device or --target, not both");
    if (!options->dump)
        return complain(EXIT_USAGE, "a target is no device that is here: its programs can be written, with --dump");
    wherry_status status = wherry_device_open_target(tool->context, options->target, &tool->device);
    if (status == WHERRY_STATUS_NO_DEVICE) return complain_target(options->target);
    if (!status) status = wherry_device_describe(tool->device, &tool->device_info);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

/* ---- what kernels take ---- */

static void number_cell(struct table *table, uint32_t number, bool known)
{
    if (known)
        table_cell(table, "%u", number);
    else
        table_cell(table, "-");
}

/* Whoever tells registers tells spills. */
static void use_row(struct table *table, const wherry_session_kernel *k)
{
    const wherry_kernel_use *use = &k->use;
    table_cell(table, "%s", use->name);
    number_cell(table, k->launches, true);
    number_cell(table, use->registers, use->registers);
    number_cell(table, use->spilled_bytes, use->registers || use->spilled_bytes);
    number_cell(table, use->shared_bytes, use->shared_bytes);
    if (use->waves && use->waves_most)
        table_cell(table, "%u of %u", use->waves, use->waves_most);
    else
        number_cell(table, use->waves, use->waves);
    number_cell(table, use->code_bytes, use->code_bytes);
    table_cell(table, "%s", use->variant);
}

static json_t *known_json(uint32_t number, bool known) { return known ? json_integer(number) : json_null(); }

static json_t *use_json(const wherry_session_kernel *k)
{
    const wherry_kernel_use *use = &k->use;
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, k->hash);
    json_t *json = need(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "kernel", use->name, "work", k->work,
                                  "sizes", k->sizes, "variant", use->variant, "hash", hash, "group", k->group,
                                  "launches", (json_int_t)k->launches, "local_size", (json_int_t)k->local_size));
    const struct {
        const char *name;
        uint32_t value;
        bool known;
    } numbers[] = {{"registers", use->registers, use->registers},
                   {"spilled_bytes", use->spilled_bytes, use->registers || use->spilled_bytes},
                   {"shared_bytes", use->shared_bytes, use->shared_bytes},
                   {"waves", use->waves, use->waves},
                   {"waves_most", use->waves_most, use->waves_most},
                   {"subgroup_size", use->subgroup_size, use->subgroup_size},
                   {"code_bytes", use->code_bytes, use->code_bytes}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        json_object_set_new(json, numbers[n].name, need(known_json(numbers[n].value, numbers[n].known)));
    return json;
}

static void print_kernels(struct preparation *p, const wherry_session_kernel *kernels, size_t count)
{
    struct table table = {.columns = "<kernel|>launches|>registers|>spilled|>shared|>waves|>code|~sizes", .width = 120};
    uint32_t spilling = 0;
    for (size_t n = 0; n < count; n++) {
        use_row(&table, &kernels[n]);
        spilling += kernels[n].use.spilled_bytes > 0;
    }
    if (count) table_print(&table, &p->out);
    if (spilling)
        output_format(&p->out, "%u of %zu kernels spill: what does not fit their registers lies in memory\n", spilling,
                      count);
}

static void print_session(struct preparation *p, const wherry_session_kernel *kernels, size_t count)
{
    const struct tool *tool = &p->tool;
    output_format(&p->out, "%s %s: %u kernels, %u compiled now, %.1f s\n", tool->plan.plan,
                  dtype_name(tool->plan.dtype), tool->prepared.kernels, tool->prepared.kernels_compiled,
                  tool->prepared.seconds);
    tool_notes(tool, &p->out);
    print_kernels(p, kernels, count);
}

static int tell_session(struct preparation *p)
{
    struct tool *tool = &p->tool;
    size_t count = 0;
    wherry_session_kernel *kernels = NULL;
    wherry_status status = wherry_session_kernels(tool->session, NULL, &count);
    if (!status) {
        kernels = need(calloc(count + 1, sizeof *kernels));
        status = wherry_session_kernels(tool->session, kernels, &count);
    } else if (status == WHERRY_STATUS_UNSUPPORTED) {
        status = WHERRY_STATUS_OK; /* a library's kernels, or the host's own code */
        count = 0;
    }
    if (!status && p->sessions) {
        json_t *list = need(json_array());
        for (size_t n = 0; n < count; n++) json_array_append_new(list, use_json(&kernels[n]));
        json_array_append_new(p->sessions,
                              need(json_pack("{s:o, s:o}", "session", session_json(tool), "kernels", list)));
    } else if (!status) {
        print_session(p, kernels, count);
    }
    free(kernels);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

/* ---- sessions ---- */

static int prepare_one(struct preparation *p, int plan, wherry_dtype dtype)
{
    struct tool *tool = &p->tool;
    wherry_session_desc desc = {.max_tokens = p->limits->tokens,
                                .max_sequences = p->limits->batch.sequences,
                                .max_length = p->limits->longest,
                                .dtype = dtype,
                                .weights = (wherry_weights)tool->options->weights,
                                .training = p->training};
    tool->failure = WHERRY_STATUS_OK;
    int code = tool->options->dump ? tool_plan_session(tool, plan_name(plan), desc)
                                   : tool_open_session(tool, plan_name(plan), desc);
    if (code && tool->failure == WHERRY_STATUS_UNSUPPORTED && tool->options->dtype == DTYPE_ALL) return EXIT_FINE;
    if (code) return code;
    return tool->options->dump ? dump_session(&p->dump, tool) : tell_session(p);
}

/* ---- trainers ---- */

/* A process that talks to itself: what it sends it gets, so that it agrees with the other one. */
static bool loop_start(void *user, const wherry_message *sends, size_t n_sends, const wherry_message *receives,
                       size_t n_receives)
{
    (void)user;
    for (size_t n = 0; n < n_sends && n < n_receives; n++)
        if (sends[n].bytes == receives[n].bytes) memcpy(receives[n].data, sends[n].data, sends[n].bytes);
    return true;
}

static bool loop_finish(void *user, double *seconds)
{
    (void)user;
    *seconds = 0;
    return true;
}

static const char *loop_problem(void *user)
{
    (void)user;
    return "it talks to itself";
}

static const wherry_exchange loop = {
    .struct_size = sizeof loop, .processes = 2, .start = loop_start, .finish = loop_finish, .problem = loop_problem};

struct told {
    wherry_session_kernel *kernels;
    size_t count, room;
};

static bool take_kernel(const wherry_session_kernel *kernel, void *user)
{
    struct told *told = user;
    if (told->count == told->room) {
        told->room = told->room ? 2 * told->room : 64;
        told->kernels = need(realloc(told->kernels, told->room * sizeof *told->kernels));
    }
    told->kernels[told->count++] = *kernel;
    return true;
}

static void tell_trainer(struct preparation *p, const struct told *told)
{
    const struct tool *tool = &p->tool;
    if (!p->sessions) {
        output_format(&p->out, "%s %s, %s, %s: %zu kernels\n", tool->plan.plan, dtype_name(tool->plan.dtype),
                      train_task_name(tool->options), train_optimizer_name(tool->options), told->count);
        print_kernels(p, told->kernels, told->count);
        return;
    }
    json_t *list = need(json_array());
    for (size_t n = 0; n < told->count; n++) json_array_append_new(list, use_json(&told->kernels[n]));
    json_array_append_new(p->sessions, need(json_pack("{s:{s:s, s:s, s:s}, s:o}", "session", "plan", tool->plan.plan,
                                                      "dtype", dtype_name(tool->plan.dtype), "task",
                                                      train_task_name(tool->options), "kernels", list)));
}

static int prepare_trainer(struct preparation *p, int plan, wherry_dtype dtype)
{
    struct tool *tool = &p->tool;
    struct train_work *work = &p->work;
    wherry_trainer *trainer = NULL;
    struct told told = {.count = 0};
    work->session.plan = plan_name(plan);
    work->session.dtype = dtype;
    work->trainer.wire = tool->options->wire ? (wherry_wire)(tool->options->wire - 1) : WHERRY_WIRE_F32;
    work->trainer.exchange = tool->options->wire ? &loop : NULL;
    tool->plan = (wherry_session_plan){.struct_size = sizeof tool->plan};
    snprintf(tool->plan.plan, sizeof tool->plan.plan, "%s", plan_name(plan) ? plan_name(plan) : "flash");
    if (tool->options->dump) return dump_trainer(&p->dump, tool, &work->session, &work->trainer);
    wherry_status status =
        wherry_trainer_create(tool->context, tool->device, tool->model, &work->session, &work->trainer, &trainer);
    if (!status) status = wherry_trainer_kernels(trainer, take_kernel, &told);
    if (!status) status = wherry_session_query(wherry_trainer_session(trainer), &tool->plan);
    if (!status) tell_trainer(p, &told);
    wherry_trainer_destroy(trainer);
    free(told.kernels);
    if (status == WHERRY_STATUS_UNSUPPORTED && tool->options->dtype == DTYPE_ALL) return EXIT_FINE;
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

static int prepare_all(struct preparation *p)
{
    const struct options *options = p->tool.options;
    int choice = options->plan ? options->plan : 1, all = options->dtype == DTYPE_ALL;
    int first = choice == PLAN_ALL ? 1 : choice, last = choice == PLAN_ALL ? PLAN_ALL - 1 : choice;
    for (int plan = first; plan <= last; plan++)
        for (int dtype = all ? WHERRY_DTYPE_F32 : options->dtype; dtype <= (all ? WHERRY_DTYPE_F16 : options->dtype);
             dtype++) {
            int code = options->task ? prepare_trainer(p, plan, (wherry_dtype)dtype)
                                     : prepare_one(p, plan, (wherry_dtype)dtype);
            tool_close_session(&p->tool);
            if (code) return code;
            if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        }
    return EXIT_FINE;
}

static int open_all(struct preparation *p)
{
    const struct options *options = p->tool.options;
    static const uint32_t usual[] = {512, 512, 512, 512, 512, 512, 512, 512};
    int code = tool_open_context(&p->tool, options);
    if (options->task && (options->train || options->lengths.count))
        code = complain(EXIT_USAGE, "--task is of whole models and batches of --batch and --seq: leave --train and "
                                    "--lengths out");
    if (!options->task && (options->optimizer || options->lora || options->wire))
        code = complain(EXIT_USAGE, "--optimizer, --lora and --wire go with --task");
    if (options->task && !code) code = train_work_open(&p->tool, &p->work);
    if (!options->task && !code)
        code = layer_open(&p->tool, options->train, usual, sizeof usual / sizeof *usual, &p->layer);
    p->limits = options->task ? &p->work.batch : &p->layer.batch;
    if (options->train) p->training = &p->layer.training;
    if (!code) code = open_device(p);
    if (!code && options->dump) code = dump_begin(&p->dump, options->dump);
    return code;
}

static json_t *result_json(struct preparation *p)
{
    const struct tool *tool = &p->tool;
    return need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:O}", "run", run_json(tool->options), "device",
                          device_json(&tool->device_info), "model", model_json(tool), "training",
                          tool->options->task ? train_work_json(tool, &p->work)
                          : p->training       ? layer_json(tool, &p->layer)
                                              : json_null(),
                          "lengths", lengths_json(p->limits), "sessions", p->sessions));
}

static int write_dump(struct preparation *p)
{
    int code = prepare_all(p), written = dump_end(&p->dump, &p->tool, code == EXIT_FINE);
    return code ? code : written;
}

static int write_all(struct preparation *p)
{
    const struct tool *tool = &p->tool;
    const struct options *options = tool->options;
    if (!output_open(&p->out, options->output)) return EXIT_OUTPUT;
    if (options->json)
        p->sessions = need(json_array());
    else
        output_format(&p->out, "%s on %s (%s)%s\n", options->model ? options->model : options->config,
                      tool->device_info.id, tool->device_info.name,
                      tool->device_info.compiles_only ? ", which compiles only" : "");
    int code = prepare_all(p);
    if (!code && p->sessions) output_json(&p->out, result_json(p));
    json_decref(p->sessions);
    bool written = output_close(&p->out, !code);
    return code || written ? code : EXIT_OUTPUT;
}

int prepare_command(const struct options *options)
{
    struct preparation p = {.tool = {.options = options}};
    int code = open_all(&p);
    if (!code) code = options->dump ? write_dump(&p) : write_all(&p);
    layer_close(&p.layer);
    train_work_close(&p.work);
    tool_close(&p.tool);
    return code;
}
