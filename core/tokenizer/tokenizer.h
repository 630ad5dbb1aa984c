/* BERT's tokenizer: cleaning, lower case and accents, CJK, punctuation, then WordPiece; ids equal to Hugging Face's
 * BertTokenizerFast. */
#ifndef WHERRY_TOKENIZER_H
#define WHERRY_TOKENIZER_H

#include "base/host.h"

struct tokenizer;

/* Reads vocab.txt (with tokenizer_config.json beside it, where it exists) or tokenizer.json of a model folder. Fails
 * with WHERRY_STATUS_UNSUPPORTED for another kind of tokenizer than WordPiece. `vocabulary` is the model's: an id at or
 * above it is an error. */
struct tokenizer *tokenizer_open(const struct host *host, const char *folder, uint32_t vocabulary, struct error *e);
void tokenizer_close(struct tokenizer *tokenizer); /* accepts NULL */

/* See wherry_tokenize: writes at most *count tokens and sets *count to the number there is; max_tokens 0 cuts nothing.
 * Linear in the length of the text. */
bool tokenizer_encode(const struct host *host, const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                      size_t *count, struct error *e);

#endif
