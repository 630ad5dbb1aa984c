/* What a session returns besides embeddings, through the public API: on every device and in every plan as the reference
 * has it, with the same bits wherever a sequence stands in a batch, and refused where the model has it not. */
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static wherry_context *context;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

enum { VOCABULARY = 97, MOST_TOKENS = 300 };

static const struct form {
    const char *name;
    wherry_output output;
    wherry_head head;
    wherry_head_activation activation;
    uint32_t labels, embedding;
    bool pre, per_token, untied;
} forms[] = {
    {"reranker", WHERRY_OUTPUT_CLASSES, WHERRY_HEAD_SEQUENCE, WHERRY_HEAD_TANH, 1, 0, false, false},
    {"classes", WHERRY_OUTPUT_CLASSES, WHERRY_HEAD_SEQUENCE, WHERRY_HEAD_GELU, 5, 20, false, false},
    {"plain", WHERRY_OUTPUT_CLASSES, WHERRY_HEAD_SEQUENCE, WHERRY_HEAD_PLAIN, 2, 0, true, false},
    {"tokens", WHERRY_OUTPUT_TOKEN_CLASSES, WHERRY_HEAD_TOKENS, WHERRY_HEAD_PLAIN, 3, 0, false, true},
    {"vocabulary", WHERRY_OUTPUT_VOCABULARY, WHERRY_HEAD_VOCABULARY, WHERRY_HEAD_GELU, 0, 0, false, false},
    {"vocabulary of narrow", WHERRY_OUTPUT_VOCABULARY, WHERRY_HEAD_VOCABULARY, WHERRY_HEAD_RELU, 0, 12, false, false},
    {"untied vocabulary", WHERRY_OUTPUT_VOCABULARY, WHERRY_HEAD_VOCABULARY, WHERRY_HEAD_GELU, 0, 0, false, false, true},
    {"words", WHERRY_OUTPUT_WORDS, WHERRY_HEAD_VOCABULARY, WHERRY_HEAD_GELU, 0, 0, false, false},
    {"untied words of narrow", WHERRY_OUTPUT_WORDS, WHERRY_HEAD_VOCABULARY, WHERRY_HEAD_RELU, 0, 12, false, false,
     true},
};
enum { FORMS = sizeof forms / sizeof *forms };

static wherry_model_config config_of(const struct form *f)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 2,
                                 .hidden = 48,
                                 .heads = 3,
                                 .feed_forward = 72,
                                 .vocabulary = VOCABULARY,
                                 .positions = 128,
                                 .token_types = 2,
                                 .pre_layernorm = f->pre,
                                 .epsilon = 1e-12f,
                                 .embedding = f->embedding,
                                 .head = f->head,
                                 .labels = f->labels,
                                 .head_activation = f->activation,
                                 .untied = f->untied};
}

struct setup {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    uint32_t width; /* floats of a row */
};

static struct setup setup_make(const struct form *f, const char *device, const char *plan)
{
    struct setup s;
    wherry_model_config config = config_of(f);
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = MOST_TOKENS,
                                .dtype = WHERRY_DTYPE_F32,
                                .plan = plan,
                                .output = f->output,
                                .kernels = support_kernels(device)};
    wherry_session_plan made = {.struct_size = sizeof made};
    OK(wherry_device_open(context, device, &s.device));
    OK(wherry_model_create_random(context, &config, 5, &s.model));
    OK(wherry_session_create(context, s.device, s.model, &desc, &s.session));
    OK(wherry_session_query(s.session, &made));
    s.width = made.embedding_size;
    assert_int_equal(s.width, f->head == WHERRY_HEAD_VOCABULARY ? VOCABULARY : f->labels);
    return s;
}

static void setup_free(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
}

/* Sequence i of the batch asks about its token i. */
static const uint32_t lengths[] = {5, 70, 1, 33, 0}, asked[] = {0, 1, 0, 3};
enum { SEQUENCES = 4, TOKENS = 109 };

static void encode(const struct form *f, struct setup *s, const wherry_batch *batch, float *out)
{
    uint32_t rows = f->per_token ? batch->offsets[batch->sequences] : batch->sequences;
    OK(wherry_encode(s->session, batch, out, (size_t)rows * s->width));
}

