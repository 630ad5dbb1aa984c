/* The tokenizer against Hugging Face's, on the committed sample or on files made by tests/tokenizer/make_lines.py:
 *   test_tokenizer
 *   test_tokenizer --compare LINES IDS MODEL_FOLDER
 *   test_tokenizer --time LINES MODEL_FOLDER      seconds of processor time, as JSON
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer_scripts.h"

/* Last, as it defines fail(). */
#include <cmocka.h>

enum { VOCABULARY = 30522 };

/* The sample's vocab.txt with a folder's own settings. */
static struct tokenizer *open_sample(const char *name)
{
    char path[600];
    size_t size;
    struct error e;
    struct folder folder;
    folder_open(&folder);
    snprintf(path, sizeof path, "%s/tokenizer/%s/tokenizer_config.json", TEST_DATA, name);
    char *config = read_data(path, &size);
    folder_write(&folder, "tokenizer_config.json", config, size);
    host_free(&host, config);
    char *vocabulary = read_data(TEST_DATA "/tokenizer/vocab.txt", &size);
    folder_write(&folder, "vocab.txt", vocabulary, size);
    host_free(&host, vocabulary);
    struct tokenizer *tokenizer = tokenizer_open(&host, folder.path, NULL, VOCABULARY, &e);
    folder_close(&folder);
    if (!tokenizer) fail_msg("%s", e.text);
    return tokenizer;
}

static void check_sample(struct tokenizer *tokenizer, const char *name, size_t least)
{
    char lines[600], ids[600];
    snprintf(lines, sizeof lines, "%s/tokenizer/%s/lines.txt", TEST_DATA, name);
    snprintf(ids, sizeof ids, "%s/tokenizer/%s/ids.txt", TEST_DATA, name);
    struct counts counts = compare(tokenizer, lines, ids);
    tokenizer_close(tokenizer);
    assert_int_equal(counts.failed, 0);
    assert_true(counts.passed >= least);
    assert_int_equal(blocks, 0);
}

