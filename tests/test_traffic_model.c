/* The modelled bytes of BERT-large's layer in training, at the shapes that are measured on a large GPU, without any
 * device: every kernel of every plan has a rule, and what the rules say at these sizes is what the kernels' shapes let
 * one expect. */
#include "backends/kernels.h"
#include "interface/interface.h"
#include "plan/batch.h"
#include "plan/tiles.h"
#include "plan/traffic.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCES = 64, LENGTH = 512 };

/* As an H200's driver for OpenCL gives them. */
static const struct device_limits gpu = {.f16 = true,
                                         .subgroup_min = 32,
                                         .subgroup_max = 32,
                                         .shared_bytes = 49152,
                                         .max_local_size = 1024,
                                         .nvidia_sm = 90};

static const wherry_model_config config = {.struct_size = sizeof config,
                                           .layers = 1,
                                           .hidden = 1024,
                                           .heads = 16,
                                           .feed_forward = 4096,
                                           .vocabulary = 1,
                                           .positions = LENGTH,
                                           .token_types = 1,
                                           .activation = WHERRY_ACTIVATION_RELU,
                                           .epsilon = 1e-12f};

struct layer {
    struct graph graph;
    struct group *groups;
    int n_groups;
    struct batch_shape shape;
    uint32_t offsets[SEQUENCES + 1], *words;
};

static void layer_make(struct layer *l, const char *plan)
{
    struct error e = {0};
    const struct graph_options options = {.config = &config,
                                          .pool = WHERRY_POOL_NONE,
                                          .stack = true,
                                          .training = true,
                                          .dropout = 0.1f,
                                          .flash = !strcmp(plan, "flash"),
                                          .save = WHERRY_SAVE_DEFAULT};
    const struct batch_tables tables = {tile_queries(&gpu), tile_scores(&gpu)};
    memset(l, 0, sizeof *l);
    for (uint32_t i = 0; i <= SEQUENCES; i++) l->offsets[i] = i * LENGTH;
    l->shape = (struct batch_shape){.sequences = SEQUENCES,
                                    .offsets = l->offsets,
                                    .tokens = SEQUENCES * LENGTH,
                                    .pairs = (uint64_t)SEQUENCES * LENGTH * LENGTH,
                                    .longest = LENGTH};
    assert_true(graph_create(&support_host, &options, &l->graph, &e));
    assert_true(groups_create(&l->graph, plan_find(plan, &e), NULL, &l->groups, &l->n_groups, &e));
    l->words = calloc((size_t)batch_words_most(&tables, &l->shape), sizeof *l->words);
    batch_fill(&tables, &l->shape, l->words);
}

static void layer_free(struct layer *l)
{
    support_free(l->groups, NULL);
    graph_destroy(&l->graph);
    free(l->words);
}

/* No batch within the limits has more work-items than they say: not one of them, nor one of single tokens. */
static void check_most_items(const struct layer *l, const struct call *calls, int count)
{
    const struct batch_tables tables = {tile_queries(&gpu), tile_scores(&gpu)};
    struct batch_shape single = {.sequences = SEQUENCES, .tokens = SEQUENCES, .pairs = SEQUENCES, .longest = 1};
    uint32_t offsets[SEQUENCES + 1], words[HEADER_WORDS + 16 * SEQUENCES];
    for (uint32_t i = 0; i <= SEQUENCES; i++) offsets[i] = i;
    single.offsets = offsets;
    assert_true(batch_words_most(&tables, &single) <= sizeof words / sizeof *words);
    batch_fill(&tables, &single, words);
    for (int i = 0; i < count; i++) {
        uint64_t most = call_items_most(&calls[i], true, &tables, &l->shape);
        const uint32_t *batches[] = {l->words, words};
        for (size_t b = 0; b < 2; b++) {
            struct grid grid = call_grid(&calls[i], true, batches[b]);
            uint64_t items = (uint64_t)grid.x * grid.y * grid.z * call_get(&calls[i], CONST_LOCAL_SIZE, 1);
            assert_true(items > 0 && items <= most);
        }
    }
}

static wherry_traffic traffic_of(const struct layer *l, const struct group *group, uint64_t cache)
{
    struct call calls[GROUP_MAX_CALLS];
    struct error e = {0};
    wherry_traffic t;
    int count;
    assert_true(group_calls(&l->graph, group, calls, &count, &e));
    for (int i = 0, made = count; i < count; i++) {
        if (i < made) call_tiles(&calls[i], i ? &calls[0] : NULL, &gpu, true, l->shape.tokens, LENGTH);
        if (!i) calls_divide(calls, &count, &gpu, true, l->shape.tokens);
    }
    check_most_items(l, calls, count);
    assert_true(call_traffic(&l->graph, &l->shape, group, calls, count, true, l->words, cache, NULL, &t));
    return t;
}

