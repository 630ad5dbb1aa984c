/* A model of byte pair encoding, made of its vocabulary and merges. */
#include <string.h>

#include "tokenizer/bpe.h"

static size_t power_above(size_t least)
{
    size_t n = 16;
    while (n < least) n *= 2;
    return n;
}

static bool make_slots(const struct part_reader *r, struct bpe *bpe)
{
    size_t room = power_above(2 * bpe->words.count + 1);
    if (bpe->words.count >= BPE_NONE)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the vocabulary has too many tokens: %zu", bpe->words.count);
    bpe->slots = host_alloc_unset(r->host, room, sizeof *bpe->slots, r->e);
    if (!bpe->slots) return false;
    memset(bpe->slots, 0xFF, room * sizeof *bpe->slots);
    bpe->slot_mask = room - 1;
    for (size_t i = 0; i < bpe->words.count; i++) {
        const struct token *token = &bpe->words.tokens[i];
        uint32_t *slot = &bpe->slots[bpe_slot(bpe, token->text, token->length)];
        bpe->duplicates += *slot != BPE_NONE;
        *slot = (uint32_t)i;
        if (token->length > bpe->longest) bpe->longest = token->length;
    }
    return true;
}

/* No two texts have an id. */
static bool check_ids(const struct part_reader *r, const struct bpe *bpe)
{
    size_t room = power_above(2 * bpe->words.count + 1);
    uint32_t *seen = host_alloc(r->host, room, sizeof *seen, r->e);
    bool ok = seen;
    for (size_t i = 0; ok && i < bpe->words.count; i++) {
        const struct token *token = &bpe->words.tokens[i];
        if (bpe->slots[bpe_slot(bpe, token->text, token->length)] != i) continue;
        size_t at = (size_t)((uint32_t)token->id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);
        while (seen[at] && bpe->words.tokens[seen[at] - 1].id != token->id) at = (at + 1) & (room - 1);
        if (seen[at])
            ok = fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                      "two tokens of the vocabulary have id %d: the file is damaged, get it again", (int)token->id);
        seen[at] = (uint32_t)i + 1;
    }
    host_free(r->host, seen);
    return ok;
}

/* ---- merges by their pairs ---- */

/* The token `part` of merge `rank`. */
static bool find_part(const struct part_reader *r, const struct bpe *bpe, size_t rank, const struct bpe_part *part,
                      struct list *scratch, uint32_t *out)
{
    size_t before = scratch->count;
    TRY(list_add_text(scratch, part->text, part->bytes, "a merge", r->e));
    *out = bpe_find(bpe, scratch->items + before, scratch->count - before);
    if (*out != BPE_NONE) return true;
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                "merge %zu names \"%.*s\", which the vocabulary (%zu tokens) does not have: the files belong to "
                "different models or are damaged",
                rank, part->bytes < 100 ? (int)part->bytes : 100, part->text, bpe->words.count);
}

static bool find_merge(const struct part_reader *r, const struct bpe *bpe, size_t rank,
                       const struct bpe_merge_text *text, struct list *scratch, struct bpe_merge *out)
{
    out->rank = (uint32_t)rank;
    scratch->count = 0;
    TRY(list_reserve(scratch, 1, r->e)); /* a part may be empty, and the list not */
    TRY(find_part(r, bpe, rank, &text->right, scratch, &out->right));
    size_t right = scratch->count, skipped = bpe->prefix.count;
    if (right < skipped)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "the right token of merge %zu, \"%.*s\", is shorter than the prefix of tokens that continue a word",
                    rank, text->right.bytes < 100 ? (int)text->right.bytes : 100, text->right.text);
    TRY(find_part(r, bpe, rank, &text->left, scratch, &out->left));
    TRY(list_reserve(scratch, right, r->e));
    memcpy(scratch->items + scratch->count, scratch->items + skipped, (right - skipped) * sizeof *scratch->items);
    out->token = bpe_find(bpe, scratch->items + right, scratch->count - skipped);
    if (out->token != BPE_NONE) return true;
    return fail(
        r->e, WHERRY_STATUS_BAD_FORMAT,
        "merge %zu, of \"%.*s\" and \"%.*s\", gives a token that the vocabulary (%zu tokens) does not have: the "
        "files belong to different models or are damaged",
        rank, text->left.bytes < 100 ? (int)text->left.bytes : 100, text->left.text,
        text->right.bytes < 100 ? (int)text->right.bytes : 100, text->right.text, bpe->words.count);
}

