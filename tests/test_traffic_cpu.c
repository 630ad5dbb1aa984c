/* The bytes that the host's kernels move, counted as they run, against what their rules say
 * (backends/cpu/kernels/traffic.h): a second build of the kernels calls a function for each load and store
 * (tests/counted). Of every group of the three plans, in inference and training, of every instruction set that this
 * processor has; by all threads, and by one.
 *
 * What an item asks for is each byte of its operands once, but those it wrote itself; what all items touch together is
 * what comes from memory into a cache without end. */
#ifndef COUNTED_SETS

#include <stdio.h>

int main(void)
{
    printf("skipped: this compiler does not call a function for each load and store\n");
    return 77;
}

#else

#include "backends/cpu/cpu.h"
#include "counted/touch.h"
#include "experts_support.h"
#include "interface/interface.h"
#include "runtime/calls.h"
#include "runtime/encode.h"
#include "runtime/train.h"
#include "support.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct shape {
    const char *name;
    uint32_t hidden, heads, feed_forward;
    wherry_activation activation;
    bool pre_layernorm;
    wherry_pool pool;
    int normalize;
    uint32_t lengths[8];
    uint32_t layers;
    const char *layouts;        /* NULL: as they lie by themselves */
    uint32_t buckets, distance; /* of a bias by distance; 0 and 0: none */
    uint32_t window;
    bool causal, alibi;
    float rotary_base; /* 0: positions by a table */
    float rotary_dynamic;
    uint32_t rotary_trained;  /* longer sequences have angles of their own */
    uint32_t experts, chosen; /* of the second layer */
    bool normalized;
};

/* Between them they have whole and broken vectors, rows of one item and of several, several tiles, blocks and parts in
 * both directions, sums in pieces, and all kinds of pooling. */
// clang-format off
static const struct shape shapes[] = {
    {"tiny", 8, 1, 8, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1}, 1, NULL},
    {"odd", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MAX, 1, {5, 17, 1}, 1, NULL},
    {"unaligned", 9, 1, 7, WHERRY_ACTIVATION_GELU_TANH, true, WHERRY_POOL_POOLER, -1, {2, 31, 6}, 2, NULL},
    {"tiles", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {70, 3}, 1, NULL},
    {"channels", 48, 2, 72, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {70, 2}, 1, "w_lin2=ui,active=ubj"},
    {"distances", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {70, 3, 1}, 1, NULL, 8, 20},
    {"window", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {130, 3, 70}, 1, NULL,
     .window = 9, .alibi = true},
    {"causal", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {130, 3, 70}, 1, NULL, .causal = true},
    {"blocks", 144, 2, 392, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_MEAN, 1, {130, 3, 67}, 1, NULL},
    {"stretched", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {20, 70, 3, 21}, 1, NULL,
     .rotary_base = 1000, .rotary_dynamic = 2, .rotary_trained = 20},
    {"experts", 48, 2, 200, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {70, 3}, 2, NULL,
     .experts = 3, .chosen = 3},
    {"mixture", 48, 2, 72, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_CLS, -1, {130, 3}, 2, NULL,
     .experts = 4, .chosen = 2, .normalized = true},
};
// clang-format on
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char *const plan_names[] = {"flash", "paper", "unfused"};

struct test_case {
    char name[96];
    const struct shape *shape;
    const char *plan, *isa;
    bool train, bf16;
    uint32_t threads; /* 0: all */
};

/* ---- what is touched ---- */

enum { REGIONS = 128 };

/* Memory that kernels may touch: a block of the session's, or a weight in panels. Per word, the last item and the last
 * group that read or wrote it. */
struct region {
    const char *at;
    size_t bytes;
    bool packed;
    uint32_t *item_read, *item_written, *group_read, *group_written;
};

struct bytes {
    uint64_t read, written;
};

static struct {
    struct region regions[REGIONS];
    size_t n_regions;
    const struct call *call;       /* NULL: nothing is counted */
    const struct cpu_step *step;   /* while an item of it runs */
    uint32_t item, group;          /* the number of each so far */
    struct bytes asked;            /* by all items */
    struct bytes tensors, scratch; /* different bytes of a group */
    uint64_t packed;
    uint64_t strays; /* accesses of what the step was not given */
} counted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool counting; /* this thread runs an item */

static void region_add(const void *at, size_t bytes, bool packed)
{
    assert_true(counted.n_regions < REGIONS);
    struct region *r = &counted.regions[counted.n_regions++];
    *r = (struct region){.at = at, .bytes = bytes, .packed = packed};
    uint32_t **lists[] = {&r->item_read, &r->item_written, &r->group_read, &r->group_written};
    for (size_t i = 0; i < 4; i++) assert_non_null(*lists[i] = calloc(bytes / 4 + 1, sizeof **lists[i]));
}

