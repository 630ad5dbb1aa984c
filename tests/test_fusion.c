/* The fusion rule on every kind of graph, and what-if. No device. */
#include "analysis/fusion.h"
#include "graph/kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *heap_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void heap_free(void *pointer, void *user)
{
    (void)user;
    free(pointer);
}

static const struct host host = {.alloc = heap_alloc, .free = heap_free};
static const uint32_t offsets[] = {0, 7, 8};
static const struct batch_shape batch = {2, offsets, 8, 50, 7};

static void make(struct graph *g, struct graph_options *options, uint32_t layers, bool pre)
{
    static wherry_model_config config;
    struct error e = {0};
    config = (wherry_model_config){.struct_size = sizeof config,
                                   .layers = layers,
                                   .hidden = 16,
                                   .heads = 2,
                                   .feed_forward = 32,
                                   .vocabulary = 99,
                                   .positions = 12,
                                   .token_types = 2,
                                   .pre_layernorm = pre,
                                   .activation = WHERRY_ACTIVATION_RELU,
                                   .epsilon = 1e-12f};
    options->config = &config;
    if (!graph_create(&host, options, g, &e)) fail_msg("%s", e.text);
}

/* Every operator once, everything made before it is used, one space and at most one reduction in each group. */
static void check(const struct graph *g, const struct fusion *f)
{
    bool *done = calloc((size_t)g->n_tensors, 1);
    int *owners = calloc((size_t)g->n_ops, sizeof *owners);
    for (int t = 0; t < g->n_tensors; t++) done[t] = g->tensors[t].role != TENSOR_VALUE || g->tensors[t].input;
    for (int i = 0; i < f->n_groups; i++) {
        const struct group *group = &f->groups[i];
        struct space first;
        char reduced[16] = "";
        op_space(g, &g->ops[group->ops[0]], &first);
        for (int k = 0; k < group->count; k++) {
            struct space space;
            op_space(g, &g->ops[group->ops[k]], &space);
            owners[group->ops[k]]++;
            assert_false(space.contraction && group->count > 1);
            assert_int_equal(group->ops[k] >= g->n_forward, group->backward);
            assert_int_equal(strspn(space.letters, first.letters), strlen(first.letters));
            if (*space.reduced && *reduced) assert_string_equal(space.reduced, reduced);
            if (*space.reduced) memcpy(reduced, space.reduced, sizeof reduced);
        }
        for (int r = 0; r < group->n_reads; r++)
            if (!done[tensor_owner(g, group->reads[r])])
                fail_msg("%s reads %s too early", group->name, g->tensors[group->reads[r]].name);
        for (int w = 0; w < group->n_writes; w++) done[tensor_owner(g, group->writes[w])] = true;
    }
    for (int o = 0; o < g->n_ops; o++) assert_int_equal(owners[o], 1);
    free(owners);
    free(done);
}

static void test_rule_on_all_graphs(void **state)
{
    (void)state;
    for (int bits = 0; bits < 32; bits++)
        for (int save = WHERRY_SAVE_DEFAULT; save <= WHERRY_SAVE_LEAST; save++)
            for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_NONE; pool++) {
                struct graph g;
                struct fusion f;
                struct error e = {0};
                struct graph_options options = {.pool = pool,
                                                .normalize = true,
                                                .stack = bits & 1,
                                                .training = bits & 2,
                                                .dropout = bits & 4 ? 0.1f : 0,
                                                .flash = bits & 8,
                                                .save = (wherry_save)save};
                if (options.stack) options.pool = WHERRY_POOL_NONE, options.normalize = false;
                make(&g, &options, 3, bits & 16);
                if (!fusion_derive(&g, &batch, 2, &f, &e)) fail_msg("%s", e.text);
                check(&g, &f);
                fusion_destroy(&f);
                graph_destroy(&g);
            }
}

static void test_spaces(void **state)
{
    (void)state;
    static const struct {
        enum role role;
        const char *letters, *reduced;
    } expected[] = {{QKV_BIAS, "bjqhp", ""},      {SCORES, "bhjkp", "p"},    {SOFTMAX, "bhjk", "k"},
                    {NORM1, "bji", "i"},          {ACTIVATION, "bju", ""},   {LIN1, "bjui", "i"},
                    {NORM2_DW, "bji", "bj"},      {NORM2_DX, "bji", "i"},    {LIN1_BIAS_DW, "bju", "bj"},
                    {QKV_BIAS_DW, "bjqhp", "bj"}, {SOFTMAX_DX, "bhjk", "k"}, {RESIDUAL_DX, "bji", ""},
                    {LIN1_DW, "uibj", "bj"},      {POOL, "bji", "j"},        {POOL_DX, "bij", "j"}};
    struct graph g;
    struct graph_options options = {
        .pool = WHERRY_POOL_MAX, .training = true, .dropout = 0.1f, .save = WHERRY_SAVE_PAPER};
    make(&g, &options, 1, false);
    for (size_t n = 0; n < sizeof expected / sizeof *expected; n++)
        for (int o = 0; o < g.n_ops; o++) {
            struct space space;
            if (g.ops[o].role != expected[n].role) continue;
            op_space(&g, &g.ops[o], &space);
            assert_string_equal(space.letters, expected[n].letters);
            assert_string_equal(space.reduced, expected[n].reduced);
        }
    graph_destroy(&g);
}

