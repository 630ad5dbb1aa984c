/* The graph's tables against the paper's counts, and what is derived from them: groups, bytes, calls. No device. */
#include "analysis/costs.h"
#include "graph/distances.h"
#include "graph/group.h"
#include "graph/kinds.h"
#include "graph/values.h"
#include "interface/interface.h"
#include "plan/tiles.h"
#include "plan/variants.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const wherry_model_config bert_large = {.struct_size = sizeof bert_large,
                                               .layers = 24,
                                               .hidden = 1024,
                                               .heads = 16,
                                               .feed_forward = 4096,
                                               .vocabulary = 30522,
                                               .positions = 512,
                                               .token_types = 2,
                                               .activation = WHERRY_ACTIVATION_RELU,
                                               .epsilon = 1e-12f};

/* One of its layers alone. */
static const wherry_model_config *one_layer(void)
{
    static wherry_model_config config;
    config = bert_large;
    config.layers = 1;
    return &config;
}

static struct batch_shape uniform(uint32_t *offsets, uint32_t batch, uint32_t length)
{
    for (uint32_t s = 0; s <= batch; s++) offsets[s] = s * length;
    return (struct batch_shape){batch, offsets, (uint64_t)batch * length, (uint64_t)batch * length * length, length};
}

static void make(struct graph *g, const struct graph_options *options)
{
    struct error e = {0};
    if (!graph_create(&support_host, options, g, &e)) fail_msg("%s", e.text);
}

/* Gflop of Table III, in units of 2^30 and rounded to 3 decimals. */
static const double paper_gflop[47] = {
    0,     24,    0.012, 4,  0.188, 4,     8,     0.004, 0.004, 0.004, /* forward */
    0.027, 32,    0.016, 0,  0.016, 32,    0.004, 0.004, 0.004, 0.027, /* backward from row 20 on */
    0.016, 0.035, 0.004, 32, 32,    0.004, 0.016, 0,     0.016, 32,    32, 0.004, 0.016, 0.035,
    0.004, 0.004, 8,     8,  4,     4,     0.156, 4,     4,     24,    24, 0.012, 0.004};

/* Plain options of a layer as the paper measures it. */
static struct graph_options training_layer(const wherry_model_config *config, bool flash)
{
    return (struct graph_options){.config = config,
                                  .pool = WHERRY_POOL_NONE,
                                  .stack = true,
                                  .training = true,
                                  .dropout = 0.1f,
                                  .flash = flash,
                                  .save = WHERRY_SAVE_PAPER};
}

static void test_flop_equal_the_paper(void **state)
{
    (void)state;
    struct graph g;
    uint32_t offsets[9];
    struct batch_shape b = uniform(offsets, 8, 512);
    struct graph_options options = training_layer(one_layer(), false);
    make(&g, &options);
    double rows[47] = {0}, products = 0;
    for (int o = 0; o < g.n_ops; o++) {
        assert_in_range(g.ops[o].paper_row, 1, 46);
        assert_true((g.ops[o].paper_row < 20) == (o < g.n_forward));
        rows[g.ops[o].paper_row] += op_flops(&g, &b, &g.ops[o]);
        if (*g.ops[o].einsum) products += op_flops(&g, &b, &g.ops[o]);
    }
    for (int r = 1; r < 47; r++) {
        double shown = round(rows[r] / (1 << 30) * 1000) / 1000;
        if (fabs(shown - paper_gflop[r]) > 1e-9)
            fail_msg("row %d: %.3f Gflop, the paper has %.3f", r, shown, paper_gflop[r]);
    }
    assert_true(products == 312.0 * (1 << 30));
    graph_destroy(&g);
}

static bool group_owns(const struct group *group, int op)
{
    for (int i = 0; i < group->count; i++)
        if (group->ops[i] == op) return true;
    return false;
}

static bool refuse_nothing(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    (void)g, (void)group, (void)reason, (void)size, (void)user;
    return true;
}

/* Of a device that runs whatever a plan has. */
static const struct group_filter all_optional = {.runs = refuse_nothing, .optional = true};

/* Every operator is in exactly one group; what a group reads was made before; everything that the graph gives is made.
 */
static void check_groups(const struct graph *g, const struct plan *plan, const struct group_filter *filter)
{
    struct error e = {0};
    struct group *groups;
    int n;
    if (!groups_create(g, plan, filter, &groups, &n, &e)) fail_msg("%s: %s", plan->name, e.text);
    char *made = calloc((size_t)g->n_tensors, 1);
    for (int t = 0; t < g->n_tensors; t++) made[t] = g->tensors[t].role != TENSOR_VALUE || g->tensors[t].input;
    for (int o = 0; o < g->n_ops; o++) {
        int owners = 0;
        for (int i = 0; i < n; i++) owners += group_owns(&groups[i], o);
        assert_int_equal(owners, 1);
    }
    for (int i = 0; i < n; i++) {
        assert_true(i < groups_forward(groups, n) || groups[i].backward);
        for (int r = 0; r < groups[i].n_reads; r++)
            if (!made[tensor_owner(g, groups[i].reads[r])])
                fail_msg("%s: %s reads %s before it is made", plan->name, groups[i].name,
                         g->tensors[groups[i].reads[r]].name);
        for (int w = 0; w < groups[i].n_writes; w++) made[tensor_owner(g, groups[i].writes[w])] = 1;
        struct call calls[GROUP_MAX_CALLS];
        int count;
        if (!group_calls(g, &groups[i], calls, &count, &e)) fail_msg("%s", e.text);
        for (int k = 0; k < count; k++) {
            for (int a = 1; a < calls[k].n_arguments; a++)
                assert_true(calls[k].arguments[a - 1].slot < calls[k].arguments[a].slot);
            for (int c = 1; c < calls[k].n_constants; c++)
                assert_true(calls[k].constants[c - 1].id < calls[k].constants[c].id);
        }
        for (int w = 0; w < groups[i].n_writes; w++) { /* by one of the calls */
            bool written = false;
            for (int k = 0; k < count; k++)
                for (int a = 0; a < calls[k].n_arguments; a++) {
                    int tensor = calls[k].arguments[a].tensor;
                    written |= calls[k].arguments[a].written && tensor >= 0 &&
                               tensor_owner(g, tensor) == tensor_owner(g, groups[i].writes[w]);
                }
            if (!written) fail_msg("%s: nothing writes %s", groups[i].name, g->tensors[groups[i].writes[w]].name);
        }
    }
    for (int t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].output && !made[t]) fail_msg("%s: %s is never made", plan->name, g->tensors[t].name);
    free(made);
    host_free(&support_host, groups);
}

