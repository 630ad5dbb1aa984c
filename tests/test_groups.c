/* Every group of every plan, of inference and of training's forward and backward pass, on every device and in both
 * types, against the double reference: at tiny, odd, unaligned and real shapes, with guard zones around every tensor
 * and the same bits when replayed. Where a device has several ways to compute products (plan/variants.h), each of them.
 * The same with weights that lie transposed, all at once, and on one shape each alone, and with weights in both orders.
 *   test_groups [SHAPE...]    only these shapes, by name; the environment variable WHERRY_TEST_SHAPES does the same;
 *                             WHERRY_TEST_NAMES: only cases whose names have these words in this order ("flash f16"),
 *                             which may end in a full stop, as the name does ("flash f16.")
 *                             WHERRY_TEST_RUNG: products and attention on this alone, f16 in the plan flash ("coopmat")
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
    uint32_t layers;            /* 0 (left out): 1 */
    uint32_t tokens;            /* that the session is for, which sizes follow from; 0: few more than the batch has */
    uint32_t buckets, distance; /* of a bias by distance; 0 and 0: none */
    bool train;  /* what CPU drivers do, who compile for seconds: training, which has inference's kernels, too */
    bool orders; /* what a GPU does besides: each of `layouts` that is met alone */
    /* What they take, where a GPU takes all, of OpenCL, of Vulkan, and an interpreter: a plan and a type a word, and
     * the names of `layouts`. Training in the plan paper is OpenCL's, and in unfused Vulkan's: the kernels of both are
     * few, and Oclgrind runs all plans through OpenCL. Weights copied through Vulkan, and Q, K and V interleaved
     * through OpenCL, are test_training's. NULL: nothing, smaller shapes take the same ways. */
    const char *opencl, *vulkan, *few;
    uint32_t labels; /* > 0: a classifier of so many, on texts where head_activation says what is before it */
    wherry_head_activation head_activation;
    uint32_t embedding;
    wherry_output vocabulary; /* of the vocabulary: scores, or weights of words */
    uint32_t labelled;        /* tokens with a label, at most; 0: all */
    bool forward;             /* it has no backward pass: training is refused */
    wherry_gate gate;
    uint32_t without;  /* biases */
    float rotary_base; /* 0: positions by a table */
    float rotary_dynamic;
    uint32_t rotary_trained; /* longer sequences have angles of their own */
    wherry_norm norm;
    uint32_t key_heads, head_channels;
    bool head_norms;
    bool wide_norms, double_norms;
    bool causal, alibi;
    uint32_t window, global_every, global_first;
    bool cut;                 /* a launch for each work-group */
    uint32_t experts, chosen; /* of every second layer */
    bool normalized;
};
enum { NO_BIAS = 15 };

