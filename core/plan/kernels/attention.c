/* attention, attention_backward and attention_dq: scores in square tiles that are never stored (cl/attention.h). */
#include "base/text.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/class_sizes.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { HEAD_MULTIPLE = 8, HEAD_MOST = 128 }; /* channels */

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 0);
    (void)s;
    if (!dim || dim % HEAD_MULTIPLE || dim > HEAD_MOST)
        return variant_refuse(reason, "attention without stored scores needs heads of 8, 16, ... 128 channels");
    return true;
}

/* ---- sizes ---- */

/* Square tiles; a work-item has 8 x 4 scores, as many sums with 64 channels: 3 reads of shared memory for 32 fma. Where
 * there are 48 KiB of shared memory, forward keeps all 64 channels of the queries there: 43 KiB, 27 TFLOP/s on an H200
 * instead of 22. Where memory is small, a work-item has 4 x 4. */
static void set_tile(struct call *call, uint32_t rows, uint32_t columns, uint32_t thread, uint32_t others,
                     uint32_t tile_k, uint32_t values)
{
    call_set(call, CONST_LOCAL_SIZE, rows / thread * others);
    call_set(call, CONST_TILE_M, rows);
    call_set(call, CONST_TILE_N, columns);
    call_set(call, CONST_TILE_K, tile_k);
    call_set(call, CONST_TILE_V, values);
    call_set(call, CONST_THREAD_M, thread);
}

/* What the device's class has in place of that. */
static void set_class(struct call *call, const struct sizes *s)
{
    const struct class_row *row = class_row(call->kernel, s->limits);
    uint32_t rows = tile_queries(s->limits);
    if (row) set_tile(call, rows, rows, row->thread_m, rows / 4, row->tile_k, row->tile_v);
}

static bool is_wide(const struct call *call) { return call_get(call, CONST_HEAD_DIM, 1) > 64; }

static bool is_roomy(const struct device_limits *limits) { return limits->shared_bytes >= 49152; }

static void size_forward(struct call *call, const struct sizes *s)
{
    uint32_t rows = tile_queries(s->limits);
    bool wide = is_wide(call), roomy = is_roomy(s->limits);
    set_tile(call, rows, rows, rows < 64 ? 4 : 8, rows / 4, !roomy ? 16 : wide ? 32 : 64, !roomy && wide ? 16 : 32);
    set_class(call, s);
}

/* Keys' and values' sums of 8 rows and 128 channels would not stay in registers: there a work-item has 4. Parts give
 * work to a large GPU, four groups for each multiprocessor at the session's limits where that takes several; each part
 * costs a sum of the queries' gradients in memory. On an H200, 8 x 512 tokens, 16 heads: 982, 779, 788, 796 us with 1,
 * 2, 4 and 8 parts. */
static void size_backward(struct call *call, const struct sizes *s)
{
    bool wide = is_wide(call), roomy = is_roomy(s->limits) && !wide;
    uint32_t rows = tile_queries(s->limits);
    uint64_t tiles = divide_up(s->longest, rows), sequences = s->longest ? divide_up(s->max_rows, s->longest) : 1;
    uint64_t groups = sequences * call_get(call, CONST_KEY_HEADS, call_get(call, CONST_HEADS, 1)),
             parts = 4 * LARGE_GPU_UNITS / groups;
    if (parts > tiles) parts = tiles;
    set_tile(call, rows, rows, rows < 64 || (wide && s->limits->max_local_size >= 256) ? 4 : 8, rows / 4,
             roomy ? 32 : 16,
             roomy  ? 64
             : wide ? 16
                    : 32);
    set_class(call, s);
    bool sums = call_get(call, CONST_RELATIVE, 0); /* by distance, of all keys */
    call_set(call, CONST_PARTS, s->limits->cpu || parts < 1 || sums ? 1 : (uint32_t)parts);
}

/* The parts are those of attention_backward. */
static void size_dq(struct call *call, const struct sizes *s)
{
    if (s->before) {
        call_set(call, CONST_TILE_M, call_get(s->before, CONST_TILE_M, 1));
        call_set(call, CONST_TILE_N, call_get(s->before, CONST_TILE_N, 1));
        call_set(call, CONST_PARTS, call_get(s->before, CONST_PARTS, 1));
    }
    size_row(call, s, 256);
}

/* ---- memory ---- */

/* Quads (16 bytes) of the arrays that cl/attention*.cl and shaders/attention*.comp declare. */
struct quads {
    size_t x, w, weights, values, statistics, keep, biases, diagonals;
};

