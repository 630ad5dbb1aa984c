/* Many texts' tokens, by several threads (wherry_texts.h). Each takes some texts at a time, so that long ones among
 * them leave nobody waiting; the tokens are put in order when all are there. */
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "model/model.h"
#include "runtime/context.h"
#include "tokenizer/pair_frame.h"
#include "tokenizer/tokenizer.h"

/* Texts that a thread takes at a time, at least: fewer are done before another one has started. And into how many such
 * parts a call is divided, at most: each has its error. */
enum { SHARE = 16, SHARES_MOST = 4096, ROOM_AT_FIRST = 1024 };

struct share {
    size_t first, count, done; /* texts, and those of them that have tokens */
    uint32_t *ends;            /* [count], from the share's first token on */
    size_t tokens, room;
    int32_t *ids, *types;
    wherry_token_place *places;
    struct error error; /* of text first + done */
    uint64_t too_many;  /* tokens that it has, where that is what is wrong with it */
};

struct reading {
    struct host host;
    const struct wherry_model *model;
    const wherry_text *texts;
    wherry_texts_desc desc;
    size_t cut, limit, prompt_bytes;
    uint32_t least;
    int32_t added;
    struct share *shares;
    size_t share_count, share_texts;
};

/* ---- one thread's ---- */

static bool make_room(const struct reading *c, struct share *s, size_t room, struct error *e)
{
    int32_t *ids = host_grow(&c->host, s->ids, s->room, room, sizeof *ids, e);
    if (!ids) return false;
    s->ids = ids;
    int32_t *types = host_grow(&c->host, s->types, s->room, room, sizeof *types, e);
    if (!types) return false;
    s->types = types;
    if (c->desc.places) {
        wherry_token_place *places = host_grow(&c->host, s->places, s->room, room, sizeof *places, e);
        if (!places) return false;
        s->places = places;
    }
    s->room = room;
    return true;
}

/* Its tokens behind those of the texts before it. */
static bool encode(const struct reading *c, struct share *s, const char *text, size_t bytes, const wherry_text *t,
                   size_t *count, struct error *e)
{
    for (;;) {
        size_t left = s->room - s->tokens;
        *count = left;
        TRY(tokenizer_encode_pair(&c->host, c->model->tokenizer, c->desc.instruction, text ? text : "", bytes, t->pair,
                                  t->pair_bytes, c->cut, s->ids + s->tokens, s->types + s->tokens,
                                  s->places ? s->places + s->tokens : NULL, count, e));
        if (*count > c->limit) {
            s->too_many = *count;
            return fail(e, WHERRY_STATUS_TOO_LONG, "%zu tokens, and the limit is %zu", *count, c->limit);
        }
        size_t wanted = *count < c->least ? c->least : *count;
        if (wanted <= left) return true;
        TRY(make_room(c, s, 2 * (s->tokens + wanted), e));
    }
}

static bool tokenize_text(const struct reading *c, struct share *s, struct error *e)
{
    const wherry_text *t = &c->texts[s->first + s->done];
    size_t count = 0;
    if ((!t->text && t->text_bytes) || (!t->pair && t->pair_bytes))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "it has bytes, and its pointer is NULL");
    char *prompted = NULL;
    if (c->prompt_bytes) {
        if (!(prompted = host_alloc_unset(&c->host, c->prompt_bytes + t->text_bytes, 1, e))) return false;
        memcpy(prompted, c->desc.prompt, c->prompt_bytes);
        if (t->text_bytes) memcpy(prompted + c->prompt_bytes, t->text, t->text_bytes);
    }
    bool ok = encode(c, s, prompted ? prompted : t->text, c->prompt_bytes + t->text_bytes, t, &count, e);
    host_free(&c->host, prompted);
    if (!ok) return false;
    /* A model without types takes none, whatever its tokenizer gives. */
    if (!c->model->info.config.token_types) memset(s->types + s->tokens, 0, count * sizeof *s->types);
    for (; count < c->least; count++) {
        s->ids[s->tokens + count] = c->added;
        s->types[s->tokens + count] = 0;
        if (s->places) s->places[s->tokens + count] = (wherry_token_place){.text = -1, .continues = -1};
    }
    s->tokens += count;
    if (s->tokens > UINT32_MAX) return fail(e, WHERRY_STATUS_TOO_LONG, "more tokens before it than a batch can have");
    s->ends[s->done++] = (uint32_t)s->tokens;
    return true;
}

static void tokenize_share(size_t item, void *user)
{
    const struct reading *c = user;
    struct share *s = &c->shares[item];
    s->ends = host_alloc_unset(&c->host, s->count, sizeof *s->ends, &s->error);
    if (!s->ends || !make_room(c, s, ROOM_AT_FIRST, &s->error)) return;
    while (s->done < s->count && tokenize_text(c, s, &s->error)) continue;
}

/* ---- all of it ---- */

static void shares_free(struct reading *c)
{
    for (size_t i = 0; c->shares && i < c->share_count; i++) {
        host_free(&c->host, c->shares[i].ends);
        host_free(&c->host, c->shares[i].ids);
        host_free(&c->host, c->shares[i].types);
        host_free(&c->host, c->shares[i].places);
    }
    host_free(&c->host, c->shares);
}

