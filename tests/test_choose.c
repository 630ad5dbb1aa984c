/* Which device is taken when none is named: of several CPU drivers the one that was faster at what was tuned on both.
 */
#define _POSIX_C_SOURCE 200809L
#include "runtime/context.h"
#include "runtime/tuned.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "test_choose-XXXXXX"; /* the cache, in the working folder */
static wherry_context *context;
static char ids[2][64]; /* two drivers of CPUs */

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s", wherry_status_name(status_), wherry_last_error(context));                      \
    } while (0)

/* Writes what was tuned on a device, or takes it away: one call, of so many seconds. */
static void tuned(const char *id, const char *work, double seconds)
{
    wherry_device *device;
    struct error e = {0};
    struct tuning tuning = {0};
    char path[TUNING_PATH];
    EXPECT_OK(wherry_device_open(context, id, &device));
    const struct tuning_key key = device_tuning_key(device);
    tuning_path(folder, "tuned", &key, path);
    wherry_device_close(device);
    if (!work) {
        unlink(path);
        return;
    }
    assert_true(tuning_set(&support_host, &tuning, work, "map 64x1", seconds * 1.5, seconds, &e));
    if (!tuning_store(&support_host, path, &key, &tuning, &e)) fail_msg("%s", e.text);
    tuning_free(&support_host, &tuning);
}

static void usual_id(char id[64])
{
    wherry_device *device;
    wherry_device_info info;
    EXPECT_OK(wherry_device_open(context, NULL, &device));
    EXPECT_OK(wherry_device_describe(device, &info));
    snprintf(id, 64, "%s", info.id);
    wherry_device_close(device);
}

static void expect_usual(const char *want)
{
    char id[64];
    usual_id(id);
    assert_string_equal(id, want);
}

static void test_tuned(void **state)
{
    (void)state;
    char usual[64];
    usual_id(usual);
    int first = !strcmp(usual, ids[1]); /* else the other, or a third one */
    const char *slow = ids[first], *fast = ids[!first];
    bool of_two = !strcmp(usual, slow);
    tuned(fast, "a work", 1e-3);
    expect_usual(usual); /* one alone says nothing */
    tuned(slow, "another work", 1e-2);
    expect_usual(usual); /* nor do different calls */
    tuned(slow, "a work", 2e-3);
    expect_usual(of_two ? fast : usual);
    tuned(slow, "a work", 5e-4);
    expect_usual(usual);
    tuned(fast, NULL, 0);
    tuned(slow, NULL, 0);
    expect_usual(usual);
}

/* Two drivers of CPUs, and no usable GPU, for which all of this is not asked. */
static bool find_two(void)
{
    wherry_device_info infos[SUPPORT_MAX_DEVICES];
    size_t count = SUPPORT_MAX_DEVICES, n = 0;
    if (wherry_device_list(context, infos, &count)) return false;
    for (size_t i = 0; i < count && i < SUPPORT_MAX_DEVICES; i++) {
        if (!infos[i].usable || !strcmp(infos[i].id, "reference")) continue;
        if (infos[i].type != WHERRY_DEVICE_CPU) return false;
        if (n < 2 && strchr(infos[i].id, ':')) snprintf(ids[n++], sizeof ids[0], "%s", infos[i].id);
    }
    return n == 2;
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .log = support_log, .cache_dir = folder};
    int failed = wherry_context_create(&desc, &context) != WHERRY_STATUS_OK;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tuned)};
    bool there = !failed && find_two();
    if (!there) puts("there are no two drivers of CPUs, or there is a GPU");
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    if (there) failed = cmocka_run_group_tests_name("choose", tests, NULL, NULL);
    wherry_context_destroy(context);
    rmdir(folder);
    return failed ? 1 : there ? 0 : 77;
}
