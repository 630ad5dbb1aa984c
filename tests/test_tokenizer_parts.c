/* The parts of a tokenizer: what Hugging Face's library gives for the committed sample of all kinds
 * (tests/tokenizer/make_parts.py), and files that are wrong or made to be slow. */
#define _POSIX_C_SOURCE 200809L

#include "tokenizer_scripts.h"

#include <time.h>

enum { VOCABULARY = 100000 };

/* ---- the sample ---- */

static void test_sample(void **state)
{
    static const char *const names[] = {"xlmr_model", "camembert_model", "fallback",  "ties",     "parts/0",
                                        "parts/6",    "parts/10",        "parts/15",  "parts/47", "parts/86",
                                        "parts/90",   "parts/146",       "parts/156", "parts/189"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[600], lines[640], ids[640];
        struct error e = {0};
        snprintf(path, sizeof path, "%s/tokenizer/%s", TEST_DATA, names[i]);
        snprintf(lines, sizeof lines, "%s/lines.txt", path);
        snprintf(ids, sizeof ids, "%s/ids.txt", path);
        struct tokenizer *t = tokenizer_open(&host, path, NULL, VOCABULARY, &e);
        if (!t) fail_msg("%s", e.text);
        struct counts counts = compare(t, lines, ids);
        tokenizer_close(t);
        assert_int_equal(counts.failed, 0);
        assert_true(counts.passed >= 60);
        if (i < 3) check_scripts(lines); /* those with texts; the others are of a few letters */
        assert_int_equal(blocks, 0);
    }
}

/* ---- wrong files ---- */

static struct tokenizer *open_folder(const char *name, const void *data, size_t size, const char *config,
                                     struct error *e)
{
    struct folder folder;
    folder_open(&folder);
    folder_write(&folder, name, data, size);
    if (config) folder_write(&folder, "tokenizer_config.json", config, strlen(config));
    struct tokenizer *t = tokenizer_open(&host, folder.path, NULL, VOCABULARY, e);
    folder_close(&folder);
    return t;
}

static struct tokenizer *open_json(const char *json, struct error *e)
{
    return open_folder("tokenizer.json", json, strlen(json), NULL, e);
}

