/* The reference's own gradients against central differences, all in double: every weight and the input, in every kind
 * of encoder. No device. */
#include "graph/kinds.h"
#include "graph/values.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint32_t offsets[] = {0, 4, 5, 10};
static const struct batch_shape batch = {3, offsets, 10, 16 + 1 + 25, 5};

enum { HIDDEN = 12, VOCABULARY = 7, POSITIONS = 6, TYPES = 2 };

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 4503599627370496.0 - 1; /* [-1, 1) */
}

struct run {
    struct graph g;
    struct values v;
    uint32_t ids[10], positions[10], types[10];
};

static void run_make(struct run *r, const struct graph_options *options)
{
    struct error e = {0};
    if (!graph_create(&support_host, options, &r->g, &e)) fail_msg("%s", e.text);
    if (!values_create(&r->g, &r->v, &e)) fail_msg("%s", e.text);
    r->v.seed = 77;
    r->v.step = 3;
    state = 5;
    for (uint32_t s = 0; s < batch.sequences; s++)
        for (uint32_t t = offsets[s]; t < offsets[s + 1]; t++) {
            r->positions[t] = t - offsets[s];
            r->ids[t] = (t * 5 + 1) % VOCABULARY;
            r->types[t] = t % TYPES;
        }
    for (int t = 0; t < r->g.n_tensors; t++) {
        const struct tensor *tensor = &r->g.tensors[t];
        if (tensor->u32 && tensor->role == TENSOR_BATCH) {
            r->v.ids[t] = tensor->data == BATCH_IDS ? r->ids : tensor->data == BATCH_TYPES ? r->types : r->positions;
        } else if (tensor->parent < 0) {
            size_t n = (size_t)tensor_elements(&r->g, &batch, t);
            r->v.of[t] = malloc(n * sizeof(double));
            bool gamma = tensor->role == TENSOR_WEIGHT && strstr(tensor->name, "gamma");
            for (size_t i = 0; i < n; i++) r->v.of[t][i] = gamma ? 1 + 0.3 * uniform() : uniform();
        }
    }
}

static void run_free(struct run *r)
{
    values_destroy(&r->g, &r->v);
    graph_destroy(&r->g);
}

static void run_ops(struct run *r, int first, int end)
{
    struct error e = {0};
    for (int o = first; o < end; o++)
        if (!r->g.ops[o].kind->reference(&r->g, &r->g.ops[o], &batch, &r->v, &e)) fail_msg("%s", e.text);
}

/* The loss: the output times its gradient. */
static double loss(struct run *r)
{
    run_ops(r, 0, r->g.n_forward);
    double sum = 0;
    size_t n = (size_t)tensor_elements(&r->g, &batch, r->g.output);
    for (size_t i = 0; i < n; i++) sum += r->v.of[r->g.output][i] * r->v.of[r->g.out_gradient][i];
    return sum;
}

/* Along a random direction, which all elements take part in; the error is relative to the sizes of both. */
static void check_tensor(struct run *r, int tensor, int gradient)
{
    const double step = 1e-5;
    size_t n = (size_t)tensor_elements(&r->g, &batch, tensor);
    double *at = r->v.of[tensor], *direction = malloc(n * sizeof(double)), *saved = malloc(n * sizeof(double));
    double slope = 0, size = 0;
    memcpy(saved, at, n * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        direction[i] = uniform();
        slope += direction[i] * r->v.of[gradient][i];
        size += fabs(direction[i] * r->v.of[gradient][i]);
    }
    double difference = 0;
    for (int k = 1; k <= 2; k++) { /* with the error of third order taken out */
        for (size_t i = 0; i < n; i++) at[i] = saved[i] + k * step * direction[i];
        double up = loss(r);
        for (size_t i = 0; i < n; i++) at[i] = saved[i] - k * step * direction[i];
        double down = loss(r);
        difference += (k == 1 ? 4.0 : -1.0) / 3 * (up - down) / (2 * k * step);
    }
    memcpy(at, saved, n * sizeof(double));
    if (!(fabs(difference - slope) <= 1e-6 * size))
        fail_msg("%s: the gradient says %.12g, differences %.12g (sizes %.3g)", r->g.tensors[tensor].name, slope,
                 difference, size);
    assert_true(size > 0);
    free(direction);
    free(saved);
}

