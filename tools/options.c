/* The command line: one table of options, from which parsing, help and error messages follow. */
#include "options.h"

#include <string.h>

#include "base/text.h"
#include "commands.h"
#include "complain.h"
#include "names.h"
#include "option_values.h"

/* ---- names ---- */

/* A name that nothing resembles, so that rows of other commands are passed over. */
static const char *option_name(size_t n, const void *user)
{
    const struct command *command = user;
    if (n >= option_count) return NULL;
    return option_table[n].commands & command->bit ? option_table[n].name : "................................";
}

static const struct option *option_find(const struct command *command, const char *name, size_t length, char letter)
{
    for (size_t n = 0; n < option_count; n++) {
        const struct option *o = &option_table[n];
        if (!(o->commands & command->bit)) continue;
        if (letter ? o->letter == letter : strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
    }
    return NULL;
}

static bool option_unknown(const struct command *command, const char *word)
{
    size_t length = strcspn(word, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    if (name[0] == '-' && name[1] == '-') {
        for (size_t c = 0; c < commands_count; c++)
            if (option_find(&commands[c], name + 2, strlen(name + 2), 0)) {
                complain(0, "%s is an option of wherry %s, not of wherry %s; see wherry help %s", name,
                         commands[c].name, command->name, command->name);
                return false;
            }
        const char *near = nearest_name(name + 2, option_name, command);
        if (near) {
            complain(0, "wherry %s has no option %s; did you mean --%s?", command->name, name, near);
            return false;
        }
    }
    complain(0, "wherry %s has no option %s; see wherry help %s", command->name, name, command->name);
    return false;
}

/* ---- parsing ---- */

static uint32_t operand_limit(const struct command *command)
{
    if (strstr(command->operand, "...")) return FILES_MAX;
    return !*command->operand ? 0 : strchr(command->operand, ' ') ? 2 : 1;
}

static bool operand_take(const struct command *command, const char *word, struct options *out)
{
    static const char *const numbers[] = {"no operand", "one file", "two files"};
    uint32_t limit = operand_limit(command);
    if (out->files_count < limit) {
        if (!out->file) out->file = word;
        out->files[out->files_count++] = word;
        return true;
    }
    if (limit <= 2)
        complain(0, "wherry %s takes %s; \"%s\" is one too many", command->name, numbers[limit], word);
    else
        complain(0, "wherry %s takes at most %u files", command->name, limit);
    return false;
}

bool options_parse(const struct command *command, int argc, char **argv, struct options *out)
{
    *out = (struct options){.command = command,
                            .warm = -1,
                            .dropout = -1,
                            .threshold = -1,
                            .idle = -1,
                            .warmup = -1,
                            .weight_decay = -1,
                            .momentum = -1,
                            .max_norm = -1};
    bool only_operands = false;
    for (int n = 0; n < argc; n++) {
        const char *word = argv[n], *value = NULL;
        if (only_operands || word[0] != '-' || !word[1]) {
            if (!operand_take(command, word, out)) return false;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_operands = true;
            continue;
        }
        const struct option *o;
        if (word[1] == '-') {
            size_t length = strcspn(word + 2, "=");
            o = option_find(command, word + 2, length, 0);
            if (word[2 + length] == '=') value = word + 3 + length;
        } else {
            o = option_find(command, NULL, 0, word[1]);
            if (word[2]) value = word + 2;
        }
        if (!o) return option_unknown(command, word);
        if (o->kind == FLAG && value) {
            complain(0, "--%s takes no value", o->name);
            return false;
        }
        if (o->kind != FLAG && !value) {
            if (n + 1 == argc) {
                complain(0, "--%s needs a value: %s%s", o->name, o->values, o->kind == PLAN ? "|FILE" : "");
                return false;
            }
            value = argv[++n];
        }
        if (!option_set(o, value, out)) return false;
        if (out->help) return true;
    }
    return true;
}

/* ---- help ---- */

static void print_wrapped(struct output *out, const char *text, size_t indent, size_t width)
{
    while (*text) {
        size_t take = strlen(text);
        if (take > width) {
            for (take = width; take && text[take] != ' '; take--) continue;
            if (!take) take = width;
        }
        output_format(out, "%.*s\n", (int)take, text);
        text += take;
        while (*text == ' ') text++;
        if (*text) output_format(out, "%*s", (int)indent, "");
    }
}

static void print_option(const struct option *o, struct output *out)
{
    enum { INDENT = 26, WIDTH = 54 };
    char left[160];
    struct text_writer t = text_begin(left, sizeof left);
    if (o->letter)
        text_add(&t, "  -%c, --%s", o->letter, o->name);
    else
        text_add(&t, "      --%s", o->name);
    if (o->values) text_add(&t, " %s%s", o->values, o->kind == PLAN ? "|FILE" : "");
    if (t.used + 2 > INDENT)
        output_format(out, "%s\n%*s", left, INDENT, "");
    else
        output_format(out, "%-*s", INDENT, left);
    print_wrapped(out, o->help, INDENT, WIDTH);
}

static const char exit_text[] =
    "Exit codes:\n"
    "  0    done\n"
    "  1    verify: results differ from the reference's; diff: something became slower;\n"
    "       report --check: a number does not follow from the others\n"
    "  2    the command line is wrong\n"
    "  3    the input or the model can't be read, or a text is too long\n"
    "  4    no such device, it can't run this or failed, results not finite, or memory ran out\n"
    "  5    the output can't be written (full disk, closed pipe)\n"
    "  130  interrupted\n";

void help_print(const struct command *command, struct output *out)
{
    if (command) {
        output_format(out, "Usage: wherry %s [options]%s%s\n\n%s\n", command->name, *command->operand ? " " : "",
                      command->operand, command->text);
        if (!command->run) { /* another program's: it explains its options */
            output_format(out, "Examples:\n%s", command->examples);
            return;
        }
        output_text(out, "Options:\n");
        for (size_t n = 0; n < option_count; n++)
            if (option_table[n].commands & command->bit) print_option(&option_table[n], out);
        output_format(out, "\nValues follow as --option VALUE or --option=VALUE; \"--\" ends the options.\n\n%s\n",
                      exit_text);
        output_format(out, "Examples:\n%s", command->examples);
        return;
    }
    output_text(out, "Usage: wherry COMMAND [options]\n\n"
                     "Runs transformer encoders (BERT family) on any GPU, through OpenCL and Vulkan.\n\nCommands:\n");
    for (size_t n = 0; n < commands_count; n++)
        output_format(out, "  %-16s%s\n", commands[n].name, commands[n].summary);
    output_format(out,
                  "  %-16s%s\n\nOptions:\n"
                  "  --help    this text; after a command: the command's\n"
                  "  --version the version of the command and of the library\n\n%s\n",
                  "help", "explain a command: wherry help embed", exit_text);
    output_text(out, "Examples:\n"
                     "  wherry devices\n"
                     "  wherry embed --model all-MiniLM-L6-v2 --format npy -o out.npy texts.txt\n"
                     "  wherry verify --model all-MiniLM-L6-v2\n");
}
