/* `wherry demo`: what a person wants to see first: devices, nearest sentences, speed, and where time and bytes go. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "costs.h"
#include "session.h"
#include "system.h"
#include "texts.h"

struct demo {
    struct tool tool;
    struct text_source source;
    struct text_batch batch;
    struct output out;
    char **texts;
    float *vectors; /* [count, size], of length 1 */
    size_t count, room, size;
    uint64_t tokens;
    wherry_cost *groups; /* of the first batch */
    size_t groups_count;
    double step_seconds;
    uint32_t step_tokens, step_sequences;
};

static int show_devices(struct demo *d)
{
    size_t count = 0;
    wherry_status status = wherry_device_list(d->tool.context, NULL, &count);
    if (status) return tool_error(&d->tool, status, NULL);
    wherry_device_info *infos = need(calloc(count + 1, sizeof *infos));
    status = wherry_device_list(d->tool.context, infos, &count);
    struct table table = {.columns = "<|<device|~name|<type|~"};
    for (size_t n = 0; n < count && !status; n++) {
        table_cell(&table, "%s", strcmp(infos[n].id, d->tool.device_info.id) == 0 ? "*" : " ");
        table_cell(&table, "%s", infos[n].id);
        table_cell(&table, "%s", infos[n].name);
        table_cell(&table, "%s", device_type_name(infos[n].type));
        table_cell(&table, "%s", infos[n].usable ? infos[n].api : infos[n].reason);
    }
    free(infos);
    if (status) return tool_error(&d->tool, status, NULL);
    output_text(&d->out, "Devices found\n");
    table_print(&table, &d->out);
    const wherry_device_info *used = &d->tool.device_info;
    const char *why = d->tool.options->device              ? "as asked for"
                      : strcmp(used->id, "reference") == 0 ? "no driver has a usable device"
                      : strcmp(used->id, "cpu") == 0       ? "the host's cores: there is no usable GPU"
                      : used->type == WHERRY_DEVICE_CPU    ? "a CPU driver: there is no usable GPU"
                                                           : "the first usable GPU";
    output_format(&d->out, "Using %s (*), %s.\n", used->id, why);
    return EXIT_FINE;
}

/* ---- embedding ---- */

static void keep_batch(struct demo *d, const float *values)
{
    if (d->count + d->batch.sequences > d->room) {
        d->room = 2 * (d->count + d->batch.sequences);
        d->texts = need(realloc(d->texts, d->room * sizeof *d->texts));
        d->vectors = need(realloc(d->vectors, d->room * d->size * sizeof *d->vectors));
    }
    for (uint32_t s = 0; s < d->batch.sequences; s++) {
        const float *from = values + s * d->size;
        float *to = d->vectors + d->count * d->size;
        double square = 0;
        for (size_t n = 0; n < d->size; n++) square += (double)from[n] * from[n];
        double scale = square > 0 ? 1 / sqrt(square) : 0;
        for (size_t n = 0; n < d->size; n++) to[n] = (float)(from[n] * scale);
        d->texts[d->count++] = d->batch.labels[s].text;
        d->batch.labels[s].text = NULL;
    }
    d->tokens += d->batch.tokens;
}

/* Times the first batch. */
static int profile(struct demo *d, double seconds)
{
    wherry_batch view = text_batch_view(&d->batch);
    d->groups_count = d->tool.plan.groups;
    d->groups = need(calloc(d->groups_count + 1, sizeof *d->groups));
    double fit = 2 / (seconds > 1e-4 ? seconds : 1e-4);
    uint32_t repeats = fit < 1 ? 1 : fit > 50 ? 50 : (uint32_t)fit;
    wherry_status status =
        costs_measure(&d->tool, &view, WHERRY_PHASE_ALL, repeats, 0.2, d->groups, &d->groups_count, &d->step_seconds);
    if (d->groups_count > d->tool.plan.groups) d->groups_count = d->tool.plan.groups;
    d->step_tokens = d->batch.tokens;
    d->step_sequences = d->batch.sequences;
    return status ? tool_error(&d->tool, status, NULL) : EXIT_FINE;
}

static int embed_all(struct demo *d)
{
    int code = tool_open_text_session(&d->tool, &d->batch, d->batch.waiting,
                                      (wherry_session_desc){.pool = pool_choice(d->tool.options->pool)});
    if (code) return code;
    d->size = d->tool.plan.embedding_size;
    size_t room = (size_t)d->tool.plan.max_sequences * d->size;
    float *values = need(malloc(room * sizeof *values));
    progress_start(d->tool.options);
    while (!code && d->batch.sequences) {
        wherry_batch view = text_batch_view(&d->batch);
        double start = system_seconds();
        wherry_status status = wherry_encode(d->tool.session, &view, values, room);
        if (status) {
            code = tool_error(&d->tool, status, NULL);
            break;
        }
        if (!d->groups) code = profile(d, system_seconds() - start);
        keep_batch(d, values);
        progress_show("%zu sentences", d->count);
        if (!code && system_stopped()) code = complain(EXIT_STOPPED, "interrupted");
        if (!code) code = text_batch_fill(&d->batch, &d->tool, &d->source);
    }
    progress_end();
    free(values);
    return code;
}

/* ---- showing ---- */

