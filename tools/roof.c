/* `wherry roof`: what a device reaches when it only copies, only computes, only launches. */
#include <math.h>
#include <string.h>

#include "commands.h"
#include "report/derive.h"
#include "report/format.h"
#include "report/record.h"
#include "report/write.h"
#include "session.h"
#include "system.h"

struct roof_tool {
    struct tool tool;
    wherry_roof *roof;
    wherry_device_limits limits;
    const char *data_kind;
};

static bool show_progress(const char *what, size_t done, size_t total, void *user)
{
    (void)user;
    progress_show("measuring %s: %zu of %zu", what, done, total);
    return !system_stopped();
}

static int measure(struct roof_tool *r)
{
    const struct options *options = r->tool.options;
    const wherry_roof_desc desc = {.struct_size = sizeof desc,
                                   .repeats = options->repeats,
                                   .warm_seconds = options->warm > 0 ? options->warm : 0,
                                   .zeros = options->data == DATA_ZEROS,
                                   .only = options->only};
    r->data_kind = desc.zeros ? "zeros" : "uniform";
    r->limits = (wherry_device_limits){.struct_size = sizeof r->limits};
    progress_start(options);
    wherry_status status = wherry_roof_measure(r->tool.device, &desc, show_progress, NULL, &r->roof);
    progress_end();
    if (!status) status = wherry_device_query(r->tool.device, &r->limits);
    return status ? tool_error(&r->tool, status, NULL) : EXIT_FINE;
}

/* ---- the table ---- */

/* "4.18 TB/s", "60.1 Tflop/s", "2.50 us". */
static const char *format_ceiling(wherry_unit unit, double value, char text[NUMBER_SIZE])
{
    static const char *const units[] = {"B/s", "flop/s", "s"};
    return format_unit(value, units[unit], text);
}

/* The value at another time than the median. */
static double value_at(const wherry_ceiling *c, double seconds)
{
    return c->unit == WHERRY_UNIT_SECONDS ? seconds : c->value * c->time.median / seconds;
}

static void print_ceilings(const struct roof_tool *r, struct output *out)
{
    size_t count;
    const wherry_ceiling *list = wherry_roof_ceilings(r->roof, &count);
    bool peak = r->tool.options->peak_bandwidth > 0;
    struct table table = {.columns =
                              peak ? "<ceiling|>median|>p05|>p95|>of peak|~by" : "<ceiling|>median|>p05|>p95|~by"};
    for (size_t n = 0; n < count; n++) {
        const wherry_ceiling *c = &list[n];
        char text[NUMBER_SIZE];
        if (!c->best) continue;
        double low = value_at(c, c->time.p95), high = value_at(c, c->time.p05);
        bool rate = c->unit != WHERRY_UNIT_SECONDS;
        table_cell(&table, "%s", c->id);
        table_cell(&table, "%s", format_ceiling(c->unit, c->value, text));
        table_cell(&table, "%s", format_ceiling(c->unit, rate ? low : high, text));
        table_cell(&table, "%s", format_ceiling(c->unit, rate ? high : low, text));
        if (peak && strncmp(c->id, "dram.", 5) == 0)
            table_cell(&table, "%.1f %%", 100 * c->value / (1e9 * r->tool.options->peak_bandwidth));
        else if (peak)
            table_cell(&table, "-");
        table_cell(&table, "%s", c->config);
    }
    table_print(&table, out);
}

static void print_sweep(const struct roof_tool *r, struct output *out)
{
    enum { BAR = 40 };
    size_t count;
    char bytes[NUMBER_SIZE], rate[NUMBER_SIZE];
    double most = 0;
    const wherry_roof_point *points = wherry_roof_sweep(r->roof, &count);
    uint64_t edge = wherry_roof_cache_bytes(r->roof);
    if (!count) return;
    for (size_t n = 0; n < count; n++) most = fmax(most, (double)points[n].bytes / points[n].time.median);
    output_text(out, "\n");
    struct table table = {.columns = ">working set|>copy|<"};
    for (size_t n = 0; n < count; n++) {
        static const char bar[BAR + 1] = "########################################";
        double value = (double)points[n].bytes / points[n].time.median;
        table_cell(&table, "%s", format_bytes((double)points[n].bytes, bytes));
        table_cell(&table, "%s", format_ceiling(WHERRY_UNIT_BYTES, value, rate));
        table_cell(&table, "%.*s%s", (int)(BAR * value / most), bar, points[n].bytes == edge ? " edge" : "");
    }
    table_print(&table, out);
    if (edge)
        output_format(out, "the last cache holds a working set of %s\n", format_bytes((double)edge, bytes));
    else
        output_text(out, "no edge of a cache in these working sets\n");
}

static void print_head(const struct roof_tool *r, struct output *out)
{
    const struct tool *tool = &r->tool;
    const wherry_timer_info *timer = wherry_roof_timer(r->roof);
    wherry_time first, last;
    wherry_roof_sentinel(r->roof, &first, &last);
    output_format(out, "%s (%.60s)\n", tool->device_info.id, tool->device_info.name);
    output_format(out, "%.60s, driver %.60s\n", tool->device_info.api, tool->device_info.driver);
    output_format(out, "timer %s (%s)", wherry_timer_status_name(timer->status), timer->kind);
    if (isfinite(timer->slope)) output_format(out, ", %.4f s in a second of the host's clock", timer->slope);
    output_text(out, "\n");
    if (*timer->reason) output_format(out, "! %s: times are the host's\n", timer->reason);
    if (first.n && last.n)
        output_format(out, "data %s; drift of a copy from first to last %+.1f %%\n", r->data_kind,
                      100 * (last.median / first.median - 1));
    if (first.n && last.n && fabs(last.median / first.median - 1) > 0.03)
        output_text(out, "! the device drifted by more than 3 %: measure again\n");
    output_text(out, "\n");
}

/* ---- the command ---- */

static int report_roof(const struct roof_tool *r)
{
    const struct options *options = r->tool.options;
    struct record record;
    bool peak = options->peak_bandwidth > 0;
    const struct measured_device device = {.info = &r->tool.device_info,
                                           .limits = &r->limits,
                                           .timer = wherry_roof_timer(r->roof),
                                           .cache_bytes = wherry_roof_cache_bytes(r->roof),
                                           .peak_bandwidth = peak ? 1e9 * options->peak_bandwidth : 0,
                                           .peak_source = peak ? "user" : NULL};
    json_t *tree = record_begin(record_run(options, r->data_kind), record_device(&device),
                                need(json_pack("{s:s}", "kind", "roof")));
    record_set_roof(tree, r->roof, r->data_kind);
    record_open(tree, &record);
    record_derive(&record);
    record_write(&record);
    int code = report_write_one(options, &record);
    record_close(&record);
    json_decref(tree);
    return code;
}

static int run(struct roof_tool *r)
{
    const struct options *options = r->tool.options;
    struct output out;
    if (report_format(options) != REPORT_TEXT) return report_roof(r);
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    print_head(r, &out);
    print_ceilings(r, &out);
    print_sweep(r, &out);
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

int roof_command(const struct options *options)
{
    struct roof_tool r = {.roof = NULL};
    if (!report_format(options)) return EXIT_USAGE;
    int code = tool_open_context(&r.tool, options);
    if (!code) code = tool_open_device(&r.tool);
    if (!code) code = measure(&r);
    if (!code) code = run(&r);
    wherry_roof_destroy(r.roof);
    tool_close(&r.tool);
    return code;
}
