/* Byte pair encoding at work. */
#include "tokenizer/bpe.h"

#include <string.h>

/* ---- a piece's characters ---- */

static uint32_t utf8_bytes(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

size_t bpe_symbols_most(const struct bpe *bpe, const uint32_t *piece, size_t length)
{
    size_t bytes = 4 * (bpe->prefix.count * length + bpe->suffix.count);
    if (!bpe->byte_fallback) return length;
    for (size_t i = 0; i < length; i++) bytes += utf8_bytes(piece[i]);
    return bytes;
}

struct symbols {
    struct bpe_symbol *items;
    size_t count;
};

static void symbol_add(struct symbols *to, uint32_t token, uint32_t bytes)
{
    to->items[to->count++] = (struct bpe_symbol){token, bytes};
}

/* Adds a token for each byte of a character's UTF-8; false: one of them is none. */
static bool add_bytes(const struct bpe *bpe, uint32_t c, struct symbols *to)
{
    uint32_t n = utf8_bytes(c);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t head = n == 1 ? 0 : 0xF00u >> n & 0xFF, six = c >> 6 * (n - 1 - i);
        uint32_t token = bpe->bytes[i ? 0x80 | (six & 0x3F) : head | six];
        if (token == BPE_NONE) return false;
        symbol_add(to, token, 1);
    }
    return true;
}

/* A character with what is put around it. */
struct affixed {
    uint32_t c;
    const uint32_t *prefix, *suffix;
    size_t prefix_length, suffix_length;
};

static bool add_fallback(const struct bpe *bpe, const struct affixed *a, struct symbols *to)
{
    size_t before = to->count;
    bool ok = true;
    for (size_t i = 0; ok && i < a->prefix_length; i++) ok = add_bytes(bpe, a->prefix[i], to);
    ok = ok && add_bytes(bpe, a->c, to);
    for (size_t i = 0; ok && i < a->suffix_length; i++) ok = add_bytes(bpe, a->suffix[i], to);
    if (!ok) to->count = before;
    return ok;
}

static uint32_t find_affixed(const struct bpe *bpe, const struct affixed *a)
{
    uint32_t text[2 * BPE_AFFIX + 1];
    size_t length = a->prefix_length + 1 + a->suffix_length;
    if (length == 1) return a->c < BPE_DIRECT ? bpe->direct[a->c] : bpe_find(bpe, &a->c, 1);
    for (size_t i = 0; i < a->prefix_length; i++) text[i] = a->prefix[i];
    text[a->prefix_length] = a->c;
    for (size_t i = 0; i < a->suffix_length; i++) text[a->prefix_length + 1 + i] = a->suffix[i];
    return bpe_find(bpe, text, length);
}

size_t bpe_symbols(const struct bpe *bpe, const uint32_t *piece, size_t length, struct bpe_symbol *symbols)
{
    struct symbols to = {symbols, 0};
    uint32_t unknown = 0; /* bytes of an unknown token that is not added yet */
    for (size_t i = 0; i < length; i++) {
        struct affixed a = {piece[i], bpe->prefix.items, bpe->suffix.items, i ? bpe->prefix.count : 0,
                            i + 1 == length ? bpe->suffix.count : 0};
        uint32_t token = find_affixed(bpe, &a);
        if (token != BPE_NONE) {
            if (unknown) symbol_add(&to, bpe->unknown, unknown);
            unknown = 0;
            symbol_add(&to, token, utf8_bytes(a.c));
            continue;
        }
        /* An unknown token before these goes after them: so does the reference. */
        if (bpe->byte_fallback && add_fallback(bpe, &a, &to)) continue;
        if (!bpe->has_unknown) continue;
        if (unknown && !bpe->fuse_unknown) {
            symbol_add(&to, bpe->unknown, unknown);
            unknown = 0;
        }
        unknown += utf8_bytes(a.c);
    }
    if (unknown) symbol_add(&to, bpe->unknown, unknown);
    return to.count;
}