/* Alone, first, in the middle and last: each sequence has the bits that it has among the others. */
static void check_bits(const struct form *f, struct setup *s, const wherry_batch *all, const float *together,
                       const char *where)
{
    float *alone = calloc((size_t)TOKENS * s->width, sizeof *alone);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (int before = 0; before < 2; before++) {
            uint32_t first = all->offsets[i], length = lengths[i], offsets[] = {0, 7, 7 + length};
            int32_t ids[7 + 70] = {1, 2, 3, 4, 5, 6, 7}, types[7 + 70] = {0};
            uint32_t rows[] = {2, asked[i]};
            memcpy(ids + 7, all->ids + first, length * sizeof *ids);
            memcpy(types + 7, all->types + first, length * sizeof *types);
            const uint32_t only[] = {0, length};
            wherry_batch one = {sizeof one, 2, offsets, ids, types, rows};
            if (!before) one = (wherry_batch){sizeof one, 1, only, ids + 7, types + 7, rows + 1};
            encode(f, s, &one, alone);
            size_t at = (size_t)(f->per_token ? first : i) * s->width, from = before ? (f->per_token ? 7 : 1) : 0;
            if (memcmp(together + at, alone + from * s->width, (f->per_token ? length : 1) * s->width * sizeof(float)))
                fail_msg("%s %s: sequence %u has other bits %s", where, f->name, i, before ? "last" : "alone");
        }
    free(alone);
}

static void test_outputs(void **state)
{
    (void)state;
    static const char *const plans[] = {"flash", "paper", "unfused"};
    wherry_batch batch = support_batch(lengths, VOCABULARY, 2, 9);
    batch.rows = asked;
    for (size_t n = 0; n < FORMS; n++) {
        const struct form *f = &forms[n];
        struct setup r = setup_make(f, "reference", "flash");
        size_t count = (size_t)(f->per_token ? TOKENS : SEQUENCES) * r.width;
        float *want = calloc(count, sizeof *want), *got = calloc(count, sizeof *got);
        encode(f, &r, &batch, want);
        check_bits(f, &r, &batch, want, "reference");
        for (size_t d = 0; d < n_devices; d++)
            for (size_t p = 0; p < 3; p++) {
                /* Drivers that compile for seconds take one plan of each. */
                if (!strcmp(devices[d], "reference")) continue;
                if (strcmp(devices[d], "cpu") && !support_is_gpu(context, devices[d]) && p != n % 3) continue;
                struct setup s = setup_make(f, devices[d], plans[p]);
                encode(f, &s, &batch, got);
                for (size_t i = 0; i < count; i++)
                    if (!(fabsf(got[i] - want[i]) < 1e-4f))
                        fail_msg("%s %s %s: value %zu is %g, the reference has %g", devices[d], plans[p], f->name, i,
                                 (double)got[i], (double)want[i]);
                check_bits(f, &s, &batch, got, devices[d]);
                setup_free(&s);
            }
        setup_free(&r);
        free(want);
        free(got);
    }
    batch.rows = NULL;
    support_batch_free(&batch);
}

