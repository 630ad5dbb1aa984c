/* The vocabulary of a tokenizer.json that is read without JSON values: the same words, in the same order, as the reader
 * of JSON gives, whatever is around it; what is not plain is left to that reader, and so is what is wrong. */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include "support.h"
#include "tokenizer/json_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/wherry-words-XXXXXX";

static void put(const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "wb");
    assert_true(file && fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* What both readers make of a file; `plain`: the words are read without JSON values. */
static void check(const char *text, bool plain)
{
    struct json_words words;
    json_t *rest = NULL, *whole = NULL, *value;
    struct error e = {0}, usual = {0};
    put(text);
    bool ok = json_words_read(&support_host, folder, "tokenizer.json", &json_tokenizer, &words, &rest, &e);
    bool usual_ok = json_file_read(&support_host, folder, "tokenizer.json", &json_tokenizer, 0, &whole, &usual);
    assert_int_equal(ok, usual_ok);
    assert_string_equal(e.text, usual.text);
    if (!(plain ? words.count > 0 : words.count == 0)) fail_msg("%zu words of %.100s", words.count, text);
    if (plain) {
        json_t *vocabulary = json_object_get(json_object_get(whole, "model"), "vocab"),
               *empty = json_object_get(json_object_get(rest, "model"), "vocab");
        const char *key;
        size_t i = 0;
        assert_int_equal(words.scored, json_is_array(vocabulary));
        assert_int_equal(words.scored ? json_array_size(vocabulary) : json_object_size(vocabulary), words.count);
        for (; i < json_array_size(vocabulary); i++) {
            key = json_string_value(json_array_get(json_array_get(vocabulary, i), 0));
            assert_int_equal(words.list[i].bytes, strlen(key));
            assert_memory_equal(words.list[i].text, key, strlen(key));
            assert_int_equal(words.list[i].id, i);
            assert_true(words.list[i].score == json_number_value(json_array_get(json_array_get(vocabulary, i), 1)));
        }
        json_object_foreach(vocabulary, key, value)
        {
            assert_int_equal(words.list[i].bytes, strlen(key));
            assert_memory_equal(words.list[i].text, key, strlen(key));
            assert_int_equal(words.list[i].id, json_integer_value(value));
            i++;
        }
        assert_true(words.scored ? json_is_array(empty) && !json_array_size(empty)
                                 : json_is_object(empty) && !json_object_size(empty));
        words.scored ? json_array_clear(vocabulary) : json_object_clear(vocabulary); /* and the rest is the same */
    }
    if (ok) assert_true(json_equal(rest, whole));
    json_words_free(&support_host, &words);
    json_decref(rest);
    json_decref(whole);
}

static void test_plain(void **state)
{
    (void)state;
    check("{\"model\":{\"vocab\":{\"a\":0,\"##b\":1}}}", true);
    check("{\"version\": \"1.0\", \"x\": [{\"vocab\": {\"no\": 7}}, \"model\"], \"model\": {\"type\": \"WordPiece\", "
          "\"y\": "
          "{\"vocab\": {\"no\": 8}},\n \"vocab\" :\t{ \"\\\"\" : 3 ,\r\n\"\\\\\\/\":999999999, "
          "\"\xc3\xa9\xf0\x9f\x98\x80\": 2 , "
          "\"\": 5 } , \"z\": 1}, \"after\": {\"vocab\": {\"no\": 9}}}",
          true);
    check("{\"vocab\":{\"no\":1},\"model\":{\"vocab\":{\"yes\":2}}}", true);
    check("{\"model\":{\"vocab\":{\"\\u00e9\\n\":1,\"\\b\\f\\n\\r\\t\\/\":2,\"\\uD83D\\ude00x\\u2581\":3}}}", true);
    check("{\"model\":{\"vocab\":[[\"a\",-1.5],[ \"\\u2581b\" , 0 ] ,[\"c\",1e-3]], \"unk_id\":0}}", true);
    check("{\"model\":{\"vocab\":[[\"a\",-0.0],[\"a\",12E+2]]}}", true);
}

static void test_left(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"model\":{\"vocab\":{}}}",
        "{\"model\":{\"vocab\":{\"a\":1.0}}}",
        "{\"model\":{\"vocab\":{\"a\":-1}}}",
        "{\"model\":{\"vocab\":{\"a\":1e2}}}",
        "{\"model\":{\"vocab\":{\"a\":1234567890}}}",
        "{\"model\":{\"vocab\":{\"a\":null}}}",
        "{\"model\":{\"vocab\":{\"a\":\"1\"}}}",
        "{\"model\":{\"vocab\":[\"a\",1]}}",
        "{\"model\":{\"vocab\":[]}}",
        "{\"model\":{\"vocab\":[[\"a\"]]}}",
        "{\"model\":{\"vocab\":[[\"a\",1,2]]}}",
        "{\"model\":{\"vocab\":[[\"a\",\"b\"]]}}",
        "{\"model\":{\"vocab\":[[1,2]]}}",
        "{\"model\":[{\"vocab\":{\"a\":1}}]}",
        "{\"a\":{\"vocab\":5},\"model\":[{\"x\":1}]}",
        "{\"vocab\":{\"a\":1}}",
        "[{\"model\":{\"vocab\":{\"a\":1}}}]",
        "{}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(texts[i], false);
}

/* As Hugging Face's library reads them: not always the nearest double. */
static void test_scores(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"-13.01290404796669725", -13.012904047966696}, /* the nearest is -13.012904047966698 */
                 {"-12.8969350492589913944", -12.896935049258992},
                 {"-11.0055667139762851416178", -11.005566713976286},
                 {"-3.4012346267700195", -3.4012346267700195},
                 {"18446744073709551616.5", 18446744073709551616.0},
                 {"1e-400", 0.0},
                 {"0e999", 0.0},
                 {"-25", -25.0},
                 {"1.5E+2", 150.0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 1;
        char text[64];
        size_t size = (size_t)snprintf(text, sizeof text, "%s]", cases[i].text);
        assert_int_equal(json_score_read(text, size, 0, &value), size - 1);
        if (!(value == cases[i].value)) fail_msg("%s is %.17g", cases[i].text, value);
    }
}

