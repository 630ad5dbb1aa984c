/* Embeddings of the shipped sentences equal sentence-transformers' (tests/golden/), in every plan, type and device.
 *
 * Needs the folder of all-MiniLM-L6-v2 in WHERRY_TEST_MODEL; without it the test is skipped (exit code 77). To save
 * time CPU drivers take every third sentence, in "flash" with f32 through OpenCL and with f16 through Vulkan, and every
 * eighth in "paper" with f16 and in "unfused" with f32; the reference device takes every eighth. WHERRY_TEST_ALL=1
 * takes all everywhere. */
#include "support.h"
#include "wherry/wherry.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SENTENCES = 200, SIZE = 384, MAX_TOKENS = 16384 };

static const char *const plan_names[] = {"flash", "paper", "unfused"};

struct golden {
    wherry_context *context;
    wherry_model *model;
    float want[SENTENCES][SIZE];
    uint32_t offsets[SENTENCES + 1];
    int32_t ids[MAX_TOKENS], types[MAX_TOKENS];
    char devices[SUPPORT_MAX_DEVICES][64];
    size_t n_devices;
} golden;

/* The data of a version 1.0 .npy file of little-endian float32 [SENTENCES, SIZE]. */
static void read_vectors(const char *path)
{
    unsigned char start[10];
    char header[512];
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s can't be opened", path);
    assert_int_equal(fread(start, 1, 10, f), 10);
    assert_memory_equal(start, "\x93NUMPY\x01\x00", 8);
    size_t length = start[8] | (size_t)start[9] << 8;
    assert_in_range(length, 1, sizeof header - 1);
    assert_int_equal(fread(header, 1, length, f), length);
    header[length] = 0;
    assert_non_null(strstr(header, "'<f4'"));
    assert_non_null(strstr(header, "(200, 384)"));
    assert_int_equal(fread(golden.want, sizeof(float), SENTENCES * SIZE, f), SENTENCES * SIZE);
    fclose(f);
}

/* The places of a sentence's tokens: between [CLS] and [SEP] they go from its first byte to its last, in
 * order. */
static void check_places(const char *line, size_t bytes, const int32_t *ids, size_t count)
{
    static wherry_token_place places[MAX_TOKENS];
    static int32_t again[MAX_TOKENS];
    size_t placed = MAX_TOKENS;
    assert_int_equal(
        wherry_tokenize_places(golden.context, golden.model, line, bytes, NULL, 0, 0, again, NULL, places, &placed),
        WHERRY_STATUS_OK);
    assert_int_equal(placed, count);
    assert_memory_equal(again, ids, count * sizeof *ids);
    assert_true(count > 2 && places[0].text == -1 && places[count - 1].text == -1);
    assert_int_equal(places[1].first, 0);
    bool ascii = true; /* else the last character may be a mark, which is dropped */
    for (size_t i = 0; i < bytes; i++) ascii = ascii && (unsigned char)line[i] < 0x80;
    assert_true(places[count - 2].end <= bytes && (!ascii || places[count - 2].end == bytes));
    for (size_t i = 1; i + 1 < count; i++) {
        assert_true(places[i].text == 0 && places[i].first < places[i].end);
        assert_true(i == 1 || places[i].first >= places[i - 1].first); /* parts of a syllable of Hangul share a place */
    }
}

