/* A command that reads texts and writes something for each: it opens what is needed, and runs batch after batch. */
#include "text_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "system.h"
#include "threads.h"
#include "timings.h"

/* ---- opening ---- */

int text_run_prompt(struct text_run *run)
{
    struct tool *tool = &run->tool;
    const struct options *options = tool->options;
    const char *name = options->prompt && *options->prompt ? options->prompt : NULL;
    wherry_context *context = tool->model_context ? tool->model_context : tool->context;
    wherry_status status = WHERRY_STATUS_OK;
    run->batch.taken.struct_size = sizeof run->batch.taken;
    if (!options->prompt || name) /* "": none */
        status = wherry_model_prompt(context, tool->model, name, &run->batch.prompt);
    if (!status) status = wherry_model_text_form(context, tool->model, name, &run->batch.taken);
    if (status) {
        complain(0, "%s", wherry_last_error(context));
        return status == WHERRY_STATUS_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_INPUT;
    }
    return EXIT_FINE;
}

int text_run_open(struct text_run *run, const struct options *options)
{
    uint32_t batch_tokens, length;
    struct tool *tool = &run->tool;
    int code = tool_open_context(tool, options);
    if (!code)
        code = text_source_open(&run->source, options->files, options->files_count,
                                options->input ? (enum input_kind)(options->input - 1) : 0, options->pairs);
    run->source.quiet = options->quiet;
    run->source.hint = !options->input;
    if (!code) code = tool_open_model_and_device(tool);
    if (!code) code = text_limits(tool, &batch_tokens, &length);
    if (code) return code;
    if (run->source.file == stdin && system_is_terminal(stdin) && !options->quiet)
        complain(0, "reading texts from the terminal, one a line; end with Ctrl-D");
    text_batch_create(&run->batch, batch_tokens, length);
    run->batch.truncate = options->truncate;
    run->batch.keep_texts = options->with_text;
    return EXIT_FINE;
}

int text_run_start(struct text_run *run, wherry_session_desc desc)
{
    struct tool *tool = &run->tool;
    int code = text_batch_fill(&run->batch, tool, &run->source);
    if (!code && !run->batch.sequences) code = complain(EXIT_INPUT, "%s has no texts", run->source.name);
    if (!code) code = tool_open_text_session(tool, &run->batch, run->batch.waiting, desc);
    if (!code && !tool->options->quiet && tool->plan.splits) tool_notes(tool, NULL);
    return code;
}

int text_run_again(struct text_run *run)
{
    text_batch_restart(&run->batch);
    text_batch_restart(&run->next);
    return text_batch_fill(&run->batch, &run->tool, &run->source);
}

void text_run_close(struct text_run *run)
{
    text_batch_destroy(&run->batch);
    text_batch_destroy(&run->next);
    text_source_close(&run->source);
    tool_close(&run->tool);
}

/* ---- running ---- */

size_t text_run_rows(const struct text_run *run, uint32_t sequence)
{
    return run->per_token ? run->batch.offsets[sequence + 1] - run->batch.offsets[sequence] : 1;
}

void text_run_object(const struct text_run *run, struct output *out, uint64_t index, const struct text_label *label)
{
    output_format(out, "{\"index\":%llu", (unsigned long long)index);
    if (label->id) {
        output_text(out, ",\"id\":");
        output_text(out, label->id);
    }
    if (run->tool.options->with_text) {
        output_text(out, ",\"text\":");
        output_json_string(out, label->text, label->text_bytes);
    }
}

/* Names the first text of the batch whose result is not finite: the library knows its sequence, not its line. */
static int complain_not_finite(struct text_run *run, wherry_status status, const float *values)
{
    char where[600] = "";
    for (uint32_t s = 0; s < run->batch.sequences && !*where; s++) {
        size_t count = text_run_rows(run, s) * run->tool.plan.embedding_size, n = 0;
        while (n < count && isfinite(values[n])) n++;
        if (n < count)
            snprintf(where, sizeof where, "%.500s, line %llu", run->batch.labels[s].name,
                     (unsigned long long)run->batch.labels[s].line);
        values += count;
    }
    return tool_error(&run->tool, status, *where ? where : NULL), EXIT_DEVICE;
}

/* ---- the next batch, while the device has this one ---- */

struct filling {
    struct text_run *run;
    struct task *task;
    int code;
};

static void fill_next(void *user)
{
    struct filling *f = user;
    f->code = text_batch_fill(&f->run->next, &f->run->tool, &f->run->source);
}

static void begin_next(struct filling *f)
{
    text_batch_pass(&f->run->batch, &f->run->next);
    f->task = task_start(fill_next, f);
}

/* Waits until it is there; without a thread it is filled here. What that takes is time without work for the device. */
static int end_next(struct filling *f)
{
    double start = system_seconds();
    if (f->task)
        task_join(f->task);
    else
        fill_next(f);
    f->run->waited += system_seconds() - start;
    return f->code;
}

/* `values` are its results. */
static int run_batch(struct text_run *run, float *values, size_t room, text_run_write write)
{
    wherry_batch view = text_batch_view(&run->batch);
    double start = system_seconds();
    wherry_status status = wherry_encode(run->tool.session, &view, values, room);
    run->seconds += system_seconds() - start;
    if (run->tool.options->timings && !run->texts) timings_print(&run->tool);
    if (status == WHERRY_STATUS_VERIFY_FAILED) return complain_not_finite(run, status, values);
    if (status) return tool_error(&run->tool, status, NULL);
    return write(run, values);
}

/* What is wrong with a later text is an error once the results before it are written. */
static int run_batches(struct text_run *run, float *values, size_t room, text_run_write write)
{
    while (run->batch.sequences) {
        struct filling f = {.run = run};
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        begin_next(&f);
        int code = run_batch(run, values, room, write), next = end_next(&f);
        if (code) return code;
        run->texts += run->batch.sequences;
        run->tokens += run->batch.tokens;
        progress_show("%llu texts, %.0f tokens/s", (unsigned long long)run->texts, (double)run->tokens / run->seconds);
        if (next) return next;
        struct text_batch done = run->batch;
        run->batch = run->next;
        run->next = done;
    }
    return EXIT_FINE;
}

int text_run_all(struct text_run *run, text_run_write write)
{
    const wherry_session_plan *plan = &run->tool.plan;
    size_t rows = run->per_token ? plan->max_tokens : plan->max_sequences, room = rows * plan->embedding_size;
    float *values = need(malloc(room * sizeof *values));
    progress_start(run->tool.options);
    double start = system_seconds();
    int code = run_batches(run, values, room, write);
    run->total = system_seconds() - start;
    progress_end();
    free(values);
    return code;
}

void text_run_tell(const struct text_run *run)
{
    const struct tool *tool = &run->tool;
    bool asked = tool->options->verbose || (tool->options->timings && !tool->options->json);
    if (!asked && (tool->options->quiet || !system_is_terminal(stderr))) return;
    uint32_t threads = ahead_threads(run->batch.ahead);
    complain(0,
             "%llu texts, %llu tokens in %.3g s (%.0f tokens/s) on %s (%s), plan %s, %s; it waited for tokens, by %u "
             "thread%s, in %.1f %% of %.3g s",
             (unsigned long long)run->texts, (unsigned long long)run->tokens, run->seconds,
             (double)run->tokens / (run->seconds > 0 ? run->seconds : 1e-9), tool->device_info.id,
             tool->device_info.name, tool->plan.plan, dtype_name(tool->plan.dtype), threads, threads == 1 ? "" : "s",
             100 * run->waited / (run->total > 0 ? run->total : 1e-9), run->total);
}