/* The types of a pair's tokens count. */
static void test_pairs_differ(void **state)
{
    (void)state;
    struct setup s = setup_make(&forms[0], "reference", "flash");
    const uint32_t offsets[] = {0, 8};
    const int32_t ids[8] = {2, 9, 10, 3, 11, 12, 13, 3}, types[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    float with, without;
    wherry_batch batch = {sizeof batch, 1, offsets, ids, types, NULL};
    OK(wherry_encode(s.session, &batch, &with, 1));
    batch.types = NULL;
    OK(wherry_encode(s.session, &batch, &without, 1));
    assert_true(fabsf(with - without) > 1e-4f);
    setup_free(&s);
}

static void test_scores(void **state)
{
    (void)state;
    float logits[4] = {1, 2, -300, 300}, same[4] = {1, 2, -300, 300};
    wherry_scores_apply(WHERRY_SCORES_IDENTITY, logits, 2, 2);
    assert_memory_equal(logits, same, sizeof same);
    wherry_scores_apply(WHERRY_SCORES_SOFTMAX, logits, 2, 2);
    assert_true(fabsf(logits[0] - 0.26894142f) < 1e-6f && fabsf(logits[1] - 0.73105858f) < 1e-6f);
    assert_true(logits[2] == 0 && logits[3] == 1);
    wherry_scores_apply(WHERRY_SCORES_SIGMOID, same, 1, 4);
    assert_true(fabsf(same[0] - 0.73105858f) < 1e-6f && same[2] == 0 && same[3] == 1);
}

static void test_cut(void **state)
{
    (void)state;
    const struct form plain = {.name = "embedding"};
    wherry_model_config config = config_of(&plain);
    wherry_batch batch = support_batch(lengths, VOCABULARY, 2, 9);
    float all[SEQUENCES * 48], cut[SEQUENCES * 6];
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    OK(wherry_device_open(context, "reference", &device));
    OK(wherry_model_create_random(context, &config, 5, &model));
    for (int normalize = -1; normalize <= 1; normalize += 2) {
        wherry_session_desc desc = {.struct_size = sizeof desc,
                                    .max_tokens = MOST_TOKENS,
                                    .pool = WHERRY_POOL_WEIGHTED_MEAN,
                                    .normalize = normalize};
        OK(wherry_session_create(context, device, model, &desc, &session));
        OK(wherry_encode(session, &batch, all, SEQUENCES * 48));
        wherry_session_destroy(session);
        desc.dimensions = 6;
        OK(wherry_session_create(context, device, model, &desc, &session));
        OK(wherry_encode(session, &batch, cut, SEQUENCES * 6));
        wherry_session_destroy(session);
        for (int s = 0; s < SEQUENCES; s++) {
            double length = 0;
            for (int i = 0; i < 6; i++) length += (double)all[s * 48 + i] * (double)all[s * 48 + i];
            for (int i = 0; i < 6; i++) {
                double want = (double)all[s * 48 + i] / (normalize > 0 ? sqrt(length) : 1);
                assert_true(fabs((double)cut[s * 6 + i] - want) < 1e-6);
            }
        }
    }
    wherry_model_close(model);
    wherry_device_close(device);
    support_batch_free(&batch);
}

/* A model that has no such head, heads that do not go together, rows that are not there. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        wherry_session_desc desc;
        wherry_status status;
        const char *says;
    } cases[] = {
        {{.output = WHERRY_OUTPUT_TOKEN_CLASSES}, WHERRY_STATUS_UNSUPPORTED, "no classes of tokens"},
        {{.output = WHERRY_OUTPUT_VOCABULARY}, WHERRY_STATUS_UNSUPPORTED, "no scores of the vocabulary"},
        {{.output = WHERRY_OUTPUT_CLASSES, .normalize = 1}, WHERRY_STATUS_INVALID_ARGUMENT, "leave them out"},
        {{.output = WHERRY_OUTPUT_SPARSE}, WHERRY_STATUS_UNSUPPORTED, "no weights of tokens"},
        {{.output = WHERRY_OUTPUT_TOKEN_VECTORS}, WHERRY_STATUS_UNSUPPORTED, "no projected vectors of tokens"},
        {{.output = WHERRY_OUTPUT_SPARSE, .normalize = -1}, WHERRY_STATUS_INVALID_ARGUMENT, "leave them out"},
        {{.output = (wherry_output)9}, WHERRY_STATUS_INVALID_ARGUMENT, "output 9"},
        {{.output = WHERRY_OUTPUT_WORDS}, WHERRY_STATUS_UNSUPPORTED, "no weights of words"},
        {{.output = WHERRY_OUTPUT_CLASSES, .pool = WHERRY_POOL_MEAN}, WHERRY_STATUS_INVALID_ARGUMENT, "leave them out"},
        {{.dimensions = 49}, WHERRY_STATUS_INVALID_ARGUMENT, "cut to 49 dimensions: this model's have 48"},
        {{.pool = WHERRY_POOL_COMBINED}, WHERRY_STATUS_UNSUPPORTED, "combine no poolings"},
        {{.pool = (wherry_pool)40}, WHERRY_STATUS_INVALID_ARGUMENT, "pool 40"},
    };
    struct setup s = setup_make(&forms[0], "reference", "flash");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wherry_session_desc desc = cases[i].desc;
        wherry_session *none = NULL;
        desc.struct_size = sizeof desc;
        assert_int_equal(wherry_session_create(context, s.device, s.model, &desc, &none), cases[i].status);
        if (!strstr(wherry_last_error(context), cases[i].says)) fail_msg("%s", wherry_last_error(context));
    }
    const uint32_t offsets[] = {0, 2}, rows[] = {2};
    const int32_t ids[] = {1, 2};
    float out[1];
    wherry_batch batch = {sizeof batch, 1, offsets, ids, NULL, rows};
    assert_int_equal(wherry_encode(s.session, &batch, out, 1), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "row 2 of sequence 0"));
    assert_string_equal(wherry_model_label(s.model, 0), "LABEL_0");
    assert_null(wherry_model_label(s.model, 1));
    setup_free(&s);
    const struct form bad[] = {
        {.head = WHERRY_HEAD_SEQUENCE}, {.labels = 3}, {.head = (wherry_head)7}, {.untied = true}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wherry_model_config config = config_of(&bad[i]);
        wherry_model *made = NULL;
        assert_int_equal(wherry_model_create_random(context, &config, 1, &made), WHERRY_STATUS_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs), cmocka_unit_test(test_pairs_differ), cmocka_unit_test(test_scores),
        cmocka_unit_test(test_cut),     cmocka_unit_test(test_refusals),
    };
    if (!(context = support_context(support_log, devices, &n_devices))) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
