/* Texts read ahead and tokenized by several threads, handed out in their order. */
#include "ahead.h"

#include <stdlib.h>
#include <string.h>

#include "system.h"

enum { BLOCK = 4096 }; /* texts at most */

struct ahead {
    struct tool *tool;
    struct ahead_form form;
    wherry_context *context; /* its own: the command's is busy elsewhere meanwhile */
    struct ahead_text texts[BLOCK];
    wherry_text given[BLOCK];
    wherry_tokens tokens;
    size_t count, at;
    int code; /* of what came after the block's last text */
    bool ended;
    uint32_t used; /* threads, the most that a block had */
};

/* ---- made and given back ---- */

int ahead_create(struct tool *tool, const struct ahead_form *form, struct ahead **out)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc};
    struct ahead *ahead = *out = need(calloc(1, sizeof *ahead));
    ahead->tool = tool;
    ahead->form = *form;
    ahead->tokens.struct_size = sizeof ahead->tokens;
    if (!wherry_context_create(&desc, &ahead->context)) return EXIT_FINE;
    return complain(EXIT_DEVICE, "can't make a context to tokenize texts with");
}

static void block_clear(struct ahead *ahead)
{
    for (size_t i = 0; i < ahead->count; i++) {
        free(ahead->texts[i].memory);
        ahead->texts[i] = (struct ahead_text){.memory = NULL};
    }
    ahead->count = ahead->at = 0;
    wherry_tokens_free(ahead->context, &ahead->tokens);
}

void ahead_destroy(struct ahead *ahead)
{
    if (!ahead) return;
    block_clear(ahead);
    wherry_context_destroy(ahead->context);
    free(ahead);
}

void ahead_restart(struct ahead *ahead)
{
    if (!ahead) return;
    block_clear(ahead);
    ahead->code = EXIT_FINE;
    ahead->ended = false;
}

/* ---- read ---- */

static char *put(char **at, const char *from, size_t bytes)
{
    char *to = *at;
    if (!from) return NULL;
    if (bytes) memcpy(to, from, bytes);
    to[bytes] = 0;
    *at += bytes + 1;
    return to;
}

static void keep(struct ahead *ahead, const struct text *from)
{
    struct ahead_text *t = &ahead->texts[ahead->count++];
    size_t id_bytes = from->id ? strlen(from->id) : 0;
    char *at = t->memory = need(malloc(from->text_bytes + from->pair_bytes + id_bytes + 3));
    t->text = *from;
    t->text.text = put(&at, from->text, from->text_bytes);
    t->text.pair = put(&at, from->pair, from->pair_bytes);
    t->text.id = put(&at, from->id, id_bytes);
}

static void read_block(struct ahead *ahead, struct text_source *source)
{
    struct text text;
    size_t bytes = 0;
    bool more = true;
    while (ahead->count < BLOCK && bytes < ahead->form.block_bytes) {
        ahead->code = text_source_next(source, &text, &more);
        if (ahead->code || !more) break;
        keep(ahead, &text);
        bytes += text.text_bytes + text.pair_bytes;
        if (system_stopped()) break;
    }
    ahead->ended = ahead->code || !more;
}

/* ---- tokenized ---- */

/* Each text with the query before it, where there is one. */
static void give(struct ahead *ahead)
{
    const char *query = ahead->form.query;
    size_t query_bytes = query ? strlen(query) : 0;
    for (size_t i = 0; i < ahead->count; i++) {
        const struct text *t = &ahead->texts[i].text;
        if (query)
            ahead->given[i] = (wherry_text){query, query_bytes, t->text, t->text_bytes};
        else
            ahead->given[i] = (wherry_text){t->text, t->text_bytes, t->pair, t->pair_bytes};
    }
}

static int tokenize_block(struct ahead *ahead)
{
    const struct ahead_form *form = &ahead->form;
    const wherry_texts_desc desc = {.struct_size = sizeof desc,
                                    .max_tokens = form->truncate ? form->max_length : 0,
                                    .limit = form->max_length,
                                    .threads = form->threads,
                                    .prompt = form->query ? NULL : form->prompt,
                                    .form = form->taken.struct_size ? &form->taken : NULL, /* not of each command */
                                    .places = form->keep_places,
                                    .instruction = form->instruction};
    wherry_tokens *made = &ahead->tokens;
    give(ahead);
    wherry_status status =
        wherry_tokenize_texts(ahead->context, ahead->tool->model, ahead->given, ahead->count, &desc, made);
    if (status) {
        complain(0, "%s", wherry_last_error(ahead->context));
        return tool_failed(ahead->tool, status);
    }
    if (made->threads > ahead->used) ahead->used = made->threads;
    for (size_t i = 0; i < made->texts; i++) {
        struct ahead_text *t = &ahead->texts[i];
        uint32_t first = made->offsets[i];
        t->count = made->offsets[i + 1] - first;
        t->ids = made->ids + first;
        t->types = made->types + first;
        t->places = made->places ? made->places + first : NULL;
    }
    if (made->failed) {
        struct ahead_text *t = &ahead->texts[made->texts];
        t->status = made->failed;
        t->problem = made->problem;
        t->count = (size_t)made->failed_tokens;
    }
    return EXIT_FINE;
}

int ahead_next(struct ahead *ahead, struct text_source *source, const struct ahead_text **out)
{
    *out = NULL;
    if (ahead->at == ahead->count && !ahead->ended) {
        block_clear(ahead);
        read_block(ahead, source);
        int code = ahead->count ? tokenize_block(ahead) : EXIT_FINE;
        if (code) return code;
    }
    if (ahead->at == ahead->count) return ahead->code;
    *out = &ahead->texts[ahead->at++];
    return EXIT_FINE;
}

uint32_t ahead_threads(const struct ahead *ahead) { return ahead ? ahead->used : 0; }
