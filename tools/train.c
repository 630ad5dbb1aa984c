/* `wherry train`: trains a model on examples, from the first step or from the last checkpoint. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "hash.h"
#include "names.h"
#include "system.h"
#include "threads.h"
#include "train/checkpoints.h"
#include "train/log.h"

/* ---- opening ---- */

static int open_data(struct train_run *run)
{
    const struct options *options = run->options;
    int code = setup_data(&run->setup, &run->tool);
    if (!code) code = setup_shards(&run->setup, options, run->ranks.started ? run->ranks.processes : 0);
    if (!code) code = lines_open(&run->lines, options->files, options->files_count);
    if (!code && options->dev) code = lines_open(&run->dev_lines, &options->dev, 1);
    if (!code) code = setup_trainer(&run->setup, &run->tool, &run->lines);
    if (!code) batches_open(&run->batches, &run->setup.batches, &run->lines, &run->setup.form);
    return code;
}

/* Of the model's vectors (biases, layernorms): what tells it from others of its shape. */
static int model_hash(struct train_run *run, uint64_t *hash)
{
    size_t count = wherry_trainer_weight_count(run->trainer), room = 0;
    float *values = NULL;
    wherry_status status = WHERRY_STATUS_OK;
    *hash = HASH_BEGIN;
    for (size_t n = 0; n < count && !status; n++) {
        wherry_weight weight = {.struct_size = sizeof weight};
        status = wherry_trainer_weight_describe(run->trainer, n, &weight);
        if (status || weight.shape[1]) continue;
        if (weight.elements > room) values = need(realloc(values, (room = (size_t)weight.elements) * sizeof *values));
        status = wherry_trainer_weight_read(run->trainer, n, values, (size_t)weight.elements);
        if (!status) *hash = hash_more(*hash, values, (size_t)weight.elements * sizeof *values);
    }
    free(values);
    return status ? tool_error(&run->tool, status, "reading the model") : EXIT_FINE;
}

static int trainer_failed(struct train_run *run, wherry_status status)
{
    int code = tool_error(&run->tool, status, NULL);
    if (status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY)
        complain(0,
                 "give fewer --run-tokens than %u (at least --max-tokens, now %u): a step's batch is taken apart then",
                 run->setup.run_tokens, run->setup.batches.max_length);
    return code;
}

/* What the parts of a run describe is the trainer's session; it stays the trainer's. */
static int open_trainer(struct train_run *run)
{
    struct tool *tool = &run->tool;
    char text[20];
    uint64_t hash;
    if (run->ranks.processes > 1) run->setup.trainer.exchange = &run->ranks.exchange;
    wherry_status status = wherry_trainer_create(tool->context, tool->device, tool->model, &run->setup.session,
                                                 &run->setup.trainer, &run->trainer);
    if (status) return trainer_failed(run, status);
    tool->plan = (wherry_session_plan){.struct_size = sizeof tool->plan};
    status = wherry_session_query(wherry_trainer_session(run->trainer), &tool->plan);
    if (status) return tool_error(tool, status, NULL);
    int code = model_hash(run, &hash);
    if (code) return code;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    json_object_set_new(run->settings, "model", need(json_string(text)));
    json_object_set_new(run->settings, "dtype", need(json_string(dtype_name(tool->plan.dtype))));
    return EXIT_FINE;
}

static int begin_output(struct train_run *run, bool *done)
{
    int code = run->ranks.process ? EXIT_FINE : checkpoints_begin(run, done);
    return code ? code : ranks_any(&run->ranks, done);
}

/* Before anything of one is mixed with the others'. */
static int compare_processes(struct train_run *run)
{
    struct ranks *ranks = &run->ranks;
    char *text = need(json_dumps(run->settings, JSON_COMPACT | JSON_SORT_KEYS));
    uint64_t hash = hash_more(HASH_BEGIN, text, strlen(text));
    free(text);
    int code = ranks_same(ranks, lines_hash(&run->lines), "data",
                          "all hosts need the same files for --data, with the same bytes");
    return code ? code : ranks_same(ranks, hash, "options", "start all with the same command");
}

static int open_run(struct train_run *run, bool *done)
{
    int code = ranks_options(&run->ranks, &run->own);
    if (!code) code = tool_open_context(&run->tool, &run->own);
    if (!code) code = begin_output(run, done);
    if (code || *done) return code;
    code = tool_open_model_and_device(&run->tool);
    if (!code) code = open_data(run);
    if (code) return code;
    run->settings = setup_json(&run->setup, run->options, &run->lines);
    code = compare_processes(run);
    return code ? code : open_trainer(run);
}

static void close_run(struct train_run *run)
{
    if (run->log) fclose(run->log);
    wherry_trainer_destroy(run->trainer);
    train_batch_free(&run->batch);
    parts_free(&run->parts);
    position_free(&run->position);
    batches_close(&run->batches);
    lines_close(&run->lines);
    lines_close(&run->dev_lines);
    setup_close(&run->setup);
    json_decref(run->settings);
    tool_close(&run->tool);
}

