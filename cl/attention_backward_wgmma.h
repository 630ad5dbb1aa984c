/* attention_backward_wgmma: which keys and queries a work-group walks over, what it has of queries ahead, and rows turned
 * back. For attention_backward_wgmma.cl alone. */

/* What a work-group works on: a head of a sequence, and its part of the keys. */
struct place {
    uint first, length, head, part, tokens;
};

/* Heads are next to each other, so that work-groups side by side read whole rows, and the longest sequences first. */
INLINE struct place place_of(__global const uint *batch, const uint item)
{
    struct place at;
    const uint sequence = batch[batch[HEADER_AT_ORDER] + item / (HEADS * PARTS)],
               offset = batch[HEADER_AT_OFFSETS] + sequence;
    at.first = batch[offset];
    at.length = batch[offset + 1] - at.first;
    at.head = item % HEADS;
    at.part = item / HEADS % PARTS;
    at.tokens = batch[HEADER_TOKENS];
    return at;
}

/* Work-groups take what there is in laps, in every second one the other way round: the one that had the longest has
 * the shortest then. */
INLINE uint item_of(const uint lap, const uint groups)
{
    return lap * groups + (lap % 2 ? groups - 1 - group_number() : group_number());
}

/* Steps of queries that a tile of keys meets: the first, and the one after the last. */
INLINE uint2 steps_met(const uint key0, const uint length)
{
    const uint last_key = min(key0 + TILE_KEYS, length) - 1,
               end = (uint)mask_end_query((int)last_key, BEFORE, (int)length);
    return (uint2)((uint)mask_first_query((int)key0, AFTER) / TILE_QUERIES, (end + TILE_QUERIES - 1) / TILE_QUERIES);
}

/* Whether no tile of keys of the part met the step before, and whether none will. */
INLINE bool step_begins(const uint key0, const uint step)
{
    const uint first = (uint)mask_first_key((int)(step * TILE_QUERIES), BEFORE) / TILE_KEYS;
    return key0 / TILE_KEYS < first + PARTS;
}

INLINE bool step_ends(const uint key0, const uint step, const uint length)
{
    const uint end = (uint)mask_end_key((int)(step * TILE_QUERIES + TILE_QUERIES - 1), AFTER, (int)length);
    return key0 + PARTS * TILE_KEYS >= (MASKED ? (end + TILE_KEYS - 1) / TILE_KEYS * TILE_KEYS : length);
}

/* What a copying work-item has of a step before its copies: a query's statistics, and dropout's decisions for it. */
struct ahead {
    float2 statistic;
    uint bits[DRAWS];
};

#if DROPOUT > 0
#define PARAMETERS_KEY , const uint4 random_key
#define GIVE_KEY , random_key
#else
#define PARAMETERS_KEY
#define GIVE_KEY
#endif

/* Of step `step`. Queries beyond the sequence are zeros, and so is what they give. */
INLINE struct ahead look_ahead(__global const float *lse, __global const float *delta, const struct place at,
                               const uint step, const uint key0, const uint copier PARAMETERS_KEY)
{
    struct ahead next;
    const uint query = step * TILE_QUERIES + copier % TILE_QUERIES, row = (at.first + query) * HEADS + at.head;
    next.statistic = (float2)(0.0f);
    if (copier < TILE_QUERIES && query < at.length)
        next.statistic = (float2)(lse[row] * LOG2E, delta[row] * (1.0f / KEPT_SCALE));
#if DROPOUT > 0
    UNROLL
    for (uint k = 0; k < DRAWS; k++)
        next.bits[k] = draw_bits(random_key, row, key0 + (k * (COPIERS / TILE_QUERIES) + copier / TILE_QUERIES) * 16);
#endif
    return next;
}
#define LOOK_AHEAD(step) look_ahead(lse, delta, at, step, key0, copier GIVE_KEY)

#if ROTARY != ROTARY_NONE
/* A warpgroup's sums, 64 rows x HEAD_DIM, turned back by the angles of their tokens, of which the first is `first` and
 * there are `count`. */
INLINE void turn_rows(float *sum, __global const uint *positions, __global const float *angles, const uint first,
                      const uint count)
{
    const uint lane = local_number() % 32, row = local_number() % WARPGROUP / 32 * 16 + lane / 4;
    UNROLL
    for (uint h = 0; h < 2; h++) {
        if (row + 8 * h >= count) continue;
        __global const float2 *const turn =
            (__global const float2 *)(angles + positions[first + row + 8 * h] * HEAD_DIM + lane % 4 * 2);
        UNROLL
        for (uint j = 0; j < HEAD_DIM / 8; j++) {
            const float2 angle = turn[j * 4];
            const float x = sum[j * 4 + h * 2], y = sum[j * 4 + h * 2 + 1];
            sum[j * 4 + h * 2] = fma(y, angle.y, x * angle.x);
            sum[j * 4 + h * 2 + 1] = fma(-x, angle.y, y * angle.x);
        }
    }
}
#define TURN_ROWS(sum, first, count) turn_rows(sum, turn_positions, turn, first, count)
#define PARAMETERS_TURN , __global const uint *turn_positions, __global const float *turn
#define GIVE_TURN , turn_positions, turn
#else
#define TURN_ROWS(sum, first, count)
#define PARAMETERS_TURN
#define GIVE_TURN
#endif
