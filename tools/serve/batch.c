/* Texts that run together. */
#include "batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

void batch_create(struct batch *b, uint32_t tokens)
{
    b->items = need(malloc((size_t)tokens * sizeof *b->items));
    b->ids = need(malloc((size_t)tokens * sizeof *b->ids));
    b->types = need(malloc((size_t)tokens * sizeof *b->types));
    b->offsets = need(malloc(((size_t)tokens + 1) * sizeof *b->offsets));
}

void batch_destroy(struct batch *b)
{
    free(b->items);
    free(b->ids);
    free(b->types);
    free(b->offsets);
    free(b->out);
    *b = (struct batch){.lane = NULL};
}

wherry_batch batch_pack(struct batch *b, uint32_t most_tokens)
{
    const struct lane *lane = b->lane;
    size_t rows = lane->per_token ? most_tokens : lane->plan.max_sequences, floats = rows * lane->plan.embedding_size;
    uint32_t at = 0;
    b->offsets[0] = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct item *item = b->items[i];
        memcpy(b->ids + at, item->ids, item->count * sizeof *b->ids);
        if (item->types)
            memcpy(b->types + at, item->types, item->count * sizeof *b->types);
        else
            memset(b->types + at, 0, item->count * sizeof *b->types);
        b->offsets[i + 1] = at += item->count;
    }
    if (floats > b->out_floats) {
        b->out = need(realloc(b->out, floats * sizeof *b->out));
        b->out_floats = floats;
    }
    return (wherry_batch){.struct_size = sizeof(wherry_batch),
                          .sequences = b->count,
                          .offsets = b->offsets,
                          .ids = b->ids,
                          .types = b->types};
}

static bool is_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static size_t index_in_call(const struct item *item) { return (size_t)(item - item->call->items); }

void batch_hand_out(struct batch *b, bool check)
{
    const float *from = b->out;
    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = b->items[i];
        item->width = b->lane->plan.embedding_size;
        item->rows = b->lane->per_token ? item->count : 1;
        size_t floats = (size_t)item->rows * item->width;
        if (check && !is_finite(from, floats)) {
            call_fail(item->call, 424, ERROR_BACKEND, FAILED_INFERENCE,
                      "text %zu: the result is not finite; wherry verify tells whether the device computes right",
                      index_in_call(item));
        } else {
            item->values = need(malloc(floats * sizeof *item->values));
            memcpy(item->values, from, floats * sizeof *item->values);
        }
        from += floats;
    }
}

void batch_fail(struct batch *b, unsigned status, enum error_type type, enum failure failure, const char *why)
{
    for (uint32_t i = 0; i < b->count; i++) call_fail(b->items[i]->call, status, type, failure, "%s", why);
}

void batch_finish(struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) call_item_done(b->items[i]);
    b->count = b->tokens = 0;
}
