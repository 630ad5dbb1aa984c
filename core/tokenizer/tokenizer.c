/* A tokenizer at work: a text passes added tokens, normalizers, pre-tokenizers and the model; then it is cut, and
 * special tokens are put around it. */
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer_parts.h"

const char *tokenizer_type(const struct tokenizer *tokenizer) { return tokenizer->model.kind->type; }

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    struct host host = t->host;
    added_tokens_free(&host, &t->added);
    normalizers_free(&host, &t->normalizers);
    pre_tokenizers_free(&host, &t->pre_tokenizers);
    model_free(&host, &t->model);
    post_processor_free(&host, &t->post);
    pair_frame_free(&host, &t->frame);
    host_free(&host, t->frame_form.pieces);
    host_free(&host, t);
}

/* ---- one text to tokens ---- */

/* A pre-tokenizer, and where its pieces go. */
struct stage {
    struct pieces pieces; /* first, so that one is found from the other */
    const struct pre_tokenizer *one;
    const struct token_model *model; /* of the last stage: its pieces go there */
    struct tokens *tokens;
};

struct encoder {
    const struct tokenizer *tokenizer;
    struct tokens *tokens;
    struct text given;
    struct text between[2]; /* of the normalizers, for the stretch of text at hand */
    struct list windows[2]; /* of the searches for raw and for normalized added tokens */
    struct stage stages[PARTS_MOST];
    struct error *e;
};

static bool stage_take(struct pieces *pieces, const struct view *piece)
{
    struct stage *stage = (struct stage *)pieces, *next = stage + 1;
    if (stage->model) return stage->model->kind->encode(stage->model->data, piece, stage->tokens);
    return next->one->kind->split(next->one->data, piece, &next->pieces);
}

static void encoder_begin(struct encoder *to, const struct host *host, const struct tokenizer *t, struct tokens *tokens)
{
    to->tokenizer = t;
    to->tokens = tokens;
    to->e = tokens->e;
    text_begin(&to->given, host);
    for (int i = 0; i < 2; i++) {
        text_begin(&to->between[i], host);
        to->windows[i] = (struct list){.host = host};
    }
    for (size_t i = 0; i < t->pre_tokenizers.count; i++) {
        struct stage *stage = &to->stages[i];
        *stage = (struct stage){.pieces = {.take = stage_take, .full = &tokens->full, .e = tokens->e},
                                .one = &t->pre_tokenizers.list[i],
                                .model = i + 1 == t->pre_tokenizers.count ? &t->model : NULL,
                                .tokens = tokens};
        text_begin(&stage->pieces.scratch, host);
    }
}

static void encoder_end(struct encoder *to)
{
    text_free(&to->given);
    for (int i = 0; i < 2; i++) {
        text_free(&to->between[i]);
        list_free(&to->windows[i]);
    }
    for (size_t i = 0; i < to->tokenizer->pre_tokenizers.count; i++) text_free(&to->stages[i].pieces.scratch);
}

/* A stretch without added tokens, normalized. */
static bool encode_plain(struct encoder *to, const struct view *text, size_t first, size_t end)
{
    const struct tokenizer *t = to->tokenizer;
    if (first >= end || to->tokens->full) return true;
    struct view plain = view_slice(text, first, end);
    if (!t->pre_tokenizers.count) return t->model.kind->encode(t->model.data, &plain, to->tokens);
    return to->stages[0].one->kind->split(to->stages[0].one->data, &plain, &to->stages[0].pieces);
}

/* Does `rest` with what lies between the added tokens of a text. */
static bool encode_around(struct encoder *to, const struct view *text, const struct patterns *patterns,
                          struct list *window,
                          bool (*rest)(struct encoder *to, const struct view *text, size_t first, size_t end))
{
    bool more = true;
    struct added_search s = {
        .tokens = to->tokenizer->added.list, .patterns = patterns, .text = *text, .window = window};
    window->count = 0;
    while (!to->tokens->full) {
        TRY(added_next(&s, &more, to->e));
        if (!more) break;
        TRY(rest(to, text, s.plain, s.start));
        TRY(tokens_add(to->tokens, s.id, text, s.start, s.done, TOKEN_LITERAL));
    }
    return rest(to, text, s.done, text->length);
}

