/* Norms that are folded into products (graph/fold.h): which, their groups and bytes, and weights' arithmetic. No
 * device. */
#include "base/half.h"
#include "graph/fold.h"
#include "graph/kinds.h"
#include "interface/interface.h"
#include "runtime/weight_fold.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 3, HIDDEN = 192, TOKENS = 10 };

static wherry_model_config modern(wherry_norm norm)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = LAYERS,
                                 .hidden = HIDDEN,
                                 .heads = 3,
                                 .feed_forward = 256,
                                 .vocabulary = 100,
                                 .positions = 64,
                                 .activation = WHERRY_ACTIVATION_GELU,
                                 .gate = WHERRY_GATE_FIRST,
                                 .rotary_base = 1000,
                                 .pre_layernorm = true,
                                 .norm = norm,
                                 .without = 15 | WHERRY_WITHOUT_NORM_BIAS,
                                 .epsilon = 1e-5f};
}

/* Of few rows attention has a product after it, which is where these norms stay as they are. */
static bool refuse_few(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    (void)g, (void)reason, (void)size, (void)user;
    return !strstr(group->name, "attention_out");
}

/* Groups with this role beside others. */
static bool refuse_role(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    (void)reason, (void)size;
    for (int i = 0; i < group->count && group->count > 1; i++)
        if (g->ops[group->ops[i]].role == *(const enum role *)user) return false;
    return true;
}

static struct graph make(const wherry_model_config *config, bool training)
{
    struct graph g;
    struct error e = {0};
    const struct graph_options options = {
        .config = config, .pool = WHERRY_POOL_MEAN, .training = training, .flash = true};
    if (!graph_create(&support_host, &options, &g, &e)) fail_msg("%s", e.text);
    return g;
}

static int split(struct graph *g, const struct group_filter *filter)
{
    struct error e = {0};
    int n = 0;
    assert_true(norms_split(g, plan_find("flash", &e), filter, &e));
    for (int i = 0; i < g->n_ops; i++) n += g->ops[i].kind == &kind_moments;
    return n;
}

static int marked(const struct graph *g)
{
    int n = 0;
    for (int t = 0; t < g->n_tensors; t++) n += g->tensors[t].folded != WEIGHT_NONE;
    return n;
}

static void assert_same(const struct graph *a, const struct graph *b)
{
    assert_int_equal(a->n_ops, b->n_ops);
    assert_int_equal(a->n_forward, b->n_forward);
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_int_equal(marked(a), 0);
    for (int i = 0; i < a->n_ops; i++) {
        assert_string_equal(a->ops[i].name, b->ops[i].name);
        assert_ptr_equal(a->ops[i].kind, b->ops[i].kind);
        assert_memory_equal(a->ops[i].in, b->ops[i].in, sizeof a->ops[i].in);
        assert_memory_equal(a->ops[i].out, b->ops[i].out, sizeof a->ops[i].out);
    }
    for (int t = 0; t < a->n_tensors; t++) assert_string_equal(a->tensors[t].name, b->tensors[t].name);
}

static bool has_kind(const struct graph *g, const struct group *group, const struct op_kind *kind)
{
    for (int i = 0; i < group->count; i++)
        if (g->ops[group->ops[i]].kind == kind) return true;
    return false;
}

