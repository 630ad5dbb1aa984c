/* What the options of `wherry train` say of low-rank adapters. */
#ifndef WHERRY_TOOLS_TRAIN_LORA_H
#define WHERRY_TOOLS_TRAIN_LORA_H

#include <jansson.h>
#include <wherry/wherry_train.h>

#include "options.h"

/* A list of an option, "a,b,c". */
struct name_list {
    char *text; /* what `names` point into */
    const char **names;
    size_t count;
};
/* `text` NULL: an empty one. */
void names_split(const char *text, struct name_list *out);
void names_free(struct name_list *list);

struct lora_options {
    wherry_lora_desc desc;
    bool used;   /* the trainer has adapters, */
    bool merged; /* and --out is to be the model with them */
    struct name_list targets, saved;
};

/* Complains, and returns an exit code. */
int lora_check(const struct options *options);
void lora_describe(struct lora_options *lora, const struct options *options);
void lora_close(struct lora_options *lora);
/* NULL: there are none. */
json_t *lora_json(const struct lora_options *lora);

#endif
