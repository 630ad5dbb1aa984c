/* Whole training steps: gradients equal PyTorch's (tests/golden/training), in every plan, type, device and saving
 * policy; a batch gives the sum of what its sequences give alone; two runs give the same bits.
 *
 *   test_training [CASE...]    only these golden files */
#include "support.h"
#include "wherry/wherry.h"

#include "model/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The golden files, and what CPU drivers take of them, which compile for seconds where a GPU takes all: a plan and its
 * type a word, in each of which a file is run as it is; and of the rest, in the plan flash and its type, all policies
 * of saving ("saves"), the products of Q, K and V apart ("apart"), weights in other orders ("transposed", "copied",
 * "interleaved"), each sequence alone ("packed"). The graph is the same on all, and test_groups has each kernel on each
 * API. */
static const struct golden_file {
    const char *name, *opencl, *vulkan;
} files[] = {
    // clang-format off
    {"post-relu-dropout",   "",                             ""},
    {"post-gelu",           "flash-f16 packed interleaved", "flash-f32 packed"},
    {"pre-gelu-dropout",    "flash-f32",                    ""},
    {"pre-relu",            "",                             "paper-f16"},
    {"post-gelu-dropout-4", "",                             "flash-f16 copied"},
    {"model-mean",          "",                             ""},
    {"model-pooler",        "flash-f32 transposed",         ""},
    {"model-pre-max-unit",  "",                             ""},
    {"model-relative",      "",                             ""},
    // clang-format on
};
enum { FILES = sizeof files / sizeof *files };
static const char *const plan_names[] = {"flash", "paper", "unfused"};
static const char *const save_names[] = {"default", "paper", "all", "least"};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

struct test_case {
    char name[112];
    const char *golden, *device, *plan;
    wherry_dtype dtype;
    wherry_save save;
    uint32_t qkv_products;
    const char *layouts;
};

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s", wherry_status_name(status_), wherry_last_error(context));                      \
    } while (0)

/* ---- a golden file ---- */

struct golden {
    struct safetensors file;
    wherry_model_config config;
    bool stack, normalize;
    wherry_pool pool;
    float dropout;
    uint64_t model_seed, seed;
    uint32_t step;
    wherry_batch batch;
};

static const struct safetensors_tensor *need(const struct golden *g, const char *name)
{
    const struct safetensors_tensor *t = safetensors_find(&g->file, name);
    if (!t) fail_msg("the golden file lacks %s", name);
    return t;
}

static void read_values(const struct golden *g, const struct safetensors_tensor *t, void *out, size_t bytes)
{
    struct error e = {0};
    if (!safetensors_read(&g->file, t, 0, bytes, out, &e)) fail_msg("%s", e.text);
}

static void copy_values(const struct golden *g, const char *name, void *out, size_t bytes)
{
    const struct safetensors_tensor *t = need(g, name);
    assert_true(t->bytes >= bytes);
    read_values(g, t, out, bytes);
}

static float *floats(const struct golden *g, const char *name, size_t *count)
{
    const struct safetensors_tensor *t = need(g, name);
    float *values = malloc(t->bytes ? t->bytes : 1);
    assert_string_equal(t->dtype, "F32");
    read_values(g, t, values, t->bytes);
    *count = t->bytes / 4;
    return values;
}

static void *words(const struct golden *g, const char *name)
{
    const struct safetensors_tensor *t = need(g, name);
    void *values = malloc(t->bytes);
    read_values(g, t, values, t->bytes);
    return values;
}