static struct quads quads_of(const struct call *call)
{
    size_t rows = call_get(call, CONST_TILE_M, 0), columns = call_get(call, CONST_TILE_N, 0),
           tile_k = call_get(call, CONST_TILE_K, 0), head = call_get(call, CONST_HEAD_DIM, 0),
           distances = call_get(call, CONST_RELATIVE, 0);
    size_t threads_n = call_get(call, CONST_LOCAL_SIZE, 0) / (rows / call_get(call, CONST_THREAD_M, 1));
    return (struct quads){
        .x = tile_k * rows / 4,
        .w = tile_k * columns / 4,
        .weights = columns * (rows / 4 + 1),
        .values = call_get(call, CONST_TILE_V, 0) * (size_t)divide_up(head, 4 * threads_n) * threads_n,
        .statistics = threads_n * rows / 4,
        .keep = call_get(call, CONST_DROPOUT, 0) ? rows * columns / 64 : 0,
        .biases = distances ? (2 * distances + 1 + 3) / 4 : 0,
        .diagonals = distances ? (2 * divide_up(distances, columns) + 3) * (2 * columns - 1) / 4 + 1 : 0};
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t shared_forward(const struct call *call)
{
    struct quads q = quads_of(call);
    return (q.x + larger(q.w, q.weights) + larger(q.values, q.statistics) + q.keep + q.biases) * 4 * sizeof(float);
}

static size_t shared_backward(const struct call *call)
{
    struct quads q = quads_of(call);
    return (larger(2 * (q.x + q.w), q.weights + q.values) + call_get(call, CONST_TILE_N, 0) / 2 + q.keep + q.biases +
            q.diagonals) *
           4 * sizeof(float);
}

static uint64_t scratch_backward(const struct call *call, uint64_t max_rows)
{
    return max_rows * call_get(call, CONST_PARTS, 1) * call_get(call, CONST_HEADS, 1) *
           call_get(call, CONST_HEAD_DIM, 1) * sizeof(float);
}

/* Scores and sums of a work-item. */
static uint32_t scores_registers(const struct call *call)
{
    uint32_t thread = call_get(call, CONST_THREAD_M, 1), local = call_get(call, CONST_LOCAL_SIZE, 1),
             others = local / (call_get(call, CONST_TILE_M, 1) / thread);
    uint32_t sums = thread * (call_get(call, CONST_TILE_N, 1) / others),
             channels = thread * 4 * (uint32_t)divide_up(call_get(call, CONST_HEAD_DIM, 1), 4 * others);
    return sums + channels;
}

static uint32_t registers_forward(const struct call *call, const struct sizes *s)
{
    (void)s;
    return scores_registers(call) + REGISTERS_REST;
}

/* Two of each. */
static uint32_t registers_backward(const struct call *call, const struct sizes *s)
{
    (void)s;
    return 2 * scores_registers(call) + REGISTERS_REST;
}

/* ---- candidates ---- */

/* All that tiles of m x n scores can be made of: TILE_N is a multiple of 4 * THREADS_N (cl/attention.h). */
static void add_tiles(struct choices *list, const struct call *sized, uint32_t m, uint32_t n)
{
    for (uint32_t thread = 4; thread <= 8; thread *= 2)
        for (uint32_t others = n / 8; others <= n / 4; others *= 2)
            for (uint32_t tile_k = 16; tile_k <= 64; tile_k *= 2)
                for (uint32_t values = 16; values <= n; values *= 2) {
                    struct call call = *sized;
                    set_tile(&call, m, n, thread, others, tile_k, values);
                    choices_add(list, &call);
                }
}

static void candidates_forward(const struct call *sized, const struct sizes *s, struct choices *list)
{
    (void)s;
    choices_add(list, sized); /* a class may have stages of its own */
    for (uint32_t n = 32; n <= 64; n *= 2) add_tiles(list, sized, call_get(sized, CONST_TILE_M, 1), n);
}

static void candidates_backward(const struct call *sized, const struct sizes *s, struct choices *list)
{
    for (uint32_t rows = 32; rows <= 64; rows *= 2)
        for (uint32_t parts = 1; parts <= (call_get(sized, CONST_RELATIVE, 0) ? 1 : 8) &&
                                 parts <= divide_up(choices_bucket(s->longest), rows);
             parts *= 2) {
            struct call call = *sized;
            call_set(&call, CONST_PARTS, parts);
            add_tiles(list, &call, rows, rows);
        }
}

static void describe(const struct call *call, struct text_writer *text)
{
    uint32_t parts = call_get(call, CONST_PARTS, 1);
    describe_sizes(call, text);
    text_add(text, ", %u part%s", (unsigned)parts, parts > 1 ? "s" : "");
}

/* ---- their traffic ---- */

/* Where the queries' channels are more than a stage, they do not stay in shared memory, and are read for every tile of
 * keys. */
static void count_forward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32);
    count_attention(c);
    if (dim <= get(c, CONST_TILE_K, 32)) return;
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), of_a_head = 4 * length * dim * c->storage;
        uint64_t again =
            (queries_walked(c, length, get(c, CONST_TILE_N, 32), get(c, CONST_TILE_M, 32)) - length) * dim * heads;
        reads(c, SLOT_X, again);
        reads_again(c, SLOT_X, again, of_a_head);
    }
}

