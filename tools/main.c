/* The `wherry` command: finds the command that was named and ends with its exit code. */
#include <string.h>

#include "commands.h"
#include "inputs.h"
#include "names.h"
#include "options.h"
#include "serve_start.h"
#include "session.h"
#include "system.h"

static const char *command_name(size_t n, const void *user)
{
    (void)user;
    return n < commands_count ? commands[n].name : NULL;
}

static int print_help(const struct command *command)
{
    struct output out;
    if (!output_open(&out, NULL)) return EXIT_OUTPUT;
    help_print(command, &out);
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

static int print_version(void)
{
    struct output out;
    if (!output_open(&out, NULL)) return EXIT_OUTPUT;
    output_format(&out, "wherry %d.%d.%d (library %s", WHERRY_VERSION_MAJOR, WHERRY_VERSION_MINOR, WHERRY_VERSION_PATCH,
                  wherry_version_string());
    if (*tool_commit()) output_format(&out, ", commit %s", tool_commit());
    output_text(&out, ")\n");
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

static int unknown_command(const char *word)
{
    const char *near = nearest_name(word, command_name, NULL);
    if (near) return complain(EXIT_USAGE, "there is no command \"%s\"; did you mean \"%s\"?", word, near);
    return complain(EXIT_USAGE, "there is no command \"%s\"; see wherry --help", word);
}

int main(int argc, char **argv)
{
    system_init();
    if (argc < 2)
        return complain(
            EXIT_USAGE,
            "a command is missing: devices, models, embed, rerank, classify, fill, train, analyze, roof, bench, tune, "
            "report, verify, serve or demo; see wherry --help");
    const char *word = argv[1];
    int words;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return print_help(NULL);
    if (strcmp(word, "--version") == 0) return print_version();
    if (strcmp(word, "help") == 0) {
        if (argc == 2) return print_help(NULL);
        const struct command *about = command_find(argc - 2, argv + 2, &words);
        return about ? print_help(about) : unknown_command(argv[2]);
    }
    const struct command *command = command_find(argc - 1, argv + 1, &words);
    if (!command) return unknown_command(word);
    if (command->bit == SERVE) { /* its options are the other program's */
        argv[1] = argv[0];
        return serve_start(argv + 1);
    }
    struct options options;
    if (!options_parse(command, argc - 1 - words, argv + 1 + words, &options)) return EXIT_USAGE;
    if (options.help) return print_help(command);
    if (!output_check(options.output)) return *options.output ? EXIT_OUTPUT : EXIT_USAGE;
    if (!inputs_kept(&options)) return EXIT_USAGE;
    options.argc = argc;
    options.argv = argv;
    return command->run(&options);
}
