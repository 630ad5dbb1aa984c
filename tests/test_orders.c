/* Orders of tensors as text; weights that lie in both orders while training: who reads which, when the copy is made and
 * how long it is kept, and what is refused. No device. */
#include "base/text.h"
#include "graph/group.h"
#include "interface/interface.h"
#include "plan/memory.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const wherry_model_config config = {.struct_size = sizeof config,
                                           .layers = 2,
                                           .hidden = 1024,
                                           .heads = 16,
                                           .feed_forward = 4096,
                                           .vocabulary = 30522,
                                           .positions = 512,
                                           .token_types = 2,
                                           .activation = WHERRY_ACTIVATION_RELU,
                                           .pooler = true,
                                           .epsilon = 1e-12f};

static const struct {
    const char *text;
    enum weight weight;
    bool transposed;        /* the first order is not the model's */
    uint32_t rows, columns; /* of the model's matrix */
    enum role forward, dx, dw, copy;
} cases[] = {
    {"w_qkv=qhpi+iqhp", WEIGHT_QKV, false, 3072, 1024, QKV, QKV_DX, QKV_DW, QKV_TRANSPOSE},
    {"w_qkv=iqhp+qhpi", WEIGHT_QKV, true, 3072, 1024, QKV, QKV_DX, QKV_DW, QKV_TRANSPOSE},
    {"qkv=bjhqp,w_qkv=hqpi+ihqp", WEIGHT_QKV, false, 3072, 1024, QKV, QKV_DX, QKV_DW, QKV_TRANSPOSE},
    {"qkv=bjhqp,w_qkv=ihqp+hqpi", WEIGHT_QKV, true, 3072, 1024, QKV, QKV_DX, QKV_DW, QKV_TRANSPOSE},
    {"w_out=ihp+hpi", WEIGHT_OUT, false, 1024, 1024, OUT, OUT_DX, OUT_DW, OUT_TRANSPOSE},
    {"w_out=hpi+ihp", WEIGHT_OUT, true, 1024, 1024, OUT, OUT_DX, OUT_DW, OUT_TRANSPOSE},
    {"w_lin1=ui+iu", WEIGHT_LIN1, false, 4096, 1024, LIN1, LIN1_DX, LIN1_DW, LIN1_TRANSPOSE},
    {"w_lin1=iu+ui", WEIGHT_LIN1, true, 4096, 1024, LIN1, LIN1_DX, LIN1_DW, LIN1_TRANSPOSE},
    {"w_lin2=iu+ui", WEIGHT_LIN2, false, 1024, 4096, LIN2, LIN2_DX, LIN2_DW, LIN2_TRANSPOSE},
    {"w_lin2=ui+iu", WEIGHT_LIN2, true, 1024, 4096, LIN2, LIN2_DX, LIN2_DW, LIN2_TRANSPOSE},
    {"w_pooler=oi+io", WEIGHT_POOLER, false, 1024, 1024, POOLER, POOLER_DX, POOLER_DW, POOLER_TRANSPOSE},
    {"w_pooler=io+oi", WEIGHT_POOLER, true, 1024, 1024, POOLER, POOLER_DX, POOLER_DW, POOLER_TRANSPOSE},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct graph_options options_of(int at)
{
    struct error e = {0};
    struct graph_options options = {.config = &config,
                                    .pool = WHERRY_POOL_POOLER,
                                    .training = true,
                                    .dropout = 0.1f,
                                    .flash = true,
                                    .save = WHERRY_SAVE_DEFAULT};
    if (!orders_read(cases[at].text, &options.layout, &e)) fail_msg("%s", e.text);
    return options;
}

/* In the last layer, where the backward pass begins, or outside of them. */
static int op_at(const struct graph *g, enum role role)
{
    for (int o = 0; o < g->n_ops; o++)
        if (g->ops[o].role == role && g->ops[o].layer != 0) return o;
    fail_msg("no operator at role %d", (int)role);
    return -1;
}

/* What the operator's kernel is called with, when it is alone. */
static struct call call_of(const struct graph *g, int op)
{
    struct error e = {0};
    struct group group;
    struct call calls[GROUP_MAX_CALLS];
    int count;
    group_single(g, op, &group);
    if (!group_calls(g, &group, calls, &count, &e)) fail_msg("%s", e.text);
    assert_int_equal(count, 1);
    return calls[0];
}

/* The forward product reads the first order, which the gradient of the weight has, too; that of the input reads the
 * second. Both products then have the same form. */
static void test_who_reads_which(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct graph g;
        struct error e = {0};
        char text[ORDERS_TEXT];
        struct graph_options options = options_of(i);
        assert_int_equal(options.layout.transposed, cases[i].transposed ? WEIGHT_BIT(cases[i].weight) : 0);
        assert_int_equal(options.layout.copied, WEIGHT_BIT(cases[i].weight));
        orders_text(&options.layout, text);
        assert_string_equal(text, cases[i].text);
        if (!graph_create(&support_host, &options, &g, &e)) fail_msg("%s", e.text);

        int forward = op_at(&g, cases[i].forward), dx = op_at(&g, cases[i].dx), copy = op_at(&g, cases[i].copy);
        int weight = g.ops[forward].in[1], made = g.ops[copy].out[0], gradient = g.ops[op_at(&g, cases[i].dw)].out[0];
        assert_true(copy >= g.n_forward && copy < dx);
        assert_int_equal(g.ops[copy].in[0], weight);
        assert_int_equal(g.ops[dx].in[1], made);
        assert_int_equal(g.tensors[made].role, TENSOR_VALUE);
        assert_string_equal(g.tensors[gradient].dims, g.tensors[weight].dims);
        assert_true(op_flops(&g, NULL, &g.ops[copy]) == 0);

        uint32_t form = cases[i].transposed ? GEMM_NN : GEMM_NT;
        struct call call = call_of(&g, forward);
        assert_int_equal(call_get(&call, CONST_FORM, 99), form);
        call = call_of(&g, dx);
        assert_int_equal(call_get(&call, CONST_FORM, 99), form);
        call = call_of(&g, copy);
        assert_string_equal(call.kernel, "transpose");
        assert_int_equal(call_get(&call, CONST_M, 0), cases[i].transposed ? cases[i].rows : cases[i].columns);
        assert_int_equal(call_get(&call, CONST_N, 0), cases[i].transposed ? cases[i].columns : cases[i].rows);
        graph_destroy(&g);
    }
}