static void regions_free(void)
{
    for (size_t i = 0; i < counted.n_regions; i++) {
        struct region *r = &counted.regions[i];
        uint32_t *lists[] = {r->item_read, r->item_written, r->group_read, r->group_written};
        for (size_t k = 0; k < 4; k++) free(lists[k]);
    }
    memset(&counted, 0, sizeof counted);
}

static struct region *region_of(const char *at)
{
    static size_t last;
    for (size_t i = 0; i < counted.n_regions; i++) {
        struct region *r = &counted.regions[(last + i) % counted.n_regions];
        if (at < r->at || at >= r->at + r->bytes) continue;
        last = (last + i) % counted.n_regions;
        return r;
    }
    return NULL;
}

/* The argument that has the byte, -1: none. */
static int slot_of(const char *at)
{
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        const char *first = (const char *)counted.step->at[slot];
        if (first && at >= first && at < first + counted.step->room[slot] * sizeof(float)) return slot;
    }
    return -1;
}

static bool is_scratch(int slot)
{
    for (int i = 0; i < counted.call->n_arguments; i++)
        if (counted.call->arguments[i].slot == slot) return counted.call->arguments[i].tensor == TENSOR_SCRATCH;
    return false;
}

/* A table's row counts for each token that names it. */
static bool is_table(int slot)
{
    return !strcmp(counted.call->kernel, "embed") && (slot == SLOT_WORD || slot == SLOT_POSITION || slot == SLOT_TYPE);
}

static void touch_word(struct region *r, size_t word, int slot, bool written)
{
    struct bytes *group = slot >= 0 && is_scratch(slot) ? &counted.scratch : &counted.tensors;
    if (written) {
        counted.asked.written += r->item_written[word] == counted.item ? 0 : 4;
        group->written += r->group_written[word] == counted.group ? 0 : 4;
        r->item_written[word] = counted.item;
        r->group_written[word] = counted.group;
        return;
    }
    if (r->item_written[word] == counted.item) return;
    counted.asked.read += r->item_read[word] == counted.item && !is_table(slot) ? 0 : 4;
    if (r->group_read[word] != counted.group) *(r->packed ? &counted.packed : &group->read) += 4;
    r->item_read[word] = counted.item;
    r->group_read[word] = counted.group;
}

void touch(const void *at, size_t bytes, bool written)
{
    struct region *r = counting ? region_of(at) : NULL;
    if (!r || !bytes) return;
    int slot = r->packed ? -1 : slot_of(at), end = r->packed ? -1 : slot_of((const char *)at + bytes - 1);
    size_t from = (size_t)((const char *)at - r->at);
    if (slot == SLOT_BATCH) return;
    counted.strays += slot != end || (slot < 0 && !r->packed) || (r->packed && written) || from % 4 || bytes % 4;
    for (size_t word = from / 4; word < (from + bytes) / 4; word++) touch_word(r, word, slot, written);
}

/* ---- the kernels, an item at a time ---- */

#define X(isa) extern const struct cpu_kernels cpu_kernels_counted_##isa;
COUNTED_SETS
#undef X
#define X(isa) {#isa, &cpu_kernels_counted_##isa},
static const struct {
    const char *isa;
    const struct cpu_kernels *kernels;
} sets[] = {COUNTED_SETS};
#undef X
enum { SETS = sizeof sets / sizeof *sets, KERNELS = 64 };

struct wrapped {
    struct cpu_kernel kernel; /* the first member: what steps point to */
    const struct cpu_kernel *inner;
};
static struct wrapped wrapped[SETS][KERNELS];
static const struct cpu_kernel *lists[SETS][KERNELS + 1];
static struct cpu_kernels tables[SETS];

static void run_counted(const struct cpu_step *s, size_t item, float *scratch)
{
    const struct wrapped *w = (const struct wrapped *)(const void *)s->how;
    pthread_mutex_lock(&lock);
    counted.step = counted.call ? s : NULL;
    counted.item++;
    if (counted.step && s->packed && !region_of((const char *)s->packed)) {
        size_t panels;
        region_add(s->packed, s->how->packed(s, &panels), true);
    }
    counting = counted.step != NULL;
    w->inner->run(s, item, scratch);
    counting = false;
    pthread_mutex_unlock(&lock);
}

static const struct cpu_kernels *kernels_of(const char *isa)
{
    for (size_t set = 0; set < SETS; set++) {
        if (strcmp(sets[set].isa, isa)) continue;
        for (size_t i = 0; sets[set].kernels->kernels[i]; i++) {
            assert_true(i < KERNELS);
            wrapped[set][i] = (struct wrapped){*sets[set].kernels->kernels[i], sets[set].kernels->kernels[i]};
            wrapped[set][i].kernel.run = run_counted;
            lists[set][i] = &wrapped[set][i].kernel;
        }
        tables[set] = (struct cpu_kernels){isa, lists[set]};
        return &tables[set];
    }
    fail_msg("no set %s", isa);
    return NULL;
}

