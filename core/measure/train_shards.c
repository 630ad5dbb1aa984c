/* The shards of a measured step. */
#include "measure/train_shards.h"

#include <string.h>

static void *again(const struct host *host, const void *values, size_t count, size_t size, size_t times,
                   struct error *e)
{
    char *all = host_alloc(host, count ? count * times : 1, size, e);
    for (size_t n = 0; all && n < times; n++) memcpy(all + n * count * size, values, count * size);
    return all;
}

static bool targets_again(const struct host *host, const wherry_targets *targets, struct step_shards *out,
                          struct error *e)
{
    out->own = *targets;
    out->own.count = targets->count * out->n;
    if (targets->labels &&
        !(out->labels = again(host, targets->labels, targets->count, sizeof *out->labels, out->n, e)))
        return false;
    if (targets->values &&
        !(out->values = again(host, targets->values, targets->count, sizeof *out->values, out->n, e)))
        return false;
    out->own.labels = out->labels;
    out->own.values = out->values;
    out->targets = &out->own;
    return true;
}

bool step_shards_make(const struct wherry_trainer *t, const wherry_batch *batch, const wherry_targets *targets,
                      struct step_shards *out, struct error *e)
{
    const struct host *host = &t->context->host;
    out->n = t->sharding.most;
    out->targets = targets;
    if (!(out->of = host_alloc(host, out->n, sizeof *out->of, e))) return false;
    for (size_t n = 0; n < out->n; n++)
        out->of[n] = (wherry_shard){.struct_size = sizeof *out->of, .batches = batch, .n_batches = 1};
    const bool copied = out->n > 1 && targets && targets->struct_size == sizeof *targets;
    return !copied || targets_again(host, targets, out, e);
}

void step_shards_free(const struct host *host, struct step_shards *shards)
{
    host_free(host, shards->of);
    host_free(host, shards->labels);
    host_free(host, shards->values);
}
