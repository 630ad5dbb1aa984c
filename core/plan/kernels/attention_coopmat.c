/* Attention and its backward pass on cooperative matrices: where they run, and their tiles. The same kernels in two
 * builds: where matrices' elements can be computed with and results become operands in registers
 * (shaders/attention_coopmat.comp, attention_backward_coopmat.comp), and where that goes through shared memory
 * (shaders/attention_khr.comp, attention_backward_khr.comp). */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Keys of a step at least, and channels of a head at most: the build for NV_cooperative_matrix2 was measured up to 64.
 */
enum { STEP_LEAST = 32, HEAD_MOST = 128, ELEMENTS_HEAD_MOST = 64 };

/* Work-items of a group, whatever its rows: a sub-group for each matrix of one entry of the query tile table. */
static uint32_t items(const struct device_limits *limits)
{
    return tile_queries(limits) / limits->coopmat_m * limits->coopmat_subgroup;
}

/* Matrices of rows that a sub-group owns, and with them entries of the query tile table that a group takes: two share
 * all that the sub-group reads. One where sequences are no longer, or where two left multiprocessors of a GPU without
 * any of the `groups`. */
static uint32_t blocks(const struct sizes *s, uint64_t groups)
{
    bool filled = s->limits->cpu || groups >= device_units(s->limits);
    return filled && s->longest > tile_queries(s->limits) ? 2 : 1;
}

/* Whether one of the two builds runs it. */
static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    const struct device_limits *limits = s->limits;
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 1), table = tile_queries(limits);
    uint32_t m = limits->coopmat_m, n = limits->coopmat_n, k = limits->coopmat_k;
    if (!s->f16) return variant_refuse(reason, "cooperative matrices are of f16");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "rows do not begin on 16 bytes");
    if (!limits->coopmat_f16_sums) return variant_refuse(reason, "the device's matrices have no sums of 16 bits");
    if (dim % n || dim % k || dim > HEAD_MOST)
        return variant_refuse(reason, "a head's channels are not of whole matrices, or too many");
    if (!m || n % 8 || k % 8 || STEP_LEAST / 2 % n || STEP_LEAST / 2 % k || table % m)
        return variant_refuse(reason, "a step is not of whole matrices of the device's shape");
    if (items(limits) > limits->max_local_size) return variant_refuse(reason, "the device's work-groups are too small");
    return true;
}

static bool fits_elements(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!fits(call, s, reason)) return false;
    if (!s->limits->coopmat2) return variant_refuse(reason, "the device lacks VK_NV_cooperative_matrix2");
    if (s->limits->coopmat_n != s->limits->coopmat_k)
        return variant_refuse(reason, "the shape of the device's matrices does not let a result become an operand");
    if (call_get(call, CONST_HEAD_DIM, 1) > ELEMENTS_HEAD_MOST)
        return variant_refuse(reason, "a head has too many channels");
    return true;
}

static void set_sizes(struct call *call, const struct sizes *s, uint32_t owned)
{
    const struct device_limits *limits = s->limits;
    call_set(call, CONST_LOCAL_SIZE, items(limits));
    call_set(call, CONST_TILE_M, owned * tile_queries(limits));
    call_set(call, CONST_TILE_N, limits->cpu || limits->shared_bytes < 49152 ? STEP_LEAST : 2 * STEP_LEAST);
    call_set(call, CONST_TILE_K, call_get(call, CONST_HEAD_DIM, 1));
    call_set(call, CONST_BLOCKS, owned);
    call_set(call, CONST_MATRIX_M, limits->coopmat_m);
    call_set(call, CONST_MATRIX_N, limits->coopmat_n);
    call_set(call, CONST_MATRIX_K, limits->coopmat_k);
    call_set(call, CONST_SUBGROUP, limits->coopmat_subgroup);
}

/* Bytes of a row in shared memory. */
static size_t row_bytes(const struct call *call) { return (call_get(call, CONST_HEAD_DIM, 1) / 8 + 1) * (size_t)16; }

/* Keys that become operands at once by KHR_cooperative_matrix alone: as many as a matrix has, or TILE_V. */
static uint32_t strip_keys(const struct call *call)
{
    uint32_t n = call_get(call, CONST_MATRIX_N, 8), k = call_get(call, CONST_MATRIX_K, 8),
             chosen = call_get(call, CONST_TILE_V, 0), least = n > k ? n : k;
    return chosen > least ? chosen : least;
}

/* Bytes in which sub-groups make results operands (shaders/matrix_elements.glsl): `operands` matrices at once. */
static size_t staging_bytes(const struct call *call, size_t operands)
{
    size_t strip = strip_keys(call);
    return call_get(call, CONST_LOCAL_SIZE, 1) / call_get(call, CONST_SUBGROUP, 1) * 2 *
           call_get(call, CONST_MATRIX_M, 1) * (operands * strip / 8 + 1) * 16;
}

