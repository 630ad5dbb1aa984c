/* The log of a training. */
#include "train/log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exchange_shape.h"
#include "output.h"
#include "system.h"

static int failed(const struct train_run *run)
{
    return complain(EXIT_OUTPUT, "can't write %s: %s", run->options->log, strerror(errno ? errno : EIO));
}

/* JSON has no number for what is not finite. */
static json_t *number(double value) { return need(isfinite(value) ? json_real(value) : json_null()); }

/* Writes and releases the line. */
static int write_line(struct train_run *run, json_t *line)
{
    errno = 0;
    bool fine = !json_dumpf(line, run->log, JSON_COMPACT) && putc('\n', run->log) != EOF && !fflush(run->log);
    json_decref(line);
    return fine ? EXIT_FINE : failed(run);
}

/* ---- what an earlier run left ---- */

/* Whether a line is of a step up to this one, or of none. */
static bool stays(const char *line, uint64_t step)
{
    json_t *object = json_loads(line, 0, NULL);
    const json_t *its = json_object_get(object, "step");
    bool yes = json_is_object(object) && (!its || (uint64_t)json_integer_value(its) <= step);
    json_decref(object);
    return yes;
}

static char *read_all(const char *path)
{
    size_t size = 0, room = 0;
    char *text = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    do {
        room = 2 * room + 65536;
        text = need(realloc(text, room + 1));
        size += fread(text + size, 1, room - size, file);
    } while (size == room);
    fclose(file);
    text[size] = 0;
    return text;
}

/* In the file's place at once: a run that is killed here leaves all of it, or what stays. */
static int keep_lines(const struct train_run *run, char *text)
{
    struct output out;
    if (!output_open(&out, run->options->log)) return EXIT_OUTPUT;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (!next) break; /* cut off */
        *next++ = 0;
        if (!stays(line, run->step)) continue;
        output_text(&out, line);
        output_text(&out, "\n");
    }
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

int train_log_open(struct train_run *run)
{
    const char *path = run->options->log;
    if (!path) return EXIT_FINE;
    if (run->step) {
        char *text = read_all(path);
        int code = keep_lines(run, text);
        free(text);
        if (code) return code;
    }
    run->log = fopen(path, run->step ? "ab" : "wb");
    if (!run->log) return failed(run);
    if (run->step) return EXIT_FINE;
    return write_line(run, need(json_pack("{s:o, s:o, s:o, s:o, s:O}", "run", run_json(run->options), "device",
                                          device_json(&run->tool.device_info), "model", model_json(&run->tool),
                                          "session", session_json(&run->tool), "settings", run->settings)));
}

/* Of one step. */
static json_t *exchange_since_json(struct train_run *run)
{
    wherry_exchange_times step = {.struct_size = sizeof step};
    wherry_trainer_exchange_times(run->trainer, &step);
    exchange_since(&run->exchanged, &step);
    return exchange_json(&step, 1);
}

int train_log_step(struct train_run *run, const wherry_step_result *result, double seconds)
{
    if (!run->log) return EXIT_FINE;
    json_t *line = need(
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:I, s:f}", "step", (json_int_t)run->step, "epoch",
                  (json_int_t)(run->batch.after.epoch - (run->batch.last ? 1 : 0)), "loss", number(result->loss),
                  "rate", number(result->learning_rate), "norm", number(result->gradient_norm), "scale",
                  number(result->loss_scale), "skipped", result->skipped, "examples", (json_int_t)run->batch.examples,
                  "tokens", (json_int_t)run->batch.tokens, "parts", (json_int_t)run->parts.count, "seconds", seconds));
    if (run->ranks.processes > 1) json_object_set_new(line, "exchange", exchange_since_json(run));
    return write_line(run, line);
}

int train_log_evaluation(struct train_run *run, const struct evaluation *evaluation)
{
    if (!run->log) return EXIT_FINE;
    json_t *scores = need(json_pack("{s:o}", "loss", number(evaluation->loss)));
    for (int n = 0; n < evaluation->n_scores; n++)
        json_object_set_new(scores, evaluation->scores[n].name, number(evaluation->scores[n].value));
    return write_line(run, need(json_pack("{s:I, s:o}", "step", (json_int_t)run->step, "evaluation", scores)));
}

int train_log_close(struct train_run *run)
{
    FILE *log = run->log;
    run->log = NULL;
    if (!log) return EXIT_FINE;
    errno = 0;
    bool synced = !system_sync(log);
    return !fclose(log) && synced ? EXIT_FINE : failed(run);
}
