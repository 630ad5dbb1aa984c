/* What the portable products gemm and bgemm share: tiles in shared memory, sums in registers (cl/tile.h). */
#ifndef WHERRY_PLAN_KERNELS_TILED_H
#define WHERRY_PLAN_KERNELS_TILED_H

#include "base/round.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/tiles.h"

struct tile {
    uint32_t m, n, thread_m, thread_n; /* LOCAL_SIZE is (m / thread_m) * (n / thread_n) */
    uint32_t vectors;                  /* depth of a stage in vectors of 16 bytes */
    double speed;                      /* on many tiles, relative to the largest tile's */
    double filled;                     /* work-groups that a large GPU runs at the same time */
};

static inline uint32_t tile_items(const struct tile *t) { return t->m / t->thread_m * (t->n / t->thread_n); }

static inline void tile_set(struct call *call, const struct tile *t, uint32_t vector)
{
    call_set(call, CONST_LOCAL_SIZE, tile_items(t));
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->vectors * vector);
    call_set(call, CONST_THREAD_M, t->thread_m);
    call_set(call, CONST_THREAD_N, t->thread_n);
}

/* Whether a tuning tries it. */
static inline bool tile_candidate(const struct tile *t)
{
    return tile_items(t) >= LOCAL_LEAST / 2 && tile_items(t) <= 512;
}

/* Stages are in f32 whatever the storage type. */
static inline size_t tiled_shared_bytes(const struct call *call)
{
    size_t sides = call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0);
    return sides * call_get(call, CONST_TILE_K, 0) * sizeof(float);
}

/* Of a work-item: its sums, a row and a column of operands, and the blocks of the next stage. */
static inline uint32_t tiled_registers(const struct call *call, const struct sizes *s)
{
    uint32_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1),
             thread_m = call_get(call, CONST_THREAD_M, 1), thread_n = call_get(call, CONST_THREAD_N, 1);
    uint32_t stage =
        (uint32_t)divide_up((uint64_t)(m + n) * call_get(call, CONST_TILE_K, 1), call_get(call, CONST_LOCAL_SIZE, 1));
    return thread_m * thread_n + thread_m + thread_n + (s->f16 ? stage / 2 : stage) + REGISTERS_REST;
}

#endif