static void test_training_groups_cover(void **state)
{
    (void)state;
    for (int pre = 0; pre < 2; pre++)
        for (int stack = 0; stack < 2; stack++)
            for (int dropout = 0; dropout < 2; dropout++)
                for (int save = WHERRY_SAVE_DEFAULT; save <= WHERRY_SAVE_LEAST; save++)
                    for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_NONE; pool++)
                        for (size_t p = 0; p < plans_count; p++) {
                            wherry_model_config config = bert_large;
                            config.layers = 3;
                            config.pre_layernorm = pre;
                            config.activation = (wherry_activation)(save % 3);
                            struct graph_options options = training_layer(&config, p == 0);
                            options.stack = stack;
                            options.dropout = dropout ? 0.1f : 0;
                            options.save = (wherry_save)save;
                            options.normalize = !stack;
                            if (!stack) options.pool = pool;
                            struct graph g;
                            make(&g, &options);
                            check_groups(&g, &plans[p], NULL);
                            check_groups(&g, &plans[p], &all_optional);
                            /* Every weight has its gradient. */
                            for (int t = 0; t < g.n_tensors; t++) {
                                int found = 0;
                                for (int d = 0; d < g.n_tensors; d++) found += g.tensors[d].gradient_of == t;
                                assert_int_equal(found, g.tensors[t].role == TENSOR_WEIGHT);
                            }
                            graph_destroy(&g);
                        }
}

static void test_groups_cover(void **state)
{
    (void)state;
    for (int pre = 0; pre < 2; pre++)
        for (int stack = 0; stack < 2; stack++)
            for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_NONE; pool++) {
                wherry_model_config config = bert_large;
                config.layers = 2;
                config.pre_layernorm = pre;
                struct graph g;
                make(&g, &(struct graph_options){.config = &config, .pool = pool, .normalize = true, .stack = stack});
                for (size_t p = 0; p < plans_count; p++) {
                    check_groups(&g, &plans[p], NULL);
                    check_groups(&g, &plans[p], &all_optional);
                }
                graph_destroy(&g);
            }
}