static void test_sample(void **state)
{
    static const char *const names[] = {"uncased", "cased", "cased_stripped", "accents", "whole_ideographs"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_sample(open_sample(names[i]), names[i], 150);
    check_scripts(TEST_DATA "/tokenizer/uncased/lines.txt");
}

static void test_sample_json(void **state)
{
    struct error e;
    (void)state;
    struct tokenizer *tokenizer = tokenizer_open(&host, TEST_DATA "/tokenizer/unusual", NULL, VOCABULARY, &e);
    if (!tokenizer) fail_msg("%s", e.text);
    check_sample(tokenizer, "unusual", 1000);
}

/* ---- what a call does ---- */

static void test_counts(void **state)
{
    (void)state;
    struct tokenizer *t = open_sample("uncased");
    struct error e = {0};
    int32_t ids[4] = {-1, -1, -1, -1}, types[4] = {-1, -1, -1, -1};
    size_t count = 0;
    assert_true(tokenizer_encode(&host, t, "hello world", 11, NULL, 0, 0, NULL, NULL, &count, &e));
    assert_int_equal(count, 4);
    count = 3;
    assert_true(tokenizer_encode(&host, t, "hello world", 11, NULL, 0, 0, ids, types, &count, &e));
    assert_int_equal(count, 4);
    const int32_t three[] = {101, 7592, 2088, -1};
    assert_memory_equal(ids, three, sizeof three);
    assert_int_equal(types[2], 0);
    assert_int_equal(types[3], -1);
    /* The length is given, so a NUL is a character like others (one that cleaning drops). */
    count = 4;
    assert_true(tokenizer_encode(&host, t, "hel\0lo\0", 7, "", 0, 0, ids, NULL, &count, &e));
    const int32_t paired[] = {101, 7592, 102, 102};
    assert_int_equal(count, 4);
    assert_memory_equal(ids, paired, sizeof paired);
    count = 4;
    assert_true(tokenizer_encode(&host, t, NULL, 0, NULL, 0, 2, ids, NULL, &count, &e));
    assert_int_equal(count, 2);
    /* Too few for [CLS] and [SEP]. */
    count = 4;
    assert_false(tokenizer_encode(&host, t, "a", 1, NULL, 0, 1, ids, NULL, &count, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(count, 4);
    assert_false(tokenizer_encode(&host, t, "a", 1, "b", 1, 2, ids, NULL, &count, &e));
    tokenizer_close(t);
    tokenizer_close(NULL);
    assert_int_equal(blocks, 0);
}

static void test_decoding(void **state)
{
    (void)state;
    /* Every maximal subpart of invalid UTF-8 is one U+FFFD (the Unicode Standard, tables 3-8 to 3-11). */
    static const struct {
        const char *bytes;
        uint32_t expected[10];
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
         {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0x41}},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
         {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0x41}},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0x41, 0xFFFD, 0xFFFD, 0x42}},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0x41}},
        {"\xF0\x9F\x98", {0xFFFD}},
        {"\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF",
         {0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].bytes), n = 0;
        for (size_t at = 0; at < size; n++) {
            uint32_t c;
            at += utf8_decode(cases[i].bytes + at, size - at, &c, NULL);
            assert_int_equal(c, cases[i].expected[n]);
        }
        assert_int_equal(cases[i].expected[n], 0);
    }
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Bytes of every kind: the same ids twice, all in the vocabulary, a cut sequence the begin of the whole one. */
static void test_random_bytes(void **state)
{
    enum { BYTES = 64, MOST = BYTES * 3 + 8, ROUNDS = 60000 };
    static const char *const pieces[] = {"[MASK]",           "[SEP", "##",   "\xCC\x81", "\xE4\xB8\xAD",
                                         "\xF0\x9D\x85\xA5", "<r>",  "Word", " ",        "\xE2"};
    (void)state;
    struct error e = {0};
    struct tokenizer *tokenizers[2] = {open_sample("uncased"),
                                       tokenizer_open(&host, TEST_DATA "/tokenizer/unusual", NULL, VOCABULARY, &e)};
    assert_non_null(tokenizers[1]);
    uint64_t seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        const struct tokenizer *t = tokenizers[round & 1];
        char text[BYTES];
        size_t size = random_next(&seed) % BYTES;
        for (size_t i = 0; i < size; i++) text[i] = (char)random_next(&seed);
        for (int inserted = 0; inserted < round % 5; inserted++) {
            const char *piece = pieces[random_next(&seed) % (sizeof pieces / sizeof *pieces)];
            size_t n = strlen(piece), at = random_next(&seed) % BYTES;
            if (at + n <= size) memcpy(text + at, piece, n);
        }
        /* A copy of exact size, so that the sanitizer sees one byte too far. */
        char *exact = malloc(size + !size);
        memcpy(exact, text, size);
        int32_t ids[2][MOST], cut[MOST];
        size_t counts[2] = {MOST, MOST}, cut_count = MOST, limit = 2 + random_next(&seed) % 10;
        for (int twice = 0; twice < 2; twice++) {
            assert_true(tokenizer_encode(&host, t, exact, size, NULL, 0, 0, ids[twice], NULL, &counts[twice], &e));
            assert_true(counts[twice] <= MOST);
        }
        assert_int_equal(counts[0], counts[1]);
        assert_memory_equal(ids[0], ids[1], counts[0] * sizeof ids[0][0]);
        for (size_t i = 0; i < counts[0]; i++) assert_in_range(ids[0][i], 0, VOCABULARY - 1);
        assert_true(tokenizer_encode(&host, t, exact, size, NULL, 0, limit, cut, NULL, &cut_count, &e));
        assert_int_equal(cut_count, counts[0] < limit ? counts[0] : limit);
        assert_memory_equal(cut, ids[0], (cut_count - 1) * sizeof *cut);
        free(exact);
    }
    tokenizer_close(tokenizers[0]);
    tokenizer_close(tokenizers[1]);
    assert_int_equal(blocks, 0);
}

/* A megabyte of `pattern` takes a fraction of a second of processor time; 10^10 steps and more would take minutes. */
static void check_time(const struct tokenizer *t, const char *pattern)
{
    enum { SIZE = 1 << 20 };
    struct error e = {0};
    size_t n = strlen(pattern), count = 0;
    char *text = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) text[i] = pattern[i % n];
    clock_t start = clock();
    assert_true(tokenizer_encode(&host, t, text, SIZE, NULL, 0, 0, NULL, NULL, &count, &e));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (getenv("WHERRY_TEST_TIMES")) printf("%-16s %7.1f ms/MiB\n", pattern, seconds * 1e3);
    if (seconds > 5) fail_msg("1 MiB of \"%s\" takes %.1f s", pattern, seconds);
    free(text);
}

