/* Attention without stored scores on Hopper's tensor cores; cl/attention.cl says what it computes.
 *
 * Work-groups share the tiles of TILE_M queries of all heads, 128 or 192, all heads of a tile and then those of the
 * tile before: together they read whole rows, and begin with what was written last, which is in the cache. In each,
 * two or three warpgroups have 64 queries of a tile, and another one copies queries, keys and values ahead into a
 * ring, beyond the end of a tile, too. A warpgroup issues the product of its queries with the next keys and that of
 * its last weights with their values together, and makes weights of the first while the second goes on and the others
 * have their turns to issue: so the tensor cores have work while exponentials are made. Weights stay in registers:
 * the layout of sums is that of an operand. Rows of keys and values are permuted so that a work-item's weights are
 * those of one draw of dropout's generator. Steps begin at the sequence's first key, or, where the tile's queries do
 * not see it, at the draw that has the first they see: the result depends on its own sequence alone. Of 128 channels
 * a work-item has as many sums as scores, so that only two warpgroups have registers for them, and the ring has room
 * for two stages. */
#include "attention_wgmma.h"

#define TILE_KEYS 128
#define STAGES (HEAD_DIM == 128 ? 2 : 3)
#define WARPGROUPS (TILE_M / 64) /* that compute */
#define CONSUMERS (WARPGROUPS * WARPGROUP)
#define COPIERS WARPGROUP
#define TURN 1 /* barrier at which the first warpgroup waits for its turn to issue products; + 1: the second, ... */
#define TURN_AWAIT(group) barrier_named(TURN + (group), 2 * WARPGROUP)
#define TURN_PASS(group) barrier_pass(TURN + (group), 2 * WARPGROUP)
#if WARPGROUPS == 3
#define COPIER_REGISTERS REGISTERS_GIVE(32)
#define CONSUMER_REGISTERS REGISTERS_TAKE(160)
#else
#define COPIER_REGISTERS REGISTERS_GIVE(40)
#define CONSUMER_REGISTERS REGISTERS_TAKE(232)
#endif
#define SCORES (TILE_KEYS / 2)  /* of a work-item */
#define SUMS (HEAD_DIM / 2)     /* likewise */
#define WORDS (TILE_KEYS / 4)   /* of weights */
#define TILE_BYTES (HALVES * TILE_KEYS * ROW_BYTES)
#define QUERY_BYTES (HALVES * TILE_M * ROW_BYTES)
#if RELATIVE > 0
/* Biases of the pairs of tiles that are no more than one apart, beyond which there is one for all (RELATIVE is at most
 * TILE_KEYS): so that none is looked up by itself. */
#define NEAR (2 * TILE_KEYS - 1)
#define BIASES (2 * NEAR + 1)
#define BIASES_EACH ((BIASES + COPIERS - 1) / COPIERS)
#define ARGUMENT_SHIFT , const float shift
#define GIVE_SHIFT , shift
#else
#define ARGUMENT_SHIFT
#define GIVE_SHIFT
#endif

/* score = queries times keys (TILE_ROWS), the products left running. */
INLINE void multiply_keys(float *score, const uint queries, const uint keys)
{
    wgmma_fence();
    UNROLL
    for (uint s = 0; s < HEAD_DIM / 16; s++) WGMMA_128(score, ALONG(queries, s), ALONG(keys, s), s, 0, 0);
    wgmma_commit();
}

/* sum += weights times values (TILE_COLUMNS), left running. */
INLINE void multiply_values(float *sum, const uint *weight, const uint values)
{
    wgmma_fence();
    UNROLL
    for (uint s = 0; s < TILE_KEYS / 16; s++) CHANNELS_REGISTERS(sum, weight + s * 4, ACROSS(values, s), 1);
    wgmma_commit();
}

#if RELATIVE > 0
/* Adds their bias to the scores of keys that begin `apart` after the tile's queries; returns what all of them are to
 * get besides, after `scale`. `biases`: that of this work-item's first key and query where both tiles begin together. */
