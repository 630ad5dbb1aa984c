/* Lists, for each kernel, the sizes that it is right with; what a device can't run is left out, and what can't be good
 * is cut by a bound. Rows are the bucket's, so that every session of a bucket has the same list. */
#include "plan/candidates.h"

#include <stdio.h>
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/variants.h"

/* What a number of rows, or a length, counts as. */
static uint64_t bucket(uint64_t rows) { return power_of_two(rows); }

/* ---- choices and works as text ---- */

static bool is_size(uint8_t id) { return constants[id].role == CONSTANT_SIZE; }

/* A weight's gradient becomes one in parts by its sizes. */
static bool is_gradient(const struct call *call) { return call_runtime(call) == RUNTIME_K; }

static bool tells_work(const struct call *call, uint8_t id)
{
    return constants[id].role == CONSTANT_WORK && (id != CONST_COLUMN_SUMS || !is_gradient(call));
}

static bool by_sequences(enum launch launch)
{
    return launch == LAUNCH_QUERIES || launch == LAUNCH_SEQUENCES || launch == LAUNCH_SCORES ||
           launch == LAUNCH_SCORE_ROWS;
}

bool work_text(const struct call *call, const struct sizes *s, char text[WORK_TEXT])
{
    struct text_writer t = text_begin(text, WORK_TEXT);
    text_add(&t, "%s rungs=%x rows=%llu", s->f16 ? "f16" : "f32", (unsigned)s->limits->rungs,
             (unsigned long long)bucket(s->max_rows));
    if (by_sequences(call->launch)) text_add(&t, " longest=%llu", (unsigned long long)bucket(s->longest));
    if (s->before) text_add(&t, " after %s:", kernel_base(s->before->kernel));
    text_add(&t, " %s", kernel_base(call->kernel));
    for (int i = 0; i < call->n_constants; i++) {
        const struct call_constant *c = &call->constants[i];
        if (!tells_work(call, c->id)) continue;
        unsigned value = c->id == CONST_DROPOUT ? c->value != 0 : c->value;
        text_add(&t, " %u=%u", (unsigned)c->id, value);
    }
    return !t.cut;
}

bool choice_of(const struct call *call, const struct call *before, struct choice *out)
{
    *out = (struct choice){.kernel = call->kernel};
    for (int i = 0; i < call->n_constants; i++) {
        uint8_t id = call->constants[i].id;
        if (!is_size(id) || (before && constants[id].second)) continue;
        if (out->n_sizes == CHOICE_SIZES) return false;
        out->sizes[out->n_sizes++] = call->constants[i];
    }
    return true;
}

/* The longest: a kernel's name, and in each size " 99=4294967295". */
_Static_assert(CHOICE_TEXT > sizeof((wherry_cost *)0)->kernel + CHOICE_SIZES * 14, "a choice may not fit its text");

void choice_text(const struct choice *choice, char text[CHOICE_TEXT])
{
    struct text_writer t = text_begin(text, CHOICE_TEXT);
    text_add(&t, "%s", choice->kernel);
    for (int i = 0; i < choice->n_sizes; i++)
        text_add(&t, " %u=%u", (unsigned)choice->sizes[i].id, (unsigned)choice->sizes[i].value);
}

/* The longest: a kernel's name, and in each constant " ff=ffffffff". */
_Static_assert(CALL_TEXT > sizeof((wherry_cost *)0)->kernel + GROUP_MAX_CONSTANTS * 12, "a call may not fit its text");

void call_text(const struct call *call, struct text_writer *out)
{
    text_add(out, "%s", call->kernel);
    for (int i = 0; i < call->n_constants; i++)
        text_add(out, " %x=%x", (unsigned)call->constants[i].id, (unsigned)call->constants[i].value);
}

void choice_apply(const struct choice *choice, struct call calls[GROUP_MAX_CALLS], int i, int *count,
                  const struct sizes *s)
{
    struct call *call = &calls[i];
    call->kernel = choice->kernel;
    const struct variant *variant = variant_find(call->kernel);
    call->n_maps = 0;
    call_size(call, s);
    for (int k = 0; k < choice->n_sizes; k++) call_set(call, choice->sizes[k].id, choice->sizes[k].value);
    if (variant && variant->derive) {
        call->n_maps = 0;
        variant->derive(call, s);
    }
    uint32_t part_rows = call_get(call, CONST_PART_ROWS, 0);
    if (!i) calls_drop(call, count);
    if (!i && *count == 1 && is_gradient(call) && part_rows) calls_split(calls, count, s->limits, part_rows);
}