/* Whatever the text is made of. */
static void test_linear_time(void **state)
{
    static const char *const patterns[] = {
        "a",
        "the quick fox, ",
        " ",
        "[MASK]",
        "[MASK",
        ".",
        "\xCC\x81",
        "\xF0\x9D\x85\xAD\xE1\xAD\x84\xE3\x80\xAE\xE0\xA3\x94",
        "\xE4\xB8\xAD",
        "\xED\x95\x9C",
        "\xFF",
        "\xC4\xB0",
        "<r> ",
        "Word",
        " <r",
    };
    (void)state;
    struct error e = {0};
    struct tokenizer *tokenizers[2] = {open_sample("uncased"),
                                       tokenizer_open(&host, TEST_DATA "/tokenizer/unusual", NULL, VOCABULARY, &e)};
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (int which = 0; which < 2; which++) check_time(tokenizers[which], patterns[p]);
    tokenizer_close(tokenizers[0]);
    tokenizer_close(tokenizers[1]);
}

/* ---- bad files ---- */

struct bad {
    const char *vocabulary, *config, *json; /* NULL: no such file */
    wherry_status status;                   /* OK: it opens */
    const char *says;
};

#define MODEL                                                                                                          \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                  \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":5}}"
#define NORMALIZER                                                                                                     \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"                   \
    "\"strip_accents\":null,\"lowercase\":true}"
#define PRE "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"
#define ADDED(id, content, normalized)                                                                                 \
    "\"added_tokens\":[{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false,"            \
    "\"rstrip\":false,\"normalized\":" #normalized ",\"special\":true}]"
#define TEXT_A "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEXT_B "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}"
#define TEMPLATES(single, pair)                                                                                        \
    "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[" pair   \
    "],\"special_tokens\":{}}}"
#define VOCABULARY_TXT "[UNK]\n[CLS]\n[SEP]\na\n"

static void check_bad(const struct bad *bad)
{
    struct folder folder;
    struct error e = {0};
    folder_open(&folder);
    if (bad->vocabulary) folder_write(&folder, "vocab.txt", bad->vocabulary, strlen(bad->vocabulary));
    if (bad->config) folder_write(&folder, "tokenizer_config.json", bad->config, strlen(bad->config));
    if (bad->json) folder_write(&folder, "tokenizer.json", bad->json, strlen(bad->json));
    struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, 10, &e);
    folder_close(&folder);
    if (bad->status == WHERRY_STATUS_OK) {
        if (!t) fail_msg("%s", e.text);
    } else {
        if (t) fail_msg("opened, and not: %s", bad->says);
        if (e.status != bad->status || !strstr(e.text, bad->says))
            fail_msg("\"%s\" (%s), expected \"%s\" (%s)", e.text, wherry_status_name(e.status), bad->says,
                     wherry_status_name(bad->status));
        assert_non_null(strstr(e.text, folder.path));
    }
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

