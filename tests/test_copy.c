/* The copy that kernels without products are compared with: a rate on every device that has kernels, and clear errors.
 */
#include "support.h"
#include "wherry/wherry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static wherry_context *context;

static int make_context(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    return wherry_context_create(&desc, &context) != WHERRY_STATUS_OK;
}

static int destroy_context(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

static void check_rate(wherry_device *device, uint64_t bytes, uint64_t copied)
{
    wherry_copy_info info = {.struct_size = sizeof info};
    if (wherry_copy_bandwidth(device, bytes, &info)) fail_msg("%s", wherry_last_error(context));
    assert_int_equal(info.bytes, copied);
    assert_true(info.seconds > 0 && info.seconds_p05 <= info.seconds && info.seconds <= info.seconds_p95);
    double rate = 2 * (double)copied / info.seconds;
    assert_true(info.bytes_per_second > 0.999 * rate && info.bytes_per_second < 1.001 * rate);
}

static void test_devices(void **state)
{
    (void)state;
    char ids[SUPPORT_MAX_DEVICES][64];
    size_t count = support_devices(context, ids);
    for (size_t i = 0; i < count; i++) {
        wherry_device *device;
        wherry_copy_info info = {.struct_size = sizeof info};
        if (wherry_device_open(context, ids[i], &device)) fail_msg("%s", wherry_last_error(context));
        if (!strcmp(ids[i], "reference")) {
            assert_int_equal(wherry_copy_bandwidth(device, 0, &info), WHERRY_STATUS_UNSUPPORTED);
        } else {
            check_rate(device, (9u << 20) + 5000, (9u << 20) + 4096);
            check_rate(device, 1, 4096);
        }
        wherry_device_close(device);
    }
}

static void test_arguments(void **state)
{
    (void)state;
    wherry_device *device;
    wherry_copy_info info = {.struct_size = 1};
    assert_int_equal(wherry_device_open(context, "reference", &device), WHERRY_STATUS_OK);
    assert_int_equal(wherry_copy_bandwidth(NULL, 0, &info), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_copy_bandwidth(device, 0, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_copy_bandwidth(device, 0, &info), WHERRY_STATUS_INVALID_ARGUMENT);
    wherry_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices), cmocka_unit_test(test_arguments)};
    return cmocka_run_group_tests(tests, make_context, destroy_context);
}
