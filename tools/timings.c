/* Where the time goes from a command's start to its first result: a table whose parts add up to all of it. */
#include "timings.h"

#include <wherry/wherry_measure.h>

enum { PARTS_ROOM = 64 };

static void print_table(const wherry_part *parts, size_t count, const wherry_part *sum)
{
    fprintf(stderr, "%-24s%10s%14s\n", "part", "ms", "processor ms");
    for (size_t n = 0; n < count; n++)
        if (parts[n].seconds >= 5e-6) /* what prints as more than 0.00 */
            fprintf(stderr, "%-24s%10.2f%14.2f\n", parts[n].name, 1e3 * parts[n].seconds,
                    1e3 * parts[n].processor_seconds);
    fprintf(stderr, "%-24s%10.2f%14.2f\n", sum->name, 1e3 * sum->seconds, 1e3 * sum->processor_seconds);
}

static void print_json(const struct tool *tool, const wherry_part *parts, size_t count, const wherry_part *sum)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, need(json_pack("{s:s, s:f, s:f}", "part", parts[n].name, "seconds",
                                                   parts[n].seconds, "processor_seconds", parts[n].processor_seconds)));
    json_t *object = need(json_pack(
        "{s:o, s:s, s:I, s:f, s:f, s:o, s:o}", "device", device_json(&tool->device_info), "dtype",
        dtype_name(tool->plan.dtype), "kernels_compiled", (json_int_t)tool->prepared.kernels_compiled, "seconds",
        sum->seconds, "processor_seconds", sum->processor_seconds, "parts", list, "run", run_json(tool->options)));
    json_dumpf(object, stderr, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', stderr);
    json_decref(object);
}

void timings_print(struct tool *tool)
{
    wherry_part parts[PARTS_ROOM], sum = {.name = "to the first result"};
    size_t count = PARTS_ROOM;
    if (wherry_context_parts(tool->context, parts, &count)) return;
    for (size_t n = 0; n < count; n++) {
        sum.seconds += parts[n].seconds;
        sum.processor_seconds += parts[n].processor_seconds;
    }
    progress_end();
    if (tool->options->json)
        print_json(tool, parts, count, &sum);
    else
        print_table(parts, count, &sum);
    progress_start(tool->options);
}