static void test_bad_files(void **state)
{
    static const struct bad cases[] = {
        {NULL, NULL, NULL, WHERRY_STATUS_IO, "neither tokenizer.json nor vocab.txt"},
        {VOCABULARY_TXT, NULL, NULL, WHERRY_STATUS_OK, ""},
        {"", NULL, NULL, WHERRY_STATUS_BAD_FORMAT, "empty"},
        {"[CLS]\n[SEP]\na\n", NULL, NULL, WHERRY_STATUS_BAD_FORMAT, "no \"[UNK]\""},
        {"[UNK]\n[SEP]\na\n", NULL, NULL, WHERRY_STATUS_BAD_FORMAT, "no \"[CLS]\""},
        {"[UNK]\n[CLS]\na\n", NULL, NULL, WHERRY_STATUS_BAD_FORMAT, "no \"[SEP]\""},
        {"[UNK]\n[CLS]\n[SEP]\n\xC3(\n", NULL, NULL, WHERRY_STATUS_BAD_FORMAT, "not valid UTF-8"},
        {VOCABULARY_TXT "a\nb\nc\nd\ne\nf\ng\nh\n", NULL, NULL, WHERRY_STATUS_BAD_FORMAT,
         "token \"g\" has id 10, but the model has 10 ids"},
        {VOCABULARY_TXT "\n\n\n\n\n\n\n\n\n\r\n", NULL, NULL, WHERRY_STATUS_OK, ""},
        {VOCABULARY_TXT, "[]", NULL, WHERRY_STATUS_BAD_FORMAT, "not a JSON object"},
        {VOCABULARY_TXT, "{", NULL, WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {VOCABULARY_TXT, "{\"do_lower_case\": 1}", NULL, WHERRY_STATUS_BAD_FORMAT, "do_lower_case"},
        {VOCABULARY_TXT, "{\"cls_token\": null}", NULL, WHERRY_STATUS_BAD_FORMAT, "cls_token"},
        {VOCABULARY_TXT, "{\"cls_token\": \"a\", \"mask_token\": null}", NULL, WHERRY_STATUS_OK, ""},
        {VOCABULARY_TXT, "{\"cls_token\": \"<s>\"}", NULL, WHERRY_STATUS_BAD_FORMAT, "no \"<s>\""},
        {VOCABULARY_TXT, "{\"sep_token\": {\"content\": 3}}", NULL, WHERRY_STATUS_BAD_FORMAT, "content"},
        {VOCABULARY_TXT, "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}", NULL, WHERRY_STATUS_UNSUPPORTED,
         "BertJapaneseTokenizer"},
        {VOCABULARY_TXT, "{\"tokenizer_class\": \"DistilBertTokenizerFast\"}", NULL, WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," NORMALIZER "," PRE "}", WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," PRE "}", WHERRY_STATUS_OK, ""},
        {NULL, NULL, "[" MODEL "]", WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {NULL, NULL, "[]", WHERRY_STATUS_BAD_FORMAT, "not a JSON object"},
        {NULL, NULL, "{}", WHERRY_STATUS_UNSUPPORTED, "model"},
        {NULL, NULL, "{\"version\":\"2.0\"}", WHERRY_STATUS_UNSUPPORTED, "2.0"},
        {NULL, NULL, "{\"model\":{\"type\":\"WordLevel\"}}", WHERRY_STATUS_UNSUPPORTED, "model is \"WordLevel\""},
        {NULL, NULL, "{\"model\":{\"type\":\"WordLevel\"}}", WHERRY_STATUS_UNSUPPORTED, "model is \"WordLevel\""},
        {NULL, NULL, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":3}}", WHERRY_STATUS_BAD_FORMAT, "vocab"},
        {NULL, NULL, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", WHERRY_STATUS_BAD_FORMAT, "unk_token"},
        {NULL, NULL, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0,\"a\":1}}}", WHERRY_STATUS_BAD_FORMAT,
         "duplicate"},
        {NULL, NULL,
         "{\"model\":{\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
         "\"vocab\":{\"[UNK]\":-1}}}",
         WHERRY_STATUS_BAD_FORMAT, "\"[UNK]\" is not a whole number"},
        {NULL, NULL,
         "{\"model\":{\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
         "\"vocab\":{\"[UNK]\":9007199254740993}}}",
         WHERRY_STATUS_BAD_FORMAT, "has id 9007199254740993, but the model has 10 ids"},
        {NULL, NULL,
         "{\"model\":{\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
         "\"vocab\":{}}}",
         WHERRY_STATUS_BAD_FORMAT, "no \"[UNK]\""},
        {NULL, NULL, "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\"}," PRE "}", WHERRY_STATUS_BAD_FORMAT,
         "\"normalizers\" is missing"},
        {NULL, NULL, "{" MODEL ",\"normalizer\":{\"type\":\"Upper\"}," PRE "}", WHERRY_STATUS_UNSUPPORTED,
         "normalizer is \"Upper\""},
        {NULL, NULL, "{" MODEL ",\"normalizer\":{\"type\":\"BertNormalizer\"}," PRE "}", WHERRY_STATUS_BAD_FORMAT,
         "clean_text"},
        {NULL, NULL, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", WHERRY_STATUS_UNSUPPORTED,
         "pre-tokenizer is \"UnicodeScripts\""},
        {NULL, NULL, "{" MODEL ",\"pre_tokenizer\":null}", WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"RobertaProcessing\"}}",
         WHERRY_STATUS_BAD_FORMAT, "\"cls\" is missing"},
        {NULL, NULL, "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"Other\"}}", WHERRY_STATUS_UNSUPPORTED,
         "post-processor is \"Other\""},
        {NULL, NULL, "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",10]}}",
         WHERRY_STATUS_BAD_FORMAT, "\"cls\" is 10, but must be below 10"},
        {NULL, NULL,
         "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
         "{\"id\":\"[CLS]\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}}",
         WHERRY_STATUS_BAD_FORMAT, "lack \"[CLS]\""},
        {NULL, NULL,
         "{" MODEL "," PRE ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
         "{\"id\":\"B\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}}",
         WHERRY_STATUS_BAD_FORMAT, "sequence \"B\""},
        {NULL, NULL, TEMPLATES("", TEXT_A), WHERRY_STATUS_BAD_FORMAT,
         "\"single\" does not have the sequence \"A\" exactly once"},
        {NULL, NULL, TEMPLATES(TEXT_A, TEXT_A), WHERRY_STATUS_BAD_FORMAT, "\"pair\" does not have each of"},
        {NULL, NULL, TEMPLATES(TEXT_A, TEXT_B "," TEXT_B "," TEXT_A), WHERRY_STATUS_BAD_FORMAT,
         "\"pair\" does not have each of"},
        {NULL, NULL, TEMPLATES(TEXT_A, TEXT_B "," TEXT_A), WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," PRE "," ADDED(5, "a", false) "}", WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," PRE "," ADDED(2, "b", false) "}", WHERRY_STATUS_OK, ""},
        {NULL, NULL, "{" MODEL "," NORMALIZER "," PRE "," ADDED(5, "\\u0301", true) "}", WHERRY_STATUS_BAD_FORMAT,
         "empty once normalized"},
        {NULL, NULL, "{" MODEL "," PRE ",\"added_tokens\":[{\"content\":\"x\"}]}", WHERRY_STATUS_BAD_FORMAT,
         "single_word"},
        {NULL, NULL, "{" MODEL "," PRE ",\"added_tokens\":{}}", WHERRY_STATUS_BAD_FORMAT, "added_tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_bad(&cases[i]);
}

