/* What sentence-transformers puts around an encoder: modules.json and the folders that it names. */
#ifndef WHERRY_MODEL_MODULES_H
#define WHERRY_MODEL_MODULES_H

#include "model/model.h"

struct modules {
    char *encoder; /* the folder of the encoder's own files; to be freed */
    wherry_pool pool;
    bool normalize;
    bool words;           /* a SpladePooling makes weights of words */
    bool listed;          /* there is a modules.json */
    char *logit_score;    /* the folder of a LogitScore; to be freed, NULL: there is none */
    char *mask;           /* the folder of a MultiVectorMask; to be freed, NULL: there is none */
    bool excludes_prompt; /* the pooling leaves out a prompt's tokens (include_prompt false) */
    struct head_modules after;
    uint32_t in[MODULES_MOST]; /* of each layer after the pooling: what it reads */
};

/* A folder without modules.json is an encoder whose token vectors are averaged: sentence-transformers does the same.
 * What it gives is freed by modules_free, unless the model has taken `after`. */
bool modules_read(const struct host *host, const char *folder, struct modules *out, struct error *e);
void modules_free(const struct host *host, struct modules *modules);
void head_modules_free(const struct host *host, struct head_modules *after);
/* Whether the layers after the pooling fit an encoder of this width, and each other. */
bool modules_check(struct modules *modules, uint32_t hidden, struct error *e);
/* Opens the files of the layers' weights and fills in the model's parts. */
bool modules_weights(struct wherry_model *model, struct error *e);

#endif