/* ---- one group ---- */

static uint32_t groups_checked, groups_packed;

static bool same(const struct test_case *c, const struct group *group, const struct call *call, const char *what,
                 uint64_t seen, uint64_t derived)
{
    if (seen == derived) return true;
    printf("    %s: %s (%s): %s: counted %" PRIu64 ", derived %" PRIu64 "\n", c->name, group->name, call->kernel, what,
           seen, derived);
    return false;
}

static bool check_group(const struct test_case *c, const struct wherry_session *s, const struct batch_shape *shape,
                        int index)
{
    const struct group *group = &s->groups[index];
    const struct call *call = &s->calls[group_first_call(s, index)];
    wherry_traffic all, none, last = {0}, t;
    bool ok = session_traffic(s, shape, index, UINT64_MAX, &all) && session_traffic(s, shape, index, 0, &none);
    if (!ok) {
        printf("    %s: %s: no rule for one of its kernels (%s)\n", c->name, group->name, call->kernel);
        return false;
    }
    ok &= same(c, group, call, "accesses of other memory", counted.strays, 0);
    uint64_t asked = counted.asked.read, derived = none.requested_read;
    if ((asked > derived ? asked - derived : derived - asked) > experts_spread(call, shape->tokens, 4, 64, 32, 1))
        ok = same(c, group, call, "bytes asked for", asked, derived) && false;
    ok &= same(c, group, call, "bytes written by items", counted.asked.written, none.requested_written);
    ok &= same(c, group, call, "different bytes read", counted.tensors.read + counted.packed, all.model_read);
    ok &= same(c, group, call, "different bytes written", counted.tensors.written + counted.scratch.written,
               all.model_written);
    if (!counted.packed)
        ok &= same(c, group, call, "different bytes read and Q", counted.tensors.read, all.unique_read);
    ok &= same(c, group, call, "different bytes written and Q", counted.tensors.written, all.unique_written);
    ok &= same(c, group, call, "scratch read of what is written", counted.scratch.read, counted.scratch.written);
    /* Which rows of tables are the same is the batch's affair. */
    if (strcmp(call->kernel, "embed"))
        ok &= same(c, group, call, "bytes from memory without a cache", none.model_read, none.requested_read);
    ok &= same(c, group, call, "bytes to memory without a cache", none.model_written, none.requested_written);
    for (int bits = 40; bits >= 0; bits -= 2) {
        ok &= session_traffic(s, shape, index, 1ull << bits, &t);
        if (t.model_read < last.model_read || t.model_written < last.model_written || t.model_read > none.model_read)
            ok = same(c, group, call, "bytes from memory by cache sizes", t.model_read, last.model_read) && false;
        last = t;
    }
    groups_packed += counted.packed > 0;
    groups_checked++;
    return ok;
}

static bool count_group(struct wherry_session *s, const struct batch_shape *shape, int index, struct error *e)
{
    const struct backend *backend = s->device->backend;
    counted.group++;
    counted.asked = counted.tensors = counted.scratch = (struct bytes){0};
    counted.packed = counted.strays = 0;
    for (int i = group_first_call(s, index); i < s->n_calls && s->call_groups[i] == index; i++) {
        const struct run run = {.grids = s->grids, .batch = shape, .first = i, .end = i + 1};
        counted.call = &s->calls[i];
        bool ok = backend->program_run(s->device->handle, s->program, &run, e);
        counted.call = NULL;
        if (!ok) return false;
    }
    return true;
}

/* ---- one session ---- */

static wherry_context *context;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", c->name, wherry_status_name(status_), wherry_last_error(context));         \
    } while (0)

static void check_session(const struct test_case *c, wherry_session *session, const wherry_batch *batch)
{
    struct batch_shape shape;
    struct error *e = context_error(context);
    uint32_t failed = 0;
    bool ok = session_batch(session, batch, &shape, e) && session_random_inputs(session, &shape, e) &&
              session_run(session, &shape, WHERRY_PHASE_ALL, -1, -1, NULL, e);
    if (!ok) fail_msg("%s: %s", c->name, e->text);
    for (int i = 0; i < session->memory.n_blocks; i++)
        region_add(session->buffers[i]->data, (size_t)session->buffers[i]->bytes, false);
    for (int i = 0; i < session->n_groups; i++) {
        if (!count_group(session, &shape, i, e)) fail_msg("%s: %s", c->name, e->text);
        failed += !check_group(c, session, &shape, i);
    }
    regions_free();
    assert_int_equal(failed, 0);
}

