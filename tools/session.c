/* What the commands share: a context, device, model and session made from the options, and how errors end the command.
 */
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "commands.h"
#include "commit.h"
#include "system.h"
#include "threads.h"

static void log_line(wherry_log_level level, const char *text, void *user)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    const struct options *options = user;
    if (!options->verbose && (options->quiet || level != WHERRY_LOG_WARNING)) return; /* errors come back as errors */
    complain(0, "%s: %s", names[level >= WHERRY_LOG_ERROR && level <= WHERRY_LOG_DEBUG ? level : 0], text);
}

/* ---- errors ---- */

static int status_exit(wherry_status status)
{
    switch (status) {
    case WHERRY_STATUS_OK:
        return EXIT_FINE;
    case WHERRY_STATUS_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case WHERRY_STATUS_IO:
    case WHERRY_STATUS_BAD_FORMAT:
    case WHERRY_STATUS_TOO_LONG:
        return EXIT_INPUT;
    case WHERRY_STATUS_VERIFY_FAILED:
        return EXIT_VERIFY;
    case WHERRY_STATUS_CANCELLED:
        return EXIT_STOPPED;
    default:
        return EXIT_DEVICE;
    }
}

int tool_error_text(struct tool *tool, const char *text, wherry_status status, const char *what)
{
    tool->failure = status;
    if (status == WHERRY_STATUS_CANCELLED) return complain(EXIT_STOPPED, "interrupted");
    complain(0, "%s%s%s", what ? what : "", what ? ": " : "", *text ? text : wherry_status_name(status));
    return status_exit(status);
}

int tool_error(struct tool *tool, wherry_status status, const char *what)
{
    return tool_error_text(tool, tool->context ? wherry_last_error(tool->context) : "", status, what);
}

int tool_failed(struct tool *tool, wherry_status status)
{
    tool->failure = status;
    return status_exit(status);
}

/* ---- context, device, model ---- */

/* Kernels that may end their process are compiled by another of this program. */
static const char *compiler(const struct options *options)
{
    const char *named = getenv("WHERRY_COMPILER");
    if (options->command->bit & COMPILE || (named && !strcmp(named, "none"))) return NULL;
    return named ? named : "";
}

static uint32_t compile_seconds(void)
{
    const char *named = getenv("WHERRY_COMPILE_SECONDS");
    unsigned long seconds = named ? strtoul(named, NULL, 10) : 0;
    return seconds <= 86400 ? (uint32_t)seconds : 86400;
}

static wherry_context_desc context_desc(const struct options *options)
{
    return (wherry_context_desc){.struct_size = sizeof(wherry_context_desc),
                                 .log = log_line,
                                 .user = (void *)options,
                                 .cache_dir = options->cache,
                                 .threads = options->threads,
                                 .low_priority = options->low_priority,
                                 .timed = options->timings,
                                 .compiler = compiler(options),
                                 .compile_seconds = compile_seconds()};
}

int tool_open_context(struct tool *tool, const struct options *options)
{
    *tool = (struct tool){.options = options};
    const wherry_context_desc desc = context_desc(options);
    wherry_status status = wherry_context_create(&desc, &tool->context);
    return status ? tool_error(tool, status, "can't start") : EXIT_FINE;
}

/* What follows the opening of a device. */
static int describe_device(struct tool *tool, wherry_status status)
{
    if (!status) status = wherry_device_describe(tool->device, &tool->device_info);
    if (status) return tool_error(tool, status, NULL), EXIT_DEVICE;
    /* Where there are texts, they are tokenized by as many. */
    if (tool->options->threads && strcmp(tool->device_info.id, "cpu") != 0 && !(tool->options->command->bit & TEXTS))
        return complain(EXIT_USAGE, "--threads is the device cpu's, and this is %s: leave it out, or give --device cpu",
                        tool->device_info.id);
    const char *tuning = tool->options->tuning;
    if (tuning && *tuning &&
        (strcmp(tool->device_info.id, "reference") == 0 || strcmp(tool->device_info.id, "cpu") == 0))
        return complain(
            EXIT_USAGE,
            "%s is what wherry tune chose for kernels, and those of the device %s take no sizes: name another "
            "--device, or a plan (" PLAN_CHOICES ") instead of the file",
            tuning, tool->device_info.id);
    return EXIT_FINE;
}

