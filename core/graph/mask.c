/* Masks of scores by place: what a model's configuration says, layer by layer. */
#include "graph/mask.h"

#include <inttypes.h>
#include <math.h>

enum { WINDOW_MOST = 1 << 24 };

bool masks_check(const wherry_model_config *config, struct error *e)
{
    if (config->window > WINDOW_MOST)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the window of attention is %" PRIu32 "; it must be at most %d, or 0 where there is none",
                    config->window, WINDOW_MOST);
    if (config->global_every && !config->window)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "every %" PRIu32 " layers one has no window, and no layer has one: set window, or global_every 0",
                    config->global_every);
    if (config->global_first && config->global_first >= config->global_every)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the first layer without a window is %" PRIu32 " of every %" PRIu32 "; it must be less than these",
                    config->global_first, config->global_every);
    if (config->relative_buckets && (config->causal || config->window || config->alibi))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "a bias by distance from a table goes with no %s",
                    config->causal   ? "causal mask"
                    : config->window ? "window"
                                     : "ALiBi");
    if (config->alibi && config->rotary_base > 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "ALiBi and rotary positions: a model has one of them");
    return !config->alibi || !config->position_offset ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "with ALiBi there is no table of positions, in which the first token would have row %" PRIu32,
                config->position_offset);
}

struct mask graph_mask(const struct graph *g, int layer)
{
    const struct masks *m = &g->masks;
    bool global = m->global_every && (uint32_t)layer % m->global_every == m->global_first;
    uint32_t limit = m->window && !global ? m->window + 1 : 0;
    return (struct mask){.before = limit, .after = m->causal ? 1 : limit, .alibi = m->alibi};
}

bool mask_sees(const struct mask *mask, int64_t query, int64_t key)
{
    return (!mask->before || query - key < (int64_t)mask->before) &&
           (!mask->after || key - query < (int64_t)mask->after);
}

/* Of 2^n heads 2^(-8 / 2^n), and so on, each times the first; other numbers of heads have those of the next lower power
 * of two first, then every other one of twice as many. */
double mask_slope(uint32_t heads, uint32_t head)
{
    uint32_t power = 1;
    while (power <= heads / 2) power *= 2;
    return head < power ? exp2(-8.0 * (head + 1) / power) : exp2(-4.0 * (2 * (head - power) + 1) / power);
}

/* The sum over queries of the keys on one side that are seen, `limit` - 1 at most. */
static uint64_t side(uint64_t length, uint64_t limit)
{
    uint64_t most = limit && limit - 1 < length - 1 ? limit - 1 : length - 1;
    return most * (most + 1) / 2 + (length - 1 - most) * most;
}

uint64_t mask_pairs_of(const struct mask *mask, uint64_t length)
{
    return length ? length + side(length, mask->before) + side(length, mask->after) : 0;
}

uint64_t mask_pairs(const struct mask *mask, const struct batch_shape *b)
{
    uint64_t n = 0, length = b->tokens ? b->pairs / b->tokens : 0;
    if (!mask->before && !mask->after) return b->pairs;
    if (!b->offsets) return length ? mask_pairs_of(mask, length) * b->tokens / length : 0;
    for (uint32_t s = 0; s < b->sequences; s++) n += mask_pairs_of(mask, b->offsets[s + 1] - b->offsets[s]);
    return n;
}
