/* `wherry bench train`: the time of whole training steps of a model, of their parts and of each kernel, against the
 * device's ceilings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "commands.h"
#include "ranks.h"
#include "report/derive.h"
#include "report/fields.h"
#include "report/record.h"
#include "report/tables.h"
#include "system.h"
#include "train_work.h"

/* What a plan's measuring needs beside the run. */
struct train_bench {
    struct bench_run run; /* first: bench_run.measure gets it */
    struct options own;
    struct ranks ranks;
    struct train_work work;
    wherry_trainer *trainer;
    wherry_group_measure *groups;
    size_t count;
    uint32_t repeats;
    double warm;
    wherry_train_measure measure;
};

static int open_trainer(struct train_bench *b, const char *plan)
{
    struct tool *tool = b->run.tool;
    b->work.session.plan = plan;
    if (!tool->options->quiet) progress_start(tool->options);
    progress_show("preparing");
    wherry_status status = wherry_trainer_create(tool->context, tool->device, tool->model, &b->work.session,
                                                 &b->work.trainer, &b->trainer);
    progress_end();
    if (status) return tool_error(tool, status, NULL);
    tool->session = wherry_trainer_session(b->trainer); /* for its notes: it stays the trainer's */
    tool->plan = (wherry_session_plan){.struct_size = sizeof tool->plan};
    status = wherry_session_query(tool->session, &tool->plan);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

static int measure_once(struct train_bench *b, uint32_t repeats, double warm, bool groups)
{
    struct tool *tool = b->run.tool;
    const wherry_measure_desc desc = {.struct_size = sizeof desc,
                                      .repeats = repeats,
                                      .warm_seconds = warm > 0 ? warm : 1e-9,
                                      .cache_bytes = b->run.cache_bytes};
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    b->measure = (wherry_train_measure){.struct_size = sizeof b->measure};
    size_t count = b->count;
    wherry_status status =
        wherry_trainer_measure(b->trainer, &b->work.batch.batch, b->work.targets.count ? &b->work.targets : NULL, &desc,
                               groups ? b->groups : NULL, &count, &b->measure);
    if (!groups) b->count = count;
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

/* As many repeats as asked for, or as fit into ten seconds: steps run with and without timestamps. Processes make as
 * many as each other. */
static int measure_steps(struct train_bench *b)
{
    const struct options *options = b->run.tool->options;
    int code = measure_once(b, 1, 0, false);
    double seconds = 2 * b->measure.host.median;
    b->repeats = options->steps ? options->steps : 30;
    if (!options->steps && b->ranks.processes < 2 && seconds * b->repeats > 10)
        b->repeats = seconds > 2 ? 5 : (uint32_t)(10 / seconds);
    b->warm = options->warm >= 0 ? options->warm : 0.5;
    b->groups = need(calloc(b->count + 1, sizeof *b->groups));
    return code ? code : measure_once(b, b->repeats, b->warm, true);
}

/* ---- the record ---- */

static double median_or_none(const wherry_time *time) { return time->n ? time->median : (double)NAN; }

static json_t *plan_json(const struct train_bench *b)
{
    static const int steps[WHERRY_TRAIN_PARTS] = {STEP_FORWARD, STEP_BACKWARD, STEP_LOSS, STEP_OPTIMIZER};
    wherry_train_memory memory = {.struct_size = sizeof memory};
    wherry_trainer_memory(b->trainer, &memory);
    json_t *json = session_json(b->run.tool);
    struct record_plan plan = {.classes = NULL};
    fields_read(json, plan_fields, &plan);
    plan.repeats = b->repeats;
    plan.warm_seconds = b->warm;
    plan.host = b->measure.host;
    plan.kernels = b->measure.kernels;
    plan.has_steps = true;
    plan.groups = b->count;
    plan.launches = 0;
    for (size_t n = 0; n < b->count; n++) plan.launches += b->groups[n].launches;
    plan.device_bytes = (double)memory.total;
    for (int part = 0; part < WHERRY_TRAIN_PARTS; part++)
        plan.steps[steps[part]] = (struct record_step){.measured = b->measure.groups[part] && b->measure.parts[part].n,
                                                       .host_seconds = NAN,
                                                       .device_seconds = median_or_none(&b->measure.parts[part])};
    plan_write(json, &plan);
    json_object_set_new(json, "memory", train_memory_json(&memory));
    json_object_set_new(json, "loss", number_json(b->measure.last.loss));
    json_object_set_new(json, "gradient_norm", number_json(b->measure.last.gradient_norm));
    json_object_set_new(json, "loss_scale", number_json(b->measure.last.loss_scale));
    if (b->ranks.processes > 1) {
        json_t *exchange = exchange_json(&b->measure.exchange, b->repeats);
        json_object_set_new(exchange, "processes", json_integer(b->ranks.processes));
        json_object_set_new(exchange, "wire", json_string(choice_name(WIRE_CHOICES, (int)b->work.trainer.wire + 1)));
        json_object_set_new(json, "exchange", exchange);
    }
    json_object_set_new(json, "skipped_steps", json_integer((json_int_t)b->measure.skipped));
    return json;
}

/* Readers find operations by their names: of groups that share one the later ones get a number. */
static void number_names(struct train_bench *b)
{
    for (size_t n = 1; n < b->count; n++) {
        char *name = b->groups[n].cost.name;
        const size_t length = strcspn(name, "#");
        unsigned same = 1;
        for (size_t i = 0; i < n; i++) {
            const char *other = b->groups[i].cost.name;
            same += strncmp(other, name, length) == 0 && (!other[length] || other[length] == '#');
        }
        if (same > 1) snprintf(name + length, sizeof b->groups[n].cost.name - length, "#%u", same);
    }
}

static void add_ops(struct train_bench *b)
{
    number_names(b);
    json_t *ops = json_object_get(b->run.record, "ops");
    for (size_t n = 0, part = 0, end = b->measure.groups[0]; n < b->count; n++) {
        while (n >= end) end += b->measure.groups[++part];
        json_array_append_new(ops, bench_group_json(&b->run, &b->groups[n], NULL, train_part_names[part]));
    }
}

static int measure_plan(struct bench_run *run, const char *plan)
{
    struct train_bench *b = (struct train_bench *)run;
    int code = open_trainer(b, plan);
    if (!code) code = measure_steps(b);
    if (!code) {
        bench_tell_timer(run, &b->measure.timer);
        json_array_append_new(json_object_get(run->record, "plans"), plan_json(b));
        add_ops(b);
    }
    run->tool->session = NULL;
    wherry_trainer_destroy(b->trainer);
    free(b->groups);
    b->trainer = NULL;
    b->groups = NULL;
    b->count = 0;
    return code;
}

/* The batch is each shard's; a loss whose rows know each other has those of all. */
static int divide(struct train_bench *b)
{
    const struct options *options = &b->own;
    const uint32_t processes = b->ranks.processes, shards = options->shards ? options->shards : processes;
    wherry_trainer_desc *desc = &b->work.trainer;
    if (shards < processes)
        return complain(EXIT_USAGE, "--shards %u: mpirun started %u processes, and each needs one at least",
                        (unsigned)shards, (unsigned)processes);
    if (options->wire) desc->wire = (wherry_wire)(options->wire - 1);
    desc->shards = shards;
    if (shards > 1) desc->max_rows = shards * b->work.batch.batch.sequences;
    if (processes > 1) desc->exchange = &b->ranks.exchange;
    b->run.silent = b->ranks.process != 0;
    return EXIT_FINE;
}

static int open_work(struct train_bench *b)
{
    struct tool *tool = b->run.tool;
    int code = ranks_options(&b->ranks, &b->own);
    if (!code) code = tool_open_context(tool, &b->own);
    if (!code && b->ranks.process) b->own.roof = ROOF_NO;
    if (!code) code = train_work_open(tool, &b->work);
    if (!code) code = tool_open_device(tool);
    return code ? code : divide(b);
}

int bench_train_command(const struct options *options)
{
    struct tool tool = {.options = NULL};
    struct train_bench b = {.run = {.tool = &tool, .measure = measure_plan}, .own = *options};
    if (!bench_run_asked(options)) return EXIT_USAGE;
    int code = ranks_open(&b.ranks, options);
    if (!code) code = open_work(&b);
    if (!code) {
        b.run.batch = &b.work.batch;
        b.run.training = &b.work.training;
        code = bench_run(&b.run, workload_json(&tool, &b.work.batch, "train", train_work_json(&tool, &b.work)));
    }
    if (code && code != EXIT_STOPPED) ranks_abort(&b.ranks, code);
    train_work_close(&b.work);
    tool_close(&tool);
    ranks_close(&b.ranks);
    return code;
}