struct what_if {
    const char *plan, *split, *fuse;
    int launches;       /* more or fewer than before, in each of two layers */
    const char *reason; /* a part of the last refusal, "" : legal; NULL: an error with `error` in it */
    const char *error;
};

static void try_what_if(const struct graph *g, const struct what_if *w)
{
    struct group *groups;
    struct fusion f;
    struct error e = {0};
    int count;
    if (!groups_create(g, plan_find(w->plan, &e), NULL, &groups, &count, &e)) fail_msg("%s", e.text);
    bool ok = fusion_change(g, &batch, 2, groups, count, w->split, w->fuse, &f, &e);
    if (!w->reason) {
        assert_false(ok);
        if (!strstr(e.text, w->error)) fail_msg("%s", e.text);
    } else {
        if (!ok) fail_msg("%s", e.text);
        const char *reason = "";
        for (int n = 0; n < f.n_decisions; n++)
            if (!f.decisions[n].accepted) reason = f.decisions[n].reason;
        assert_int_equal(f.n_groups, count + 2 * w->launches);
        if (*w->reason ? !strstr(reason, w->reason) : *reason) fail_msg("%s: \"%s\"", w->fuse, reason);
        if (!*w->reason) { /* a legal change can run */
            struct group *order = f.groups;
            assert_true(groups_sort(g, "test", order, f.n_groups, &e));
        }
    }
    fusion_destroy(&f);
}

static void test_what_if(void **state)
{
    (void)state;
    static const struct what_if cases[] = {
        {"unfused", NULL, "lin2_dropout+lin2_residual", -1, "", NULL},
        {"unfused", NULL, "lin2_residual+lin2_bias+lin2_dropout+norm2", -3, "", NULL},
        {"unfused", NULL, "softmax+attention_dropout,attention_dropout_dx+softmax_dx", -2, "", NULL},
        {"paper", NULL, "baob+bei", -1, "", NULL},
        {"paper", NULL, "bsb+blnrd2", -1, "other reductions: over bj and over i", NULL},
        {"unfused", NULL, "lin1_bias+lin2_bias", -1, "other spaces: bju and bji", NULL},
        {"unfused", NULL, "out_bias+norm1", -1, "out_residual stands between", NULL},
        {"unfused", NULL, "out_residual+lin2_residual", -1, " stands between", NULL},
        {"unfused", NULL, "lin1+lin1_bias", -1, "contraction", NULL},
        {"unfused", NULL, "norm2+residual_dx", -1, "the loss", NULL},
        {"paper", "ebsb", NULL, 2, "", NULL},
        {"paper", "ebsb", "lin2_bias_dw+ff_residual_dx", 1, "", NULL},
        {"paper", "ebsb+brd", NULL, 4, "", NULL},
        {"paper", "qkv", NULL, 0, NULL, "one operator already"},
        {"paper", "nonsuch", NULL, 0, NULL, "no group \"nonsuch\""},
        {"paper", NULL, "lin1+nonsuch", 0, NULL, "\"nonsuch\" to fuse"},
        {"paper", NULL, "activation+lin1_bias", 0, NULL, "one group already"},
        {"paper", NULL, "lin1", 0, NULL, "two names"},
        {"paper", NULL, "", 0, NULL, "missing"},
        {"paper", NULL, "lin1+", 0, NULL, "missing"},
        {"paper", NULL, "lin1+,lin2", 0, NULL, "missing"},
        {"paper", "", NULL, 0, NULL, "missing"},
        {"unfused", NULL,
         "qkv+qkv_bias+scores+softmax+attention_dropout+context+out+out_bias+out_dropout+norm1+lin1+lin2", -11,
         "contraction", NULL},
        {"paper", NULL, "bdrln1+brd+bdrln2+blnrd1+blnrd2", 0, NULL, "more than 12"},
    };
    struct graph g;
    struct graph_options options = {
        .pool = WHERRY_POOL_NONE, .stack = true, .training = true, .dropout = 0.1f, .save = WHERRY_SAVE_PAPER};
    make(&g, &options, 2, false);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) try_what_if(&g, &cases[n]);

    /* One layer by its name; and across two: the last kernel of the one and the first of the other. */
    static const char *const named[] = {"layer.1.lin2_dropout+layer.1.lin2_residual",
                                        "layer.1.residual_dx+layer.0.norm2_dw"};
    for (int n = 0; n < 2; n++) {
        struct group *groups;
        struct fusion f;
        struct error e = {0};
        int count;
        assert_true(groups_create(&g, plan_find("unfused", &e), NULL, &groups, &count, &e));
        assert_true(fusion_change(&g, &batch, 2, groups, count, NULL, named[n], &f, &e));
        assert_int_equal(f.n_groups, count - 1);
        assert_int_equal(f.n_decisions, 1);
        assert_true(f.decisions[0].accepted);
        assert_int_equal(f.decisions[0].bytes_saved, n ? 8 * 16 * 2 : 2 * 8 * 16 * 2);
        fusion_destroy(&f);
    }
    graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_rule_on_all_graphs),
        cmocka_unit_test(test_what_if),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
