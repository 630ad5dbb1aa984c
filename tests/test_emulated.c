/* The kernels for NVIDIA's GPUs where there is none: all groups of both passes against the double reference on the
 * emulated GPU of tests/emulator, whose OpenCL driver the library takes for NVIDIA's. So what is tested is the whole
 * way from the choice of a kernel to its arguments, tensor maps and patched text. Skipped without that driver or its
 * compiler.
 *
 *   test_emulated [PART...]   only the cases with all these words in their names; "all" is in every one;
 *                             WHERRY_TEST_SHARE=2/3: the second of three shares of them */
#include "interface/interface.h"
#include "plan/variants.h"
#include "runtime/context.h"
#include "runtime/session.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Widths that no tile divides, heads of both sizes, and more tiles than the emulated GPU has multiprocessors; "rows"
 * has the width of small models of sentences, of which a tile holds whole rows, "parts" so many tokens that gradients
 * of weights are sums in parts. */
static const struct shape {
    const char *name;
    uint32_t hidden, heads, feed_forward;
    wherry_activation activation;
    bool pre_layernorm;
    uint32_t lengths[5];
    bool normalizes; /* wgmma's products their results */
    bool parts;
    uint32_t buckets, distance; /* of a bias by distance; 0 and 0: none */
    bool words;                 /* weights of the vocabulary's words, in inference */
    bool masked;                /* the loss of a masked language model, whose last strip of words is no multiple of 8 */
    uint32_t labelled;          /* tokens with a label, at most, whose scores are kept then; 0: all */
    wherry_gate gate;           /* and then with rotary positions */
    bool int8;                  /* weights of 8 bits, in inference */
    wherry_norm norm;
    uint32_t without; /* WHERRY_WITHOUT_* */
    bool head_norms;
    float far; /* is added to all words' vectors */
    bool causal, alibi;
    uint32_t window, key_heads;
    uint32_t experts, chosen; /* of the second layer */
} shapes[] = {
    {"heads-64", 192, 3, 264, WHERRY_ACTIVATION_GELU, false, {1, 70, 33, 130}},
    {"heads-32", 96, 3, 136, WHERRY_ACTIVATION_GELU_TANH, true, {33, 1, 70}},
    {"tiles", 320, 5, 1032, WHERRY_ACTIVATION_RELU, true, {130, 1, 257, 64}},
    {"long", 64, 1, 72, WHERRY_ACTIVATION_GELU, false, {700, 3}, true},
    {"rows", 384, 12, 136, WHERRY_ACTIVATION_GELU, false, {130, 1, 257, 70}, true},
    {"few", 128, 2, 256, WHERRY_ACTIVATION_GELU, false, {1, 20, 7}},
    {"parts", 64, 1, 72, WHERRY_ACTIVATION_RELU, false, {515, 517, 516, 512}, true, true},
    {"distances", 128, 2, 72, WHERRY_ACTIVATION_RELU, false, {1, 300, 70}, true, .buckets = 32, .distance = 128},
    {"distances-32", 96, 3, 72, WHERRY_ACTIVATION_RELU, false, {33, 1, 70}, .buckets = 8, .distance = 20},
    {"words", 192, 3, 72, WHERRY_ACTIVATION_GELU, false, {1, 300, 33, 130}, .words = true},
    {"words-64", 72, 1, 72, WHERRY_ACTIVATION_GELU, false, {1, 64, 33}, .words = true},
    {"words-32", 72, 1, 72, WHERRY_ACTIVATION_GELU, false, {1, 30, 17}, .words = true},
    {"heads-128", 256, 2, 136, WHERRY_ACTIVATION_GELU, false, {70, 128}, true},
    {"edges-128", 256, 2, 72, WHERRY_ACTIVATION_RELU, false, {127, 129, 1, 300}, true, .buckets = 8, .distance = 128},
    {"window-128", 256, 2, 72, WHERRY_ACTIVATION_RELU, false, {1, 300, 129}, true, .window = 33, .alibi = true},
    {"grouped-128", 256, 2, 72, WHERRY_ACTIVATION_RELU, false, {128, 129, 300}, true, .causal = true, .key_heads = 1},
    {"window", 128, 2, 72, WHERRY_ACTIVATION_RELU, false, {1, 300, 130}, true, .window = 33},
    {"window-32", 64, 2, 72, WHERRY_ACTIVATION_RELU, false, {70, 9, 330}, true, .window = 8, .alibi = true},
    {"causal", 128, 2, 72, WHERRY_ACTIVATION_RELU, false, {129, 1, 200}, true, .causal = true},
    {"grouped", 128, 2, 72, WHERRY_ACTIVATION_RELU, false, {129, 1, 200}, true, .causal = true, .key_heads = 1},
    {"window-long", 64, 1, 72, WHERRY_ACTIVATION_RELU, false, {700, 3}, .gate = WHERRY_GATE_SECOND, .window = 64},
    {"window-few", 64, 2, 72, WHERRY_ACTIVATION_RELU, false, {9, 70, 100}, true, .window = 8, .alibi = true},
    {"masked", 64, 1, 72, WHERRY_ACTIVATION_GELU_TANH, true, {200, 90}, .masked = true},
    {"masked-kept", 64, 1, 72, WHERRY_ACTIVATION_GELU, false, {100, 40}, .masked = true, .labelled = 48},
    {"gated", 96, 3, 136, WHERRY_ACTIVATION_SILU, false, {33, 1, 70}, .gate = WHERRY_GATE_SECOND},
    {"gated-tiles", 320, 5, 520, WHERRY_ACTIVATION_GELU, true, {130, 1, 257, 64}, .gate = WHERRY_GATE_FIRST},
    /* Of rows, columns and weights' gradients tiles of 64 and 128, and of 256 columns. */
    {"mixture", 72, 1, 264, WHERRY_ACTIVATION_GELU, false, {300, 1, 130}, .experts = 4, .chosen = 2},
    {"mixture-wide", 256, 4, 128, WHERRY_ACTIVATION_RELU, false, {100, 71}, .experts = 3, .chosen = 1},
    /* Norms of which gammas go into the weights of products: before gates and rotary positions, before norms of heads,
     * and before products that are plain. Of "folded-far" rows are 100 from 0, and deviate by about 1. */
    {"folded", 192, 3, 264, WHERRY_ACTIVATION_GELU, true, {1, 70, 33, 130}, .gate = WHERRY_GATE_FIRST, .without = 31},
    {"folded-rms",
     128,
     2,
     264,
     WHERRY_ACTIVATION_SILU,
     true,
     {33, 1, 170},
     .gate = WHERRY_GATE_SECOND,
     .without = 15,
     .norm = WHERRY_NORM_RMS,
     .head_norms = true,
     .key_heads = 1,
     .causal = true},
    {"folded-one", 320, 5, 136, WHERRY_ACTIVATION_GELU, true, {33, 1, 70}, .norm = WHERRY_NORM_RMS_ONE},
    {"folded-far", 256, 4, 136, WHERRY_ACTIVATION_GELU, true, {33, 1, 70}, .without = 16 | 64, .far = 100},
    /* Rows that gates read begin on no multiple of 16 bytes: what gates, and what makes slopes, are other kernels. */
    {"gated-odd", 96, 3, 75, WHERRY_ACTIVATION_GELU_TANH, false, {33, 1, 70}, .gate = WHERRY_GATE_FIRST},
    {"int8", 96, 3, 136, WHERRY_ACTIVATION_GELU, false, {33, 1, 70}, .gate = WHERRY_GATE_SECOND, .int8 = true},
};