static bool make_merges(const struct part_reader *r, struct bpe *bpe, const struct bpe_merge_text *texts, size_t count)
{
    struct list scratch = {.host = r->host};
    size_t room = power_above(2 * count + 1);
    if (count >= BPE_NONE) return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "too many merges: %zu", count);
    bpe->results = host_alloc(r->host, count, sizeof *bpe->results, r->e);
    bpe->merges = bpe->results ? host_alloc_unset(r->host, room, sizeof *bpe->merges, r->e) : NULL;
    if (!bpe->merges) return false;
    memset(bpe->merges, 0xFF, room * sizeof *bpe->merges);
    bpe->merge_mask = room - 1;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        struct bpe_merge merge;
        ok = find_merge(r, bpe, i, &texts[i], &scratch, &merge);
        if (!ok) break;
        bpe->results[i] = merge.token;
        *bpe_merge_slot(bpe, merge.left, merge.right) = merge; /* of equal pairs the last counts */
    }
    list_free(&scratch);
    return ok;
}

/* ---- tokens that have a task ---- */

/* One that the vocabulary lacks is missed only when a text needs it: a byte-level vocabulary never does. */
static bool find_unknown(const struct part_reader *r, struct bpe *bpe, const char *name)
{
    struct list text = {.host = r->host};
    bpe->has_unknown = name != NULL;
    bpe->unknown = BPE_NONE;
    if (!name) return true;
    bool ok = list_add_text(&text, name, strlen(name), "\"unk_token\"", r->e);
    if (ok) bpe->unknown = bpe_find(bpe, text.items, text.count);
    list_free(&text);
    return ok;
}

static void find_bytes(struct bpe *bpe)
{
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned b = 0; b < 256; b++) {
        const uint32_t text[] = {'<', '0', 'x', (uint32_t)digits[b >> 4], (uint32_t)digits[b & 15], '>'};
        bpe->bytes[b] = bpe_find(bpe, text, sizeof text / sizeof *text);
    }
    for (uint32_t c = 0; c < BPE_DIRECT; c++) bpe->direct[c] = bpe_find(bpe, &c, 1);
}

/* ---- tokens that are what their own text becomes ---- */

static bool find_whole(const struct part_reader *r, struct bpe *bpe)
{
    struct bpe_symbol symbols[BPE_FEW]; /* longer tokens, which are rare, are encoded like any other text */
    bpe->whole = host_alloc(r->host, bpe->words.count, sizeof *bpe->whole, r->e);
    if (!bpe->whole) return false;
    for (size_t i = 0; i < bpe->words.count; i++) {
        const struct token *token = &bpe->words.tokens[i];
        bpe->whole[i] = bpe->ignore_merges;
        if (bpe->ignore_merges || bpe_symbols_most(bpe, token->text, token->length) > BPE_FEW) continue;
        size_t count = bpe_symbols(bpe, token->text, token->length, symbols);
        bpe->whole[i] = bpe_merge_few(bpe, symbols, count) == 1 && symbols[0].token == i;
    }
    return true;
}

bool bpe_make(const struct part_reader *r, struct words *words, const struct bpe_merge_text *merges, size_t merge_count,
              const struct bpe_options *options, struct bpe *out)
{
    *out = (struct bpe){.words = *words,
                        .prefix = {.host = r->host},
                        .suffix = {.host = r->host},
                        .fuse_unknown = options->fuse_unknown,
                        .byte_fallback = options->byte_fallback,
                        .ignore_merges = options->ignore_merges};
    *words = (struct words){0};
    TRY(list_add_text(&out->prefix, options->prefix, strlen(options->prefix), "the prefix of tokens", r->e) &&
        list_add_text(&out->suffix, options->suffix, strlen(options->suffix), "the suffix of tokens", r->e));
    if (out->prefix.count > BPE_AFFIX || out->suffix.count > BPE_AFFIX)
        return fail(r->e, WHERRY_STATUS_UNSUPPORTED,
                    "the prefix or the suffix of its tokens has more than %d characters", BPE_AFFIX);
    TRY(make_slots(r, out) && check_ids(r, out) && find_unknown(r, out, options->unknown));
    find_bytes(out);
    return make_merges(r, out, merges, merge_count) && find_whole(r, out);
}

void bpe_free(const struct host *host, struct bpe *bpe)
{
    words_free(host, &bpe->words);
    host_free(host, bpe->slots);
    host_free(host, bpe->merges);
    host_free(host, bpe->results);
    host_free(host, bpe->whole);
    if (bpe->prefix.host) list_free(&bpe->prefix);
    if (bpe->suffix.host) list_free(&bpe->suffix);
}
