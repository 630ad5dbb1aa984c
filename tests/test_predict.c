/* Limit times by a device's peaks: the numbers that the literature gives for known devices and operators come out of
 * the graph. No device. */
#include "analysis/fusion.h"
#include "graph/builder.h"
#include "support.h"
#include "wherry/wherry_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { BATCH = 32, LENGTH = 2048, WIDTH = 4096 };
static const double trip = 2.0 * BATCH * LENGTH * WIDTH; /* the tensor [32, 2048, 4096] in f16 through memory, once */

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected))) fail_msg("%.17g instead of %.17g", value, expected);
}

static const wherry_device_spec *named(const char *name)
{
    const wherry_device_spec *spec;
    for (size_t n = 0; (spec = wherry_device_spec_at(n)) != NULL; n++)
        if (!strcmp(spec->name, name)) return spec;
    fail_msg("no device %s", name);
    return NULL;
}

/* ---- devices ---- */

static double ridge(const char *name) { return wherry_device_spec_ridge(named(name), WHERRY_CLASS_CONTRACTION, 0); }

static void test_ridge_points(void **state)
{
    (void)state;
    const wherry_device_spec *spec;
    size_t count = 0;
    for (; (spec = wherry_device_spec_at(count)) != NULL; count++)
        assert_true(spec->matrix_flops >= spec->f32_flops && *spec->source);
    assert_true(count > 0);
    assert_null(wherry_device_spec_at(SIZE_MAX));
    assert_int_equal(lround(ridge("v100")), 139);
    assert_int_equal(lround(ridge("a100")), 153);
    assert_int_equal(lround(ridge("h100")), 296); /* 295.52: "about 295" where it is cut */
    assert_int_equal((int)ridge("h100"), 295);
    assert_int_equal(lround(ridge("h200")), 206);

    wherry_device_spec small = *named("a100"); /* the one of 40 GB, as Horace He has it */
    small.bandwidth = 1.5e12;
    assert_near(wherry_device_spec_ridge(&small, WHERRY_CLASS_CONTRACTION, WHERRY_DTYPE_F16), 208, 1e-12);
    assert_near(wherry_device_spec_ridge(&small, WHERRY_CLASS_CONTRACTION, WHERRY_DTYPE_F32), 13, 1e-12);
    assert_near(wherry_device_spec_ridge(&small, WHERRY_CLASS_NORMALIZATION, WHERRY_DTYPE_F16), 13, 1e-12);
    small.bandwidth = 0;
    assert_true(isnan(wherry_device_spec_ridge(&small, WHERRY_CLASS_CONTRACTION, 0)));
}

static void test_limits(void **state)
{
    (void)state;
    wherry_device_spec spec = {.name = "plain", .bandwidth = 100, .matrix_flops = 1000, .f32_flops = 50};
    wherry_prediction p;
    wherry_predict(&spec, 0, &(wherry_work){.bytes = 200, .contraction_flops = 1000}, &p);
    assert_true(p.bound == WHERRY_REGIME_MEMORY && p.limit_seconds == 2 && p.memory_seconds == 2);
    assert_true(p.compute_seconds == 1 && p.intensity == 5 && p.flops_share == 0.5 && isnan(p.cache_seconds));
    wherry_predict(&spec, WHERRY_DTYPE_F32, &(wherry_work){.bytes = 200, .contraction_flops = 1000}, &p);
    assert_true(p.bound == WHERRY_REGIME_COMPUTE && p.limit_seconds == 20 && p.flops_share == 1);

    /* Products and the rest: side by side in f16, one after the other in f32. */
    wherry_work both = {.bytes = 100, .contraction_flops = 2000, .other_flops = 75};
    wherry_predict(&spec, WHERRY_DTYPE_F16, &both, &p);
    assert_true(p.compute_seconds == 2 && p.bound == WHERRY_REGIME_COMPUTE);
    wherry_predict(&spec, WHERRY_DTYPE_F32, &both, &p);
    assert_true(p.compute_seconds == 41.5);

    spec.launch_seconds = 3;
    spec.cache_bytes = 150;
    spec.cache_bandwidth = 400;
    wherry_predict(&spec, 0, &(wherry_work){.bytes = 100}, &p);
    assert_true(p.bound == WHERRY_REGIME_LAUNCH && p.limit_seconds == 3 && p.cache_seconds == 0.25);
    wherry_predict(&spec, 0, &(wherry_work){.bytes = 1000}, &p);
    assert_true(p.bound == WHERRY_REGIME_MEMORY && p.limit_seconds == 10 && isnan(p.cache_seconds));

    wherry_predict(&(wherry_device_spec){.name = "unknown"}, 0, &both, &p);
    assert_true(p.bound == WHERRY_REGIME_UNKNOWN && p.limit_seconds == 0 && p.flops_share == 0);
    wherry_predict(&spec, 0, &(wherry_work){.bytes = 0}, &p);
    assert_true(isnan(p.intensity) && p.limit_seconds == 3);
}

