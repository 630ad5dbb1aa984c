/* Tokens by their texts. */
#include <string.h>

#include "tokenizer/bpe.h"

static size_t text_hash(const uint32_t *text, size_t length)
{
    uint64_t hash = length;
    for (size_t i = 0; i < length; i++) hash = (hash ^ text[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32);
}

static bool token_is(const struct token *token, const uint32_t *text, size_t length)
{
    return token->length == length && !memcmp(token->text, text, length * sizeof *text);
}

size_t bpe_slot(const struct bpe *bpe, const uint32_t *text, size_t length)
{
    for (size_t i = text_hash(text, length);; i++) {
        uint32_t token = bpe->slots[i & bpe->slot_mask];
        if (token == BPE_NONE || token_is(&bpe->words.tokens[token], text, length)) return i & bpe->slot_mask;
    }
}

uint32_t bpe_find(const struct bpe *bpe, const uint32_t *text, size_t length)
{
    if (length > bpe->longest) return BPE_NONE;
    return bpe->slots[bpe_slot(bpe, text, length)];
}
