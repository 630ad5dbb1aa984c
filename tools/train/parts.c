/* Parts of a batch that run one after the other. */
#include <stdlib.h>

#include "complain.h"
#include "train/batches.h"

void parts_of(struct parts *parts, const struct train_batch *batch, uint32_t tokens, uint32_t sequences)
{
    if (parts->room < batch->sequences) { /* every sequence a part, with two offsets */
        parts->room = batch->sequences;
        parts->batches = need(realloc(parts->batches, parts->room * sizeof *parts->batches));
        parts->offsets = need(realloc(parts->offsets, 2 * parts->room * sizeof *parts->offsets));
    }
    uint32_t *offsets = parts->offsets;
    parts->count = parts->longest = 0;
    for (uint32_t first = 0, end; first < batch->sequences; first = end) {
        uint32_t begin = batch->offsets[first];
        for (end = first + 1; end < batch->sequences && end - first < sequences; end++)
            if (batch->offsets[end + 1] - begin > tokens) break;
        for (uint32_t s = first; s <= end; s++) offsets[s - first] = batch->offsets[s] - begin;
        parts->batches[parts->count++] = (wherry_batch){.struct_size = sizeof(wherry_batch),
                                                        .sequences = end - first,
                                                        .offsets = offsets,
                                                        .ids = batch->ids + begin,
                                                        .types = batch->types + begin};
        if (batch->offsets[end] - begin > parts->longest) parts->longest = batch->offsets[end] - begin;
        offsets += end - first + 1;
    }
}

void parts_free(struct parts *parts)
{
    free(parts->batches);
    free(parts->offsets);
    *parts = (struct parts){.count = 0};
}