/* ---- what a device can run ---- */

enum { REGISTERS_MOST = 255, REGISTERS_GROUP = 65536, REGISTERS_REST = 24 };

/* Registers of a work-item of the tiled product: its sums, a row and a column of operands, and the blocks of the next
 * stage. */
static uint32_t gemm_registers(const struct call *call, const struct sizes *s)
{
    uint32_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1),
             thread_m = call_get(call, CONST_THREAD_M, 1), thread_n = call_get(call, CONST_THREAD_N, 1);
    uint32_t stage =
        (uint32_t)divide_up((uint64_t)(m + n) * call_get(call, CONST_TILE_K, 1), call_get(call, CONST_LOCAL_SIZE, 1));
    return thread_m * thread_n + thread_m + thread_n + (s->f16 ? stage / 2 : stage) + REGISTERS_REST;
}

/* Scores and sums of a work-item of attention; its backward pass has two of each. */
static uint32_t attention_registers(const struct call *call)
{
    uint32_t thread = call_get(call, CONST_THREAD_M, 1), local = call_get(call, CONST_LOCAL_SIZE, 1),
             others = local / (call_get(call, CONST_TILE_M, 1) / thread);
    uint32_t sums = thread * (call_get(call, CONST_TILE_N, 1) / others),
             channels = thread * 4 * (uint32_t)divide_up(call_get(call, CONST_HEAD_DIM, 1), 4 * others);
    return (strcmp(call->kernel, "attention") ? 2 : 1) * (sums + channels) + REGISTERS_REST;
}

static bool can_run(const struct call *call, const struct sizes *s)
{
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1), registers = 0;
    if (!local || local > s->limits->max_local_size) return false;
    if (variant_find(call->kernel)) return true; /* it knows what it may take */
    if (call_shared_bytes(call) > s->limits->shared_bytes) return false;
    if (!strcmp(call->kernel, "gemm") || !strcmp(call->kernel, "bgemm")) registers = gemm_registers(call, s);
    if (!strcmp(call->kernel, "attention") || !strcmp(call->kernel, "attention_backward"))
        registers = attention_registers(call);
    return s->limits->cpu || (registers <= REGISTERS_MOST && registers * local <= REGISTERS_GROUP);
}

static bool choice_same(const struct choice *a, const struct choice *b)
{
    bool same = a->n_sizes == b->n_sizes && !strcmp(a->kernel, b->kernel);
    for (int i = 0; same && i < a->n_sizes; i++)
        same = a->sizes[i].id == b->sizes[i].id && a->sizes[i].value == b->sizes[i].value;
    return same;
}

/* ---- the bound: seconds on a large GPU, of which only quotients count ---- */

static const double bound_flops = 40e12, bound_bytes = 3.5e12, bound_launch = 4e-6;
enum { BOUND_ITEMS = 512 }; /* work-items that keep a multiprocessor busy */

/* Products: fma in rounds of work-groups that share what they read of shared memory, every tile's operands, and the
 * partial sums, written and read. */
