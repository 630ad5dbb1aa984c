/* The bytes that kernels move, counted by an interpreter of OpenCL (oclgrind/traffic_plugin.cpp), against what the
 * library says of them: the different bytes of every group's tensors against Q, and all accesses against what
 * core/plan/traffic.c derives from the calls. Of every group of the three plans, in inference and training, in both
 * types.
 *
 * It runs under Oclgrind with the plugin: oclgrind/traffic.sh does that. Elsewhere it is skipped. */
#include "experts_support.h"
#include "interface/interface.h"
#include "plan/traffic.h"
#include "runtime/encode.h"
#include "runtime/session.h"
#include "runtime/train.h"
#include "support.h"

#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct shape {
    const char *name;
    uint32_t hidden, heads, feed_forward;
    wherry_activation activation;
    bool pre_layernorm;
    wherry_pool pool;
    int normalize;
    uint32_t lengths[8];
    uint32_t layers, window;
    float rotary_base; /* 0: positions by a table */
    float rotary_dynamic;
    uint32_t rotary_trained;  /* longer sequences have angles of their own */
    uint32_t experts, chosen; /* of the second layer */
    bool normalized;
};

/* The interpreter does some million instructions a second: the smallest shapes of test_groups. Between them they have
 * whole and broken vectors, several tiles and parts, tiles that end outside, and all kinds of pooling. */
// clang-format off
static const struct shape shapes[] = {
    {"tiny", 8, 1, 8, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1}, 1},
    {"odd", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MAX, 1, {5, 17, 1}, 1},
    {"unaligned", 9, 1, 7, WHERRY_ACTIVATION_GELU_TANH, true, WHERRY_POOL_POOLER, -1, {2, 31, 6}, 2},
    {"tiles", 48, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {70, 3}, 1},
    {"window", 16, 2, 24, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {70, 3}, 1, .window = 6},
    {"stretched", 16, 2, 24, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {20, 34, 3, 21}, 1,
     .rotary_base = 1000, .rotary_dynamic = 2, .rotary_trained = 20},
    {"turned", 18, 3, 7, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {9, 5, 1}, 1,
     .rotary_base = 10, .rotary_dynamic = 1.5f, .rotary_trained = 4},
    {"experts", 16, 2, 40, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {33, 3}, 2,
     .experts = 3, .chosen = 3, .rotary_base = 1000, .rotary_dynamic = 2, .rotary_trained = 20},
    {"mixture", 9, 1, 7, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_CLS, -1, {31, 9}, 2,
     .experts = 4, .chosen = 2, .normalized = true},
    {"channels", 48, 2, 72, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {70, 2}, 1},
};
// clang-format on
enum { SHAPES = sizeof shapes / sizeof *shapes, ODD = 1, WINDOW = 4, CHANNELS = SHAPES - 1 };

static const char *const plan_names[] = {"flash", "paper", "unfused"};

struct test_case {
    char name[96];
    const struct shape *shape;
    const char *plan;
    bool f16, train, channel_major;
};

static wherry_context *context;
static wherry_device *device; /* one for all, so that sessions share compiled kernels */
static FILE *log_file;
static uint32_t groups_checked;

/* ---- the plugin's lines ---- */

/* What was touched of tensors and of a group's own memory; the batch header and its tables are in none of them. */
struct moved {
    uint64_t unique_read, unique_written, read, written; /* of tensors */
    uint64_t scratch_unique_read, scratch_unique_written, scratch_read, scratch_written;
};

/* All lines since the last call, NULL at the end of memory or for a line that is no JSON. */
static json_t *log_lines(void)
{
    json_t *lines = json_array();
    clearerr(log_file);
    for (;;) {
        json_error_t error;
        json_t *line = json_loadf(log_file, JSON_DISABLE_EOF_CHECK, &error);
        if (!line) break;
        json_array_append_new(lines, line);
    }
    return lines;
}

static uint64_t number_at(const json_t *array, size_t i)
{
    return (uint64_t)json_integer_value(json_array_get(array, i));
}

/* Where the session's buffers lie in the interpreter's address space: they were made in the order of the blocks. */
static void find_blocks(const struct wherry_session *s, const json_t *lines, uint64_t *addresses)
{
    size_t i;
    json_t *line;
    int found = 0;
    json_array_foreach(lines, i, line)
    {
        const json_t *address = json_object_get(line, "allocated");
        if (!address || found == s->memory.n_blocks) continue;
        uint64_t bytes = (uint64_t)json_integer_value(json_object_get(line, "bytes"));
        assert_int_equal(bytes, s->memory.blocks[found].bytes);
        addresses[found++] = (uint64_t)json_integer_value(address);
    }
    assert_int_equal(found, s->memory.n_blocks);
}

