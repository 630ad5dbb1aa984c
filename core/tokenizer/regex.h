/* Regular expressions of tokenizer files: written for Oniguruma with Ruby's syntax, as Hugging Face's library has it,
 * and matched by PCRE2. What has another meaning there is rewritten, or refused by name. */
#ifndef WHERRY_TOKENIZER_REGEX_H
#define WHERRY_TOKENIZER_REGEX_H

#include "tokenizer/text.h"

struct regex;

/* `pattern`: UTF-8 without a NUL at its end. Refuses with WHERRY_STATUS_UNSUPPORTED. */
bool regex_open(const struct host *host, const char *pattern, size_t bytes, struct regex **out, struct error *e);
void regex_close(const struct host *host, struct regex *regex); /* accepts NULL */

/* ---- its matches in a text, from the left, none overlapping ---- */

struct regex_search {
    const struct regex *regex;
    const struct view *text;
    const struct host *host;
    struct regex_memory *memory;
    char *bytes;  /* the text's UTF-8 */
    size_t size;  /* in bytes */
    size_t at;    /* byte where the next match is looked for */
    size_t known; /* byte and character whose places are known to be the same */
    size_t known_character;
    bool matched;     /* there was a match, which ended at: */
    size_t last_end;  /* byte */
    uint64_t steps;   /* left for matches that need many */
    uint32_t options; /* of PCRE2 */
};

/* The text must stay until the end; begun or not, a search that was zeroed is to be ended. */
bool regex_begin(const struct regex *regex, const struct host *host, const struct view *text, struct regex_search *s,
                 struct error *e);
/* The next match in characters, which may be empty; *more false: there is none. Time in all is linear in the text: a
 * pattern that takes more steps on it is an error. */
bool regex_next(struct regex_search *s, bool *more, size_t *first, size_t *end, struct error *e);
void regex_end(struct regex_search *s);

#endif