// clang-format off
static const struct shape shapes[] = {
    {"tiny", 8, 1, 8, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1}, .opencl = "flash-f32 paper-f16 unfused-f32", .vulkan = "flash-f16 paper-f32 unfused-f16"},
    {"small", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {3, 1, 7}, 2, .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"largest", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MAX, -1, {5, 17, 1}, .opencl = "flash-f32", .vulkan = "flash-bf16"},
    {"odd", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MAX, -1, {5, 17, 1}, .train = true,
     .opencl = "flash-f32 paper-f16 copied transposed-copied channel-major",
     .vulkan = "flash-f16 unfused-f16 transposed interleaved channel-major", .orders = true, .few = "flash-f16 paper-f32 copied channel-major"},
    {"unaligned", 9, 1, 7, WHERRY_ACTIVATION_GELU_TANH, true, WHERRY_POOL_POOLER, -1, {2, 31, 6}, 2, .train = true,
     .opencl = "flash-f16", .vulkan = "flash-f32", .few = "unfused-f16"},
    {"unaligned-heads", 20, 5, 35, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_MEAN, 1, {33, 4}, 2},
    {"head-32", 64, 2, 128, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_NONE, -1, {64, 65, 1}, 2},
    {"head-40", 80, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_POOLER, 1, {130, 3}},
    {"head-64", 128, 2, 256, WHERRY_ACTIVATION_GELU_TANH, false, WHERRY_POOL_MEAN, 1, {63, 129, 64}},
    {"head-72", 72, 1, 40, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_NONE, 1, {100}},
    {"head-80", 160, 2, 96, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN, 1, {70, 33}},
    {"head-96", 192, 2, 384, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, -1, {66, 31}},
    {"head-120", 120, 1, 96, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_MAX, 1, {90, 2}, 2},
    {"head-128", 256, 2, 264, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {70, 128}},
    {"many-short", 16, 2, 24, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {1, 1, 1, 2, 1, 1, 3}},
    {"minilm", 384, 12, 1536, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {250, 1, 33}, .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"bert-base", 768, 12, 3072, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_POOLER, -1, {77, 20}},
    {"bert-large", 1024, 16, 4096, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {65, 30}},
    {"distances", 48, 3, 40, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN, -1, {70, 1, 5}, 2, .buckets = 8, .distance = 20, .train = true,
     .opencl = "flash-f32 unfused-f16", .vulkan = "flash-f16 paper-f32", .few = "flash-f16"},
    {"distances-64", 128, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {200, 33, 300}, .buckets = 32, .distance = 128, .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"one-class", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 7}, .train = true,
     .opencl = "flash-f16 unfused-f32", .vulkan = "flash-f32 unfused-f16", .labels = 1, .head_activation = WHERRY_HEAD_GELU},
    {"classes", 40, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 70, 7}, .opencl = "flash-bf16 paper-f32", .vulkan = "flash-f16 paper-f32", .labels = 3, .head_activation = WHERRY_HEAD_RELU},
    {"token-classes", 24, 3, 33, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_DEFAULT, 0, {5, 17, 1}, .train = true,
     .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 paper-f16", .labels = 2},
    {"token-class", 24, 3, 33, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_DEFAULT, 0, {70, 17, 1}, .opencl = "flash-f32 int8", .vulkan = "flash-f16 int8", .labels = 1},
    {"last-token", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_LAST, 1, {3, 1, 70}, .train = true, .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 flash-bf16"},
    {"weighted", 36, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_WEIGHTED_MEAN, 1, {3, 1, 70}, .opencl = "flash-f32 int8", .vulkan = "flash-f16 int8", .forward = true},
    {"root", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN_SQRT, -1, {3, 1, 70}, .opencl = "flash-bf16 paper-f32", .vulkan = "flash-f16", .forward = true},
    {"vocabulary", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 70}, .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 unfused-f16", .vocabulary = WHERRY_OUTPUT_VOCABULARY, .forward = true},
    {"vocabulary-narrow", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 9}, .opencl = "flash-f32", .vulkan = "flash-f16", .embedding = 12, .vocabulary = WHERRY_OUTPUT_VOCABULARY, .forward = true},
    {"words", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 70}, .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 unfused-f16", .vocabulary = WHERRY_OUTPUT_WORDS, .forward = true},
    {"words-long", 64, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {300, 128, 5, 129}, .vocabulary = WHERRY_OUTPUT_WORDS, .forward = true},
    {"words-short", 72, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 9, 30}, .vocabulary = WHERRY_OUTPUT_WORDS, .forward = true},
    {"words-middle", 768, 12, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {33, 1, 40}, .vocabulary = WHERRY_OUTPUT_WORDS, .forward = true},
    {"words-narrow", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 70}, .opencl = "flash-f32", .vulkan = "flash-f16", .embedding = 12, .vocabulary = WHERRY_OUTPUT_WORDS, .forward = true},
    {"masked", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 70}, .train = true, .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 unfused-f16", .vocabulary = WHERRY_OUTPUT_ENTROPY_NEXT, .cut = true},
    /* Its scores are kept, which the last policy does not. */
    {"masked-kept", 32, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 9}, .tokens = 40, .train = true, .opencl = "flash-f16 flash-f32", .vulkan = "flash-f32", .vocabulary = WHERRY_OUTPUT_ENTROPY, .labelled = 9},
    {"masked-narrow", 32, 2, 64, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_DEFAULT, 0, {3, 1, 9}, .train = true, .opencl = "flash-f32 flash-bf16", .vulkan = "flash-f16", .embedding = 12, .vocabulary = WHERRY_OUTPUT_ENTROPY},
    {"nomic", 32, 2, 64, WHERRY_ACTIVATION_SILU, false, WHERRY_POOL_MEAN, 1, {3, 1, 70}, .train = true, .gate = WHERRY_GATE_SECOND, .without = NO_BIAS, .rotary_base = 1000,
     .opencl = "flash-f16 interleaved", .vulkan = "flash-f32 unfused-f16 transposed", .few = "flash-f16 paper-f32"},
    {"gated", 48, 3, 40, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_CLS, -1, {33, 1, 5}, 2, .train = true, .gate = WHERRY_GATE_FIRST, .rotary_base = 10,
     .opencl = "paper-f32", .vulkan = "flash-f16"},
    {"gated-odd", 18, 3, 7, WHERRY_ACTIVATION_GELU_TANH, false, WHERRY_POOL_MEAN, 1, {9, 1, 5}, .train = true, .gate = WHERRY_GATE_SECOND, .without = WHERRY_WITHOUT_LIN1_BIAS, .rotary_base = 160000,
     .opencl = "flash-f16", .vulkan = "flash-f32", .few = "unfused-f32"},
    {"stretched", 32, 2, 64, WHERRY_ACTIVATION_SILU, false, WHERRY_POOL_MEAN, 1, {20, 3, 70, 21}, .train = true, .gate = WHERRY_GATE_SECOND, .without = NO_BIAS, .rotary_base = 1000,
     .rotary_dynamic = 2, .rotary_trained = 20, .opencl = "flash-f16 paper-f32", .vulkan = "flash-f32 unfused-f16", .few = "flash-f16"},
    {"stretched-odd", 18, 3, 7, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_CLS, -1, {9, 1, 5}, .rotary_base = 10, .rotary_dynamic = 1.5f, .rotary_trained = 4,
     .opencl = "flash-f32", .vulkan = "flash-f16"},
    {"without-biases", 40, 5, 24, WHERRY_ACTIVATION_SILU, false, WHERRY_POOL_CLS, 1, {9, 1, 33}, .train = true, .without = NO_BIAS,
     .opencl = "flash-f32", .vulkan = "paper-f16"},
    {"gated-relu", 24, 2, 48, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {9, 1, 33}, .opencl = "flash-f32 int8", .gate = WHERRY_GATE_FIRST},
    {"modern", 36, 3, 28, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_MEAN, 1, {33, 1, 5}, 2, .train = true, .gate = WHERRY_GATE_FIRST, .rotary_base = 10000,
     .without = NO_BIAS | WHERRY_WITHOUT_NORM_BIAS | WHERRY_WITHOUT_FIRST_NORM, .opencl = "flash-f32", .vulkan = "flash-f16", .few = "flash-f32"},
    {"rms", 40, 2, 24, WHERRY_ACTIVATION_SILU, true, WHERRY_POOL_CLS, 1, {9, 1, 33}, 2, .train = true, .norm = WHERRY_NORM_RMS,
     .without = WHERRY_WITHOUT_EMBED_NORM, .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"rms-one", 21, 1, 24, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {9, 1, 33}, .train = true, .norm = WHERRY_NORM_RMS_ONE,
     .opencl = "flash-f32", .vulkan = "flash-f16"},
    {"grouped", 32, 4, 24, WHERRY_ACTIVATION_SILU, true, WHERRY_POOL_MEAN, 1, {9, 1, 70}, .train = true, .norm = WHERRY_NORM_RMS, .without = NO_BIAS,
     .rotary_base = 1000, .key_heads = 2, .head_channels = 16, .opencl = "flash-f32 unfused-f16", .vulkan = "flash-f16 paper-f32", .cut = true},
    {"grouped-one", 24, 3, 24, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, 1, {9, 1, 33}, 2, .train = true, .key_heads = 1,
     .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"heads-normed", 32, 4, 24, WHERRY_ACTIVATION_SILU, true, WHERRY_POOL_LAST, 1, {9, 1, 70}, .train = true, .causal = true, .norm = WHERRY_NORM_RMS, .without = NO_BIAS,
     .rotary_base = 1000, .key_heads = 2, .head_channels = 24, .head_norms = true, .opencl = "flash-f32", .vulkan = "flash-f16"},
    {"heads-trained", 20, 2, 24, WHERRY_ACTIVATION_SILU, true, WHERRY_POOL_MEAN, 1, {9, 1, 33}, .train = true, .norm = WHERRY_NORM_RMS_ONE, .without = NO_BIAS,
     .rotary_base = 10, .key_heads = 1, .head_channels = 10, .head_norms = true, .opencl = "unfused-f16", .vulkan = "paper-f32", .few = "flash-f32"},
    {"wide-normed", 72, 3, 24, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {9, 1, 33}, .train = true, .gate = WHERRY_GATE_SECOND, .without = WHERRY_WITHOUT_LIN1_BIAS,
     .alibi = true, .wide_norms = true, .double_norms = true, .opencl = "flash-f32 paper-f16", .vulkan = "flash-f16 unfused-f32", .few = "flash-f32"},
    {"wide-odd", 21, 3, 24, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_CLS, 1, {9, 1, 33}, .train = true, .wide_norms = true, .opencl = "flash-f16", .vulkan = "flash-f32"},
    /* Windows of 8, at their edges; the second layer sees all. */
    {"window", 48, 3, 40, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN, -1, {8, 9, 16, 17, 70, 1}, 2, .train = true,
     .opencl = "flash-f32 unfused-f16", .vulkan = "flash-f16", .few = "flash-f16", .window = 8, .global_every = 2, .global_first = 1},
    {"window-64", 128, 2, 64, WHERRY_ACTIVATION_RELU, true, WHERRY_POOL_CLS, -1, {64, 65, 128, 129, 300}, .opencl = "flash-f16", .vulkan = "flash-f32", .window = 64, .rotary_base = 10000},
    {"window-33", 64, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {200, 33, 300}, .opencl = "flash-f32", .window = 33},
    {"causal", 48, 3, 40, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN, -1, {70, 1, 5}, .train = true,
     .opencl = "flash-f16", .vulkan = "flash-f32", .causal = true},
    {"causal-64", 128, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_LAST, -1, {129, 64, 200}, .opencl = "flash-f32", .causal = true},
    {"causal-window", 64, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {140, 20, 7}, .train = true, .vulkan = "flash-f16", .causal = true, .window = 12, .cut = true},
    {"alibi", 60, 3, 40, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_MEAN, -1, {70, 1, 5}, .train = true,
     .opencl = "flash-f32", .vulkan = "unfused-f16", .few = "flash-f16", .alibi = true},
    {"alibi-window", 128, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, -1, {129, 33, 200}, .opencl = "flash-f16", .alibi = true, .window = 40},
    /* Experts with a tile and a half of rows, and ones with none. */
    {"mixture", 32, 2, 40, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_MEAN, 1, {3, 1, 90}, 2, .train = true, .experts = 4, .chosen = 2,
     .opencl = "flash-f32 unfused-f16", .vulkan = "flash-f16 paper-f32"},
    {"mixture-odd", 21, 1, 33, WHERRY_ACTIVATION_GELU_TANH, true, WHERRY_POOL_CLS, 1, {9, 1, 33}, 2, .train = true, .experts = 7, .chosen = 3, .normalized = true,
     .opencl = "flash-f16", .vulkan = "flash-f32"},
    {"mixture-one", 64, 2, 72, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {2, 1}, 2, .experts = 8, .chosen = 1, .opencl = "flash-bf16 flash-f16", .vulkan = "flash-bf16 flash-f32"},
    /* Experts with several tiles of rows, with few and with none. */
    {"mixture-tiles", 64, 2, 128, WHERRY_ACTIVATION_GELU, false, WHERRY_POOL_CLS, 1, {130, 1, 70}, 2, .train = true, .experts = 16, .chosen = 2,
     .opencl = "flash-f16", .vulkan = "flash-f16"},
    /* Many tokens, so that norms are folded into Hopper's products. */
    {"modern-128", 128, 2, 192, WHERRY_ACTIVATION_GELU, true, WHERRY_POOL_MEAN, 1, {63, 129}, 2, .tokens = 8448, .gate = WHERRY_GATE_FIRST, .rotary_base = 10000, .without = NO_BIAS | WHERRY_WITHOUT_NORM_BIAS},
    {"heads-normed-128", 128, 4, 192, WHERRY_ACTIVATION_SILU, true, WHERRY_POOL_LAST, 1, {63, 129}, 2, .tokens = 8448, .causal = true, .norm = WHERRY_NORM_RMS, .without = NO_BIAS, .rotary_base = 1000, .key_heads = 2, .head_norms = true},
    {"roomy", 128, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {63, 129}, .tokens = 8448},
    {"roomy-32", 64, 2, 64, WHERRY_ACTIVATION_RELU, false, WHERRY_POOL_CLS, 1, {63, 129, 200}, .tokens = 8448},
};
// clang-format on