static void check_all(const struct graph_options *options)
{
    struct run r = {0};
    int checked = 0;
    run_make(&r, options);
    loss(&r);
    run_ops(&r, r.g.n_forward, r.g.n_ops);
    for (int t = 0; t < r.g.n_tensors; t++)
        if (r.g.tensors[t].gradient_of >= 0) {
            check_tensor(&r, r.g.tensors[t].gradient_of, t);
            checked++;
        }
    if (r.g.input >= 0) check_tensor(&r, r.g.input, r.g.in_gradient);
    assert_true(checked >= 12);
    run_free(&r);
}

static wherry_model_config small_config(wherry_activation activation, bool pre)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 2,
                                 .hidden = HIDDEN,
                                 .heads = 2,
                                 .feed_forward = 17,
                                 .vocabulary = VOCABULARY,
                                 .positions = POSITIONS,
                                 .token_types = TYPES,
                                 .activation = activation,
                                 .pre_layernorm = pre,
                                 .pooler = true,
                                 .epsilon = 1e-3f};
}

static void test_stacks(void **unused)
{
    (void)unused;
    for (int activation = 0; activation < 3; activation++)
        for (int pre = 0; pre < 2; pre++)
            for (int dropout = 0; dropout < 2; dropout++)
                for (int flash = 0; flash < 2; flash++) {
                    wherry_model_config config = small_config((wherry_activation)activation, pre);
                    check_all(&(struct graph_options){.config = &config,
                                                      .pool = WHERRY_POOL_NONE,
                                                      .stack = true,
                                                      .training = true,
                                                      .dropout = dropout ? 0.2f : 0,
                                                      .flash = flash,
                                                      .save = WHERRY_SAVE_DEFAULT});
                }
}

/* A bias by distance, whose table all layers share; keys are farther than its last row begins, too. */
static void test_distances(void **unused)
{
    (void)unused;
    for (int flash = 0; flash < 2; flash++)
        for (int parts = 1; parts < 4; parts += 2) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, flash != 0);
            config.layers = 3;
            config.relative_buckets = 8;
            config.relative_distance = 3;
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_MEAN,
                                              .training = true,
                                              .dropout = 0.2f,
                                              .flash = flash,
                                              .save = parts > 1 ? WHERRY_SAVE_LEAST : WHERRY_SAVE_DEFAULT,
                                              .qkv_parts = (uint32_t)parts});
        }
}

/* Some layers that keep the least before others that do not: what one makes again another may read. */
static void test_least_layers(void **unused)
{
    (void)unused;
    for (int flash = 0; flash < 2; flash++)
        for (int slopes = 0; slopes < 2; slopes++)
            for (int least = 1; least < 3; least++) {
                wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, flash == slopes);
                config.layers = 3;
                check_all(&(struct graph_options){.config = &config,
                                                  .pool = WHERRY_POOL_MEAN,
                                                  .training = true,
                                                  .dropout = 0.2f,
                                                  .flash = flash,
                                                  .slopes = slopes,
                                                  .least_layers = least});
            }
}

/* Gates of all activations, either half of which gates, with and without what their gradients multiply with. */
static void test_gates(void **unused)
{
    (void)unused;
    for (int activation = WHERRY_ACTIVATION_GELU; activation <= WHERRY_ACTIVATION_SILU; activation++)
        for (int slopes = 0; slopes < 2; slopes++)
            for (int dropout = 0; dropout < 2; dropout++)
                for (int gate = WHERRY_GATE_FIRST; gate <= WHERRY_GATE_SECOND; gate++) {
                    wherry_model_config config = small_config((wherry_activation)activation, dropout != slopes);
                    config.gate = (wherry_gate)gate;
                    config.without = gate == WHERRY_GATE_FIRST ? WHERRY_WITHOUT_LIN1_BIAS : 0;
                    check_all(&(struct graph_options){.config = &config,
                                                      .pool = WHERRY_POOL_MEAN,
                                                      .training = true,
                                                      .dropout = dropout ? 0.2f : 0,
                                                      .flash = true,
                                                      .slopes = slopes,
                                                      .save = WHERRY_SAVE_DEFAULT});
                }
}

/* Norms of each kind, without their biases, and without the first and the embeddings' own. */
static void test_norms(void **unused)
{
    (void)unused;
    for (int norm = WHERRY_NORM_LAYER; norm <= WHERRY_NORM_RMS_ONE; norm++)
        for (int pre = 0; pre < 2; pre++)
            for (int flash = 0; flash < 2; flash++) {
                wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, pre);
                config.norm = (wherry_norm)norm;
                config.without = WHERRY_WITHOUT_NORM_BIAS;
                if (pre) config.without |= WHERRY_WITHOUT_FIRST_NORM;
                if (flash) config.without |= WHERRY_WITHOUT_EMBED_NORM;
                check_all(&(struct graph_options){.config = &config,
                                                  .pool = WHERRY_POOL_MEAN,
                                                  .training = true,
                                                  .dropout = 0.2f,
                                                  .flash = flash,
                                                  .save = flash ? WHERRY_SAVE_DEFAULT : WHERRY_SAVE_LEAST});
            }
}

