/* `wherry bench`: the time of an encode and of each of its groups, against the device's ceilings. */
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "commands.h"

int bench_batch_create(const struct tool *tool, struct random_batch *batch)
{
    const struct options *options = tool->options;
    if (options->lengths.count) {
        if (options->batch || options->seq)
            return complain(EXIT_USAGE, "give --lengths or --batch and --seq, not both");
        return random_batch_create(tool, options->lengths.values, options->lengths.count, batch);
    }
    uint32_t count = options->batch ? options->batch : 8, length = options->seq ? options->seq : 128;
    if (!options->seq && length > tool->model_info.max_tokens) length = tool->model_info.max_tokens;
    uint32_t *lengths = need(malloc(count * sizeof *lengths));
    for (uint32_t s = 0; s < count; s++) lengths[s] = length;
    int code = random_batch_create(tool, lengths, count, batch);
    free(lengths);
    return code;
}

int bench_command(const struct options *options)
{
    struct tool tool;
    struct random_batch batch = {0};
    if (!bench_run_asked(options)) return EXIT_USAGE;
    int code = tool_open_context(&tool, options);
    if (!code) code = tool_open_model(&tool);
    if (!code) code = bench_batch_create(&tool, &batch);
    if (!code) code = tool_open_device(&tool);
    if (!code) {
        struct bench_run run = {.tool = &tool, .batch = &batch, .cold = options->caches == CACHES_BOTH};
        code = bench_run(&run, workload_json(&tool, &batch, "encode", NULL));
    }
    random_batch_destroy(&batch);
    tool_close(&tool);
    return code;
}