static const char *const plan_names[] = {"flash", "paper", "unfused"};

/* How tensors lie besides: all weights transposed; each by itself; Q, K and V of a head side by side; all weights in
 * both orders, the model's first, and the other first; the channels of the hidden activations outside. */
enum { FLASH = 1, PAPER = 2, UNFUSED = 4 }; /* a bit for each of plan_names */
static const struct layout {
    const char *name, *orders;
    const char *pooler;        /* where there is one */
    unsigned train, inference; /* the plans in which a GPU takes them */
    bool alone;                /* in training, with a shape that has `orders` */
    unsigned cpu;              /* the plan of a CPU driver, for a shape that names it */
    bool int8;                 /* not another order, but weights of 8 bits, in inference */
} layouts[] = {
    // clang-format off
    {"transposed",        "w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui", ",w_pooler=io", FLASH | UNFUSED, FLASH, .cpu = UNFUSED},
    {"w_qkv=iqhp",        "w_qkv=iqhp", "", FLASH, .alone = true},
    {"w_out=hpi",         "w_out=hpi",  "", FLASH, .alone = true},
    {"w_lin1=iu",         "w_lin1=iu",  "", FLASH, .alone = true},
    {"w_lin2=ui",         "w_lin2=ui",  "", FLASH, .alone = true},
    {"interleaved",       "qkv=bjhqp",  "", FLASH, .alone = true, .cpu = FLASH},
    {"copied",            "w_qkv=qhpi+iqhp,w_out=ihp+hpi,w_lin1=ui+iu,w_lin2=iu+ui", ",w_pooler=oi+io", FLASH, .cpu = FLASH},
    {"transposed-copied", "qkv=bjhqp,w_qkv=ihqp+hqpi,w_out=hpi+ihp,w_lin1=iu+ui,w_lin2=ui+iu", ",w_pooler=io+oi", PAPER, .cpu = PAPER},
    {"channel-major",     "w_lin2=ui,active=ubj", "", FLASH, FLASH, .cpu = FLASH},
    {"int8",              "", "", 0, FLASH | PAPER, .cpu = FLASH | PAPER, .int8 = true},
    // clang-format on
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct test_case {
    char name[160];
    char device[64];
    const char *plan;
    wherry_dtype dtype;
    const struct shape *shape;
    const char *gemm;  /* NULL: as the library chooses */
    char layouts[128]; /* "": as the model has them */
    bool train, int8;
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

/* Rows that begin on no multiple of eight bytes are no tensor core's, nor through OpenCL those that begin on none of
 * sixteen; and two rungs have no products of 8 bits. */
static bool may_lack_kernels(const struct test_case *c)
{
    const uint32_t multiple = strncmp(c->device, "opencl", 6) ? 4 : 8;
    if (!c->gemm || !strcmp(c->gemm, "tiled")) return false;
    return c->shape->hidden % multiple || (c->int8 && (!strcmp(c->gemm, "mma") || !strcmp(c->gemm, "wgmma")));
}

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
                                  .relative_buckets = s->buckets,
                                  .relative_distance = s->distance,
                                  .epsilon = 1e-12f,
                                  .labels = s->labels,
                                  .head_activation = s->head_activation,
                                  .gate = s->gate,
                                  .without = s->without,
                                  .rotary_base = s->rotary_base,
                                  .rotary_dynamic = s->rotary_dynamic,
                                  .rotary_trained = s->rotary_trained,
                                  .norm = s->norm,
                                  .key_heads = s->key_heads,
                                  .head_channels = s->head_channels,
                                  .head_norms = s->head_norms,
                                  .wide_norms = s->wide_norms,
                                  .double_norms = s->double_norms,
                                  .causal = s->causal,
                                  .alibi = s->alibi,
                                  .window = s->window,
                                  .global_every = s->global_every,
                                  .global_first = s->global_first,
                                  .experts = s->experts,
                                  .chosen_experts = s->chosen,
                                  .experts_every = s->experts ? 2 : 0,
                                  .experts_normalized = s->normalized};
    if (s->labels) config.head = s->head_activation ? WHERRY_HEAD_SEQUENCE : WHERRY_HEAD_TOKENS;
    config.embedding = s->embedding;
    config.next_sentence = s->vocabulary == WHERRY_OUTPUT_ENTROPY_NEXT;
    if (s->vocabulary == WHERRY_OUTPUT_ENTROPY || config.next_sentence)
        config.vocabulary = 300; /* three strips of it, the last one unaligned */
    if (s->vocabulary) config.head = WHERRY_HEAD_VOCABULARY, config.head_activation = WHERRY_HEAD_GELU;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch = support_batch(s->lengths, config.vocabulary, config.token_types, 1);
    EXPECT_OK(wherry_device_open(context, c->device, &device));
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
    uint32_t most = batch.offsets[batch.sequences] + 9; /* limits are not the batch's own size */
    /* PoCL compiles a kernel anew for each kind of grid: test_launches has launches in pieces there. */
    bool whole = !strncmp(c->device, "opencl", 6) && device->backend->limits(device->handle)->cpu;
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = s->tokens ? s->tokens : most,
                                .max_sequences = batch.sequences + 2,
                                .max_labels = s->labelled,
                                .dtype = c->dtype,
                                .plan = c->plan,
                                .pool = s->pool,
                                .normalize = s->normalize,
                                .keep_intermediates = true,
                                .kernels = c->gemm ? c->gemm : support_kernels(c->device),
                                .layouts = *c->layouts ? c->layouts : NULL,
                                .max_launch_ms = s->cut && !whole ? 1e-6 : 0,
                                .weights = c->int8 ? WHERRY_WEIGHTS_INT8 : WHERRY_WEIGHTS_DEFAULT};
    if (s->vocabulary) desc.output = s->vocabulary;
    if (s->labels) desc.output = s->head_activation ? WHERRY_OUTPUT_CLASSES : WHERRY_OUTPUT_TOKEN_CLASSES;
    /* Shapes take turns in what is saved, so that every policy meets every kernel. */
    const wherry_training_desc training = {
        .struct_size = sizeof training, .dropout = 0.1f, .save = (wherry_save)((s - shapes) % (s->labelled ? 3 : 4))};
    if (c->train) desc.training = &training;
    wherry_status status = wherry_session_create(context, device, model, &desc, &session);
    if (may_lack_kernels(c) && status == WHERRY_STATUS_UNSUPPORTED) {
        assert_non_null(strstr(wherry_last_error(context), "none of its kernels fits"));
    } else if (c->train && s->forward) {
        assert_int_equal(status, WHERRY_STATUS_UNSUPPORTED);
        assert_non_null(strstr(wherry_last_error(context), "has no backward pass"));
    } else {
        EXPECT_OK(status);
        EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
        const uint32_t replays = getenv("WHERRY_TEST_FEW") ? 0 : 2; /* an interpreter is the same each time */
        wherry_verify_summary summary = {.struct_size = sizeof summary};
        EXPECT_OK(wherry_verify(session, &batch, replays, print_failures, (void *)c, &summary));
        assert_true(summary.groups > 0);
        groups_checked += summary.groups;
        wherry_session_destroy(session);
    }
    wherry_model_close(model);
    wherry_device_close(device);
    support_batch_free(&batch);
}

