/* Every group of every plan, of inference and of training's forward and backward pass, on every device and in both
 * types, against the double reference: at tiny, odd, unaligned and real shapes, with guard zones around every tensor
 * and the same bits when replayed.
 *
 * Where a device has several ways to compute products (plan/variants.h), each of them. The same with weights that lie
 * transposed, all at once, and on one shape each alone, and with weights in both orders.
 *
 *   test_groups [SHAPE...]    only these shapes, by name; the environment variable WHERRY_TEST_SHAPES does the same;
 *                             WHERRY_TEST_NAMES: only cases whose names have these words in this order ("flash f16")
 *   test_groups --list        the names of the shapes */
#include "plan/variants.h"
#include "runtime/context.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
    uint32_t layers; /* 0 (left out): 1 */
    uint32_t tokens; /* that the session is for, which sizes follow from; 0: few more than the batch has */
    bool train;      /* CPU drivers train it, too */
    unsigned plans;  /* that CPU drivers take, a bit each; 0: all. test_golden has a model of the real size, and single
                        operators are at broken vectors in "odd", too */
    bool gpu; /* on GPUs only, unless named: CPU drivers compile for seconds, and smaller shapes take the same ways */
};

enum { FLASH = 1, PAPER = 2 };

// clang-format off
static const struct shape shapes[] = {
    {"tiny", 8, 1, 8, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1}},
    {"small", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {3, 1, 7}, 2, .gpu = true},
    {"odd", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MAX, -1, {5, 17, 1}, .train = true},
    {"unaligned", 9, 1, 7, WHERRY_ACTIVATION_GELU_TANH, true, WHERRY_POOL_POOLER, -1, {2, 31, 6}, 2, .train = true, .plans = FLASH | PAPER},
    {"unaligned-heads", 20, 5, 35, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_MEAN, 1, {33, 4}, 2, .gpu = true},
    {"head-32", 64, 2, 128, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_NONE, -1, {64, 65, 1}, 2, .gpu = true},
    {"head-40", 80, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_POOLER, 1, {130, 3}, .gpu = true},
    {"head-64", 128, 2, 256, WHERRY_ACTIVATION_GELU_TANH, false, WHERRY_POOL_MEAN, 1, {63, 129, 64}, .gpu = true},
    {"head-72", 72, 1, 40, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_NONE, 1, {100}, .gpu = true},
    {"head-96", 192, 2, 384, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {66, 31}, .gpu = true},
    {"head-120", 120, 1, 96, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_MAX, 1, {90, 2}, 2, .gpu = true},
    {"head-128", 256, 2, 264, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {70, 128}, .gpu = true},
    {"many-short", 16, 2, 24, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1, 1, 1, 2, 1, 1, 3}, .gpu = true},
    {"minilm", 384, 12, 1536, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {250, 1, 128, 33}, .plans = FLASH},
    {"bert-base", 768, 12, 3072, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_POOLER, -1, {77, 20}, .gpu = true},
    {"bert-large", 1024, 16, 4096, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {65, 30}, .gpu = true},
    {"roomy", 128, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {63, 129}, .tokens = 8448, .gpu = true},
};
// clang-format on

static const char *const plan_names[] = {"flash", "paper", "unfused"};

/* How tensors lie: as the model has them; all weights transposed; each by itself; Q, K and V of a head side by side;
 * all weights in both orders, the model's first, and the other first; the channels of the hidden activations outside.
 */
static const struct {
    const char *name, *orders;
    const char *pooler; /* where there is one */
} layouts[] = {
    {NULL, NULL, NULL},
    {"turned", "w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui", ",w_pooler=io"},
    {"w_qkv=iqhp", "w_qkv=iqhp", ""},
    {"w_out=hpi", "w_out=hpi", ""},
    {"w_lin1=iu", "w_lin1=iu", ""},
    {"w_lin2=ui", "w_lin2=ui", ""},
    {"qkv=bjhqp", "qkv=bjhqp", ""},
    {"copied", "w_qkv=qhpi+iqhp,w_out=ihp+hpi,w_lin1=ui+iu,w_lin2=iu+ui", ",w_pooler=oi+io"},
    {"turned-copied", "qkv=bjhqp,w_qkv=ihqp+hqpi,w_out=hpi+ihp,w_lin1=iu+ui,w_lin2=ui+iu", ",w_pooler=io+oi"},
    {"w_lin2=ui,active=ubj", "w_lin2=ui,active=ubj", ""},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, ALL_TURNED = 1, HEADS_WHOLE = 6, COPIED = 7, CHANNELS = 9 };

struct test_case {
    char name[160];
    char device[64];
    const char *plan;
    wherry_dtype dtype;
    const struct shape *shape;
    const char *gemm;  /* NULL: as the library chooses */
    char layouts[128]; /* "": as the model has them */
    bool train;
};

