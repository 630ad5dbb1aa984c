/* Weights: conversion to the types that devices store, models of random numbers, and named shapes. */
#include "model_files.h"

#include <math.h>

#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- conversion ---- */

static void converts(void **state)
{
    (void)state;
    const float in[] = {1.0f, -2.5f, 65504.0f, 6.1e-5f, 5.96046448e-8f, 2.98e-8f, 0.0f, 1.00048828125f, 1.00146484375f};
    const uint16_t expected[] = {0x3c00, 0xc100, 0x7bff, 0x03ff, 0x0001, 0x0000, 0x0000, 0x3c00, 0x3c02};
    enum { N = sizeof in / sizeof *in };
    unsigned char unaligned[sizeof in + 1];
    memcpy(unaligned + 1, in, sizeof in);
    struct weight_part part = {unaligned + 1, WEIGHT_TYPE_F32, N};
    uint16_t halves[N];
    float floats[N];
    assert_true(weight_convert(&part, 0, N, true, halves));
    for (int i = 0; i < N; i++) {
        if (halves[i] != expected[i]) fail_msg("%g became %04x", (double)in[i], halves[i]);
    }
    assert_true(weight_convert(&part, 3, 2, false, floats));
    assert_true(floats[0] == in[3] && floats[1] == in[4]);
    /* Too large: seen, in f32 and in bf16, by its sign too. */
    const float large[] = {65519.0f, 65520.0f, -1e30f};
    for (int i = 0; i < 3; i++) {
        part = (struct weight_part){&large[i], WEIGHT_TYPE_F32, 1};
        assert_int_equal(weight_convert(&part, 0, 1, true, halves), i == 0);
        assert_true(weight_convert(&part, 0, 1, false, floats));
    }
    const uint16_t bfloat[] = {0x3f80, 0x4780, 0xff80, 0x7fc0}; /* 1, 65536, -infinity, NaN */
    part = (struct weight_part){bfloat, WEIGHT_TYPE_BF16, 4};
    assert_true(weight_convert(&part, 0, 4, false, floats));
    assert_true(floats[0] == 1 && floats[1] == 65536 && isinf(floats[2]) && isnan(floats[3]));
    assert_true(weight_convert(&part, 0, 1, true, halves));
    assert_int_equal(halves[0], 0x3c00);
    assert_false(weight_convert(&part, 0, 2, true, halves));
    /* What is infinite or no number in the file stays so. */
    assert_true(weight_convert(&part, 2, 2, true, halves));
    assert_int_equal(halves[0], 0xfc00);
    assert_true((halves[1] & 0x7fff) > 0x7c00);
    for (uint32_t h = 0; h < 65536; h++) { /* all of f16 comes back from f32 */
        uint16_t half = (uint16_t)h;
        part = (struct weight_part){&half, WEIGHT_TYPE_F16, 1};
        assert_true(weight_convert(&part, 0, 1, false, floats));
        if (isnan(floats[0])) continue;
        part = (struct weight_part){floats, WEIGHT_TYPE_F32, 1};
        assert_true(weight_convert(&part, 0, 1, true, halves));
        if (halves[0] != half) fail_msg("%04x became %04x", half, halves[0]);
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
    for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)(i % 1999) - 999.5f; /* exact in f16 */
    for (int i = 0; i < 3; i++)
        parts[i] = (struct weight_part){values + i * PART_ROWS * COLUMNS, WEIGHT_TYPE_F32, PART_ROWS * COLUMNS};
    for (int kind = 1; kind < 4; kind++) {
        order.turned = kind & 1;
        order.heads = kind & 2 ? HEADS : 0;
        order.channels = CHANNELS;
        int outer = order.turned ? COLUMNS : ROWS, inner = ROWS * COLUMNS / outer;
        for (int step = 1; step <= outer; step += 26) {
            for (int first = 0; first < outer; first += step) {
                uint64_t count = (uint64_t)(outer - first < step ? outer - first : step), at = (uint64_t)first;
                assert_true(weight_convert_order(parts, &order, at, count, false, strip, out + first * inner));
                assert_true(weight_convert_order(parts, &order, at, count, true, strip, half + first * inner));
            }
            for (int r = 0; r < ROWS; r++) {
                int there = (r / CHANNELS % 3 * HEADS + r / CHANNELS / 3) * CHANNELS + r % CHANNELS;
                for (int c = 0; c < COLUMNS; c++) {
                    int at = order.turned ? c * ROWS + r : r * COLUMNS + c;
                    float want = values[(order.heads ? there : r) * COLUMNS + c];
                    assert_true(out[at] == want && half_to_float(half[at]) == want);
                }
            }
        }
        floats_from_order(&order, out, back);
        assert_memory_equal(back, values, sizeof values);
    }
    values[ROWS * COLUMNS - 1] = 1e6f;
    assert_false(weight_convert_order(parts, &order, 0, COLUMNS, true, strip, half));
}

/* ---- random models ---- */

static double deviation(const struct wherry_model *model, enum weight weight, int layer, int part, double *mean)
{
    const struct weight_part *parts;
    assert_true(model_weight(model, weight, layer, &parts) > part);
    const float *values = parts[part].data;
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
    assert_true(model_config_named("minilm-l6", &config, &e));
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
            assert_int_equal(n, of_layer != (layer >= 0) ? 0 : w == WEIGHT_QKV || w == WEIGHT_QKV_BIAS ? 3 : 1);
            model_weight(b, (enum weight)w, layer, &q);
            for (int i = 0; i < n; i++) assert_memory_equal(p[i].data, q[i].data, p[i].elements * 4);
            model_weight(c, (enum weight)w, layer, &q);
            for (int i = 0; i < n; i++) assert_memory_not_equal(p[i].data, q[i].data, p[i].elements * 4);
        }
    }
    model_weight(a, WEIGHT_QKV, 0, &p);
    model_weight(a, WEIGHT_QKV, 1, &q);
    assert_memory_not_equal(p[0].data, q[0].data, p[0].elements * 4);
    assert_memory_not_equal(p[0].data, p[1].data, p[0].elements * 4);
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
    } shapes[] = {{"minilm-l6", 22713216}, {"bert-base", 109482240}};
    struct error e = {0};
    wherry_model_config config;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct wherry_model *model;
        assert_true(model_config_named(shapes[i].name, &config, &e));
        assert_true(model_random(&files_host, &config, 1, &model, &e));
        assert_int_equal(model->info.parameters, shapes[i].parameters);
        model_close(model);
    }
    assert_true(model_config_named("bert-large", &config, &e));
    assert_int_equal(config.hidden, 1024);
    assert_false(model_config_named("gpt", &config, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "minilm-l6, bert-base and bert-large"));
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
        {offsetof(wherry_model_config, activation), 99, "wherry_activation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        wherry_model_config config;
        struct wherry_model *model = NULL;
        assert_true(model_config_named("minilm-l6", &config, &e));
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
        cmocka_unit_test(reorders),
        cmocka_unit_test(makes_random_models),
        cmocka_unit_test(names_shapes),
        cmocka_unit_test(refuses_impossible_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
