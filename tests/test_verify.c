/* Verify where the reference itself is not finite: NaN equals nothing, and the first tensor that has it is named. */
#include "runtime/session.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 8 };

static wherry_context *context;

/* The session's weights become these bytes; verify's status. */
static wherry_status verify_with(int weights)
{
    static const uint32_t offsets[] = {0, 3, TOKENS};
    static const int32_t ids[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 32,
                                        .heads = 2,
                                        .feed_forward = 64,
                                        .vocabulary = 16,
                                        .positions = TOKENS,
                                        .token_types = 1};
    const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = TOKENS, .keep_intermediates = true};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets, .ids = ids};
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    wherry_device *device;
    wherry_model *model;
    wherry_session *s;
    assert_int_equal(wherry_device_open(context, "reference", &device), 0);
    assert_int_equal(wherry_model_create_random(context, &config, 1, &model), 0);
    assert_int_equal(wherry_session_create(context, device, model, &desc, &s), 0);
    assert_int_equal(wherry_session_prepare(s, NULL, NULL, NULL), 0);
    for (int i = 0; weights >= 0 && i < s->memory.n_blocks; i++) {
        size_t bytes = (size_t)s->memory.blocks[i].bytes;
        struct error e;
        if (s->memory.blocks[i].kind != MEMORY_WEIGHTS) continue;
        void *block = malloc(bytes);
        assert_non_null(block);
        memset(block, weights, bytes);
        assert_true(device->backend->buffer_write(device->handle, s->buffers[i], 0, block, bytes, &e));
        free(block);
    }
    wherry_status status = wherry_verify(s, &batch, 2, NULL, NULL, &summary);
    if (weights >= 0) assert_int_equal(summary.failed, summary.groups);
    assert_int_equal(summary.replays, 2);
    assert_int_equal(summary.replays_different, 0);
    wherry_session_destroy(s);
    wherry_model_close(model);
    wherry_device_close(device);
    return status;
}

static void test_finite(void **state)
{
    (void)state;
    assert_int_equal(verify_with(-1), 0);
}

static void test_nan(void **state)
{
    (void)state;
    assert_int_equal(verify_with(0xff), WHERRY_STATUS_VERIFY_FAILED);
    assert_non_null(strstr(wherry_last_error(context), "element 0 of "));
    assert_non_null(strstr(wherry_last_error(context), " is NaN by the reference, too"));
}

int main(void)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .log = support_log, .cache_dir = ""};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finite), cmocka_unit_test(test_nan)};
    if (wherry_context_create(&desc, &context)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
