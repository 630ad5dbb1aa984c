/* Masks by place: windows, causal attention and ALiBi. What they mean, counted and compared with other formulas; which
 * tokens a token's vector depends on, on every device and at the edges of a window; the same bits in any batch; memory
 * of long sequences. That every kernel computes what the reference does is test_groups'. */
#include "graph/mask.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const plan_names[] = {"flash", "unfused"};
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static wherry_context *context;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

enum { HIDDEN = 32, MOST_TOKENS = 400 };

static wherry_model_config config_of(uint32_t window, bool causal)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 1,
                                 .hidden = HIDDEN,
                                 .heads = 2,
                                 .feed_forward = 40,
                                 .vocabulary = 97,
                                 .positions = 512,
                                 .epsilon = 1e-12f,
                                 .causal = causal,
                                 .window = window};
}

/* ---- what they mean ---- */

static void test_pairs(void **state)
{
    (void)state;
    const struct mask masks[] = {{0, 0, false},  {9, 9, false}, {0, 1, false},
                                 {13, 1, false}, {1, 1, false}, {65, 65, true}};
    const uint32_t offsets[] = {0, 1, 9, 73, 138};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        uint64_t all = 0, squares = 0;
        for (int s = 0; s < 4; s++) {
            int64_t length = offsets[s + 1] - offsets[s];
            uint64_t seen = 0;
            for (int64_t i = 0; i < length; i++)
                for (int64_t j = 0; j < length; j++) seen += mask_sees(&masks[m], i, j);
            assert_int_equal(mask_pairs_of(&masks[m], (uint64_t)length), seen);
            all += seen;
            squares += (uint64_t)(length * length);
        }
        const struct batch_shape batch = {
            .sequences = 4, .offsets = offsets, .tokens = 138, .pairs = squares, .longest = 65};
        assert_int_equal(mask_pairs(&masks[m], &batch), all);
    }
}

static void test_layers(void **state)
{
    (void)state;
    struct graph g = {.masks = {.window = 64, .global_every = 3}};
    for (int layer = 0; layer < 7; layer++) {
        struct mask mask = graph_mask(&g, layer);
        assert_int_equal(mask.before, layer % 3 ? 65 : 0);
        assert_int_equal(mask.after, layer % 3 ? 65 : 0);
    }
    g.masks.global_first = 2;
    assert_int_equal(graph_mask(&g, 2).before, 0);
    assert_int_equal(graph_mask(&g, 3).before, 65);
    g.masks.causal = true;
    assert_int_equal(graph_mask(&g, 2).after, 1);
    assert_int_equal(graph_mask(&g, 3).after, 1);
}

/* Slopes of 8 heads are halves of each other; of 12 those of 8, then every other one of 16. */
static void test_slopes(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 8; h++) assert_true(fabs(mask_slope(8, h) - 1.0 / (2 << h)) < 1e-15);
    for (uint32_t h = 0; h < 8; h++) assert_true(fabs(mask_slope(12, h) - mask_slope(8, h)) < 1e-15);
    for (uint32_t h = 8; h < 12; h++) assert_true(fabs(mask_slope(12, h) - mask_slope(16, 2 * (h - 8))) < 1e-15);
    assert_true(fabs(mask_slope(1, 0) - 1.0 / 256) < 1e-15);
    assert_true(fabs(mask_slope(16, 0) - sqrt(0.5)) < 1e-15);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        uint32_t window, every, first, buckets, offset;
        float rotary, dynamic;
        uint32_t trained;
        bool causal, alibi, wide, twice, before;
    } wrong[] = {
        {"the window of attention is 16777217", .window = (1 << 24) + 1},
        {"no layer has one", .every = 3},
        {"is 3 of every 3", .window = 8, .every = 3, .first = 3},
        {"goes with no causal mask", .buckets = 32, .causal = true},
        {"goes with no window", .buckets = 32, .window = 8},
        {"goes with no ALiBi", .buckets = 32, .alibi = true},
        {"ALiBi and rotary", .alibi = true, .rotary = 1000},
        {"would have row 2", .alibi = true, .offset = 2},
        {"give both, or leave both 0", .rotary = 1000, .dynamic = 2},
        {"give both, or leave both 0", .rotary = 1000, .trained = 8},
        {"there are no rotary positions", .dynamic = 2, .trained = 8},
        {"that stretch is -1", .rotary = 1000, .dynamic = -1, .trained = 8},
        {"wide_norms are layernorms", .rotary = 1000, .wide = true},
        {"double_norms are for layers", .twice = true, .before = true},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wherry_model_config config = config_of(wrong[i].window, wrong[i].causal);
        wherry_model *model;
        config.global_every = wrong[i].every;
        config.global_first = wrong[i].first;
        config.relative_buckets = wrong[i].buckets;
        config.relative_distance = wrong[i].buckets ? 128 : 0;
        config.position_offset = wrong[i].offset;
        config.rotary_base = wrong[i].rotary;
        config.alibi = wrong[i].alibi;
        config.rotary_dynamic = wrong[i].dynamic;
        config.rotary_trained = wrong[i].trained;
        config.wide_norms = wrong[i].wide;
        config.double_norms = wrong[i].twice;
        config.pre_layernorm = wrong[i].before;
        assert_true(wherry_model_create_random(context, &config, 1, &model) != WHERRY_STATUS_OK);
        if (!strstr(wherry_last_error(context), wrong[i].says))
            fail_msg("\"%s\" does not say \"%s\"", wherry_last_error(context), wrong[i].says);
    }
}

