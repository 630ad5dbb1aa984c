/* bge-m3's heads on token vectors: a Linear each, in a file of its own beside the encoder's. */
#ifndef WHERRY_MODEL_TOKEN_HEADS_H
#define WHERRY_MODEL_TOKEN_HEADS_H

#include "model/safetensors.h"
#include "model/torch_file.h"

struct token_head {
    struct module module; /* width 0: the model has none that can be read */
    struct error why;     /* where there is a file and it can't be read; status WHERRY_STATUS_OK: there is no file */
    struct torch_file torch;
    struct safetensors file; /* one of the two is what the weights are read from; the other one is zeroed */
};

enum token_head_kind { TOKEN_HEAD_WEIGHTS, TOKEN_HEAD_VECTORS, TOKEN_HEADS };

struct token_heads {
    struct token_head of[TOKEN_HEADS];
};

/* Reads sparse_linear and colbert_linear in `folder`, of .safetensors or else .pt, and fills in the model's parts. A
 * file that can't be read is no error before its output is asked for: other outputs do without. */
bool token_heads_read(struct wherry_model *model, const char *folder, struct error *e);
/* The head; NULL with why the model has none. */
const struct token_head *token_head_find(const struct wherry_model *model, enum token_head_kind kind, struct error *e);
void token_heads_free(const struct host *host, struct token_heads *heads); /* accepts NULL */

#endif