/* ---- operators of an encoder's layer ---- */

static wherry_model_config layer_config(uint32_t hidden, wherry_activation activation)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 1,
                                 .hidden = hidden,
                                 .heads = hidden / 64,
                                 .feed_forward = WIDTH,
                                 .vocabulary = 1,
                                 .positions = 1,
                                 .token_types = 1,
                                 .activation = activation,
                                 .epsilon = 1e-12f};
}

static wherry_analysis *analyze(wherry_context *context, wherry_analysis_desc desc)
{
    wherry_analysis *analysis = NULL;
    desc.struct_size = sizeof desc;
    desc.batch = BATCH;
    desc.length = LENGTH;
    desc.layer_only = true;
    if (wherry_analyze(context, &desc, &analysis)) fail_msg("%s", wherry_last_error(context));
    return analysis;
}

static const wherry_cost *operator_of(const wherry_analysis *analysis, const char *name)
{
    size_t count;
    const wherry_cost *costs = wherry_analysis_operators(analysis, &count);
    for (size_t n = 0; n < count; n++)
        if (!strcmp(costs[n].name, name)) return &costs[n];
    fail_msg("no operator %s", name);
    return NULL;
}

static wherry_prediction predict(const wherry_analysis *analysis, const char *name, const char *device,
                                 wherry_dtype dtype)
{
    wherry_work work;
    wherry_prediction p;
    wherry_operator_work(operator_of(analysis, name), &work);
    wherry_predict(named(device), dtype, &work, &p);
    return p;
}

/* 10 flop an element, 2 bytes in and 2 out: 2.5 flop per byte, under 1 % of an H100's arithmetic. */
static void test_gelu(void **state)
{
    wherry_model_config config = layer_config(1024, WHERRY_ACTIVATION_GELU);
    wherry_analysis *a = analyze(*state, (wherry_analysis_desc){.config = &config, .plan = "unfused"});
    const wherry_cost *gelu = operator_of(a, "layer.0.activation");
    assert_true((double)gelu->bytes_read == trip && (double)gelu->bytes_written == trip);
    assert_true(gelu->flops == 10 * trip / 2);
    wherry_prediction p = predict(a, gelu->name, "h100", 0);
    assert_true(p.intensity == 2.5);
    assert_int_equal(p.bound, WHERRY_REGIME_MEMORY);
    assert_near(p.flops_share, 2.5 / ridge("h100"), 1e-12);
    assert_true(p.flops_share > 0.0084 && p.flops_share < 0.0085);
    assert_near(p.limit_seconds, 320.5e-6, 1e-4);
    wherry_analysis_destroy(a);
}

/* By our rules in flop per byte. Per word of f16 twice that: the paper's 3.5 for a layernorm, 2.5 for a softmax, 0.5
 * for a dropout that makes its mask itself and for a bias. */