/* ---- merges of a short piece: the best pair is looked for among all ---- */

static uint32_t rank_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    return bpe_merge_slot(bpe, left, right)->rank;
}

size_t bpe_merge_few(const struct bpe *bpe, struct bpe_symbol *symbols, size_t count)
{
    uint32_t ranks[BPE_FEW]; /* of symbols i and i + 1; BPE_NONE: no merge */
    for (size_t i = 0; i + 1 < count; i++) ranks[i] = rank_of(bpe, symbols[i].token, symbols[i + 1].token);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) best = ranks[i] < ranks[best] ? i : best;
        if (ranks[best] == BPE_NONE) break;
        symbols[best].token = bpe->results[ranks[best]];
        symbols[best].bytes += symbols[best + 1].bytes;
        count--;
        memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof *symbols);
        memmove(ranks + best, ranks + best + 1, (count - best - 1) * sizeof *ranks);
        if (best + 1 < count) ranks[best] = rank_of(bpe, symbols[best].token, symbols[best + 1].token);
        if (best) ranks[best - 1] = rank_of(bpe, symbols[best - 1].token, symbols[best].token);
    }
    return count;
}

/* ---- merges of a long piece: the pairs wait in a heap ---- */

/* Neighbours; BPE_NONE: none. */
struct link {
    uint32_t before, after;
};

/* Pairs by rank, then from the left: rank << 32 | the left one's index. A pair stays when one of the two becomes part
 * of another token; it is known by that when its turn comes. */
struct heap {
    uint64_t *items;
    size_t count;
};

static void heap_down(struct heap *heap, size_t at)
{
    uint64_t item = heap->items[at];
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child]) child++;
        if (item <= heap->items[child]) break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = item;
}

static void heap_add(struct heap *heap, uint64_t item)
{
    size_t at = heap->count++;
    for (; at && item < heap->items[(at - 1) / 2]; at = (at - 1) / 2) heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

static uint64_t heap_take(struct heap *heap)
{
    uint64_t first = heap->items[0];
    heap->items[0] = heap->items[--heap->count];
    if (heap->count) heap_down(heap, 0);
    return first;
}

/* A piece on its way. */
struct merging {
    const struct bpe *bpe;
    struct bpe_symbol *symbols; /* no bytes: it has become part of the one before */
    struct link *links;
    struct heap heap; /* room for twice as many as there are symbols: a merge takes one pair and adds two at most */
};

static void pair_add(struct merging *m, uint32_t left, uint32_t right)
{
    uint32_t rank = rank_of(m->bpe, m->symbols[left].token, m->symbols[right].token);
    if (rank != BPE_NONE) heap_add(&m->heap, (uint64_t)rank << 32 | left);
}

static void pair_merge(struct merging *m, uint32_t left, uint32_t token)
{
    uint32_t right = m->links[left].after, after = m->links[right].after, before = m->links[left].before;
    m->symbols[left].token = token;
    m->symbols[left].bytes += m->symbols[right].bytes;
    m->symbols[right].bytes = 0;
    m->links[left].after = after;
    if (after != BPE_NONE) m->links[after].before = left;
    if (before != BPE_NONE) pair_add(m, before, left);
    if (after != BPE_NONE) pair_add(m, left, after);
}

static size_t merge_many(struct merging *m, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        m->links[i] = (struct link){i ? (uint32_t)i - 1 : BPE_NONE, i + 1 < count ? (uint32_t)i + 1 : BPE_NONE};
        uint32_t rank = i + 1 < count ? rank_of(m->bpe, m->symbols[i].token, m->symbols[i + 1].token) : BPE_NONE;
        if (rank != BPE_NONE) m->heap.items[m->heap.count++] = (uint64_t)rank << 32 | i;
    }
    for (size_t i = m->heap.count / 2; i-- > 0;) heap_down(&m->heap, i);
    while (m->heap.count) {
        uint64_t pair = heap_take(&m->heap);
        uint32_t left = (uint32_t)pair, right = m->links[left].after, token = m->bpe->results[pair >> 32];
        if (!m->symbols[left].bytes || right == BPE_NONE) continue;
        const struct bpe_merge *now = bpe_merge_slot(m->bpe, m->symbols[left].token, m->symbols[right].token);
        if (now->rank != BPE_NONE && now->token == token) pair_merge(m, left, token);
    }
    for (size_t i = 0; i < count; i++) {
        if (m->symbols[i].bytes) m->symbols[kept++] = m->symbols[i];
    }
    return kept;
}

