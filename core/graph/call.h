/* Calls of kernels: which one, on which tensors, with which constants, in how many work-groups. */
#ifndef WHERRY_GRAPH_CALL_H
#define WHERRY_GRAPH_CALL_H

#include <stdbool.h>
#include <stdint.h>

enum { CALL_MAX_ARGUMENTS = 16, CALL_MAX_CONSTANTS = 40, CALL_MAX_MAPS = 6 };

/* How many work-groups a kernel wants. */
enum launch {
    LAUNCH_ELEMENTS,   /* one work-group per LOCAL_SIZE 16-byte vectors of the output (LOCAL_SIZE elements when not
                          ALIGNED) */
    LAUNCH_ROWS,       /* one work-group per row */
    LAUNCH_TILES,      /* ceil(rows / TILE_M) * ceil(columns / TILE_N), columns fastest; M rows where there is an M */
    LAUNCH_SCORE_ROWS, /* one work-group per token and head, heads fastest */
    LAUNCH_QUERIES,    /* query tiles * HEADS: tiles fastest */
    LAUNCH_SEQUENCES,  /* sequences * HEADS * PARTS: sequences fastest, parts slowest */
    LAUNCH_WORDS,      /* sequences * ceil(N / TILE_N): sequences fastest */
    LAUNCH_SCORES,     /* score tiles * HEADS: tiles fastest */
    LAUNCH_PARTS,      /* ceil(rows / PART_ROWS) * ceil(N / TILE_N), columns fastest; without TILE_N all are one */
    LAUNCH_COLUMNS,    /* ceil(SETS * N / TILE_N) */
    LAUNCH_EXPERTS,    /* (ceil(rows * CHOSEN / TILE_M) + EXPERTS) * ceil(N / TILE_N), columns fastest: tiles of each
                          expert's    rows; where there is an M, EXPERTS * ceil(M / TILE_M) * ceil(N / TILE_N), experts
                          slowest */
    LAUNCH_TABLE /* the M rows of a table, TILE_M each, times ceil(rows / PART_ROWS) with COLUMN_SUMS; rows fastest */
};

/* In the place of a tensor: the group's own memory, for what its first kernel tells its second. */
enum { TENSOR_SCRATCH = -1 };

/* What a kernel is called with: derived from its group's operators, one kind after the other (group_calls). */
struct call {
    const char *kernel;
    enum launch launch;
    struct call_argument {
        uint8_t slot;
        bool written;
        int tensor;
        uint64_t skipped; /* bytes of the tensor before what this call has of it (plan/pieces.h) */
    } arguments[CALL_MAX_ARGUMENTS];
    int n_arguments; /* ascending slots, slot 0 not among them */
    struct call_constant {
        uint8_t id;
        uint32_t value;
    } constants[CALL_MAX_CONSTANTS];
    int n_constants; /* ascending ids */
    /* Views of arguments as matrices, in the order in which a kernel that loads tiles by the hardware's copy engine
     * expects them (cl/tensor_maps.cl). */
    struct call_map {
        uint8_t slot;
        uint8_t rows_of; /* index in the batch header of what stands for `rows` or `columns` where that is 0 */
        uint32_t rows, columns;
        uint32_t stride, offset; /* elements from one row to the next, and before the first one */
        uint32_t box_rows, box_columns;
    } maps[CALL_MAX_MAPS];
    int n_maps;
    /* Words in which work-groups count: 0 before a kernel begins and after it has ended. */
    uint32_t counters;
    uint32_t site; /* dropout's (kernel/random.h): no constant, so that layers share their kernels */
};

/* Sets or replaces a constant. */
void call_set(struct call *call, uint8_t id, uint32_t value);
void call_set_float(struct call *call, uint8_t id, float value);
/* The constant's value, or `otherwise` where the call does not give it. */
uint32_t call_get(const struct call *call, uint8_t id, uint32_t otherwise);
/* Which size of a product is the batch's number of rows: RUNTIME_* but RUNTIME_FORM. */
uint32_t call_runtime(const struct call *call);
bool call_has_slot(const struct call *call, uint8_t slot);

#endif