static wherry_context *context;
static uint32_t groups_checked;

static bool print_failures(const wherry_verify_result *r, void *user)
{
    const struct test_case *c = user;
    support_print_failure(c->name, r);
    return true;
}

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status result_ = (call);                                                                                \
        if (result_) fail_msg("%s: %s: %s", c->name, wherry_status_name(result_), wherry_last_error(context));         \
    } while (0)

static void test_one(void **state)
{
    const struct test_case *c = *state;
    const struct shape *s = c->shape;
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = s->layers && !getenv("WHERRY_TEST_FEW") ? s->layers : 1,
                                  .hidden = s->hidden,
                                  .heads = s->heads,
                                  .feed_forward = s->feed_forward,
                                  .vocabulary = 101,
                                  .positions = 512,
                                  .token_types = 2,
                                  .activation = s->activation,
                                  .pre_layernorm = s->pre_layernorm,
                                  .pooler = true,
                                  .epsilon = 1e-12f};
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch = support_batch(s->lengths, config.vocabulary, config.token_types, 1);
    EXPECT_OK(wherry_device_open(context, c->device, &device));
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
    uint32_t most = batch.offsets[batch.sequences] + 9; /* limits are not the batch's own size */
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = s->tokens ? s->tokens : most,
                                .max_sequences = batch.sequences + 2,
                                .dtype = c->dtype,
                                .plan = c->plan,
                                .pool = s->pool,
                                .normalize = s->normalize,
                                .keep_intermediates = true,
                                .gemm = c->gemm,
                                .layouts = *c->layouts ? c->layouts : NULL};
    /* Shapes take turns in what is saved, so that every policy meets every kernel. */
    const wherry_training_desc training = {
        .struct_size = sizeof training, .dropout = 0.1f, .save = (wherry_save)((s - shapes) % 4)};
    if (c->train) desc.training = &training;
    wherry_status status = wherry_session_create(context, device, model, &desc, &session);
    if (c->gemm && strcmp(c->gemm, "tiled") && s->hidden % 4 && status == WHERRY_STATUS_UNSUPPORTED) {
        /* Rows that begin on no multiple of eight bytes are no tensor core's. */
        assert_non_null(strstr(wherry_last_error(context), "none of its kernels fits"));
    } else {
        EXPECT_OK(status);
        EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
        wherry_verify_summary summary = {.struct_size = sizeof summary};
        EXPECT_OK(wherry_verify(session, &batch, 2, print_failures, (void *)c, &summary));
        assert_true(summary.groups > 0);
        groups_checked += summary.groups;
        wherry_session_destroy(session);
    }
    wherry_model_close(model);
    wherry_device_close(device);
    support_batch_free(&batch);
}

/* By default: everything on a GPU. CPU drivers take training instead of inference where a shape says so, because it has
 * inference's kernels, too, and of the types each driver takes the one that the other does not; interpreters (`few`)
 * take some combinations only. */
static bool usual(const struct shape *s, size_t plan, bool f16, bool train, bool gpu, bool slow, bool few)
{
    if (gpu) return true;
    if (s->gpu || s->train != train || (!few && s->plans && !(s->plans & 1u << plan))) return false;
    if (!few) return ((size_t)(s - shapes) + plan + f16 + slow) % 2;
    if (!train) return f16 == (plan == 0) && plan != 2;
    return s->layers ? plan == 2 && f16 : plan != 2 && f16 == (plan == 0);
}

/* With the channels outside, in the only plan that has it: training everywhere, which has inference's kernels, too; on
 * CPU drivers of one layer. */
static bool usual_channels(const struct shape *s, size_t plan, bool f16, bool train, bool gpu, bool slow, bool few)
{
    return plan == 0 && (gpu || (s->train && train && s->layers < 2)) &&
           usual(s, plan, f16, gpu ? train : s->train, gpu, slow, few);
}

/* With weights transposed or in both orders: combinations that are there without, so that on CPU drivers products alone
 * are compiled anew; one weight alone has on them the kernels of all. Plain products are those of one plan, and
 * training has inference's. Copies take each type through one of the APIs in the one plan, through the other in the
 * other. */
static bool usual_turned(const struct shape *s, size_t layout, size_t plan, bool f16, bool train, bool gpu, bool slow,
                         bool few)
{
    if (layout == CHANNELS) return usual_channels(s, plan, f16, train, gpu, slow, few);
    if (!usual(s, plan, f16, train, gpu, slow, few)) return false;
    if (few && layout != COPIED) return false;
    if (layout >= COPIED) return (gpu || (s->train && s->layers < 2)) && train && plan == layout - COPIED;
    if (layout > ALL_TURNED) return (gpu || layout == HEADS_WHOLE) && s->train && s->layers < 2 && train && plan == 0;
    if (gpu) return train ? plan != 1 : plan == 0;
    return train && plan == 2 && s->layers < 2; /* copies have their products in the others */
}