static uint64_t plan_bytes(const struct graph *g, const struct batch_shape *b, const char *name, int *launches)
{
    struct error e = {0};
    struct group *groups;
    uint64_t total = 0;
    if (!groups_create(g, plan_find(name, &e), NULL, &groups, launches, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < *launches; i++) {
        uint64_t read, written;
        group_bytes(g, b, &groups[i], 2, &read, &written);
        total += read + written;
    }
    host_free(&support_host, groups);
    return total;
}

/* One layer in inference, words counted by hand from the formulas of PAPER.md section 8.1. */
static void test_bytes_of_plans(void **state)
{
    (void)state;
    struct graph g;
    uint32_t offsets[9];
    struct batch_shape b = uniform(offsets, 8, 512);
    make(&g, &(struct graph_options){.config = one_layer(), .pool = WHERRY_POOL_NONE, .stack = true});
    uint64_t x = 4194304, s = 33554432, f = 16777216, wqkv = 3145728, wo = 1048576, w1 = 4194304, i = 1024, u = 4096;
    uint64_t products = (x + wqkv + 3 * x) + (x + wo + x) + (x + w1 + f) + (f + w1 + x);
    uint64_t unfused = products + (6 * x + 3 * i) + (2 * x + s) + 2 * s + (s + 2 * x) + (2 * x + i) + 3 * x +
                       (2 * x + 2 * i) + (2 * f + u) + 2 * f + (2 * x + i) + 3 * x + (2 * x + 2 * i);
    uint64_t paper = products + (6 * x + 3 * i) + (2 * x + s) + 2 * s + (s + 2 * x) + 2 * (3 * x + 3 * i) + (2 * f + u);
    uint64_t flash = (4 * x + wqkv + 3 * i) + 4 * x + (3 * x + wo + i) + (2 * x + 2 * i) + (x + w1 + u + f) +
                     (f + w1 + i + 2 * x) + (2 * x + 2 * i);
    int launches;
    assert_int_equal(plan_bytes(&g, &b, "unfused", &launches), 2 * unfused);
    assert_int_equal(launches, 16);
    assert_int_equal(plan_bytes(&g, &b, "paper", &launches), 2 * paper);
    assert_int_equal(launches, 11); /* the paper's forward launches */
    assert_int_equal(plan_bytes(&g, &b, "flash", &launches), 2 * flash);
    assert_int_equal(launches, 7);
    graph_destroy(&g);
}

/* The call of a fused group has what its operators bring, and nothing that has to be written by hand. */
static void test_call_of_attention(void **state)
{
    (void)state;
    struct graph g;
    struct error e = {0};
    struct group *groups;
    struct call calls[GROUP_MAX_CALLS], call;
    int n, count;
    make(&g, &(struct graph_options){.config = one_layer(), .pool = WHERRY_POOL_NONE, .stack = true});
    assert_true(groups_create(&g, plan_find("flash", &e), NULL, &groups, &n, &e));
    assert_string_equal(groups[1].name, "layer.0.attention");
    assert_true(group_calls(&g, &groups[1], calls, &count, &e));
    assert_int_equal(count, 1);
    call = calls[0];
    const uint8_t slots[] = {SLOT_X, SLOT_W, SLOT_V, SLOT_Y};
    assert_int_equal(call.n_arguments, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(call.arguments[i].slot, slots[i]);
    assert_int_equal(call_get(&call, CONST_X_OFFSET, 99), 0);
    assert_int_equal(call_get(&call, CONST_W_OFFSET, 0), 1024);
    assert_int_equal(call_get(&call, CONST_V_OFFSET, 0), 2048);
    assert_int_equal(call_get(&call, CONST_V_STRIDE, 0), 3072);
    assert_int_equal(call_get(&call, CONST_Y_STRIDE, 0), 1024);
    assert_int_equal(call_get(&call, CONST_HEAD_DIM, 0), 64);
    float scale;
    uint32_t bits = call_get(&call, CONST_SCALE, 0);
    memcpy(&scale, &bits, 4);
    assert_true(scale == 0.125f);
    host_free(&support_host, groups);
    graph_destroy(&g);
}

/* A refused group that no shorter row begins like becomes single operators, and the one who asked is told. */
static bool refuse_attention(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    (void)g, (void)user;
    if (strcmp(group->kernel, "attention")) return true;
    snprintf(reason, size, "no attention today");
    return false;
}

static void count_split(const struct graph *g, const struct group *group, const char *reason, void *user)
{
    (void)g;
    assert_string_equal(group_short_name(group), "attention");
    assert_string_equal(reason, "no attention today");
    ++*(int *)user;
}

static void test_split(void **state)
{
    (void)state;
    struct graph g;
    struct error e = {0};
    struct group *groups;
    int n, splits = 0;
    wherry_model_config config = bert_large;
    config.layers = 3;
    make(&g, &(struct graph_options){.config = &config, .pool = WHERRY_POOL_MEAN});
    const struct group_filter filter = {refuse_attention, count_split, &splits};
    assert_true(groups_create(&g, plan_find("flash", &e), &filter, &groups, &n, &e));
    assert_int_equal(splits, 3);
    assert_int_equal(n, 1 + 3 * (7 + 2) + 1);
    assert_string_equal(groups[2].name, "layer.0.scores");
    host_free(&support_host, groups);
    graph_destroy(&g);
}

/* A layernorm's stranger: another kind in its role, with a constant that no kernel of layernorms knows. */
static void constants_stranger(const struct graph *g, const struct group *group, const struct op *o, struct call *call)
{
    (void)group;
    call_set(call, CONST_N, tensor_row_length(g, o->out[0]));
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, CONST_POOL, POOL_MEAN);
}

/* A device that has the portable kernels and no others. */
static bool refuse_unknown(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    struct error e = {0};
    struct call calls[GROUP_MAX_CALLS];
    int count;
    (void)user;
    if (!group_calls(g, group, calls, &count, &e)) fail_msg("%s", e.text);
    snprintf(reason, size, "%s", group->kernel);
    return !call_fuses(&calls[0]);
}

static void count_strangers(const struct graph *g, const struct group *group, const char *reason, void *user)
{
    assert_true(g->ops[group->ops[group->count - 1]].role == NORM1 ||
                g->ops[group->ops[group->count - 1]].role == NORM2);
    assert_string_equal(reason, "layernorm");
    ++*(int *)user;
}

/* Rows go by roles. One whose kernel does not take the kind that stands in a role is named, and the next one serves:
 * here that of a layer alone, which leaves the normalization out. */
static void test_other_kind(void **state)
{
    (void)state;
    struct graph g;
    struct error e = {0};
    struct group *groups;
    int n, splits = 0, maps = 0, alone = 0;
    struct op_kind stranger = kind_layernorm;
    wherry_model_config config = bert_large;
    stranger.kernel = "pool";
    stranger.constants = constants_stranger;
    config.layers = 3;
    config.pre_layernorm = true;
    make(&g, &(struct graph_options){.config = &config, .stack = true});
    for (int o = 0; o < g.n_ops; o++)
        if (g.ops[o].kind == &kind_layernorm) g.ops[o].kind = &stranger;
    const struct group_filter filter = {refuse_unknown, count_strangers, &splits};
    assert_true(groups_create(&g, plan_find("paper", &e), &filter, &groups, &n, &e));
    for (int i = 0; i < n; i++) {
        alone += groups[i].count == 1 && g.ops[groups[i].ops[0]].kind == &stranger;
        if (strcmp(group_short_name(&groups[i]), "bdr2")) continue;
        assert_int_equal(groups[i].count, 2); /* bias and residual */
        maps++;
    }
    assert_int_equal(maps, 3);
    assert_int_equal(alone, 6);
    assert_int_equal(splits, 3 + 2); /* bdrln1 of each layer, bdrln2 of those that another one follows */
    host_free(&support_host, groups);
    graph_destroy(&g);
}

/* The device of refuse_attention, whose products alone run optional rows. */
static bool refuse_others(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    bool product = !strcmp(group->kernel, "gemm");
    return (product || !group->optional) && refuse_attention(g, group, reason, size, user);
}

/* The same, with products that normalize their operands alone. */
static bool refuse_results(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    const char *name = group_short_name(group);
    return strcmp(name, "out_norm1") && strcmp(name, "lin2_norm2") && refuse_others(g, group, reason, size, user);
}

/* Where a device has products that normalize rows, layernorms are no kernels of their own: none where they normalize
 * their results; where only their operands, the last layer's second one is, after which no product comes. A training
 * graph keeps them; its biases' gradients are no kernels of their own where a product gives them, too. */
static void test_optional(void **state)
{
    (void)state;
    wherry_model_config config = bert_large;
    config.layers = 3;
    for (int i = 0; i < 4; i++) {
        bool training = i % 2, results = i / 2;
        struct graph g;
        struct error e = {0};
        struct group *groups;
        int n, splits = 0;
        const struct group_filter filter = {results ? refuse_others : refuse_results, count_split, &splits,
                                            .optional = true};
        make(&g, &(struct graph_options){.config = &config, .pool = WHERRY_POOL_MEAN, .training = training});
        assert_true(groups_create(&g, plan_find("flash", &e), &filter, &groups, &n, &e));
        int norms = 0, columns = 0;
        for (int k = 0; k < groups_forward(groups, n); k++) norms += !strcmp(groups[k].kernel, "layernorm");
        for (int k = 0; k < n; k++) columns += groups[k].layer >= 0 && !strcmp(groups[k].kernel, "columns");
        assert_int_equal(norms, training ? 6 : results ? 0 : 1);
        assert_int_equal(columns, 0);
        if (!training) assert_int_equal(n, 1 + 3 * (4 + 3) + !results + 1);
        host_free(&support_host, groups);
        graph_destroy(&g);
    }
}

/* A device without a product that sums its operand's columns, or over the heads of its result. */
static bool refuse_sums(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    (void)user;
    struct error e = {0};
    struct call calls[GROUP_MAX_CALLS];
    int count;
    if (!group_calls(g, group, calls, &count, &e)) fail_msg("%s", e.text);
    snprintf(reason, size, "no sums of an operand or over heads");
    return !call_sums_operand(&calls[0]) && (strcmp(calls[0].kernel, "gemm") || !call_get(&calls[0], CONST_DELTA, 0));
}

/* The group that the operator at this role of layer 0 is in. */
static const struct group *group_of_role(const struct graph *g, const struct group *groups, int n, enum role role)
{
    for (int o = 0; o < g->n_ops; o++)
        for (int i = 0; g->ops[o].layer == 0 && g->ops[o].role == role && i < n; i++)
            if (group_owns(&groups[i], o)) return &groups[i];
    fail_msg("the operator at role %d is in no group", role);
    return NULL;
}

/* It is reported as the product, which is its work, and counts what both operators do. */
static void check_cost(const struct graph *g, const struct group *bias_and_weight)
{
    uint32_t offsets[9];
    struct batch_shape b = uniform(offsets, 8, 512);
    wherry_cost cost;
    cost_of_group(g, &b, bias_and_weight, 2, &cost);
    assert_int_equal(cost.class_, WHERRY_CLASS_CONTRACTION);
    assert_int_equal(cost.paper_row, 30);
    assert_string_equal(cost.einsum, "bju,bji->ui");
    assert_true(cost.flops == 2.0 * 4096 * 4096 * 1024 + 4096.0 * 4096);
    assert_int_equal(cost.bytes_read, 2 * 4096 * (4096 + 1024));
    assert_int_equal(cost.bytes_written, 2 * (4096 * 1024 + 4096));
}

/* Delta comes with the gradient that it is made of, which the product stores as well. */
static void check_delta(const struct graph *g, const struct group *product)
{
    struct error e = {0};
    struct call calls[GROUP_MAX_CALLS];
    uint32_t offsets[9];
    struct batch_shape b = uniform(offsets, 8, 512);
    wherry_cost cost;
    int count;
    assert_string_equal(product->name, "layer.0.out_dx");
    assert_int_equal(product->count, 2);
    assert_true(group_calls(g, product, calls, &count, &e));
    assert_int_equal(count, 1);
    assert_string_equal(calls[0].kernel, "gemm");
    assert_int_equal(call_get(&calls[0], CONST_DELTA, 0), 1);
    assert_int_equal(call_get(&calls[0], CONST_HEAD_DIM, 0), 64);
    assert_true(call_has_slot(&calls[0], SLOT_SAVED) && call_has_slot(&calls[0], SLOT_DELTA));
    cost_of_group(g, &b, product, 2, &cost);
    assert_int_equal(cost.bytes_read, 2 * (2 * 4096 * 1024 + 1024 * 1024));
    assert_int_equal(cost.bytes_written, 2 * 4096 * 1024 + 4 * 4096 * 16);
}

/* The gradients of biases come with those of the weights where the device has products for that. Where it has none the
 * groups are those of a plan without such rows, in the same order. */
static void check_biases(const struct graph_options *options)
{
    struct graph g;
    struct error e = {0};
    struct group *plain, *refused, *taken;
    struct call calls[GROUP_MAX_CALLS];
    int n, n_refused, n_taken, count;
    const struct group_filter refuse = {.runs = refuse_sums, .optional = true};
    const struct plan *plan = plan_find("flash", &e);
    make(&g, options);
    assert_true(groups_create(&g, plan, NULL, &plain, &n, &e));
    assert_true(groups_create(&g, plan, &refuse, &refused, &n_refused, &e));
    assert_int_equal(n_refused, n);
    for (int i = 0; i < n; i++) {
        assert_string_equal(refused[i].name, plain[i].name);
        assert_ptr_equal(refused[i].kernel, plain[i].kernel);
        assert_int_equal(refused[i].count, plain[i].count);
        assert_memory_equal(refused[i].ops, plain[i].ops, (size_t)plain[i].count * sizeof *plain[i].ops);
    }
    const struct group *activation = group_of_role(&g, plain, n, ACTIVATION_DX);
    assert_ptr_equal(activation, group_of_role(&g, plain, n, LIN1_BIAS_DW));
    assert_string_equal(group_of_role(&g, plain, n, ATTENTION_DELTA)->kernel, "delta");

    assert_true(groups_create(&g, plan, &all_optional, &taken, &n_taken, &e));
    const struct group *bias = group_of_role(&g, taken, n_taken, LIN1_BIAS_DW);
    const struct group *without = group_of_role(&g, taken, n_taken, LIN2_DX);
    assert_string_equal(bias->name, "layer.0.lin1_dw");
    assert_ptr_equal(bias, group_of_role(&g, taken, n_taken, LIN1_DW));
    const struct group *delta = group_of_role(&g, taken, n_taken, ATTENTION_DELTA);
    assert_ptr_equal(delta, group_of_role(&g, taken, n_taken, OUT_DX));
    check_delta(&g, delta);
    assert_string_equal(without->name, "layer.0.lin2_dx");
    assert_ptr_equal(without, group_of_role(&g, taken, n_taken, ACTIVATION_DX));
    assert_int_equal(without->count, activation->count - 1);
    assert_true(group_calls(&g, bias, calls, &count, &e));
    assert_int_equal(count, 1);
    assert_true(call_sums_operand(&calls[0]));
    assert_int_equal(call_get(&calls[0], CONST_M, 0), 4096);
    assert_int_equal(call_get(&calls[0], CONST_N, 0), 1024);
    check_cost(&g, bias);
    assert_true(group_calls(&g, without, calls, &count, &e));
    assert_int_equal(count, 1);
    assert_int_equal(call_get(&calls[0], CONST_COLUMN_SUMS, 0), 0);
    host_free(&support_host, plain);
    host_free(&support_host, refused);
    host_free(&support_host, taken);
    graph_destroy(&g);
}

static void test_biases(void **state)
{
    (void)state;
    wherry_model_config config = bert_large;
    config.layers = 2;
    for (int pre = 0; pre < 2; pre++)
        for (int relu = 0; relu < 2; relu++)
            for (int save = WHERRY_SAVE_DEFAULT; save <= WHERRY_SAVE_LEAST; save++) {
                config.pre_layernorm = pre;
                config.activation = relu ? WHERRY_ACTIVATION_RELU : WHERRY_ACTIVATION_GELU;
                struct graph_options options = training_layer(&config, true);
                options.save = (wherry_save)save;
                if (relu) options.dropout = 0;
                check_biases(&options);
            }
}

/* ---- orders of weights ---- */

static const struct {
    enum weight weight;
    const char *text;
    enum role forward, dx, dw;
} orders[] = {
    {WEIGHT_QKV, "w_qkv=iqhp", QKV, QKV_DX, QKV_DW},
    {WEIGHT_OUT, "w_out=hpi", OUT, OUT_DX, OUT_DW},
    {WEIGHT_LIN1, "w_lin1=iu", LIN1, LIN1_DX, LIN1_DW},
    {WEIGHT_LIN2, "w_lin2=ui", LIN2, LIN2_DX, LIN2_DW},
    {WEIGHT_POOLER, "w_pooler=io", POOLER, POOLER_DX, POOLER_DW},
};
enum { ORDERS = sizeof orders / sizeof *orders };

static int argument_at(const struct call *call, uint8_t slot)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot == slot) return call->arguments[i].tensor;
    return -1;
}

