/* Gradients of attention on Hopper's tensor cores; cl/attention_backward.cl says what it computes.
 *
 * Work-groups share the sequences, heads and parts. For each, one walks over the part's tiles of 128 keys and for each
 * of them over the queries in steps of 64. Two warpgroups have 64 of the keys each and go their own way: a warpgroup
 * makes the weights and the scores' gradients turned, keys by queries, which are so operands for the values' and the
 * keys' sums where they are, in registers; the scores' gradients go through shared memory, too, to become an operand
 * for the queries' sums. These stay in shared memory where the longest sequence allows it (QUERY_ROWS), else in the
 * partial sums' memory; the second warpgroup adds after the first, always the same work-items to an element. A third
 * warpgroup copies queries and gradients ahead, and the next tile of keys where there is room, and draws dropout's
 * decisions while copies are on their way. A tile of keys meets the steps of which a query sees one of its keys. Order
 * and partners of all sums are of the own sequence alone. */

#ifndef PARTS
#define PARTS 1
#endif
#ifndef QUERY_ROWS
#define QUERY_ROWS 0
#endif
#if QUERY_ROWS > 0 && PARTS == 1
#define NO_PARTIALS /* the queries' sums are their gradient */
#endif
#include "attention_wgmma.h"
#define TILE_KEYS 128
#define TILE_QUERIES 64
#define CONSUMERS (2 * WARPGROUP)
#define COPIERS WARPGROUP
#define STAGES (QUERY_ROWS > 0 ? 2 : 3)
#define PAIRS (QUERY_ROWS > 0 ? 1 : 2) /* tiles of keys and values in shared memory */
#define SLOTS (QUERY_ROWS > 0 ? QUERY_ROWS / TILE_QUERIES : 4) /* of the queries' sums in shared memory */
#define ADDED 8 /* barriers that the first warpgroup tells the second by; it is never as many steps ahead */

#define SUMS (HEAD_DIM / 2)    /* of a work-item, of 64 keys */
#define QUERY_SUMS (HEAD_DIM / 2)
#define GRADIENT_STRIDE (HEADS * HEAD_DIM)
#define DRAWS (TILE_KEYS / 16 * TILE_QUERIES / COPIERS) /* of 16 keys' decisions by a copying work-item */
#define KEYS_BYTES (TILE_KEYS * ROW_BYTES)
#define PAIR_BYTES (2 * KEYS_BYTES)
#define QUERIES_BYTES (TILE_QUERIES * ROW_BYTES)

#if DROPOUT > 0
#define KEPT_SCALE DROPOUT_SCALE
#define KEEP_WORDS (TILE_KEYS * TILE_QUERIES / 32)
#else
#define KEPT_SCALE 1.0f
#define KEEP_WORDS 1
#endif

#include "attention_diagonals.h"

/* sum = 64 rows of `a` times 64 rows of `b` (TILE_ROWS), both along their channels; left running. */
INLINE void multiply_channels(float *sum, const uint a, const uint b)
{
    UNROLL
    for (uint s = 0; s < HEAD_DIM / 16; s++) WGMMA_64(sum, ALONG(a, s), ALONG(b, s), s, 0, 0);
    wgmma_commit();
}

/* sum += factors of 64 rows of `b` (TILE_COLUMNS), from registers, times these; left running. */
INLINE void multiply_rows(float *sum, const uint *factor, const uint b)
{
    wgmma_fence();
    UNROLL
    for (uint s = 0; s < 4; s++) CHANNELS_REGISTERS(sum, factor + s * 4, ACROSS(b, s), 1);
    wgmma_commit();
}

#include "attention_backward_wgmma.h"

/* Adds a warpgroup's 64 queries x HEAD_DIM channels, of its 64 keys, to those of the part's keys before; `count` such
 * sums of other queries, keys and heads came before. The last go to the partial sums, or are the gradient. */