/* A stretch without raw added tokens. */
static bool encode_stretch(struct encoder *to, const struct view *text, size_t first, size_t end)
{
    if (first >= end || to->tokens->full) return true;
    struct view stretch = view_slice(text, first, end), normalized;
    TRY(normalizers_apply(&to->tokenizer->normalizers, &stretch, to->between, &normalized, to->e));
    return encode_around(to, &normalized, &to->tokenizer->added.normalized, &to->windows[1], encode_plain);
}

static bool give_text(struct text *text, const char *bytes, size_t size, bool placed, struct error *e)
{
    if (size >= UINT32_MAX)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a text of 4 GiB and more is too long for the tokenizer");
    TRY(list_add_text(&text->characters, bytes, size, NULL, e));
    text->placed = placed;
    if (!placed) return true;
    TRY(list_reserve(&text->places, 2 * text->characters.count, e));
    for (size_t i = 0; i < text->characters.count; i++) {
        text->places.items[2 * i] = (uint32_t)i;
        text->places.items[2 * i + 1] = (uint32_t)i + 1;
    }
    text->places.count = 2 * text->characters.count;
    return true;
}

bool tokenizer_text(const struct host *host, const struct tokenizer *t, const char *text, size_t bytes,
                    struct tokens *tokens)
{
    struct encoder to;
    encoder_begin(&to, host, t, tokens);
    bool ok = give_text(&to.given, text, bytes, tokens->placed, tokens->e);
    for (size_t i = 0; i < t->pre_tokenizers.count; i++)
        to.stages[i].pieces.scratch.most = to.given.characters.count * GROWTH_MOST + GROWTH_MORE;
    struct view given = text_view(&to.given);
    ok = ok && encode_around(&to, &given, &t->added.raw, &to.windows[0], encode_stretch);
    encoder_end(&to);
    return ok;
}

/* ---- the sequence ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Hugging Face's "longest_first": the longer one is cut, and when that is not enough, both to half. */
static void truncate_longest(size_t max, size_t *first, size_t *second)
{
    if (*first <= max && *second <= max - *first) return;
    size_t *shorter = *first > *second ? second : first, *longer = *first > *second ? first : second;
    if (*shorter <= max / 2) {
        *longer = max - *shorter;
        return;
    }
    *shorter = max / 2;
    *longer = max - max / 2;
}

static bool encode_both(const struct host *host, const struct tokenizer *t, const char *text, size_t text_bytes,
                        const char *pair, size_t pair_bytes, size_t max_tokens, struct kept both[2])
{
    const struct template *form = pair ? &t->post.pair : &t->post.single;
    struct error *e = both[0].all.e;
    size_t limit = SIZE_MAX;
    if (max_tokens) {
        if (max_tokens < form->special)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "max_tokens is %zu, but the special tokens alone are %zu: allow at least that many", max_tokens,
                        form->special);
        limit = max_tokens - form->special;
    }
    /* How a pair is cut depends on which of the two is longer, so both are needed whole. */
    both[0].all.limit = pair || t->cut_left ? SIZE_MAX : limit;
    both[1].all.limit = SIZE_MAX;
    TRY(tokenizer_text(host, t, text, text_bytes, &both[0].all));
    if (pair) TRY(tokenizer_text(host, t, pair, pair_bytes, &both[1].all));
    both[0].count = both[0].all.count;
    both[1].count = both[1].all.count;
    if (max_tokens) truncate_longest(limit, &both[0].count, &both[1].count);
    for (int i = 0; i < 2 && t->cut_left; i++) both[i].first = both[i].all.count - both[i].count;
    return true;
}