/* A product by itself: its form, what its operands are, and where slices of a transposed weight lie. */
static void check_form(const struct graph *g, int op, enum weight weight, bool transposed)
{
    struct error e = {0};
    struct group group;
    struct call calls[GROUP_MAX_CALLS];
    int count;
    const struct op *o = &g->ops[op];
    group_single(g, op, &group);
    assert_true(group_calls(g, &group, calls, &count, &e));
    bool dw = !strchr(g->tensors[o->out[0]].dims, 'b');
    bool dx = !dw && op >= g->n_forward, exchanged = dw && transposed;
    assert_int_equal(call_get(&calls[0], CONST_FORM, 99), dw ? GEMM_TN : dx == transposed ? GEMM_NT : GEMM_NN);
    assert_int_equal(argument_at(&calls[0], SLOT_X), o->in[exchanged]);
    assert_int_equal(argument_at(&calls[0], SLOT_W), o->in[!exchanged]);
    if (dw) {
        assert_int_equal(call_get(&calls[0], CONST_M, 0), tensor_row_length(g, o->in[exchanged]));
        assert_int_equal(call_get(&calls[0], CONST_N, 0), tensor_row_length(g, o->in[!exchanged]));
    }
    int matrix = dw ? o->out[0] : o->in[1];
    uint8_t stride = dw ? CONST_Y_STRIDE : CONST_W_STRIDE, offset = dw ? CONST_Y_OFFSET : CONST_W_OFFSET;
    bool slice = g->tensors[matrix].parent >= 0;
    uint32_t hidden = g->dims.of['i'], piece = transposed ? hidden : hidden * hidden;
    assert_int_equal(call_get(&calls[0], stride, 0), slice && transposed ? 3 * hidden : 0);
    assert_int_equal(call_get(&calls[0], offset, 0), slice ? g->tensors[matrix].slice * piece : 0);
    if (slice) assert_int_equal(weight, WEIGHT_QKV);
}

