/* A pair as one text: the frame's parts and both texts one after the other. */
#include "tokenizer/pair_frame.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer_parts.h"

bool tokenizer_frames_pairs(const struct tokenizer *t) { return t->frame.parts[0] != NULL; }

bool tokenizer_takes_instruction(const struct tokenizer *t) { return t->frame.instruction != NULL; }

bool tokenizer_instruct(struct tokenizer *t, const char *instruction, struct error *e)
{
    char *copy = host_strdup(&t->host, instruction, e);
    if (!copy) return false;
    host_free(&t->host, t->frame.instruction);
    t->frame.instruction = copy;
    return true;
}

/* Of a pair that is cut: what is left of its tokens, then those of the last part. */
static bool form_make(struct tokenizer *t, struct error *e)
{
    const struct host *host = &t->host;
    struct tokens tokens = {.host = host, .placed = t->needs_places, .limit = SIZE_MAX, .e = e};
    struct template *form = &t->frame_form;
    bool ok =
        tokenizer_text(host, t, t->frame.parts[FRAME_PARTS - 1], strlen(t->frame.parts[FRAME_PARTS - 1]), &tokens);
    if (ok) form->pieces = host_alloc(host, tokens.count + 1, sizeof *form->pieces, e);
    if (ok && form->pieces) {
        form->pieces[0] = (struct template_piece){.kind = PIECE_FIRST};
        for (size_t i = 0; i < tokens.count; i++)
            form->pieces[i + 1] = (struct template_piece){.kind = PIECE_TOKEN, .id = tokens.ids[i]};
        form->count = tokens.count + 1;
        form->special = tokens.count;
    }
    tokens_free(&tokens);
    return ok && form->pieces;
}

bool tokenizer_frame_pairs(struct tokenizer *t, struct pair_frame *frame, struct error *e)
{
    pair_frame_free(&t->host, &t->frame);
    host_free(&t->host, t->frame_form.pieces);
    t->frame_form = (struct template){0};
    t->frame = *frame;
    memset(frame, 0, sizeof *frame);
    return form_make(t, e);
}

/* ---- a pair ---- */

/* All of it, and where in it the two texts begin and end. */
struct joined {
    char *text;
    size_t bytes, first[2], end[2];
};

static void add(struct joined *j, const char *text, size_t bytes)
{
    if (bytes) memcpy(j->text + j->bytes, text, bytes);
    j->bytes += bytes;
}

static bool join(const struct host *host, const struct tokenizer *t, const char *instruction, const char *const *texts,
                 const size_t *bytes, struct joined *out, struct error *e)
{
    char *const *parts = t->frame.parts;
    const char *said = !t->frame.instruction ? "" : instruction ? instruction : t->frame.instruction;
    size_t sizes[] = {strlen(parts[0]), strlen(said), strlen(parts[1]), bytes[0],
                      strlen(parts[2]), bytes[1],     strlen(parts[3])},
           all = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        all += sizes[i];
        if (all < sizes[i] || sizes[i] >= UINT32_MAX)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a text of 4 GiB and more is too long for the tokenizer");
    }
    *out = (struct joined){.text = host_alloc_unset(host, all + 1, 1, e)};
    if (!out->text) return false;
    add(out, parts[0], sizes[0]);
    add(out, said, sizes[1]);
    for (int i = 0; i < 2; i++) {
        add(out, parts[i + 1], strlen(parts[i + 1]));
        out->first[i] = out->bytes;
        add(out, texts[i], bytes[i]);
        out->end[i] = out->bytes;
    }
    add(out, parts[3], strlen(parts[3]));
    return true;
}

static size_t count_characters(const char *text, size_t bytes)
{
    size_t count = 0;
    uint32_t c;
    for (size_t i = 0; i < bytes; count++) i += utf8_decode(text + i, bytes - i, &c, NULL);
    return count;
}

static size_t within(size_t at, size_t first, size_t end) { return (at < first ? first : at > end ? end : at) - first; }