INLINE float add_biases(float *score, const __local float *biases, const __local float *all, const int apart,
                        const float scale)
{
    if (apart >= 2 * TILE_KEYS) return all[BIASES - 1] * scale;
    if (apart <= -2 * TILE_KEYS) return all[0] * scale;
    UNROLL
    for (uint i = 0; i < SCORES; i++)
        score[i] += biases[apart + (int)(i / 16 * 32 + i / 4 % 4 * 2 + i % 2) - (int)(i / 2 % 2 * 8)];
    return 0.0f;
}
#endif

/* Keys that a tile of queries walks over: the first, of a draw, and the one after the last. */
INLINE uint2 keys_met(const uint row0, const uint length)
{
    return (uint2)((uint)mask_first_key((int)row0, BEFORE) / 8 * 8,
                   (uint)mask_end_key((int)min(row0 + TILE_M, length) - 1, AFTER, (int)length));
}

#if MASKED || ALIBI
/* From a work-item's first key and query to those of its i-th score: the key's less the query's. */
#define OFFSET(i) ((int)((i) / 16 * 32 + (i) / 4 % 4 * 2 + (i) % 2) - (int)((i) / 2 % 2 * 8))

/* Hides the scores that are not seen, and takes what ALiBi does from the others. `apart`: this work-item's first key less
 * its first query; `slope` over SCALE. */
INLINE void mask_scores(float *score, const int apart, const float slope, const bool all_seen)
{
    UNROLL
    for (uint i = 0; ALIBI && i < SCORES; i++) score[i] = fma(-slope, fabs((float)(apart + OFFSET(i))), score[i]);
    if (!MASKED || all_seen) return;
    UNROLL
    for (uint i = 0; i < SCORES; i++)
        score[i] = mask_sees(apart + OFFSET(i), BEFORE, AFTER) ? score[i] : HIDDEN_SCORE;
}
#define MASK_SCORES(key0)                                                                                              \
    mask_scores(score, (int)((key0) + local_number() % 4 * 8) - (int)(place.y + row), slope,                           \
                mask_sees_all((int)(place.y + group * 64), (int)(place.y + group * 64) + 63, (int)(key0),              \
                              (int)(key0) + TILE_KEYS - 1, BEFORE, AFTER))
#else
#define MASK_SCORES(key0)
#endif

/* Scores become exponentials relative to the largest so far; `largest` (scaled), `total` (of this work-item's keys) and
 * what earlier sums are to be multiplied by, for both rows. Of the keys there are `keys`. */
INLINE void exponentials(float *score, const uint keys, const float scale, float *largest, float *total, float *shrink
                         ARGUMENT_SHIFT)
{
    if (keys < TILE_KEYS) {
        UNROLL
        for (uint i = 0; i < SCORES; i++)
            if (i / 16 * 32 + local_number() % 4 * 8 + i / 4 % 4 * 2 + i % 2 >= keys) score[i] = LOWEST;
    }
    UNROLL
    for (uint h = 0; h < 2; h++) {
        float most = score[h * 2];
        UNROLL
        for (uint i = 0; i < SCORES; i += 4) most = fmax(most, fmax(score[i + h * 2], score[i + h * 2 + 1]));
#if RELATIVE > 0
        const float now = fmax(largest[h], fma(quad_max(most), scale, shift)), base = now - shift;
#else
        const float now = fmax(largest[h], quad_max(most) * scale);
        const float base = MASKED && now < 0.5f * HIDDEN_SCORE * scale ? 0.0f : now; /* none is seen: all become 0 */
#endif
        shrink[h] = exp2_fast(largest[h] - now);
        largest[h] = now;
        float sum0 = 0.0f, sum1 = 0.0f;
        UNROLL
        for (uint i = 0; i < SCORES; i += 4) {
            score[i + h * 2] = exp2_fast(fma(score[i + h * 2], scale, -base));
            score[i + h * 2 + 1] = exp2_fast(fma(score[i + h * 2 + 1], scale, -base));
            sum0 += score[i + h * 2];
            sum1 += score[i + h * 2 + 1];
        }
        total[h] = fma(total[h], shrink[h], sum0 + sum1);
    }
}