/* The order of one weight decides the forms of its three products, and of no other. */
static void test_forms(void **state)
{
    (void)state;
    wherry_model_config config = bert_large;
    config.layers = 1;
    config.pooler = true;
    for (int transposed = -1; transposed < ORDERS; transposed++)
        for (uint32_t parts = 1; parts <= 3; parts++) {
            struct graph g;
            int products = 0;
            make(&g, &(struct graph_options){.config = &config,
                                             .pool = WHERRY_POOL_POOLER,
                                             .training = true,
                                             .flash = true,
                                             .save = WHERRY_SAVE_DEFAULT,
                                             .qkv_parts = parts,
                                             .layout.transposed =
                                                 transposed < 0 ? 0 : WEIGHT_BIT(orders[transposed].weight)});
            for (int o = 0; o < g.n_ops; o++)
                for (int w = 0; w < ORDERS; w++) {
                    enum role role = g.ops[o].role == QKV_DX_FIRST ? QKV_DX : g.ops[o].role;
                    if (role != orders[w].forward && role != orders[w].dx && role != orders[w].dw) continue;
                    check_form(&g, o, orders[w].weight, w == transposed);
                    products++;
                }
            assert_int_equal(products, 3 * (ORDERS - 1 + (int)parts));
            for (int t = 0; t < g.n_tensors;
                 t++) { /* a gradient lies as its weight, and is known as the model has it */
                const struct tensor *tensor = &g.tensors[t];
                if (tensor->gradient_of < 0) continue;
                const struct tensor *of = &g.tensors[tensor->gradient_of];
                struct matrix_order order;
                bool is = transposed >= 0 && of->weight == orders[transposed].weight;
                assert_string_equal(tensor->dims, of->dims);
                assert_int_equal(tensor_reordered(&g, t, &order), is);
                if (is) assert_int_equal(order.rows * order.columns, tensor_row_length(&g, t));
                if (is && of->weight == WEIGHT_LIN2) assert_int_equal(order.columns, 4096);
                if (is && of->weight == WEIGHT_QKV) assert_int_equal(order.rows, 3072);
            }
            graph_destroy(&g);
        }
}