static void read_sentences(const char *path)
{
    static char line[65536];
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s can't be opened", path);
    int n = 0;
    for (; fgets(line, sizeof line, f); n++) {
        assert_true(n < SENTENCES);
        size_t bytes = strcspn(line, "\n"), count = MAX_TOKENS - golden.offsets[n];
        wherry_status status =
            wherry_tokenize(golden.context, golden.model, line, bytes, NULL, 0, 0, golden.ids + golden.offsets[n],
                            golden.types + golden.offsets[n], &count);
        if (status) fail_msg("sentence %d: %s", n, wherry_last_error(golden.context));
        check_places(line, bytes, golden.ids + golden.offsets[n], count);
        golden.offsets[n + 1] = golden.offsets[n] + (uint32_t)count;
    }
    assert_int_equal(n, SENTENCES);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    if (wherry_model_open(golden.context, getenv("WHERRY_TEST_MODEL"), &golden.model))
        fail_msg("%s", wherry_last_error(golden.context));
    read_vectors(TEST_DATA "/../golden/minilm.npy");
    read_sentences(TEST_DATA "/../../data/sentences.txt");
    golden.n_devices = support_devices(golden.context, golden.devices);
    return golden.n_devices == 0;
}

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < SIZE; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Embeds every `step`-th sentence in batches of at most 4096 tokens; got[i] is that of sentence i. */
static void embed(wherry_session *session, uint32_t step, float got[SENTENCES][SIZE])
{
    static float rows[SENTENCES][SIZE];
    static int32_t ids[4096], types[4096];
    for (uint32_t first = 0; first < SENTENCES;) {
        uint32_t next = first, n = 0, offsets[SENTENCES + 1] = {0};
        for (; next < SENTENCES; next += step) {
            uint32_t at = golden.offsets[next], tokens = golden.offsets[next + 1] - at;
            if (offsets[n] + tokens > 4096) break;
            memcpy(ids + offsets[n], golden.ids + at, tokens * sizeof *ids);
            memcpy(types + offsets[n], golden.types + at, tokens * sizeof *types);
            offsets[n + 1] = offsets[n] + tokens;
            n++;
        }
        const wherry_batch batch = {sizeof batch, n, offsets, ids, types};
        if (wherry_encode(session, &batch, rows[0], sizeof rows / sizeof(float)))
            fail_msg("%s", wherry_last_error(golden.context));
        for (uint32_t i = 0; i < n; i++) memcpy(got[first + i * step], rows[i], sizeof rows[i]);
        first = next;
    }
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const type_names[] = {"", "f32", "f16", "bf16"};
    static float got[SENTENCES][SIZE];
    bool all = getenv("WHERRY_TEST_ALL") != NULL, interpreted = getenv("WHERRY_TEST_FEW") != NULL;
    for (size_t d = 0; d < golden.n_devices; d++)
        for (size_t p = 0; p < 3; p++)
            for (wherry_dtype t = WHERRY_DTYPE_F32; t <= WHERRY_DTYPE_BF16; t++) {
                bool reference = !strcmp(golden.devices[d], "reference");
                if (reference && (p || t != WHERRY_DTYPE_F32)) continue; /* its plans run the same operators */
                bool cpu = !all && !reference && !support_is_gpu(golden.context, golden.devices[d]);
                bool opencl = !strncmp(golden.devices[d], "opencl", 6), host = !strcmp(golden.devices[d], "cpu");
                if (t == WHERRY_DTYPE_F16 && !support_has_f16(golden.context, golden.devices[d])) continue;
                if (t == WHERRY_DTYPE_BF16 && !support_has_bf16(golden.context, golden.devices[d])) continue;
                if (host) cpu = false; /* it compiles nothing, and takes all */
                if (cpu && (p || t == (opencl ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32))) continue;
                if (interpreted && p) continue;
                bool few = !all && reference;
                uint32_t step = interpreted ? 40 : few ? 8 : cpu ? 3 : 1;
                wherry_device *device;
                wherry_session *session;
                const wherry_session_desc desc = {.struct_size = sizeof desc,
                                                  .max_tokens = 4096,
                                                  .plan = plan_names[p],
                                                  .dtype = t,
                                                  .kernels = t == WHERRY_DTYPE_F32 ? support_kernels(golden.devices[d])
                                                                                   : NULL};
                if (wherry_device_open(golden.context, golden.devices[d], &device) ||
                    wherry_session_create(golden.context, device, golden.model, &desc, &session))
                    fail_msg("%s: %s", golden.devices[d], wherry_last_error(golden.context));
                embed(session, step, got);
                double worst = 1, least = t == WHERRY_DTYPE_F32 ? 0.99999 : t == WHERRY_DTYPE_F16 ? 0.9999 : 0.9998;
                for (uint32_t i = 0; i < SENTENCES; i += step) {
                    double c = cosine(got[i], golden.want[i]);
                    if (!(c >= least))
                        fail_msg("%s %s %s: sentence %u has cosine %.7f", golden.devices[d], plan_names[p],
                                 type_names[t], i, c);
                    worst = c < worst ? c : worst;
                }
                printf("%s %s %s: %u sentences, smallest cosine %.8f\n", golden.devices[d], plan_names[p],
                       type_names[t], SENTENCES / step, worst);
                wherry_session_destroy(session);
                wherry_device_close(device);
            }
}

static int teardown(void **state)
{
    (void)state;
    wherry_model_close(golden.model);
    return 0;
}

int main(void)
{
    const char *folder = getenv("WHERRY_TEST_MODEL");
    if (!folder || !*folder) {
        fprintf(stderr,
                "skipped: WHERRY_TEST_MODEL does not name the folder of all-MiniLM-L6-v2 (scripts/model.sh gets it)\n");
        return 77;
    }
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    if (wherry_context_create(&desc, &golden.context)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    wherry_context_destroy(golden.context);
    return failed;
}
