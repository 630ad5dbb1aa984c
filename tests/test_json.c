/* The reader of JSON: bounds, messages, and that a want of memory is always seen. */
#include "base/json.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct json_limits small = {.bytes = 1000, .values = 10, .depth = 4};

static void expect(const char *text, wherry_status status, const char *says)
{
    char why[JSON_WHY] = "";
    json_t *value = NULL;
    wherry_status got = json_read(text, strlen(text), &small, 0, &value, why);
    if (got != status || !strstr(why, says)) fail_msg("%.100s: status %d, \"%s\"", text, (int)got, why);
    assert_int_equal(!status, value != NULL);
    json_decref(value);
}

static void bounds_and_messages(void **state)
{
    (void)state;
    char longer[1002];
    memset(longer, ' ', sizeof longer);
    memcpy(longer, "{}", 2);
    longer[1001] = 0;
    expect(longer, WHERRY_STATUS_BAD_FORMAT, "more than 1000 bytes");
    longer[1000] = 0;
    expect(longer, WHERRY_STATUS_OK, "");
    expect("[1,2,3,4,5,6,7,8]", WHERRY_STATUS_OK, "");
    expect("[1,2,3,4,5,6,7,8,9]", WHERRY_STATUS_OK, "");
    expect("[1,2,3,4,5,6,7,8,9,10]", WHERRY_STATUS_BAD_FORMAT, "more than 10 values");
    expect("[{},{},{},{},{},{}]", WHERRY_STATUS_BAD_FORMAT, "more than 10 values");
    expect("[\",,,,,,,[[[[[[[[{{{{{{{\\\",,,,,,,,,,,,\"]", WHERRY_STATUS_OK, "");
    expect("[[[[]]]]", WHERRY_STATUS_OK, "");
    expect("[[[[[]]]]]", WHERRY_STATUS_BAD_FORMAT, "more than 4 levels of nesting");
    expect("[[[[[", WHERRY_STATUS_BAD_FORMAT, "more than 4 levels of nesting");
    expect("", WHERRY_STATUS_BAD_FORMAT, "not valid JSON");
    expect("{\"a long enough name\": 1", WHERRY_STATUS_BAD_FORMAT, "ends too early, in line 1");
    expect("{\"a long enough name\": \"\\", WHERRY_STATUS_BAD_FORMAT, "not valid JSON");
    expect("{\"a long enough name\": x}", WHERRY_STATUS_BAD_FORMAT, "(column 24: invalid token near 'x')");
    expect("{\"a long enough name\":\n yesyesyesyesyesyesyesyes}", WHERRY_STATUS_BAD_FORMAT, "(line 2, column 25: inv");
    expect("{\"a long enough name\": 1, \"a long enough name\": 1}", WHERRY_STATUS_BAD_FORMAT, "duplicate object key");
    expect("\"no object and no array\"", WHERRY_STATUS_BAD_FORMAT, "'[' or '{' expected");
    expect("[\"one value, and another\"], 2", WHERRY_STATUS_BAD_FORMAT, "end of file expected");
    expect("[\"\\ud800 is half a character\"]", WHERRY_STATUS_BAD_FORMAT, "not valid JSON");
    expect("[\"\xc3\x28 is no UTF-8 character\"]", WHERRY_STATUS_BAD_FORMAT, "unable to decode byte 0xc3");
}

/* ---- memory ---- */

static struct {
    long until_failure; /* this many allocations succeed */
    bool for_good;      /* all that follow fail, not one alone */
    bool failed;
} memory = {.until_failure = LONG_MAX};

static void *scarce_malloc(size_t size)
{
    bool fails = memory.until_failure == 0 || (memory.failed && memory.for_good);
    memory.until_failure--;
    memory.failed |= fails;
    return fails ? NULL : malloc(size);
}

/* Any single failure, or all from one on, is told; what is read where none came is the text's. */
static void check_failures(const char *text)
{
    static const struct json_limits limits = {.bytes = 1000, .values = 100, .depth = 4};
    size_t size = strlen(text);
    char why[JSON_WHY];
    json_t *whole, *got;
    assert_int_equal(json_read(text, size, &limits, 0, &whole, why), WHERRY_STATUS_OK);
    for (int for_good = 0; for_good < 2; for_good++) {
        int failures = 0;
        for (;; failures++) {
            memory.until_failure = failures;
            memory.for_good = for_good;
            memory.failed = false;
            wherry_status status = json_read(text, size, &limits, 0, &got, why);
            memory.until_failure = LONG_MAX;
            memory.for_good = false;
            if (!status) {
                assert_true(json_equal(got, whole));
                json_decref(got);
                if (!memory.failed) break;
                fail_msg("allocation %d failed, and nothing was said", failures);
            }
            if (status != WHERRY_STATUS_OUT_OF_HOST_MEMORY || strcmp(why, "out of host memory while its JSON was read"))
                fail_msg("%.20s: allocation %d failed: status %d, \"%s\"", text, failures, (int)status, why);
        }
        assert_in_range(failures, 10, 1000);
    }
    json_decref(whole);
}

static void any_failed_allocation_is_told(void **state)
{
    (void)state;
    json_set_alloc_funcs(scarce_malloc, free);
    check_failures(
        "{\"hidden_size\": 384, \"max_position_embeddings\": 514, \"a name of 31 characters in all\": "
        "\"a text of many more characters than any buffer has in the beginning, or once it has grown\", "
        "\"numbers\": [1.5, 0.00000000000000000000000000000000000000000000000000000000000000000000125, null, true]}");
    check_failures("{\"text\": \"the boat\", \"id\": 1.10}"); /* nothing is longer than the first buffer */
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_and_messages),
        cmocka_unit_test(any_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
