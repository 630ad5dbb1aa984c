/* Of traffic of mixtures of experts: how far what is counted may be from what is derived, which has as many rows for
 * each expert (core/plan/kernels/gemm_experts.c). */
#ifndef WHERRY_TESTS_EXPERTS_SUPPORT_H
#define WHERRY_TESTS_EXPERTS_SUPPORT_H

#include "base/round.h"
#include "graph/call.h"
#include "interface/interface.h"

#include <string.h>

/* Bytes, 0: what is derived is exact. However rows are spread there are from rows / tile to rows / tile + EXPERTS
 * tiles, so that an expert's weights are read once more or less for each expert; and a tile, of which so many
 * work-items look for their rows, passes by up to all experts. Where each token takes all experts they have as many
 * rows, and of a weight's gradient all rows are read once. */
static inline uint64_t experts_spread(const struct call *call, uint64_t tokens, size_t storage, uint64_t tile_m,
                                      uint64_t tile_n, uint64_t items)
{
    uint64_t experts = call_get(call, CONST_EXPERTS, 1), chosen = call_get(call, CONST_CHOSEN, 1),
             n = call_get(call, CONST_N, 1), k = call_get(call, CONST_K, 1);
    if (strcmp(call->kernel, "gemm_experts") || call_get(call, CONST_FORM, GEMM_NT) == GEMM_TN || chosen == experts)
        return 0;
    uint64_t tiles = divide_up(tokens * chosen, tile_m) + experts;
    return experts * n * k * storage + tiles * divide_up(n, tile_n) * items * (experts - 1) * sizeof(uint32_t);
}

#endif