static struct tokenizer *open_files(const char *vocabulary, const char *config, const char *json)
{
    struct folder folder;
    struct error e = {0};
    folder_open(&folder);
    if (vocabulary) folder_write(&folder, "vocab.txt", vocabulary, strlen(vocabulary));
    if (config) folder_write(&folder, "tokenizer_config.json", config, strlen(config));
    if (json) folder_write(&folder, "tokenizer.json", json, strlen(json));
    struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, 10, &e);
    folder_close(&folder);
    if (!t) fail_msg("%s", e.text);
    return t;
}

static void expect_ids(struct tokenizer *t, const char *text, const char *expected)
{
    int32_t ids[16], types[16];
    size_t count = 16;
    struct error e = {0};
    assert_true(tokenizer_encode(&host, t, text, strlen(text), NULL, 0, 0, ids, types, &count, &e));
    if (!equals(expected, ids, types, NULL, count)) fail_msg("\"%s\" is not %s", text, expected);
    tokenizer_close(t);
}

/* A tokenizer whose added tokens, and pieces of words, are long and begin and end like each other: `LONG` times one
 * character, with another one after it that never comes. */
static struct tokenizer *open_hostile(bool normalized)
{
    enum { LONG = 20000, ROOM = 4 * LONG };
    static const char *const format =
        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
        "\"max_input_chars_per_word\":4000000000,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2,\"##%s\":3}}," NORMALIZER
        "," PRE ",\"added_tokens\":[%s%s%s]}";
    static const char *const added = "{\"id\":0,\"content\":\"%s\",\"single_word\":false,\"lstrip\":true,"
                                     "\"rstrip\":true,\"normalized\":%s,\"special\":false}%s";
    char *run = malloc(LONG + 2), *one[3], *json = malloc(ROOM);
    memset(run, '-', LONG);
    strcpy(run + LONG, "x");
    const char *contents[3] = {"-", run, " "};
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(added) + strlen(contents[i]) + 16;
        one[i] = malloc(size);
        snprintf(one[i], size, added, contents[i], normalized ? "true" : "false", i < 2 ? "," : "");
    }
    memset(run, 'a', LONG);
    assert_in_range(snprintf(json, ROOM, format, run, one[0], one[1], one[2]), 1, ROOM - 1);
    struct tokenizer *t = open_files(NULL, NULL, json);
    for (int i = 0; i < 3; i++) free(one[i]);
    free(run);
    free(json);
    return t;
}