/* ---- forward ---- */

/* On an H200, 32 x 16 x 512 tokens, TFLOP/s without dropout and with it: 198 and 133 with 128 rows; 190 and 131 with
 * 256; 174 and 128 in steps of 32 keys; in sub-groups that own one matrix 181 and 132 with 192 rows, 169 with 256.
 * Short heads leave little to share: 64 x 12 x 128 x 32 takes 19.8 us with one matrix (128 rows), 23.7 with two. By
 * KHR_cooperative_matrix alone, where each matrix waits for shared memory, they do in sequences of more than two
 * entries: heads of 32, 512 tokens, 127 and 91 with two and strips of 32 keys, 121 and 86 of 16, 100 and 81 with one;
 * 256 tokens 106 and 78, 102 and 73, 85 and 70; 128 tokens 70 and 49, 67 and 47, 74 and 56. */
static uint32_t forward_blocks(const struct call *call, const struct sizes *s, bool elements)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 1), table = tile_queries(s->limits);
    bool sharing = !elements && s->limits->coopmat_subgroup == 32 && s->longest > 2 * table;
    if (dim > 64 || (!s->limits->cpu && dim <= 32 && !sharing)) return 1;
    return blocks(s, divide_up(s->max_rows, 2 * (uint64_t)table) * call_get(call, CONST_HEADS, 1));
}

/* Keys and values of two steps, or the group's queries; one bit for each weight of a step; biases by
 * distance. */
static size_t shared_bytes(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1);
    return (m > 4 * n ? m : 4 * n) * row_bytes(call) + (call_get(call, CONST_DROPOUT, 0) ? m * n / 8 : 0) +
           call_bias_bytes(call);
}

/* Keys and values or queries; what sub-groups make operands, where dropout is done, too; the places of a matrix'
 * elements, where they are not in registers; biases by distance. */
static size_t shared_bytes_khr(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1);
    size_t places = call_get(call, CONST_HEAD_DIM, 1) > 64
                        ? call_get(call, CONST_MATRIX_M, 8) * (call_get(call, CONST_MATRIX_N, 8) / 4 + (size_t)1) * 16
                        : 0;
    return (m > 4 * n ? m : 4 * n) * row_bytes(call) + staging_bytes(call, call_get(call, CONST_BLOCKS, 1)) + places +
           call_bias_bytes(call);
}

/* With steps, then rows, of as many as shared memory has. */
static void size_within(struct call *call, const struct sizes *s, uint32_t owned,
                        size_t (*bytes)(const struct call *call))
{
    set_sizes(call, s, owned);
    if (bytes(call) > s->limits->shared_bytes) call_set(call, CONST_TILE_N, STEP_LEAST);
    if (bytes(call) > s->limits->shared_bytes) {
        owned = 1;
        call_set(call, CONST_TILE_M, tile_queries(s->limits));
        call_set(call, CONST_BLOCKS, owned);
    }
    call_set(call, CONST_ENTRIES, owned);
}

static void size(struct call *call, const struct sizes *s)
{
    size_within(call, s, forward_blocks(call, s, true), shared_bytes);
}

/* Strips of two matrices where two share a head of few channels and there is room. */
static void size_khr(struct call *call, const struct sizes *s)
{
    enum { LONG_STRIP = 32 };
    uint32_t n = call_get(call, CONST_MATRIX_N, s->limits->coopmat_n), k = s->limits->coopmat_k;
    size_within(call, s, forward_blocks(call, s, false), shared_bytes_khr);
    call_set(call, CONST_TILE_V, strip_keys(call));
    if (s->limits->cpu || call_get(call, CONST_BLOCKS, 1) < 2 || call_get(call, CONST_HEAD_DIM, 1) > 32 ||
        call_get(call, CONST_TILE_N, 0) / 2 % LONG_STRIP || LONG_STRIP % n || LONG_STRIP % k)
        return;
    struct call longer = *call;
    call_set(&longer, CONST_TILE_V, LONG_STRIP);
    if (shared_bytes_khr(&longer) <= s->limits->shared_bytes) *call = longer;
}

/* Whether shared memory holds it. */
static bool fits_sized(const struct call *call, const struct sizes *s,
                       void (*resize)(struct call *, const struct sizes *), size_t (*bytes)(const struct call *),
                       const char **reason)
{
    struct call sized = *call;
    resize(&sized, s);
    if (bytes(&sized) <= s->limits->shared_bytes) return true;
    return variant_refuse(reason, "the device's shared memory is too small for heads of this size");
}

static bool fits_forward(const struct call *call, const struct sizes *s, const char **reason)
{
    return fits_elements(call, s, reason) && fits_sized(call, s, size, shared_bytes, reason);
}

