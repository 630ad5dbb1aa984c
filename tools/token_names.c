/* What tokens are called, as people write them. */
#include "token_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static bool keep_token(int32_t id, const char *text, size_t bytes, void *user)
{
    struct token_names *names = user;
    if (id < 0 || (uint32_t)id >= names->count || names->of[id].text) return true;
    names->of[id] = (struct token_name){need(malloc(bytes + 1)), bytes};
    memcpy(names->of[id].text, text, bytes);
    return true;
}

int token_names_read(struct tool *tool, struct token_names *names)
{
    names->count = tool->model_info.config.vocabulary;
    names->of = need(calloc(names->count, sizeof *names->of));
    wherry_status status = wherry_model_tokens(tool->context, tool->model, keep_token, names);
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

void token_names_free(struct token_names *names)
{
    for (uint32_t i = 0; names->of && i < names->count; i++) free(names->of[i].text);
    free(names->of);
    names->of = NULL;
}

static void write_name(const char *name, size_t bytes, bool json, struct output *out)
{
    if (json) {
        output_json_string(out, name, bytes);
        return;
    }
    size_t room = UTF8_SHOWN_MAX * bytes + 1;
    char *shown = need(malloc(room));
    utf8_show(name, bytes, shown, room);
    output_text(out, shown);
    free(shown);
}

void token_name_write(const struct token_names *names, uint32_t id, bool json, struct output *out)
{
    static const char space[] = "\xE2\x96\x81";
    char number[32];
    const struct token_name *name = &names->of[id];
    size_t mark = strlen(space);
    if (!name->text)
        write_name(number, (size_t)snprintf(number, sizeof number, "#%u", id), json, out);
    else if (name->bytes > mark && !memcmp(name->text, space, mark))
        write_name(name->text + mark, name->bytes - mark, json, out);
    else
        write_name(name->text, name->bytes, json, out);
}
