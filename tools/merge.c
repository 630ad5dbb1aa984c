/* `wherry merge`: a model with its adapter, as a model. */
#include "commands.h"
#include "session.h"

static int merge(struct tool *tool)
{
    const struct options *options = tool->options;
    if (!options->adapter) return complain(EXIT_USAGE, "an adapter is missing: --adapter FOLDER");
    if (!options->out) return complain(EXIT_USAGE, "a place for the model is missing: --out FOLDER");
    int code = tool_open_context(tool, options);
    if (!code) code = tool_open_model(tool);
    if (code) return code;
    wherry_status status = wherry_model_save(tool->context, tool->model, options->out);
    if (!status) return EXIT_FINE;
    code = tool_error(tool, status, NULL);
    return status == WHERRY_STATUS_IO || status == WHERRY_STATUS_INVALID_ARGUMENT ? EXIT_OUTPUT : code;
}

int merge_command(const struct options *options)
{
    struct tool tool = {.options = options};
    int code = merge(&tool);
    tool_close(&tool);
    return code;
}