/* Every contraction is what its tensors' letters say, which is what reports print. */
static void test_einsums_as_they_lie(void **state)
{
    (void)state;
    struct graph g;
    wherry_cost cost;
    uint32_t offsets[9];
    struct batch_shape b = uniform(offsets, 8, 512);
    for (uint32_t transposed = 0; transposed < 2; transposed++)
        for (uint32_t parts = 1; parts <= 3; parts++) {
            struct graph_options options = training_layer(one_layer(), parts == 2);
            options.qkv_parts = parts;
            options.layout.transposed = transposed ? WEIGHT_BIT(WEIGHT_LIN1) : 0;
            make(&g, &options);
            for (int o = 0; o < g.n_ops; o++) {
                struct group group;
                if (!*g.ops[o].einsum) continue;
                group_single(&g, o, &group);
                cost_of_group(&g, &b, &group, 2, &cost);
                const char *want = g.ops[o].einsum;
                if (transposed && g.ops[o].role == LIN1) want = "bji,iu->bju";
                if (transposed && g.ops[o].role == LIN1_DX) want = "bju,iu->bji";
                if (transposed && g.ops[o].role == LIN1_DW) want = "bju,bji->iu";
                assert_string_equal(cost.einsum, want);
            }
            graph_destroy(&g);
        }
}

static bool runs_calls(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    struct error e = {0};
    struct call calls[GROUP_MAX_CALLS];
    int count;
    (void)user;
    if (group_calls(g, group, calls, &count, &e)) return true;
    snprintf(reason, size, "%s", e.text);
    return false;
}

/* A product sums its first operand's columns: the gradient of the bias comes with that of a weight which is not
 * transposed; otherwise the groups are those of a device without such products. */
static void test_operand_sums_of_transposed(void **state)
{
    (void)state;
    for (int transposed = -1; transposed < ORDERS; transposed++) {
        struct graph g;
        struct error e = {0};
        struct group *groups;
        int n, sums = 0;
        struct graph_options options = training_layer(one_layer(), true);
        const struct group_filter filter = {.runs = runs_calls, .optional = true};
        if (transposed >= 0 && orders[transposed].weight == WEIGHT_POOLER) continue;
        if (transposed >= 0) options.layout.transposed = WEIGHT_BIT(orders[transposed].weight);
        make(&g, &options);
        if (!groups_create(&g, plan_find("flash", &e), &filter, &groups, &n, &e)) fail_msg("%s", e.text);
        for (int i = 0; i < n; i++) {
            struct call calls[GROUP_MAX_CALLS];
            int count;
            if (!group_calls(&g, &groups[i], calls, &count, &e)) fail_msg("%s", e.text);
            sums += call_sums_operand(&calls[0]);
        }
        bool of_bias =
            transposed >= 0 && (orders[transposed].weight == WEIGHT_QKV || orders[transposed].weight == WEIGHT_LIN1);
        assert_int_equal(sums, of_bias ? 1 : 2);
        host_free(&support_host, groups);
        graph_destroy(&g);
    }
}

/* With Q, K and V of a head side by side attention's calls differ in where heads begin alone; the weight's rows and the
 * bias are in the order of the heads; Q alone is no matrix. */
static void test_whole_heads(void **state)
{
    (void)state;
    for (int plan = 0; plan < 2; plan++)
        for (int whole = 0; whole < 2; whole++) {
            struct graph g;
            struct error e = {0};
            struct group *groups;
            int n, of_attention = 0, reordered = 0;
            struct graph_options options = training_layer(one_layer(), !plan);
            options.layout.qkv_interleaved = whole;
            make(&g, &options);
            assert_true(groups_create(&g, plan_find(plan ? "unfused" : "flash", &e), NULL, &groups, &n, &e));
            for (int i = 0; i < n; i++) {
                struct call calls[GROUP_MAX_CALLS];
                int count;
                assert_true(group_calls(&g, &groups[i], calls, &count, &e));
                for (int c = 0; c < count; c++) {
                    bool stack = !strncmp(calls[c].kernel, "attention", 9) || !strcmp(calls[c].kernel, "bgemm");
                    assert_int_equal(call_get(&calls[c], CONST_QKV_INTERLEAVED, 0), stack && whole);
                    of_attention += stack;
                    if (strcmp(calls[c].kernel, "attention")) continue;
                    assert_int_equal(call_get(&calls[c], CONST_X_STRIDE, 0), 3072);
                    assert_int_equal(call_get(&calls[c], CONST_W_OFFSET, 0), whole ? 64 : 1024);
                    assert_int_equal(call_get(&calls[c], CONST_V_OFFSET, 0), whole ? 128 : 2048);
                    assert_int_equal(call_get(&calls[c], CONST_Y_STRIDE, 0), 1024);
                }
            }
            assert_int_equal(of_attention, plan ? 6 : 3);
            for (int t = 0; t < g.n_tensors; t++) {
                struct matrix_order order;
                if (!tensor_reordered(&g, t, &order)) continue;
                reordered++;
                assert_false(order.transposed);
                assert_int_equal(order.rows, 3072);
                assert_int_equal(matrix_order_row(&order, 0), 0);
                assert_int_equal(matrix_order_row(&order, 64), 1024);           /* K of the first head */
                assert_int_equal(matrix_order_row(&order, 3 * 64 + 1), 64 + 1); /* Q of the second */
            }
            assert_int_equal(reordered, whole ? 4 : 0); /* the weight, the bias, and their gradients */
            host_free(&support_host, groups);
            graph_destroy(&g);
            options.qkv_parts = 2;
            if (whole) assert_false(graph_create(&support_host, &options, &g, &e));
        }
}