static void golden_open(const char *name, struct golden *g)
{
    char path[1024];
    struct error e = {0};
    int32_t config[14] = {0}; /* the last two are there where there is a bias by distance */
    float scalars[2];
    int64_t seeds[3];
    memset(g, 0, sizeof *g);
    snprintf(path, sizeof path, "%s/../golden/training/%s.safetensors", TEST_DATA, name);
    if (!safetensors_open(&support_host, path, &g->file, &e)) fail_msg("%s", e.text);
    size_t config_bytes = need(g, "config")->bytes;
    copy_values(g, "config", config, config_bytes < sizeof config ? config_bytes : sizeof config);
    copy_values(g, "scalars", scalars, sizeof scalars);
    copy_values(g, "seeds", seeds, sizeof seeds);
    g->config = (wherry_model_config){.struct_size = sizeof g->config,
                                      .layers = (uint32_t)config[0],
                                      .hidden = (uint32_t)config[1],
                                      .heads = (uint32_t)config[2],
                                      .feed_forward = (uint32_t)config[3],
                                      .vocabulary = (uint32_t)config[4],
                                      .positions = (uint32_t)config[5],
                                      .token_types = (uint32_t)config[6],
                                      .activation = (wherry_activation)config[7],
                                      .pre_layernorm = config[8],
                                      .pooler = config[9],
                                      .relative_buckets = (uint32_t)config[12],
                                      .relative_distance = (uint32_t)config[13],
                                      .epsilon = scalars[0]};
    g->pool = (wherry_pool)config[10];
    g->normalize = config[11];
    g->dropout = scalars[1];
    g->model_seed = (uint64_t)seeds[0];
    g->seed = (uint64_t)seeds[1];
    g->step = (uint32_t)seeds[2];
    g->stack = safetensors_find(&g->file, "x") != NULL;
    g->batch = (wherry_batch){.struct_size = sizeof g->batch,
                              .sequences = (uint32_t)(need(g, "offsets")->bytes / 4 - 1),
                              .offsets = words(g, "offsets")};
    if (!g->stack) {
        g->batch.ids = words(g, "ids");
        g->batch.types = words(g, "types");
    }
}

static void golden_close(struct golden *g)
{
    free((void *)g->batch.offsets);
    free((void *)g->batch.ids);
    free((void *)g->batch.types);
    safetensors_close(&support_host, &g->file);
}

/* ---- a session for it ---- */

struct trainer {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

static void trainer_open(const struct golden *g, const struct test_case *c, float dropout, struct trainer *t)
{
    const wherry_training_desc training = {.struct_size = sizeof training,
                                           .dropout = dropout,
                                           .save = c->save,
                                           .stack = g->stack,
                                           .qkv_products = c->qkv_products};
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = g->batch.offsets[g->batch.sequences] + 5,
                                .max_sequences = g->batch.sequences + 1,
                                .dtype = c->dtype,
                                .plan = c->plan,
                                .pool = g->pool,
                                .normalize = g->normalize ? 1 : -1,
                                .training = &training,
                                .kernels = support_kernels(c->device),
                                .layouts = c->layouts};
    EXPECT_OK(wherry_device_open(context, c->device, &t->device));
    EXPECT_OK(wherry_model_create_random(context, &g->config, g->model_seed, &t->model));
    EXPECT_OK(wherry_session_create(context, t->device, t->model, &desc, &t->session));
}

static void trainer_close(struct trainer *t)
{
    wherry_session_destroy(t->session);
    wherry_model_close(t->model);
    wherry_device_close(t->device);
}

/* Relative error in the root of the sums of squares. */
static double difference(const float *got, const float *want, size_t count)
{
    double d = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        d += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return size > 0 ? sqrt(d / size) : sqrt(d);
}

static void expect_near(const char *what, const float *got, const float *want, size_t count, double tolerance)
{
    double error = difference(got, want, count);
    if (!(error <= tolerance)) fail_msg("%s: relative error %.3g, at most %.3g", what, error, tolerance);
}