/* The binding of the step that has this byte, -1: none. */
static int binding_of(const struct wherry_session *s, const struct step *step, const uint64_t *addresses, uint64_t at)
{
    for (int block = 0; block < s->memory.n_blocks; block++) {
        if (at < addresses[block] || at >= addresses[block] + s->memory.blocks[block].bytes) continue;
        for (int i = 0; i < step->n_bindings; i++) {
            const struct binding *b = &step->bindings[i];
            uint64_t offset = at - addresses[block];
            if (b->buffer == s->buffers[block] && offset >= b->offset && offset < b->offset + b->bytes) return i;
        }
    }
    return -1;
}

static bool add_launch(const struct wherry_session *s, int call, const json_t *line, const uint64_t *addresses,
                       struct moved *m)
{
    const struct step *step = &s->steps[call];
    size_t i;
    json_t *block;
    json_array_foreach(json_object_get(line, "blocks"), i, block)
    {
        int binding = binding_of(s, step, addresses, number_at(block, 0));
        if (binding < 0) {
            printf("    %s (%s) touches memory at %" PRIx64 " that it was not given\n", step->name, step->kernel,
                   number_at(block, 0));
            return false;
        }
        if (step->bindings[binding].slot == SLOT_BATCH) continue;
        if (step->call->arguments[binding - 1].tensor == TENSOR_SCRATCH) {
            /* Attention's backward pass also reads what it has written itself. */
            m->scratch_unique_read += step->bindings[binding].written ? 0 : number_at(block, 1);
            m->scratch_read += number_at(block, 2);
            m->scratch_unique_written += number_at(block, 3);
            m->scratch_written += number_at(block, 4);
        } else {
            m->unique_read += number_at(block, 1);
            m->read += number_at(block, 2);
            m->unique_written += number_at(block, 3);
            m->written += number_at(block, 4);
        }
    }
    return true;
}

/* ---- one group ---- */

static bool same(const struct test_case *c, const struct group *group, const struct call *call, const char *what,
                 uint64_t counted, uint64_t derived)
{
    char variant[64];
    if (counted == derived) return true;
    call_variant(call, variant);
    printf("    %s: %s (%s, %s): %s: counted %" PRIu64 ", derived %" PRIu64 "\n", c->name, group->name, call->kernel,
           variant, what, counted, derived);
    return false;
}

/* The same within so many bytes. */
static bool near(const struct test_case *c, const struct group *group, const struct call *call, const char *what,
                 uint64_t counted, uint64_t derived, uint64_t most)
{
    uint64_t apart = counted > derived ? counted - derived : derived - counted;
    return apart <= most || same(c, group, call, what, counted, derived);
}

/* The model of what comes from memory: Q in a cache that holds everything, and never less in a smaller one. */
static bool model_ordered(const struct test_case *c, const struct wherry_session *s, const struct batch_shape *shape,
                          const struct group *group, const struct call *calls, int n, uint64_t scratch)
{
    wherry_traffic last = {0}, t;
    bool ok = true;
    for (int bits = 40; bits >= 0; bits -= 4) {
        if (!call_traffic(&s->graph, shape, group, calls, n, s->f16, s->words, 1ull << bits, NULL, &t)) return false;
        if (bits == 40) {
            ok &= same(c, group, calls, "read in a cache without end", t.model_read, t.unique_read);
            ok &= same(c, group, calls, "written in a cache without end", t.model_written, t.unique_written + scratch);
        }
        ok &= t.model_read >= last.model_read && t.model_written >= last.model_written;
        last = t;
    }
    /* No cache at all: what is asked for, but for what repeats the last load of a row or part. */
    if (!call_traffic(&s->graph, shape, group, calls, n, s->f16, s->words, 0, NULL, &t)) return false;
    ok &= t.model_read >= last.model_read && t.model_read <= t.requested_read;
    ok &= t.model_written >= last.model_written && t.model_written <= t.requested_written;
    if (!ok) same(c, group, calls, "bytes from memory by cache sizes", t.model_read, t.requested_read);
    return ok;
}

/* The loads of work-items past a row's end repeat the last columns. Where nothing uses what they bring (rows that are
 * copied, not summed over), a compiler may leave them out, as LLVM does with 32-bit floats: then as many work-items
 * load as the row has vectors, their list of ids included. */
static bool loads_used(const struct call *call)
{
    bool rows =
        !strcmp(call->kernel, "embed") || !strcmp(call->kernel, "pool") || !strcmp(call->kernel, "pool_backward");
    return !rows || call_get(call, CONST_NORM, 0) || call_get(call, CONST_NORMALIZE, 0);
}