/* ---- telling ---- */

static void tell_begin(const struct train_run *run)
{
    const struct train_setup *s = &run->setup;
    if (run->options->quiet) return;
    complain(0, "note: %llu examples, %llu steps (%llu of warm-up), %llu parameters, on %s",
             (unsigned long long)run->lines.count, (unsigned long long)s->steps, (unsigned long long)s->warmup,
             (unsigned long long)run->tool.model_info.parameters, run->tool.device_info.id);
    if (run->ranks.processes > 1)
        complain(0, "note: %u processes, %u of them on this host; a step has %u shards", run->ranks.processes,
                 run->ranks.locals, run->setup.shards);
}

static void tell_exchange(const struct train_run *run)
{
    wherry_exchange_times times = {.struct_size = sizeof times};
    wherry_trainer_exchange_times(run->trainer, &times);
    if (run->options->quiet || !times.steps) return;
    double hidden = times.exposed_seconds < times.seconds ? 1 - times.exposed_seconds / times.seconds : 0;
    complain(0,
             "note: gradients between processes: %.3g MB sent and %.3g ms waited for in a step, %.0f %% of %.3g ms "
             "hidden",
             (double)times.bytes_sent / 1e6 / (double)times.steps, 1e3 * times.exposed_seconds / (double)times.steps,
             100 * hidden, 1e3 * times.seconds / (double)times.steps);
}

static const char *time_left(double seconds, char text[32])
{
    if (seconds < 100)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600);
    return text;
}

static void tell_evaluation(const struct train_run *run, const struct evaluation *e)
{
    printf("step %llu: loss %.6f", (unsigned long long)run->step, e->loss);
    for (int n = 0; n < e->n_scores; n++) printf(", %s %.4f", e->scores[n].name, e->scores[n].value);
    printf("\n");
    fflush(stdout);
}

/* ---- steps ---- */

/* The next batch, read and tokenized while the device has the one before it. */
struct reading {
    struct batches *batches;
    struct train_batch batch;
    struct task *task;
    int code;
};

static void read_batch(void *user)
{
    struct reading *r = user;
    r->code = batches_next(r->batches, &r->batch);
}

static void reading_start(struct reading *r)
{
    r->task = task_start(read_batch, r);
    if (!r->task) read_batch(r);
}

static int reading_take(struct reading *r, struct train_batch *out)
{
    task_join(r->task);
    r->task = NULL;
    train_batch_free(out);
    *out = r->batch;
    r->batch = (struct train_batch){.examples = 0};
    return r->code;
}

static void reading_end(struct reading *r)
{
    task_join(r->task);
    train_batch_free(&r->batch);
}

static int step_failed(struct train_run *run, wherry_status status)
{
    char where[160];
    snprintf(where, sizeof where,
             "step %llu (%u examples, %u tokens, at most %u at a time); the last checkpoint is of step "
             "%llu",
             (unsigned long long)run->step + 1, run->batch.examples, run->batch.tokens, run->parts.longest,
             (unsigned long long)run->saved);
    int code = tool_error(&run->tool, status, where);
    return status == WHERRY_STATUS_VERIFY_FAILED ? EXIT_DEVICE : code;
}

static int make_step(struct train_run *run, wherry_step_result *result)
{
    const struct train_batch *b = &run->batch;
    const wherry_targets targets = {.struct_size = sizeof targets,
                                    .labels = b->labels,
                                    .values = b->values,
                                    .count = b->labels ? b->n_labels : b->n_values};
    *result = (wherry_step_result){.struct_size = sizeof *result};
    const wherry_targets *wanted = targets.count ? &targets : NULL;
    const struct part_limits limits = setup_part_limits(&run->setup);
    uint32_t shards = run->setup.shards;
    wherry_status status;
    run->exchanged = (wherry_exchange_times){.struct_size = sizeof run->exchanged};
    wherry_trainer_exchange_times(run->trainer, &run->exchanged);
    if (shards > 1) {
        parts_of_shards(&run->parts, b, shards, &limits);
        status = wherry_trainer_step_shards(run->trainer, run->parts.shards, shards, wanted, result);
    } else {
        parts_of(&run->parts, b, &limits);
        status = wherry_trainer_step(run->trainer, run->parts.batches, run->parts.count, wanted, result);
    }
    if (status) return step_failed(run, status);
    run->step++;
    run->tokens += b->tokens;
    position_free(&run->position);
    position_copy(&run->position, &b->after);
    return EXIT_FINE;
}

static bool is_time(uint64_t step, uint64_t every, uint64_t steps)
{
    if (!every) every = (steps + 9) / 10;
    return step % every == 0 || step == steps;
}