static double gemm_bound(const struct call *call, const struct sizes *s)
{
    uint32_t runtime = call_runtime(call);
    bool gradient = runtime == RUNTIME_K;
    uint64_t rows = bucket(s->max_rows), m = runtime == RUNTIME_M ? rows : call_get(call, CONST_M, 1),
             n = runtime == RUNTIME_N ? rows : call_get(call, CONST_N, 1),
             k = gradient ? rows : call_get(call, CONST_K, 1);
    uint64_t tile_m = call_get(call, CONST_TILE_M, 1), tile_n = call_get(call, CONST_TILE_N, 1),
             part_rows = gradient ? call_get(call, CONST_PART_ROWS, 0) : 0,
             parts = part_rows ? divide_up(k, part_rows) : 1, local = call_get(call, CONST_LOCAL_SIZE, 1);
    uint64_t units = device_units(s->limits);
    uint64_t groups = divide_up(m, tile_m) * divide_up(n, tile_n) * parts,
             at_once = units * (local < BOUND_ITEMS ? BOUND_ITEMS / local : 1);
    double thread_m = call_get(call, CONST_THREAD_M, 1), thread_n = call_get(call, CONST_THREAD_N, 1);
    double reads = (thread_m + thread_n) / (thread_m * thread_n) / 0.3; /* of shared memory, for an fma */
    double flops = 2.0 * (double)tile_m * (double)tile_n * (double)divide_up(k, parts) * (double)at_once *
                   (double)divide_up(groups, at_once) * (reads > 1 ? reads : 1);
    double operands = ((double)divide_up(n, tile_n) * (double)m + (double)divide_up(m, tile_m) * (double)n) *
                      (double)k * (s->f16 ? 2 : 4) / 4; /* most of them from the cache */
    double compute = s->limits->cpu ? 2.0 * (double)(m * n * k) / bound_flops : flops / bound_flops,
           memory = operands / bound_bytes;
    return (compute > memory ? compute : memory) +
           (parts > 1 ? (double)(parts * m * n) * 8 / bound_bytes + bound_launch : 0);
}

static double bound_of(const struct call *call, const struct sizes *s)
{
    return !strcmp(call->kernel, "gemm") ? gemm_bound(call, s) : 0;
}

void choices_add(struct choices *list, const struct call *call)
{
    struct choice choice;
    if (list->n == CHOICES_LEGAL) return;
    if (!can_run(call, list->s) || !choice_of(call, list->s->before, &choice)) {
        list->refused++;
        return;
    }
    choice.bound = bound_of(call, list->s);
    for (int i = 0; i < list->n; i++)
        if (choice_same(&list->of[i], &choice)) return;
    list->of[list->n++] = choice;
}

uint32_t choices_part_rows(const struct choices *list, uint64_t parts, uint32_t unit)
{
    return (uint32_t)(divide_up(divide_up(bucket(list->s->max_rows), parts), unit) * unit);
}

/* ---- kernels of rows ---- */

enum { LOCAL_LEAST = 32, LOCAL_MOST = 1024, ROW_VALUES = 64 };

/* Every power of two that leaves a work-item no more of a row than its registers hold. */
static void add_local_sizes(struct choices *list, const struct call *sized, uint32_t least, uint32_t most)
{
    struct call call = *sized;
    uint32_t row = call_get(sized, CONST_N, 1);
    for (uint32_t local = least; local <= most; local *= 2) {
        call_set(&call, CONST_LOCAL_SIZE, local);
        if (row / local <= ROW_VALUES || local == most) choices_add(list, &call);
    }
}

static void list_rows(const struct call *sized, struct choices *list)
{
    add_local_sizes(list, sized, LOCAL_LEAST, LOCAL_MOST);
}

/* A row for each work-group, or for each team in it. */
static void list_norms(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    uint32_t row = call_get(sized, CONST_N, 1);
    for (uint32_t local = LOCAL_LEAST; local <= LOCAL_MOST; local *= 2)
        for (uint32_t team = LEAST_TEAM; team <= local; team *= 2) {
            if ((local > 256 && team < local) || (row / team > ROW_VALUES && team < LOCAL_MOST)) continue;
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TEAM, team);
            choices_add(list, &call);
        }
}

static void list_embed(const struct call *sized, struct choices *list)
{
    if (call_get(sized, CONST_NORM, 0))
        list_norms(sized, list);
    else
        list_rows(sized, list);
}

/* They look at no more than LOCAL_SIZE elements each. */
static void list_elements(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    for (uint32_t local = LOCAL_LEAST; local <= LOCAL_MOST; local *= 2) {
        call_set(&call, CONST_LOCAL_SIZE, local);
        choices_add(list, &call);
    }
}

/* Work-groups of one round of a GPU and multiples; a CPU's take turns. */
static uint64_t parts_at(const struct choices *list, int i)
{
    return (list->s->limits->cpu ? 4u : LARGE_GPU_UNITS / 2u) << i;
}
enum { PART_COUNTS = 5 };