static void test_intensities(void **state)
{
    static const struct {
        const char *name;
        double f16;
    } expected[] = {{"layer.0.norm1", 1.75},          {"layer.0.softmax", 1.25},   {"layer.0.attention_dropout", 0.25},
                    {"layer.0.out_dropout", 0.25},    {"layer.0.activation", 2.5}, {"layer.0.lin1_bias", 0.25},
                    {"layer.0.out_residual", 1.0 / 6}};
    static const char *const devices[] = {"v100", "a100", "h100", "h200"};
    wherry_model_config config = layer_config(1024, WHERRY_ACTIVATION_GELU_TANH);
    wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    for (wherry_dtype dtype = WHERRY_DTYPE_F32; dtype <= WHERRY_DTYPE_F16; dtype++) {
        wherry_analysis *a = analyze(
            *state,
            (wherry_analysis_desc){.config = &config, .plan = "unfused", .training = &training, .dtype = dtype});
        for (size_t n = 0; n < sizeof expected / sizeof *expected; n++)
            for (size_t d = 0; d < 4; d++) {
                wherry_prediction p = predict(a, expected[n].name, devices[d], dtype);
                assert_near(p.intensity, dtype == WHERRY_DTYPE_F32 ? expected[n].f16 / 2 : expected[n].f16, 1e-4);
                assert_int_equal(p.bound, WHERRY_REGIME_MEMORY);
            }
        wherry_prediction linear = predict(a, "layer.0.lin1", "v100", dtype);
        assert_int_equal(linear.bound, WHERRY_REGIME_COMPUTE);
        wherry_analysis_destroy(a);
    }
}

/* ---- fusion ---- */

/* A graph of a few operators on [32, 2048, 4096], put together by hand. */
struct chain {
    struct graph g;
    struct builder b;
    struct error e;
    wherry_model_config config;
    struct graph_options options;
    uint32_t offsets[BATCH + 1];
    struct batch_shape batch;
    int last;
};

static void chain_begin(struct chain *c)
{
    memset(c, 0, sizeof *c);
    c->config.epsilon = 1e-12f;
    c->options.config = &c->config;
    c->g.host = &support_host;
    c->g.dims.of['i'] = c->g.dims.of['u'] = WIDTH;
    c->g.input = c->g.out_gradient = c->g.in_gradient = -1;
    c->b = (struct builder){.g = &c->g, .options = &c->options, .e = &c->e, .ok = true};
    for (uint32_t s = 0; s <= BATCH; s++) c->offsets[s] = s * LENGTH;
    c->batch =
        (struct batch_shape){BATCH, c->offsets, (uint64_t)BATCH * LENGTH, (uint64_t)BATCH * LENGTH * LENGTH, LENGTH};
    c->last = builder_named(&c->b, "x", (struct tensor){.dims = "bji", .role = TENSOR_VALUE, .input = true});
    c->g.input = c->last;
}

static int chain_weight(struct chain *c, const char *name, const char *dims)
{
    return builder_named(&c->b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = WEIGHT_GAMMA1});
}

static void chain_add(struct chain *c, const char *name, enum role role, const struct op_kind *kind, int in1, int in2,
                      const char *dims, const char *einsum)
{
    int out = builder_value(&c->b, name, dims);
    c->last = builder_plain(&c->b, name, role, kind, out, (const int[]){c->last, in1, in2}, einsum);
}

static void chain_end(struct chain *c)
{
    c->g.n_forward = c->g.n_ops;
    c->g.output = c->last;
    c->g.tensors[c->last].output = true;
    assert_true(c->b.ok);
}

static double chain_seconds(const struct chain *c, const struct group *groups, int count,
                            const wherry_device_spec *spec, wherry_dtype dtype, double *bytes)
{
    double seconds = *bytes = 0;
    for (int n = 0; n < count; n++) {
        wherry_work work;
        wherry_prediction p;
        group_work(&c->g, &c->batch, &groups[n], dtype == WHERRY_DTYPE_F32 ? 4 : 2, &work);
        wherry_predict(spec, dtype, &work, &p);
        seconds += p.limit_seconds;
        *bytes += (double)work.bytes;
    }
    return seconds;
}

/* What is between two operators makes a trip out and one back that a kernel of both does not need. Three operators: six
 * trips, four of them wasted, 2.15 GB. */