static void test_golden(void **state)
{
    const struct test_case *c = *state;
    struct golden g;
    struct trainer t;
    size_t n_y, n_dy, n_x = 0;
    double tolerance = c->dtype == WHERRY_DTYPE_F16 ? 5e-3 : 1e-5;
    golden_open(c->golden, &g);
    trainer_open(&g, c, g.dropout, &t);
    float *y = floats(&g, "y", &n_y), *dy = floats(&g, "dy", &n_dy), *x = g.stack ? floats(&g, "x", &n_x) : NULL;
    float *out = malloc(n_y * sizeof *out), *dx = malloc((n_x + 1) * sizeof *dx);
    const wherry_step step = {.struct_size = sizeof step, .seed = g.seed, .step = g.step};
    EXPECT_OK(wherry_forward(t.session, &g.batch, x, &step, out, n_y));
    expect_near("y", out, y, n_y, tolerance);
    EXPECT_OK(wherry_backward(t.session, dy, n_dy, g.stack ? dx : NULL, n_x));
    if (g.stack) {
        size_t n;
        float *want = floats(&g, "dx", &n);
        expect_near("dx", dx, want, n, tolerance);
        free(want);
    }
    size_t gradients = wherry_gradient_count(t.session);
    assert_true(gradients >= 12 * g.config.layers);
    for (size_t i = 0; i < gradients; i++) {
        wherry_gradient info = {.struct_size = sizeof info};
        char name[64];
        size_t n;
        EXPECT_OK(wherry_gradient_describe(t.session, i, &info));
        if (strstr(info.name, "w_lin1")) assert_string_equal(info.dims, "ui"); /* the model's, however it lies */
        snprintf(name, sizeof name, "d.%s", info.name);
        float *want = floats(&g, name, &n), *got = malloc(n * sizeof *got);
        assert_int_equal(info.elements, n);
        EXPECT_OK(wherry_gradient_read(t.session, i, got, n));
        expect_near(name, got, want, n, tolerance);
        free(want);
        free(got);
    }
    free(y);
    free(dy);
    free(x);
    free(out);
    free(dx);
    trainer_close(&t);
    golden_close(&g);
}

/* ---- one batch, and its sequences alone ---- */

static size_t gradient_floats(const wherry_session *session)
{
    size_t n = 0;
    for (size_t i = 0; i < wherry_gradient_count(session); i++) {
        wherry_gradient info = {.struct_size = sizeof info};
        EXPECT_OK(wherry_gradient_describe(session, i, &info));
        n += info.elements;
    }
    return n;
}

/* All gradients, back to back. */
static void gradients_read(wherry_session *session, float *out)
{
    for (size_t i = 0; i < wherry_gradient_count(session); i++) {
        wherry_gradient info = {.struct_size = sizeof info};
        EXPECT_OK(wherry_gradient_describe(session, i, &info));
        EXPECT_OK(wherry_gradient_read(session, i, out, info.elements));
        out += info.elements;
    }
}

static void test_packed(void **state)
{
    const struct test_case *c = *state;
    struct golden g;
    struct trainer t;
    size_t n, hidden;
    golden_open(c->golden, &g);
    trainer_open(&g, c, 0, &t);
    float *x = floats(&g, "x", &n), *dy = floats(&g, "dy", &n);
    hidden = g.config.hidden;
    size_t count = gradient_floats(t.session);
    float *packed = malloc(count * sizeof *packed), *alone = malloc(count * sizeof *alone),
          *sum = calloc(count, sizeof *sum), *dx = malloc(n * sizeof *dx), *dx_alone = malloc(n * sizeof *dx_alone),
          *again = malloc(count * sizeof *again);
    EXPECT_OK(wherry_forward(t.session, &g.batch, x, NULL, NULL, 0));
    EXPECT_OK(wherry_backward(t.session, dy, n, dx, n));
    gradients_read(t.session, packed);
    EXPECT_OK(wherry_forward(t.session, &g.batch, x, NULL, NULL, 0));
    EXPECT_OK(wherry_backward(t.session, dy, n, dx_alone, n));
    gradients_read(t.session, again);
    assert_memory_equal(packed, again, count * sizeof *packed); /* the same bits */
    assert_memory_equal(dx, dx_alone, n * sizeof *dx);
    for (uint32_t s = 0; s < g.batch.sequences; s++) {
        uint32_t first = g.batch.offsets[s], length = g.batch.offsets[s + 1] - first, offsets[] = {0, length};
        const wherry_batch one = {.struct_size = sizeof one, .sequences = 1, .offsets = offsets};
        EXPECT_OK(wherry_forward(t.session, &one, x + first * hidden, NULL, NULL, 0));
        EXPECT_OK(wherry_backward(t.session, dy + first * hidden, length * hidden, dx_alone + first * hidden,
                                  length * hidden));
        gradients_read(t.session, alone);
        for (size_t i = 0; i < count; i++) sum[i] += alone[i];
    }
    assert_memory_equal(dx, dx_alone, n * sizeof *dx); /* a sequence's own gradient does not depend on the others */
    expect_near("gradients", packed, sum, count, c->dtype == WHERRY_DTYPE_F16 ? 2e-3 : 1e-6);
    free(x);
    free(dy);
    free(packed);
    free(alone);
    free(sum);
    free(dx);
    free(dx_alone);
    free(again);
    trainer_close(&t);
    golden_close(&g);
}

