/* Byte pair encoding, byte-level texts and patterns: what Hugging Face's library gives for the committed sample
 * (tests/tokenizer/compare_bpe.py), and files that are wrong or made to be slow. */
#define _POSIX_C_SOURCE 200809L

#include "tokenizer_scripts.h"

#include <time.h>

enum { VOCABULARY = 5000 };

/* ---- the sample ---- */

static struct tokenizer *open_sample(const char *name, char path[600])
{
    struct error e = {0};
    snprintf(path, 600, "%s/bpe/%s", TEST_DATA, name);
    struct tokenizer *t = tokenizer_open(&host, path, NULL, VOCABULARY, &e);
    if (!t) fail_msg("%s", e.text);
    return t;
}

static void check_sample(const char *name, size_t lines_least)
{
    char path[600], lines[640], ids[640];
    struct tokenizer *t = open_sample(name, path);
    snprintf(lines, sizeof lines, "%s/lines.txt", path);
    snprintf(ids, sizeof ids, "%s/ids.txt", path);
    struct counts counts = compare(t, lines, ids);
    tokenizer_close(t);
    assert_int_equal(counts.failed, 0);
    assert_true(counts.passed >= lines_least);
    assert_int_equal(blocks, 0);
}

static void test_sample(void **state)
{
    static const char *const names[] = {"roberta", "gpt4", "sentencepiece", "modernbert"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char lines[640];
        check_sample(names[i], 100);
        snprintf(lines, sizeof lines, "%s/bpe/%s/lines.txt", TEST_DATA, names[i]);
        check_scripts(lines);
    }
}

static const char *const patterns[] = {
    "gpt2", "gpt4",     "gpt4_possessive", "gpt4o", "qwen2", "bloom",     "deepseek", "ideographs", "digits",
    "clip", "newlines", "empty",           "words", "lines", "thousands", "scripts",  "categories", "quantifiers"};

static void test_patterns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char name[64];
        snprintf(name, sizeof name, "patterns/%s", patterns[i]);
        check_sample(name, 15);
    }
}

/* Every option, merges in any order. */
static void test_odd_models(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        char name[64];
        snprintf(name, sizeof name, "odd/%d", i);
        check_sample(name, 20);
    }
}

/* ---- wrong files ---- */

/* `says` NULL: it opens. */
static void check(const char *json, wherry_status status, const char *says)
{
    struct folder folder;
    struct error e = {0};
    folder_open(&folder);
    folder_write(&folder, "tokenizer.json", json, strlen(json));
    struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, VOCABULARY, &e);
    folder_close(&folder);
    if (!says && !t) fail_msg("%s: %s", json, e.text);
    if (says && t) fail_msg("opened: %s", json);
    if (says && (e.status != status || !strstr(e.text, says)))
        fail_msg("%s: \"%s\" (%s), expected \"%s\"", json, e.text, wherry_status_name(e.status), says);
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

#define MODEL(more, words, merges)                                                                                     \
    "{\"model\":{\"type\":\"BPE\"" more ",\"vocab\":{" words "},\"merges\":[" merges "]}}"
#define ABC "\"a\":0,\"b\":1,\"ab\":2,\"aba\":3"