/* In every plan the copy is a group of its own, and in memory from there to the group that reads it: elsewhere others
 * have its place. */
static void test_life(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        for (size_t p = 0; p < plans_count; p++) {
            struct graph g;
            struct error e = {0};
            struct group *groups;
            struct memory_plan memory;
            int n, makes = -1, reads = -1, copies = 0;
            const uint32_t offsets[] = {0, 64};
            const struct batch_shape limits = {1, offsets, 64, 64 * 64, 64};
            struct graph_options options = options_of(i);
            options.flash = p == 0;
            if (!graph_create(&support_host, &options, &g, &e)) fail_msg("%s", e.text);
            if (!groups_create(&g, &plans[p], NULL, &groups, &n, &e)) fail_msg("%s", e.text);
            int made = g.ops[op_at(&g, cases[i].copy)].out[0];
            for (int k = 0; k < n; k++) {
                copies += !strcmp(groups[k].kernel, "transpose");
                for (int w = 0; w < groups[k].n_writes; w++)
                    if (groups[k].writes[w] == made) makes = k;
                for (int r = 0; r < groups[k].n_reads; r++)
                    if (groups[k].reads[r] == made) reads = k;
            }
            assert_int_equal(copies, cases[i].weight == WEIGHT_POOLER ? 1 : 2);
            assert_true(makes >= groups_forward(groups, n) && makes < reads);
            assert_int_equal(groups[makes].count, 1);
            if (!memory_plan_create(&support_host,
                                    &(struct memory_request){.graph = &g,
                                                             .groups = groups,
                                                             .n_groups = n,
                                                             .limits = limits,
                                                             .storage = 2,
                                                             .max_block_bytes = 1ull << 32,
                                                             .max_tensor_bytes = 1ull << 32},
                                    &memory, &e))
                fail_msg("%s", e.text);
            const struct placement *own = &memory.of[made];
            assert_true(own->bytes >= 2ull * cases[i].rows * cases[i].columns);
            for (int k = makes; k <= reads; k++)
                for (int w = 0; w < groups[k].n_writes; w++) {
                    int t = tensor_owner(&g, groups[k].writes[w]);
                    const struct placement *other = &memory.of[t];
                    bool apart = other->block != own->block || other->offset >= own->offset + own->bytes ||
                                 own->offset >= other->offset + other->bytes;
                    assert_true(t == made || apart);
                }
            memory_plan_destroy(&memory);
            host_free(&support_host, groups);
            graph_destroy(&g);
        }
}

static void test_refused(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct graph g;
        struct error e = {0};
        struct graph_options options = options_of(i);
        options.training = false;
        assert_false(graph_create(&support_host, &options, &g, &e));
        assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "in inference give each one order"));
        assert_non_null(strstr(e.text, cases[i].text));
        for (uint32_t parts = 2; parts <= 3; parts++) {
            options = options_of(i);
            options.qkv_parts = parts;
            bool made = graph_create(&support_host, &options, &g, &e);
            assert_int_equal(made, cases[i].weight != WEIGHT_QKV);
            if (!made) assert_non_null(strstr(e.text, "as one product, not for"));
            if (made) graph_destroy(&g);
        }
        options = options_of(i);
        options.pool = WHERRY_POOL_MEAN;
        bool made = graph_create(&support_host, &options, &g, &e);
        assert_int_equal(made, cases[i].weight != WEIGHT_POOLER);
        if (!made) assert_non_null(strstr(e.text, "not used here"));
        if (made) graph_destroy(&g);
    }
}

/* ---- as text ---- */