int tool_open_device(struct tool *tool)
{
    return describe_device(tool, wherry_device_open(tool->context, tool->options->device, &tool->device));
}

/* What follows the opening of a model, whichever it was; `problem` is what the library said of a failure. */
static int describe_model(struct tool *tool, const char *problem, wherry_status status)
{
    tool->model_info = (wherry_model_info){.struct_size = sizeof tool->model_info};
    tool->model_info.config.struct_size = sizeof tool->model_info.config;
    if (!status) status = wherry_model_describe(tool->model, &tool->model_info);
    if (!status) return EXIT_FINE;
    tool_error_text(tool, problem, status, NULL);
    return status == WHERRY_STATUS_OUT_OF_HOST_MEMORY ? EXIT_DEVICE : EXIT_INPUT;
}

int tool_open_random(struct tool *tool, const wherry_model_config *config)
{
    uint32_t seed = tool->options->seed ? tool->options->seed : 1;
    wherry_status status = wherry_model_create_random(tool->context, config, seed, &tool->model);
    return status == WHERRY_STATUS_INVALID_ARGUMENT ? tool_error(tool, status, NULL)
                                                    : describe_model(tool, wherry_last_error(tool->context), status);
}

/* With its weights, or with random ones. */
static wherry_status open_folder(wherry_context *context, const struct options *options, wherry_model **out)
{
    if (!options->init) {
        const bool adapts = options->adapter && !(options->command->bit & TRAIN); /* which has it in the trainer */
        wherry_status status = wherry_model_open(context, options->model, out);
        return status || !adapts ? status : wherry_model_adapt(context, *out, options->adapter);
    }
    return wherry_model_open_new(context, options->model, options->seed ? options->seed : 1, out);
}

int tool_open_model(struct tool *tool)
{
    const struct options *options = tool->options;
    if (options->model && options->config) return complain(EXIT_USAGE, "give --model or --config, not both");
    if (options->model) {
        wherry_status status = open_folder(tool->context, options, &tool->model);
        return describe_model(tool, wherry_last_error(tool->context), status);
    }
    if (options->config) {
        wherry_model_config config = {.struct_size = sizeof config};
        wherry_status status = wherry_model_config_named(tool->context, options->config, &config);
        if (!status) return tool_open_random(tool, &config);
        tool_error(tool, status, NULL);
        return EXIT_USAGE;
    }
    bool named = !(options->command->bit & (TEXTS | DEMO));
    return complain(EXIT_USAGE, "a model is missing: --model DIR%s; see wherry help %s",
                    named ? ", or --config NAME" : "", options->command->name);
}

/* ---- both at once ---- */

struct reader {
    wherry_context_desc desc;
    wherry_context *context; /* the thread's that reads, as errors and the account of time are */
    const struct options *options;
    wherry_model *model;
    wherry_status status;
    char problem[1024];
};

static void read_model(void *user)
{
    struct reader *r = user;
    r->status = wherry_context_create(&r->desc, &r->context);
    if (r->status) {
        snprintf(r->problem, sizeof r->problem, "can't start");
        return;
    }
    r->status = open_folder(r->context, r->options, &r->model);
    if (r->status) snprintf(r->problem, sizeof r->problem, "%s", wherry_last_error(r->context));
}

int tool_open_model_and_device(struct tool *tool)
{
    const struct options *options = tool->options;
    wherry_context_desc desc = context_desc(options);
    if (!options->model || options->config) {
        int code = tool_open_model(tool);
        return code ? code : tool_open_device(tool);
    }
    desc.cache_dir = ""; /* it needs none, and the other context has said what is wrong with it */
    struct reader reader = {.desc = desc, .options = options};
    struct task *task = task_start(read_model, &reader);
    if (!task) read_model(&reader);
    wherry_status status = wherry_device_open(tool->context, options->device, &tool->device);
    task_join(task);
    tool->model_context = reader.context;
    tool->model = reader.model;
    int code = describe_model(tool, reader.problem, reader.status);
    return code ? code : describe_device(tool, status);
}

/* ---- session ---- */

/* Also where no terminal is: a driver may take minutes. */
static void announce_compiling(const struct tool *tool, size_t kernels)
{
    const char *folder = tool->options->cache;
    if (tool->options->quiet) return;
    if (folder && !*folder)
        complain(0, "compiling %zu kernels for %s (each time: there is no cache)", kernels, tool->device_info.id);
    else
        complain(0, "compiling %zu kernels for %s (once; kept in %s)", kernels, tool->device_info.id,
                 folder ? folder : "the user's cache folder");
}