static bool fits_khr(const struct call *call, const struct sizes *s, const char **reason)
{
    return fits(call, s, reason) && fits_sized(call, s, size_khr, shared_bytes_khr, reason);
}

/* ---- its traffic ---- */

/* Keys that groups of `rows` queries on cooperative matrices load as they walk over a sequence: past the end the last
 * one again, and of the step after the last. Queries that groups of keys load. */
static uint64_t keys_loaded(const struct count *c, uint64_t length, uint64_t rows)
{
    uint64_t step = get(c, CONST_TILE_N, 32);
    return (key_steps_walked(c, length, rows, step) + divide_up(length, rows)) * step;
}

static uint64_t queries_loaded(const struct count *c, uint64_t length, uint64_t rows)
{
    uint64_t step = get(c, CONST_TILE_N, 32);
    return (steps_walked(c, length, rows, step) + divide_up(length, rows)) * step;
}

static void count_forward(struct count *c)
{
    uint64_t row = (uint64_t)get(c, CONST_HEADS, 1) * get(c, CONST_HEAD_DIM, 32), tile_m = get(c, CONST_TILE_M, 32);
    uint64_t step = get(c, CONST_TILE_N, 32);
    count_attention(c);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s);
        uint64_t more = keys_loaded(c, length, tile_m) - keys_walked(c, length, tile_m, step, step);
        reads(c, SLOT_X, row * (round_up(length, tile_m) - length));
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) reads(c, slot, row * more);
    }
}

const struct variant variant_attention_coopmat = {
    .kernel = "attention",
    .name = "attention_coopmat",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "cooperative matrices (VK_NV_cooperative_matrix2)",
    .fits = fits_forward,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_forward,
};

const struct variant variant_attention_khr = {
    .kernel = "attention",
    .name = "attention_khr",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "cooperative matrices (VK_KHR_cooperative_matrix)",
    .fits = fits_khr,
    .size = size_khr,
    .shared_bytes = shared_bytes_khr,
    .count = count_forward,
};

/* ---- backward ---- */

/* Matrices of queries that a sub-group owns. */
static size_t query_blocks(const struct call *call)
{
    uint32_t rows = call_get(call, CONST_TILE_M, 1) / call_get(call, CONST_BLOCKS, 1); /* one for each sub-group */
    return call_get(call, CONST_QUERY_ROWS, 1) / rows;
}

/* Both operands of two steps, or the group's own rows; statistics of the queries; dropout's bits; biases by
 * distance, sums of each sub-group, and a matrix of theirs. */
static size_t shared_bytes_backward(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1),
           q = call_get(call, CONST_QUERY_ROWS, 1), own = q > m ? q : m;
    size_t matrix_m = call_get(call, CONST_MATRIX_M, 1), matrix_n = call_get(call, CONST_MATRIX_N, 1);
    size_t sub_groups = m / (call_get(call, CONST_BLOCKS, 1) * matrix_m), farthest = call_get(call, CONST_RELATIVE, 0),
           edge = matrix_m + matrix_n - 2, matrix = matrix_m * matrix_n;
    size_t words = q / sub_groups * (n / 32) > n ? q / sub_groups * (n / 32) : n;
    return (own > 4 * n ? own : 4 * n) * row_bytes(call) + 2 * sizeof(float) * (q > 2 * n ? q : 2 * n) +
           (call_get(call, CONST_DROPOUT, 0) ? sub_groups * words * sizeof(uint32_t) : 0) +
           (farthest ? call_bias_bytes(call) + sub_groups * (2 * (farthest + edge) + 1 + matrix) * sizeof(float) : 0);
}

/* A group for each tile of keys and of queries that the longest sequence may have. A sub-group has two sums for each of
 * its keys and one for each of its queries: it owns one matrix of keys. On an H200, 32 x 16 x 512 tokens with dropout:
 * 153 TFLOP/s with 64 keys and 128 queries, or with 128 and 256; with one matrix of queries 143 with 128 of both, 138
 * with 192, 137 with 256. */
static void size_backward_within(struct call *call, const struct sizes *s, size_t (*bytes)(const struct call *call))
{
    uint32_t keys = tile_queries(s->limits);
    uint64_t tiles = divide_up(s->max_rows, keys) + divide_up(s->max_rows, 2 * (uint64_t)keys);
    uint32_t queries = keys * blocks(s, tiles * call_get(call, CONST_HEADS, 1));
    set_sizes(call, s, 1);
    call_set(call, CONST_QUERY_ROWS, queries);
    bool sums = call_get(call, CONST_RELATIVE, 0); /* by distance, of all queries: a group has them all */
    call_set(call, CONST_PARTS, (uint32_t)(divide_up(s->longest, keys) + (sums ? 1 : divide_up(s->longest, queries))));
    if (bytes(call) > s->limits->shared_bytes) call_set(call, CONST_TILE_N, STEP_LEAST);
    call_take_away(call, SLOT_PARTIALS);
}

