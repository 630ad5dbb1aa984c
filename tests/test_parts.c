/* The account of where a context's time goes: its parts exclude each other and add up to the clock, those that ran are
 * there and those that did not are not, and who did not ask for it gets none. */
#include "base/parts.h"
#include "support.h"
#include "wherry/wherry_measure.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROOM = 64 };

static double seconds_of(const wherry_part *parts, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, name)) return parts[i].seconds;
    fail_msg("there is no part \"%s\"", name);
    return 0;
}

/* One that has every part of a start on the host; `begin`: the clock just before it was made. */
static wherry_context *run_context(const wherry_context_desc *desc, uint64_t *begin)
{
    static const wherry_model_config config = {.struct_size = sizeof config,
                                               .layers = 1,
                                               .hidden = 32,
                                               .heads = 1,
                                               .feed_forward = 64,
                                               .vocabulary = 100,
                                               .positions = 16,
                                               .token_types = 1};
    static const int32_t ids[] = {1, 2, 3};
    static const uint32_t offsets[] = {0, 3};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 1, .offsets = offsets, .ids = ids};
    const wherry_session_desc session_desc = {.struct_size = sizeof session_desc, .max_tokens = 16};
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    float out[32];
    *begin = clock_ns();
    assert_int_equal(wherry_context_create(desc, &context), 0);
    assert_int_equal(wherry_device_open(context, "reference", &device), 0);
    assert_int_equal(wherry_model_create_random(context, &config, 1, &model), 0);
    assert_int_equal(wherry_session_create(context, device, model, &session_desc, &session), 0);
    assert_int_equal(wherry_encode(session, &batch, out, 32), 0);
    wherry_session_destroy(session);
    wherry_model_close(model);
    wherry_device_close(device);
    return context;
}

static void test_sum(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = "", .timed = true};
    uint64_t begin;
    wherry_part parts[ROOM];
    size_t count = ROOM;
    double sum = 0;
    wherry_context *context = run_context(&desc, &begin);
    assert_int_equal(wherry_context_parts(context, parts, &count), 0);
    double all = (double)(clock_ns() - begin) * 1e-9;
    assert_in_range(count, 2, ROOM);
    for (size_t i = 1; i < count; i++) {
        assert_true(parts[i].seconds >= 0 && parts[i].processor_seconds >= 0);
        sum += parts[i].seconds;
    }
    assert_string_equal(parts[0].name, "before the context");
    assert_true(sum > 0 && sum <= all);
    static const char *const ran[] = {"list reference", "open", "plan", "weights", "upload", "run", "rest"};
    static const char *const idle[] = {"model files", "tokenizer", "check of kernels", "compile kernels"};
    for (size_t i = 0; i < sizeof ran / sizeof *ran; i++) assert_true(seconds_of(parts, count, ran[i]) > 0);
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) assert_true(seconds_of(parts, count, idle[i]) == 0);

    size_t again = 0, some = 2;
    assert_int_equal(wherry_context_parts(context, NULL, &again), 0);
    assert_int_equal(again, count);
    assert_int_equal(wherry_context_parts(context, parts, &some), 0);
    assert_int_equal(some, count);
    wherry_context_destroy(context);
}

static void test_none(void **state)
{
    (void)state;
    uint64_t begin;
    size_t count = 0;
    wherry_context *context = run_context(NULL, &begin);
    assert_int_equal(wherry_context_parts(context, NULL, &count), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "timed"));
    assert_int_equal(wherry_context_parts(NULL, NULL, &count), WHERRY_STATUS_INVALID_ARGUMENT);
    wherry_context_destroy(context);
}

static uint64_t wait_ns(uint64_t ns)
{
    uint64_t begin = clock_ns();
    while (clock_ns() - begin < ns) continue;
    return clock_ns() - begin;
}

/* A part inside another takes over the clock, and a check keeps it. */
static void test_nesting(void **state)
{
    (void)state;
    struct parts parts;
    struct host host = support_host;
    host.parts = &parts;
    parts_begin(&parts);
    int rest = part_enter(&host, PART_PLAN);
    int plan = part_enter(&host, PART_UPLOAD);
    uint64_t upload = wait_ns(100000);
    part_leave(&host, plan);
    int before = part_enter(&host, PART_CHECK), check = part_enter(&host, PART_BUILD);
    uint64_t checked = wait_ns(100000);
    part_leave(&host, check);
    assert_int_equal(parts.now, PART_CHECK);
    part_leave(&host, before);
    assert_int_equal(parts.now, PART_PLAN);
    part_leave(&host, rest);
    parts_update(&parts);
    assert_true(parts.wall_ns[PART_UPLOAD] >= upload);
    assert_true(parts.wall_ns[PART_CHECK] >= checked);
    assert_int_equal(parts.wall_ns[PART_BUILD], 0);
    assert_int_equal(parts.now, PART_REST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum), cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_nesting)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
