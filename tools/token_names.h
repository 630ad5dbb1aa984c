/* What tokens are called, as people write them. */
#ifndef WHERRY_TOOLS_TOKEN_NAMES_H
#define WHERRY_TOOLS_TOKEN_NAMES_H

#include "output.h"
#include "session.h"

struct token_name {
    char *text; /* NULL: the tokenizer has none */
    size_t bytes;
};

struct token_names {
    struct token_name *of; /* [count] */
    uint32_t count;
};

/* Those of the opened model's vocabulary. An exit status, after telling why; freed by token_names_free in any case. */
int token_names_read(struct tool *tool, struct token_names *names);
void token_names_free(struct token_names *names);
/* Without the mark of a word's beginning, U+2581; "#12" where there is none. As a JSON string, or made fit for a
 * terminal. */
void token_name_write(const struct token_names *names, uint32_t id, bool json, struct output *out);

#endif