/* The text's tokens, or a special one. Returns how many. */
static size_t piece_write(const struct template_piece *piece, const struct kept both[2], size_t room, int32_t *ids,
                          int32_t *types, wherry_token_place *places)
{
    bool special = piece->kind == PIECE_TOKEN;
    int32_t which = special ? -1 : piece->kind == PIECE_SECOND;
    const struct kept *from = special ? NULL : &both[which];
    size_t count = special ? 1 : from->count, fits = smaller(count, room);
    for (size_t i = 0; i < fits; i++) {
        ids[i] = special ? piece->id : from->all.ids[from->first + i];
        if (types) types[i] = piece->type;
        if (!places) continue;
        places[i] = (wherry_token_place){.text = which};
        if (special) continue;
        places[i].first_character = from->all.places[from->first + i].first;
        places[i].end_character = from->all.places[from->first + i].end;
        places[i].continues = from->all.places[from->first + i].marked;
    }
    return count;
}

size_t template_write(const struct template *form, const struct kept both[2], size_t room, int32_t *ids, int32_t *types,
                      wherry_token_place *places)
{
    size_t total = 0;
    for (size_t p = 0; p < form->count; p++) {
        bool any = total < room;
        total += piece_write(&form->pieces[p], both, any ? room - total : 0, any ? ids + total : NULL,
                             any && types ? types + total : NULL, any && places ? places + total : NULL);
    }
    return total;
}

/* ---- bytes ---- */

/* Where each character of the text begins, and its end. */
static bool find_bytes(const char *text, size_t bytes, struct list *out, struct error *e)
{
    TRY(list_reserve(out, bytes + 1, e));
    uint32_t c;
    for (size_t i = 0; i < bytes; i += utf8_decode(text + i, bytes - i, &c, NULL))
        out->items[out->count++] = (uint32_t)i;
    out->items[out->count++] = (uint32_t)bytes;
    return true;
}

bool places_find_bytes(const struct host *host, const char *text, size_t bytes, int32_t which,
                       wherry_token_place *places, size_t count, struct error *e)
{
    struct list at = {.host = host};
    bool ok = find_bytes(text, bytes, &at, e);
    for (size_t i = 0; ok && i < count; i++) {
        if (places[i].text != which) continue;
        places[i].first = at.items[places[i].first_character];
        places[i].end = at.items[places[i].end_character];
    }
    list_free(&at);
    return ok;
}

/* ---- all together ---- */

bool tokenizer_encode_places(const struct host *host, const struct tokenizer *t, const char *text, size_t text_bytes,
                             const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                             wherry_token_place *places, size_t *count, struct error *e)
{
    struct kept both[2] = {{.all = {.host = host, .e = e}}, {.all = {.host = host, .e = e}}};
    both[0].all.placed = both[1].all.placed = t->needs_places || places;
    bool ok = encode_both(host, t, text, text_bytes, pair, pair_bytes, max_tokens, both);
    for (int i = 0; ok && places && i < 2; i++)
        if (both[i].count) post_processor_trim(&t->post, both[i].all.places + both[i].first, both[i].count);
    size_t total = 0, room = ids ? *count : 0;
    if (ok) total = template_write(pair ? &t->post.pair : &t->post.single, both, room, ids, types, places);
    tokens_free(&both[0].all);
    tokens_free(&both[1].all);
    if (ok && places && room) {
        size_t written = smaller(total, room);
        ok = places_find_bytes(host, text, text_bytes, 0, places, written, e) &&
             (!pair || places_find_bytes(host, pair, pair_bytes, 1, places, written, e));
        for (size_t i = 0; t->model.kind != &model_word_piece && i < written; i++) places[i].continues = -1;
    }
    if (ok) *count = total;
    return ok;
}

bool tokenizer_encode(const struct host *host, const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                      size_t *count, struct error *e)
{
    return tokenizer_encode_places(host, tokenizer, text, text_bytes, pair, pair_bytes, max_tokens, ids, types, NULL,
                                   count, e);
}
