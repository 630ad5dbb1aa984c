/* Finds passages of a folder's text files by what they mean.
 *
 *   search [--model FOLDER] [--device NAME] DIR               as one types, in a terminal
 *   search [--model FOLDER] [--device NAME] --index DIR       reads new and changed files, and ends
 *   search [--model FOLDER] [--device NAME] --query TEXT DIR  the same, then prints the best passages
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "ui.h"

enum { SHOWN = 5, USAGE = 2, PLACE_BYTES = 512, TEXT_BYTES = 300 };

static int usage(void)
{
    fputs("usage: search [--model FOLDER] [--device NAME] [--index | --query TEXT] DIR\n"
          "  --model   of sentence embeddings, as Hugging Face publishes it (default: the environment's WHERRY_MODEL)\n"
          "  --device  as \"wherry devices\" lists them, or \"lent\": a Vulkan device that this program makes itself, "
          "which it\n"
          "            does where there is a GPU\n",
          stderr);
    return USAGE;
}

static void print_found(const struct engine *engine)
{
    const struct found *found;
    size_t count = engine_found(engine, &found);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        char place[PLACE_BYTES], text[TEXT_BYTES];
        index_place(engine_index(engine), &found[i], place, sizeof place);
        index_text(engine_index(engine), &found[i], text, sizeof text);
        printf("%.3f %s  %s\n", (double)found[i].score, place, text);
    }
}

static int run(const char *folder, const char *model, const char *device, const char *query)
{
    struct engine *engine = engine_open(folder, model, device, NULL, NULL);
    bool ok = engine != NULL;
    struct engine_state s;
    while (ok && (s = engine_state(engine)).busy) ok = engine_wait(engine);
    if (ok) {
        ok = engine_save(engine);
        fprintf(stderr, "search: %zu passages of %zu files, %zu of them read now, on %s\n", s.passages, s.files,
                s.embedded, s.device);
    }
    ok = ok && (!query || engine_ask(engine, query));
    while (ok && engine_state(engine).busy) ok = engine_wait(engine);
    if (ok && query) print_found(engine);
    engine_close(engine);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *model = getenv("WHERRY_MODEL"), *device = NULL, *query = NULL;
    bool index = false;
    int at = 1;
    setlocale(LC_CTYPE, ""); /* how wide characters are */
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        if (!strcmp(argv[at], "--index"))
            index = true;
        else if (!strcmp(argv[at], "--model") && value)
            model = argv[++at];
        else if (!strcmp(argv[at], "--device") && value)
            device = argv[++at];
        else if (!strcmp(argv[at], "--query") && value)
            query = argv[++at];
        else
            return usage();
    }
    if (at + 1 != argc || (index && query)) return usage();
    if (!model) {
        fputs("search: no model: give --model FOLDER\n", stderr);
        return USAGE;
    }
    return index || query ? run(argv[at], model, device, query) : ui_run(argv[at], model, device);
}
