/* Byte pair encoding as a kind of model. */
#ifndef WHERRY_TOKENIZER_BPE_MODEL_H
#define WHERRY_TOKENIZER_BPE_MODEL_H

#include "tokenizer/bpe.h"
#include "tokenizer/models.h"

/* Growing memory for merges. */
struct bpe_merge_list {
    struct bpe_merge_text *items;
    size_t count, room;
};

/* "left right", one space between them; `number`: of the merge, for an error. The text is needed until the model is
 * made. */
bool bpe_merge_parse(const struct part_reader *r, const char *text, size_t bytes, size_t number,
                     struct bpe_merge_text *out);
bool bpe_merge_add(const struct part_reader *r, struct bpe_merge_list *list, const struct bpe_merge_text *merge);

/* Makes the model of a vocabulary that was read; *data as model_kind's open gives it. Owns the words. */
bool bpe_model_make(const struct part_reader *r, struct words *words, const struct bpe_merge_list *merges,
                    const struct bpe_options *options, void **data);

#endif