INLINE void add_queries(__local float4 *query_sums, const uint added, const uint count, const uint step, float *sum,
                        const bool begin, const bool end, const struct place at, __global float *partials,
                        __global storage *y PARAMETERS_TURN)
{
    const uint lane = local_number() % 32;
    const uint row = step * TILE_QUERIES + local_number() % WARPGROUP / 32 * 16 + lane / 4;
    const bool second = local_number() >= WARPGROUP;
    __local float4 *mine = query_sums +
                           (QUERY_ROWS > 0 ? step : count % SLOTS) * (QUERY_SUMS / 4) * WARPGROUP +
                           local_number() % WARPGROUP;
#ifndef NO_PARTIALS
    __global float2 *to = (__global float2 *)(partials + (((size_t)at.part * at.tokens + at.first + row) *
                                                              GRADIENT_STRIDE +
                                                          at.head * HEAD_DIM + lane % 4 * 2));
    const bool there0 = row < at.length, there1 = row + 8 < at.length;
#endif
    if (second) mbarrier_wait(added + count % ADDED * 8, count / ADDED % 2);
    if (QUERY_ROWS > 0 ? second || !begin : second) {
        UNROLL
        for (uint i = 0; i < QUERY_SUMS / 4; i++) {
            const float4 before = mine[i * WARPGROUP];
            sum[i * 4] += before.x;
            sum[i * 4 + 1] += before.y;
            sum[i * 4 + 2] += before.z;
            sum[i * 4 + 3] += before.w;
        }
    }
    if (QUERY_ROWS > 0 ? !second || !end : !second) {
        UNROLL
        for (uint i = 0; i < QUERY_SUMS / 4; i++)
            mine[i * WARPGROUP] = (float4)(sum[i * 4], sum[i * 4 + 1], sum[i * 4 + 2], sum[i * 4 + 3]);
        if (!second) warp_arrive(added + count % ADDED * 8);
        return;
    }
#ifndef NO_PARTIALS
    UNROLL
    for (uint i = 0; i < QUERY_SUMS / 2; i++) {
        const float2 all = (float2)(sum[i * 2], sum[i * 2 + 1]) * KEPT_SCALE;
        __global float2 *const place = to + (i % 2 * 4 * GRADIENT_STRIDE + i / 2 * 4);
        if (i % 2 ? there1 : there0) {
            if (QUERY_ROWS > 0 || begin)
                *place = all;
            else
                add_pair(place, all);
        }
    }
#else
    const float scale = as_float((uint)SCALE) * KEPT_SCALE;
    const uint row0 = step * TILE_QUERIES;
    TURN_ROWS(sum, at.first + row0, at.length - row0);
    store_rows(y + (X_OFFSET + (size_t)(at.first + row0) * X_STRIDE + HEAD_AT(at.head, X_STRIDE)), X_STRIDE,
               at.length - row0, sum, scale, scale);
#endif
}

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void attention_backward_wgmma(ATTENTION_BACKWARD_ARGUMENTS)
{
    BEGIN_ATTENTION_BACKWARD;
    /* Keys and values of PAIRS tiles, the scores' gradients [key][query], then the ring: queries of all stages, their
     * gradients of all stages. */
    __local uchar memory[PAIRS * PAIR_BYTES + KEYS_BYTES + 2 * STAGES * QUERIES_BYTES] __attribute__((aligned(1024)));
    __local float4 query_sums[SLOTS * (QUERY_SUMS / 4) * WARPGROUP];
    __local float2 statistics[STAGES * TILE_QUERIES]; /* of the queries: lse, delta */
    __local uint keep[STAGES * KEEP_WORDS];           /* [16 keys][2 queries] */
    __local ulong barriers[2 * STAGES + 2 * PAIRS + ADDED];
#if RELATIVE > 0
    __local float biases[BIASES];
    __local float2 diagonals[2 * BLOCK_DIAGONALS * 32];
    __local float all_far[2 * CONSUMERS / 32];
#endif

    const uint keys_at = SHARED_ADDRESS(memory), changes_at = keys_at + PAIRS * PAIR_BYTES,
               queries_at = changes_at + KEYS_BYTES, gradients_at = queries_at + STAGES * QUERIES_BYTES;
    const uint full = SHARED_ADDRESS(barriers), free = full + 8 * STAGES, keys_full = free + 8 * STAGES,
               keys_free = keys_full + 8 * PAIRS, added = keys_free + 8 * PAIRS;
    if (local_number() == 0) {
        for (uint s = 0; s < STAGES; s++) {
            mbarrier_init(full + 8 * s, COPIERS / 32);
            mbarrier_init(free + 8 * s, CONSUMERS / 32);
        }
        for (uint i = 0; i < PAIRS; i++) {
            mbarrier_init(keys_full + 8 * i, COPIERS / 32);
            mbarrier_init(keys_free + 8 * i, CONSUMERS / 32);
        }
        for (uint i = 0; i < ADDED; i++) mbarrier_init(added + 8 * i, WARPGROUP / 32);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    const uint work = batch[HEADER_SEQUENCES] * HEADS * PARTS, groups = get_num_groups(0) * get_num_groups(1);
    uint stage = 0;
    if (local_number() >= CONSUMERS) {
        /* ---- the copying warpgroup ---- */
        REGISTERS_GIVE(72); /* 72 + 2 x 216 are the 3 x 168 that the assembler begins with: with more all would wait */
        const uint copier = local_number() - CONSUMERS;
#if DROPOUT > 0
        const uint4 random_key = dropout_key(batch, site);
#endif
        uint parity = 1, keys_parity = 1, pair = 0;
        for (uint lap = 0, item; (item = item_of(lap, groups)) < work; lap++) {
            const struct place at = place_of(batch, item);
            for (uint key0 = at.part * TILE_KEYS; key0 < at.length; key0 += PARTS * TILE_KEYS) {
                const uint2 met = steps_met(key0, at.length);
                struct ahead next = LOOK_AHEAD(met.x);
                mbarrier_wait(keys_free + 8 * pair, keys_parity);
#if RELATIVE > 0
                for (uint i = copier; i < BIASES && key0 == at.part * TILE_KEYS; i += COPIERS)
                    biases[i] = table_bias(relative, batch, at.head, distance_at((int)i - BIAS_ZERO)) * LOG2E;
#endif
                const uint keys_to = keys_at + pair * PAIR_BYTES, left = at.length - key0;
                copy_rows(keys_to, w + (W_OFFSET + (size_t)(at.first + key0) * W_STRIDE + HEAD_AT(at.head, W_STRIDE)),
                          W_STRIDE, TILE_KEYS, left, COPIERS, copier, false);
                copy_rows(keys_to + KEYS_BYTES,
                          v + (V_OFFSET + (size_t)(at.first + key0) * V_STRIDE + HEAD_AT(at.head, V_STRIDE)), V_STRIDE,
                          TILE_KEYS, left, COPIERS, copier, false);
                for (uint step = met.x; step < met.y; step++) {
                    const uint query0 = step * TILE_QUERIES;
                    const uint queries = at.length - query0;
                    mbarrier_wait(free + 8 * stage, parity);
                    copy_rows(queries_at + stage * QUERIES_BYTES,
                              x + (X_OFFSET + (size_t)(at.first + query0) * X_STRIDE + HEAD_AT(at.head, X_STRIDE)),
                              X_STRIDE,
                              TILE_QUERIES, queries, COPIERS, copier, false);
                    copy_rows(gradients_at + stage * QUERIES_BYTES,
                              gradient + ((size_t)(at.first + query0) * GRADIENT_STRIDE + at.head * HEAD_DIM),
                              GRADIENT_STRIDE, TILE_QUERIES, queries, COPIERS, copier, false);
                    copy_commit();
                    if (copier < TILE_QUERIES) statistics[stage * TILE_QUERIES + copier] = next.statistic;
#if DROPOUT > 0
                    UNROLL
                    for (uint k = 0; k < DRAWS; k++)
                        ((__local ushort *)(keep + stage * KEEP_WORDS))[k * COPIERS + copier] = (ushort)next.bits[k];
#endif
                    if (step + 1 < met.y) next = LOOK_AHEAD(step + 1); /* while the copies are on their way */
                    COPY_WAIT(0);
                    fence_async();
                    warp_barrier();
                    if (local_number() % 32 == 0) {
                        if (step == met.x) mbarrier_arrive(keys_full + 8 * pair);
                        mbarrier_arrive(full + 8 * stage);
                    }
                    if (++stage == STAGES) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
                if (++pair == PAIRS) {
                    pair = 0;
                    keys_parity ^= 1;
                }
            }
        }
        return;
    }

    /* ---- a warpgroup ---- */
    REGISTERS_TAKE(216);
    const uint group = local_number() / WARPGROUP, warp = local_number() % WARPGROUP / 32, lane = local_number() % 32;
    const float scale = as_float((uint)SCALE) * LOG2E;
    const uint my_changes = changes_at + group * 64 * ROW_BYTES;
    const uint queries_rows = TILE_ROWS(queries_at), gradients_rows = TILE_ROWS(gradients_at),
               queries_columns = TILE_COLUMNS(queries_at), gradients_columns = TILE_COLUMNS(gradients_at);
    uint changes_columns = TILE_COLUMNS(my_changes);
    const uint stored_at = my_changes + (warp * 16 + lane % 16) * ROW_BYTES; /* the row that this lane stores */
    uint parity = 0, keys_parity = 0, count = 0, pair = 0;
#if RELATIVE > 0
    __local float2 *my_diagonals = diagonals + group * BLOCK_DIAGONALS * 32;
    float far[2] = {0.0f, 0.0f}; /* sums of scores' gradients beyond: before and after the query */
    clear_diagonals(my_diagonals);
#endif
    for (uint lap = 0, item; (item = item_of(lap, groups)) < work; lap++) {
        const struct place at = place_of(batch, item);
#if ALIBI
        const float slope = alibi_slope(HEADS, at.head) * LOG2E;
#endif
        for (uint key0 = at.part * TILE_KEYS; key0 < at.length; key0 += PARTS * TILE_KEYS) {
            const uint2 met = steps_met(key0, at.length);
            const uint steps = met.y;
            const uint keys = at.length - key0, key = group * 64 + warp * 16 + lane / 4;
            float key_sum[SUMS], value_sum[SUMS], query_sum[QUERY_SUMS];
            UNROLL
            for (uint i = 0; i < SUMS; i++) {
                key_sum[i] = 0.0f;
                value_sum[i] = 0.0f;
            }
            float score[32], change[32];
            const uint my_keys = keys_at + pair * PAIR_BYTES + group * 64 * ROW_BYTES;
            uint keys_rows = TILE_ROWS(my_keys), keys_columns = TILE_COLUMNS(my_keys);
            mbarrier_wait(keys_full + 8 * pair, keys_parity);
            mbarrier_wait(full + 8 * stage, parity);
            wgmma_fence();
            multiply_channels(score, keys_rows, queries_rows + stage * (QUERIES_BYTES / 16));
            multiply_channels(change, keys_rows + KEYS_BYTES / 16, gradients_rows + stage * (QUERIES_BYTES / 16));
            WGMMA_WAIT(0, 32, score);
            WGMMA_WAIT(0, 32, change);
            ROLLED
            for (uint step = met.x; step < steps; step++) {
                OPAQUE(keys_rows);
                OPAQUE(keys_columns);
                OPAQUE(changes_columns);
                const uint next = stage + 1 == STAGES ? 0 : stage + 1, next_parity = next ? parity : parity ^ 1,
                           ahead = step + 1 < steps ? next : stage;

                uint weight[16], factor[16];
#if DROPOUT > 0
                float left[32]; /* of the weights after dropout, but for its factor */
#endif

                /* ---- weights; keys beyond the sequence have none. Running: scores, changes ---- */
                const __local float4 *statistic =
                    (const __local float4 *)(statistics + stage * TILE_QUERIES) + lane % 4;
#if DROPOUT > 0
                const __local uint *bits =
                    keep + stage * KEEP_WORDS + (group * 4 + warp) * (TILE_QUERIES / 2) + lane % 4;
                uint kept[8];
                UNROLL
                for (uint j = 0; j < 8; j++) kept[j] = bits[j * 4] >> (lane / 8 + lane / 4 % 2 * 8);
#endif
#if RELATIVE > 0
                const int apart = (int)key0 - (int)(step * TILE_QUERIES);
                const __local float *bias =
                    biases + (BIAS_ZERO + max(min(apart, APART_MOST), APART_LEAST) + (int)key - (int)(lane % 4 * 2));
#define LESS(lse, j, h, e) bias[(int)(h) * 8 - (int)(j) * 8 - (int)(e)] - (lse)
#elif ALIBI
                const int apart = (int)(key0 + key) - (int)(step * TILE_QUERIES + lane % 4 * 2);
#define LESS(lse, j, h, e) fma(-slope, fabs((float)(apart + (int)(h) * 8 - (int)(j) * 8 - (int)(e))), -(lse))
#else
#define LESS(lse, j, h, e) -(lse)
#endif
                UNROLL
                for (uint j = 0; j < 8; j++) {
                    const float4 both = statistic[j * 4];
                    UNROLL
                    for (uint h = 0; h < 2; h++) {
                        score[j * 4 + h * 2] = exp2_fast(fma(score[j * 4 + h * 2], scale, LESS(both.x, j, h, 0)));
                        score[j * 4 + h * 2 + 1] = exp2_fast(fma(score[j * 4 + h * 2 + 1], scale, LESS(both.z, j, h, 1)));
                    }
                }
#if MASKED
                if (!mask_sees_all((int)(step * TILE_QUERIES), (int)(step * TILE_QUERIES) + TILE_QUERIES - 1, (int)key0,
                                   (int)key0 + TILE_KEYS - 1, BEFORE, AFTER)) {
                    const int offset = (int)(key0 + key) - (int)(step * TILE_QUERIES + lane % 4 * 2);
                    UNROLL
                    for (uint i = 0; i < 32; i++)
                        if (!mask_sees(offset + (int)(i / 2 % 2 * 8) - (int)(i / 4 * 8 + i % 2), BEFORE, AFTER))
                            score[i] = 0.0f;
                }
#endif
                if (keys < TILE_KEYS) {
                    UNROLL
                    for (uint i = 0; i < 32; i++)
                        if (key + i / 2 % 2 * 8 >= keys) score[i] = 0.0f;
                }
                UNROLL
                for (uint j = 0; j < 8; j++) {
                    UNROLL
                    for (uint h = 0; h < 2; h++) {
                        const uint i = j * 4 + h * 2;
#if DROPOUT > 0
                        left[i] = (kept[j] & 1u << 4 * h) != 0 ? score[i] : 0.0f;
                        left[i + 1] = (kept[j] & 0x10000u << 4 * h) != 0 ? score[i + 1] : 0.0f;
                        weight[j * 2 + h] = pack_halves(left[i], left[i + 1]);
#else
                        weight[j * 2 + h] = pack_halves(score[i], score[i + 1]);
#endif
                    }
                }

                /* ---- values, and the gradients of the scores. Running: changes, values ---- */
                multiply_rows(value_sum, weight, gradients_columns + stage * (QUERIES_BYTES / 16));
                UNROLL
                for (uint j = 0; j < 8; j++) {
                    const float4 both = statistic[j * 4];
                    UNROLL
                    for (uint h = 0; h < 2; h++) {
                        const uint i = j * 4 + h * 2;
#if DROPOUT > 0
                        factor[j * 2 + h] = pack_halves(fma(left[i], change[i], -score[i] * both.y),
                                                        fma(left[i + 1], change[i + 1], -score[i + 1] * both.w));
#else
                        factor[j * 2 + h] =
                            pack_halves(score[i] * (change[i] - both.y), score[i + 1] * (change[i + 1] - both.w));
#endif
                    }
                }

                /* ---- keys and queries. Running: values, keys, queries ---- */
                multiply_rows(key_sum, factor, queries_columns + stage * (QUERIES_BYTES / 16));
                UNROLL
                for (uint s = 0; s < 4; s++)
                    store_matrices(stored_at + ((s * 2 + lane / 16) ^ lane % 8) * 16, factor[s * 4],
                                   factor[s * 4 + 1], factor[s * 4 + 2], factor[s * 4 + 3]);
                fence_async();
                barrier_named(1 + group, WARPGROUP);
                wgmma_fence();
                UNROLL
                for (uint s = 0; s < 4; s++)
                    CHANNELS_SHARED(query_sum, ACROSS(changes_columns, s), ACROSS(keys_columns, s), s);
                wgmma_commit();
                /* The next step's scores and changes run while this one's queries are added. */
                CHANNELS_WAIT(1, value_sum);
                CHANNELS_WAIT(1, key_sum);
                if (step + 1 < steps) mbarrier_wait(full + 8 * next, next_parity);
                wgmma_fence();
                multiply_channels(score, keys_rows, queries_rows + ahead * (QUERIES_BYTES / 16));
                multiply_channels(change, keys_rows + KEYS_BYTES / 16, gradients_rows + ahead * (QUERIES_BYTES / 16));
#if RELATIVE > 0
                add_diagonals(my_diagonals, my_changes, (apart + (int)(group * 64)) / 8, far);
#endif
                CHANNELS_WAIT(2, query_sum);
                warp_arrive(free + 8 * stage);
                barrier_named(1 + group, WARPGROUP); /* all warps' products have read the scores' gradients */
                add_queries(query_sums, added, count, step, query_sum, step_begins(key0, step),
                            step_ends(key0, step, at.length), at, partials, y GIVE_TURN);
                WGMMA_WAIT(0, 32, score);
                WGMMA_WAIT(0, 32, change);
                count++;
                stage = next;
                parity = next_parity;
            }
            warp_arrive(keys_free + 8 * pair);
            if (++pair == PAIRS) {
                pair = 0;
                keys_parity ^= 1;
            }

            const uint there = keys > group * 64 ? keys - group * 64 : 0;
            const size_t token = at.first + key0 + group * 64;
            const float key_scale = as_float((uint)SCALE) * KEPT_SCALE;
            TURN_ROWS(key_sum, at.first + key0 + group * 64, there);
            store_rows(y + (W_OFFSET + token * W_STRIDE + HEAD_AT(at.head, W_STRIDE)), W_STRIDE, there, key_sum,
                       key_scale,
                       key_scale);
            store_rows(y + (V_OFFSET + token * V_STRIDE + HEAD_AT(at.head, V_STRIDE)), V_STRIDE, there, value_sum,
                       KEPT_SCALE,
                       KEPT_SCALE);
        }
#if RELATIVE > 0
        store_distances(distances + (2 * (size_t)at.first * HEADS + at.head), at.length, diagonals, far, all_far,
                        as_float((uint)SCALE) * KEPT_SCALE);
        clear_diagonals(my_diagonals);
#endif
    }
}