static const char *const type_names[] = {"", "f32", "f16", "bf16"};

/* What the host's cores take, which compile nothing: the plans that either API takes of a shape, in f32. */
static bool host_takes(const struct shape *s, size_t plan, wherry_dtype dtype, char words[256])
{
    char word[2][64];
    for (int i = 0; i < 2; i++) snprintf(word[i], sizeof word[i], "%s-%s", plan_names[plan], type_names[1 + i]);
    snprintf(words, 256, "%s %s", s->opencl ? s->opencl : "", s->vulkan ? s->vulkan : "");
    return dtype == WHERRY_DTYPE_F32 && (support_has_word(words, word[0]) || support_has_word(words, word[1]));
}

static bool takes(const char *words, size_t plan, wherry_dtype dtype)
{
    char word[64];
    snprintf(word, sizeof word, "%s-%s", plan_names[plan], type_names[dtype]);
    return support_has_word(words, word);
}

/* Whether tensors in other orders are for a case: `words` has its plan and type, or is NULL. */
static bool takes_layout(const struct shape *s, const struct layout *layout, const char *words, size_t plan, bool train)
{
    if ((s->key_heads || s->head_norms || s->wide_norms) && strstr(layout->orders, "qkv=bjhqp"))
        return false; /* refused */
    unsigned bit = 1u << plan;
    if (s->gate && strstr(layout->orders, "active=")) return false; /* a gate's halves lie side by side */
    if (layout->int8 && (train || s->experts)) return false;
    if (s->experts && strstr(layout->orders, "active=")) return false; /* refused, too */
    if (words) return (layout->cpu & bit) && support_has_word(words, layout->name);
    if (layout->alone) return train && s->orders && (layout->train & bit);
    return ((train ? layout->train : layout->inference) & bit) != 0;
}