static uint64_t reads_inside(const struct wherry_session *s, const struct batch_shape *shape, const struct group *group,
                             const struct call *call)
{
    struct call narrow = *call;
    wherry_traffic t;
    uint32_t access = !call_get(call, CONST_ALIGNED, 0) ? 1 : s->f16 ? 8 : 4;
    call_set(&narrow, CONST_LOCAL_SIZE, call_get(call, CONST_N, 1) / access);
    call_traffic(&s->graph, shape, group, &narrow, 1, s->f16, s->words, 1, NULL, &t);
    return t.requested_read;
}

static bool check_group(const struct test_case *c, const struct wherry_session *s, const struct batch_shape *shape,
                        const struct group *group, const struct call *calls, int n, const struct moved *m)
{
    wherry_traffic t;
    bool ok = true;
    uint64_t q_read, q_written;
    group_bytes(&s->graph, shape, group, session_storage(s), &q_read, &q_written);
    if (!call_traffic(&s->graph, shape, group, calls, n, s->f16, s->words, 1 << 20, NULL, &t)) {
        printf("    %s: %s: no rule for one of its kernels (%s)\n", c->name, group->name, calls->kernel);
        return false;
    }
    ok &= same(c, group, calls, "different bytes read and Q", m->unique_read, q_read);
    ok &= same(c, group, calls, "different bytes written and Q", m->unique_written, q_written);
    ok &= same(c, group, calls, "different bytes read", m->unique_read, t.unique_read);
    ok &= same(c, group, calls, "different bytes written", m->unique_written, t.unique_written);
    if (loads_used(calls) || m->read != reads_inside(s, shape, group, calls))
        ok &= near(c, group, calls, "bytes asked for", m->read + m->scratch_read, t.requested_read,
                   experts_spread(calls, shape->tokens, session_storage(s), call_get(calls, CONST_TILE_M, 32),
                                  call_get(calls, CONST_TILE_N, 32), call_get(calls, CONST_LOCAL_SIZE, 64)));
    ok &= same(c, group, calls, "bytes stored", m->written + m->scratch_written, t.requested_written);
    ok &= same(c, group, calls, "different bytes", m->unique_read + m->unique_written + m->scratch_unique_written,
               t.footprint);
    ok &= same(c, group, calls, "scratch read of what is written", m->scratch_unique_read, m->scratch_unique_written);
    return ok & model_ordered(c, s, shape, group, calls, n, m->scratch_unique_written);
}

/* ---- one session ---- */

/* All calls' launches, the last lines of the log: those before are first launches on an empty batch. */
static uint32_t check_groups(const struct test_case *c, const struct wherry_session *s, const struct batch_shape *shape,
                             const json_t *lines, const uint64_t *addresses)
{
    size_t line = json_array_size(lines);
    uint32_t failed = 0;
    for (int i = 0; i < s->n_calls; i++) line -= s->grids[i].x && s->grids[i].y;
    for (int i = 0; i < s->n_calls;) {
        int first = i, group = s->call_groups[i];
        struct moved m = {0};
        bool ok = true;
        for (; i < s->n_calls && s->call_groups[i] == group; i++) {
            if (!s->grids[i].x || !s->grids[i].y) continue;
            const json_t *launch = json_array_get(lines, line++);
            const char *kernel = json_string_value(json_object_get(launch, "kernel"));
            assert_non_null(kernel);
            assert_string_equal(kernel, s->calls[i].kernel);
            ok &= add_launch(s, i, launch, addresses, &m);
        }
        ok = ok && check_group(c, s, shape, &s->groups[group], &s->calls[first], i - first, &m);
        failed += !ok;
        groups_checked++;
    }
    return failed;
}

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", c->name, wherry_status_name(status_), wherry_last_error(context));         \
    } while (0)

