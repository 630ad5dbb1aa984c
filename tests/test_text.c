/* Texts written into a fixed size: what does not fit is cut and told, and a name of any length harms nothing. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "interface/interface.h"
#include "plan/candidates.h"
#include "support.h"
#include "wherry/wherry_measure.h"

static void test_fits(void **state)
{
    (void)state;
    char memory[8];
    struct text_writer t = text_begin(memory, sizeof memory);
    assert_string_equal(memory, "");
    assert_true(text_add(&t, "%d,", 12) && text_hex(&t, (const unsigned char *)"\x0a\xff", 2));
    assert_string_equal(memory, "12,0aff"); /* all of it */
    assert_int_equal(t.used, 7);
    assert_false(t.cut);
    assert_true(text_add(&t, "%s", ""));
    assert_false(text_add(&t, "x"));
    assert_string_equal(memory, "12,0aff");
}

static void test_cut(void **state)
{
    (void)state;
    char memory[9];
    memory[8] = '#';
    struct text_writer t = text_begin(memory, 8);
    assert_false(text_add(&t, "%s", "0123456789"));
    assert_string_equal(memory, "0123456");
    assert_true(t.cut && t.used == 7);
    for (int i = 0; i < 100; i++) assert_false(text_add(&t, "%d", i)); /* never again */
    assert_string_equal(memory, "0123456");
    assert_int_equal(memory[8], '#');
    t = text_begin(memory, 1);
    assert_false(text_add(&t, "a"));
    assert_true(t.cut && t.used == 0 && !*memory);
}

static void test_behind(void **state)
{
    (void)state;
    char memory[8] = "abc";
    struct text_writer t = text_behind(memory, sizeof memory), again = t;
    assert_true(text_add(&t, ": %d", 1));
    assert_string_equal(memory, "abc: 1");
    assert_true(text_add(&again, "-"));
    assert_string_equal(memory, "abc-");
}

/* A key that is cut is told: two calls that differ after the cut would have one. */
static void test_key_cut(void **state)
{
    (void)state;
    const struct device_limits limits = {0};
    const struct sizes sizes = {.limits = &limits, .max_rows = 1};
    struct call call = {.kernel = "gemm"};
    char text[WORK_TEXT];
    assert_true(work_text(&call, &sizes, text));
    assert_true(CALL_MAX_CONSTANTS * strlen(" 36=4294967295") > WORK_TEXT);
    for (int i = 0; i < CALL_MAX_CONSTANTS; i++)
        call.constants[call.n_constants++] = (struct call_constant){.id = CONST_QKV_INTERLEAVED, .value = UINT32_MAX};
    assert_false(work_text(&call, &sizes, text));
}

static void test_gemm(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 40, 200, 255, 256, 300, 1023, 5000, 100000};
    const wherry_context_desc desc = {.struct_size = sizeof desc, .log = support_log, .cache_dir = ""};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 32,
                                        .heads = 2,
                                        .feed_forward = 64,
                                        .vocabulary = 64,
                                        .positions = 16,
                                        .token_types = 1};
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session = NULL;
    assert_int_equal(wherry_context_create(&desc, &context), 0);
    assert_int_equal(wherry_device_open(context, "reference", &device), 0);
    assert_int_equal(wherry_model_create_random(context, &config, 1, &model), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *name = malloc(lengths[i] + 1);
        assert_non_null(name);
        memset(name, 'g', lengths[i]);
        name[lengths[i]] = 0;
        const wherry_session_desc of = {.struct_size = sizeof of, .max_tokens = 16, .kernels = name};
        assert_int_equal(wherry_session_create(context, device, model, &of, &session), WHERRY_STATUS_INVALID_ARGUMENT);
        assert_null(session);
        assert_non_null(strstr(wherry_last_error(context),
                               "there are auto, tiled, coopmat, mma, wgmma, small_batch, clblast, onednn"));
        free(name);
    }
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),    cmocka_unit_test(test_cut),  cmocka_unit_test(test_behind),
        cmocka_unit_test(test_key_cut), cmocka_unit_test(test_gemm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