/* Moments come with products, and cost the bytes that they have. */
static void check_groups(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                         uint64_t bytes)
{
    const uint32_t offsets[] = {0, TOKENS};
    const struct batch_shape b = {1, offsets, TOKENS, TOKENS * TOKENS, TOKENS};
    struct group *groups;
    struct error e = {0};
    int n, makers = 0, readers = 0;
    if (!groups_create(g, plan, filter, &groups, &n, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < n; i++) {
        const bool makes = has_kind(g, &groups[i], &kind_moments), reads = has_kind(g, &groups[i], &kind_moments_norm);
        uint64_t read, written;
        makers += makes;
        readers += reads;
        if (!makes && !reads) continue;
        assert_true(has_kind(g, &groups[i], &kind_contract));
        assert_string_equal(groups[i].kernel, "gemm");
        group_bytes(g, &b, &groups[i], 2, &read, &written);
        if (makes) assert_int_equal(written, TOKENS * HIDDEN * 2 + bytes);
        const uint64_t of_rotary = reads && strstr(groups[i].name, "qkv") ? TOKENS * (4 + (HIDDEN / 3) * 4) : 0;
        const uint64_t columns = strstr(groups[i].name, "qkv") ? 3 * HIDDEN : 2 * 256;
        if (reads) assert_int_equal(read, TOKENS * HIDDEN * 2 + 2 + bytes + columns * HIDDEN * 2 + of_rotary);
        struct call calls[GROUP_MAX_CALLS];
        int count;
        if (!group_calls(g, &groups[i], calls, &count, &e)) fail_msg("%s", e.text);
        assert_int_equal(call_get(&calls[0], CONST_MOMENTS, MOMENTS_NONE), makes ? MOMENTS_WRITTEN : MOMENTS_READ);
        assert_true(call_has_slot(&calls[0], SLOT_MOMENTS));
        assert_int_equal(call_has_slot(&calls[0], SLOT_GAMMA), reads);
    }
    assert_int_equal(makers, 2 * LAYERS - 1); /* the first norm reads what no product makes */
    assert_int_equal(readers, 2 * LAYERS - 1);
    host_free(&support_host, groups);
}

static void test_split(void **state)
{
    static const wherry_norm norms[] = {WHERRY_NORM_LAYER, WHERRY_NORM_RMS, WHERRY_NORM_RMS_ONE};
    const struct group_filter all = {.runs = refuse_few, .optional = true};
    (void)state;
    for (int k = 0; k < 3; k++) {
        const wherry_model_config config = modern(norms[k]);
        struct graph g = make(&config, false), as_it_was = make(&config, false);
        struct error e = {0};
        assert_int_equal(split(&g, &all), 2 * LAYERS - 1);
        assert_int_equal(marked(&g), 2 * (2 * LAYERS - 1));
        check_groups(&g, plan_find("flash", &e), &all, TOKENS * (HIDDEN / MOMENTS_STRIP) * (k ? 1 : 2) * 4);
        assert_int_equal(split(&g, &all), 2 * LAYERS - 1); /* again */
        assert_int_equal(split(&g, NULL), 0);
        assert_same(&g, &as_it_was);
        graph_destroy(&g);
        graph_destroy(&as_it_was);
    }
}

/* A norm is split for both halves or not at all. */
static void test_refused(void **state)
{
    static const struct {
        enum role role;
        int left;
    } refused[] = {
        {LIN1, LAYERS - 1}, {NORM2_MOMENTS, LAYERS - 1}, {NORM1_MOMENTS, LAYERS}, {QKV, LAYERS}, {NORM2, LAYERS - 1}};
    const wherry_model_config config = modern(WHERRY_NORM_LAYER);
    struct graph g = make(&config, false), as_it_was = make(&config, false);
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        enum role role = refused[i].role;
        const struct group_filter filter = {.runs = refuse_role, .optional = true, .user = &role};
        assert_int_equal(split(&g, &filter), refused[i].left);
    }
    split(&g, NULL);
    assert_same(&g, &as_it_was);
    graph_destroy(&g);
    graph_destroy(&as_it_was);
}

static void test_others(void **state)
{
    const struct group_filter all = {.runs = refuse_few, .optional = true};
    (void)state;
    for (int k = 0; k < 5; k++) {
        wherry_model_config config = modern(WHERRY_NORM_LAYER);
        if (k == 1) config.without = 15;                                          /* with a bias */
        if (k == 2) config.hidden = 96;                                           /* no whole strips */
        if (k == 3) config.pre_layernorm = false;                                 /* a residual reads norms, too */
        if (k == 4) config.block_norms = true, config.norm = WHERRY_NORM_RMS_ONE; /* of what no product makes */
        struct graph g = make(&config, k == 0);
        assert_int_equal(split(&g, &all), 0);
        graph_destroy(&g);
    }
}

/* Of a centred row nothing is left of a mean that is large. */
static void test_centred(void **state)
{
    enum { COLUMNS = 768 };
    static float factors[COLUMNS], row[COLUMNS];
    static uint16_t made[COLUMNS];
    uint64_t random = 3;
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int r = 0; r < 20; r++) {
            const struct weight_fold fold = {
                .columns = COLUMNS, .centred = true, .as = bf16 ? WEIGHT_TYPE_BF16 : WEIGHT_TYPE_F16};
            double sum = 0, mean = 0, difference = 0, square = 0;
            for (int c = 0; c < COLUMNS; c++) {
                factors[c] = (float)(support_random(&random) % 1000) / 8000;
                row[c] = (float)(int)(support_random(&random) % 2001 - 900) / 20000;
                mean += (double)(factors[c] * row[c]) / COLUMNS;
            }
            weight_fold_row(&fold, factors, row, made);
            for (int c = 0; c < COLUMNS; c++) {
                double v = (double)(bf16 ? bf16_to_float(made[c]) : half_to_float(made[c]));
                double want = (double)(factors[c] * row[c]) - mean;
                sum += v;
                difference += (v - want) * (v - want);
                square += want * want;
            }
            assert_true(fabs(sum) < 1e-6);
            assert_true(sqrt(difference / square) < (bf16 ? 4e-3 : 5e-4));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_others), cmocka_unit_test(test_centred)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
