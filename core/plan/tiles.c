/* Chooses tile and work-group sizes by device and shape. None of them changes a result: every output of a product is
 * one work-item's sum in ascending order, and row kernels depend on LOCAL_SIZE, which depends on the row alone. */
#include "plan/tiles.h"

#include <string.h>

#include "kernel/interface.h"

/* ---- products ---- */

struct tile {
    uint32_t m, n, k, thread_m, thread_n; /* LOCAL_SIZE is (m / thread_m) * (n / thread_n) */
};

/* From large to small: a large tile reads less memory per output, a small one gives work to more multiprocessors and,
 * with its deep slabs, waits less often. All within 16 KiB of shared memory. */
static const struct tile gpu_tiles[] = {
    {128, 128, 16, 8, 8},
    {64, 64, 32, 4, 8},
    {32, 32, 64, 4, 4},
};

/* On processors a work-item is a loop iteration: few of them, with much work each. */
static const struct tile cpu_tile = {32, 32, 16, 4, 4};

/* Work-groups that a GPU should have at least; two per multiprocessor of a large one. */
enum { ENOUGH_GROUPS = 264 };

static uint64_t divide_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit; }

static const struct tile *gemm_tile(const struct device_limits *limits, uint64_t rows, uint64_t columns)
{
    size_t last = sizeof gpu_tiles / sizeof *gpu_tiles - 1, i = 0;
    if (limits->cpu) return &cpu_tile;
    while (i < last && (divide_up(rows, gpu_tiles[i].m) * divide_up(columns, gpu_tiles[i].n) < ENOUGH_GROUPS ||
                        limits->max_local_size < 256))
        i++;
    return &gpu_tiles[i];
}

static void set_tile(struct call *call, const struct tile *t)
{
    call_set(call, CONST_LOCAL_SIZE, t->m / t->thread_m * (t->n / t->thread_n));
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_THREAD_M, t->thread_m);
    call_set(call, CONST_THREAD_N, t->thread_n);
}

/* ---- attention and its two products ---- */

enum { ATTENTION_ROWS = 64 }; /* of the query tile table, and of the score tile table in both directions */

uint32_t tile_queries(const struct device_limits *limits)
{
    (void)limits;
    return ATTENTION_ROWS;
}

uint32_t tile_scores(const struct device_limits *limits)
{
    (void)limits;
    return ATTENTION_ROWS;
}

/* 16 x 8 work-items, each with 4 rows and every eighth key. Above 96 channels the values take half of the 32 KiB, so
 * slabs of the product with the keys are half as deep. */
static void set_attention(struct call *call)
{
    call_set(call, CONST_LOCAL_SIZE, 128);
    call_set(call, CONST_TILE_M, ATTENTION_ROWS);
    call_set(call, CONST_TILE_N, 32);
    call_set(call, CONST_TILE_K, call_get(call, CONST_HEAD_DIM, 0) > 96 ? 16 : 32);
    call_set(call, CONST_THREAD_M, 4);
}

/* ---- rows ---- */

/* A power of two from 32 to 256, near `items`. */
static uint32_t row_size(uint32_t items)
{
    uint32_t size = 32;
    while (size < 256 && size < items) size *= 2;
    return size;
}

/* ---- alignment ---- */

static bool aligned(const struct call *call, uint32_t vector)
{
    static const uint8_t lengths[] = {CONST_N,        CONST_K,        CONST_HEAD_DIM, CONST_X_STRIDE,
                                      CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE,
                                      CONST_V_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (call_get(call, lengths[i], 0) % vector) return false;
    return true;
}

void call_tiles(struct call *call, const struct device_limits *limits, bool f16, uint64_t max_rows)
{
    static const struct tile bgemm_tile = {ATTENTION_ROWS, ATTENTION_ROWS, 16, 4, 4};
    uint32_t vector = f16 ? 8 : 4, columns = call_get(call, CONST_N, 1);
    call_set(call, CONST_ALIGNED, aligned(call, vector));
    if (!strcmp(call->kernel, "gemm"))
        set_tile(call, gemm_tile(limits, max_rows, columns));
    else if (!strcmp(call->kernel, "bgemm"))
        set_tile(call, &bgemm_tile);
    else if (!strcmp(call->kernel, "attention"))
        set_attention(call);
    else if (!strcmp(call->kernel, "layernorm") || !strcmp(call->kernel, "embed"))
        call_set(call, CONST_LOCAL_SIZE, row_size(columns / (4 * vector)));
    else if (!strcmp(call->kernel, "pool"))
        call_set(call, CONST_LOCAL_SIZE, row_size(columns / vector));
    else if (!strcmp(call->kernel, "softmax"))
        call_set(call, CONST_LOCAL_SIZE, 64);
    else
        call_set(call, CONST_LOCAL_SIZE, 256);
}