/* `says` NULL: it opens. */
static void check_json(const char *json, wherry_status status, const char *says)
{
    struct error e = {0};
    struct tokenizer *t = open_json(json, &e);
    if (!says && !t) fail_msg("%s: %s", json, e.text);
    if (says && t) fail_msg("opened: %s", json);
    if (says && (e.status != status || !strstr(e.text, says)))
        fail_msg("%s: \"%s\" (%s), expected \"%s\"", json, e.text, wherry_status_name(e.status), says);
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

#define UNIGRAM(more, vocabulary) "{\"model\":{\"type\":\"Unigram\"" more ",\"vocab\":[" vocabulary "]}}"
#define PARTS(parts) "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-1],[\"a\",-2]]}," parts "}"

static void test_bad_parts(void **state)
{
    static const struct {
        const char *json;
        wherry_status status;
        const char *says;
    } cases[] = {
        {UNIGRAM("", "[\"a\",-1]"), WHERRY_STATUS_OK, NULL},
        {UNIGRAM(",\"unk_id\":null", "[\"a\",-1],[\"a\",-2]"), WHERRY_STATUS_OK, NULL},
        {UNIGRAM(",\"unk_id\":1", "[\"a\",-1]"), WHERRY_STATUS_BAD_FORMAT, "\"unk_id\" is 1, but must be below 1"},
        {UNIGRAM(",\"unk_id\":-1", "[\"a\",-1]"), WHERRY_STATUS_BAD_FORMAT, "\"unk_id\""},
        {UNIGRAM(",\"unk_id\":0", ""), WHERRY_STATUS_BAD_FORMAT, "\"unk_id\" is 0, but must be below 0"},
        {UNIGRAM(",\"unk_id\":0.0", "[\"a\",-1]"), WHERRY_STATUS_BAD_FORMAT, "\"unk_id\""},
        {UNIGRAM(",\"byte_fallback\":1", "[\"a\",-1]"), WHERRY_STATUS_BAD_FORMAT, "byte_fallback"},
        {UNIGRAM("", "[\"a\",NaN]"), WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {UNIGRAM("", "[\"a\",1e400]"), WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {UNIGRAM("", "[\"a\"]"), WHERRY_STATUS_BAD_FORMAT, "made of [token, score]"},
        {UNIGRAM("", "[\"a\",-1],[3,-1]"), WHERRY_STATUS_BAD_FORMAT, "made of [token, score]"},
        {UNIGRAM("", "\"a\""), WHERRY_STATUS_BAD_FORMAT, "made of [token, score]"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}", WHERRY_STATUS_BAD_FORMAT, "\"vocab\""},
        {PARTS("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Other\"}]}"),
         WHERRY_STATUS_UNSUPPORTED, "normalizer is \"Other\""},
        {PARTS("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{}]}"), WHERRY_STATUS_UNSUPPORTED, "of no kind"},
        {PARTS("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true}"), WHERRY_STATUS_BAD_FORMAT, "strip_right"},
        {PARTS("\"normalizer\":{\"type\":\"Prepend\"}"), WHERRY_STATUS_BAD_FORMAT, "prepend"},
        {PARTS("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"String\":\"\"}}"),
         WHERRY_STATUS_BAD_FORMAT, "pattern"},
        {PARTS("\"normalizer\":{\"type\":\"Replace\",\"content\":\"x\",\"pattern\":{}}"), WHERRY_STATUS_BAD_FORMAT,
         "String"},
        {PARTS("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), WHERRY_STATUS_BAD_FORMAT,
         "content"},
        {PARTS("\"normalizer\":{\"type\":\"Precompiled\"}"), WHERRY_STATUS_BAD_FORMAT, "precompiled_charsmap"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":5}"), WHERRY_STATUS_BAD_FORMAT,
         "pretokenizers"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":5}"), WHERRY_STATUS_UNSUPPORTED,
         "pre-tokenizer is \"FixedLength\""},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), WHERRY_STATUS_BAD_FORMAT,
         "a string of one character"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
         WHERRY_STATUS_BAD_FORMAT, "prepend_scheme"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false,"
               "\"prepend_scheme\":\"first\"}"),
         WHERRY_STATUS_BAD_FORMAT, "contradicts"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}"),
         WHERRY_STATUS_BAD_FORMAT, "write \"prepend_scheme\""},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":true,"
               "\"str_rep\":\"_\"}"),
         WHERRY_STATUS_OK, NULL},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Kept\"}"), WHERRY_STATUS_UNSUPPORTED,
         "\"behavior\" is \"Kept\""},
        {PARTS("\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"\"}"), WHERRY_STATUS_BAD_FORMAT,
         "delimiter"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Digits\"}"), WHERRY_STATUS_BAD_FORMAT, "individual_digits"},
        {PARTS(
             "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],"
             "\"sep\":[\"a\",1]},{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":[\"a\",1]}]}"),
         WHERRY_STATUS_UNSUPPORTED, "twice"},
        {PARTS("\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"Other\"}]}"),
         WHERRY_STATUS_UNSUPPORTED, "post-processor is \"Other\""},
        {PARTS("\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",1],\"sep\":[\"b\",100000]}"),
         WHERRY_STATUS_BAD_FORMAT, "\"sep\" is 100000"},
        {PARTS("\"truncation\":{\"direction\":\"Up\"}"), WHERRY_STATUS_BAD_FORMAT, "direction"},
        {PARTS("\"truncation\":{\"direction\":\"Left\"},\"padding\":{\"strategy\":\"BatchLongest\"}"), WHERRY_STATUS_OK,
         NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_json(cases[i].json, cases[i].status, cases[i].says);
}

/* A list of parts, or a token, that is longer than any model's. */
static void test_too_many(void **state)
{
    enum { SIZE = 20000 };
    char *many = malloc(SIZE), *json = malloc(2 * SIZE);
    (void)state;
    size_t at = 0;
    for (int i = 0; i < 65; i++) at += (size_t)sprintf(many + at, "%s{\"type\":\"NFC\"}", i ? "," : "");
    snprintf(json, 2 * SIZE, PARTS("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s]}"), many);
    check_json(json, WHERRY_STATUS_BAD_FORMAT, "\"normalizers\" is missing or is not a short array");
    memset(many, 'a', 257);
    many[257] = 0;
    snprintf(json, 2 * SIZE, UNIGRAM("", "[\"%s\",-1]"), many);
    check_json(json, WHERRY_STATUS_BAD_FORMAT, "token 0 has 257 characters");
    free(many);
    free(json);
}

/* ---- character maps ---- */

static void base64(const unsigned char *data, size_t size, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        unsigned long group =
            (unsigned long)data[i] << 16 | (i + 1 < size ? data[i + 1] << 8 : 0) | (i + 2 < size ? data[i + 2] : 0);
        for (int k = 0; k < 4; k++) *out++ = i + (size_t)k > size ? '=' : digits[group >> (18 - 6 * k) & 63];
    }
    *out = 0;
}