/* Weights as an operand, after dropout but for its scale. */
INLINE void make_weights(uint *weight, const float *score, const uint4 random_key, const uint random_row,
                         const uint key)
{
    UNROLL
    for (uint t = 0; t < TILE_KEYS / 32; t++) {
        UNROLL
        for (uint h = 0; h < 2; h++) {
            const float *s = score + t * 16 + h * 2;
            uint word[4];
            UNROLL
            for (uint i = 0; i < 4; i++) word[i] = pack_halves(s[i * 4], s[i * 4 + 1]);
#if DROPOUT > 0
            const uint4 drawn =
                draw(random_key, random_row + h * 8 * HEADS, key + t * 32 + local_number() % 4 * 8);
            word[0] &= keep_pair(drawn.x, DROPOUT);
            word[1] &= keep_pair(drawn.y, DROPOUT);
            word[2] &= keep_pair(drawn.z, DROPOUT);
            word[3] &= keep_pair(drawn.w, DROPOUT);
#endif
            UNROLL
            for (uint i = 0; i < 4; i++) weight[t * 8 + i * 2 + h] = word[i];
        }
    }
}

/* The copies up to now are announced at the barrier `full`. */
INLINE void announce(const uint full)
{
    COPY_WAIT(0);
    fence_async();
    warp_arrive(full);
}

/* Waits until the consumers let go of a place in the ring, first announcing what is pending if that takes time. */
INLINE uint await_free(const uint free, const uint parity, uint pending)
{
    if (!mbarrier_ended(free, parity)) {
        if (pending) announce(pending);
        pending = 0;
        mbarrier_wait(free, parity);
    }
    return pending;
}