static const char *const plan_names[] = {"flash", "paper", "unfused"};

/* How tensors lie, and the word for it in a case's name: Q, K and V of a head side by side, the feed-forward's hidden
 * activations in rows of tokens, which the plan "flash" alone runs. */
static const char *const orders[][2] = {{"", NULL},
                                        {" transposed", "w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui"},
                                        {" heads", "qkv=bjhqp"},
                                        {" both", "qkv=bjhqp,w_qkv=ihqp,w_out=hpi,w_lin1=iu,w_lin2=ui"},
                                        {" channels", "active=ubj,w_lin2=ui"}};
enum { ORDERS = sizeof orders / sizeof *orders, CHANNELS = ORDERS - 1 };

struct test_case {
    char name[96];
    const struct shape *shape;
    const char *plan, *gemm; /* gemm: NULL: as the library chooses */
    const char *layouts;
    bool train, bf16;
    wherry_save save;
};

enum { SPARE_TOKENS = 9 }; /* limits are not the batch's own size */

static wherry_context *context;
static char device_id[64];
static uint32_t groups_of_rung, groups_normalized;

/* The group's kernel is one of those that are tested; some normalize what their product gives. */
static bool judge(const wherry_verify_result *r, void *user)
{
    const struct test_case *c = user;
    const struct variant *variant = variant_find(r->kernel);
    groups_of_rung += variant && (!c->gemm || !strcmp(rung_name(variant->rung), c->gemm));
    groups_normalized += strstr(r->name, "out_norm1") || strstr(r->name, "lin2_norm2");
    support_print_failure(c->name, r);
    return true;
}

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", c->name, wherry_status_name(status_), wherry_last_error(context));         \
    } while (0)