static void size_backward(struct call *call, const struct sizes *s)
{
    size_backward_within(call, s, shared_bytes_backward);
}

/* What a sub-group makes operands at once: two matrices of keys, or its queries'. */
static size_t shared_bytes_backward_khr(const struct call *call)
{
    size_t keys = 2 * (size_t)call_get(call, CONST_BLOCKS, 1), queries = query_blocks(call);
    return shared_bytes_backward(call) + staging_bytes(call, keys > queries ? keys : queries);
}

static void size_backward_khr(struct call *call, const struct sizes *s)
{
    size_backward_within(call, s, shared_bytes_backward_khr);
}

static bool fits_backward(const struct call *call, const struct sizes *s, const char **reason)
{
    return fits_elements(call, s, reason) && fits_sized(call, s, size_backward, shared_bytes_backward, reason);
}

static bool fits_backward_khr(const struct call *call, const struct sizes *s, const char **reason)
{
    return fits(call, s, reason) && fits_sized(call, s, size_backward_khr, shared_bytes_backward_khr, reason);
}

/* ---- its traffic ---- */

/* Groups of keys walk over the queries that see them and their gradients, groups of queries over keys and values; what
 * is their own they load once. The groups of a sequence's head are neighbours. */
static void count_backward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), row = heads * get(c, CONST_HEAD_DIM, 32),
             items = get(c, CONST_LOCAL_SIZE, 1), members = heads / get(c, CONST_KEY_HEADS, (uint32_t)heads);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), query_rows = get(c, CONST_QUERY_ROWS, 32),
             step = get(c, CONST_TILE_N, 32);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), of_a_head = 4 * length * row / heads * c->storage;
        uint64_t own_keys = round_up(length, tile_m), own_queries = round_up(length, query_rows);
        uint64_t queries = queries_loaded(c, length, tile_m), keys = keys_loaded(c, length, query_rows);
        uint64_t queries_again = queries_walked(c, length, tile_m, step),
                 keys_again = keys_walked(c, length, query_rows, step, step);
        const struct {
            uint8_t slot;
            uint64_t loads, again;
        } operands[] = {{SLOT_X, own_queries + queries, queries_again},
                        {SLOT_GRADIENT, own_queries + queries, queries_again},
                        {SLOT_W, own_keys / members + keys, keys_again},
                        {SLOT_V, own_keys / members + keys, keys_again}};
        for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
            reads(c, operands[i].slot, row * operands[i].loads);
            reads_again(c, operands[i].slot, row * operands[i].again, of_a_head);
        }
        /* Every work-item loads statistics. */
        uint64_t statistics =
            own_queries / query_rows * round_up(query_rows, items) + queries / step * round_up(step, items);
        reads(c, SLOT_LSE, heads * statistics);
        reads(c, SLOT_DELTA, heads * statistics);
        writes(c, SLOT_Y, length * row + 2 * length * row / members);
        writes(c, SLOT_DISTANCES, 2 * length * heads);
        reads_biases(c, heads * get(c, CONST_PARTS, 1));
    }
}

const struct variant variant_attention_backward_coopmat = {
    .kernel = "attention_backward",
    .name = "attention_backward_coopmat",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_HEADS,    CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED,
              CONST_X_STRIDE, CONST_X_OFFSET,  CONST_W_STRIDE, CONST_W_OFFSET,        CONST_V_STRIDE,
              CONST_V_OFFSET, CONST_Y_STRIDE,  CONST_Y_OFFSET, CONST_DROPOUT,         CONST_LSE,
              CONST_DELTA,    CONST_RELATIVE,  CONST_BEFORE,   CONST_AFTER,           CONST_ALIBI},
    .why = "cooperative matrices (VK_NV_cooperative_matrix2)",
    .fits = fits_backward,
    .size = size_backward,
    .shared_bytes = shared_bytes_backward,
    .count = count_backward,
};

const struct variant variant_attention_backward_khr = {
    .kernel = "attention_backward",
    .name = "attention_backward_khr",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_HEADS,    CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED,
              CONST_X_STRIDE, CONST_X_OFFSET,  CONST_W_STRIDE, CONST_W_OFFSET,        CONST_V_STRIDE,
              CONST_V_OFFSET, CONST_Y_STRIDE,  CONST_Y_OFFSET, CONST_DROPOUT,         CONST_LSE,
              CONST_DELTA,    CONST_RELATIVE,  CONST_BEFORE,   CONST_AFTER,           CONST_ALIBI},
    .why = "cooperative matrices (VK_KHR_cooperative_matrix)",
    .fits = fits_backward_khr,
    .size = size_backward_khr,
    .shared_bytes = shared_bytes_backward_khr,
    .count = count_backward,
};
