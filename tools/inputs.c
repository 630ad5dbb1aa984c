/* What a command reads is not what it replaces. */
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "session.h"
#include "system.h"

struct search {
    const char *output;
    int depth; /* of folders below */
    char found[256];
};

static void compare(struct search *s, const char *path)
{
    if (!s->found[0] && system_is_same(s->output, path)) snprintf(s->found, sizeof s->found, "%s", path);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Of a model: its own files, also in the folders of its modules; what else lies there is the user's to replace. */
static void visit(const char *path, void *user)
{
    static const char *const names[] = {".safetensors", ".safetensors.index.json", "config.json",
                                        "vocab.txt",    "tokenizer.json",          "modules.json"};
    struct search *s = user;
    bool known = false;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) known |= ends_with(path, names[n]);
    if (known) compare(s, path);
    if (known || !s->depth) return;
    s->depth--;
    system_list(path, visit, s);
    s->depth++;
}

/* Names and files with commas between. */
static void compare_list(struct search *s, const char *list)
{
    char *copy = need(malloc(strlen(list) + 1)), *next;
    strcpy(copy, list);
    for (char *word = copy; word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        compare(s, word);
        char *number = strrchr(word, '#'); /* of a device in the file */
        if (number) *number = 0;
        if (number) compare(s, word);
    }
    free(copy);
}

bool inputs_kept(const struct options *options)
{
    struct search s = {.output = options->output, .depth = 1};
    bool standard = !options->files_count && *options->command->operand;
    if (!s.output || strcmp(s.output, "-") == 0) return true;
    for (uint32_t n = 0; n < options->files_count; n++) {
        if (strcmp(options->files[n], "-") == 0)
            standard = true;
        else
            compare(&s, options->files[n]);
    }
    if (standard && !s.found[0] && system_is_same(s.output, NULL)) snprintf(s.found, sizeof s.found, "standard input");
    if (options->model) system_list(options->model, visit, &s);
    if (options->tuning) compare(&s, options->tuning);
    if (options->device_spec) compare_list(&s, options->device_spec);
    if (!s.found[0]) return true;
    complain(0, "--output %s is the same file as %s, which is read: give another name", s.output, s.found);
    return false;
}