/* Products that give the gradient of a bias with that of a weight. */
static int operand_sums(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++)
        n += !strcmp(s->calls[i].kernel, "gemm_wgmma") && call_sums_operand(&s->calls[i]);
    return n;
}

/* Those that add sums in parts themselves. */
static int adding(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++) n += s->calls[i].counters > 0;
    return n;
}

/* Products that also sum over the heads of their result. */
static int head_sums(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++)
        n += !strcmp(s->calls[i].kernel, "gemm_wgmma") && call_get(&s->calls[i], CONST_DELTA, 0);
    return n;
}

/* Products whose epilogue gates, in either pass, or turns pairs. */
static int of_pairs(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++)
        n += variant_find(s->calls[i].kernel) && strncmp(s->calls[i].kernel, "attention", 9) &&
             (call_get(&s->calls[i], CONST_GATE, GATE_NONE) || call_get(&s->calls[i], CONST_ROTARY, ROTARY_NONE));
    return n;
}

/* Kernels of attention that turn its gradients back. */
static int turns_back(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++)
        n += !strcmp(s->calls[i].kernel, "attention_backward_wgmma") &&
             call_get(&s->calls[i], CONST_ROTARY, ROTARY_NONE) == ROTARY_BACKWARD;
    return n;
}

/* Calls of this kernel that make an activation's or a gate's slopes, or multiply with them. */
static int slopes(const struct wherry_session *s, const char *kernel)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++) n += !strcmp(s->calls[i].kernel, kernel) && call_has_slopes(&s->calls[i]);
    return n;
}

/* Norms that could be halves of products. */
static bool folds(const struct shape *s) { return s->pre_layernorm && (s->norm || s->without & 16); }

/* Products that write moments of what they make, or read those of what they multiply. */
static int halves(const struct wherry_session *s, uint32_t which)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++)
        n += !strcmp(s->calls[i].kernel, "gemm_wgmma") && call_get(&s->calls[i], CONST_MOMENTS, 0) == which;
    return n;
}

/* How many do, of two layers: where weights lie as they do in the model's files, and rows of tokens are what is made.
 * The first norm reads what no product makes. */
static int halves_expected(const struct test_case *c)
{
    const bool wgmma = c->gemm && !strcmp(c->gemm, "wgmma");
    if (!wgmma || !folds(c->shape) || c->train || strcmp(c->plan, "flash")) return 0;
    if (c->layouts && strstr(c->layouts, "w_qkv")) return 0;
    return c->layouts == orders[CHANNELS][1] ? 1 : 3;
}

