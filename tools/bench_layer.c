/* `wherry bench layer`: the time of the two passes of training through a stack of layers, and of each of their groups,
 * against the device's ceilings. */
#include "bench_run.h"
#include "commands.h"
#include "layer.h"

int bench_layer_command(const struct options *options)
{
    static const uint32_t usual[] = {512, 512, 512, 512, 512, 512, 512, 512}; /* the paper's batch */
    struct tool tool;
    struct layer layer = {.batch = {.tokens = 0}};
    if (!bench_run_asked(options)) return EXIT_USAGE;
    int code = tool_open_context(&tool, options);
    if (!code) code = layer_open(&tool, true, usual, sizeof usual / sizeof *usual, &layer);
    if (!code) code = tool_open_device(&tool);
    if (!code) {
        struct bench_run run = {.tool = &tool,
                                .batch = &layer.batch,
                                .training = &layer.training,
                                .cold = !options->caches || options->caches == CACHES_BOTH};
        code = bench_run(&run, workload_json(&tool, &layer.batch, "layer", layer_json(&tool, &layer)));
    }
    layer_close(&layer);
    tool_close(&tool);
    return code;
}