/* The feed-forward's products in channel-major order: the last three sizes are M, N and K, 0 that of the batch. */
static void test_channels_outside(void **state)
{
    (void)state;
    static const struct {
        enum role role;
        uint32_t form, runtime, m, n, k;
        int x; /* the operand that comes first */
        bool x_strided, y_strided;
    } products[] = {{LIN1, GEMM_NT, RUNTIME_N, 4096, 0, 1024, 1, false, true},
                    {LIN2, GEMM_TN, RUNTIME_M, 0, 1024, 4096, 0, true, false},
                    {LIN2_DX, GEMM_NT, RUNTIME_N, 4096, 0, 1024, 1, false, true},
                    {LIN2_DW, GEMM_NN, RUNTIME_K, 4096, 1024, 0, 1, true, false},
                    {LIN1_DX, GEMM_TN, RUNTIME_M, 0, 1024, 4096, 0, true, false},
                    {LIN1_DW, GEMM_NN, RUNTIME_K, 4096, 1024, 0, 0, true, false}};
    struct graph_options options = {
        .config = &bert_large, .pool = WHERRY_POOL_NONE, .stack = true, .training = true, .flash = true, .tokens = 130};
    struct graph g;
    struct error e = {0};
    struct group group;
    struct call calls[GROUP_MAX_CALLS];
    int count, found = 0;
    assert_true(orders_read("active=ubj,w_lin2=ui", &options.layout, &e) && options.layout.channel_major);
    make(&g, &options);
    for (int o = 0; o < g.n_ops; o++)
        for (size_t p = 0; p < sizeof products / sizeof *products; p++) {
            const struct call *call = &calls[0];
            if (g.ops[o].layer || g.ops[o].role != products[p].role) continue;
            group_single(&g, o, &group);
            assert_true(group_calls(&g, &group, calls, &count, &e));
            assert_int_equal(call_get(call, CONST_FORM, 99), products[p].form);
            assert_int_equal(call_get(call, CONST_RUNTIME, 99), products[p].runtime);
            assert_int_equal(call_get(call, CONST_M, 0), products[p].m);
            assert_int_equal(call_get(call, CONST_N, 0), products[p].n);
            assert_int_equal(call_get(call, CONST_K, 0), products[p].k);
            assert_int_equal(argument_at(call, SLOT_X), g.ops[o].in[products[p].x]);
            assert_int_equal(call_get(call, CONST_X_STRIDE, 0), products[p].x_strided ? 192 : 0);
            assert_int_equal(call_get(call, CONST_Y_STRIDE, 0), products[p].y_strided ? 192 : 0);
            found++;
        }
    graph_destroy(&g);
    assert_int_equal(found, sizeof products / sizeof *products);
}

/* The einsum of attention scores and of a product, on numbers small enough to do by hand. */
static void test_references(void **state)
{
    (void)state;
    struct graph g;
    struct error e = {0};
    wherry_model_config config = {
        .struct_size = sizeof config, .layers = 1, .hidden = 4, .heads = 2, .feed_forward = 2};
    make(&g, &(struct graph_options){.config = &config, .pool = WHERRY_POOL_NONE, .stack = true});
    uint32_t offsets[] = {0, 1, 3};
    struct batch_shape b = {2, offsets, 3, 5, 2};
    struct values v = {calloc((size_t)g.n_tensors, sizeof(double *)), NULL};
    for (int t = 0; t < g.n_tensors; t++)
        if (g.tensors[t].parent < 0) {
            size_t count = (size_t)tensor_elements(&g, &b, t);
            v.of[t] = calloc(count, sizeof(double));
            for (size_t i = 0; i < count; i++) v.of[t][i] = (double)((i * 7 + (size_t)t) % 5) - 2;
        }
    for (int o = 0; o < g.n_ops; o++) {
        const struct op *op = &g.ops[o];
        if (op->role != SCORES && op->role != CONTEXT && op->role != QKV) continue;
        assert_true(op->kind->reference(&g, op, &b, &v, &e));
        const double *y = v.of[op->out[0]];
        for (int s = 0, base = 0; s < 2;
             base += (int)(offsets[s + 1] - offsets[s]) * (int)(offsets[s + 1] - offsets[s]) * 2, s++) {
            int first = (int)offsets[s], len = (int)offsets[s + 1] - first;
            for (int h = 0; h < 2; h++)
                for (int j = 0; j < len; j++) {
                    const double *qkv = v.of[tensor_owner(&g, op->in[0])];
                    for (int k = 0; op->role == SCORES && k < len; k++) {
                        double sum = 0;
                        for (int p = 0; p < 2; p++)
                            sum += qkv[(first + j) * 12 + h * 2 + p] * qkv[(first + k) * 12 + 4 + h * 2 + p];
                        assert_true(fabs(y[base + (h * len + j) * len + k] - sum) < 1e-12);
                    }
                    for (int p = 0; op->role == CONTEXT && p < 2; p++) {
                        double sum = 0;
                        const double *alpha = v.of[op->in[0]], *values = v.of[tensor_owner(&g, op->in[1])];
                        for (int k = 0; k < len; k++)
                            sum += alpha[base + (h * len + j) * len + k] * values[(first + k) * 12 + 8 + h * 2 + p];
                        assert_true(fabs(y[(first + j) * 4 + h * 2 + p] - sum) < 1e-12);
                    }
                }
        }
        for (int r = 0; op->role == QKV && r < 3; r++)
            for (int n = 0; n < 12; n++) {
                double sum = 0;
                for (int k = 0; k < 4; k++) sum += v.of[op->in[0]][r * 4 + k] * v.of[op->in[1]][n * 4 + k];
                assert_true(fabs(y[r * 12 + n] - sum) < 1e-12);
            }
    }
    for (int t = 0; t < g.n_tensors; t++) free(v.of[t]);
    free(v.of);
    graph_destroy(&g);
}

