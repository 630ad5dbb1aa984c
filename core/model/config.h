/* What a model's JSON files say about it: its shape, how its token vectors become one, its longest sequence. */
#ifndef WHERRY_MODEL_CONFIG_H
#define WHERRY_MODEL_CONFIG_H

#include "base/host.h"

/* A shape that can be run: nothing is zero, heads divide hidden, and no matrix has more elements than 32 bits count.
 * Else WHERRY_STATUS_INVALID_ARGUMENT. */
bool model_config_check(const wherry_model_config *config, struct error *e);

/* The longest sequence that the table of positions has rows for. */
uint32_t model_usable_positions(const wherry_model_config *config);

struct architecture; /* model/architecture.h */
struct family;

/* What an encoder is of. */
struct config_kind {
    const struct architecture *architecture;
    const struct family *family;
    char name[64]; /* its class, as the file has it */
};

/* Reads config.json. Fails with WHERRY_STATUS_UNSUPPORTED for an architecture that is not there, and for a key whose
 * value makes an encoder compute something else than Wherry does. `pooler` is left false: the weights decide it. */
bool config_read(const struct host *host, const char *folder, wherry_model_config *config, struct config_kind *kind,
                 struct error *e);

/* The longest sequence in tokens: sentence_bert_config.json's max_seq_length, else the tokenizer's model_max_length,
 * and never more than `positions`. lower_case: sentence_bert_config.json wants text in lower case, whatever the
 * tokenizer does. */
bool limits_read(const struct host *host, const char *folder, uint32_t positions, uint32_t *max_tokens,
                 bool *lower_case, struct error *e);

#endif