/* ---- what is refused ---- */

static void test_misuse(void **state)
{
    const struct test_case *c = *state;
    struct golden g;
    struct trainer t;
    size_t n;
    golden_open(c->golden, &g);
    trainer_open(&g, c, g.dropout, &t);
    float *x = floats(&g, "x", &n), *out = malloc(n * sizeof *out);
    assert_int_equal(wherry_encode(t.session, &g.batch, out, n), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_backward(t.session, x, n, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_gradient_read(t.session, 0, out, n), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_forward(t.session, &g.batch, NULL, NULL, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
    EXPECT_OK(wherry_forward(t.session, &g.batch, x, NULL, out, n));
    assert_int_equal(wherry_backward(t.session, x, n - 1, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_backward(t.session, x, n, out, n - 1), WHERRY_STATUS_INVALID_ARGUMENT);
    EXPECT_OK(wherry_backward(t.session, x, n, out, n));
    assert_int_equal(wherry_backward(t.session, x, n, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT); /* twice */
    assert_int_equal(wherry_gradient_read(t.session, 999, out, n), WHERRY_STATUS_INVALID_ARGUMENT);
    x[3] = NAN;
    assert_int_equal(wherry_forward(t.session, &g.batch, x, NULL, out, n), WHERRY_STATUS_INVALID_ARGUMENT);
    const wherry_training_desc bad = {.struct_size = sizeof bad, .dropout = 1};
    const wherry_session_desc desc = {.struct_size = sizeof desc, .training = &bad};
    wherry_session *session;
    assert_int_equal(wherry_session_create(context, t.device, t.model, &desc, &session),
                     WHERRY_STATUS_INVALID_ARGUMENT);
    free(x);
    free(out);
    trainer_close(&t);
    golden_close(&g);
}

/* ---- all of them ---- */

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name)) return true;
    return argc < 2;
}

static struct test_case cases[SUPPORT_MAX_DEVICES * 8 * 3 * 2 * 6];
static struct CMUnitTest tests[sizeof cases / sizeof *cases];
static size_t n_tests;

static struct test_case *add(CMUnitTestFunction function, const char *kind, const char *golden, const char *device,
                             const char *plan, wherry_dtype dtype, wherry_save save)
{
    struct test_case *c = &cases[n_tests];
    *c = (struct test_case){.golden = golden, .device = device, .plan = plan, .dtype = dtype, .save = save};
    snprintf(c->name, sizeof c->name, "%s %s %s %s %s %s", kind, device, golden, plan,
             dtype == WHERRY_DTYPE_F16 ? "f16" : "f32", save_names[save]);
    tests[n_tests++] = (struct CMUnitTest){c->name, function, NULL, NULL, c};
    return c;
}

/* Whether a device runs a file in a plan and a type, or what else a word names; NULL takes all. */
static bool takes(const char *words, const char *word) { return !words || support_has_word(words, word); }

/* The products of Q, K and V in two and in three, also with the weight transposed, which CPU drivers leave out. */
static void add_apart(const char *name, const char *device, const char *plan, wherry_dtype type, bool all)
{
    for (uint32_t products = 2; products <= 3; products++) {
        add(test_golden, products == 2 ? "golden-qk" : "golden-q-k-v", name, device, plan, type, WHERRY_SAVE_DEFAULT)
            ->qkv_products = products;
        if (!all) continue;
        struct test_case *c = add(test_golden, products == 2 ? "transposed-qk" : "transposed-q-k-v", name, device, plan,
                                  type, WHERRY_SAVE_DEFAULT);
        c->qkv_products = products;
        c->layouts = "w_qkv=iqhp";
    }
}

/* Weights in other orders: what is given and read back stays as it was. */
static const struct {
    const char *word, *file, *layouts;
} orders[] = {
    {"transposed", "post-gelu-dropout-4", "w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui"},
    {"transposed", "model-pooler", "qkv=bjhqp,w_qkv=ihqp,w_out=hpi,w_lin1=iu,w_lin2=ui,w_pooler=io"},
    {"copied", "post-gelu-dropout-4", "w_qkv=qhpi+iqhp,w_out=hpi+ihp,w_lin1=ui+iu,w_lin2=ui+iu"},
    {"interleaved", "post-gelu", "qkv=bjhqp"},
};

static void add_one(const char *name, const char *device, const char *plan, wherry_dtype type, const char *words)
{
    bool plain = !words || !strcmp(plan, "flash");
    wherry_save last = plain && takes(words, "saves") ? WHERRY_SAVE_LEAST : WHERRY_SAVE_DEFAULT;
    for (wherry_save save = WHERRY_SAVE_DEFAULT; save <= last; save++)
        add(test_golden, "golden", name, device, plan, type, save);
    if (!plain) return;
    if (!strcmp(name, files[0].name) && takes(words, "apart")) add_apart(name, device, plan, type, !words);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char kind[32];
        if (strcmp(orders[i].file, name) || !takes(words, orders[i].word)) continue;
        snprintf(kind, sizeof kind, "golden-%s", orders[i].word);
        add(test_golden, kind, name, device, plan, type, WHERRY_SAVE_DEFAULT)->layouts = orders[i].layouts;
    }
    if (!strcmp(name, "post-gelu") && takes(words, "packed"))
        add(test_packed, "packed", name, device, plan, type, WHERRY_SAVE_DEFAULT);
}

static void add_file(const struct golden_file *file, const char *device, const char *words)
{
    bool reference = !strcmp(device, "reference"); /* its plans run the same operators */
    for (size_t p = 0; p < (reference ? 1 : 3); p++)
        for (wherry_dtype type = WHERRY_DTYPE_F32; type <= WHERRY_DTYPE_F16; type++) {
            char word[32];
            snprintf(word, sizeof word, "%s-%s", plan_names[p], type == WHERRY_DTYPE_F16 ? "f16" : "f32");
            if (type == WHERRY_DTYPE_F16 && !support_has_f16(context, device)) continue;
            if (takes(words, word)) add_one(file->name, device, plan_names[p], type, words);
        }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t f = 0; f < FILES; f++) puts(files[f].name);
        puts("misuse");
        return 0;
    }
    if (!(context = support_context(support_log, devices, &n_devices))) return 1;
    for (size_t d = 0; d < n_devices; d++) {
        bool all = support_is_gpu(context, devices[d]) || argc > 1 || !strcmp(devices[d], "reference") ||
                   !strcmp(devices[d], "cpu"); /* which compiles nothing */
        bool opencl = !strncmp(devices[d], "opencl", 6);
        for (size_t f = 0; f < FILES; f++)
            if (wanted(files[f].name, argc, argv))
                add_file(&files[f], devices[d], all ? NULL : opencl ? files[f].opencl : files[f].vulkan);
        if (wanted("misuse", argc, argv))
            add(test_misuse, "misuse", files[0].name, devices[d], "flash",
                opencl || !support_has_f16(context, devices[d]) ? WHERRY_DTYPE_F32 : WHERRY_DTYPE_F16,
                WHERRY_SAVE_DEFAULT);
    }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n_tests ? _cmocka_run_group_tests("training", tests, n_tests, NULL, NULL) : 1;
    if (!n_tests) fprintf(stderr, "no device or no such case\n");
    wherry_context_destroy(context);
    return failed != 0;
}
