/* What training draws and how it judges: orders, shares of masked tokens, metrics with known values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/draws.h"
#include "train/example.h"
#include "train/mask.h"
#include "train/metrics.h"

static void test_order(void **state)
{
    (void)state;
    for (uint64_t count = 1; count < 70; count += count < 10 ? 1 : 13) {
        bool seen[70] = {false};
        for (uint64_t place = 0; place < count; place++) {
            uint64_t number = draw_order(5, 0, count, place);
            assert_true(number < count && !seen[number]);
            seen[number] = true;
        }
    }
    uint64_t same = 0, near = 0;
    for (uint64_t place = 0; place < 1000; place++) {
        same += draw_order(5, 0, 1000, place) == draw_order(5, 1, 1000, place);
        near += draw_order(5, 0, 1000, place) + 1 == draw_order(5, 0, 1000, place + 1 < 1000 ? place + 1 : 0);
    }
    assert_true(same < 20 && near < 20); /* each 1 by chance */
}

static void test_mask_shares(void **state)
{
    enum { TOKENS = 12, TEXTS = 4000, MASK = 4, WORDS = 50 };
    wherry_token_place places[TOKENS];
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        const struct mask_form form = {.share = 0.15, .whole_words = whole, .mask = MASK, .vocabulary = WORDS};
        size_t predicted = 0, masked = 0, kept = 0, split = 0;
        for (uint64_t key = 0; key < TEXTS; key++) {
            int32_t ids[TOKENS], labels[TOKENS];
            for (size_t t = 0; t < TOKENS; t++) { /* two tokens a word */
                places[t] = (wherry_token_place){.text = t && t + 1 < TOKENS ? 0 : -1, .continues = t % 2 == 0};
                ids[t] = 10;
            }
            mask_tokens(&form, key, places, TOKENS, ids, labels);
            assert_true(labels[0] == IGNORED && labels[TOKENS - 1] == IGNORED);
            for (size_t t = 1; t + 1 < TOKENS; t++) {
                predicted += labels[t] == 10;
                assert_true(labels[t] == 10 || (labels[t] == IGNORED && ids[t] == 10));
                masked += ids[t] == MASK;
                kept += labels[t] == 10 && ids[t] == 10;
                assert_true(ids[t] >= 0 && ids[t] < WORDS);
                if (t % 2) split += (labels[t] == IGNORED) != (labels[t + 1] == IGNORED);
            }
        }
        /* 15 % of ten, and one more where none is chosen: 0.85^10 of texts, of words 0.85^5 two more. */
        double each = whole ? 1.5 + 2 * 0.4437 : 1.5 + 0.1969;
        assert_true(fabs((double)predicted / TEXTS - each) < 0.08);
        assert_true(fabs((double)masked / (double)predicted - 0.8 - 0.1 / WORDS) < 0.02);
        assert_true(fabs((double)kept / (double)predicted - 0.1 - 0.1 / WORDS) < 0.02);
        assert_true(whole ? split == 0 : split > 0);
    }
}

/* A text has no more than it may, and batches of thousands hardly ever. */
static void test_mask_most(void **state)
{
    enum { TOKENS = 100, TEXTS = 1000 };
    wherry_token_place places[TOKENS];
    size_t all = 0;
    (void)state;
    memset(places, 0, sizeof places);
    for (uint64_t key = 0; key < TEXTS; key++) {
        const struct mask_form forms[] = {{.share = 0.15, .vocabulary = 50},
                                          {.share = 0.15, .most = 12, .vocabulary = 50}};
        int32_t ids[TOKENS] = {0}, labels[2][TOKENS];
        size_t predicted[2] = {0};
        for (int f = 0; f < 2; f++) {
            mask_tokens(&forms[f], key, places, TOKENS, ids, labels[f]);
            for (size_t t = 0; t < TOKENS; t++) predicted[f] += labels[f][t] != IGNORED;
        }
        assert_int_equal(predicted[1], predicted[0] < 12 ? predicted[0] : 12);
        all += predicted[0];
    }
    assert_true(all <= mask_most(0.15, TOKENS * TEXTS, 0));
    assert_int_equal(mask_most(0.15, 16384, 32), 2656 + 32);
    assert_int_equal(mask_most(0.9, 20, 20), 20);
}

static void test_metrics(void **state)
{
    (void)state;
    const float scores[] = {1, 2, 3, 0, 9, 9, 5, 4, 3};
    assert_true(fabs(metric_accuracy(scores, (int32_t[]){2, 1, 1}, 3, 3) - 2.0 / 3) < 1e-15);
    assert_true(fabs(metric_accuracy(scores, (int32_t[]){2, IGNORED, 1}, 3, 3) - 0.5) < 1e-15);
    assert_true(isnan(metric_accuracy(scores, (int32_t[]){IGNORED}, 1, 3)));
    assert_true(metric_binary_accuracy((float[]){1, -1, 2, -2}, (float[]){1, 0, 0, 0}, 4) == 0.75);
    /* scipy.stats.spearmanr([1, 2, 2, 4, 7], [3, 1, 4, 4, 9]) */
    assert_true(fabs(metric_spearman((float[]){1, 2, 2, 4, 7}, (float[]){3, 1, 4, 4, 9}, 5) - 0.763157894736842) <
                1e-12);
    assert_true(fabs(metric_spearman((float[]){1, 2, 3}, (float[]){30, 20, 10}, 3) + 1) < 1e-15);
    assert_true(isnan(metric_spearman((float[]){1, 1, 1}, (float[]){1, 2, 3}, 3)));
    assert_true(isnan(metric_spearman((float[]){1, NAN, 1}, (float[]){1, 2, 3}, 3)));
    assert_true(metric_squared_error((float[]){1, 2}, (float[]){2, 4}, 2) == 2.5);
    assert_true(fabs(metric_cosine((float[]){3, 4}, (float[]){4, 3}, 2) - 0.96) < 1e-7);
    assert_true(metric_cosine((float[]){0, 0}, (float[]){4, 3}, 2) == 0);
    /* Queries' own candidates are the nearest, the second, the third, and one of two that are equally near. */
    const float queries[] = {1, 0, 1, 0, 1, 0, 0, 1}, candidates[] = {1, 0, 2, 1, 1, 1, 1, 3, 2, 6};
    assert_true(metric_recall(queries, 3, candidates, 5, 2, 1) == 1.0 / 3);
    assert_true(metric_recall(queries, 3, candidates, 5, 2, 2) == 2.0 / 3);
    assert_true(metric_recall(queries, 3, candidates, 5, 2, 3) == 1.0);
    assert_true(metric_recall(queries, 4, candidates, 5, 2, 1) == 1.5 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_mask_shares),
        cmocka_unit_test(test_mask_most),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
