/* transpose: a weight in the other order, by tiles in shared memory. */
#include "base/text.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Bytes of a tile of floats, its rows one longer. */
static size_t tile_bytes(uint32_t m, uint32_t n) { return (size_t)n * (m + 1) * sizeof(float); }

/* Of 16-bit floats a work-item has two vectors of a tile, and eight work-groups run on a multiprocessor. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t tile = tile_bytes(64, 64) <= s->limits->shared_bytes ? 64 : 32;
    call_set(call, CONST_TILE_M, tile);
    call_set(call, CONST_TILE_N, tile);
    size_row(call, s, tile * tile / 16);
}

static size_t shared_bytes(const struct call *call)
{
    return tile_bytes(call_get(call, CONST_TILE_M, 0), call_get(call, CONST_TILE_N, 0));
}

/* Up to 32 loads of a work-item in flight; the kernel wants as many vectors in a tile as work-items. */
static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    for (uint32_t m = 32; m <= 128; m *= 2)
        for (uint32_t n = 32; n <= 128; n *= 2)
            for (uint32_t local = LOCAL_LEAST; local <= 512; local *= 2) {
                if (local > m * n / s->vector || m * n / s->access / local > 32) continue;
                call_set(&call, CONST_LOCAL_SIZE, local);
                call_set(&call, CONST_TILE_M, m);
                call_set(&call, CONST_TILE_N, n);
                choices_add(list, &call);
            }
}

static void describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%u, %u a work-group", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_LOCAL_SIZE, 0));
}

/* Every element once. */
static void count_traffic(struct count *c)
{
    uint64_t elements = (uint64_t)get(c, CONST_M, 32) * get(c, CONST_N, 32);
    reads(c, SLOT_X, elements);
    writes(c, SLOT_Y, elements);
}

const struct variant variant_transpose = {
    .kernel = "transpose",
    .name = "transpose",
    .takes = {CONST_M, CONST_N, CONST_RUNTIME},
    .why = "128 bytes of a row and of a column, all loads of a tile in flight",
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .describe = describe,
};
