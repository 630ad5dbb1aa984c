/* Attention and its backward pass on cooperative matrices whose elements can be computed with
 * (shaders/attention_coopmat.comp, attention_backward_coopmat.comp): where they run, and their tiles. */
#include "kernel/interface.h"
#include "plan/variants.h"

/* Matrices of rows that a sub-group owns. */
enum { BLOCKS = 1 };

/* Rows of a group: one entry of the query tile table, or up to `entries` of them, a power of two, where a GPU has the
 * work-items and sequences are as long: each group reads all that it walks over. */
static uint32_t rows(const struct sizes *s, uint32_t entries)
{
    const struct device_limits *limits = s->limits;
    uint32_t table = tile_queries(limits), items = table / (BLOCKS * limits->coopmat_m) * limits->coopmat_subgroup;
    if (limits->cpu || limits->shared_bytes < 49152) return table;
    while (entries > 1 && (entries * items > limits->max_local_size || entries / 2 * table >= s->longest)) entries /= 2;
    return entries * table;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    const struct device_limits *limits = s->limits;
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 1), table = tile_queries(limits);
    if (!s->f16)
        *reason = "cooperative matrices are of f16";
    else if (!limits->coopmat2)
        *reason = "the device lacks VK_NV_cooperative_matrix2";
    else if (!call_get(call, CONST_ALIGNED, 0))
        *reason = "rows do not begin on 16 bytes";
    else if (dim % 16 || dim % limits->coopmat_n || dim > 64)
        *reason = "a head's channels are no multiple of 16, or more than 64";
    else if (limits->coopmat_n != limits->coopmat_k || table % limits->coopmat_m || limits->coopmat_m > 32)
        *reason = "the shape of the device's matrices does not let a result become an operand";
    else if (table / (BLOCKS * limits->coopmat_m) * limits->coopmat_subgroup > limits->max_local_size)
        *reason = "the device's work-groups are too small";
    else
        return true;
    return false;
}

static void set_sizes(struct call *call, const struct sizes *s, uint32_t m)
{
    const struct device_limits *limits = s->limits;
    call_set(call, CONST_LOCAL_SIZE, m / (BLOCKS * limits->coopmat_m) * limits->coopmat_subgroup);
    call_set(call, CONST_TILE_M, m);
    call_set(call, CONST_TILE_N, limits->shared_bytes < 49152 ? 32 : 64);
    call_set(call, CONST_TILE_K, call_get(call, CONST_HEAD_DIM, 1));
    call_set(call, CONST_BLOCKS, BLOCKS);
    call_set(call, CONST_MATRIX_M, limits->coopmat_m);
    call_set(call, CONST_MATRIX_N, limits->coopmat_n);
    call_set(call, CONST_MATRIX_K, limits->coopmat_k);
    call_set(call, CONST_SUBGROUP, limits->coopmat_subgroup);
}

/* Bytes of `tile_rows` rows in shared memory, and of one bit for each weight of a step. */
static size_t tile_bytes(const struct call *call, size_t tile_rows)
{
    size_t weights = (size_t)call_get(call, CONST_TILE_M, 1) * call_get(call, CONST_TILE_N, 1);
    return tile_rows * (call_get(call, CONST_HEAD_DIM, 1) / 8 + 1) * 16 +
           (call_get(call, CONST_DROPOUT, 0) ? weights / 8 : 0);
}

/* ---- forward ---- */

/* On an H200, 32 x 16 x 512 tokens: 84 TFLOP/s with 64 rows, 145 with 128, 158 with 256, whose 512 work-items make the
 * compiler keep to 128 registers. With dropout that is too few; 117 with 128 rows. */
static void size(struct call *call, const struct sizes *s)
{
    set_sizes(call, s, rows(s, call_get(call, CONST_DROPOUT, 0) ? 2 : 4));
}

/* Keys and values of two steps, or the group's queries. */
static size_t shared_bytes(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1);
    return tile_bytes(call, m > 4 * n ? m : 4 * n);
}

const struct variant variant_attention_coopmat = {
    .kernel = "attention",
    .name = "attention_coopmat",
    .rung = RUNG_COOPMAT,
    .why = "cooperative matrices (VK_NV_cooperative_matrix2)",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
};

/* ---- backward ---- */

/* A group for each tile of keys and of queries that the longest sequence may have. On an H200, 32 x 16 x 512 tokens
 * with dropout: 85 TFLOP/s with 64 rows, 133 with 128. */
static void size_backward(struct call *call, const struct sizes *s)
{
    uint32_t m = rows(s, 2);
    set_sizes(call, s, m);
    call_set(call, CONST_PARTS, 2 * ((s->longest + m - 1) / m));
    call_take_away(call, SLOT_PARTIALS);
}

/* Both operands of two steps, or two tiles of the group's own rows; statistics of the queries. */
static size_t shared_bytes_backward(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1);
    return tile_bytes(call, m > 2 * n ? 2 * m : 4 * n) + 2 * sizeof(float) * (m > 2 * n ? m : 2 * n);
}

const struct variant variant_attention_backward_coopmat = {
    .kernel = "attention_backward",
    .name = "attention_backward_coopmat",
    .rung = RUNG_COOPMAT,
    .why = "cooperative matrices (VK_NV_cooperative_matrix2)",
    .fits = fits,
    .size = size_backward,
    .shared_bytes = shared_bytes_backward,
};