static const struct {
    enum weight weight;
    const char *text;
} weights[] = {
    {WEIGHT_QKV, "w_qkv=iqhp"}, {WEIGHT_OUT, "w_out=hpi"},      {WEIGHT_LIN1, "w_lin1=iu"},
    {WEIGHT_LIN2, "w_lin2=ui"}, {WEIGHT_POOLER, "w_pooler=io"},
};
enum { WEIGHTS = sizeof weights / sizeof *weights };

static void test_orders_as_text(void **state)
{
    (void)state;
    char text[ORDERS_TEXT], all[ORDERS_TEXT];
    struct text_writer list = text_begin(all, sizeof all);
    struct error e = {0};
    struct layout_choice layout = {0};
    uint32_t sum = 0;
    assert_true(orders_read(NULL, &layout, &e) && layout.transposed == 0 && !layout.qkv_interleaved);
    for (int w = 0; w < WEIGHTS; w++) {
        assert_true(orders_read(weights[w].text, &layout, &e));
        assert_int_equal(layout.transposed, WEIGHT_BIT(weights[w].weight));
        orders_text(&layout, text);
        assert_string_equal(text, weights[w].text);
        text_add(&list, "%s%s", w ? "," : "", weights[w].text);
        sum |= layout.transposed;
    }
    assert_true(orders_read(all, &layout, &e) && layout.transposed == sum && !layout.qkv_interleaved);
    orders_text(&(struct layout_choice){.transposed = sum}, text);
    assert_string_equal(text, all);
    assert_true(orders_read("w_qkv=ihqp,w_lin1=iu,qkv=bjhqp", &layout, &e) && layout.qkv_interleaved);
    orders_text(&(struct layout_choice){.transposed = layout.transposed, .qkv_interleaved = true}, text);
    assert_string_equal(text, "qkv=bjhqp,w_qkv=ihqp,w_lin1=iu");
    orders_text(&(struct layout_choice){.transposed = sum, .qkv_interleaved = true}, text);
    assert_true(orders_read(text, &layout, &e) && layout.qkv_interleaved && layout.transposed == sum && !layout.copied);
    orders_text(&(struct layout_choice){.transposed = sum, .copied = sum, .qkv_interleaved = true},
                text); /* the longest */
    assert_true(orders_read(text, &layout, &e) && layout.qkv_interleaved && layout.transposed == sum);
    assert_int_equal(layout.copied, sum);
    assert_true(orders_read("active=ubj,w_lin2=ui", &layout, &e) && layout.channel_major && !layout.qkv_interleaved);
    orders_text(&(struct layout_choice){.transposed = layout.transposed, .channel_major = true}, text);
    assert_string_equal(text, "w_lin2=ui,active=ubj");
    static const char *const bad[] = {"w_qkv=pqhi",
                                      "w_qkv=hqpi",
                                      "qkv=bjhqp,w_qkv=qhpi",
                                      "qkv=jbqhp",
                                      "qkv=bjqph",
                                      "active=ubj,w_lin2=iu",
                                      "active=ubj",
                                      "active=jbu",
                                      "w_lin1=iu,w_lin2=ui,active=ubj",
                                      "w_lin1=ui+iu,w_lin2=ui,active=ubj",
                                      "active=bju+ubj",
                                      "w_lin1=ui+ui",
                                      "w_lin1=ui+",
                                      "w_lin1=+ui",
                                      "w_lin1=ui+iu+ui",
                                      "qkv=bjqhp+bjhqp",
                                      "w_qkv=qhpi+hqpi",
                                      "w_qkv=qhpi+ihqp",
                                      "w_qkv=hqpi+ihqp",
                                      "qkv=bjhqp,w_qkv=qhpi+iqhp"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (struct error){0};
        assert_false(orders_read(bad[i], &layout, &e));
        assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    }
}

/* Each order of each tensor is one that is read, by itself or with what it needs. */
static void test_orders_of(void **state)
{
    (void)state;
    char name[ORDER_TEXT], list[ORDERS_MOST][ORDER_TEXT], text[ORDERS_TEXT];
    struct layout_choice layout;
    struct error e;
    int tensors = 0, all = 0, n;
    for (size_t i = 0; (n = orders_of(i, name, list)) > 0; i++, tensors++)
        for (int k = 0; k < n; k++, all++) {
            bool whole =
                !strcmp(name, "w_qkv") && list[k][0] != 'q' && strcmp(list[k], "iqhp") && strcmp(list[k], "iqhp+qhpi");
            snprintf(text, sizeof text, "%s=%s%s%s", name, list[k], whole ? ",qkv=bjhqp" : "",
                     !strcmp(list[k], "ubj") ? ",w_lin2=ui" : "");
            if (!orders_read(text, &layout, &e)) fail_msg("%s: %s", text, e.text);
        }
    assert_int_equal(tensors, 7);
    assert_int_equal(all, 2 + 8 + 4 * 4 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_reads_which), cmocka_unit_test(test_life),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_orders_as_text),  cmocka_unit_test(test_orders_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