/* Shapes that are named, by arguments or WHERRY_TEST_SHAPES; all where none is. */
static bool named(const struct shape *s, int argc, char **argv)
{
    const char *given = getenv("WHERRY_TEST_SHAPES");
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], s->name)) return true;
    return given ? support_has_word(given, s->name) : argc < 2;
}

/* A device, opened once for all its shapes: drivers take long to open. */
struct tested {
    const char *id;
    bool gpu, f16, bf16_matrices;  /* products of bf16 may go to cooperative matrices */
    const char *rungs[RUNG_COUNT]; /* NULL: no more */
};

/* What else computes products there than what is chosen: the highest of several is, but on a CPU the lowest. */
static void lower_rungs(struct tested *t)
{
    wherry_device *device;
    int n = 0, highest = RUNG_COUNT - 1;
    if (wherry_device_open(context, t->id, &device)) return;
    uint32_t has = device->backend->limits(device->handle)->rungs;
    bool cpu = device->backend->limits(device->handle)->cpu;
    t->bf16_matrices = device->backend->limits(device->handle)->coopmat_bf16;
    wherry_device_close(device);
    while (highest > 0 && !(has & RUNG_BIT(highest))) highest--;
    for (int r = cpu ? 1 : 0; r < highest + cpu; r++)
        if (has & RUNG_BIT(r)) t->rungs[n++] = rung_name((enum rung)r);
}