/* The same of tokenizers that are made for being slow. */
static void test_hostile_time(void **state)
{
    /* The last: combining marks of all classes, from the highest to the lowest. */
    static const char *const texts[] = {"-",
                                        "a",
                                        " ",
                                        "- ",
                                        "a-",
                                        "\xCD\x85\xCD\x9C\xCC\x81\xD6\xAE\xCC\xA3\xCC\x9B\xCC\xA1\xE0\xBD\xB1"
                                        "\xE0\xBA\xB8\xE0\xB8\xB8\xDC\x91\xD9\x90\xD6\xB0\xE0\xA5\x8D\xE3\x82\x99"};
    (void)state;
    for (int normalized = 0; normalized < 2; normalized++) {
        struct tokenizer *t = open_hostile(normalized);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check_time(t, texts[i]);
        tokenizer_close(t);
    }
    assert_int_equal(blocks, 0);
}

/* Added tokens that begin, end and continue each other in a circle: as the reference has them, in linear time. */
static void test_circle_of_added(void **state)
{
#define MADE(id, content, strip)                                                                                       \
    "{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":" strip ",\"rstrip\":" strip         \
    ",\"normalized\":true,\"special\":false}"
#define CIRCLE(strip)                                                                                                  \
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                 \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2}}," NORMALIZER "," PRE                  \
    ",\"added_tokens\":[" MADE(3, "ab", strip) "," MADE(4, "ba", strip) "," MADE(5, "aba", strip) "," MADE(6, "bab",   \
                                                                                                           strip) "]}"
    static const char *const json[] = {CIRCLE("false"), CIRCLE("true")};
    static const char *const cases[][2] = {{"abababa", "5 6 1"},           {"bababab", "6 5 0"},
                                           {" ab ba aba bab ", "3 4 5 6"}, {"ABABA baBA", "5 4 6 1"},
                                           {"aabbaabb a", "1 3 4 3 0 1"},  {"abba ab", "3 4 3"}};
    static const char *const long_ones[] = {"ab", "ba ", " aba ", "abb"};
    (void)state;
    for (size_t j = 0; j < 2; j++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            expect_ids(open_files(NULL, NULL, json[j]), cases[i][0], cases[i][1]);
        struct tokenizer *t = open_files(NULL, NULL, json[j]);
        for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) check_time(t, long_ones[i]);
        tokenizer_close(t);
    }
    assert_int_equal(blocks, 0);
}

enum { TOKENS = 6, RUN = 1300, TEXT = 8000 };

/* The longest of the tokens that the text begins with; -1: none. */
static int longest_token(char *const tokens[TOKENS], const char *text)
{
    int best = -1;
    for (int i = 0; i < TOKENS; i++) {
        if (!strncmp(text, tokens[i], strlen(tokens[i])) && (best < 0 || strlen(tokens[i]) > strlen(tokens[best])))
            best = i;
    }
    return best;
}

/* Leftmost, then longest: the same as by trying all tokens at every place, over texts longer than what is searched at
 * once, and tokens too. What no token covers is one unknown word. */
