/* Tokens of a model by their ids, and texts of them again. */
#ifndef WHERRY_SERVE_VOCABULARY_H
#define WHERRY_SERVE_VOCABULARY_H

#include <wherry/wherry.h>

#include "bytes.h"

struct vocabulary;
/* NULL: the model has no tokenizer, or (in *status) why it can't be read. */
struct vocabulary *vocabulary_open(wherry_context *context, const wherry_model *model, const wherry_model_info *info,
                                   wherry_status *status);
void vocabulary_close(struct vocabulary *vocabulary); /* accepts NULL */
/* The token as the vocabulary has it, as a JSON string. */
void vocabulary_write(const struct vocabulary *vocabulary, int32_t id, struct bytes *out);
/* The text that the tokens spell, as a JSON string. A character that several tokens spell bytes of (RoBERTa's) is
 * U+FFFD for each. */
void vocabulary_decode(const struct vocabulary *vocabulary, const int32_t *ids, size_t count, bool skip_special,
                       struct bytes *out);

#endif