/* The model's own table, which is random: as far from 0, and deviating by 1. */
static void add_to_words(struct wherry_model *model, float far)
{
    const struct weight_part *words = &model->weights[0][WEIGHT_WORD][0];
    float *values = (float *)(size_t)words->memory, squares = 0;
    for (uint64_t i = 0; i < words->elements; i++) squares += values[i] * values[i];
    const float scale = 1 / sqrtf(squares / (float)words->elements);
    for (uint64_t i = 0; i < words->elements; i++) values[i] = scale * values[i] + far;
}

/* The least cosine of a sequence's results with those of the reference in f32, of the model as it is: a norm that is
 * folded wrongly into weights is right beside what its group reads. */
static double cosine_least(const struct test_case *c, wherry_session *session, const wherry_model *model,
                           const wherry_session_desc *desc, const wherry_batch *batch)
{
    enum { MOST = 8 * 512 };
    static float have[MOST], want[MOST];
    const size_t n = c->shape->hidden, count = batch->sequences * n;
    wherry_session_desc of_reference = {.struct_size = sizeof of_reference,
                                        .max_tokens = desc->max_tokens,
                                        .max_sequences = desc->max_sequences,
                                        .dtype = WHERRY_DTYPE_F32,
                                        .output = desc->output,
                                        .pool = desc->pool};
    wherry_device *device;
    wherry_session *reference;
    double least = 1;
    assert_true(count <= MOST);
    EXPECT_OK(wherry_encode(session, batch, have, count));
    EXPECT_OK(wherry_device_open(context, "reference", &device));
    EXPECT_OK(wherry_session_create(context, device, model, &of_reference, &reference));
    EXPECT_OK(wherry_session_prepare(reference, NULL, NULL, NULL));
    EXPECT_OK(wherry_encode(reference, batch, want, count));
    for (size_t at = 0; at < count; at += n) {
        double product = 0, square = 0, other = 0;
        for (size_t i = at; i < at + n; i++) {
            product += (double)have[i] * (double)want[i];
            square += (double)have[i] * (double)have[i];
            other += (double)want[i] * (double)want[i];
        }
        least = fmin(least, product / sqrt(square * other));
    }
    wherry_session_destroy(reference);
    wherry_device_close(device);
    return least;
}

/* Products of a mixture of experts. */
static int of_experts(const struct wherry_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++) n += !strcmp(s->calls[i].kernel, "gemm_experts_mma");
    return n;
}