/* ---- on devices ---- */

struct setup {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

static struct setup setup_make(const char *device, const wherry_model_config *config, const char *plan, uint32_t tokens)
{
    struct setup s;
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = tokens,
                                      .plan = plan,
                                      .pool = WHERRY_POOL_NONE,
                                      .kernels = support_kernels(device)};
    OK(wherry_device_open(context, device, &s.device));
    OK(wherry_model_create_random(context, config, 3, &s.model));
    OK(wherry_session_create(context, s.device, s.model, &desc, &s.session));
    return s;
}

static void setup_free(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
}

/* Vectors of tokens [token][HIDDEN], each sequence's token number `changed` being another one than the seed says; -1:
 * none is. */
static float *encode(const struct setup *s, const wherry_batch *batch, int changed)
{
    uint32_t tokens = batch->offsets[batch->sequences];
    int32_t *ids = malloc(tokens * sizeof *ids);
    float *out = malloc((size_t)tokens * HIDDEN * sizeof *out);
    memcpy(ids, batch->ids, tokens * sizeof *ids);
    for (uint32_t i = 0; changed >= 0 && i < batch->sequences; i++) {
        uint32_t at = batch->offsets[i] + (uint32_t)changed;
        if (at < batch->offsets[i + 1]) ids[at] = (ids[at] + 1) % 97;
    }
    const wherry_batch with = {
        .struct_size = sizeof with, .sequences = batch->sequences, .offsets = batch->offsets, .ids = ids};
    OK(wherry_encode(s->session, &with, out, (size_t)tokens * HIDDEN));
    free(ids);
    return out;
}

/* A token that changes changes the vectors of all tokens that see it, and not a bit of the others. */
static void check_seen(const char *device, const wherry_model_config *config, const char *plan, const uint32_t *lengths,
                       int changed)
{
    struct setup s = setup_make(device, config, plan, MOST_TOKENS);
    const struct graph g = {
        .masks = {config->causal, config->alibi, config->window, config->global_every, config->global_first}};
    struct mask mask = graph_mask(&g, 0);
    wherry_batch batch = support_batch(lengths, 97, 1, 11);
    float *before = encode(&s, &batch, -1), *after = encode(&s, &batch, changed);
    for (uint32_t i = 0; i < batch.sequences; i++)
        for (uint32_t t = batch.offsets[i], j = 0; t < batch.offsets[i + 1]; t++, j++) {
            bool there = (uint32_t)changed < lengths[i], sees = there && mask_sees(&mask, j, changed);
            bool other = memcmp(before + (size_t)t * HIDDEN, after + (size_t)t * HIDDEN, HIDDEN * sizeof *before) != 0;
            if (other != sees)
                fail_msg("%s %s, window %u: token %u of %u %s token %d", device, plan, config->window, j, lengths[i],
                         sees ? "does not see" : "sees", changed);
        }
    free(before);
    free(after);
    support_batch_free(&batch);
    setup_free(&s);
}

