/* Weights: conversion to the types that devices store, models of random numbers, and named shapes. */
#include "model_files.h"

#include <math.h>

#include "model/architecture.h"
#include "model/model.h"
#include "model/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- conversion ---- */

static unsigned char raw[WEIGHT_RAW_BYTES];

/* Of values in memory. `says`: NULL where they are taken. */
static void convert(const void *values, enum weight_type type, uint64_t first, uint64_t count, enum weight_type as,
                    void *out, const char *says)
{
    const struct weight_part part = {.memory = values, .type = type, .elements = first + count};
    struct error e = {0};
    bool ok = weight_convert(&part, first, count, as, raw, out, &e);
    if (ok != !says || (says && !strstr(e.text, says))) fail_msg("\"%s\" is not \"%s\"", e.text, says ? says : "");
    if (says)
        assert_int_equal(e.status, strstr(says, "nan") || strstr(says, "inf") ? WHERRY_STATUS_BAD_FORMAT
                                                                              : WHERRY_STATUS_UNSUPPORTED);
}

static void converts(void **state)
{
    (void)state;
    const float in[] = {1.0f, -2.5f, 65504.0f, 6.1e-5f, 5.96046448e-8f, 2.98e-8f, 0.0f, 1.00048828125f, 1.00146484375f};
    const uint16_t expected[] = {0x3c00, 0xc100, 0x7bff, 0x03ff, 0x0001, 0x0000, 0x0000, 0x3c00, 0x3c02};
    enum { N = sizeof in / sizeof *in };
    unsigned char unaligned[sizeof in + 1];
    memcpy(unaligned + 1, in, sizeof in);
    uint16_t halves[N];
    float floats[N];
    convert(unaligned + 1, WEIGHT_TYPE_F32, 0, N, WEIGHT_TYPE_F16, halves, NULL);
    for (int i = 0; i < N; i++) {
        if (halves[i] != expected[i]) fail_msg("%g became %04x", (double)in[i], halves[i]);
    }
    convert(unaligned + 1, WEIGHT_TYPE_F32, 3, 2, WEIGHT_TYPE_F32, floats, NULL);
    assert_true(floats[0] == in[3] && floats[1] == in[4]);
    const uint16_t bfloat[] = {0x3f80, 0x477f, 0x4780}; /* 1, 65280, 65536 */
    convert(bfloat, WEIGHT_TYPE_BF16, 0, 3, WEIGHT_TYPE_F32, floats, NULL);
    assert_true(floats[0] == 1 && floats[1] == 65280 && floats[2] == 65536);
    convert(bfloat, WEIGHT_TYPE_BF16, 0, 2, WEIGHT_TYPE_F16, halves, NULL);
    assert_true(halves[0] == 0x3c00 && half_to_float(halves[1]) == 65280);
    for (uint32_t h = 0; h < 65536; h++) { /* all of f16 comes back from f32 */
        uint16_t half = (uint16_t)h;
        if ((h & 0x7c00) == 0x7c00) continue;
        convert(&half, WEIGHT_TYPE_F16, 0, 1, WEIGHT_TYPE_F32, floats, NULL);
        convert(floats, WEIGHT_TYPE_F32, 0, 1, WEIGHT_TYPE_F16, halves, NULL);
        if (halves[0] != half) fail_msg("%04x became %04x", half, halves[0]);
        convert(&half, WEIGHT_TYPE_F16, 0, 1, WEIGHT_TYPE_F16, halves, NULL);
        assert_int_equal(halves[0], half);
    }
}

/* To nearest, ties to even; halfway are 0x...8000. */
static void converts_to_bf16(void **state)
{
    (void)state;
    static const uint32_t in[] = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001,
                                  0x3f80ffff, 0xbf7fffff, 0x7f7f7fff, 0x80000001};
    static const uint16_t expected[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x3f81, 0xbf80, 0x7f7f, 0x8000};
    const uint16_t half = 0x3c01; /* 1 + 2^-10 */
    enum { N = sizeof in / sizeof *in };
    uint16_t out[N];
    convert(in, WEIGHT_TYPE_F32, 0, N, WEIGHT_TYPE_BF16, out, NULL);
    for (int i = 0; i < N; i++)
        if (out[i] != expected[i]) fail_msg("%08x became %04x", (unsigned)in[i], out[i]);
    convert(expected, WEIGHT_TYPE_BF16, 0, N, WEIGHT_TYPE_BF16, out, NULL);
    assert_memory_equal(out, expected, sizeof out);
    convert(&half, WEIGHT_TYPE_F16, 0, 1, WEIGHT_TYPE_BF16, out, NULL);
    assert_int_equal(out[0], 0x3f80);
    convert(&(float){3.3961776e38f}, WEIGHT_TYPE_F32, 0, 1, WEIGHT_TYPE_BF16, out, "value 3.39618e+38 ");
    convert(&(float){NAN}, WEIGHT_TYPE_F32, 0, 1, WEIGHT_TYPE_BF16, out, "value nan ");
    assert_true(isnan(bf16_to_float(bf16_from_float(NAN))) && isinf(bf16_to_float(bf16_from_float(3.4e38f))));
}

