/* Weights of words as files have them. */
#ifndef WHERRY_TOOLS_SPARSE_WRITE_H
#define WHERRY_TOOLS_SPARSE_WRITE_H

#include "sparse.h"
#include "token_names.h"

/* Two keys of a JSON object: "weights", by id, and "words", the strongest first. */
void sparse_write_json(struct output *out, const struct token_names *names, const struct sparse_words *words);
/* A line: each word, a space and its weight, the strongest first, with tabs between. */
void sparse_write_text(struct output *out, const struct token_names *names, const struct sparse_words *words);

#endif
