/* What the parts of a tokenizer share while they are read from JSON. */
#ifndef WHERRY_TOKENIZER_PARTS_H
#define WHERRY_TOKENIZER_PARTS_H

#include "base/json.h"
#include "tokenizer/text.h"

struct part_reader {
    const struct host *host; /* of the tokenizer: what a part keeps comes from here */
    uint32_t vocabulary;     /* ids that the model has */
    struct error *e;
};

/* A list of more parts than that is no model's, and would only make every text slow. */
enum { PARTS_MOST = 64 };

/* "KEY is missing or is not WANTED". Always false. */
bool part_wrong(const struct part_reader *r, const char *key, const char *wanted);
bool part_bool(const struct part_reader *r, const json_t *object, const char *key, bool *out);
/* The same where the key may be missing or null, which leaves *out. */
bool part_optional_bool(const struct part_reader *r, const json_t *object, const char *key, bool *out);
bool part_string(const struct part_reader *r, const json_t *object, const char *key, const char **out);
/* A whole number from 0 on, below `limit`; `key` is its name in an error. */
bool part_count(const struct part_reader *r, const json_t *value, const char *key, uint32_t limit, uint32_t *out);
/* A string's characters in memory of the reader's host. */
bool part_characters(const struct part_reader *r, const json_t *object, const char *key, struct list *out);
/* A string of one character. */
bool part_character(const struct part_reader *r, const json_t *object, const char *key, uint32_t *out);
/* The part's "type"; an error names `what` where it has none. */
bool part_type(const struct part_reader *r, const json_t *part, const char *what, const char **out);
/* "its WHAT is TYPE, which is not supported". Always false. */
bool part_unsupported(const struct part_reader *r, const char *what, const char *type);

#endif