static bool prepare_progress(const char *what, size_t done, size_t total, void *user)
{
    if (what && !strcmp(what, "compile")) announce_compiling(user, total);
    progress_show("preparing: %s, %zu of %zu", what ? what : "", done, total);
    return !system_stopped();
}

const char *tool_kernels(const struct tool *tool)
{
    return tool->options->kernels ? choice_name(KERNEL_CHOICES, tool->options->kernels) : NULL;
}

int tool_plan_session(struct tool *tool, const char *plan, wherry_session_desc desc)
{
    desc.struct_size = sizeof desc;
    desc.plan = plan;
    desc.kernels = tool_kernels(tool);
    desc.layouts = tool->options->orders;
    if (!desc.tuning) desc.tuning = tool->options->tuning;
    if (!desc.memory_budget) desc.memory_budget = tool->options->memory_budget;
    tool->plan = (wherry_session_plan){.struct_size = sizeof tool->plan};
    tool->prepared = (wherry_prepare_info){.struct_size = sizeof tool->prepared};
    wherry_status status = wherry_session_create(tool->context, tool->device, tool->model, &desc, &tool->session);
    if (!status) status = wherry_session_query(tool->session, &tool->plan);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

int tool_open_session(struct tool *tool, const char *plan, wherry_session_desc desc)
{
    int code = tool_plan_session(tool, plan, desc);
    if (code) return code;
    progress_start(tool->options);
    wherry_status status = wherry_session_prepare(tool->session, prepare_progress, tool, &tool->prepared);
    progress_end();
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

void tool_close_session(struct tool *tool)
{
    wherry_session_destroy(tool->session);
    tool->session = NULL;
}

void tool_close(struct tool *tool)
{
    progress_end();
    tool_close_session(tool);
    wherry_model_close(tool->model);
    wherry_device_close(tool->device);
    wherry_context_destroy(tool->model_context);
    wherry_context_destroy(tool->context);
    *tool = (struct tool){.options = tool->options};
}

/* ---- descriptions ---- */

void tool_notes(const struct tool *tool, struct output *out)
{
    const char *note;
    for (size_t n = 0; (note = wherry_session_note(tool->session, n)) != NULL; n++) {
        if (out)
            output_format(out, "note: %s\n", note);
        else
            complain(0, "note: %s", note);
    }
}

json_t *text_json(const char *text)
{
    size_t size = strlen(text);
    char *repaired = need(malloc(3 * size + 1));
    json_t *value = need(json_stringn(repaired, repair_utf8(text, size, repaired)));
    free(repaired);
    return value;
}

json_t *notes_json(const struct tool *tool)
{
    json_t *list = need(json_array());
    const char *note;
    for (size_t n = 0; (note = wherry_session_note(tool->session, n)) != NULL; n++)
        json_array_append_new(list, text_json(note));
    return list;
}

json_t *device_json(const wherry_device_info *info)
{
    char uuid[33];
    bool any = false;
    struct text_writer digits = text_begin(uuid, sizeof uuid);
    for (size_t n = 0; n < sizeof info->uuid; n++) any |= info->uuid[n] != 0;
    text_hex(&digits, info->uuid, sizeof info->uuid);
    return need(json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:b, s:o, s:I, s:s, s:o, s:o*}", "id",
                          text_json(info->id), "name", text_json(info->name), "driver", text_json(info->driver), "api",
                          text_json(info->api), "type", device_type_name(info->type), "uuid",
                          any ? json_string(uuid) : json_null(), "usable", info->usable, "compiles_only",
                          info->compiles_only, "reason", info->usable ? json_null() : text_json(info->reason),
                          "memory_bytes", (json_int_t)info->memory_bytes, "class", info->device_class, "quirks",
                          text_json(info->quirks), "priority", *info->priority ? text_json(info->priority) : NULL));
}

