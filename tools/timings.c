/* Where the time goes from a command's start to its first result: a table whose parts add up to all of it. */
#include "timings.h"

#include <string.h>
#include <wherry/wherry_measure.h>

enum { PARTS_ROOM = 64 };

/* What the model's own context did beside: its files, read while the device was opened. Returns how many parts. */
static size_t parts_beside(const struct tool *tool, wherry_part out[PARTS_ROOM])
{
    wherry_part parts[PARTS_ROOM];
    size_t count = PARTS_ROOM, n = 0;
    if (!tool->model_context || wherry_context_parts(tool->model_context, parts, &count)) return 0;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, "model files") || !strcmp(parts[i].name, "tokenizer")) out[n++] = parts[i];
    return n;
}

static void print_table(const struct tool *tool, const wherry_part *parts, size_t count, const wherry_part *sum)
{
    wherry_part beside[PARTS_ROOM];
    size_t n_beside = parts_beside(tool, beside);
    fprintf(stderr, "%-24s%10s%14s\n", "part", "ms", "processor ms");
    for (size_t n = 0; n < count; n++)
        if (parts[n].seconds >= 5e-6) /* what prints as more than 0.00 */
            fprintf(stderr, "%-24s%10.2f%14.2f\n", parts[n].name, 1e3 * parts[n].seconds,
                    1e3 * parts[n].processor_seconds);
    fprintf(stderr, "%-24s%10.2f%14.2f\n", sum->name, 1e3 * sum->seconds, 1e3 * sum->processor_seconds);
    for (size_t n = 0; n < n_beside; n++)
        fprintf(stderr, "%s%-17s%10.2f\n", "beside ", beside[n].name, 1e3 * beside[n].seconds);
}

static void print_json(const struct tool *tool, const wherry_part *parts, size_t count, const wherry_part *sum)
{
    wherry_part besides[PARTS_ROOM];
    size_t n_beside = parts_beside(tool, besides);
    json_t *list = need(json_array()), *beside = need(json_array());
    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, need(json_pack("{s:s, s:f, s:f}", "part", parts[n].name, "seconds",
                                                   parts[n].seconds, "processor_seconds", parts[n].processor_seconds)));
    for (size_t n = 0; n < n_beside; n++)
        json_array_append_new(beside,
                              need(json_pack("{s:s, s:f}", "part", besides[n].name, "seconds", besides[n].seconds)));
    json_t *object =
        need(json_pack("{s:o, s:s, s:I, s:f, s:f, s:o, s:o, s:o}", "device", device_json(&tool->device_info), "dtype",
                       dtype_name(tool->plan.dtype), "kernels_compiled", (json_int_t)tool->prepared.kernels_compiled,
                       "seconds", sum->seconds, "processor_seconds", sum->processor_seconds, "parts", list, "beside",
                       beside, "run", run_json(tool->options)));
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
        print_table(tool, parts, count, &sum);
    progress_start(tool->options);
}
