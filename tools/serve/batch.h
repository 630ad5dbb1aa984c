/* Texts that run together. */
#ifndef WHERRY_SERVE_BATCH_H
#define WHERRY_SERVE_BATCH_H

#include <wherry/wherry_async.h>

#include "call.h"
#include "models.h"

struct batch {
    struct lane *lane;
    struct item **items;
    uint32_t count, tokens;
    int32_t *ids, *types;
    uint32_t *offsets;
    float *out;
    size_t out_floats;
    wherry_ticket *ticket; /* NULL: it does not run */
    double submitted;
};

/* For at most so many tokens. */
void batch_create(struct batch *batch, uint32_t tokens);
void batch_destroy(struct batch *batch);
/* Its items' tokens one after the other, and room for what comes out. */
wherry_batch batch_pack(struct batch *batch, uint32_t most_tokens);
/* Results to the items. `check`: some are no numbers, and their calls say so. */
void batch_hand_out(struct batch *batch, bool check);
/* All its calls fail. */
void batch_fail(struct batch *batch, unsigned status, enum error_type type, enum failure failure, const char *why);
/* All its items are done. */
void batch_finish(struct batch *batch);

#endif