/* One bad value anywhere among many, in every type: found, and named. */
static void refuses_values(void **state)
{
    (void)state;
    static const struct {
        enum weight_type type;
        uint32_t bits;
        bool f32, f16; /* is refused for */
        const char *says;
    } cases[] = {
        {WEIGHT_TYPE_F32, 0x477fefff, false, false, NULL}, /* 65519.996 rounds to 65504 */
        {WEIGHT_TYPE_F32, 0x477ff000, false, true, "value 65520 "},
        {WEIGHT_TYPE_F32, 0xc77ff000, false, true, "value -65520 "},
        {WEIGHT_TYPE_F32, 0x7f7fffff, false, true, "value 3.40282e+38 "},
        {WEIGHT_TYPE_F32, 0x7f800000, true, true, "value inf "},
        {WEIGHT_TYPE_F32, 0xff800000, true, true, "value -inf "},
        {WEIGHT_TYPE_F32, 0x7fc00000, true, true, "value nan "},
        {WEIGHT_TYPE_F32, 0x7f800001, true, true, "value nan "},
        {WEIGHT_TYPE_F32, 0x00000001, false, false, NULL},
        {WEIGHT_TYPE_F16, 0x7bff, false, false, NULL},
        {WEIGHT_TYPE_F16, 0x7c00, true, true, "value inf "},
        {WEIGHT_TYPE_F16, 0xfc00, true, true, "value -inf "},
        {WEIGHT_TYPE_F16, 0x7c01, true, true, "value nan "},
        {WEIGHT_TYPE_BF16, 0x477f, false, false, NULL},
        {WEIGHT_TYPE_BF16, 0x4780, false, true, "value 65536 "},
        {WEIGHT_TYPE_BF16, 0xff80, true, true, "value -inf "},
        {WEIGHT_TYPE_BF16, 0x7fff, true, true, "value nan "},
    };
    enum { N = WEIGHT_RAW_BYTES / 2 + 77 };
    static unsigned char values[4 * N], out[4 * N];
    const size_t places[] = {0, 1, 6, N / 2, WEIGHT_RAW_BYTES / 4 - 1, WEIGHT_RAW_BYTES / 4, N - 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            size_t size = cases[i].type == WEIGHT_TYPE_F32 ? 4 : 2;
            memset(values, 0, sizeof values);
            memcpy(values + places[p] * size, &cases[i].bits, size);
            char *says = cases[i].says ? files_format("%sat element %zu", cases[i].says, places[p]) : NULL;
            convert(values, cases[i].type, 0, N, WEIGHT_TYPE_F32, out, cases[i].f32 ? says : NULL);
            convert(values, cases[i].type, 0, N, WEIGHT_TYPE_F16, out, cases[i].f16 ? says : NULL);
            if (places[p]) convert(values, cases[i].type, 0, places[p], WEIGHT_TYPE_F16, out, NULL);
            convert(values, cases[i].type, places[p] + 1, N - 1 - places[p], WEIGHT_TYPE_F16, out, NULL);
            free(says);
        }
}