static void test_product_layernorm_dropout(void **state)
{
    (void)state;
    struct chain c;
    struct group *groups;
    struct fusion f;
    int count;
    chain_begin(&c);
    chain_add(&c, "product", LIN1, &kind_contract, chain_weight(&c, "w", "ui"), -1, "bju", "bji,ui->bju");
    chain_add(&c, "norm", NORM1, &kind_layernorm, chain_weight(&c, "gamma", "u"), chain_weight(&c, "beta", "u"), "bju",
              NULL);
    chain_add(&c, "dropout", ACTIVATION_DROPOUT, &kind_dropout, -1, -1, "bju", NULL);
    chain_end(&c);
    if (!groups_create(&c.g, plan_find("unfused", &c.e), NULL, &groups, &count, &c.e)) fail_msg("%s", c.e.text);
    assert_int_equal(count, 3);
    const wherry_device_spec *h100 = named("h100");
    double before, after, apart = chain_seconds(&c, groups, count, h100, 0, &before), one;
    if (!fusion_change(&c.g, &c.batch, 2, groups, count, NULL, "product+norm+dropout", &f, &c.e))
        fail_msg("%s", c.e.text);
    assert_int_equal(f.n_groups, 1);
    one = chain_seconds(&c, f.groups, 1, h100, 0, &after);
    assert_true(before - after == 4 * trip);
    assert_true(4 * trip == 2147483648.0);
    assert_true(trip == 536870912.0);

    double bytes = 0, seconds = 0;
    for (int n = 0; n < f.n_decisions; n++) {
        bytes += (double)f.decisions[n].bytes_saved;
        seconds += wherry_predict_fusion(h100, 0, &f.decisions[n]);
    }
    assert_true(bytes == 4 * trip);
    assert_near(seconds, apart - one, 1e-9);
    /* The product is limited by its arithmetic on this device: all that the two others take goes away. */
    assert_near(seconds, 4 * trip / h100->bandwidth, 1e-4);
    fusion_destroy(&f);
    graph_destroy(&c.g);
}

/* The same in a layer of that width: three tensors between attention's output product and the layernorm after it. */
static void test_layer_fusion(void **state)
{
    wherry_model_config config = layer_config(WIDTH, WHERRY_ACTIVATION_GELU);
    wherry_analysis_desc desc = {.config = &config, .plan = "unfused", .fuse = "out+out_bias+out_residual+norm1"};
    wherry_analysis *a = analyze(*state, desc);
    size_t count;
    const wherry_fusion *fusions = wherry_analysis_fusions(a, &count);
    double bytes = 0;
    for (size_t n = 0; n < count; n++) bytes += (double)fusions[n].bytes_saved;
    assert_true(bytes == 6 * trip);
    wherry_analysis_destroy(a);
}

/* cos(cos(x)): four trips become two, and twice as fast. */
static void test_cos_of_cos(void **state)
{
    (void)state;
    static const struct op_kind kind_cos = {.name = "cos", .class_ = WHERRY_CLASS_ELEMENTWISE, .flops_per_element = 1};
    struct chain c;
    struct group *groups;
    struct fusion f;
    int count;
    chain_begin(&c);
    chain_add(&c, "cos", ACTIVATION, &kind_cos, -1, -1, "bji", NULL);
    chain_add(&c, "cos.cos", POOLER_TANH, &kind_cos, -1, -1, "bji", NULL);
    chain_end(&c);
    if (!groups_create(&c.g, plan_find("unfused", &c.e), NULL, &groups, &count, &c.e)) fail_msg("%s", c.e.text);
    const wherry_device_spec *a100 = named("a100");
    double before, after, apart = chain_seconds(&c, groups, count, a100, WHERRY_DTYPE_F32, &before), one;
    wherry_work work;
    wherry_prediction p;
    group_work(&c.g, &c.batch, &groups[0], 4, &work);
    wherry_predict(a100, WHERRY_DTYPE_F32, &work, &p);
    assert_true(p.intensity == 0.125);
    support_host.free(groups, NULL);

    if (!fusion_derive(&c.g, &c.batch, 4, &f, &c.e)) fail_msg("%s", c.e.text);
    assert_int_equal(f.n_groups, 1);
    assert_int_equal(f.n_decisions, 1);
    assert_true(f.decisions[0].accepted && f.decisions[0].pattern == WHERRY_FUSION_MAP_MAP);
    one = chain_seconds(&c, f.groups, 1, a100, WHERRY_DTYPE_F32, &after);
    assert_true(before == 4 * 2 * trip && after == before / 2);
    assert_true((double)f.decisions[0].bytes_saved == before - after);
    assert_near(apart / one, 2, 1e-12);
    assert_near(wherry_predict_fusion(a100, WHERRY_DTYPE_F32, &f.decisions[0]), apart - one, 1e-12);
    fusion_destroy(&f);
    graph_destroy(&c.g);
}

