/* Texts that a model wants in front of others, by name: config_sentence_transformers.json. */
#ifndef WHERRY_MODEL_PROMPTS_H
#define WHERRY_MODEL_PROMPTS_H

#include "base/host.h"

struct prompts {
    uint32_t count;
    char **names, **texts; /* [count] */
    uint32_t used;         /* the one that is used where none is asked for; count: none */
    bool excluded;         /* the pooling leaves out a prompt's tokens */
    uint32_t dimensions;   /* truncate_dim, 0: none */
};

/* Without the file, and where it names none, there are none. `marks`: what stands in front of the prompts "query" and
 * "document", NULL: nothing; where there is no such prompt, they are it. */
bool prompts_read(const struct host *host, const char *folder, const char *const *marks, struct prompts *out,
                  struct error *e);
void prompts_free(const struct host *host, struct prompts *prompts);
/* Whether the model's pooling allows this text in front of others. */
bool prompts_allow(const struct prompts *prompts, const char *text, struct error *e);
/* See wherry_model_prompt. */
bool prompts_find(const struct prompts *prompts, const char *name, const char **out, struct error *e);

#endif