static void test_bad_models(void **state)
{
    static const struct {
        const char *json;
        wherry_status status;
        const char *says;
    } cases[] = {
        {MODEL("", ABC, "\"a b\",\"ab a\""), WHERRY_STATUS_OK, NULL},
        {MODEL("", ABC, "[\"a\",\"b\"],[\"ab\",\"a\"]"), WHERRY_STATUS_OK, NULL},
        {MODEL("", ABC, "\"#version: 0.2\",\"a b\",\"a b\""), WHERRY_STATUS_OK, NULL},
        {MODEL(",\"dropout\":0.0,\"unk_token\":null", ABC, ""), WHERRY_STATUS_OK, NULL},
        {MODEL(",\"unk_token\":\"none\"", ABC, ""), WHERRY_STATUS_OK, NULL},
        {MODEL("", "", ""), WHERRY_STATUS_OK, NULL},
        {MODEL(",\"dropout\":0.1", ABC, ""), WHERRY_STATUS_UNSUPPORTED, "\"dropout\""},
        {MODEL("", ABC, "\"a c\""), WHERRY_STATUS_BAD_FORMAT, "merge 0 names \"c\""},
        {MODEL("", ABC, "\"a b\",\"b a\""), WHERRY_STATUS_BAD_FORMAT, "merge 1, of \"b\" and \"a\", gives a token"},
        {MODEL("", "\"a\":0,\"\":1", "[\"\",\"\"],[\"\",\"a\"]"), WHERRY_STATUS_OK, NULL},
        {MODEL("", ABC, "\"ab\""), WHERRY_STATUS_BAD_FORMAT, "not two tokens with one space"},
        {MODEL("", ABC, "\"a b a\""), WHERRY_STATUS_BAD_FORMAT, "not two tokens with one space"},
        {MODEL("", ABC, "[\"a\"]"), WHERRY_STATUS_BAD_FORMAT, "merge 0 is not an array of two strings"},
        {MODEL("", ABC, "[\"a\",\"b\",\"a\"]"), WHERRY_STATUS_BAD_FORMAT, "merge 0 is not an array of two strings"},
        {MODEL("", ABC, "[\"a\",\"b\"],\"ab a\""), WHERRY_STATUS_BAD_FORMAT, "merge 1 is not an array"},
        {MODEL("", ABC, "\"a b\",[\"ab\",\"a\"]"), WHERRY_STATUS_BAD_FORMAT, "merge 1 is not a string"},
        {MODEL("", ABC, "7"), WHERRY_STATUS_BAD_FORMAT, "merge 0 is not a string"},
        {MODEL("", "\"a\":0,\"b\":0", ""), WHERRY_STATUS_BAD_FORMAT, "two tokens of the vocabulary have id 0"},
        {MODEL("", "\"a\":5000", ""), WHERRY_STATUS_BAD_FORMAT, "has id 5000, but the model has 5000 ids"},
        {MODEL("", "\"a\":4294967296", ""), WHERRY_STATUS_BAD_FORMAT, "has id 4294967296"},
        {MODEL("", "\"a\":-1", ""), WHERRY_STATUS_BAD_FORMAT, "not a whole number"},
        {MODEL("", "\"a\":0,\"a\":1", ""), WHERRY_STATUS_BAD_FORMAT, "duplicate"},
        {MODEL(",\"continuing_subword_prefix\":\"##\"", "\"a\":0,\"b\":1", "\"a b\""), WHERRY_STATUS_BAD_FORMAT,
         "is shorter than the prefix"},
        {MODEL(",\"continuing_subword_prefix\":\"0123456789012345678901234567890123456789\"", ABC, ""),
         WHERRY_STATUS_UNSUPPORTED, "more than 32 characters"},
        {MODEL(",\"fuse_unk\":1", ABC, ""), WHERRY_STATUS_BAD_FORMAT, "\"fuse_unk\""},
        {"{\"model\":{\"vocab\":{},\"merges\":[]}}", WHERRY_STATUS_OK, NULL},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", WHERRY_STATUS_BAD_FORMAT, "\"merges\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", WHERRY_STATUS_BAD_FORMAT, "\"vocab\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":{}}}", WHERRY_STATUS_BAD_FORMAT, "\"merges\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases[i].json, cases[i].status, cases[i].says);
}