/* For each of its tiles of keys a work-group walks over all queries: it reads them and their gradients twice, once as
 * scores' rows and once as factors, the keys' tile likewise, and adds to the partial sums. The parts of a head go in
 * step; the other work-groups that run at the same time touch as much between two tiles of keys. */
static void count_backward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32), parts = get(c, CONST_PARTS, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32);
    uint64_t key_heads = get(c, CONST_KEY_HEADS, (uint32_t)heads), members = heads / key_heads;
    uint64_t at_once = least(groups_at_once(c), (uint64_t)c->words[HEADER_SEQUENCES] * key_heads * parts);
    uint64_t of_a_step = at_once * dim * ((2 * tile_m + 2 * tile_n) * c->storage + tile_n * sizeof(float));
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads;
        uint64_t row = dim * heads, queries = queries_walked(c, length, tile_m, tile_n);
        uint64_t keys = row * keys_walked(c, length, tile_n, tile_m, tile_m);
        uint64_t used = row * parts_walked(c, length, tile_m, tile_n, parts), added = row * queries - used;
        uint64_t again = rows * (divide_up(divide_up(queries, length), parts) - 1);
        uint64_t of_a_tile = at_once * length * dim * (2 * c->storage + sizeof(float));
        reads(c, SLOT_X, 2 * row * queries);
        reads(c, SLOT_GRADIENT, 2 * row * queries);
        reads(c, SLOT_W, 2 * keys);
        reads(c, SLOT_V, keys);
        reads_again(c, SLOT_X, again, of_a_tile);
        reads_again(c, SLOT_GRADIENT, again, of_a_tile);
        reads_again(c, SLOT_W, keys - rows, of_a_step);
        reads_again(c, SLOT_V, keys - rows, of_a_step);
        reads(c, SLOT_LSE, queries * heads);
        /* Past the sequence's end the last one again. */
        reads(c, SLOT_DELTA, steps_walked(c, length, tile_m, tile_n) * tile_n * heads);
        reads(c, SLOT_PARTIALS, added);
        reads_again(c, SLOT_PARTIALS, added, of_a_tile);
        writes_scratch(c, SLOT_PARTIALS, used);
        writes(c, SLOT_PARTIALS, added);
        writes_again(c, SLOT_PARTIALS, added, of_a_tile);
        reads_again(c, SLOT_W, rows - rows / members, of_a_tile);
        reads_again(c, SLOT_V, rows - rows / members, of_a_tile);
        writes(c, SLOT_Y, 2 * rows / members);
    }
    reads_biases(c, c->words[HEADER_SEQUENCES] * heads * parts);
    writes(c, SLOT_DISTANCES, 2 * heads * c->words[HEADER_TOKENS]);
}

static void count_dq(struct count *c)
{
    uint64_t row = (uint64_t)get(c, CONST_HEADS, 1) * get(c, CONST_HEAD_DIM, 32), parts = get(c, CONST_PARTS, 1);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s);
        reads(c, SLOT_PARTIALS,
              row * parts_walked(c, length, get(c, CONST_TILE_M, 32), get(c, CONST_TILE_N, 32), parts));
        writes(c, SLOT_Y, length * row);
    }
    reads_turn(c, get(c, CONST_HEADS, 1), get(c, CONST_HEAD_DIM, 32) / access_of(c));
}

const struct variant variant_attention = {
    .kernel = "attention",
    .name = "attention",
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "queries stay in shared memory where it has room for a head's channels",
    .fits = fits,
    .size = size_forward,
    .shared_bytes = shared_forward,
    .count = count_forward,
    .candidates = candidates_forward,
    .registers = registers_forward,
};

const struct variant variant_attention_backward = {
    .kernel = "attention_backward",
    .name = "attention_backward",
    .takes = {CONST_HEADS,    CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED,
              CONST_X_STRIDE, CONST_X_OFFSET,  CONST_W_STRIDE, CONST_W_OFFSET,        CONST_V_STRIDE,
              CONST_V_OFFSET, CONST_Y_STRIDE,  CONST_Y_OFFSET, CONST_DROPOUT,         CONST_LSE,
              CONST_DELTA,    CONST_RELATIVE,  CONST_BEFORE,   CONST_AFTER,           CONST_ALIBI},
    .why = "parts of the keys fill four work-groups a multiprocessor",
    .fits = fits,
    .size = size_backward,
    .shared_bytes = shared_backward,
    .scratch_bytes = scratch_backward,
    .count = count_backward,
    .candidates = candidates_backward,
    .registers = registers_backward,
    .describe = describe,
};

const struct variant variant_attention_dq = {
    .kernel = "attention_dq",
    .name = "attention_dq",
    .takes = {CONST_N, CONST_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_X_STRIDE, CONST_X_OFFSET, CONST_BEFORE,
              CONST_AFTER, CONST_ROTARY},
    .why = "the parts that attention_backward made",
    .size = size_dq,
    .count = count_dq,
    .candidates = choices_elements,
    .describe = describe,
};