enum { UNITS = 512, POOL = 2048 };

/* A map of 512 units, in which the root leads to 256 ^ byte, and 'a' to the text at `value` of the pool. */
static size_t make_map(unsigned char *blob, uint32_t a_unit, uint32_t value, const void *pool, size_t pool_bytes)
{
    uint32_t units[1 + UNITS] = {4 * UNITS};
    units[1 + 0] = 256 << 10;
    units[1 + (256 ^ 'a')] = a_unit;
    units[1 + 1] = value | 1u << 31;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        for (int k = 0; k < 4; k++) *blob++ = (unsigned char)(units[i] >> 8 * k);
    if (pool_bytes) memcpy(blob, pool, pool_bytes);
    return sizeof units + pool_bytes;
}

static void check_map(const unsigned char *blob, size_t size, const char *says)
{
    static char json[4 * (UNITS + POOL) * 2], text[4 * (UNITS + POOL) * 2 - 300];
    base64(blob, size, text);
    snprintf(json, sizeof json, PARTS("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}"),
             text);
    check_json(json, WHERRY_STATUS_BAD_FORMAT, says);
}

static void test_bad_maps(void **state)
{
    static unsigned char blob[4 + 4 * UNITS + POOL], pool[POOL];
    const uint32_t good = 'a' | 1 << 8 | (256 ^ 'a' ^ 1) << 10;
    (void)state;
    check_map(blob, make_map(blob, good, 0, "b", 2), NULL);
    check_map(blob, make_map(blob, good, 1, "b", 2), NULL);
    check_map(blob, make_map(blob, good, 2, "b", 2), "beyond its replacements");
    check_map(blob, make_map(blob, good, 0, "b", 1), "has no end");
    check_map(blob, make_map(blob, good, 0, NULL, 0), "beyond its replacements");
    check_map(blob, make_map(blob, good, 1, "\xC3\xA9", 3), "middle of a character");
    check_map(blob, make_map(blob, good, 0, "\xC3", 2), "not valid UTF-8");
    check_map(blob, make_map(blob, 'a' | 1 << 8 | 1u << 20, 0, "b", 2), "not a trie");
    check_map(blob, make_map(blob, 'a' | 1u << 9 | 1u << 30, 0, "b", 2), "not a trie");
    memset(pool, 'b', POOL - 1);
    check_map(blob, make_map(blob, good, 0, pool, POOL), "very long");
    make_map(blob, good, 0, "b", 2);
    check_map(blob, 4 + 4 * UNITS - 1, "shorter than its trie");
    check_map(blob, 3, "it is empty");
    check_map(blob, 0, "it is empty");
    memset(blob, 0, 4);
    check_map(blob, 4, "not a trie");
    check_json(PARTS("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}"),
               WHERRY_STATUS_BAD_FORMAT, "base 64");
    check_json(PARTS("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A=AA\"}"),
               WHERRY_STATUS_BAD_FORMAT, "base 64");
    check_json(PARTS("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAB=\"}"),
               WHERRY_STATUS_BAD_FORMAT, "base 64");
}

/* ---- SentencePiece's file ---- */

static const char xlmr[] = "{\"tokenizer_class\":\"XLMRobertaTokenizerFast\"}";

