/* embed: rows of the tables of words, positions and types, added up and normalized. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Without a layernorm nothing is added up, and a row needs no team. */
static void size(struct call *call, const struct sizes *s)
{
    if (call_get(call, CONST_NORM, 0))
        size_team(call, s);
    else
        size_row(call, s, call_get(call, CONST_N, 1) / (4 * s->vector));
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    if (call_get(sized, CONST_NORM, 0))
        choices_teams(sized, s, list);
    else
        choices_rows(sized, s, list);
}

/* ---- its traffic ---- */

/* Which rows a list names is the batch's affair: words count as all different. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), walked = rows_walked(c), n = get(c, CONST_N, 1), loads = row_loads(c),
             items = team_of(c);
    reads(c, SLOT_X, walked * loads);
    reads(c, SLOT_IDS, walked * items);
    reads(c, SLOT_WORD, walked * loads);
    reads(c, SLOT_POSITIONS, walked * items);
    reads(c, SLOT_POSITION, walked * loads);
    if (rows > c->batch->longest)
        reads_again(c, SLOT_POSITION, (rows - c->batch->longest) * n, c->batch->longest * count_row_bytes(c));
    reads(c, SLOT_TYPES, walked * items);
    reads(c, SLOT_TYPE, walked * loads);
    reads_vector(c, SLOT_GAMMA, walked, loads);
    reads_vector(c, SLOT_BETA, walked, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_embed = {
    .kernel = "embed",
    .name = "embed",
    .takes = {CONST_N, CONST_ROWS, CONST_WORD, CONST_POSITION, CONST_TYPE, CONST_NORM, CONST_SUM, CONST_M,
              CONST_W_OFFSET, CONST_RMS, CONST_BETA},
    .why = "four 16-byte loads of a row in flight",
    .size = size,
    .count = count_traffic,
    .candidates = candidates,
};