/* Three parts of a matrix of odd sizes in every order, in one go and in pieces. */
static void reorders(void **state)
{
    (void)state;
    enum { HEADS = 7, CHANNELS = 5, PART_ROWS = HEADS * CHANNELS, ROWS = 3 * PART_ROWS, COLUMNS = 53 };
    static float values[ROWS * COLUMNS], out[ROWS * COLUMNS], back[ROWS * COLUMNS];
    static float strip[ORDER_STRIP * COLUMNS];
    static uint16_t half[ROWS * COLUMNS];
    struct weight_part parts[3];
    struct matrix_order order = {.rows = ROWS, .columns = COLUMNS};
    struct error e = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)(i % 1999) - 999.5f; /* exact in f16 */
    for (int i = 0; i < 3; i++)
        parts[i] = (struct weight_part){
            .memory = values + i * PART_ROWS * COLUMNS, .type = WEIGHT_TYPE_F32, .elements = PART_ROWS * COLUMNS};
    for (int kind = 1; kind < 4; kind++) {
        order.transposed = kind & 1;
        order.heads = kind & 2 ? HEADS : 0;
        order.channels = CHANNELS;
        int outer = order.transposed ? COLUMNS : ROWS, inner = ROWS * COLUMNS / outer;
        for (int step = 1; step <= outer; step += 26) {
            for (int first = 0; first < outer; first += step) {
                uint64_t count = (uint64_t)(outer - first < step ? outer - first : step), at = (uint64_t)first;
                void *to = out + first * inner, *half_to = half + first * inner;
                assert_true(weight_convert_order(parts, &order, at, count, WEIGHT_TYPE_F32, raw, strip, to, &e));
                assert_true(weight_convert_order(parts, &order, at, count, WEIGHT_TYPE_F16, raw, strip, half_to, &e));
            }
            for (int r = 0; r < ROWS; r++) {
                int there = (r / CHANNELS % 3 * HEADS + r / CHANNELS / 3) * CHANNELS + r % CHANNELS;
                for (int c = 0; c < COLUMNS; c++) {
                    int at = order.transposed ? c * ROWS + r : r * COLUMNS + c;
                    float want = values[(order.heads ? there : r) * COLUMNS + c];
                    assert_true(out[at] == want && half_to_float(half[at]) == want);
                }
            }
        }
        floats_from_order(&order, out, back);
        assert_memory_equal(back, values, sizeof values);
    }
    values[ROWS * COLUMNS - 1] = 1e6f;
    assert_false(weight_convert_order(parts, &order, 0, COLUMNS, WEIGHT_TYPE_F16, raw, strip, half, &e));
    assert_non_null(strstr(e.text, "the value 1e+06 at element 1854"));
}

/* ---- random models ---- */

static double deviation(const struct wherry_model *model, enum weight weight, int layer, int part, double *mean)
{
    const struct weight_part *parts;
    assert_true(model_weight(model, weight, layer, &parts) > part);
    const float *values = parts[part].memory;
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < parts[part].elements; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    *mean = sum / (double)parts[part].elements;
    return sqrt(squares / (double)parts[part].elements - *mean * *mean);
}

static void makes_random_models(void **state)
{
    (void)state;
    struct error e = {0};
    wherry_model_config config;
    struct wherry_model *a, *b, *c;
    assert_true(architecture_shape("minilm-l6", &config, &e));
    config.layers = 2;
    config.pre_layernorm = true;
    config.epsilon = 0;
    assert_true(model_random(&files_host, &config, 1, &a, &e));
    assert_true(model_random(&files_host, &config, 1, &b, &e));
    assert_true(model_random(&files_host, &config, 2, &c, &e));
    const struct weight_part *p, *q;
    for (int w = WEIGHT_WORD; w < WEIGHT_COUNT; w++) {
        for (int layer = -1; layer < 2; layer++) {
            int n = model_weight(a, (enum weight)w, layer, &p);
            bool of_layer = w >= WEIGHT_QKV && w <= WEIGHT_BETA2;
            bool absent = w > WEIGHT_POOLER_BIAS || of_layer != (layer >= 0);
            assert_int_equal(n, absent ? 0 : w == WEIGHT_QKV || w == WEIGHT_QKV_BIAS ? 3 : 1);
            model_weight(b, (enum weight)w, layer, &q);
            for (int i = 0; i < n; i++) assert_memory_equal(p[i].memory, q[i].memory, p[i].elements * 4);
            model_weight(c, (enum weight)w, layer, &q);
            for (int i = 0; i < n; i++) assert_memory_not_equal(p[i].memory, q[i].memory, p[i].elements * 4);
        }
    }
    model_weight(a, WEIGHT_QKV, 0, &p);
    model_weight(a, WEIGHT_QKV, 1, &q);
    assert_memory_not_equal(p[0].memory, q[0].memory, p[0].elements * 4);
    assert_memory_not_equal(p[0].memory, p[1].memory, p[0].elements * 4);
    double mean;
    assert_true(fabs(deviation(a, WEIGHT_LIN1, 1, 0, &mean) * sqrt(384) - 1) < 0.01 && fabs(mean) < 0.001);
    assert_true(fabs(deviation(a, WEIGHT_LIN2, 1, 0, &mean) * sqrt(1536) - 1) < 0.01 && fabs(mean) < 0.001);
    assert_true(fabs(deviation(a, WEIGHT_GAMMA1, 0, 0, &mean) - 0.1) < 0.02 && fabs(mean - 1) < 0.03);
    assert_true(fabs(deviation(a, WEIGHT_WORD, -1, 0, &mean) - 0.02) < 0.001 && fabs(mean) < 0.001);
    assert_true(a->info.config.epsilon == 1e-12f);
    assert_false(a->info.has_tokenizer);
    assert_int_equal(a->info.max_tokens, 512);
    model_close(a);
    model_close(b);
    model_close(c);
    model_close(NULL);
}