/* The first text that failed, or that there was no memory. What came after it is dropped. */
static bool find_failure(const struct reading *c, wherry_tokens *out, size_t *shares, size_t *tokens, struct error *e)
{
    *shares = *tokens = 0;
    for (size_t i = 0; i < c->share_count; i++) {
        const struct share *s = &c->shares[i];
        out->texts += s->done;
        *tokens += s->tokens;
        *shares = i + 1;
        if (*tokens > UINT32_MAX)
            return fail(e, WHERRY_STATUS_TOO_LONG,
                        "wherry_tokenize_texts: more than %u tokens in one call: give fewer texts", UINT32_MAX);
        if (s->done == s->count) continue;
        if (s->error.status == WHERRY_STATUS_OUT_OF_HOST_MEMORY) {
            *e = s->error;
            return false;
        }
        out->failed = s->error.status;
        out->failed_tokens = s->too_many;
        snprintf(out->problem, sizeof out->problem, "%s", s->error.text);
        break;
    }
    return true;
}

static bool gather(const struct reading *c, wherry_tokens *out, struct error *e)
{
    size_t shares, tokens, text = 0, at = 0;
    TRY(find_failure(c, out, &shares, &tokens, e));
    out->offsets = host_alloc_unset(&c->host, out->texts + 1, sizeof *out->offsets, e);
    out->ids = host_alloc_unset(&c->host, tokens, sizeof *out->ids, e);
    out->types = host_alloc_unset(&c->host, tokens, sizeof *out->types, e);
    out->places = c->desc.places ? host_alloc_unset(&c->host, tokens, sizeof *out->places, e) : NULL;
    if (!out->offsets || !out->ids || !out->types || (c->desc.places && !out->places)) return false;
    out->offsets[0] = 0;
    for (size_t i = 0; i < shares; i++) {
        const struct share *s = &c->shares[i];
        for (size_t n = 0; n < s->done; n++) out->offsets[++text] = (uint32_t)at + s->ends[n];
        if (s->tokens) {
            memcpy(out->ids + at, s->ids, s->tokens * sizeof *s->ids);
            memcpy(out->types + at, s->types, s->tokens * sizeof *s->types);
            if (out->places) memcpy(out->places + at, s->places, s->tokens * sizeof *s->places);
        }
        at += s->tokens;
    }
    return true;
}

static bool tokenize_all(struct reading *c, size_t count, wherry_tokens *out, struct error *e)
{
    c->share_texts = count / SHARES_MOST < SHARE ? SHARE : count / SHARES_MOST + 1;
    c->share_count = (count + c->share_texts - 1) / c->share_texts;
    if (!(c->shares = host_alloc(&c->host, c->share_count, sizeof *c->shares, e))) return false;
    for (size_t i = 0; i < c->share_count; i++) {
        size_t first = i * c->share_texts, left = count - first;
        c->shares[i].first = first;
        c->shares[i].count = left < c->share_texts ? left : c->share_texts;
    }
    size_t most = core_count(), asked = c->desc.threads;
    if (asked && asked < most) most = asked;
    if (c->share_count < most) most = c->share_count;
    out->threads = (uint32_t)(most ? most : 1);
    parallel_for(c->share_count, out->threads, tokenize_share, c);
    return gather(c, out, e);
}

static void release(const struct host *host, wherry_tokens *tokens)
{
    host_free(host, tokens->offsets);
    host_free(host, tokens->ids);
    host_free(host, tokens->types);
    host_free(host, tokens->places);
    *tokens = (wherry_tokens){.struct_size = sizeof *tokens};
}

void wherry_tokens_free(wherry_context *context, wherry_tokens *tokens)
{
    if (context && tokens) release(&context->host, tokens);
}

wherry_status wherry_tokenize_texts(wherry_context *context, const wherry_model *model, const wherry_text *texts,
                                    size_t count, const wherry_texts_desc *desc, wherry_tokens *out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || (!texts && count) || !out || out->struct_size != sizeof *out)
        return context_invalid(
            context, "wherry_tokenize_texts: model, texts or out is NULL, or out->struct_size is not %zu", sizeof *out);
    if (desc && (desc->struct_size != sizeof *desc || (desc->form && desc->form->struct_size != sizeof *desc->form)))
        return context_invalid(context,
                               "wherry_tokenize_texts: a struct_size of the descriptor is not what it has to be");
    if (!model->tokenizer) return context_no_tokenizer(context);
    if (desc && desc->instruction && !tokenizer_takes_instruction(model->tokenizer))
        return context_invalid(context, "wherry_tokenize_texts: the model's pairs have no place for an instruction: "
                                        "leave it NULL");
    if (desc && desc->prompt && !prompts_allow(&model->prompts, desc->prompt, context_error(context)))
        return context_status(context, false);
    struct reading c = {.host = context->host, .model = model, .texts = texts};
    c.host.parts = NULL; /* an account is one thread's */
    if (desc) c.desc = *desc;
    c.limit = c.desc.limit ? c.desc.limit : model->info.max_tokens;
    c.cut = c.desc.max_tokens;
    c.prompt_bytes = c.desc.prompt ? strlen(c.desc.prompt) : 0;
    if (c.desc.form) {
        c.least = c.desc.form->least_tokens < c.limit ? c.desc.form->least_tokens : (uint32_t)c.limit;
        c.added = c.desc.form->added_token;
        if (c.desc.form->max_tokens && (!c.cut || c.desc.form->max_tokens < c.cut)) c.cut = c.desc.form->max_tokens;
    }
    wherry_tokens made = {.struct_size = sizeof made};
    bool ok = tokenize_all(&c, count, &made, context_error(context));
    shares_free(&c);
    if (!ok) {
        release(&context->host, &made);
        return context_status(context, false);
    }
    *out = made;
    return WHERRY_STATUS_OK;
}