static void test_added_longest(void **state)
{
    char run[RUN + 2], other[RUN + 2], short_tokens[4][8] = {"db", "bdb", "bbbb", "c"}, *json = malloc(8 * RUN);
    char *tokens[TOKENS] = {short_tokens[0], short_tokens[1], short_tokens[2], short_tokens[3], run, other};
    (void)state;
    memset(run, 'd', RUN);
    strcpy(run + RUN, "b");
    memset(other, 'b', RUN);
    strcpy(other + RUN, "d");
    size_t at = (size_t)snprintf(json, 8 * RUN, "{" MODEL "," PRE ",\"added_tokens\":[");
    for (int i = 0; i < TOKENS; i++)
        at += (size_t)snprintf(json + at, 8 * RUN - at,
                               "%s{\"id\":0,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                               "\"rstrip\":false,\"normalized\":false,\"special\":false}",
                               i ? "," : "", tokens[i]);
    snprintf(json + at, 8 * RUN - at, "]}");
    struct tokenizer *t = open_files(NULL, NULL, json);
    uint64_t seed = 3;
    for (int round = 0; round < 30; round++) {
        static char text[TEXT + 1];
        static int32_t ids[TEXT], expected[TEXT];
        size_t count = TEXT, n = 0;
        for (size_t i = 0; i < TEXT;) {
            size_t length = random_next(&seed) % (random_next(&seed) % 8 ? 6 : 2 * RUN) + 1;
            char c = "ddbbcx"[random_next(&seed) % 6];
            for (; length-- && i < TEXT; i++) text[i] = c;
        }
        bool word = false;
        for (size_t i = 0; i < TEXT;) {
            int token = longest_token(tokens, text + i);
            if (token < 0 && !word) expected[n++] = 0;
            if (token >= 0) expected[n++] = 2 + token; /* after the two of the vocabulary */
            word = token < 0;
            i += word ? 1 : strlen(tokens[token]);
        }
        struct error e = {0};
        assert_true(tokenizer_encode(&host, t, text, TEXT, NULL, 0, 0, ids, NULL, &count, &e));
        assert_int_equal(count, n);
        assert_memory_equal(ids, expected, n * sizeof *ids);
    }
    tokenizer_close(t);
    free(json);
    assert_int_equal(blocks, 0);
}

/* What Hugging Face accepts, and how it takes it. */
static void test_odd_files(void **state)
{
    (void)state;
    expect_ids(open_files("[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n##b\r\n", NULL, NULL), "ab", "1 3 4 2");
    expect_ids(open_files("[UNK]\n[CLS]\n[SEP]\na\n##b\na\n", NULL, NULL), "ab a", "1 5 4 5 2");
    expect_ids(open_files("[UNK]\n[CLS]\n[SEP]\na\n##b", NULL, NULL), "A\xCC\x81 b", "1 3 0 2");
    /* A special token that the vocabulary lacks is text. */
    expect_ids(open_files(VOCABULARY_TXT "[\nmask\n]\n", NULL, NULL), "[MASK]", "1 4 5 6 2");
    expect_ids(open_files(VOCABULARY_TXT "[MASK]\n", NULL, NULL), "a[MASK]", "1 3 4 2");
    expect_ids(open_files(VOCABULARY_TXT,
                          "{\"added_tokens_decoder\":{\"4\":{\"content\":\"[X]\",\"lstrip\":false,"
                          "\"normalized\":false,\"rstrip\":false,\"single_word\":false,\"special\":true}}}",
                          NULL),
               "a[X]a", "1 3 4 3 2");
    /* White space that one token has swallowed is no token any more. */
    expect_ids(open_files(VOCABULARY_TXT,
                          "{\"added_tokens_decoder\":{\"4\":{\"content\":\" \",\"lstrip\":true,\"normalized\":false,"
                          "\"rstrip\":true,\"single_word\":false,\"special\":true}}}",
                          NULL),
               "a   a ", "1 3 4 3 4 2");
    expect_ids(open_files(VOCABULARY_TXT "A\n", "{\"do_lower_case\":false}", NULL), "aA", "1 0 2");
    expect_ids(open_files(VOCABULARY_TXT "A\n", "{\"do_lower_case\":false}", NULL), "a A", "1 3 4 2");
    /* tokenizer.json is preferred, and without a post-processor there are no special tokens. */
    expect_ids(open_files(VOCABULARY_TXT, NULL, "{" MODEL "," NORMALIZER "," PRE "}"), "a A b", "5 5 0");
    /* As BertTokenizerFast does, the settings beside it overrule its normalizer; as no other class does. */
    expect_ids(open_files(NULL, "{\"do_lower_case\":false}", "{" MODEL "," NORMALIZER "," PRE "}"), "a A", "5 0");
    expect_ids(open_files(NULL, "{\"do_lower_case\":false,\"tokenizer_class\":\"PreTrainedTokenizerFast\"}",
                          "{" MODEL "," NORMALIZER "," PRE "}"),
               "a A", "5 5");
    assert_int_equal(blocks, 0);
}