/* Whatever the head size and type, 32 KiB of shared memory are enough for every kernel, 16 KiB for attention's; with
 * 48 KiB attention takes more. */
static void test_shared_memory(void **state)
{
    (void)state;
    for (uint32_t head = 8; head <= 128; head += 8)
        for (int f16 = 0; f16 < 2; f16++)
            for (size_t p = 0; p < plans_count; p++) {
                struct device_limits limits = {.f16 = true, .shared_bytes = 32768, .max_local_size = 256};
                wherry_model_config config = bert_large;
                struct graph g;
                struct error e = {0};
                struct group *groups;
                struct call calls[GROUP_MAX_CALLS];
                int n, count;
                config.layers = 1;
                config.hidden = 2 * head;
                config.heads = 2;
                struct graph_options options = training_layer(&config, p == 0);
                make(&g, &options);
                assert_true(groups_create(&g, &plans[p], NULL, &groups, &n, &e));
                for (int i = 0; i < n; i++) {
                    assert_true(group_calls(&g, &groups[i], calls, &count, &e));
                    for (int k = 0; k < count; k++) {
                        struct call call = calls[k];
                        call_tiles(&call, k ? &calls[0] : NULL, &limits, f16, 4096, 512);
                        assert_in_range(call_shared_bytes(&call), 0, 32768);
                        assert_in_range(call_get(&call, CONST_LOCAL_SIZE, 0), 1, 256);
                        /* The variants of products, and that they are taken where they fit. */
                        for (size_t bytes = 32768; f16 && bytes <= 49152; bytes += 16384) {
                            struct device_limits matrices = {.f16 = true,
                                                             .shared_bytes = bytes,
                                                             .max_local_size = 256,
                                                             .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                                             .coopmat_m = 16,
                                                             .coopmat_n = bytes > 32768 ? 16 : 8,
                                                             .coopmat_k = 16,
                                                             .coopmat_subgroup = bytes > 32768 ? 32 : 16,
                                                             .coopmat_f16_sums = true,
                                                             .coopmat2 = true};
                            struct call product = calls[k];
                            call_tiles(&product, k ? &calls[0] : NULL, &matrices, f16, 4096, 512);
                            assert_in_range(call_shared_bytes(&product), 0, bytes);
                            assert_in_range(call_get(&product, CONST_LOCAL_SIZE, 0), 1, 256);
                            if (!strcmp(calls[k].kernel, "gemm")) assert_string_equal(product.kernel, "gemm_coopmat");
                        }
                        if (strncmp(call.kernel, "attention", 9)) continue;
                        for (size_t bytes = 16384; bytes <= 49152; bytes += 32768) {
                            struct device_limits other = {.f16 = true, .shared_bytes = bytes, .max_local_size = 256};
                            call = calls[k];
                            call_tiles(&call, k ? &calls[0] : NULL, &other, f16, 4096, 512);
                            assert_in_range(call_shared_bytes(&call), 0, bytes);
                        }
                    }
                }
                host_free(&support_host, groups);
                graph_destroy(&g);
            }
}

/* The rows that transformers' MPNet has for keys so far after their queries, 32 rows and 64; before them, the first
 * half of the rows in the same order. */
static void test_distances(void **state)
{
    static const uint32_t of_32[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
    static const uint32_t of_64[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                     16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
    const struct {
        const uint32_t *begins;
        uint32_t half;
    } tables[] = {{of_32, 16}, {of_64, 32}};
    (void)state;
    for (size_t t = 0; t < 2; t++)
        for (int32_t apart = 0; apart <= 300; apart++) {
            uint32_t half = tables[t].half, row = half - 1;
            while (tables[t].begins[row] > (uint32_t)apart) row--;
            assert_int_equal(distance_bucket(2 * half, 128, -apart), row);
            assert_int_equal(distance_bucket(2 * half, 128, apart), apart ? half + row : 0);
        }
    const struct {
        uint32_t buckets, distance;
        const char *text; /* NULL: it is right */
    } cases[] = {{0, 0, NULL},
                 {32, 128, NULL},
                 {4, 2, NULL},
                 {0, 128, "rows"},
                 {30, 128, "multiple of"},
                 {2, 128, "multiple of"},
                 {32, 8, "from 9"},
                 {32, 0, "from 9"},
                 {32, 129, "to 128"},
                 {512, 128, "from"},
                 {UINT32_MAX - 3, 5, "from"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        assert_int_equal(distances_check(cases[i].buckets, cases[i].distance, &e), !cases[i].text);
        if (cases[i].text) assert_non_null(strstr(e.text, cases[i].text));
    }
}

static void test_bad_configs(void **state)
{
    (void)state;
    struct error e = {0};
    struct graph g;
    wherry_model_config config = bert_large;
    config.heads = 15;
    assert_false(graph_create(&support_host, &(struct graph_options){.config = &config}, &g, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "15 heads"));
    assert_null(plan_find("nonsense", &e));
    assert_non_null(strstr(e.text, "flash, paper and unfused"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flop_equal_the_paper),
        cmocka_unit_test(test_groups_cover),
        cmocka_unit_test(test_training_groups_cover),
        cmocka_unit_test(test_bytes_of_plans),
        cmocka_unit_test(test_call_of_attention),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_other_kind),
        cmocka_unit_test(test_optional),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_einsums_as_they_lie),
        cmocka_unit_test(test_operand_sums_of_transposed),
        cmocka_unit_test(test_whole_heads),
        cmocka_unit_test(test_channels_outside),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