static void names_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } shapes[] = {{"minilm-l6", 22713216},       {"bert-base", 109482240},    {"roberta-base", 124645632},
                  {"distilbert-base", 66362880}, {"electra-small", 13483008}, {"mpnet-base", 109486464}};
    struct error e = {0};
    wherry_model_config config;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct wherry_model *model;
        assert_true(architecture_shape(shapes[i].name, &config, &e));
        assert_true(model_random(&files_host, &config, 1, &model, &e));
        assert_int_equal(model->info.parameters, shapes[i].parameters);
        model_close(model);
    }
    assert_true(architecture_shape("bert-large", &config, &e));
    assert_int_equal(config.hidden, 1024);
    assert_false(architecture_shape("gpt", &config, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "minilm-l6, bert-base, bert-large, roberta-base"));
}

/* What a family's shapes ask for, its table names. */
static void names_all_weights(void **state)
{
    (void)state;
    static const char *const shapes[] = {"bert-base",     "roberta-base", "xlmr-large", "distilbert-base",
                                         "electra-small", "electra-base", "mpnet-base"};
    static const char *const types[] = {"bert", "roberta", "xlm-roberta", "distilbert", "electra", "electra", "mpnet"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct error e = {0};
        wherry_model_config config;
        const struct family *family;
        const struct architecture *a = architecture_find(types[i], NULL, NULL, &family);
        assert_non_null(a);
        assert_true(architecture_shape(shapes[i], &config, &e));
        for (size_t r = 0; r < weight_rules_count; r++) {
            int first, end;
            weight_rule_layers(&weight_rules[r], &config, &first, &end);
            for (int part = 0; first < end && part < weight_rules[r].parts; part++)
                assert_non_null(a->modules[weight_rules[r].weight][part]);
        }
    }
}

static void refuses_impossible_shapes(void **state)
{
    (void)state;
    static const struct {
        size_t field;
        uint32_t value;
        const char *says;
    } cases[] = {
        {offsetof(wherry_model_config, layers), 0, "layers is 0"},
        {offsetof(wherry_model_config, hidden), 0, "hidden size is 0"},
        {offsetof(wherry_model_config, heads), 0, "heads is 0"},
        {offsetof(wherry_model_config, heads), 7, "not a multiple"},
        {offsetof(wherry_model_config, feed_forward), 0, "feed-forward size is 0"},
        {offsetof(wherry_model_config, vocabulary), 0, "vocabulary is 0"},
        {offsetof(wherry_model_config, vocabulary), 0x7fffffff, "word embeddings"},
        {offsetof(wherry_model_config, positions), 0, "positions is 0"},
        {offsetof(wherry_model_config, token_types), 0xffffffff, "token type embeddings"},
        {offsetof(wherry_model_config, position_offset), 512, "has 512 rows"},
        {offsetof(wherry_model_config, embedding), 1 << 21, "embedding size"},
        {offsetof(wherry_model_config, activation), 99, "wherry_activation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        wherry_model_config config;
        struct wherry_model *model = NULL;
        assert_true(architecture_shape("minilm-l6", &config, &e));
        memcpy((char *)&config + cases[i].field, &cases[i].value, sizeof cases[i].value);
        assert_false(model_random(&files_host, &config, 1, &model, &e));
        assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
        if (!strstr(e.text, cases[i].says)) fail_msg("\"%s\" does not say \"%s\"", e.text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converts),
        cmocka_unit_test(converts_to_bf16),
        cmocka_unit_test(refuses_values),
        cmocka_unit_test(reorders),
        cmocka_unit_test(makes_random_models),
        cmocka_unit_test(names_shapes),
        cmocka_unit_test(names_all_weights),
        cmocka_unit_test(refuses_impossible_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