static struct tested tested_device(const char *id)
{
    struct tested t = {.id = id, .gpu = support_is_gpu(context, id), .f16 = support_has_f16(context, id)};
    lower_rungs(&t);
    return t;
}

/* Whether WHERRY_TEST_NAMES has a case. */
static bool has_words(const struct test_case *c)
{
    const char *words = getenv("WHERRY_TEST_NAMES");
    char name[sizeof c->name + 1];
    snprintf(name, sizeof name, "%s.", c->name);
    return !words || strstr(name, words);
}

/* The case unless WHERRY_TEST_NAMES leaves it out: how many were added. */
static size_t add(struct test_case *c, const char *device, const struct shape *s, size_t plan, wherry_dtype dtype,
                  bool train, const struct layout *layout, const char *gemm)
{
    *c = (struct test_case){.plan = plan_names[plan],
                            .dtype = dtype,
                            .shape = s,
                            .train = train,
                            .int8 = layout && layout->int8,
                            .gemm = gemm};
    if (layout)
        snprintf(c->layouts, sizeof c->layouts, "%s%s", layout->orders,
                 s->pool == WHERRY_POOL_POOLER ? layout->pooler : "");
    snprintf(c->device, sizeof c->device, "%s", device);
    snprintf(c->name, sizeof c->name, "%s %s %s %s%s%s%s%s%s", device, s->name, c->plan, type_names[dtype],
             train ? " training" : "", gemm ? " " : "", gemm ? gemm : "", layout ? " " : "",
             layout ? layout->name : "");
    return has_words(c);
}