static const struct group *group_named(const struct layer *l, const char *name)
{
    for (int i = 0; i < l->n_groups; i++)
        if (!strcmp(l->groups[i].name, name)) return &l->groups[i];
    fail_msg("no group %s", name);
    return NULL;
}

/* Of a backend: all but those that no group runs. */
static void check_rules(bool (*kernel)(size_t, struct embedded_kernel *))
{
    struct embedded_kernel embedded;
    for (size_t i = 0; kernel(i, &embedded); i++) {
        bool alone = !strncmp(embedded.name, "roof_", 5) || !strncmp(embedded.name, "tensor_", 7) ||
                     !strncmp(embedded.name, "layout_", 7) || !strncmp(embedded.name, "optimizer_", 10) ||
                     !strncmp(embedded.name, "handover_", 9) || !strncmp(embedded.name, "bucket_", 7) ||
                     !strncmp(embedded.name, "adapter_", 8) || !strcmp(embedded.name, "widen") ||
                     !strcmp(embedded.name, "known_ids");
        if (traffic_has(embedded.name) == alone)
            fail_msg("%s: %s", embedded.name,
                     alone ? "a rule for what no group runs" : "no traffic model in core/plan");
    }
}

static void test_every_embedded_kernel_has_a_rule(void **state)
{
    (void)state;
#ifdef WHERRY_HAVE_OPENCL
    check_rules(opencl_kernel);
#endif
#ifdef WHERRY_HAVE_VULKAN
    check_rules(vulkan_kernel);
#endif
}

static void test_every_kernel_has_a_rule(void **state)
{
    (void)state;
    for (size_t p = 0; p < plans_count; p++) {
        struct layer l;
        layer_make(&l, plans[p].name);
        for (int i = 0; i < l.n_groups; i++) {
            wherry_traffic endless = traffic_of(&l, &l.groups[i], UINT64_MAX), none = traffic_of(&l, &l.groups[i], 0),
                           some = traffic_of(&l, &l.groups[i], 50000000);
            assert_int_equal(endless.model_read, endless.unique_read);
            assert_true(endless.model_written >= endless.unique_written);
            assert_true(some.model_read >= some.unique_read && some.model_read <= none.model_read);
            assert_true(none.model_read <= none.requested_read && none.model_written <= none.requested_written);
            if (getenv("WHERRY_TEST_PRINT"))
                printf("%-8s %-28s Q %8.1f + %7.1f  model %8.1f + %7.1f  asked %9.1f + %7.1f MB\n", plans[p].name,
                       l.groups[i].name, (double)some.unique_read / 1e6, (double)some.unique_written / 1e6,
                       (double)some.model_read / 1e6, (double)some.model_written / 1e6,
                       (double)some.requested_read / 1e6, (double)some.requested_written / 1e6);
        }
        layer_free(&l);
    }
}

/* What streams is moved once; a product asks for its operands once for every tile on the other side, and finds them in
 * the cache. */
static void test_products_and_rows(void **state)
{
    (void)state;
    struct layer l;
    layer_make(&l, "flash");
    const uint64_t rows = SEQUENCES * LENGTH, hidden = 1024, wide = 4096;
    wherry_traffic norm = traffic_of(&l, group_named(&l, "layer.0.norm1"), 50000000);
    assert_int_equal(norm.model_read, norm.unique_read);
    assert_int_equal(norm.requested_read, 2 * (3 * rows * hidden)); /* x, and gamma and beta for every row */
    wherry_traffic lin1 = traffic_of(&l, group_named(&l, "layer.0.lin1"), 50000000);
    assert_int_equal(lin1.model_read, lin1.unique_read);
    /* Tiles of 128 x 128, whose 16 rows of work-items load the bias. */
    assert_int_equal(lin1.requested_read,
                     2 * (rows * hidden * (wide / 128) + wide * hidden * (rows / 128) + rows / 128 * 16 * wide));
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_embedded_kernel_has_a_rule),
                                       cmocka_unit_test(test_every_kernel_has_a_rule),
                                       cmocka_unit_test(test_products_and_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
