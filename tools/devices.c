/* `wherry devices`: the devices of every driver, usable or with the reason why not. */
#include <stdlib.h>

#include "commands.h"
#include "session.h"

static void print_table(const wherry_device_info *infos, size_t count, struct output *out)
{
    struct table table = {.columns = "<id|~name|<type|>memory|~api, driver"};
    for (size_t n = 0; n < count; n++) {
        char memory[NUMBER_SIZE];
        table_cell(&table, "%s", infos[n].id);
        table_cell(&table, "%s", infos[n].name);
        table_cell(&table, "%s", device_type_name(infos[n].type));
        table_cell(&table, "%s", infos[n].memory_bytes ? format_bytes((double)infos[n].memory_bytes, memory) : "-");
        table_cell(&table, "%s%s%s", infos[n].api, *infos[n].api && *infos[n].driver ? ", " : "", infos[n].driver);
    }
    table_print(&table, out);
    for (size_t n = 0; n < count; n++)
        if (!infos[n].usable)
            output_format(out, "%s %s: %s\n", infos[n].id, infos[n].compiles_only ? "compiles only" : "can't be used",
                          infos[n].reason);
    for (size_t n = 0; n < count; n++)
        if (*infos[n].quirks) output_format(out, "%s, known of its driver: %s\n", infos[n].id, infos[n].quirks);
    for (size_t n = 0; n < count; n++)
        if (*infos[n].priority) output_format(out, "%s, its priority: %s\n", infos[n].id, infos[n].priority);
}

int devices_command(const struct options *options)
{
    struct tool tool;
    struct output out;
    wherry_device_info *infos = NULL;
    size_t count = 0;
    int code = tool_open_context(&tool, options);
    if (!code) {
        wherry_status status = wherry_device_list(tool.context, NULL, &count);
        if (!status) {
            infos = need(calloc(count + 1, sizeof *infos));
            status = wherry_device_list(tool.context, infos, &count);
        }
        if (status) code = tool_error(&tool, status, "can't list devices");
    }
    if (!code && !output_open(&out, options->output)) {
        code = EXIT_OUTPUT;
    } else if (!code) {
        if (options->json) {
            json_t *list = need(json_array());
            for (size_t n = 0; n < count; n++) json_array_append_new(list, device_json(&infos[n]));
            output_json(&out, need(json_pack("{s:s, s:o}", "library", wherry_version_string(), "devices", list)));
        } else {
            print_table(infos, count, &out);
        }
        if (!output_close(&out, true)) code = EXIT_OUTPUT;
    }
    free(infos);
    tool_close(&tool);
    return code;
}
