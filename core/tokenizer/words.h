/* A vocabulary on its way from a file. */
#ifndef WHERRY_TOKENIZER_WORDS_H
#define WHERRY_TOKENIZER_WORDS_H

#include "tokenizer/json_words.h"
#include "tokenizer/parts.h"
#include "tokenizer/vocabulary.h"

struct words {
    struct list text;     /* the characters of all */
    struct token *tokens; /* [as reserved]; their texts lie in `text` */
    size_t count;
};

/* Room for `tokens` of `bytes` in all; the characters, never more than the bytes, do not move while words are added. */
bool words_reserve(const struct part_reader *r, struct words *words, size_t tokens, size_t bytes);
/* An id that the model does not have is an error, but for an empty token. `line`: white space at its end is not part of
 * the token. */
bool words_add(const struct part_reader *r, struct words *words, const char *text, size_t bytes, bool line,
               uint64_t id);
/* The words of an object of ids: those that were plain, and those that are in the JSON. */
bool words_read(const struct part_reader *r, const struct json_words *plain, const json_t *vocabulary,
                struct words *words);
void words_free(const struct host *host, struct words *words);

/* The id of a token given as UTF-8; -1: there is none. */
int32_t words_find(const struct vocabulary *vocabulary, const char *name);

#endif