/* ---- a piece ---- */

/* Where the characters end that are behind the first `bytes` of the piece's UTF-8, from `*at` (`*passed` bytes) on. */
static size_t walk(const struct view *piece, size_t *at, size_t *passed, size_t bytes)
{
    while (*at < piece->length && *passed + utf8_bytes(piece->characters[*at]) <= bytes)
        *passed += utf8_bytes(piece->characters[(*at)++]);
    return *at + (*passed < bytes && *at < piece->length);
}

static bool is_literal(const struct token *token, const struct view *piece, size_t first, size_t end)
{
    return token->length == end - first &&
           !memcmp(token->text, piece->characters + first, token->length * sizeof *token->text);
}

static bool add_token(const struct bpe *bpe, uint32_t token, const struct view *piece, size_t first, size_t end,
                      struct tokens *out)
{
    if (token == BPE_NONE)
        return fail(
            out->e, WHERRY_STATUS_BAD_FORMAT,
            "the text has a character that no token has, and the vocabulary (%zu tokens) lacks the unknown token",
            bpe->words.count);
    const struct token *word = &bpe->words.tokens[token];
    return tokens_add(out, word->id, piece, first, end, out->placed && is_literal(word, piece, first, end));
}

static bool add_symbols(const struct bpe *bpe, const struct bpe_symbol *symbols, size_t count, const struct view *piece,
                        struct tokens *out)
{
    size_t at = 0, passed = 0, bytes = 0;
    for (size_t i = 0; i < count && !out->full; i++) {
        size_t first = 0, end = piece->length;
        if (out->placed) {
            walk(piece, &at, &passed, bytes);
            first = at < piece->length ? at : piece->length - 1;
            bytes += symbols[i].bytes;
            end = walk(piece, &at, &passed, bytes);
            if (end <= first) end = first + 1;
        }
        TRY(add_token(bpe, symbols[i].token, piece, first, end, out));
    }
    return true;
}

static bool encode_long(const struct bpe *bpe, const struct view *piece, size_t most, struct tokens *out)
{
    struct merging m = {.bpe = bpe};
    if (most >= BPE_NONE) return fail(out->e, WHERRY_STATUS_BAD_FORMAT, "a word of %zu bytes is too long", most);
    uint64_t *memory = tokens_scratch(out, most, 4 * sizeof *memory);
    if (!memory) return false;
    m.heap.items = memory;
    m.symbols = (struct bpe_symbol *)(memory + 2 * most);
    m.links = (struct link *)(memory + 3 * most);
    size_t count = bpe_symbols(bpe, piece->characters, piece->length, m.symbols);
    count = count <= BPE_FEW ? bpe_merge_few(bpe, m.symbols, count) : merge_many(&m, count);
    return add_symbols(bpe, m.symbols, count, piece, out);
}

bool bpe_encode(const struct bpe *bpe, const struct view *piece, struct tokens *out)
{
    struct bpe_symbol symbols[BPE_FEW];
    uint32_t token = bpe_find(bpe, piece->characters, piece->length);
    if (token != BPE_NONE && bpe->whole[token]) return add_token(bpe, token, piece, 0, piece->length, out);
    size_t most = bpe_symbols_most(bpe, piece->characters, piece->length);
    if (most > BPE_FEW) return encode_long(bpe, piece, most, out);
    size_t count = bpe_symbols(bpe, piece->characters, piece->length, symbols);
    return add_symbols(bpe, symbols, bpe_merge_few(bpe, symbols, count), piece, out);
}
