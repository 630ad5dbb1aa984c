/* Byte pair encoding: a piece of text begins as its characters, and of all pairs of neighbours that are a merge, the
 * one of lowest rank becomes one token, until there is none. */
#ifndef WHERRY_TOKENIZER_BPE_H
#define WHERRY_TOKENIZER_BPE_H

#include "tokenizer/tokens.h"
#include "tokenizer/words.h"

#define BPE_NONE UINT32_MAX

struct bpe_options {
    const char *unknown; /* NULL: what has no token is left out */
    const char *prefix;  /* of tokens that continue a piece, "": none */
    const char *suffix;  /* of tokens that end a piece, "": none */
    bool fuse_unknown;   /* unknown tokens next to each other are one */
    bool byte_fallback;  /* what has no token becomes tokens of its bytes, "<0x0A>", where there are all of them */
    bool ignore_merges;  /* a piece that is a token is that token, whatever the merges give */
};

struct bpe_part {
    const char *text; /* no NUL after it */
    size_t bytes;
};

struct bpe_merge_text {
    struct bpe_part left, right;
};

/* Of two tokens next to each other. Tokens are counted as the vocabulary has them; their ids are in it. */
struct bpe_merge {
    uint32_t left, right; /* left BPE_NONE: an empty slot */
    uint32_t rank, token;
};

enum { BPE_DIRECT = 0x200, BPE_AFFIX = 32 /* characters of a prefix or a suffix, at most */ };

struct bpe {
    struct words words;
    uint32_t *slots; /* [slot_mask + 1]: tokens by their texts */
    size_t slot_mask;
    struct bpe_merge *merges; /* [merge_mask + 1]: by their pairs */
    size_t merge_mask;
    uint32_t *results; /* [merges]: of each rank, the token */
    size_t merge_count;
    bool *whole;       /* [tokens]: a piece of just this text becomes just this token */
    size_t longest;    /* token, in characters */
    size_t duplicates; /* tokens that are there twice: the last counts */
    struct list prefix, suffix;
    uint32_t unknown, bytes[256], direct[BPE_DIRECT]; /* tokens, or BPE_NONE; direct: of single characters */
    bool has_unknown, fuse_unknown, byte_fallback, ignore_merges;
};

/* ---- made (bpe_make.c) ---- */

/* Owns the words, also after a failure. */
bool bpe_make(const struct part_reader *r, struct words *words, const struct bpe_merge_text *merges, size_t merge_count,
              const struct bpe_options *options, struct bpe *out);
void bpe_free(const struct host *host, struct bpe *bpe);

/* The slot of this pair's merge, or the empty one where it would go. */
static inline struct bpe_merge *bpe_merge_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = (left * UINT64_C(0x9e3779b97f4a7c15) + right) * UINT64_C(0xd6e8feb86659fd93);
    for (size_t i = (size_t)(hash >> 32);; i++) {
        struct bpe_merge *merge = &bpe->merges[i & bpe->merge_mask];
        if ((merge->left == left && merge->right == right) || merge->left == BPE_NONE) return merge;
    }
}

/* ---- looked up (bpe_find.c) ---- */

/* The token of exactly this text, or BPE_NONE. */
uint32_t bpe_find(const struct bpe *bpe, const uint32_t *text, size_t length);
/* Its place in `slots`, or the free one where it would go. */
size_t bpe_slot(const struct bpe *bpe, const uint32_t *text, size_t length);

/* ---- at work (bpe.c) ---- */

/* A token on its way. */
struct bpe_symbol {
    uint32_t token;
    uint32_t bytes; /* of the piece's UTF-8 that it stands for */
};

/* Appends the tokens of a piece that is not empty. Time grows with its length times the logarithm of that. */
bool bpe_encode(const struct bpe *bpe, const struct view *piece, struct tokens *out);

enum { BPE_FEW = 64 };

/* What a piece becomes before any merge, into symbols[], which has room for bpe_symbols_most(): how many these are. */
size_t bpe_symbols(const struct bpe *bpe, const uint32_t *piece, size_t length, struct bpe_symbol *symbols);
size_t bpe_symbols_most(const struct bpe *bpe, const uint32_t *piece, size_t length);
/* Merges symbols[0, count) in place, at most BPE_FEW: how many are left. */
size_t bpe_merge_few(const struct bpe *bpe, struct bpe_symbol *symbols, size_t count);

#endif
