/* Tokens of a call's texts. */
#include "tokens.h"

#include <stdlib.h>
#include <string.h>
#include <wherry/wherry_texts.h>

#include "complain.h"
#include "vocabulary.h"

#define WHOLE INT32_MAX /* a text has no more tokens than that */

static size_t index_of(const struct item *item) { return (size_t)(item - item->call->items); }

static bool refuse_length(const struct item *item, size_t count)
{
    call_fail(item->call, 422, ERROR_VALIDATION, FAILED_VALIDATION, "text %zu has %zu tokens, the limit is %u",
              index_of(item), count, item->call->model->max_length);
    return false;
}

static bool refuse(const struct item *item, const char *why)
{
    call_fail(item->call, 422, ERROR_TOKENIZER, FAILED_TOKENIZATION, "text %zu: %s", index_of(item), why);
    return false;
}

/* ---- ids ---- */

int32_t *tokens_given(const struct item *item)
{
    uint32_t vocabulary = item->call->model->info.config.vocabulary;
    size_t count = json_array_size(item->given);
    int32_t *ids = need(malloc((count ? count : 1) * sizeof *ids));
    for (size_t i = 0; i < count; i++) {
        json_int_t id = json_integer_value(json_array_get(item->given, i));
        if (id < 0 || id >= (json_int_t)vocabulary) {
            call_fail(item->call, 422, ERROR_VALIDATION, FAILED_VALIDATION,
                      "text %zu: id %lld, and the vocabulary has %u: ids must be this model's own tokenizer's",
                      index_of(item), (long long)id, vocabulary);
            free(ids);
            return NULL;
        }
        ids[i] = (int32_t)id;
    }
    return ids;
}

/* As they are, with no special tokens added; what is too long is cut at the end that is asked for. */
static bool take_given(struct item *item)
{
    const struct call *call = item->call;
    size_t count = json_array_size(item->given), most = call->model->max_length;
    if (count > most && !call->truncate) return refuse_length(item, count);
    item->ids = tokens_given(item);
    if (!item->ids) return false;
    if (count > most && call->direction == TRUNCATE_LEFT)
        memmove(item->ids, item->ids + count - most, most * sizeof *item->ids);
    item->count = (uint32_t)(count < most ? count : most);
    return true;
}

/* ---- texts ---- */

/* The item's tokens, by this thread alone, with their places. `cut`: to the model's longest. More than `limit` are
 * WHERRY_STATUS_TOO_LONG. The result is freed by wherry_tokens_free in any case. */
static wherry_status tokenize(struct worker *w, const struct item *item, bool cut, uint32_t limit, wherry_tokens *out)
{
    const struct call *call = item->call;
    const struct passage *p = &item->text;
    /* A pair that is framed has a place for an instruction, and none for a prompt. */
    bool framed = call->query || (p->pair && call->model->info.pair_template);
    const wherry_texts_desc desc = {.struct_size = sizeof desc,
                                    .max_tokens = cut ? call->model->max_length : 0,
                                    .limit = limit,
                                    .threads = 1,
                                    .prompt = framed ? NULL : call->prompt,
                                    .instruction = framed ? call->instruction : NULL,
                                    .form = &call->form,
                                    .places = true};
    const wherry_text text = call->query ? (wherry_text){call->query, call->query_bytes, p->text, p->text_bytes}
                                         : (wherry_text){p->text, p->text_bytes, p->pair, p->pair_bytes};
    *out = (wherry_tokens){.struct_size = sizeof *out};
    wherry_status status = wherry_tokenize_texts(w->context, call->model->model, &text, 1, &desc, out);
    return status ? status : out->failed;
}

static bool refuse_failed(const struct worker *w, const struct item *item, wherry_status status, const wherry_tokens *t)
{
    if (status == WHERRY_STATUS_TOO_LONG && t->failed == status) return refuse_length(item, (size_t)t->failed_tokens);
    return refuse(item, t->failed ? t->problem : wherry_last_error(w->context));
}