/* WHERRY_TEST_FEW, for interpreters: of the shapes named few combinations, and one layer. */
static bool wanted(const struct shape *s, bool usually, int argc, char **argv)
{
    char list[512];
    const char *given = getenv("WHERRY_TEST_SHAPES"), *shape = s->name;
    if (argc < 2 && !given) return usually;
    if (getenv("WHERRY_TEST_FEW") && !usually) return false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], shape)) return true;
    if (!given) return false;
    snprintf(list, sizeof list, " %s ", given);
    char name[64];
    snprintf(name, sizeof name, " %s ", shape);
    return strstr(list, name) != NULL;
}

/* What else computes products there than what is chosen: the highest of several is, but on a CPU the lowest. NULL: no
 * more. */
static void lower_rungs(const char *id, const char *rungs[RUNG_COUNT])
{
    wherry_device *device;
    int n = 0, highest = RUNG_COUNT - 1;
    memset(rungs, 0, RUNG_COUNT * sizeof *rungs);
    if (wherry_device_open(context, id, &device)) return;
    uint32_t has = device->backend->limits(device->handle)->rungs;
    bool cpu = device->backend->limits(device->handle)->cpu;
    wherry_device_close(device);
    while (highest > 0 && !(has & RUNG_BIT(highest))) highest--;
    for (int r = cpu ? 1 : 0; r < highest + cpu; r++)
        if (has & RUNG_BIT(r)) rungs[n++] = rung_name((enum rung)r);
}

int main(int argc, char **argv)
{
    char devices[SUPPORT_MAX_DEVICES][64];
    size_t n_devices, n = 0;
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) puts(shapes[s].name);
        return 0;
    }
    if (!(context = support_context(support_log, devices, &n_devices))) return 1;
    size_t most = n_devices * (sizeof shapes / sizeof *shapes) * 3 * 4 * LAYOUTS * RUNG_COUNT;
    struct test_case *cases = calloc(most + 1, sizeof *cases);
    struct CMUnitTest *tests = calloc(most + 1, sizeof *tests);
    for (size_t d = 0; d < n_devices; d++) {
        bool few = getenv("WHERRY_TEST_FEW"), gpu = support_is_gpu(context, devices[d]) && !few;
        const char *rungs[RUNG_COUNT];
        lower_rungs(devices[d], rungs);
        bool slow = !gpu && !strncmp(devices[d], "opencl", 6);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t p = 0; p < 3; p++)
                for (size_t kind = 0; kind < 4 * LAYOUTS; kind++) {
                    bool f16 = kind % 2, train = kind % 4 >= 2;
                    size_t layout = kind / 4;
                    bool usually = layout ? usual_turned(&shapes[s], layout, p, f16, train, gpu, slow, few)
                                          : usual(&shapes[s], p, f16, train, gpu, slow, few);
                    if (!wanted(&shapes[s], usually, argc, argv) || (layout > ALL_TURNED && !usually)) continue;
                    for (int g = 0; g < RUNG_COUNT; g++) {
                        const char *gemm = g ? rungs[g - 1] : NULL;
                        if (g && (!gemm || !f16 || p)) continue; /* what is forced has kernels in the plan flash */
                        struct test_case *c = &cases[n];
                        memset(c, 0, sizeof *c); /* a case that was not wanted may have been here */
                        c->plan = plan_names[p];
                        c->dtype = f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
                        c->shape = &shapes[s];
                        c->train = train;
                        c->gemm = gemm;
                        if (layout)
                            snprintf(c->layouts, sizeof c->layouts, "%s%s", layouts[layout].orders,
                                     shapes[s].pool == WHERRY_POOL_POOLER ? layouts[layout].pooler : "");
                        snprintf(c->device, sizeof c->device, "%s", devices[d]);
                        snprintf(c->name, sizeof c->name, "%s %s %s %s%s%s%s%s%s", c->device, c->shape->name, c->plan,
                                 f16 ? "f16" : "f32", train ? " training" : "", gemm ? " " : "", gemm ? gemm : "",
                                 layout ? " " : "", layout ? layouts[layout].name : "");
                        const char *words = getenv("WHERRY_TEST_NAMES");
                        if (words && !strstr(c->name, words)) continue;
                        tests[n++] = (struct CMUnitTest){c->name, test_one, NULL, NULL, c};
                    }
                }
    }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n ? _cmocka_run_group_tests("groups", tests, n, NULL, NULL) : 1;
    printf("%u groups checked on %zu devices\n", groups_checked, n_devices);
    if (!n) fprintf(stderr, "no device or no such shape\n");
    free(cases);
    free(tests);
    wherry_context_destroy(context);
    return failed != 0;
}