static void test_one(void **state)
{
    const struct test_case *c = *state;
    const struct shape *s = c->shape;
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = s->experts || folds(s) ? 2 : 1,
                                        .hidden = s->hidden,
                                        .heads = s->heads,
                                        .feed_forward = s->feed_forward,
                                        .vocabulary = s->labelled ? 4102
                                                      : s->masked ? 666
                                                                  : 101,
                                        .positions = 1024,
                                        .token_types = 2,
                                        .activation = s->activation,
                                        .pre_layernorm = s->pre_layernorm,
                                        .pooler = true,
                                        .relative_buckets = s->buckets,
                                        .relative_distance = s->distance,
                                        .gate = s->gate,
                                        .rotary_base = s->gate ? 1000 : 0,
                                        .epsilon = 1e-12f,
                                        .causal = s->causal,
                                        .alibi = s->alibi,
                                        .window = s->window,
                                        .key_heads = s->key_heads,
                                        .experts = s->experts,
                                        .chosen_experts = s->chosen,
                                        .experts_every = s->experts ? 2 : 0,
                                        .norm = s->norm,
                                        .without = s->without,
                                        .head_norms = s->head_norms,
                                        .head = s->words || s->masked ? WHERRY_HEAD_VOCABULARY : WHERRY_HEAD_NONE,
                                        .head_activation =
                                            s->words || s->masked ? WHERRY_HEAD_GELU : WHERRY_HEAD_PLAIN};
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch = support_batch(s->lengths, config.vocabulary, config.token_types, 1);
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f, .save = c->save};
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens =
                                          s->labelled ? 4 * s->labelled : batch.offsets[batch.sequences] + SPARE_TOKENS,
                                      .max_labels = s->labelled,
                                      .max_sequences = batch.sequences + 2,
                                      .dtype = c->bf16 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F16,
                                      .plan = c->plan,
                                      .output = s->words    ? WHERRY_OUTPUT_WORDS
                                                : s->masked ? WHERRY_OUTPUT_ENTROPY
                                                            : WHERRY_OUTPUT_EMBEDDING,
                                      .pool = s->words || s->masked ? WHERRY_POOL_DEFAULT : WHERRY_POOL_MEAN,
                                      .keep_intermediates = true,
                                      .training = c->train ? &training : NULL,
                                      .kernels = c->gemm,
                                      .layouts = c->layouts,
                                      .weights = s->int8 ? WHERRY_WEIGHTS_INT8 : WHERRY_WEIGHTS_DEFAULT};
    EXPECT_OK(wherry_device_open(context, device_id, &device));
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
    if (s->far > 0) add_to_words(model, s->far);
    EXPECT_OK(wherry_session_create(context, device, model, &desc, &session));
    EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    groups_of_rung = groups_normalized = 0;
    EXPECT_OK(wherry_verify(session, &batch, 2, judge, (void *)c, &summary));
    assert_true(summary.groups > 0);
    assert_true(groups_of_rung > 0); /* else nothing was tested */
    const bool odd = s->feed_forward % 8;
    const int dense = (int)config.layers - (s->experts ? 1 : 0),
              biased = (s->without & WHERRY_WITHOUT_QKV_BIAS ? 0 : (int)config.layers) +
                       (s->without & WHERRY_WITHOUT_LIN1_BIAS || odd ? 0 : dense);
    if (c->train && c->gemm && !strcmp(c->gemm, "wgmma") && !strcmp(c->plan, "flash"))
        assert_int_equal(
            operand_sums(session), /* of Q, K and V, the first linear layer, and of each strip of words, or of all */
            (c->layouts && strstr(c->layouts, "w_lin1") ? 0 : biased) + (s->labelled ? 1
                                                                         : s->masked ? 3
                                                                                     : 0));
    if (c->train && c->gemm && !strcmp(c->gemm, "wgmma") && !strcmp(c->plan, "flash"))
        assert_int_equal(slopes(session, odd ? "gate" : "gemm_wgmma"), /* both passes' */
                         (!s->gate && s->activation == WHERRY_ACTIVATION_RELU) || c->save != WHERRY_SAVE_DEFAULT ||
                                 c->layouts == orders[CHANNELS][1]
                             ? 0
                             : 2 * dense);
    assert_int_equal(halves(session, MOMENTS_READ), halves_expected(c));
    assert_int_equal(halves(session, MOMENTS_WRITTEN), halves_expected(c));
    if (halves_expected(c)) { /* of rows that are far from 0, 16 bits leave less */
        double least = cosine_least(c, session, model, &desc, &batch);
        double want = s->far > 0 ? (c->bf16 ? 0.96 : 0.999) : c->bf16 ? 0.9999 : 0.99999;
        if (!(least > want)) fail_msg("%s: a cosine of %.7f with the reference's result", c->name, least);
    }
    bool few = c->gemm && !strcmp(c->gemm, "small_batch"); /* of weights as they lie in files: the forward pass */
    if (s->gate && !odd && c->gemm && !(few && c->layouts) && !strcmp(c->plan, "flash"))
        assert_int_equal(of_pairs(session), ((c->train && !few ? 3 : 2) - s->head_norms) * (int)config.layers);
    if (c->gemm && !strcmp(c->gemm, "wgmma"))
        assert_int_equal(turns_back(session),
                         s->gate && c->train && !strcmp(c->plan, "flash") ? (int)config.layers : 0);
    /* Two forward; and backward of each one for its rows and one for its weight. */
    if (s->experts && (!c->gemm || !strcmp(c->gemm, "mma"))) assert_int_equal(of_experts(session), c->train ? 6 : 2);
    if ((s->parts || s->labelled) && c->train && c->gemm && !strcmp(c->gemm, "wgmma")) assert_true(adding(session) > 0);
    if (c->train && c->gemm && !strcmp(c->gemm, "wgmma"))
        assert_int_equal(head_sums(session),
                         !strcmp(c->plan, "flash") && s->hidden / s->heads <= 64 ? (int)config.layers : 0);
    bool normalizes = s->normalizes && c->gemm && !strcmp(c->gemm, "wgmma") && !strcmp(c->plan, "flash") && !c->train;
    if (c->layouts && strstr(c->layouts, "w_out")) normalizes = false; /* of weights as they are in the model's files */
    /* Rows that the second linear layer makes of rows of tokens are normalized by a kernel of their own. */
    assert_int_equal(groups_normalized, !normalizes ? 0 : c->layouts == orders[CHANNELS][1] ? 1 : 2);
    wherry_session_destroy(session);
    wherry_model_close(model);
    wherry_device_close(device);
    support_batch_free(&batch);
}