static void check_model(const void *data, size_t size, const char *config, wherry_status status, const char *says)
{
    struct error e = {0};
    struct tokenizer *t = open_folder("sentencepiece.bpe.model", data, size, config, &e);
    if (!says && !t) fail_msg("%s", e.text);
    if (says && t) fail_msg("opened, and not: %s", says);
    if (says && (e.status != status || !strstr(e.text, says)))
        fail_msg("\"%s\" (%s), expected \"%s\"", e.text, wherry_status_name(e.status), says);
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

/* Four pieces: <unk>, <s>, </s>, "a" of score -1. */
#define PIECES                                                                                                         \
    "\x0A\x07\x0A\x05<unk>\x0A\x05\x0A\x03<s>\x0A\x06\x0A\x04</s>\x0A\x08\x0A\x01"                                     \
    "a\x15\x00\x00\x80\xBF"

static void test_bad_models(void **state)
{
    static const char plain[] = PIECES, bpe[] = PIECES "\x12\x02\x18\x02", other[] = PIECES "\x12\x02\x18\x09",
                      nan[] = PIECES "\x0A\x08\x0A\x01"
                                     "b\x15\x00\x00\xC0\x7F",
                      map[] = PIECES "\x1A\x05\x12\x03xyz",
                      long_field[] = PIECES "\x0A\x7F"
                                            "a",
                      group[] = PIECES "\x0B", zero[] = PIECES "\x02\x01",
                      endless[] = PIECES "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                      unknown_fields[] = PIECES "\x20\x05\x29"
                                                "12345678"
                                                "\x35"
                                                "1234\x3A\x02xx";
    enum { MANY = 1 << 21 };
    (void)state;
    check_model(plain, sizeof plain - 1, xlmr, WHERRY_STATUS_OK, NULL);
    check_model(unknown_fields, sizeof unknown_fields - 1, xlmr, WHERRY_STATUS_OK, NULL);
    check_model(bpe, sizeof bpe - 1, xlmr, WHERRY_STATUS_UNSUPPORTED, "model type is 2");
    check_model(other, sizeof other - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model(nan, sizeof nan - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "the score of token 5 is not finite");
    check_model(map, sizeof map - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "character map is damaged");
    check_model(long_field, sizeof long_field - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model(group, sizeof group - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model(zero, sizeof zero - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model(endless, sizeof endless - 1, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model("", 0, xlmr, WHERRY_STATUS_BAD_FORMAT, "damaged");
    check_model(plain, sizeof plain - 1, NULL, WHERRY_STATUS_UNSUPPORTED, "of an unknown class");
    check_model(plain, sizeof plain - 1, "{\"tokenizer_class\":\"BigBirdTokenizer\"}", WHERRY_STATUS_UNSUPPORTED,
                "\"BigBirdTokenizer\"");
    check_model(plain, sizeof plain - 1, "{\"tokenizer_class\":\"XLMRobertaTokenizer\",\"bos_token\":5}",
                WHERRY_STATUS_BAD_FORMAT, "bos_token");
    check_model(plain, sizeof plain - 1, "{\"tokenizer_class\":\"XLMRobertaTokenizer\",\"truncation_side\":\"up\"}",
                WHERRY_STATUS_BAD_FORMAT, "truncation_side");
    /* Two bytes a piece. */
    char *many = malloc(2 * (MANY + 1));
    for (size_t i = 0; i <= MANY; i++) memcpy(many + 2 * i, "\x0A\x00", 2);
    check_model(many, 2 * (MANY + 1), xlmr, WHERRY_STATUS_BAD_FORMAT, "more than 2097152 pieces");
    free(many);
}

/* Whose the file is says the configuration, or else the caller. */
static void test_whose_model(void **state)
{
    static const struct {
        const char *config, *class_name, *says;
    } cases[] = {
        {NULL, "XLMRobertaTokenizer", NULL},
        {"{}", "CamembertTokenizer", NULL},
        {xlmr, "BigBirdTokenizer", NULL},
        {NULL, "BigBirdTokenizer", "BigBirdTokenizer"},
        {"{\"tokenizer_class\":\"BigBirdTokenizer\"}", "XLMRobertaTokenizer", "BigBirdTokenizer"},
        {NULL, "XLMRobertaTokenizerSlow", "XLMRobertaTokenizerSlow"},
    };
    static const char plain[] = PIECES;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        struct error e = {0};
        folder_open(&folder);
        folder_write(&folder, "sentencepiece.bpe.model", plain, sizeof plain - 1);
        if (cases[i].config) folder_write(&folder, "tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        struct tokenizer *t = tokenizer_open(&host, folder.path, cases[i].class_name, VOCABULARY, &e);
        folder_close(&folder);
        if (!cases[i].says != !!t || (cases[i].says && !strstr(e.text, cases[i].says)))
            fail_msg("case %zu: \"%s\"", i, e.text);
        tokenizer_close(t);
        assert_int_equal(blocks, 0);
    }
}

/* Cut anywhere, or with any byte changed, it opens or is an error. */
static void test_damaged_models(void **state)
{
    size_t size, opened = 0;
    char *data = read_data(TEST_DATA "/tokenizer/xlmr_model/sentencepiece.bpe.model", &size), *copy = malloc(size);
    (void)state;
    for (size_t i = 0; i < 500; i++) {
        struct error e = {0};
        memcpy(copy, data, size);
        size_t at = i * 7919 % size;
        copy[at] = (char)(copy[at] ^ (1 << i % 8));
        struct tokenizer *t = open_folder("sentencepiece.bpe.model", copy, i % 5 ? size : at, xlmr, &e);
        size_t count = 0;
        if (t)
            tokenizer_encode(&host, t, "a\xC3\xA9 \xEF\xBC\xA1\r\n x", 11, NULL, 0, 0, NULL, NULL, &count, &e);
        else
            assert_true(e.status != WHERRY_STATUS_OK && e.text[0]);
        opened += t != NULL;
        tokenizer_close(t);
    }
    assert_in_range(opened, 50, 490);
    free(copy);
    host_free(&host, data);
    assert_int_equal(blocks, 0);
}

/* ---- time and memory ---- */

/* Parts that would make a text endless, one after the other, stop at an error. */
static void test_growth(void **state)
{
    char json[8192];
    size_t at =
        (size_t)sprintf(json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-1],[\"a\",-2]]},"
                              "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    (void)state;
    for (int i = 0; i < 60; i++)
        at += (size_t)sprintf(json + at, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}",
                              i ? "," : "");
    sprintf(json + at, "]}}");
    struct error e = {0};
    struct tokenizer *t = open_json(json, &e);
    if (!t) fail_msg("%s", e.text);
    size_t count = 0;
    assert_true(tokenizer_encode(&host, t, "bcd", 3, NULL, 0, 0, NULL, NULL, &count, &e));
    assert_false(tokenizer_encode(&host, t, "bad", 3, NULL, 0, 0, NULL, NULL, &count, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "64 times as long"));
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

/* A megabyte takes a fraction of a second; the square of it would take hours. */
static void test_linear_time(void **state)
{
    enum { SIZE = 1 << 19 };
    static const char *const folders[] = {"xlmr_model", "fallback", "parts/0", "parts/15", "parts/47", "parts/146"};
    static const char *const texts[] = {"a",
                                        " ",
                                        "a ",
                                        "e\xCC\x81",
                                        "\xCC\x81",
                                        "\r\n",
                                        "\xD8\x80",
                                        "\xE2\x96\x81",
                                        "\xF0\x9F\x87\xA9",
                                        "\xE0\xA4\x95\xE0\xA5\x8D",
                                        "\xE1\x84\x80\xE1\x85\xA1",
                                        "[MASK]",
                                        "aab",
                                        "<mask> "};
    char *text = malloc(SIZE);
    (void)state;
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char path[600];
        struct error e = {0};
        snprintf(path, sizeof path, "%s/tokenizer/%s", TEST_DATA, folders[f]);
        struct tokenizer *t = tokenizer_open(&host, path, NULL, VOCABULARY, &e);
        assert_non_null(t);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            size_t n = strlen(texts[i]), count = 0;
            for (size_t k = 0; k < SIZE; k++) text[k] = texts[i][k % n];
            clock_t start = clock();
            assert_true(tokenizer_encode(&host, t, text, SIZE, NULL, 0, 0, NULL, NULL, &count, &e));
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 5) fail_msg("%s: half a MiB of \"%s\" takes %.1f s", folders[f], texts[i], seconds);
        }
        tokenizer_close(t);
    }
    free(text);
    assert_int_equal(blocks, 0);
}

/* Every allocation fails once: a clean error, and nothing is lost. */
static void check_memory(const char *folder)
{
    char path[600];
    struct error e;
    struct tokenizer *t = NULL;
    snprintf(path, sizeof path, "%s/tokenizer/%s", TEST_DATA, folder);
    for (long n = 0; !t; n++) {
        until_failure = n;
        e = (struct error){0};
        t = tokenizer_open(&host, path, NULL, VOCABULARY, &e);
        until_failure = -1;
        if (t) break;
        assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(blocks, 0);
    }
    long open_blocks = blocks;
    bool ok = false;
    for (long n = 0; !ok; n++) {
        int32_t ids[64];
        wherry_token_place places[64];
        size_t count = 64;
        until_failure = n;
        e = (struct error){0};
        ok = tokenizer_encode_places(&host, t, "one <s> W\xC3\xB6rd e\xCC\x81\xCC\xA3 x", 21, "two", 3, 0, ids, NULL,
                                     places, &count, &e);
        until_failure = -1;
        if (!ok) assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(blocks, open_blocks);
    }
    tokenizer_close(t);
    assert_int_equal(blocks, 0);
}

static void test_out_of_memory(void **state)
{
    static const char *const folders[] = {"xlmr_model", "fallback", "parts/0", "parts/6", "parts/10", "parts/15"};
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) check_memory(folders[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),         cmocka_unit_test(test_bad_parts),  cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_bad_maps),       cmocka_unit_test(test_bad_models), cmocka_unit_test(test_whose_model),
        cmocka_unit_test(test_damaged_models), cmocka_unit_test(test_growth),     cmocka_unit_test(test_linear_time),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