/* The copies since the last ones are to be announced at `full`; those are now. */
INLINE uint announce_later(const uint full, const uint pending)
{
    copy_commit();
    if (pending) {
        COPY_WAIT(1);
        fence_async();
        warp_arrive(pending);
    }
    return full;
}

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void attention_wgmma(ATTENTION_ARGUMENTS)
{
    BEGIN_ATTENTION;
    /* Queries of two tiles, then the ring: keys of all stages, values of all stages. */
    __local uchar memory[2 * QUERY_BYTES + 2 * STAGES * TILE_BYTES] __attribute__((aligned(1024)));
    __local ulong barriers[4 * STAGES + 2];
#if RELATIVE > 0
    __local float biases[2 * BIASES]; /* of the same tiles */
#endif
    __local uint4 places[2]; /* of the queries' tiles: first token, first query, tokens of the sequence, head */

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint queries_at = SHARED_ADDRESS(memory), keys_at = queries_at + 2 * QUERY_BYTES,
               values_at = keys_at + STAGES * TILE_BYTES;
    const uint keys_full = SHARED_ADDRESS(barriers), values_full = keys_full + 8 * STAGES,
               keys_free = values_full + 8 * STAGES, values_free = keys_free + 8 * STAGES,
               queries_free = values_free + 8 * STAGES;
    if (local_number() == 0) {
        for (uint s = 0; s < STAGES; s++) {
            mbarrier_init(keys_full + 8 * s, COPIERS / 32);
            mbarrier_init(values_full + 8 * s, COPIERS / 32);
            mbarrier_init(keys_free + 8 * s, CONSUMERS / 32);
            mbarrier_init(values_free + 8 * s, CONSUMERS / 32);
        }
        mbarrier_init(queries_free, CONSUMERS / 32);
        mbarrier_init(queries_free + 8, CONSUMERS / 32);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Work-groups come in turns, in each a tile for all: of masked scores in the other order in every second turn. Else
     * one that always meets its sequences' last tiles, which see the most keys, would be busy long after the others. */
    const uint work = tiles * HEADS, groups = get_num_groups(0) * get_num_groups(1),
               first_step = MASKED ? 2 * (groups - group_number()) - 1 : groups;
    uint stage = 0, turn = 0; /* turn: of the queries' tiles; how often the ring went round is in parity */
    if (local_number() >= CONSUMERS) {
        /* ---- the copying warps: what they copied last is announced as soon as they would have to wait ---- */
        const uint copier = local_number() - CONSUMERS;
        COPIER_REGISTERS;
        uint parity = 1, pending = 0;
#if RELATIVE > 0
        uint bias_at[BIASES_EACH]; /* in the table, of the first head */
        UNROLL
        for (uint i = 0; i < BIASES_EACH; i++)
            bias_at[i] = batch[batch[HEADER_AT_BUCKETS] + distance_at((int)(copier + i * COPIERS) - NEAR)] * HEADS;
#endif
        for (uint item = group_number(), step = first_step; item < work; item += step, step = 2 * groups - step) {
            const uint head = item % HEADS, entry = batch[HEADER_AT_QUERY_TILES] + (tiles - 1 - item / HEADS) * 2;
            const uint sequence = batch[entry], row0 = batch[entry + 1];
            const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
            const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
            __global const storage *key = w + (W_OFFSET + (size_t)first * W_STRIDE + HEAD_AT(KEY_HEAD(head), W_STRIDE));
            __global const storage *value = v + (V_OFFSET + (size_t)first * V_STRIDE + HEAD_AT(KEY_HEAD(head), V_STRIDE));
            const uint2 met = keys_met(row0, length);
            for (uint key0 = met.x; key0 < met.y; key0 += TILE_KEYS) {
                pending = await_free(keys_free + 8 * stage, parity, pending);
                if (key0 == met.x) {
                    pending = await_free(queries_free + 8 * (turn % 2), (turn / 2 + 1) % 2, pending);
                    copy_rows(queries_at + turn % 2 * QUERY_BYTES,
                              x + (X_OFFSET + (size_t)(first + row0) * X_STRIDE + HEAD_AT(head, X_STRIDE)), X_STRIDE,
                              TILE_M, length - row0, COPIERS, copier, false);
#if RELATIVE > 0
                    UNROLL
                    for (uint i = 0; i < BIASES_EACH; i++)
                        if (copier + i * COPIERS < BIASES)
                            biases[turn % 2 * BIASES + copier + i * COPIERS] =
                                LOAD(relative, bias_at[i] + head) / as_float((uint)SCALE);
#endif
                    if (copier == 0) places[turn % 2] = (uint4)(first, row0, length, head);
                }
                copy_rows(keys_at + stage * TILE_BYTES, key + (size_t)key0 * W_STRIDE, W_STRIDE, TILE_KEYS,
                          length - key0, COPIERS, copier, true);
                pending = announce_later(keys_full + 8 * stage, pending);
                pending = await_free(values_free + 8 * stage, parity, pending);
                copy_rows(values_at + stage * TILE_BYTES, value + (size_t)key0 * V_STRIDE, V_STRIDE, TILE_KEYS,
                          length - key0, COPIERS, copier, true);
                pending = announce_later(values_full + 8 * stage, pending);
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            turn++;
        }
        if (pending) announce(pending);
        return;
    }

    /* ---- a warpgroup ---- */
    CONSUMER_REGISTERS;
    const uint group = local_number() / WARPGROUP, lane = local_number() % 32;
    const float scale = as_float((uint)SCALE) * LOG2E;
    const uint first_keys = TILE_ROWS(keys_at), first_values = TILE_COLUMNS(values_at);
    uint parity = 0;
    if (group == WARPGROUPS - 1) TURN_PASS(0); /* the first warpgroup begins */
    for (uint item = group_number(), step = first_step; item < work; item += step, step = 2 * groups - step) {
        mbarrier_wait(keys_full + 8 * stage, parity);
        const uint4 place = places[turn % 2];
        const uint first = place.x, length = place.z, head = place.w, rows = length - place.y;
        const uint row = group * 64 + local_number() % WARPGROUP / 32 * 16 + lane / 4; /* the first of two: + 8 */
        const uint my_queries = TILE_ROWS(queries_at + turn % 2 * QUERY_BYTES + group * 64 * ROW_BYTES);
        const uint2 met = keys_met(place.y, length);
        const uint steps = (met.y - met.x + TILE_KEYS - 1) / TILE_KEYS;
#if MASKED || ALIBI
        const float slope = ALIBI ? alibi_slope(HEADS, head) / as_float((uint)SCALE) : 0.0f;
#endif
#if DROPOUT > 0
        const uint4 random_key = dropout_key(batch, site);
        const uint random_row = (first + place.y + row) * HEADS + head;
        const float kept = DROPOUT_SCALE;
#else
        const uint4 random_key = (uint4)(0);
        const uint random_row = 0;
        const float kept = 1.0f;
#endif
        float sum[SUMS], largest[2] = {LOWEST, LOWEST}, total[2] = {0.0f, 0.0f}, shrink[2];
        uint weight[WORDS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = 0.0f;
#if RELATIVE > 0
        const __local float *all_biases = biases + turn % 2 * BIASES,
                            *my_biases = all_biases + (NEAR - row + local_number() % 4 * 8);
#endif
        {
            float score[SCORES];
            TURN_AWAIT(group);
            multiply_keys(score, my_queries, first_keys + stage * (TILE_BYTES / 16));
            TURN_PASS((group + 1) % WARPGROUPS);
            WGMMA_WAIT(0, 64, score);
            warp_arrive(keys_free + 8 * stage);
#if RELATIVE > 0
            const float shift = add_biases(score, my_biases, all_biases, -(int)place.y, scale);
#endif
            if (steps == 1) warp_arrive(queries_free + 8 * (turn % 2));
            MASK_SCORES(met.x);
            exponentials(score, length - met.x, scale, largest, total, shrink GIVE_SHIFT);
            make_weights(weight, score, random_key, random_row, met.x);
        }
        ROLLED
        for (uint n = 1; n < steps; n++) {
            const uint last = stage, last_parity = parity;
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
            float score[SCORES];
            mbarrier_wait(keys_full + 8 * stage, parity);
            TURN_AWAIT(group);
            multiply_keys(score, my_queries, first_keys + stage * (TILE_BYTES / 16));
            mbarrier_wait(values_full + 8 * last, last_parity);
            multiply_values(sum, weight, first_values + last * (TILE_BYTES / 16));
            TURN_PASS((group + 1) % WARPGROUPS);
            WGMMA_WAIT(1, 64, score);
            warp_arrive(keys_free + 8 * stage);
#if RELATIVE > 0
            const float shift = add_biases(score, my_biases, all_biases, (int)(n * TILE_KEYS) - (int)place.y, scale);
#endif
            if (n + 1 == steps) warp_arrive(queries_free + 8 * (turn % 2));
            MASK_SCORES(met.x + n * TILE_KEYS);
            exponentials(score, length - met.x - n * TILE_KEYS, scale, largest, total, shrink GIVE_SHIFT);
            CHANNELS_WAIT(0, sum);
            warp_arrive(values_free + 8 * last);
            UNROLL
            for (uint i = 0; i < SUMS; i++) sum[i] *= shrink[i / 2 % 2];
            make_weights(weight, score, random_key, random_row, met.x + n * TILE_KEYS);
        }
        mbarrier_wait(values_full + 8 * stage, parity);
        multiply_values(sum, weight, first_values + stage * (TILE_BYTES / 16));
        CHANNELS_WAIT(0, sum);
        warp_arrive(values_free + 8 * stage);

        /* ---- the rows' totals, and the mean that they make of the sums ---- */
        UNROLL
        for (uint h = 0; h < 2; h++) total[h] = quad_sum(total[h]);
        const uint begin = group * 64;
        store_rows(y + (Y_OFFSET + (size_t)(first + place.y + begin) * Y_STRIDE + HEAD_AT(head, Y_STRIDE)), Y_STRIDE,
                   rows > begin ? rows - begin : 0, sum, kept / total[0], kept / total[1]);
#if LSE == LSE_WRITE
        UNROLL
        for (uint h = 0; h < 2; h++)
            if (lane % 4 == 0 && row + 8 * h < rows)
                lse[(size_t)(first + place.y + row + 8 * h) * HEADS + head] = (largest[h] + log2(total[h])) * LN2;
#endif
        turn++;
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    if (group == 0) TURN_AWAIT(0);
}