enum { KINDS = 6 };
static const struct {
    wherry_dtype dtype;
    bool train;
} kinds[KINDS] = {{WHERRY_DTYPE_F32},       {WHERRY_DTYPE_F16},  {WHERRY_DTYPE_F32, true},
                  {WHERRY_DTYPE_F16, true}, {WHERRY_DTYPE_BF16}, {WHERRY_DTYPE_BF16, true}};

/* All cases of a shape on a device, which are `n` more. */
static size_t add_shape(const struct tested *t, const struct shape *s, int argc, struct test_case *cases)
{
    const char *device = t->id, *const *rungs = t->rungs;
    bool few = getenv("WHERRY_TEST_FEW"), opencl = !strncmp(device, "opencl", 6);
    bool all = !few && (argc > 1 || getenv("WHERRY_TEST_SHAPES") || t->gpu);
    const char *words = all ? NULL : few ? s->few : opencl ? s->opencl : s->vulkan;
    const char *rung = getenv("WHERRY_TEST_RUNG");
    size_t n = 0;
    bool host = !all && !strcmp(device, "cpu");
    char both[256];
    if (!all && !words && !host) return 0;
    for (size_t p = 0; p < 3; p++)
        for (size_t kind = 0; kind < KINDS; kind++) {
            wherry_dtype dtype = kinds[kind].dtype;
            bool narrow = dtype != WHERRY_DTYPE_F32, train = kinds[kind].train, bf16 = dtype == WHERRY_DTYPE_BF16;
            if (narrow && !t->f16) continue;
            if (host ? train != s->train || !host_takes(s, p, dtype, both)
                     : !all && ((train != s->train && (train || !bf16)) || !takes(words, p, dtype)))
                continue;
            if (bf16 && p && all) continue; /* its kernels in other plans are those of the other types */
            for (size_t l = 0; l <= LAYOUTS; l++) {
                const struct layout *layout = l ? &layouts[l - 1] : NULL;
                if (layout && !takes_layout(s, layout, host ? both : words, p, train)) continue;
                if (layout && layout->int8 && bf16) continue;
                if (rung && narrow && p == 0) n += add(&cases[n], device, s, p, dtype, train, layout, rung);
                if (rung) continue;
                n += add(&cases[n], device, s, p, dtype, train, layout, few ? "tiled" : NULL); /* not a library's */
                /* What is forced has kernels in the plan flash. */
                for (int r = 0; rungs[r] && !few && narrow && p == 0; r++)
                    if (!bf16 || strcmp(rungs[r], "coopmat"))
                        n += add(&cases[n], device, s, p, dtype, train, layout, rungs[r]);
                /* Which nobody has measured yet: by itself a session may leave them out. */
                if (bf16 && t->bf16_matrices && !few && p == 0)
                    n += add(&cases[n], device, s, p, dtype, train, layout, "coopmat");
            }
        }
    return n;
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
    size_t most = n_devices * (sizeof shapes / sizeof *shapes) * 3 * KINDS * (LAYOUTS + 1) * RUNG_COUNT;
    struct test_case *cases = calloc(most + 1, sizeof *cases);
    struct CMUnitTest *tests = calloc(most + 1, sizeof *tests);
    for (size_t d = 0; d < n_devices; d++) {
        const struct tested t = tested_device(devices[d]);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (named(&shapes[s], argc, argv)) n += add_shape(&t, &shapes[s], argc, &cases[n]);
    }
    for (size_t i = 0; i < n; i++) tests[i] = (struct CMUnitTest){cases[i].name, test_one, NULL, NULL, &cases[i]};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n ? _cmocka_run_group_tests("groups", tests, n, NULL, NULL) : 1;
    printf("%u groups checked on %zu devices\n", groups_checked, n_devices);
    if (!n) fprintf(stderr, "no device or no such shape\n");
    free(cases);
    free(tests);
    wherry_context_destroy(context);
    return failed != 0;
}