/* RoBERTa's older files. */
static void test_bad_files(void **state)
{
#define WORDS "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"ab\":6,\"<mask>\":7}"
    static const struct {
        const char *vocabulary, *merges, *config;
        wherry_status status;
        const char *says;
    } cases[] = {
        {WORDS, "#version: 0.2\na b\n", NULL, WHERRY_STATUS_OK, NULL},
        {WORDS, "a b\r\n\r\n", NULL, WHERRY_STATUS_BAD_FORMAT, "not two tokens with one space"},
        {WORDS, NULL, NULL, WHERRY_STATUS_IO, "merges.txt"},
        {WORDS, "a c\n", NULL, WHERRY_STATUS_BAD_FORMAT, "merges.txt: merge 0 names \"c\""},
        {WORDS, "a b\nb a\n", NULL, WHERRY_STATUS_BAD_FORMAT, "merge 1, of \"b\" and \"a\", gives a token"},
        {WORDS, "ab\n", NULL, WHERRY_STATUS_BAD_FORMAT, "not two tokens with one space"},
        {WORDS, "a \n", NULL, WHERRY_STATUS_BAD_FORMAT, "merge 0 names \"\""},
        {WORDS, " b\n", NULL, WHERRY_STATUS_BAD_FORMAT, "merge 0 names \"\""},
        {"[]", "", NULL, WHERRY_STATUS_BAD_FORMAT, "vocab.json: this is not a JSON object"},
        {"{\"a\":0", "", NULL, WHERRY_STATUS_BAD_FORMAT, "vocab.json"},
        {"{\"a\":0}", "", NULL, WHERRY_STATUS_BAD_FORMAT, "the vocabulary has no \"<s>\""},
        {"{\"<s>\":0,\"</s>\":5000}", "", NULL, WHERRY_STATUS_BAD_FORMAT, "has id 5000"},
        {WORDS, "a b\n", "{\"tokenizer_class\":\"GPT2Tokenizer\"}", WHERRY_STATUS_UNSUPPORTED, "\"GPT2Tokenizer\""},
        {WORDS, "a b\n", "{\"cls_token\":\"<cls>\"}", WHERRY_STATUS_BAD_FORMAT, "the vocabulary has no \"<cls>\""},
        {WORDS, "a b\n", "{\"mask_token\":7}", WHERRY_STATUS_BAD_FORMAT, "mask_token"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        struct error e = {0};
        folder_open(&folder);
        folder_write(&folder, "vocab.json", cases[i].vocabulary, strlen(cases[i].vocabulary));
        if (cases[i].merges) folder_write(&folder, "merges.txt", cases[i].merges, strlen(cases[i].merges));
        if (cases[i].config) folder_write(&folder, "tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        struct tokenizer *t = tokenizer_open(&host, folder.path, "RobertaTokenizer", VOCABULARY, &e);
        folder_close(&folder);
        if (!cases[i].says != !!t || e.status != cases[i].status || (cases[i].says && !strstr(e.text, cases[i].says)))
            fail_msg("case %zu: \"%s\" (%s)", i, e.text, wherry_status_name(e.status));
        tokenizer_close(t);
        assert_int_equal(blocks, 0);
    }
}

/* A character that no token stands for, without an unknown token where one is named. */
static void test_unknown(void **state)
{
    static const char json[] = MODEL(",\"unk_token\":\"none\"", ABC, "\"a b\"");
    struct folder folder;
    struct error e = {0};
    int32_t ids[4];
    size_t count = 4;
    (void)state;
    folder_open(&folder);
    folder_write(&folder, "tokenizer.json", json, sizeof json - 1);
    struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, VOCABULARY, &e);
    folder_close(&folder);
    assert_non_null(t);
    assert_true(tokenizer_encode(&host, t, "abb", 3, NULL, 0, 0, ids, NULL, &count, &e));
    assert_int_equal(count, 2);
    assert_false(tokenizer_encode(&host, t, "axb", 3, NULL, 0, 0, ids, NULL, &count, &e));
    assert_non_null(strstr(e.text, "no token has"));
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

/* ---- patterns that are refused ---- */

#define SPLIT(pattern)                                                                                                 \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"?\":0},\"merges\":[],\"unk_token\":\"?\",\"fuse_unk\":true},"           \
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                                          \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}}"

static void test_bad_patterns(void **state)
{
    static const struct {
        const char *pattern, *says;
    } cases[] = {
        {SPLIT("a+|b"), NULL},
        {SPLIT("(a"), "a group without an end"},
        {SPLIT("a)"), "closes nothing"},
        {SPLIT("[a"), "a class without an end"},
        {SPLIT("[a&&b]"), "an intersection of classes"},
        {SPLIT("[a[^b]]"), "a class in a class"},
        {SPLIT("[[:alpha:]]"), "a class in a class"},
        {SPLIT("*a"), "a repetition of nothing"},
        {SPLIT("a**"), "a repetition of a repetition"},
        {SPLIT("a{3,1}"), "an interval from more to less"},
        {SPLIT("(a)\\\\1"), "an escape"},
        {SPLIT("\\\\Ka"), "an escape"},
        {SPLIT("\\\\p{Nonsense}"), "a property"},
        {SPLIT("[\\\\P{L}]"), "within a class"},
        {SPLIT("(?x)a"), "a group of a kind"},
        {SPLIT("(?<n>a)"), "a group of a kind"},
        {SPLIT("a(?i)b"), "an option behind something"},
        {SPLIT("(?i)\\\\p{Lu}"), "a property of case"},
        {SPLIT("(?i)stra\xC3\x9F"), "where case does not count"},
        {SPLIT("(?i)mass"), "where case does not count"},
        {SPLIT("(?<=a+)b"), "is not one that can be matched here"},
        {SPLIT("\\\\xFF"), "a byte or a surrogate"},
        {SPLIT("(?:(?:(?:a{999}){999}){999}){999}"), "is not one that can be matched here"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].pattern, WHERRY_STATUS_UNSUPPORTED, cases[i].says);
}