/* Places in the joined text become those in the two; what lies in neither is the frame's. */
static void part_places(const struct joined *j, bool wordless, wherry_token_place *places, size_t count)
{
    size_t first[2], end[2];
    for (int i = 0; i < 2; i++) {
        first[i] = count_characters(j->text, j->first[i]);
        end[i] = first[i] + count_characters(j->text + j->first[i], j->end[i] - j->first[i]);
    }
    for (size_t n = 0; n < count; n++) {
        const wherry_token_place from = places[n];
        places[n] = (wherry_token_place){.text = -1, .continues = wordless ? -1 : from.continues};
        for (int i = 0; i < 2 && from.text == 0; i++) {
            if (from.end <= j->first[i] || from.first >= j->end[i]) continue;
            places[n] = (wherry_token_place){.text = i,
                                             .first = within(from.first, j->first[i], j->end[i]),
                                             .end = within(from.end, j->first[i], j->end[i]),
                                             .first_character = within(from.first_character, first[i], end[i]),
                                             .end_character = within(from.end_character, first[i], end[i]),
                                             .continues = places[n].continues};
        }
    }
}

/* The last part's tokens take the place of the last ones of what is cut: what is asked stays. */
static size_t write_kept(const struct tokenizer *t, const struct tokens *all, size_t max_tokens, size_t room,
                         int32_t *ids, int32_t *types, wherry_token_place *places)
{
    static const struct template_piece whole = {.kind = PIECE_FIRST};
    const struct template all_of_it = {.pieces = (struct template_piece *)&whole, .count = 1};
    bool cut = max_tokens && all->count > max_tokens;
    const struct kept both[2] = {{.all = *all, .count = cut ? max_tokens - t->frame_form.special : all->count}};
    return template_write(cut ? &t->frame_form : &all_of_it, both, room, ids, types, places);
}

/* Scores of pairs that are cut before their second text would all be the same. */
static bool check_cut(const struct tokenizer *t, const struct joined *j, const struct tokens *all, size_t max_tokens,
                      struct error *e)
{
    if (!max_tokens || all->count <= max_tokens) return true;
    size_t kept = max_tokens - t->frame_form.special, before = count_characters(j->text, j->first[1]);
    if (kept && all->places[kept - 1].end > before) return true;
    return fail(e, WHERRY_STATUS_TOO_LONG,
                "max_tokens is %zu, which leaves nothing of the second text behind the question and the first: allow "
                "more, or shorten these",
                max_tokens);
}

static bool encode(const struct host *host, const struct tokenizer *t, const struct joined *j, size_t max_tokens,
                   int32_t *ids, int32_t *types, wherry_token_place *places, size_t *count, struct error *e)
{
    struct tokens all = {.host = host,
                         .placed = t->needs_places || places || max_tokens,
                         .limit = max_tokens ? max_tokens : SIZE_MAX,
                         .e = e};
    if (max_tokens && max_tokens < t->frame_form.special)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "max_tokens is %zu, but the tokens at the end of a pair's template alone are %zu: allow more",
                    max_tokens, t->frame_form.special);
    bool ok = tokenizer_text(host, t, j->text, j->bytes, &all) && check_cut(t, j, &all, max_tokens, e);
    if (ok && places && all.count) post_processor_trim(&t->post, all.places, all.count);
    size_t room = ids ? *count : 0, total = ok ? write_kept(t, &all, max_tokens, room, ids, types, places) : 0;
    size_t written = total < room ? total : room;
    tokens_free(&all);
    if (ok && places && written) {
        ok = places_find_bytes(host, j->text, j->bytes, 0, places, written, e);
        if (ok) part_places(j, t->model.kind != &model_word_piece, places, written);
    }
    if (ok) *count = total;
    return ok;
}

bool tokenizer_encode_pair(const struct host *host, const struct tokenizer *t, const char *instruction,
                           const char *text, size_t text_bytes, const char *pair, size_t pair_bytes, size_t max_tokens,
                           int32_t *ids, int32_t *types, wherry_token_place *places, size_t *count, struct error *e)
{
    const size_t bytes[] = {text_bytes, pair_bytes};
    const char *const texts[] = {text, pair};
    struct joined j = {.text = NULL};
    if (!pair || !tokenizer_frames_pairs(t))
        return tokenizer_encode_places(host, t, text, text_bytes, pair, pair_bytes, max_tokens, ids, types, places,
                                       count, e);
    TRY(join(host, t, instruction, texts, bytes, &j, e));
    bool ok = encode(host, t, &j, max_tokens, ids, types, places, count, e);
    host_free(host, j.text);
    return ok;
}