/* The emulated device, and what it computes products with. */
static bool device_find(uint32_t *rungs)
{
    wherry_device_info infos[SUPPORT_MAX_DEVICES];
    size_t count = SUPPORT_MAX_DEVICES;
    wherry_device *device;
    if (system("command -v ${CLANG:-clang-14} >/dev/null 2>&1")) {
        puts("no clang-14 (package clang-14, or set CLANG)");
        return false;
    }
    if (wherry_device_list(context, infos, &count)) return false;
    for (size_t i = 0; i < count && i < SUPPORT_MAX_DEVICES; i++) {
        if (strcmp(infos[i].name, "Emulated Hopper") || wherry_device_open(context, infos[i].id, &device)) continue;
        snprintf(device_id, sizeof device_id, "%s", infos[i].id);
        *rungs = device->backend->limits(device->handle)->rungs;
        wherry_device_close(device);
        return true;
    }
    puts("no emulated GPU: run it by ctest, or see tests/CMakeLists.txt");
    return false;
}

/* Its kernels are for small sessions. */
static bool few_fits(const struct shape *s)
{
    uint32_t tokens = 0;
    for (const uint32_t *length = s->lengths; *length; length++) tokens += *length;
    return tokens + SPARE_TOKENS <= 256;
}

/* Of each kernel something, in little time: what takes it is the compiler. */
static const char *const usual[] = {"heads-64 flash wgmma training",        "heads-32 flash wgmma training",
                                    "rows flash wgmma inference",           "heads-64 flash mma inference",
                                    "heads-32 flash small_batch inference", "few flash auto training",
                                    "heads-64 flash wgmma training both",   "heads-64 flash wgmma training channels",
                                    "parts flash wgmma training",           "distances-32 flash wgmma training",
                                    "distances flash mma inference",        "words flash mma inference",
                                    "masked flash wgmma training",          "distances-32 flash small_batch inference",
                                    "gated flash wgmma training",           "gated flash mma training",
                                    "gated flash small_batch inference",    "gated-tiles flash wgmma inference",
                                    "int8 flash small_batch inference",     "rows flash wgmma inference bf16",
                                    "few flash auto inference bf16",        "window flash wgmma training",
                                    "window-32 flash wgmma training",       "window-few flash small_batch inference",
                                    "grouped flash wgmma inference",        "distances-32 flash wgmma training bf16",
                                    "mixture flash mma training",           "mixture-wide flash mma training bf16",
                                    "mixture-wide flash auto inference",    "grouped-128 flash wgmma inference",
                                    "folded flash wgmma inference",         "folded flash wgmma inference bf16",
                                    "folded-rms flash wgmma inference",     "folded-one flash wgmma inference",
                                    "folded-far flash wgmma inference",     "folded-rms flash auto inference",
                                    "folded flash wgmma training",          "folded flash wgmma training bf16",
                                    "gated-odd flash wgmma training",       "window-128 flash wgmma training",
                                    "edges-128 flash wgmma inference",      "masked-kept flash wgmma training",
                                    "window-long flash wgmma training"};

