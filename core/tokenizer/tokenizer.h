/* Tokenizers as Hugging Face's tokenizer.json describes them: added tokens, normalizers, pre-tokenizers, a model, a
 * post-processor. Ids, types and places equal those of its `tokenizers` library. */
#ifndef WHERRY_TOKENIZER_H
#define WHERRY_TOKENIZER_H

#include "base/host.h"

struct tokenizer;

/* The file of the folder that tokenizer_open reads, NULL: it has none. */
bool tokenizer_file(const struct host *host, const char *folder, const char **name, struct error *e);
/* Reads tokenizer.json of a model folder, or the older files where there is none (with tokenizer_config.json beside
 * them, where it exists). Fails with WHERRY_STATUS_UNSUPPORTED, and the name, for a part of a kind that is not
 * implemented. `class_name` is the tokenizer's class where tokenizer_config.json names none, which older files need;
 * NULL: not known. `vocabulary` is the model's: an id at or above it is an error. */
struct tokenizer *tokenizer_open(const struct host *host, const char *folder, const char *class_name,
                                 uint32_t vocabulary, struct error *e);
void tokenizer_close(struct tokenizer *tokenizer); /* accepts NULL */
/* Of its model, as tokenizer.json names it: "WordPiece". */
const char *tokenizer_type(const struct tokenizer *tokenizer);

/* See wherry_model_tokens. */
bool tokenizer_tokens(const struct host *host, const struct tokenizer *tokenizer, wherry_token_callback callback,
                      void *user, struct error *e);

/* See wherry_tokenize: writes at most *count tokens and sets *count to the number there is; max_tokens 0 cuts nothing.
 * Linear in the length of the text. */
bool tokenizer_encode(const struct host *host, const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                      size_t *count, struct error *e);

/* The same with the place of each token; `types` and `places` may be NULL. */
bool tokenizer_encode_places(const struct host *host, const struct tokenizer *tokenizer, const char *text,
                             size_t text_bytes, const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids,
                             int32_t *types, wherry_token_place *places, size_t *count, struct error *e);

#endif
