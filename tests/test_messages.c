/* Messages and the log: names from files and drivers in them can't steer a terminal, and are cut between characters. */
#include <string.h>

#include "base/error.h"
#include "base/host.h"
#include "base/utf8.h"
#include "support.h"

/* cmocka has a fail() of its own. */
static void make_error(struct error *e, const char *name)
{
    fail(e, WHERRY_STATUS_BAD_FORMAT, "the file %s is broken", name);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* What a terminal obeys or hides, and how it is shown. */
static const struct {
    const char *text, *shown;
} cases[] = {{"plain, 100 %", "plain, 100 %"},
             {"\x1b]0;owned\x07", "\\x1b]0;owned\\x07"},
             {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
             {"\x7f", "\\x7f"},
             {"\xc2\x9b"
              "31m",
              "\\u{9b}31m"},
             {"\xc2\x80\xc2\x9f", "\\u{80}\\u{9f}"},
             {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u{61c}\\u{200e}\\u{200f}"},
             {"\xe2\x80\xaa\xe2\x80\xae", "\\u{202a}\\u{202e}"},
             {"\xe2\x81\xa6\xe2\x81\xa9", "\\u{2066}\\u{2069}"},
             {"\xe2\x80\xa8\xe2\x80\xa9", "\\u{2028}\\u{2029}"},
             {"\xe2\x80\x8b\xef\xbb\xbf", "\\u{200b}\\u{feff}"},
             {"\xf3\xa0\x81\x81", "\\u{e0041}"},
             {"\xff\xc3(\xed\xa0\x80", "\\xff\\xc3(\\xed\\xa0\\x80"},
             {"\xe2\x80", "\\xe2\\x80"},
             {"\xf0\x9f\x9a\xa3 \xe8\x88\x9f \xc3\xa9", "\xf0\x9f\x9a\xa3 \xe8\x88\x9f \xc3\xa9"}};
enum { CASES = sizeof cases / sizeof *cases };

static void test_shown(void **state)
{
    (void)state;
    for (int n = 0; n < CASES; n++) {
        char shown[64];
        size_t length = utf8_show(cases[n].text, strlen(cases[n].text), shown, sizeof shown);
        assert_string_equal(shown, cases[n].shown);
        assert_int_equal(length, strlen(cases[n].shown));
        assert_true(length <= UTF8_SHOWN_MAX * strlen(cases[n].text));
        utf8_show_within(shown, sizeof shown); /* nothing is escaped twice */
        assert_string_equal(shown, cases[n].shown);
    }
}

static void test_errors(void **state)
{
    (void)state;
    char want[256];
    for (int n = 0; n < CASES; n++) {
        struct error e = {0};
        make_error(&e, cases[n].text);
        snprintf(want, sizeof want, "the file %s is broken", cases[n].shown);
        assert_string_equal(e.text, want);
        assert_int_equal(e.status, WHERRY_STATUS_BAD_FORMAT);
        fail_in(&e, cases[n].text);
        snprintf(want, sizeof want, "%s: the file %s is broken", cases[n].shown, cases[n].shown);
        assert_string_equal(e.text, want);
        fail_native(&e, WHERRY_STATUS_DEVICE_LOST, 7, "%s", cases[n].text);
        assert_string_equal(e.text, cases[n].shown);
        fail_timer(&e, 1, "%s", cases[n].text);
        assert_string_equal(e.text, cases[n].shown);
    }
}

static char logged[2048];

static void keep_log(wherry_log_level level, const char *text, void *user)
{
    (void)level, (void)user;
    snprintf(logged, sizeof logged, "%s", text);
}

static void test_log(void **state)
{
    (void)state;
    struct host host = support_host;
    host.log = keep_log;
    for (int n = 0; n < CASES; n++) {
        host_log(&host, WHERRY_LOG_WARNING, "%s", cases[n].text);
        assert_string_equal(logged, cases[n].shown);
    }
}

static bool whole_characters(const char *text)
{
    bool valid = true;
    uint32_t c;
    for (size_t n = 0, size = strlen(text); n < size;) n += utf8_decode(text + n, size - n, &c, &valid);
    return valid;
}

/* Names of characters of 2, 3 and 4 bytes, longer than any message, beginning at every byte. */
static void test_cut(void **state)
{
    (void)state;
    static const char *const characters[] = {"\xc3\xa9", "\xe8\x88\x9f", "\xf0\x9f\x9a\xa3", "\xe2\x80\xae"};
    for (size_t n = 0; n < sizeof characters / sizeof *characters; n++) {
        for (size_t shift = 0; shift < 8; shift++) {
            char name[3000];
            struct error e = {0};
            memset(name, 'x', shift);
            name[shift] = 0;
            for (size_t at = shift; at < 2400; at += strlen(characters[n])) strcpy(name + at, characters[n]);
            make_error(&e, name);
            assert_true(strlen(e.text) > 1000 && strlen(e.text) < sizeof e.text);
            assert_true(whole_characters(e.text) && !strstr(e.text, "\\x"));
            for (int deep = 0; deep < 3; deep++) {
                fail_in(&e, name);
                assert_true(whole_characters(e.text) && !strstr(e.text, "\\x"));
                assert_true(strlen(e.text) > 900 && strlen(e.text) < sizeof e.text);
            }
            for (size_t most = 0; most < 40; most++) {
                size_t cut = (size_t)utf8_cut(name, most);
                assert_true(cut <= most && most - cut < 4);
                name[39] = 0;
                char copy[64];
                snprintf(copy, sizeof copy, "%.*s", (int)cut, name);
                assert_true(most >= 39 || whole_characters(copy));
            }
        }
    }
    assert_int_equal(utf8_cut("abc", 8), 3);
    assert_int_equal(utf8_cut("abc", 2), 2);
    assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80", 4), 4); /* no characters at all */
}

static void test_context(void **state)
{
    (void)state;
    wherry_context *context;
    wherry_model_config config = {.struct_size = sizeof config};
    assert_int_equal(wherry_context_create(NULL, &context), WHERRY_STATUS_OK);
    assert_int_not_equal(wherry_model_config_named(context, "\x1b[2J\xe2\x80\xaeowned", &config), WHERRY_STATUS_OK);
    assert_non_null(strstr(wherry_last_error(context), "\\x1b[2J\\u{202e}owned"));
    assert_null(strchr(wherry_last_error(context), '\x1b'));
    wherry_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shown), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_log), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_context)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
