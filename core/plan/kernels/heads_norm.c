/* heads_norm and heads_norm_backward: norms of single heads of Q and K, and their gradients. A head is a row of N. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A plan's row for norms of heads finds rotary positions alone where there are none. */
static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    (void)s;
    return call_get(call, CONST_NORM, 0) || variant_refuse(reason, "there are no norms of heads");
}

/* A vector of a head a work-item, and so many heads at a time that a work-group has enough to wait for. Where there are
 * sums over rows, all work-groups run at the same time. */
static void size_backward(struct call *call, const struct sizes *s)
{
    uint32_t items = (uint32_t)divide_up(call_get(call, CONST_N, 1), s->vector), team = LEAST_TEAM;
    uint32_t share = rows_of_part(s->limits, s->max_rows, 1);
    while (team < items && team < 64) team *= 2;
    size_row(call, s, 128);
    if (team > call_get(call, CONST_LOCAL_SIZE, 1)) team = call_get(call, CONST_LOCAL_SIZE, 1);
    call_set(call, CONST_TEAM, team);
    call_set(call, CONST_PART_ROWS, 1);
    if (!call_get(call, CONST_NORM_DW, 0) && share > 4) share = 4;
    call_set(call, CONST_PARTS, (uint32_t)divide_up(s->max_rows ? s->max_rows : 1, share));
}

/* Sums of the heads of Q, and of those of K; a layernorm's beta has such, too. */
static uint64_t sums_of(const struct call *call)
{
    uint64_t sets = call_get(call, CONST_RMS, RMS_NONE) == RMS_NONE ? 4 : 2;
    return call_get(call, CONST_NORM_DW, 0) ? sets * call_get(call, CONST_N, 1) : 0;
}

static uint64_t scratch_bytes(const struct call *call, uint64_t max_rows)
{
    return call_parts(call, max_rows) * sums_of(call) * sizeof(float);
}

static size_t shared_backward(const struct call *call)
{
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1), teams = local / call_get(call, CONST_TEAM, local);
    return (local + 8 * teams + (sums_of(call) ? teams * call_get(call, CONST_N, 1) : 0)) * sizeof(float);
}

/* ---- their traffic ---- */

/* Elements of a head that a team's loads bring. */
static uint64_t head_loads(const struct count *c)
{
    uint64_t step = team_of(c) * access_of(c);
    return divide_up(get(c, CONST_N, 1), step) * step;
}

static void count_forward(struct count *c)
{
    uint64_t tokens = c->words[HEADER_TOKENS], heads = get(c, CONST_HEADS, 3), n = get(c, CONST_N, 1);
    uint64_t rows = tokens * heads, walked = divide_up(rows, teams_of(c)) * teams_of(c), loads = head_loads(c);
    bool single = access_of(c) == 1, turns = get(c, CONST_ROTARY, ROTARY_NONE) != ROTARY_NONE;
    uint64_t turned = tokens * (heads - get(c, CONST_KEY_HEADS, 1)) * loads, beside = turns && single ? turned : 0;
    reads(c, SLOT_X, walked * loads + beside);
    reads_again(c, SLOT_X, beside, 16);
    reads(c, SLOT_GAMMA, walked * loads + beside);
    if (tokens) reads_again(c, SLOT_GAMMA, walked * loads + beside - 2 * n, heads * n * c->storage);
    reads(c, SLOT_BETA, walked * loads);
    if (tokens) reads_again(c, SLOT_BETA, walked * loads - 2 * n, heads * n * c->storage);
    if (!turns) {
        writes(c, SLOT_Y, rows * n);
        return;
    }
    reads(c, SLOT_POSITIONS, turned / access_of(c));
    reads_again(c, SLOT_POSITIONS, turned / access_of(c) - tokens, 16);
    reads(c, SLOT_POSITION, turned * (single ? 2 : 1));
    reads_again(c, SLOT_POSITION, turned * (single ? 2 : 1) - tokens * n, n * sizeof(float));
    if (tokens)
        reads_again(c, SLOT_POSITION, (tokens - angle_rows_of(c)) * n, angle_rows_of(c) * heads * n * c->storage);
    writes(c, SLOT_Y, rows * n);
}

static void count_backward(struct count *c)
{
    uint64_t tokens = c->words[HEADER_TOKENS], heads = get(c, CONST_HEADS, 3), n = get(c, CONST_N, 1),
             loads = head_loads(c), walked = tokens * divide_up(heads, teams_of(c)) * teams_of(c),
             parts = call_parts(c->call, tokens);
    reads(c, SLOT_X, walked * loads);
    reads(c, SLOT_SAVED, walked * loads);
    reads_again(c, SLOT_X, (walked - tokens * heads) * loads, 16);
    reads_again(c, SLOT_SAVED, (walked - tokens * heads) * loads, 16);
    if (get(c, CONST_NORM_DX, 0)) {
        reads(c, SLOT_GAMMA, walked * loads);
        if (tokens) reads_again(c, SLOT_GAMMA, walked * loads - 2 * n, heads * n * c->storage);
        writes(c, SLOT_Y, tokens * heads * n);
    }
    if (sums_of(c->call)) writes_scratch(c, SLOT_PARTIALS, parts * sums_of(c->call));
}

const struct variant variant_heads_norm = {
    .kernel = "heads_norm",
    .name = "heads_norm",
    .takes = {CONST_N, CONST_ROWS, CONST_NORM, CONST_HEADS, CONST_KEY_HEADS, CONST_RMS, CONST_ROTARY},
    .why = "several heads a work-group",
    .fits = fits,
    .size = size_team,
    .count = count_forward,
    .candidates = choices_teams,
};

const struct variant variant_heads_norm_backward = {
    .kernel = "heads_norm_backward",
    .name = "heads_norm_backward",
    .takes = {CONST_N, CONST_ROWS, CONST_NORM_DW, CONST_NORM_DX, CONST_HEADS, CONST_KEY_HEADS, CONST_RMS},
    .why = "a vector of a head a work-item",
    .size = size_backward,
    .shared_bytes = shared_backward,
    .scratch_bytes = scratch_bytes,
    .count = count_backward,
};