/* A layer of 12 ms, 4 of them products: never more than three times as fast. */
static void test_gain(void **state)
{
    (void)state;
    assert_near(wherry_fusion_gain(4e-3, 8e-3, 0), 3, 1e-12);
    assert_near(wherry_fusion_gain(4e-3, 8e-3, 1.0 / 3), 1.8, 1e-12); /* of three round trips one is left */
    assert_near(wherry_fusion_gain(4e-3, 8e-3, 2.0 / 3), 9.0 / 7, 1e-12);
    assert_near(wherry_fusion_gain(4e-3, 8e-3, 0.02), 12 / 4.16, 1e-12); /* their arithmetic alone, at 2 % of peak */
    assert_near(wherry_fusion_gain(4e-3, 8e-3, 1), 1, 1e-12);
    assert_true(isnan(wherry_fusion_gain(4e-3, 8e-3, -0.1)) && isnan(wherry_fusion_gain(4e-3, 8e-3, 1.1)));
    assert_true(isnan(wherry_fusion_gain(-1, 8e-3, 0)) && isnan(wherry_fusion_gain(0, 1, 0)));
    assert_true(isnan(wherry_fusion_gain(NAN, 1, 0.5)));
}

/* Nothing becomes slower by being fused, and a group's work is that of its operators. */
static void test_plans(void **state)
{
    static const char *const plan_names[] = {"flash", "paper", "unfused", NULL};
    wherry_model_config config = layer_config(1024, WHERRY_ACTIVATION_RELU);
    wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    wherry_device_spec spec = *named("h200");
    spec.launch_seconds = 2e-6;
    for (int n = 0; n < 4; n++) {
        wherry_analysis *a = analyze(*state, (wherry_analysis_desc){.config = &config,
                                                                    .plan = plan_names[n],
                                                                    .training = &training,
                                                                    .fuse = plan_names[n] ? NULL : "auto"});
        size_t count, operators, decisions;
        const wherry_cost *groups = wherry_analysis_groups(a, &count), *ops = wherry_analysis_operators(a, &operators);
        const wherry_fusion *fusions = wherry_analysis_fusions(a, &decisions);
        for (size_t i = 0; i < count; i++) {
            wherry_work work, one;
            wherry_prediction p;
            double flops = 0, apart = 0;
            wherry_analysis_work(a, i, &work);
            wherry_predict(&spec, 0, &work, &p);
            assert_true(work.bytes == groups[i].bytes_read + groups[i].bytes_written);
            assert_near(work.contraction_flops + work.other_flops, groups[i].flops, 1e-12);
            for (size_t o = 0; o < operators; o++) {
                wherry_prediction alone;
                if (wherry_analysis_group_of(a, o) != i) continue;
                wherry_operator_work(&ops[o], &one);
                wherry_predict(&spec, 0, &one, &alone);
                flops += one.contraction_flops;
                apart += alone.limit_seconds;
            }
            assert_near(work.contraction_flops, flops, 1e-12);
            assert_true(p.limit_seconds <= apart * (1 + 1e-12));
            if (groups[i].operators == 1) assert_near(p.limit_seconds, apart, 1e-12);
        }
        for (size_t i = 0; i < decisions; i++) assert_true(wherry_predict_fusion(&spec, 0, &fusions[i]) > -1e-15);
        assert_true(plan_names[n] || decisions > 0);
        wherry_work none;
        wherry_analysis_work(a, count, &none);
        assert_true(none.bytes == 0 && none.contraction_flops == 0);
        wherry_analysis_destroy(a);
    }
}

static int make_context(void **state)
{
    wherry_context_desc desc = {.struct_size = sizeof desc};
    wherry_context *context = NULL;
    wherry_status status = wherry_context_create(&desc, &context);
    *state = context;
    return status != WHERRY_STATUS_OK;
}

static int free_context(void **state)
{
    wherry_context_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ridge_points), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_gelu),         cmocka_unit_test(test_intensities),
        cmocka_unit_test(test_gain),         cmocka_unit_test(test_product_layernorm_dropout),
        cmocka_unit_test(test_layer_fusion), cmocka_unit_test(test_cos_of_cos),
        cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