static int evaluate_now(struct train_run *run)
{
    struct evaluation evaluation;
    progress_show("step %llu: evaluation", (unsigned long long)run->step);
    int code = evaluate(run, &evaluation);
    if (code) return code;
    progress_end();
    tell_evaluation(run, &evaluation);
    progress_start(run->options);
    return train_log_evaluation(run, &evaluation);
}

/* The others have the same weights, and wait meanwhile. */
static int save_now(struct train_run *run)
{
    wherry_status status = wherry_trainer_weights_compare(run->trainer);
    if (status) return tool_error(&run->tool, status, NULL);
    return run->ranks.process ? EXIT_FINE : checkpoints_save(run);
}

static bool evaluates(const struct train_run *run) { return run->dev_lines.count && !run->ranks.process; }

/* What is due after a step. */
static int after_step(struct train_run *run)
{
    const struct options *options = run->options;
    uint64_t steps = run->setup.steps;
    bool stopped = system_stopped();
    int code = EXIT_FINE;
    if (!stopped && evaluates(run) && is_time(run->step, options->eval_every, steps)) code = evaluate_now(run);
    stopped = stopped || code == EXIT_STOPPED;
    if (code && !stopped) return code;
    code = ranks_any(&run->ranks, &stopped);
    if (code) return code;
    if (stopped || (run->step < steps && is_time(run->step, options->save_every, steps))) code = save_now(run);
    if (code || !stopped) return code;
    if (run->ranks.process) return EXIT_STOPPED;
    return complain(EXIT_STOPPED, "interrupted after step %llu of %llu; the same command goes on from there",
                    (unsigned long long)run->step, (unsigned long long)steps);
}

static int run_steps(struct train_run *run)
{
    struct reading reading = {.batches = &run->batches};
    wherry_step_result result;
    double begin = system_seconds(), last = begin, mean = NAN;
    uint64_t first = run->step, steps = run->setup.steps, tokens = run->tokens;
    char left[32];
    int code = EXIT_FINE;
    if (run->step < steps) reading_start(&reading);
    while (!code && run->step < steps) {
        code = reading_take(&reading, &run->batch);
        if (code) break;
        if (run->step + 1 < steps) reading_start(&reading);
        code = make_step(run, &result);
        if (code) break;
        double now = system_seconds(), each = (now - begin) / (double)(run->step - first);
        mean = isnan(mean) ? result.loss : 0.9 * mean + 0.1 * result.loss;
        code = train_log_step(run, &result, now - last);
        last = now;
        progress_show("step %llu of %llu, loss %.4f, %.0f tokens/s, %s left", (unsigned long long)run->step,
                      (unsigned long long)steps, mean, (double)(run->tokens - tokens) / (now - begin),
                      time_left(each * (double)(steps - run->step), left));
        if (!code) code = after_step(run);
    }
    reading_end(&reading);
    return code;
}

static int check_gradients(struct train_run *run)
{
    if (run->options->no_check || run->step) return EXIT_FINE;
    progress_show("comparing gradients with the reference's");
    wherry_status status = wherry_trainer_check(run->trainer, NULL);
    return status ? tool_error(&run->tool, status,
                               "this device does not compute the model's gradients right (--no-check "
                               "begins all the same)")
                  : EXIT_FINE;
}

static int train(struct train_run *run)
{
    int code = checkpoints_resume(run);
    if (!code)
        code =
            ranks_same(&run->ranks, run->step, "checkpoints", "the folder of --out has to be one that all hosts share");
    if (!code) {
        wherry_status status = wherry_trainer_weights_compare(run->trainer);
        if (status) code = tool_error(&run->tool, status, NULL);
    }
    if (!code) code = train_log_open(run);
    if (code) return code;
    tell_begin(run);
    system_stop_waits(true);
    progress_start(run->options);
    code = check_gradients(run);
    if (!code && !run->step && evaluates(run)) code = evaluate_now(run);
    if (!code) code = run_steps(run);
    progress_end();
    if (!code) {
        wherry_status status = wherry_trainer_weights_compare(run->trainer);
        if (status) code = tool_error(&run->tool, status, NULL);
    }
    if (!code && !run->ranks.process) code = checkpoints_finish(run);
    if (!code) tell_exchange(run);
    int closed = train_log_close(run);
    return code ? code : closed;
}

int train_command(const struct options *options)
{
    struct train_run *run = need(calloc(1, sizeof *run));
    bool done = false;
    run->own = *options;
    run->options = &run->own;
    int code = setup_check(options);
    if (!code) code = ranks_open(&run->ranks, options);
    if (!code) code = open_run(run, &done);
    if (!code && !done) code = train(run);
    /* What all of them end by, they end by together. */
    if (code && code != EXIT_STOPPED) ranks_abort(&run->ranks, code);
    ranks_close(&run->ranks);
    close_run(run);
    free(run);
    return code;
}