static double seconds(clock_t begin) { return (double)(clock() - begin) / CLOCKS_PER_SEC; }

/* A pattern that tries all ways to part a text stops at an error. */
static void test_slow_patterns(void **state)
{
    static const char *const slow[] = {SPLIT("(?:a+)+c"), SPLIT("(?:a|aa)+c"), SPLIT("(?:(?:a*)*b*)*c")};
    enum { SIZE = 20000 };
    char *text = malloc(SIZE);
    (void)state;
    memset(text, 'a', SIZE);
    memcpy(text + SIZE - 2, "!c", 2); /* what the pattern ends with is there */
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        struct folder folder;
        struct error e = {0};
        size_t count = 0;
        folder_open(&folder);
        folder_write(&folder, "tokenizer.json", slow[i], strlen(slow[i]));
        struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, VOCABULARY, &e);
        folder_close(&folder);
        if (!t) fail_msg("%s", e.text);
        clock_t begin = clock();
        assert_false(tokenizer_encode(&host, t, text, SIZE, NULL, 0, 0, NULL, NULL, &count, &e));
        if (!strstr(e.text, "too many steps")) fail_msg("%s", e.text);
        if (seconds(begin) > 5) fail_msg("%s: %.1f s", slow[i], seconds(begin));
        tokenizer_close(t);
        assert_int_equal(blocks, 0);
    }
    free(text);
}

/* ---- time ---- */

/* Words of one letter, and of what never ends to be merged; eight times the text may take no more than sixteen times.
 */
static void test_linear_time(void **state)
{
    static const char *const names[] = {"roberta", "gpt4", "sentencepiece", "odd/0", "odd/3"};
    static const char *const texts[] = {
        "a", "ab", " ", "\n", "1", "'", "'s", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "abc\xC3\xA9", "a ", "A"};
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE), path[600];
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct tokenizer *t = open_sample(names[n], path);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            size_t length = strlen(texts[i]), count = 0;
            struct error e = {0};
            double took[2];
            for (size_t k = 0; k < SIZE; k++) text[k] = texts[i][k % length];
            for (int whole = 0; whole < 2; whole++) {
                clock_t begin = clock();
                if (!tokenizer_encode(&host, t, text, whole ? SIZE : SIZE / 8, NULL, 0, 0, NULL, NULL, &count, &e))
                    fail_msg("%s: %s", names[n], e.text);
                took[whole] = seconds(begin);
            }
            if (took[1] > 16 * took[0] + 0.5)
                fail_msg("%s, \"%s\": %.3f s, then %.3f s", names[n], texts[i], took[0], took[1]);
        }
        tokenizer_close(t);
    }
    free(text);
    assert_int_equal(blocks, 0);
}

/* ---- memory ---- */

static void check_memory(const char *name)
{
    static const char text[] = "  Don't \xE4\xB8\xAD\xF0\x9F\x98\x80 <mask> "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    char path[600];
    struct tokenizer *t = open_sample(name, path);
    bool ok = false;
    for (long n = 0; !ok; n++) {
        struct error e = {0};
        size_t count = 0;
        long before = blocks;
        until_failure = n;
        ok = tokenizer_encode(&host, t, text, sizeof text - 1, text, 20, 16, NULL, NULL, &count, &e);
        until_failure = -1;
        assert_true(ok || e.status == WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(blocks, before);
    }
    tokenizer_close(t);
    ok = false;
    for (long n = 0; !ok; n += 1 + n / 16) {
        struct error e = {0};
        until_failure = n;
        t = tokenizer_open(&host, path, NULL, VOCABULARY, &e);
        until_failure = -1;
        ok = t != NULL;
        assert_true(ok || e.status == WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        tokenizer_close(t);
        assert_int_equal(blocks, 0);
    }
}

static void test_out_of_memory(void **state)
{
    static const char *const names[] = {"roberta", "gpt4", "sentencepiece", "patterns/bloom", "odd/1"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_memory(names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_odd_models),
        cmocka_unit_test(test_bad_models),    cmocka_unit_test(test_bad_files),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_bad_patterns),  cmocka_unit_test(test_slow_patterns), cmocka_unit_test(test_linear_time),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
