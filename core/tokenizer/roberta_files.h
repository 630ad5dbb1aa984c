/* What the older files of RoBERTa's family share, RoBERTa's own and those with a model of SentencePiece: special
 * tokens, and what is put around texts. */
#ifndef WHERRY_TOKENIZER_ROBERTA_FILES_H
#define WHERRY_TOKENIZER_ROBERTA_FILES_H

#include "tokenizer/tokenizer_files.h"

enum roberta_special {
    ROBERTA_BEGIN,
    ROBERTA_END,
    ROBERTA_UNKNOWN,
    ROBERTA_SEPARATOR,
    ROBERTA_PAD,
    ROBERTA_CLASS,
    ROBERTA_MASK,
    ROBERTA_SPECIALS
};
/* Adds the special tokens, by the names that transformers gives them where no file does. `map`, which may be NULL, is
 * asked before tokenizer_config.json. `mask_strips`: the mask takes the white space before it where no file says. */
bool roberta_specials_add(struct file_reader *r, const json_t *map, bool mask_strips,
                          const char *specials[ROBERTA_SPECIALS]);
/* Texts begin with `first` and end with `last`, of which the vocabulary must have both. */
bool roberta_frame(struct file_reader *r, const char *first, const char *last);

#endif
