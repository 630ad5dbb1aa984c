/* Tokens of a call's texts. */
#include "tokens.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "vocabulary.h"

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

static struct token_form form_of(const struct call *call, uint32_t most, bool truncate)
{
    return (struct token_form){.max_length = most,
                               .truncate = truncate,
                               .prompt = call->prompt,
                               .query = call->query,
                               .query_bytes = call->query_bytes,
                               .taken = call->form};
}

/* All of a text's tokens, however many there are, in the worker's room. */
static wherry_status tokenize_whole(struct worker *w, const struct item *item, size_t *count)
{
    const struct call *call = item->call;
    size_t most = call->model->max_length;
    for (;;) {
        worker_room(w, most);
        struct token_form form = form_of(call, (uint32_t)most, false);
        wherry_status status = tokenize_text(w->context, call->model->model, &form, &item->text, &w->room, count);
        if (status || *count <= most) return status;
        most = *count;
    }
}

/* Takes tokens of texts away, one after the other from the longer text, at the end that is asked for, until as many are
 * left as may be. Special tokens stay. */
static size_t cut(const struct token_room *room, size_t count, size_t most, bool left)
{
    size_t texts[2] = {0, 0}, leave[2], kept = 0, seen[2] = {0, 0}, over = count - most;
    for (size_t i = 0; i < count; i++)
        if (room->places[i].text >= 0) texts[room->places[i].text]++;
    leave[0] = texts[0], leave[1] = texts[1];
    for (; over && (leave[0] || leave[1]); over--) leave[leave[1] >= leave[0] && leave[1] ? 1 : 0]--;
    for (size_t i = 0; i < count; i++) {
        int32_t text = room->places[i].text;
        bool keep = text < 0;
        if (!keep) {
            size_t at = seen[text]++;
            keep = left ? at >= texts[text] - leave[text] : at < leave[text];
        }
        if (!keep) continue;
        room->ids[kept] = room->ids[i];
        room->types[kept] = room->types[i];
        room->places[kept++] = room->places[i];
    }
    return kept;
}

static bool tokenize_item(struct worker *w, const struct item *item, size_t *count)
{
    const struct call *call = item->call;
    uint32_t most = call->model->max_length;
    wherry_status status;
    if (call->truncate && call->direction != TRUNCATE_AS_FILES) {
        status = tokenize_whole(w, item, count);
        if (!status && *count > most) *count = cut(&w->room, *count, most, call->direction == TRUNCATE_LEFT);
    } else {
        worker_room(w, most);
        struct token_form form = form_of(call, most, call->truncate);
        status = tokenize_text(w->context, call->model->model, &form, &item->text, &w->room, count);
    }
    if (status) return refuse(item, wherry_last_error(w->context));
    return *count <= most || refuse_length(item, *count);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = need(malloc(bytes ? bytes : 1));
    memcpy(to, from, bytes);
    return to;
}

bool tokens_make(struct worker *w, struct item *item)
{
    size_t count;
    uint32_t types = item->call->model->info.config.token_types;
    if (item->given) return take_given(item);
    if (!tokenize_item(w, item, &count)) return false;
    for (size_t i = 0; i < count; i++)
        if (w->room.types[i] > 0 && (uint32_t)w->room.types[i] >= types)
            return refuse(item, "a pair, and this model has one token type: it takes one text");
    if (!count) return refuse(item, "no tokens are left of it");
    item->ids = copy_of(w->room.ids, count * sizeof *item->ids);
    item->types = copy_of(w->room.types, count * sizeof *item->types);
    item->count = (uint32_t)count;
    return true;
}

/* ---- /tokenize ---- */

bool tokens_write(struct worker *w, const struct item *item, struct bytes *out)
{
    const struct call *call = item->call;
    size_t count, before = call->prompt ? strlen(call->prompt) : 0;
    bool some = false;
    wherry_status status = tokenize_whole(w, item, &count);
    if (status) return refuse(item, wherry_last_error(w->context));
    bytes_text(out, "[");
    for (size_t i = 0; i < count; i++) {
        const wherry_token_place *place = &w->room.places[i];
        bool special = place->text < 0;
        if (special && !call->add_special) continue;
        bytes_format(out, "%s{\"id\":%d,\"text\":", some ? "," : "", (int)w->room.ids[i]);
        some = true;
        /* What stands in the prompt has its token's name: it is no part of the text. */
        if (special || place->first < before)
            vocabulary_write(call->model->vocabulary, w->room.ids[i], out);
        else
            bytes_quoted(out, item->text.text + place->first - before, place->end - place->first);
        if (special)
            bytes_text(out, ",\"special\":true,\"start\":null,\"stop\":null}");
        else
            bytes_format(out, ",\"special\":false,\"start\":%zu,\"stop\":%zu}", place->first_character,
                         place->end_character);
    }
    bytes_text(out, "]");
    return true;
}
