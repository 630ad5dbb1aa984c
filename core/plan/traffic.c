/* Counts the bytes that kernels move, from the constants that they are launched with: a rule in each kernel's own file
 * (kernels/) says what its work-items ask of memory, how much of it they had asked for before, and what was touched in
 * between.
 *
 * What was read before is found in the cache again when the bytes that are touched between the two reads fit; else it
 * comes from memory a second time. For that, work-groups are taken in the order of their numbers, ITEMS_AT_ONCE
 * work-items at a time (a wave), which go through their loops in step. What the second of two kernels reads of the
 * first one's scratch counts unless all of it fits; that it is written counts always. */
#include "plan/traffic.h"

#include "base/text.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

bool traffic_has(const char *kernel)
{
    const struct variant *variant = kernel_row(kernel);
    return variant && variant->count;
}

static bool count_by_table(struct count *c)
{
    if (!traffic_has(c->call->kernel)) return false;
    kernel_row(c->call->kernel)->count(c);
    return true;
}

bool call_traffic(const struct graph *g, const struct batch_shape *b, const struct group *group,
                  const struct call *calls, int n_calls, bool f16, const uint32_t *batch_words, uint64_t cache_bytes,
                  const struct traffic_rules *rules, wherry_traffic *out)
{
    struct count c = {
        .graph = g, .batch = b, .words = batch_words, .storage = f16 ? 2 : 4, .cache = cache_bytes, .out = out};
    *out = (wherry_traffic){0};
    group_bytes(g, b, group, c.storage, &out->unique_read, &out->unique_written);
    out->footprint = out->unique_read + out->unique_written;
    const wherry_traffic unique = *out;
    for (int i = 0; i < n_calls; i++) {
        c.call = &calls[i];
        if (rules ? rules->count(rules->kernels, i, &c) : count_by_table(&c)) continue;
        *out = unique;
        return false;
    }
    out->model_read += out->unique_read + (c.scratch > cache_bytes ? c.scratch : 0);
    out->model_written += out->unique_written + c.scratch;
    out->footprint += c.scratch;
    return true;
}

/* ---- sizes as text ---- */

void describe_sizes(const struct call *call, struct text_writer *text)
{
    unsigned local = call_get(call, CONST_LOCAL_SIZE, 0), m = call_get(call, CONST_TILE_M, 1),
             n = call_get(call, CONST_TILE_N, 1), k = call_get(call, CONST_TILE_K, 0),
             thread_m = call_get(call, CONST_THREAD_M, 0);
    if (!k)
        text_add(text, "%u a work-group", local);
    else if (!thread_m)
        text_add(text, "%ux%ux%u, %u a work-group", m, n, k, local);
    else
        text_add(text, "%ux%ux%u, %ux%u a work-item", m, n, k, thread_m, local ? m * n / thread_m / local : 1);
}

void describe_rows(const struct call *call, struct text_writer *text)
{
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 0), part_rows = call_get(call, CONST_PART_ROWS, 0),
             team = call_get(call, CONST_TEAM, local);
    if (team < local)
        text_add(text, ", %u a row", (unsigned)team);
    else if (part_rows)
        text_add(text, ", %u row%s a part", (unsigned)part_rows, part_rows > 1 ? "s" : "");
}

void call_variant(const struct call *call, char text[64])
{
    const struct variant *variant = kernel_row(call->kernel);
    struct text_writer t = text_begin(text, 64);
    if (variant && variant->describe) {
        variant->describe(call, &t);
        return;
    }
    describe_sizes(call, &t);
    describe_rows(call, &t);
}