/* Takes tokens of texts away, one after the other from the longer text, at the end that is asked for, until as many are
 * left as may be. Special tokens stay. Returns how many are left. */
static size_t cut(const wherry_tokens *t, size_t count, size_t most, bool left)
{
    size_t texts[2] = {0, 0}, leave[2], kept = 0, seen[2] = {0, 0};
    for (size_t i = 0; i < count; i++)
        if (t->places[i].text >= 0) texts[t->places[i].text]++;
    leave[0] = texts[0], leave[1] = texts[1];
    for (size_t over = count - most; over && (leave[0] || leave[1]); over--)
        leave[leave[1] >= leave[0] && leave[1] ? 1 : 0]--;
    for (size_t i = 0; i < count; i++) {
        int32_t text = t->places[i].text;
        bool keep = text < 0;
        if (!keep) {
            size_t at = seen[text]++;
            keep = left ? at >= texts[text] - leave[text] : at < leave[text];
        }
        if (!keep) continue;
        t->ids[kept] = t->ids[i];
        t->types[kept++] = t->types[i];
    }
    return kept;
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = need(malloc(bytes ? bytes : 1));
    memcpy(to, from, bytes);
    return to;
}

static bool take_tokens(struct item *item, const wherry_tokens *t)
{
    const struct call *call = item->call;
    uint32_t most = call->model->max_length, types = call->model->info.config.token_types;
    size_t count = t->offsets[1];
    if (count > most) count = cut(t, count, most, call->direction == TRUNCATE_LEFT);
    if (count > most) return refuse_length(item, count);
    for (size_t i = 0; i < count; i++)
        if (t->types[i] > 0 && (uint32_t)t->types[i] >= types)
            return refuse(item, "a pair, and this model has one token type: it takes one text");
    if (!count) return refuse(item, "no tokens are left of it");
    item->ids = copy_of(t->ids, count * sizeof *item->ids);
    item->types = copy_of(t->types, count * sizeof *item->types);
    item->count = (uint32_t)count;
    return true;
}

bool tokens_make(struct worker *w, struct item *item)
{
    const struct call *call = item->call;
    bool own = call->truncate && call->direction != TRUNCATE_AS_FILES; /* not at the end that the files say */
    wherry_tokens t;
    if (item->given) return take_given(item);
    wherry_status status = tokenize(w, item, call->truncate && !own, own ? WHOLE : call->model->max_length, &t);
    bool fine = status ? refuse_failed(w, item, status, &t) : take_tokens(item, &t);
    wherry_tokens_free(w->context, &t);
    return fine;
}

/* ---- /tokenize ---- */

static void write_token(const struct item *item, int32_t id, const wherry_token_place *place, struct bytes *out)
{
    const struct call *call = item->call;
    size_t before = call->prompt ? strlen(call->prompt) : 0;
    bool special = place->text < 0;
    bytes_format(out, "{\"id\":%d,\"text\":", (int)id);
    /* What stands in the prompt has its token's name: it is no part of the text. */
    if (special || place->first < before)
        vocabulary_write(call->model->vocabulary, id, out);
    else
        bytes_quoted(out, item->text.text + place->first - before, place->end - place->first);
    if (special)
        bytes_text(out, ",\"special\":true,\"start\":null,\"stop\":null}");
    else
        bytes_format(out, ",\"special\":false,\"start\":%zu,\"stop\":%zu}", place->first_character,
                     place->end_character);
}

bool tokens_write(struct worker *w, const struct item *item, struct bytes *out)
{
    wherry_tokens t;
    wherry_status status = tokenize(w, item, false, WHOLE, &t);
    bool some = false;
    if (status) {
        refuse_failed(w, item, status, &t);
    } else {
        bytes_text(out, "[");
        for (uint32_t i = 0; i < t.offsets[1]; i++) {
            if (t.places[i].text < 0 && !item->call->add_special) continue;
            if (some) bytes_text(out, ",");
            write_token(item, t.ids[i], &t.places[i], out);
            some = true;
        }
        bytes_text(out, "]");
    }
    wherry_tokens_free(w->context, &t);
    return !status;
}
