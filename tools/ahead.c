/* Texts read ahead and tokenized by several threads, handed out in their order. */
#include "ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "system.h"
#include "threads.h"

/* Texts of a block at most; and how many a thread has at least, fewer are done before it has started. */
enum { BLOCK = 4096, SHARE = 16, THREADS_MOST = 256 };

/* A thread's own: contexts belong to one at a time. */
struct helper {
    struct ahead *ahead;
    wherry_context *context;
    uint32_t number, of; /* it takes texts number, number + of, ... */
    int32_t *ids, *types;
    wherry_token_place *places;
};

struct ahead {
    struct tool *tool;
    struct ahead_form form;
    struct ahead_text texts[BLOCK];
    size_t count, at;
    int code; /* of what came after the block's last text */
    bool ended;
    struct helper *helpers[THREADS_MOST];
    uint32_t threads, used; /* 0: not known yet; the most that a block had */
};

/* ---- made and given back ---- */

/* A new context with its memory, or NULL. */
static struct helper *helper_create(struct ahead *ahead)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc};
    struct helper *h = need(calloc(1, sizeof *h));
    size_t length = ahead->form.max_length;
    h->ahead = ahead;
    if (wherry_context_create(&desc, &h->context)) {
        free(h);
        return NULL;
    }
    h->ids = need(malloc(length * sizeof *h->ids));
    h->types = need(malloc(length * sizeof *h->types));
    h->places = ahead->form.keep_places ? need(malloc(length * sizeof *h->places)) : NULL;
    return h;
}

static void helper_destroy(struct helper *h)
{
    if (!h) return;
    wherry_context_destroy(h->context);
    free(h->ids);
    free(h->types);
    free(h->places);
    free(h);
}

int ahead_create(struct tool *tool, const struct ahead_form *form, struct ahead **out)
{
    struct ahead *ahead = *out = need(calloc(1, sizeof *ahead));
    ahead->tool = tool;
    ahead->form = *form;
    ahead->helpers[0] = helper_create(ahead);
    return ahead->helpers[0] ? EXIT_FINE : complain(EXIT_DEVICE, "can't make a context to tokenize texts with");
}

static void text_free(struct ahead_text *t)
{
    free(t->memory);
    free(t->problem);
    free(t->ids);
    free(t->types);
    free(t->places);
    *t = (struct ahead_text){.memory = NULL};
}

static void block_clear(struct ahead *ahead)
{
    for (size_t i = 0; i < ahead->count; i++) text_free(&ahead->texts[i]);
    ahead->count = ahead->at = 0;
}

void ahead_destroy(struct ahead *ahead)
{
    if (!ahead) return;
    block_clear(ahead);
    for (uint32_t i = 0; i < THREADS_MOST; i++) helper_destroy(ahead->helpers[i]);
    free(ahead);
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

static char *joined(const char *prompt, const struct text *text, size_t *bytes)
{
    size_t before = strlen(prompt);
    char *all = need(malloc(before + text->text_bytes + 1));
    memcpy(all, prompt, before);
    memcpy(all + before, text->text, text->text_bytes);
    *bytes = before + text->text_bytes;
    return all;
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = need(malloc(bytes ? bytes : 1));
    memcpy(to, from, bytes);
    return to;
}

/* With the query before it or the prompt in front of it. */
static void tokenize(const struct helper *h, struct ahead_text *t)
{
    const struct ahead_form *form = &h->ahead->form;
    const char *first = t->text.text, *second = t->text.pair;
    size_t first_bytes = t->text.text_bytes, second_bytes = t->text.pair_bytes;
    char *prompted = NULL;
    if (form->query) {
        second = first, second_bytes = first_bytes;
        first = form->query, first_bytes = strlen(first);
    } else if (form->prompt && *form->prompt) {
        first = prompted = joined(form->prompt, &t->text, &first_bytes);
    }
    const wherry_text_form *taken = &form->taken;
    uint32_t most = form->truncate ? form->max_length : 0;
    if (taken->max_tokens && (!most || taken->max_tokens < most)) most = taken->max_tokens;
    t->count = form->max_length;
    t->status = wherry_tokenize_places(h->context, h->ahead->tool->model, first, first_bytes, second, second_bytes,
                                       most, h->ids, h->types, h->places, &t->count);
    free(prompted);
    if (t->status) {
        const char *problem = wherry_last_error(h->context);
        t->problem = copy_of(problem, strlen(problem) + 1);
        return;
    }
    for (; t->count < taken->least_tokens && t->count < form->max_length; t->count++) {
        h->ids[t->count] = taken->added_token;
        h->types[t->count] = 0;
    }
    size_t kept = t->count < form->max_length ? t->count : form->max_length;
    t->ids = copy_of(h->ids, kept * sizeof *h->ids);
    t->types = copy_of(h->types, kept * sizeof *h->types);
    if (h->places) t->places = copy_of(h->places, kept * sizeof *h->places);
}

static void tokenize_share(void *user)
{
    const struct helper *h = user;
    for (size_t i = h->number; i < h->ahead->count; i += h->of) tokenize(h, &h->ahead->texts[i]);
}

/* How many threads the block is worth, with what each of them needs. */
static uint32_t helpers_ready(struct ahead *ahead)
{
    size_t worth = ahead->count / SHARE;
    if (worth > 1 && !ahead->threads) {
        size_t cores = system_cores(), most = ahead->form.threads ? ahead->form.threads : THREADS_MOST;
        ahead->threads = (uint32_t)(!cores ? 1 : cores < most ? cores : most);
    }
    uint32_t wanted = worth < 2 ? 1 : worth < ahead->threads ? (uint32_t)worth : ahead->threads, ready = 1;
    for (; ready < wanted; ready++)
        if (!ahead->helpers[ready] && !(ahead->helpers[ready] = helper_create(ahead))) break;
    return ready;
}

/* The calling thread has a share, and that of each thread that the system did not give. */
static void tokenize_block(struct ahead *ahead)
{
    struct task *tasks[THREADS_MOST] = {NULL};
    uint32_t count = helpers_ready(ahead);
    if (count > ahead->used) ahead->used = count;
    for (uint32_t i = 0; i < count; i++) {
        ahead->helpers[i]->number = i;
        ahead->helpers[i]->of = count;
        if (i) tasks[i] = task_start(tokenize_share, ahead->helpers[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!tasks[i]) tokenize_share(ahead->helpers[i]);
    for (uint32_t i = 0; i < count; i++) task_join(tasks[i]);
}

int ahead_next(struct ahead *ahead, struct text_source *source, const struct ahead_text **out)
{
    *out = NULL;
    if (ahead->at == ahead->count && !ahead->ended) {
        block_clear(ahead);
        read_block(ahead, source);
        tokenize_block(ahead);
    }
    if (ahead->at == ahead->count) return ahead->code;
    *out = &ahead->texts[ahead->at++];
    return EXIT_FINE;
}

uint32_t ahead_threads(const struct ahead *ahead) { return ahead ? ahead->used : 0; }