/* A damaged tokenizer.json either opens, and then works, or gives an error. */
static void test_damaged_files(void **state)
{
    (void)state;
    size_t size;
    uint64_t seed = 2;
    char *json = read_data(TEST_DATA "/tokenizer/unusual/tokenizer.json", &size), *damaged = malloc(size);
    size_t opened = 0;
    for (int round = 0; round < 600; round++) {
        struct folder folder;
        struct error e = {0};
        memcpy(damaged, json, size);
        /* Most of the file is vocabulary; its settings are at the begin. */
        size_t span = round % 4 ? 2500 : size;
        for (int i = 0; i <= round % 2; i++)
            damaged[random_next(&seed) % span] = "{}[]\",:0159truefalsnl-AB\xC3"[random_next(&seed) % 26];
        folder_open(&folder);
        folder_write(&folder, "tokenizer.json", damaged, round % 10 ? size : random_next(&seed) % size);
        struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, VOCABULARY, &e);
        folder_close(&folder);
        size_t count = 0;
        if (t) assert_true(tokenizer_encode(&host, t, "a <s> Word", 10, "b", 1, 64, NULL, NULL, &count, &e));
        if (!t) assert_true(e.status != WHERRY_STATUS_OK && e.text[0]);
        opened += t != NULL;
        tokenizer_close(t);
    }
    assert_in_range(opened, 20, 580);
    free(damaged);
    host_free(&host, json);
    assert_int_equal(blocks, 0);
}

/* Every allocation fails once: a clean error, and nothing is lost. */
static void test_out_of_memory(void **state)
{
    (void)state;
    struct error e;
    struct tokenizer *t = NULL;
    long n = 0;
    for (; !t; n++) {
        until_failure = n;
        e = (struct error){0};
        t = tokenizer_open(&host, TEST_DATA "/tokenizer/unusual", NULL, VOCABULARY, &e);
        until_failure = -1;
        if (t) break;
        assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(blocks, 0);
    }
    assert_true(n > 10);
    long open_blocks = blocks;
    bool ok = false;
    for (n = 0; !ok; n++) {
        int32_t ids[64];
        size_t count = 64;
        until_failure = n;
        e = (struct error){0};
        ok = tokenizer_encode(&host, t, "one <s> Word K\xC3\xB6ln", 18, "two", 3, 0, ids, NULL, &count, &e);
        until_failure = -1;
        if (!ok) assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(blocks, open_blocks);
    }
    assert_true(n > 3);
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

static int run_compare(char **arguments)
{
    struct error e;
    struct tokenizer *t = tokenizer_open(&host, arguments[2], NULL, INT32_MAX, &e);
    if (!t) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    struct counts counts = compare(t, arguments[0], arguments[1]);
    tokenizer_close(t);
    printf("%zu passed, %zu failed\n", counts.passed, counts.failed);
    return counts.failed || !counts.passed;
}

/* Each line is a text, as it is. */
static int run_time(char **arguments)
{
    struct error e;
    size_t size, bytes, tokens = 0;
    char *lines = read_data(arguments[0], &bytes), *at = lines, *line;
    int32_t *ids = malloc((bytes + 64) * sizeof *ids);
    clock_t begin = clock();
    struct tokenizer *t = tokenizer_open(&host, arguments[1], NULL, INT32_MAX, &e);
    clock_t opened = clock();
    bool ok = t && ids;
    while (ok && (line = next_line(&at, lines + bytes, &size)) != NULL) {
        size_t count = bytes + 64;
        ok = tokenizer_encode(&host, t, line, size, NULL, 0, 0, ids, NULL, &count, &e);
        tokens += count;
    }
    clock_t end = clock();
    tokenizer_close(t);
    host_free(&host, lines);
    free(ids);
    if (!ok) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    printf("{\"open_ms\": %.1f, \"encode_s\": %.4f, \"bytes\": %zu, \"tokens\": %zu}\n",
           1e3 * (double)(opened - begin) / CLOCKS_PER_SEC, (double)(end - opened) / CLOCKS_PER_SEC, bytes, tokens);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--time")) return run_time(argv + 2);
    if (argc == 5 && !strcmp(argv[1], "--compare")) return run_compare(argv + 2);
    if (argc != 1) {
        fprintf(stderr, "usage: %s [--compare LINES IDS MODEL_FOLDER | --time LINES MODEL_FOLDER]\n", argv[0]);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),        cmocka_unit_test(test_sample_json),
        cmocka_unit_test(test_counts),        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_random_bytes),  cmocka_unit_test(test_linear_time),
        cmocka_unit_test(test_bad_files),     cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_hostile_time),  cmocka_unit_test(test_circle_of_added),
        cmocka_unit_test(test_added_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