json_t *model_json(const struct tool *tool)
{
    const struct options *options = tool->options;
    const wherry_model_info *info = &tool->model_info;
    const wherry_model_config *config = &info->config;
    return need(json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "source",
                          text_json(options->model ? options->model : options->config), "architecture",
                          text_json(info->architecture), "layers", (json_int_t)config->layers, "hidden",
                          (json_int_t)config->hidden, "heads", (json_int_t)config->heads, "feed_forward",
                          (json_int_t)config->feed_forward, "vocabulary", (json_int_t)config->vocabulary, "positions",
                          (json_int_t)config->positions, "parameters", (json_int_t)info->parameters,
                          "weight_file_bytes", (json_int_t)info->weight_file_bytes, "max_tokens",
                          (json_int_t)info->max_tokens, "pool", pool_name(info->pool)));
}

json_t *session_json(const struct tool *tool)
{
    const wherry_session_plan *plan = &tool->plan;
    json_t *value = need(
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "plan", plan->plan,
                  "dtype", dtype_name(plan->dtype), "device_bytes", (json_int_t)plan->device_bytes, "weight_bytes",
                  (json_int_t)plan->weight_bytes, "activation_bytes", (json_int_t)plan->activation_bytes, "saved_bytes",
                  (json_int_t)plan->saved_bytes, "groups", (json_int_t)plan->groups, "launches",
                  (json_int_t)plan->launches, "operators", (json_int_t)plan->operators, "splits",
                  (json_int_t)plan->splits, "embedding_size", (json_int_t)plan->embedding_size, "kernels",
                  (json_int_t)tool->prepared.kernels, "kernels_compiled", (json_int_t)tool->prepared.kernels_compiled,
                  "prepare_seconds", tool->prepared.seconds, "notes", notes_json(tool)));
    if (*plan->layouts) json_object_set_new(value, "layouts", json_string(plan->layouts));
    if (plan->weights) json_object_set_new(value, "weights", json_string(weights_name(plan->weights)));
    return value;
}

const char *tool_commit(void) { return WHERRY_GIT; }

json_t *run_json(const struct options *options)
{
    char date[32] = "";
    time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    if (utc) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", utc);
    const char *commit = tool_commit();
    json_t *line = need(json_array());
    for (int n = 0; n < options->argc; n++) json_array_append_new(line, text_json(options->argv[n]));
    return need(json_pack("{s:s, s:o, s:s, s:o}", "library", wherry_version_string(), "commit",
                          *commit ? json_string(commit) : json_null(), "date", date, "command_line", line));
}

/* ---- random batches ---- */

int random_batch_create(const struct tool *tool, const uint32_t *lengths, uint32_t count, struct random_batch *out)
{
    *out = (struct random_batch){0};
    uint32_t limit = tool->model_info.max_tokens, vocabulary = tool->model_info.config.vocabulary;
    uint64_t tokens = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (lengths[s] > limit)
            return complain(EXIT_USAGE, "a sequence of %u tokens is too long: this model takes at most %u", lengths[s],
                            limit);
        tokens += lengths[s];
        if (lengths[s] > out->longest) out->longest = lengths[s];
    }
    if (tokens > INT32_MAX) return complain(EXIT_USAGE, "the batch has %.0f tokens: too many", (double)tokens);
    out->tokens = (uint32_t)tokens;
    out->offsets = need(malloc(((size_t)count + 1) * sizeof *out->offsets));
    out->ids = need(malloc((size_t)tokens * sizeof *out->ids));
    out->offsets[0] = 0;
    for (uint32_t s = 0; s < count; s++) out->offsets[s + 1] = out->offsets[s] + lengths[s];
    uint64_t state = 0x9E3779B97F4A7C15u * (tool->options->seed ? tool->options->seed : 1);
    for (size_t n = 0; n < tokens; n++) { /* xorshift64: every id as likely as the next */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out->ids[n] = (int32_t)((state >> 32) * vocabulary >> 32);
    }
    out->batch =
        (wherry_batch){.struct_size = sizeof out->batch, .sequences = count, .offsets = out->offsets, .ids = out->ids};
    return EXIT_FINE;
}

void random_batch_destroy(struct random_batch *batch)
{
    free(batch->offsets);
    free(batch->ids);
    *batch = (struct random_batch){0};
}

json_t *lengths_json(const struct random_batch *batch)
{
    json_t *list = need(json_array());
    for (uint32_t s = 0; s < batch->batch.sequences; s++)
        json_array_append_new(list, json_integer(batch->offsets[s + 1] - batch->offsets[s]));
    return list;
}