static void test_one(void **state)
{
    const struct test_case *c = *state;
    const struct shape *s = c->shape;
    const wherry_context_desc context_desc = {
        .struct_size = sizeof context_desc, .cache_dir = "", .threads = c->threads};
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = s->layers,
                                  .hidden = s->hidden,
                                  .heads = s->heads,
                                  .feed_forward = s->feed_forward,
                                  .vocabulary = 401,
                                  .positions = 140,
                                  .token_types = 2,
                                  .activation = s->activation,
                                  .pre_layernorm = s->pre_layernorm,
                                  .pooler = true,
                                  .relative_buckets = s->buckets,
                                  .relative_distance = s->distance,
                                  .window = s->window,
                                  .causal = s->causal,
                                  .alibi = s->alibi,
                                  .rotary_base = s->rotary_base,
                                  .rotary_dynamic = s->rotary_dynamic,
                                  .rotary_trained = s->rotary_trained,
                                  .experts = s->experts,
                                  .chosen_experts = s->chosen,
                                  .experts_every = s->experts ? 2 : 0,
                                  .experts_normalized = s->normalized,
                                  .epsilon = 1e-12f};
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch = support_batch(s->lengths, config.vocabulary, config.token_types, 1);
    uint32_t tokens = batch.offsets[batch.sequences];
    support_batch_spread(&batch, config.vocabulary, config.token_types);
    EXPECT_OK(wherry_context_create(&context_desc, &context));
    EXPECT_OK(wherry_device_open(context, "cpu", &device));
    device->handle->kernels = kernels_of(c->bf16 ? "avx512" : c->isa);
    if (c->bf16) device->handle->bf16 = kernels_of(c->isa);
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
    const wherry_training_desc training = {
        .struct_size = sizeof training, .dropout = 0.1f, .save = (wherry_save)((s - shapes) % 4)};
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = tokens + 9, /* limits are not the batch's own size */
                                      .max_sequences = batch.sequences + 2,
                                      .plan = c->plan,
                                      .pool = s->pool,
                                      .normalize = s->normalize,
                                      .keep_intermediates = true,
                                      .dtype = c->bf16 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F32,
                                      .training = c->train ? &training : NULL,
                                      /* Copies of weights, in a plan of plain products. */
                                      .layouts = c->train && !strcmp(c->plan, "paper") && !s->layouts
                                                     ? "w_qkv=qhpi+iqhp,w_out=ihp+hpi,w_lin1=ui+iu,w_lin2=ui+iu"
                                                     : s->layouts};
    EXPECT_OK(wherry_session_create(context, device, model, &desc, &session));
    EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
    check_session(c, session, &batch);
    wherry_session_destroy(session);
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
    support_batch_free(&batch);
}

/* Sets are listed from the least to the best. */
static bool has_set(size_t set)
{
    const char *best = cpu_kernels_choose()->isa;
    while (set < SETS && strcmp(sets[set].isa, best)) set++;
    return set < SETS;
}

/* Of those that multiply in bf16 the one whose loads are the compiler's. */
static bool has_bf16(size_t set) { return !strcmp(sets[set].isa, "avx512bf16") && cpu_bf16_choose(); }

int main(void)
{
    enum { MOST = SETS * SHAPES * 3 * 4 };
    static struct test_case cases[MOST];
    static struct CMUnitTest tests[MOST];
    size_t n = 0;
    for (size_t i = 0; i < MOST; i++) {
        struct test_case *c = &cases[n];
        size_t set = i / (SHAPES * 12), shape = i / 12 % SHAPES, plan = i / 4 % 3;
        bool bf16 = has_bf16(set);
        if (!has_set(set) && !bf16) continue;
        if (bf16 && (i % 4 >= 2 || shapes[shape].layouts)) continue; /* it neither trains nor has channel-major rows */
        if (shapes[shape].layouts && plan) continue;                 /* the default plan's */
        if (shapes[shape].buckets && plan) continue; /* what softmax reads of the table depends on the row */
        if (shapes[shape].experts && plan) continue; /* its kernels are the same in all plans */
        if (i % 2 && set) continue;                  /* work is divided alike in all sets */
        *c = (struct test_case){.shape = &shapes[shape],
                                .plan = plan_names[plan],
                                .isa = sets[set].isa,
                                .train = i % 4 >= 2,
                                .bf16 = bf16,
                                .threads = i % 2};
        snprintf(c->name, sizeof c->name, "%s %s %s%s%s", c->isa, c->shape->name, c->plan, c->train ? " training" : "",
                 c->threads ? " one thread" : "");
        tests[n++] = (struct CMUnitTest){c->name, test_one, NULL, NULL, c};
    }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = _cmocka_run_group_tests("traffic_cpu", tests, n, NULL, NULL);
    printf("%u groups' bytes counted, %u of them with weights in panels\n", groups_checked, groups_packed);
    return failed != 0 || !groups_packed;
}

#endif
