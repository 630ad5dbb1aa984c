/* `wherry compile`: the program that a process which compiles apart starts (wherry_context_desc.compiler). */
#include <stdio.h>
#include <wherry/wherry_compile.h>

#include "commands.h"
#include "session.h"

/* Whoever waits reads each line when it is written: one call, so that lines of several threads do not mix. */
static void write_line(const char *line, void *user)
{
    (void)user;
    fputs(line, stdout);
    fflush(stdout);
}

int compile_command(const struct options *options)
{
    struct tool tool;
    int code = tool_open_context(&tool, options);
    if (!code) {
        wherry_status status = wherry_compile_list(tool.context, options->file, write_line, NULL);
        if (status) code = tool_error(&tool, status, NULL);
    }
    tool_close(&tool);
    return code;
}