static void test_seen(void **state)
{
    (void)state;
    static const uint32_t few[] = {8, 9, 16, 17, 0}, many[] = {64, 65, 128, 129, 0};
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < 2; p++) {
            wherry_model_config config = config_of(8, false);
            check_seen(devices[d], &config, plan_names[p], few, 0);
            check_seen(devices[d], &config, plan_names[p], few, 8);
            config.window = 64;
            check_seen(devices[d], &config, plan_names[p], many, 0);
            check_seen(devices[d], &config, plan_names[p], many, 64);
            config = config_of(0, true);
            check_seen(devices[d], &config, plan_names[p], many, 63);
            config = config_of(8, true);
            config.alibi = true;
            check_seen(devices[d], &config, plan_names[p], few, 3);
            config = config_of(8, false);
            config.global_every = 1; /* all layers see all */
            check_seen(devices[d], &config, plan_names[p], few, 0);
        }
}

/* The same bits alone, first, in the middle and last. */
static void test_places(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {130, 5, 130, 33, 70, 0};
    for (size_t d = 0; d < n_devices; d++)
        for (int kind = 0; kind < 3; kind++) {
            wherry_model_config config = config_of(kind == 1 ? 0 : 20, kind == 1);
            config.alibi = kind == 2;
            struct setup s = setup_make(devices[d], &config, "flash", MOST_TOKENS);
            wherry_batch batch = support_batch(lengths, 97, 1, 5);
            float *all = encode(&s, &batch, -1);
            for (uint32_t i = 0; i < batch.sequences; i++) {
                const uint32_t offsets[] = {0, lengths[i]};
                const wherry_batch one = {
                    .struct_size = sizeof one, .sequences = 1, .offsets = offsets, .ids = batch.ids + batch.offsets[i]};
                float *alone = encode(&s, &one, -1);
                if (memcmp(alone, all + (size_t)batch.offsets[i] * HIDDEN, lengths[i] * HIDDEN * sizeof *alone))
                    fail_msg("%s, kind %d: sequence %u has other bits alone", devices[d], kind, i);
                free(alone);
            }
            free(all);
            support_batch_free(&batch);
            setup_free(&s);
        }
}

/* ---- long sequences ---- */

static uint64_t activation_bytes(const struct setup *s)
{
    wherry_session_plan plan = {.struct_size = sizeof plan};
    OK(wherry_session_query(s->session, &plan));
    return plan.activation_bytes;
}

/* In a long text the first tokens have the bits of a text that ends soon after what they see, and memory grows no
 * faster than the number of tokens. The reference stores scores. */
static void test_long(void **state)
{
    (void)state;
    enum { FEW = 192, WINDOW = 24, KEPT = FEW - WINDOW };
    for (size_t d = 0; d < n_devices; d++) {
        uint64_t bytes = 0;
        for (uint32_t tokens = 8192; tokens <= 32768 && strcmp(devices[d], "reference"); tokens *= 4) {
            wherry_model_config config = config_of(WINDOW, false);
            config.positions = tokens;
            struct setup s = setup_make(devices[d], &config, "flash", tokens);
            const uint32_t lengths[] = {tokens, 0}, offsets[] = {0, FEW};
            if (bytes && activation_bytes(&s) > 4 * bytes + bytes / 16)
                fail_msg("%s: %u tokens take %llu bytes, a quarter of them %llu", devices[d], tokens,
                         (unsigned long long)activation_bytes(&s), (unsigned long long)bytes);
            bytes = activation_bytes(&s);
            bool slow = strcmp(devices[d], "cpu") && !support_is_gpu(context, devices[d]);
            if (!slow || tokens == 8192) {
                wherry_batch batch = support_batch(lengths, 97, 1, 5);
                const wherry_batch cut = {
                    .struct_size = sizeof cut, .sequences = 1, .offsets = offsets, .ids = batch.ids};
                float *all = encode(&s, &batch, -1), *first = encode(&s, &cut, -1);
                assert_memory_equal(all, first, KEPT * HIDDEN * sizeof *all);
                free(all);
                free(first);
                support_batch_free(&batch);
            }
            setup_free(&s);
        }
    }
}

int main(void)
{
    context = support_context(NULL, devices, &n_devices);
    if (!context) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),   cmocka_unit_test(test_layers), cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_seen),   cmocka_unit_test(test_places),
        cmocka_unit_test(test_long),
    };
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed != 0;
}