static void list_layernorm_backward(const struct call *sized, struct choices *list)
{
    bool sums = call_get(sized, CONST_NORM_DW, 0) || call_get(sized, CONST_BIAS_SUM, BIAS_SUM_NONE) != BIAS_SUM_NONE;
    struct call call = *sized;
    uint64_t all = bucket(list->s->max_rows);
    for (int i = 0; i < PART_COUNTS; i++)
        for (uint32_t rows = 1; rows <= 4; rows *= 2) { /* at a time */
            uint64_t parts = sums ? parts_at(list, i) : divide_up(all, 1u << i);
            if (parts > divide_up(all, rows)) continue;
            call_set(&call, CONST_PARTS, (uint32_t)parts);
            call_set(&call, CONST_PART_ROWS, rows);
            add_local_sizes(list, &call, LOCAL_LEAST, 256);
        }
}

static void list_columns(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    for (int i = 0; i < PART_COUNTS; i++)
        for (uint32_t local = LOCAL_LEAST; local <= 256; local *= 2) {
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TILE_N, local * list->s->access);
            call_set(&call, CONST_PART_ROWS, choices_part_rows(list, parts_at(list, i), 8));
            choices_add(list, &call);
        }
}

static void list_reduce(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    for (uint32_t local = 64; local <= 256; local *= 2)
        for (uint32_t columns = 4; columns <= local; columns *= 2) {
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TILE_N, columns);
            choices_add(list, &call);
        }
}

static void list_scatter(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    bool parts = call_get(sized, CONST_COLUMN_SUMS, 0);
    for (int i = 0; i < (parts ? PART_COUNTS : 1); i++) {
        if (parts) call_set(&call, CONST_PART_ROWS, choices_part_rows(list, parts_at(list, i), 1));
        add_local_sizes(list, &call, 64, 256);
    }
}

/* Up to 32 loads of a work-item in flight; the kernel wants as many vectors in a tile as work-items. */
static void list_transpose(const struct call *sized, struct choices *list)
{
    struct call call = *sized;
    for (uint32_t m = 32; m <= 128; m *= 2)
        for (uint32_t n = 32; n <= 128; n *= 2)
            for (uint32_t local = LOCAL_LEAST; local <= 512; local *= 2) {
                if (local > m * n / list->s->vector || m * n / list->s->access / local > 32) continue;
                call_set(&call, CONST_LOCAL_SIZE, local);
                call_set(&call, CONST_TILE_M, m);
                call_set(&call, CONST_TILE_N, n);
                choices_add(list, &call);
            }
}

/* ---- products ---- */

static bool set_product(struct call *call, const struct sizes *s, uint32_t m, uint32_t n, uint32_t thread_m,
                        uint32_t thread_n, uint32_t vectors)
{
    uint32_t items = m / thread_m * (n / thread_n);
    if (items < LOCAL_LEAST / 2 || items > 512) return false;
    call_set(call, CONST_LOCAL_SIZE, items);
    call_set(call, CONST_TILE_M, m);
    call_set(call, CONST_TILE_N, n);
    call_set(call, CONST_TILE_K, vectors * s->vector);
    call_set(call, CONST_THREAD_M, thread_m);
    call_set(call, CONST_THREAD_N, thread_n);
    return true;
}

/* One tile, and for a weight's gradient its sum in parts, too: each of some hundred rows and whole stages. */
static void add_gemm(struct choices *list, struct call *call)
{
    enum { LEAST_ROWS = 256, MOST_PARTS = 8 };
    uint32_t tile_k = call_get(call, CONST_TILE_K, 1);
    uint64_t rows = bucket(list->s->max_rows),
             outputs = (uint64_t)call_get(call, CONST_M, 0) * call_get(call, CONST_N, 1);
    if (!is_gradient(call)) {
        call_sums_tiles(call);
        choices_add(list, call);
        return;
    }
    struct call whole = *call;
    choices_add(list, &whole);
    if (list->s->limits->cpu || call_writes_slice(call) || outputs > UINT32_MAX / MOST_PARTS) return;
    for (uint64_t parts = 2; parts <= MOST_PARTS && parts * LEAST_ROWS <= rows; parts++) {
        struct call divided = *call;
        call_set(&divided, CONST_PART_ROWS, choices_part_rows(list, parts, tile_k));
        choices_add(list, &divided);
    }
}