/* All heads of Q and of K normed at once, and two norms after attention. */
static void test_wide(void **unused)
{
    (void)unused;
    for (int flash = 0; flash < 2; flash++) {
        wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, false);
        config.wide_norms = config.double_norms = true;
        check_all(&(struct graph_options){.config = &config,
                                          .pool = WHERRY_POOL_MEAN,
                                          .training = true,
                                          .dropout = 0.2f,
                                          .flash = flash,
                                          .save = flash ? WHERRY_SAVE_DEFAULT : WHERRY_SAVE_LEAST});
    }
}

/* Heads of K and V that several of Q share, and heads whose channels are not hidden / heads. */
static void test_grouped(void **unused)
{
    (void)unused;
    for (int flash = 0; flash < 2; flash++)
        for (uint32_t keys = 1; keys < 3; keys++) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, flash != 0);
            config.heads = 4;
            config.key_heads = keys;
            config.head_channels = 4;
            config.rotary_base = keys == 1 ? 10 : 0;
            config.head_norms = keys == 2;
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_MEAN,
                                              .training = true,
                                              .dropout = 0.2f,
                                              .flash = flash,
                                              .save = flash ? WHERRY_SAVE_DEFAULT : WHERRY_SAVE_LEAST});
        }
}

/* Windows in one of two layers, causal attention, ALiBi. */
static void test_masks(void **unused)
{
    (void)unused;
    for (int flash = 0; flash < 2; flash++)
        for (int kind = 0; kind < 3; kind++) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, flash != 0);
            config.layers = 2;
            config.window = kind == 1 ? 0 : 1;
            config.global_every = kind == 0 ? 2 : 0;
            config.causal = kind == 1;
            config.alibi = kind == 2;
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_MEAN,
                                              .training = true,
                                              .dropout = 0.2f,
                                              .flash = flash,
                                              .save = flash ? WHERRY_SAVE_DEFAULT : WHERRY_SAVE_LEAST});
        }
}

/* Mixtures of experts in one of two layers, whose weights are parts of the softmax of all scores or of those chosen. */
static void test_mixtures(void **unused)
{
    (void)unused;
    for (int pre = 0; pre < 2; pre++)
        for (int normalized = 0; normalized < 2; normalized++)
            for (int save = WHERRY_SAVE_PAPER; save <= WHERRY_SAVE_LEAST; save++) {
                wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, pre);
                config.experts = 5;
                config.chosen_experts = normalized ? 3 : 2;
                config.experts_every = 2;
                config.experts_normalized = normalized;
                check_all(&(struct graph_options){.config = &config,
                                                  .pool = WHERRY_POOL_MEAN,
                                                  .training = true,
                                                  .dropout = 0.2f,
                                                  .flash = pre,
                                                  .save = (wherry_save)save});
            }
}

static void test_policies(void **unused)
{
    (void)unused;
    for (int save = WHERRY_SAVE_PAPER; save <= WHERRY_SAVE_LEAST; save++)
        for (int pre = 0; pre < 2; pre++)
            for (int flash = 0; flash < 2; flash++)
                for (int activation = 0; activation < 3; activation += 2) {
                    wherry_model_config config = small_config((wherry_activation)activation, pre);
                    check_all(&(struct graph_options){.config = &config,
                                                      .pool = WHERRY_POOL_MEAN,
                                                      .training = true,
                                                      .dropout = 0.2f,
                                                      .flash = flash,
                                                      .save = (wherry_save)save});
                }
}

static void test_products_apart(void **unused)
{
    (void)unused;
    for (uint32_t parts = 2; parts <= 3; parts++)
        for (int pre = 0; pre < 2; pre++) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, pre);
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_NONE,
                                              .stack = true,
                                              .training = true,
                                              .flash = parts == 2,
                                              .save = WHERRY_SAVE_DEFAULT,
                                              .qkv_parts = parts});
        }
}

