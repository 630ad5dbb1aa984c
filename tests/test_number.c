/* Numbers are read and written with a '.', whatever the application's locale: alone, in JSON, in files of tunings. The
 * locales are made here, in a folder of their own. */
#include "model_files.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/json.h"
#include "base/number.h"
#include "model/config.h"
#include "plan/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect_read(const char *text, double value, size_t length)
{
    const char *end;
    double got = number_read(text, &end);
    if (memcmp(&got, &value, sizeof got) || (size_t)(end - text) != length)
        fail_msg("\"%s\": %.17g, %.17g expected; %zu characters", text, got, value, (size_t)(end - text));
}

static void reads_numbers(void **state)
{
    (void)state;
    expect_read("1.5e-3", 1.5e-3, 6);
    expect_read("-0", -0.0, 2);
    expect_read("+12", 12, 3);
    expect_read(".5x", .5, 2);
    expect_read("5.", 5, 2);
    expect_read("1,5", 1, 1);
    expect_read("1e", 1, 1);
    expect_read("1e+", 1, 1);
    expect_read("1e5 ", 1e5, 3);
    expect_read("", 0, 0);
    expect_read("-", 0, 0);
    expect_read(".", 0, 0);
    expect_read("e5", 0, 0);
    expect_read("0x10", 0, 1);
    expect_read(" 1", 0, 0);
    expect_read("inf", INFINITY, 3);
    expect_read("-inf", -INFINITY, 4);
    expect_read("1e999999999999999999999", INFINITY, 23);
    expect_read("0e999999999999999999999", 0, 23);
    expect_read("1e-999999999999999999999", 0, 24);
    expect_read("0.000000000000000000000000000000000000000000000000000000000000000000000000125e75", 125, 80);
    expect_read("12500000000000000000000000000000000000000000000000000000000000000000000000000e-76", 1.25, 81);
    expect_read("1.7976931348623157e308", DBL_MAX, 22);
    expect_read("4.9406564584124654e-324", 4.9406564584124654e-324, 23);
    assert_true(isnan(number_read("nan", NULL)));
}

static void any_number_reads_back(void **state)
{
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        double value, got;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        got = number_read(NUMBER("%.17g", value), NULL);
        if (got != value) fail_msg("%.17g reads back as %.17g", value, got);
        double near = number_read(NUMBER("%.9e", value), NULL);
        assert_true(fabs(near - value) <= 1e-9 * fabs(value) || fabs(value) < DBL_MIN);
    }
}

/* Points of other locales stand in the format itself. */
static void points_become_one(void **state)
{
    (void)state;
    assert_string_equal(NUMBER("1,5e-03", 0), "1.5e-03");
    assert_string_equal(NUMBER("-1\xd9\xab"
                               "5",
                               0),
                        "-1.5");
    assert_string_equal(NUMBER("%.4g", 1.5e-3), "0.0015");
    assert_string_equal(NUMBER("%.0f", 12.0), "12");
    assert_string_equal(NUMBER("%g", -INFINITY), "-inf");
}

/* ---- in other locales ---- */

static void check_json(void)
{
    static const char text[] = "{\"layer_norm_eps\": 1.5e-3, \"a longer name than jansson's buffer\": [0.25, -7.5]}";
    static const struct json_limits limits = {.bytes = 1000, .values = 100, .depth = 4};
    char why[JSON_WHY] = "";
    json_t *value;
    if (json_read(text, sizeof text - 1, &limits, 0, &value, why)) fail_msg("%s", why);
    assert_true(json_real_value(json_object_get(value, "layer_norm_eps")) == 1.5e-3);
    assert_true(json_real_value(json_array_get(json_object_get(value, "a longer name than jansson's buffer"), 1)) ==
                -7.5);
    json_decref(value);
}

static void check_tuning(const char *folder)
{
    struct error e = {0};
    struct tuning tuning = {0};
    struct tuning_file file;
    const uint8_t uuid[16] = {1};
    struct tuning_key key = tuning_key("opencl", uuid, "a device", "a driver", 1, false);
    char *path = files_format("%s/tuned.txt", folder);
    struct tuned_layouts layouts = {.kind = "sessions", .layouts = "layouts", .usual = 1.5e-3, .best = 1.25e-6};
    assert_true(tuning_set(&files_host, &tuning, "work", "use", 1.5e-3, 1.25e-6, &e));
    assert_string_equal(tuning.entries[0].why, "tuned: 1.25 us, with the table's sizes 1500 us");
    assert_true(tuning_add_layouts(&files_host, &tuning, &layouts, &e));
    assert_true(tuning_store(&files_host, path, &key, &tuning, &e));
    tuning_free(&files_host, &tuning);
    assert_true(tuning_load(&files_host, path, true, &key, &tuning, &file, &e));
    assert_int_equal(tuning.count, 1);
    assert_true(tuning.entries[0].usual == 1.5e-3 && tuning.entries[0].best == 1.25e-6);
    assert_true(tuning.layouts[0].usual == 1.5e-3 && tuning.layouts[0].best == 1.25e-6);
    tuning_free(&files_host, &tuning);
    free(path);
}

static void check_message(void)
{
    wherry_model_config config = {.layers = 1,
                                  .hidden = 8,
                                  .heads = 1,
                                  .feed_forward = 8,
                                  .vocabulary = 8,
                                  .positions = 8,
                                  .token_types = 1,
                                  .epsilon = 1.5f};
    struct error e = {0};
    assert_false(model_config_check(&config, &e));
    assert_non_null(strstr(e.text, "epsilon is 1.5;"));
}

static void check_locale(const char *folder, const char *name, const char *shows)
{
    char *command = files_format("localedef -c -i %s -f UTF-8 '%s/%s' >'%s/log' 2>&1", name, folder, name, folder);
    int made = system(command);
    free(command);
    if (made == -1 || !setlocale(LC_ALL, name)) {
        print_message("%s left out: localedef can't make it here (package locales)\n", name);
        return;
    }
    char text[NUMBER_TEXT];
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, shows); /* or nothing is tested */
    reads_numbers(NULL);
    any_number_reads_back(NULL);
    points_become_one(NULL);
    check_json();
    check_tuning(folder);
    check_message();
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, shows); /* the application's locale is as it was */
    setlocale(LC_ALL, "C");
}

static void other_locales(void **state)
{
    (void)state;
    char *folder = files_folder();
    setenv("LOCPATH", folder, 1);
    check_locale(folder, "de_DE", "1,5");
    check_locale(folder, "ps_AF",
                 "1\xd9\xab"
                 "5");
    files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(any_number_reads_back),
        cmocka_unit_test(points_become_one),
        cmocka_unit_test(other_locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