static void list_gemm(const struct call *sized, struct choices *list)
{
    static const struct {
        uint32_t m, n, thread_m, thread_n;
    } tiles[] = {{128, 128, 8, 8}, {128, 64, 8, 8}, {64, 128, 8, 8},  {128, 64, 8, 4},  {64, 128, 8, 4}, {64, 64, 8, 8},
                 {64, 64, 8, 4},   {64, 64, 4, 4},  {64, 32, 4, 4},   {32, 64, 4, 4},   {64, 32, 8, 4},  {32, 64, 8, 4},
                 {32, 32, 8, 8},   {32, 32, 4, 4},  {128, 256, 8, 8}, {256, 128, 8, 8}, {256, 64, 8, 8}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (uint32_t vectors = 2; vectors <= 8; vectors *= 2) {
            struct call call = *sized;
            if (set_product(&call, list->s, tiles[i].m, tiles[i].n, tiles[i].thread_m, tiles[i].thread_n, vectors))
                add_gemm(list, &call);
        }
}

/* The batch's tables give the rows, of scores the columns, too. */
static void list_bgemm(const struct call *sized, struct choices *list)
{
    bool scores = call_get(sized, CONST_BATCHED, BATCHED_SCORES) == BATCHED_SCORES;
    uint32_t m = call_get(sized, CONST_TILE_M, 1), columns = call_get(sized, CONST_TILE_N, 1);
    for (uint32_t n = scores ? columns : 32; n <= (scores ? columns : 128); n *= 2)
        for (uint32_t thread_m = 4; thread_m <= 8; thread_m *= 2)
            for (uint32_t thread_n = 4; thread_n <= 8; thread_n *= 2)
                for (uint32_t vectors = 2; vectors <= 8; vectors *= 2) {
                    struct call call = *sized;
                    if (set_product(&call, list->s, m, n, thread_m, thread_n, vectors)) choices_add(list, &call);
                }
}

/* ---- attention ---- */

/* All that tiles of m x n scores can be made of: TILE_N is a multiple of 4 * THREADS_N (cl/attention.h). */
static void add_attention(struct choices *list, const struct call *sized, uint32_t m, uint32_t n)
{
    for (uint32_t thread = 4; thread <= 8; thread *= 2)
        for (uint32_t others = n / 8; others <= n / 4; others *= 2)
            for (uint32_t tile_k = 16; tile_k <= 64; tile_k *= 2)
                for (uint32_t values = 16; values <= n; values *= 2) {
                    struct call call = *sized;
                    call_set(&call, CONST_LOCAL_SIZE, m / thread * others);
                    call_set(&call, CONST_TILE_M, m);
                    call_set(&call, CONST_TILE_N, n);
                    call_set(&call, CONST_TILE_K, tile_k);
                    call_set(&call, CONST_TILE_V, values);
                    call_set(&call, CONST_THREAD_M, thread);
                    choices_add(list, &call);
                }
}

static void list_attention(const struct call *sized, struct choices *list)
{
    for (uint32_t n = 32; n <= 64; n *= 2) add_attention(list, sized, call_get(sized, CONST_TILE_M, 1), n);
}

static void list_attention_backward(const struct call *sized, struct choices *list)
{
    for (uint32_t rows = 32; rows <= 64; rows *= 2)
        for (uint32_t parts = 1; parts <= 8 && parts <= divide_up(bucket(list->s->longest), rows); parts *= 2) {
            struct call call = *sized;
            call_set(&call, CONST_PARTS, parts);
            add_attention(list, &call, rows, rows);
        }
}

/* ---- the table ---- */

static const struct {
    const char *kernel;
    void (*list)(const struct call *sized, struct choices *list);
} kernel_lists[] = {
    {"attention", list_attention},
    {"attention_backward", list_attention_backward},
    {"attention_dq", list_elements},
    {"bgemm", list_bgemm},
    {"columns", list_columns},
    {"delta", list_elements},
    {"embed", list_embed},
    {"gemm", list_gemm},
    {"layernorm", list_norms},
    {"layernorm_backward", list_layernorm_backward},
    {"map", list_elements},
    {"pool", list_rows},
    {"pool_backward", list_rows},
    {"reduce", list_reduce},
    {"scatter", list_scatter},
    {"softmax", list_elements},
    {"softmax_backward", list_elements},
    {"transpose", list_transpose},
};

static void list_variant(const struct variant *variant, const struct call *call, const struct sizes *s,
                         struct choices *list)
{
    const char *refused;
    if (strcmp(variant->kernel, call->kernel) || !(s->limits->rungs & RUNG_BIT(variant->rung)) ||
        (call_fuses(call) && !variant->fuses) || !variant->fits(call, s, &refused))
        return;
    struct call sized = *call;
    sized.kernel = variant->name;
    variant->size(&sized, s);
    choices_add(list, &sized);
    if (variant->candidates) variant->candidates(&sized, s, list);
}

void choices_legal(const struct call *call, const struct sizes *s, struct choices *list)
{
    struct call base = *call;
    list->n = list->refused = 0;
    list->s = s;
    base.kernel = kernel_base(call->kernel);
    base.n_maps = 0;
    for (size_t i = 0; variant_at(i); i++) list_variant(variant_at(i), &base, s, list);
    if (call_fuses(&base)) return; /* the portable kernel does less */
    call_size(&base, s);
    for (size_t i = 0; i < sizeof kernel_lists / sizeof *kernel_lists; i++)
        if (!strcmp(base.kernel, kernel_lists[i].kernel)) kernel_lists[i].list(&base, list);
}

/* ---- pruning ---- */

/* Sizes in which they differ. */
static int choice_distance(const struct choice *a, const struct choice *b)
{
    int n = strcmp(a->kernel, b->kernel) ? CHOICE_SIZES : 0;
    for (int i = 0; i < a->n_sizes; i++) {
        bool same = false;
        for (int k = 0; k < b->n_sizes; k++)
            same |= a->sizes[i].id == b->sizes[k].id && a->sizes[i].value == b->sizes[k].value;
        n += !same;
    }
    return n;
}

/* Where in the list it belongs: a size more that differs counts as a twentieth of the time. */
static double choice_rank(const struct choice *choice, const struct choice *usual, double least)
{
    return (choice->bound > 0 ? choice->bound / least : 1) * (1 + 0.05 * choice_distance(choice, usual));
}

static void choices_sort(struct choices *list, const struct choice *usual, double least)
{
    for (int i = 1; i < list->n; i++) { /* few: by insertion, which keeps the order of equals */
        struct choice moving = list->of[i];
        double rank = choice_rank(&moving, usual, least);
        int at = i;
        for (; at > 0 && choice_rank(&list->of[at - 1], usual, least) > rank; at--) list->of[at] = list->of[at - 1];
        list->of[at] = moving;
    }
}

/* Moves those that are wanted to the front; returns how many. Both parts keep their order. */
static int choices_divide(struct choices *list, const bool *wanted, struct choice *rest)
{
    int n = 0, n_rest = 0;
    for (int i = 0; i < list->n; i++) {
        if (wanted[i])
            list->of[n++] = list->of[i];
        else
            rest[n_rest++] = list->of[i];
    }
    memcpy(&list->of[n], rest, (size_t)n_rest * sizeof *rest);
    return n;
}

/* The first of each kernel that is not the usual one: the table has its reasons. */
static void choices_thin(const struct choices *list, int n, const struct choice *usual, bool *wanted)
{
    enum { OF_OTHERS = 4 };
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int k = 0; k < i; k++) before += wanted[k] && !strcmp(list->of[k].kernel, list->of[i].kernel);
        wanted[i] = !strcmp(list->of[i].kernel, usual->kernel) || before < OF_OTHERS;
    }
}

int choices_prune(struct choices *list, const struct choice *usual, int most, bool all)
{
    const double factor = 2;
    int n = 0;
    double least = 0;
    bool wanted[CHOICES_LEGAL];
    struct choice rest[CHOICES_LEGAL];
    for (int i = 0; i < list->n; i++)
        if (list->of[i].bound > 0 && (!(least > 0) || list->of[i].bound < least)) least = list->of[i].bound;
    for (int i = 0; i < list->n; i++)
        if (!choice_same(&list->of[i], usual)) list->of[n++] = list->of[i];
    list->n = n;
    choices_sort(list, usual, least);
    for (int i = 0; i < n; i++) wanted[i] = !(list->of[i].bound > factor * least);
    list->kept = choices_divide(list, wanted, rest);
    memset(wanted, 0, sizeof wanted);
    choices_thin(list, list->kept, usual, wanted);
    list->kept = choices_divide(list, wanted, rest);
    if (list->kept > most) list->kept = most;
    if (!all) list->n = list->kept;
    return n - list->kept;
}