enum { USUAL = sizeof usual / sizeof *usual };
static size_t usual_found;

static bool wanted(const char *name, int argc, char **argv)
{
    char spaced[128], part[128];
    snprintf(spaced, sizeof spaced, " %s ", name);
    for (int i = 1; i < argc; i++) {
        snprintf(part, sizeof part, " %s ", argv[i]);
        if (strcmp(argv[i], "all") && !strstr(spaced, part)) return false;
    }
    for (size_t i = 0; argc < 2 && i < USUAL; i++) {
        if (strcmp(name, usual[i])) continue;
        usual_found++;
        return true;
    }
    return argc > 1;
}

int main(int argc, char **argv)
{
    enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = SHAPES * 3 * (2 * ORDERS + 2) * RUNG_COUNT };
    static struct test_case cases[MOST];
    static struct CMUnitTest tests[MOST];
    size_t n = 0, of_all = 0;
    uint32_t rungs = 0;
    /* No cache: a text that is taken from there is not patched again. */
    const wherry_context_desc desc = {.struct_size = sizeof desc, .log = support_log, .cache_dir = ""};
    if (wherry_context_create(&desc, &context)) return 1;
    if (!device_find(&rungs)) {
        wherry_context_destroy(context);
        return 77;
    }
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t p = 0; p < 3; p++)
            for (int kind = 0; kind < 2 * ORDERS + 2; kind++) /* the last two: in bf16 */
                for (int r = RUNG_TILED; r < RUNG_COUNT; r++) {
                    struct test_case *c = &cases[n];
                    bool train = kind % 2, bf16 = kind >= 2 * ORDERS;
                    const char *const *order = orders[bf16 ? 0 : kind / 2];
                    bool choice = r == RUNG_TILED; /* several rungs' kernels in one session */
                    if (train && shapes[s].words) continue;
                    if (shapes[s].key_heads && order[1] && strstr(order[1], "qkv=")) continue;
                    if (shapes[s].int8 && (kind || r != RUNG_SMALL_BATCH)) continue;
                    if (order == orders[CHANNELS] &&
                        (shapes[s].gate || shapes[s].experts || strcmp(plan_names[p], "flash")))
                        continue;
                    if (!(rungs & RUNG_BIT(r)) || ((choice || r == RUNG_SMALL_BATCH) && !few_fits(&shapes[s])))
                        continue;
                    *c = (struct test_case){.shape = &shapes[s],
                                            .plan = plan_names[p],
                                            .gemm = choice ? NULL : rung_name((enum rung)r),
                                            .train = train,
                                            .bf16 = bf16,
                                            .layouts = order[1],
                                            .save = shapes[s].masked || shapes[s].feed_forward % 8
                                                        ? WHERRY_SAVE_DEFAULT
                                                        : (wherry_save)((s + p) % 4)};
                    snprintf(c->name, sizeof c->name, "%s %s %s %s%s%s", c->shape->name, c->plan,
                             choice ? "auto" : c->gemm, train ? "training" : "inference", order[0],
                             bf16 ? " bf16" : "");
                    if (wanted(c->name, argc, argv) && support_share(of_all++))
                        tests[n++] = (struct CMUnitTest){c->name, test_one, NULL, NULL, c};
                }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    if (argc < 2 && usual_found != USUAL) {
        printf("of %d usual cases %zu are there: a name in the list is none\n", (int)USUAL, usual_found);
        return 1;
    }
    int failed = n ? _cmocka_run_group_tests("emulated", tests, n, NULL, NULL) : 1;
    wherry_context_destroy(context);
    return failed != 0;
}