static void show_nearest(struct demo *d)
{
    size_t shown = d->tool.options->nearest ? d->tool.options->nearest : 6;
    if (shown > d->count) shown = d->count;
    if (d->count < 2) return;
    output_text(&d->out, "\nNearest sentences (cosine similarity)\n");
    for (size_t n = 0; n < shown; n++) {
        size_t own = n * d->count / shown, best = own;
        double similarity = -2;
        for (size_t other = 0; other < d->count; other++) {
            double dot = 0;
            if (other == own) continue;
            for (size_t c = 0; c < d->size; c++)
                dot += (double)d->vectors[own * d->size + c] * d->vectors[other * d->size + c];
            if (dot <= similarity) continue;
            similarity = dot;
            best = other;
        }
        struct table table = {.columns = "<|~"}; /* clips long sentences */
        output_text(&d->out, n ? "\n" : "");
        table_cell(&table, "       ");
        table_cell(&table, "%s", d->texts[own]);
        table_cell(&table, " %6.3f", similarity);
        table_cell(&table, "%s", d->texts[best]);
        table_print(&table, &d->out);
    }
}

static void show_groups(struct demo *d)
{
    size_t kinds;
    char text[NUMBER_SIZE];
    const wherry_session_plan *plan = &d->tool.plan;
    struct cost_sum *sums = costs_merge(d->groups, d->groups_count, false, &kinds);
    struct cost_sum total = costs_total(d->groups, d->groups_count);
    struct table table = {.columns = "~group|~kernel|>times|>ms|>share|>MB|>GB/s|>flop/byte"};
    for (size_t n = 0; n <= kinds; n++) {
        const struct cost_sum *sum = n < kinds ? &sums[n] : &total;
        double bytes = sum->bytes_read + sum->bytes_written;
        table_cell(&table, "%s", n < kinds ? cost_sum_name(sum, false) : "total");
        table_cell(&table, "%s", n < kinds ? sum->first->kernel : "");
        table_cell(&table, "%u", sum->count);
        table_cell(&table, "%.3f", 1e3 * sum->seconds);
        table_cell(&table, "%s", format_ratio(100 * sum->seconds, total.seconds, "%.1f %%", text));
        table_cell(&table, "%.2f", bytes / 1e6);
        table_cell(&table, "%s", format_ratio(bytes / 1e9, sum->seconds, "%.1f", text));
        table_cell(&table, "%s", format_ratio(sum->flops, bytes, "%.1f", text));
    }
    free(sums);
    output_format(&d->out, "\nSpeed\n%u sentences, %u tokens in %.3f ms: %.0f tokens/s\n", d->step_sequences,
                  d->step_tokens, 1e3 * d->step_seconds, d->step_seconds > 0 ? d->step_tokens / d->step_seconds : 0);
    output_format(&d->out, "plan %s, %s, %u kernel launches, %u kernels (%u compiled now)\n", plan->plan,
                  dtype_name(plan->dtype), plan->groups, d->tool.prepared.kernels, d->tool.prepared.kernels_compiled);
    tool_notes(&d->tool, &d->out);
    output_text(&d->out, "\nWhere time and bytes go\n");
    table_print(&table, &d->out);
}

static int show(struct demo *d)
{
    if (!output_open(&d->out, NULL)) return EXIT_OUTPUT;
    int code = show_devices(d);
    fflush(d->out.file); /* before the work, which may take long */
    if (!code) code = embed_all(d);
    if (!code) {
        const wherry_model_config *config = &d->tool.model_info.config;
        output_format(&d->out, "\nModel: %u layers, hidden size %u, %.1f million parameters\n", config->layers,
                      config->hidden, (double)d->tool.model_info.parameters / 1e6);
        output_format(&d->out, "Embedded %zu sentences, %llu tokens; each became %zu numbers.\n", d->count,
                      (unsigned long long)d->tokens, d->size);
        show_nearest(d);
        show_groups(d);
    }
    return output_close(&d->out, true) ? code : code ? code : EXIT_OUTPUT;
}

int demo_command(const struct options *options)
{
    struct demo d = {.count = 0};
    uint32_t batch_tokens, length;
    if (!options->file) return complain(EXIT_USAGE, "a file with sentences is missing; see wherry help demo");
    if (options->pool == WHERRY_POOL_NONE)
        return complain(EXIT_USAGE, "--pool none gives no vector for a whole sentence");
    int code = tool_open_context(&d.tool, options);
    if (!code) code = text_source_open(&d.source, options->files, options->files_count, INPUT_LINES, false);
    if (!code) code = tool_open_model_and_device(&d.tool);
    if (!code) code = text_limits(&d.tool, &batch_tokens, &length);
    if (!code) {
        text_batch_create(&d.batch, batch_tokens, length);
        d.batch.truncate = d.batch.keep_texts = true;
        code = text_batch_fill(&d.batch, &d.tool, &d.source);
    }
    if (!code && !d.batch.sequences) code = complain(EXIT_INPUT, "%s has no sentences", d.source.name);
    if (!code) code = show(&d);
    for (size_t n = 0; n < d.count; n++) free(d.texts[n]);
    free(d.texts);
    free(d.vectors);
    free(d.groups);
    text_batch_destroy(&d.batch);
    text_source_close(&d.source);
    tool_close(&d.tool);
    return code;
}