/* Weights that lie transposed, slices of one that do, and weights in both orders. */
static void test_orders(void **unused)
{
    (void)unused;
    const uint32_t all = WEIGHT_BIT(WEIGHT_QKV) | WEIGHT_BIT(WEIGHT_OUT) | WEIGHT_BIT(WEIGHT_LIN1) |
                         WEIGHT_BIT(WEIGHT_LIN2) | WEIGHT_BIT(WEIGHT_POOLER);
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (int pre = 0; pre < 2; pre++) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, pre);
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_POOLER,
                                              .training = true,
                                              .flash = parts == 2,
                                              .save = WHERRY_SAVE_DEFAULT,
                                              .qkv_parts = parts,
                                              .layout.transposed = all});
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_POOLER,
                                              .training = true,
                                              .flash = parts == 2,
                                              .save = WHERRY_SAVE_LEAST,
                                              .layout.transposed = parts == 3 ? all : 0,
                                              .layout.copied = all});
        }
    for (int transposed = 0; transposed < 2; transposed++) /* Q, K and V of a head side by side */
        for (int flash = 0; flash < 2; flash++) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, flash);
            check_all(&(struct graph_options){.config = &config,
                                              .pool = WHERRY_POOL_MEAN,
                                              .training = true,
                                              .dropout = 0.2f,
                                              .flash = flash,
                                              .save = WHERRY_SAVE_DEFAULT,
                                              .layout.transposed = transposed ? WEIGHT_BIT(WEIGHT_QKV) : 0,
                                              .layout.copied = flash ? WEIGHT_BIT(WEIGHT_QKV) : 0,
                                              .layout.qkv_interleaved = true});
        }
}

static void test_heads(void **unused)
{
    (void)unused;
    for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_NONE; pool++)
        for (int pre = 0; pre < 2; pre++)
            for (int normalize = 0; normalize < 2; normalize++) {
                wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, pre);
                config.pooler = pool == WHERRY_POOL_POOLER;
                check_all(&(struct graph_options){.config = &config,
                                                  .pool = pool,
                                                  .normalize = normalize,
                                                  .training = true,
                                                  .flash = true,
                                                  .save = WHERRY_SAVE_DEFAULT});
            }
}

/* Classes of texts, with each dense layer that may stand before the classifier, and of tokens. */
static void test_classes(void **unused)
{
    (void)unused;
    for (int activation = WHERRY_HEAD_PLAIN; activation <= WHERRY_HEAD_GELU_TANH + 1; activation++)
        for (uint32_t labels = 1; labels <= 3; labels += 2)
            for (int save = WHERRY_SAVE_DEFAULT; save <= WHERRY_SAVE_LEAST; save += 3) {
                bool tokens = activation > WHERRY_HEAD_GELU_TANH;
                wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, labels == 3);
                config.head = tokens ? WHERRY_HEAD_TOKENS : WHERRY_HEAD_SEQUENCE;
                config.head_activation = tokens ? WHERRY_HEAD_PLAIN : (wherry_head_activation)activation;
                config.labels = labels;
                check_all(
                    &(struct graph_options){.config = &config,
                                            .output = tokens ? WHERRY_OUTPUT_TOKEN_CLASSES : WHERRY_OUTPUT_CLASSES,
                                            .pool = WHERRY_POOL_NONE,
                                            .training = true,
                                            .flash = true,
                                            .save = (wherry_save)save});
            }
}

/* What may stand after a pooling. */
static void test_modules(void **unused)
{
    (void)unused;
    static const struct module modules[] = {{.width = 5, .bias = true, .activation = WHERRY_HEAD_TANH},
                                            {.norm = true, .width = 5},
                                            {.width = 7},
                                            {.width = 3, .activation = WHERRY_HEAD_RELU}};
    for (uint32_t n = 0; n <= 4; n += 2)
        for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_NONE; pool += 2) {
            wherry_model_config config = small_config(WHERRY_ACTIVATION_GELU, false);
            check_all(&(struct graph_options){.config = &config,
                                              .pool = pool,
                                              .modules = modules,
                                              .n_modules = n,
                                              .normalize = n == 4,
                                              .training = true,
                                              .flash = true,
                                              .save = WHERRY_SAVE_DEFAULT});
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks),  cmocka_unit_test(test_distances), cmocka_unit_test(test_least_layers),
        cmocka_unit_test(test_norms),   cmocka_unit_test(test_grouped),   cmocka_unit_test(test_wide),
        cmocka_unit_test(test_masks),   cmocka_unit_test(test_policies),  cmocka_unit_test(test_products_apart),
        cmocka_unit_test(test_orders),  cmocka_unit_test(test_heads),     cmocka_unit_test(test_classes),
        cmocka_unit_test(test_modules), cmocka_unit_test(test_mixtures),  cmocka_unit_test(test_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
