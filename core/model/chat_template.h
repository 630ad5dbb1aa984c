/* Chat templates of models that are asked about a query and a document: what of Jinja such templates are made of. */
#ifndef WHERRY_MODEL_CHAT_TEMPLATE_H
#define WHERRY_MODEL_CHAT_TEMPLATE_H

#include "tokenizer/pair_frame.h"

/* Reads text with expressions in {{ }} and {% set name = expression %}. An expression is a string, a name that was set,
 * or the content of the first message of the role "system" (the instruction), "query" or "document", with a default.
 * False without an error in e, and *why: it is another kind of template, and what of it is not read. */
bool chat_template_read(const struct host *host, const char *text, struct pair_frame *out, const char **why,
                        struct error *e);
/* Whether the template names both roles, so that one that can't be read is no ordinary chat's. */
bool chat_template_has_roles(const char *text);

#endif
