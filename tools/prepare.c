/* `wherry prepare`: compiles what sessions of a model run, so that the cache has it, and tells what each kernel takes;
 * or writes what would be compiled. */
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry_compile.h>

#include "base/text.h"
#include "commands.h"
#include "dump.h"
#include "layer.h"
#include "system.h"

struct preparation {
    struct tool tool;
    struct layer layer; /* limits of the sessions; what --train says */
    const struct random_batch *limits;
    const wherry_training_desc *training; /* NULL: inference */
    struct dump dump;
    struct output out;
    json_t *sessions; /* NULL: tables */
};

/* ---- the device ---- */

static int complain_target(const char *name)
{
    char names[600];
    struct text_writer t = text_begin(names, sizeof names);
    const wherry_target *target;
    for (size_t n = 0; (target = wherry_target_at(n)); n++) text_add(&t, "%s%s", n ? ", " : "", target->name);
    return complain(EXIT_USAGE, "there is no target \"%.40s\": there are %s", name, names);
}

static int open_device(struct preparation *p)
{
    struct tool *tool = &p->tool;
    const struct options *options = tool->options;
    if (!options->target) return tool_open_device(tool);
    if (options->device) return complain(EXIT_USAGE, "give --device or --target, not both");
    if (!options->dump)
        return complain(EXIT_USAGE, "a target is no device that is here: its programs can be written, with --dump");
    wherry_status status = wherry_device_open_target(tool->context, options->target, &tool->device);
    if (status == WHERRY_STATUS_NO_DEVICE) return complain_target(options->target);
    if (!status) status = wherry_device_describe(tool->device, &tool->device_info);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

/* ---- sessions ---- */

static int prepare_one(struct preparation *p, int plan, wherry_dtype dtype)
{
    struct tool *tool = &p->tool;
    wherry_session_desc desc = {.max_tokens = p->limits->tokens,
                                .max_sequences = p->limits->batch.sequences,
                                .max_length = p->limits->longest,
                                .dtype = dtype,
                                .training = p->training};
    int code = tool_plan_session(tool, plan_name(plan), desc);
    if (code && tool->failure == WHERRY_STATUS_UNSUPPORTED && tool->options->dtype == DTYPE_ALL) return EXIT_FINE;
    if (!code) code = dump_session(&p->dump, tool);
    return code;
}

static int prepare_all(struct preparation *p)
{
    const struct options *options = p->tool.options;
    int choice = options->plan ? options->plan : 1, all = options->dtype == DTYPE_ALL;
    int first = choice == PLAN_ALL ? 1 : choice, last = choice == PLAN_ALL ? PLAN_ALL - 1 : choice;
    for (int plan = first; plan <= last; plan++)
        for (int dtype = all ? WHERRY_DTYPE_F32 : options->dtype; dtype <= (all ? WHERRY_DTYPE_F16 : options->dtype);
             dtype++) {
            int code = prepare_one(p, plan, (wherry_dtype)dtype);
            tool_close_session(&p->tool);
            if (code) return code;
            if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        }
    return EXIT_FINE;
}

static int open_all(struct preparation *p)
{
    const struct options *options = p->tool.options;
    static const uint32_t usual[] = {512, 512, 512, 512, 512, 512, 512, 512};
    int code = tool_open_context(&p->tool, options);
    if (!code) code = layer_open(&p->tool, options->train, usual, sizeof usual / sizeof *usual, &p->layer);
    p->limits = &p->layer.batch;
    if (options->train) p->training = &p->layer.training;
    if (!code) code = open_device(p);
    if (!code && options->dump) code = dump_begin(&p->dump, options->dump);
    return code;
}

int prepare_command(const struct options *options)
{
    struct preparation p = {.tool = {.options = options}};
    int code = open_all(&p);
    if (!code) code = prepare_all(&p);
    if (p.dump.programs) {
        int written = dump_end(&p.dump, &p.tool, code == EXIT_FINE);
        if (!code) code = written;
    }
    layer_close(&p.layer);
    tool_close(&p.tool);
    return code;
}