/* The sentences are the usual reader's. */
static void test_wrong(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "{\"model\":{\"vocab\":{\"a\":01}}}",
        "{\"model\":{\"vocab\":{\"a\":1,}}}",
        "{\"model\":{\"vocab\":{\"a\":1 \"b\":2}}}",
        "{\"model\":{\"vocab\":{\"a\":1}",
        "{\"model\":{\"vocab\":{\"a\":1}}",
        "{\"model\":{\"vocab\":{\"a\":1",
        "{\"model\":{\"vocab\":{\"a",
        "{\"model\":{\"vocab\":{\"a\":1}}} x",
        "{\"model\":{\"vocab\":{\"\\ud800\":1}}}",
        "{\"model\":{\"vocab\":{\"\\ud800\\u0041\":1}}}",
        "{\"model\":{\"vocab\":{\"\\udc00\":1}}}",
        "{\"model\":{\"vocab\":{\"\\u00\":1}}}",
        "{\"model\":{\"vocab\":{\"\\x\":1}}}",
        "{\"model\":{\"vocab\":{\"\\u0000\":1}}}",
        "{\"model\":{\"vocab\":[[\"a\",1.]]}}",
        "{\"model\":{\"vocab\":[[\"a\",-]]}}",
        "{\"model\":{\"vocab\":[[\"a\",01]]}}",
        "{\"model\":{\"vocab\":[[\"a\",.5]]}}",
        "{\"model\":{\"vocab\":[[\"a\",1e999]]}}",
        "{\"model\":{\"vocab\":[[\"a\",NaN]]}}",
        "{\"model\":{\"vocab\":[[\"a\",1],]}}",
        "{\"model\":{\"vocab\":{\"a\":1},\"vocab\":{\"b\":1}}}",
        "{\"model\":{\"vocab\":{\"\xed\xa0\x80\":1}}}",
        "{\"model\":{\"vocab\":{\"\xff\":1}}}",
        "{\"model\":{\"vocab\":{\"\x01\":1}}}",
        "{\"model\":{\"vocab\":{\"a\":1}},,}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json_words words;
        json_t *out = NULL;
        struct error e;
        check(texts[i], false);
        assert_false(json_words_read(&support_host, folder, "tokenizer.json", &json_tokenizer, &words, &out, &e));
    }
}

int main(void)
{
    char path[64];
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_left),
                                       cmocka_unit_test(test_wrong), cmocka_unit_test(test_scores)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("json_words", tests, NULL, NULL);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    unlink(path);
    rmdir(folder);
    return failed;
}