static void test_one(void **state)
{
    const struct test_case *c = *state;
    const struct shape *s = c->shape;
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = s->layers,
                                  .hidden = s->hidden,
                                  .heads = s->heads,
                                  .feed_forward = s->feed_forward,
                                  .vocabulary = 101,
                                  .positions = 80,
                                  .token_types = 2,
                                  .activation = s->activation,
                                  .pre_layernorm = s->pre_layernorm,
                                  .pooler = true,
                                  .window = s->window,
                                  .rotary_base = s->rotary_base,
                                  .rotary_dynamic = s->rotary_dynamic,
                                  .rotary_trained = s->rotary_trained,
                                  .experts = s->experts,
                                  .chosen_experts = s->chosen,
                                  .experts_every = s->experts ? 2 : 0,
                                  .experts_normalized = s->normalized,
                                  .epsilon = 1e-12f};
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch = support_batch(s->lengths, config.vocabulary, config.token_types, 1);
    uint32_t tokens = batch.offsets[batch.sequences];
    support_batch_spread(&batch, config.vocabulary, config.token_types);
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = tokens + 9, /* limits are not the batch's own size */
                                .max_sequences = batch.sequences + 2,
                                .dtype = c->f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32,
                                .plan = c->plan,
                                .pool = s->pool,
                                .normalize = s->normalize,
                                .keep_intermediates = true,
                                .kernels = "tiled", /* and not a library's */
                                .layouts = c->channel_major ? "w_lin2=ui,active=ubj" : NULL};
    const wherry_training_desc training = {.struct_size = sizeof training,
                                           .dropout = 0.1f,
                                           .save =
                                               c->channel_major ? WHERRY_SAVE_LEAST : (wherry_save)((s - shapes) % 4)};
    if (c->train) desc.training = &training;
    /* Copies of weights, in a plan of plain products. */
    if (c->train && !strcmp(c->plan, "paper")) desc.layouts = "w_qkv=qhpi+iqhp,w_out=ihp+hpi,w_lin1=ui+iu,w_lin2=ui+iu";
    json_decref(log_lines());
    EXPECT_OK(wherry_session_create(context, device, model, &desc, &session));
    EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
    struct batch_shape shape;
    struct error *e = context_error(context);
    bool ok = session_batch(session, &batch, &shape, e) && session_random_inputs(session, &shape, e) &&
              session_run(session, &shape, WHERRY_PHASE_ALL, -1, -1, NULL, e);
    if (!ok) fail_msg("%s: %s", c->name, e->text);
    json_t *lines = log_lines();
    uint64_t *addresses = calloc((size_t)session->memory.n_blocks, sizeof *addresses);
    find_blocks(session, lines, addresses);
    assert_int_equal(check_groups(c, session, &shape, lines, addresses), 0);
    free(addresses);
    json_decref(lines);
    wherry_session_destroy(session);
    wherry_model_close(model);
    support_batch_free(&batch);
}

int main(void)
{
    const char *log = getenv("WHERRY_TRAFFIC_LOG"), *given = getenv("WHERRY_TEST_SHAPES");
    bool few = getenv("WHERRY_TEST_FEW") != NULL;
    if (!log || !(log_file = fopen(log, "a+"))) {
        printf("skipped: runs under Oclgrind with the plugin that counts bytes (tests/oclgrind/traffic.sh)\n");
        return 77;
    }
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    char devices[SUPPORT_MAX_DEVICES][64];
    if (wherry_context_create(&desc, &context) || !support_devices(context, devices) ||
        wherry_device_open(context, devices[0], &device))
        return 1;
    device->probed = true; /* what is counted is the session's own */
    enum { MOST = SHAPES * 3 * 8 };
    static struct test_case cases[MOST];
    static struct CMUnitTest tests[MOST];
    size_t n = 0;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t p = 0; p < 3; p++)
            for (int kind = 0; kind < 8; kind++) {
                struct test_case *c = &cases[n];
                bool f16 = kind % 2, train = kind % 4 >= 2, channel_major = kind >= 4;
                if (given && !strstr(given, shapes[s].name)) continue;
                /* A batch of whole vectors of tokens, and one where there are no vectors. */
                if (s == WINDOW && (p == 1 || channel_major)) continue; /* its kernels are those of the other plans */
                if (channel_major ? p || (s != CHANNELS && s != ODD) : s == CHANNELS) continue;
                /* Of mixtures, and of angles by length, the kernels are few. */
                if (few && p && (shapes[s].experts || shapes[s].rotary_trained)) continue;
                /* Training, which has inference's kernels, too, and of the types one. */
                if (few && (!train || f16 != (p == 0))) continue;
                c->shape = &shapes[s];
                c->plan = plan_names[p];
                c->f16 = f16;
                c->train = train;
                c->channel_major = channel_major;
                snprintf(c->name, sizeof c->name, "%s %s %s%s%s", c->shape->name, c->plan, c->f16 ? "f16" : "f32",
                         c->train ? " training" : "", c->channel_major ? " channel-major" : "");
                tests[n++] = (struct CMUnitTest){c->name, test_one, NULL, NULL, c};
            }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n ? _cmocka_run_group_tests("traffic", tests, n, NULL, NULL) : 1;
    printf("%u groups' bytes counted\n", groups_checked);
    fclose(log_file);
    wherry_device_close(device);
    wherry_context_destroy(context);
    return failed != 0;
}
