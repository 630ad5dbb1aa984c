/* `wherry bench --latency`: how long single requests take, from several clients at once and after a pause. */
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "commands.h"
#include "latency.h"
#include "report/derive.h"
#include "report/fields.h"
#include "report/record.h"
#include "report/write.h"
#include "system.h"

enum { IDLE_ROUNDS = 3 };

static const struct number_list usual_lengths = {.values = {20}, .count = 1},
                                usual_clients = {.values = {1, 4, 16}, .count = 3};

static const struct number_list *given_or(const struct number_list *given, const struct number_list *usual)
{
    return given->count ? given : usual;
}

static int check_options(const struct options *options)
{
    if (options->requests && options->seconds > 0)
        return complain(EXIT_USAGE, "give --seconds or --requests, not both");
    if (options->clients.count > RECORD_LOADS)
        return complain(EXIT_USAGE, "--clients takes at most %d numbers here: a record has no more loads",
                        RECORD_LOADS);
    return report_format(options) ? EXIT_FINE : EXIT_USAGE;
}

/* ---- the record ---- */

static json_t *load_entry(const struct load *load)
{
    const struct record_load entry = {.clients = load->clients,
                                      .warm_seconds = load->warm_seconds,
                                      .seconds = load->seconds,
                                      .waited_seconds = load->waited,
                                      .histogram = (struct histogram *)&load->histogram};
    return load_json(&entry);
}

static json_t *begin_record(const struct latency *l)
{
    const struct tool *tool = l->tool;
    wherry_device_limits limits = {.struct_size = sizeof limits};
    bool known = !wherry_device_query(tool->device, &limits);
    const struct measured_device device = {.info = &tool->device_info, .limits = known ? &limits : NULL};
    json_t *workload = workload_json(tool, l->batch, "latency", NULL);
    json_object_set_new(workload, "dtype", need(json_string(dtype_name(tool->plan.dtype))));
    json_object_set_new(workload, "requests",
                        need(json_pack("{s:b, s:s}", "tokenized", (int)tool->model_info.has_tokenizer, "sessions",
                                       l->per_client ? "per-client" : "shared")));
    json_t *record = record_begin(record_run(tool->options, "uniform"), record_device(&device), workload);
    json_object_set_new(record, "session", session_json(tool));
    json_object_set_new(record, "loads", need(json_array()));
    json_object_set_new(record, "idle", need(json_array()));
    return record;
}

static int write_record(const struct options *options, json_t *tree)
{
    struct record record;
    record_open(tree, &record);
    record_derive(&record);
    record_write(&record);
    int code = report_write_one(options, &record);
    record_close(&record);
    return code;
}

/* ---- measuring ---- */

static int measure_loads(struct latency *l, json_t *record)
{
    const struct options *options = l->tool->options;
    const struct number_list *clients = given_or(&options->clients, &usual_clients);
    double warm = options->warm >= 0 ? options->warm : 0.5;
    double seconds = options->requests ? 0 : options->seconds > 0 ? options->seconds : 5;
    struct load *load = need(malloc(sizeof *load)); /* large for a stack */
    int code = EXIT_FINE;
    for (uint32_t n = 0; n < clients->count && !code; n++) {
        code = latency_load(l, clients->values[n], warm, seconds, options->requests, load);
        if (!code) json_array_append_new(json_object_get(record, "loads"), load_entry(load));
    }
    free(load);
    return code;
}

static int measure_idle(struct latency *l, json_t *record)
{
    double idle = l->tool->options->idle < 0 ? 10 : l->tool->options->idle, seconds;
    int code = EXIT_FINE;
    for (int n = 0; n < IDLE_ROUNDS && idle > 0 && !code; n++) {
        code = latency_idle(l, idle, &seconds);
        const struct record_idle entry = {.idle_seconds = idle, .seconds = seconds};
        if (!code) json_array_append_new(json_object_get(record, "idle"), idle_json(&entry));
    }
    return code;
}

static int measure(struct latency *l)
{
    const struct number_list *clients = given_or(&l->tool->options->clients, &usual_clients);
    uint32_t most = 1;
    for (uint32_t n = 0; n < clients->count; n++) most = clients->values[n] > most ? clients->values[n] : most;
    int code = latency_open(l, most);
    if (code) return code;
    json_t *record = begin_record(l);
    code = measure_loads(l, record);
    if (!code) code = measure_idle(l, record);
    if (!code) code = write_record(l->tool->options, record);
    json_decref(record);
    return code;
}

int bench_latency_command(const struct options *options)
{
    const struct number_list *lengths = given_or(&options->lengths, &usual_lengths);
    struct tool tool;
    struct random_batch batch = {0};
    int code = check_options(options);
    if (code) return code;
    code = tool_open_context(&tool, options);
    if (!code) code = tool_open_model(&tool);
    if (!code) code = random_batch_create(&tool, lengths->values, lengths->count, &batch);
    if (!code) code = tool_open_device(&tool);
    if (!code) {
        struct latency latency = {
            .tool = &tool, .batch = &batch, .per_client = options->sessions == SESSIONS_PER_CLIENT};
        code = measure(&latency);
        latency_close(&latency);
    }
    random_batch_destroy(&batch);
    tool_close(&tool);
    return code;
}
