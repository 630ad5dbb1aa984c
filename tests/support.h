/* What several test programs need: memory, the devices to test on, and random batches. */
#ifndef WHERRY_TESTS_SUPPORT_H
#define WHERRY_TESTS_SUPPORT_H

#include "base/host.h"
#include "base/platform.h"
#include "wherry/wherry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUPPORT_MAX_DEVICES = 16 };

static inline void *support_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static inline void support_free(void *pointer, void *user)
{
    (void)user;
    free(pointer);
}

/* For tests below the public calls. */
static const struct host support_host = {.alloc = support_alloc, .free = support_free};

/* The session's kernels for this device: what WHERRY_TEST_KERNELS names, on the host's cores alone. */
static inline const char *support_kernels(const char *device)
{
    const char *given = getenv("WHERRY_TEST_KERNELS");
    return given && *given && !strcmp(device, "cpu") ? given : NULL;
}

/* Ends the program as skipped where there are none of the kernels that WHERRY_TEST_KERNELS names. */
static inline void support_kernels_check(void)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 8,
                                        .heads = 1,
                                        .feed_forward = 8,
                                        .vocabulary = 8,
                                        .positions = 8,
                                        .token_types = 1};
    const wherry_session_desc session_desc = {
        .struct_size = sizeof session_desc, .max_tokens = 8, .kernels = support_kernels("cpu")};
    wherry_context *context;
    wherry_device *device = NULL;
    wherry_model *model = NULL;
    wherry_session *session = NULL;
    if (!session_desc.kernels || wherry_context_create(&desc, &context)) return;
    wherry_status status = wherry_device_open(context, "cpu", &device);
    if (!status) status = wherry_model_create_random(context, &config, 1, &model);
    if (!status) status = wherry_session_create(context, device, model, &session_desc, &session);
    if (!status) status = wherry_session_prepare(session, NULL, NULL, NULL);
    if (status) {
        printf("skipped: %s\n", wherry_last_error(context));
        exit(status == WHERRY_STATUS_UNSUPPORTED ? 77 : 1);
    }
    wherry_session_destroy(session);
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
}

/* Ids of the devices in WHERRY_TEST_DEVICES (separated by spaces), else of every usable one; where WHERRY_TEST_API is
 * set, of that API alone ("vulkan", "opencl", "cpu", "reference"), and without any the program ends as skipped. Returns
 * their number. */
static inline size_t support_devices(wherry_context *context, char ids[SUPPORT_MAX_DEVICES][64])
{
    const char *given = getenv("WHERRY_TEST_DEVICES"), *api = getenv("WHERRY_TEST_API");
    wherry_device_info infos[SUPPORT_MAX_DEVICES];
    size_t n = 0, left = 0, count = SUPPORT_MAX_DEVICES;
    support_kernels_check();
    if (given && *given) {
        for (const char *at = given; *at && n < SUPPORT_MAX_DEVICES;) {
            size_t length = strcspn(at, " ");
            if (length && length < 64) {
                memcpy(ids[n], at, length);
                ids[n++][length] = 0;
            }
            at += length + strspn(at + length, " ");
        }
    } else {
        if (wherry_device_list(context, infos, &count)) return 0;
        for (size_t i = 0; i < count && i < SUPPORT_MAX_DEVICES; i++)
            if (infos[i].usable) snprintf(ids[n++], 64, "%s", infos[i].id);
    }
    if (!api || !*api) return n;
    for (size_t i = 0; i < n; i++)
        if (strcspn(ids[i], ":") == strlen(api) && !strncmp(ids[i], api, strlen(api))) memmove(ids[left++], ids[i], 64);
    if (left) return left;
    printf("skipped: no device of the API %s to test\n", api);
    exit(77);
}

/* Whether the case of this number is of the share that WHERRY_TEST_SHARE asks for: "2/3" is the second of three. */
static inline bool support_share(size_t number)
{
    const char *given = getenv("WHERRY_TEST_SHARE");
    char *slash = NULL;
    size_t share = given ? strtoul(given, &slash, 10) : 1,
           shares = given && *slash == '/' ? strtoul(slash + 1, NULL, 10) : 1;
    if (!share || share > shares) {
        fprintf(stderr, "WHERRY_TEST_SHARE is %s: it must be like 2/3\n", given);
        exit(1);
    }
    return number % shares == share - 1;
}

/* Whether this device, by any name that wherry_device_open takes, is another processor than the host's. */
static inline bool support_is_gpu(wherry_context *context, const char *id)
{
    wherry_device *device;
    wherry_device_info info = {.type = WHERRY_DEVICE_CPU};
    if (wherry_device_open(context, id, &device)) return false;
    wherry_device_describe(device, &info);
    wherry_device_close(device);
    return info.type != WHERRY_DEVICE_CPU;
}

/* Whether the device takes sessions of 16-bit floats; on "cpu" and where a driver lacks them those cases are left out.
 */
static inline wherry_device_limits support_limits(wherry_context *context, const char *id)
{
    wherry_device *device;
    wherry_device_limits limits = {.struct_size = sizeof limits};
    if (wherry_device_open(context, id, &device)) return limits;
    wherry_device_query(device, &limits);
    wherry_device_close(device);
    return limits;
}

static inline bool support_has_f16(wherry_context *context, const char *id) { return support_limits(context, id).f16; }

static inline bool support_has_bf16(wherry_context *context, const char *id)
{
    return support_limits(context, id).bf16;
}

/* Whether kernels are compiled for the tests alone: see support_context. */
static inline bool support_unoptimized(wherry_context *context, const char (*ids)[64], size_t n_devices)
{
    bool optimized = getenv("WHERRY_TEST_FEW");
    for (size_t d = 0; d < n_devices && !optimized; d++) optimized = support_is_gpu(context, ids[d]);
    return !optimized;
}

/* A context as the environment says, and the devices to test on. Where none of them is a GPU, OpenCL kernels are
 * compiled without optimization: PoCL takes a tenth of the time, and it is the kernels that are tested. test_golden and
 * the command's tests have them optimized. Oclgrind interprets what the compiler leaves, so there they are optimized,
 * too. */
static inline wherry_context *support_context(void (*log)(wherry_log_level level, const char *text, void *user),
                                              char ids[SUPPORT_MAX_DEVICES][64], size_t *n_devices)
{
    wherry_context_desc desc = {
        .struct_size = sizeof desc, .log = log, .cache_dir = getenv("WHERRY_TEST_CACHE"), .unoptimized = true};
    wherry_context *context;
    if (wherry_context_create(&desc, &context)) return NULL;
    *n_devices = support_devices(context, ids);
    if (support_unoptimized(context, (const char(*)[64])ids, *n_devices)) return context;
    wherry_context_destroy(context);
    desc.unoptimized = false;
    return wherry_context_create(&desc, &context) ? NULL : context;
}

/* Where a test that writes tunings keeps its files: beside the kernels that tests share, one for each API, since the
 * entries of several may run at the same time. */
static inline void support_folder(const char *test, char *folder, size_t size)
{
    const char *cache = getenv("WHERRY_TEST_CACHE"), *temporary = getenv("TMPDIR"), *api = getenv("WHERRY_TEST_API");
    snprintf(folder, size, "%s/%s%s%s%s",
             cache       ? cache
             : temporary ? temporary
                         : "/tmp",
             cache ? "" : "wherry-test-", test, api ? "-" : "", api ? api : "");
}

/* A context for a test that tunes, whose cache is a folder of its own (support_folder): what other tests' sessions find
 * there must not be tuned. NULL where there is none. */
static inline wherry_context *support_tuning_context(const char *test, char *folder, size_t size,
                                                     char ids[SUPPORT_MAX_DEVICES][64], size_t *n_devices)
{
    struct error e;
    wherry_context *context;
    support_folder(test, folder, size);
    wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = folder};
    if (!folder_make(folder, &e) || !(context = support_context(NULL, ids, n_devices))) return NULL;
    desc.unoptimized = support_unoptimized(context, (const char(*)[64])ids, *n_devices);
    wherry_context_destroy(context);
    return wherry_context_create(&desc, &context) ? NULL : context;
}

/* Whether a list of words, which may be NULL, has one. */
static inline bool support_has_word(const char *words, const char *word)
{
    char list[512], one[64];
    snprintf(list, sizeof list, " %s ", words ? words : "");
    snprintf(one, sizeof one, " %s ", word);
    return strstr(list, one) != NULL;
}

/* To standard error, what is more than progress. */
static inline void support_log(wherry_log_level level, const char *text, void *user)
{
    (void)user;
    if (level <= WHERRY_LOG_WARNING) fprintf(stderr, "    log: %s\n", text);
}

/* What is wrong with a group, where something is; `name` is the test's. */
static inline void support_print_failure(const char *name, const wherry_verify_result *r)
{
    if (!r->passed)
        printf("    %s: %s (%s): nmse %.3g (at most %.3g), largest error %.3g, %llu of %llu not finite, guards %s\n",
               name, r->name, r->kernel, r->nmse, r->tolerance, r->max_error, (unsigned long long)r->not_finite,
               (unsigned long long)r->values, r->guards_intact ? "intact" : "overwritten");
}

/* A small generator with a fixed seed, so that a failure can be seen again. */
static inline uint32_t support_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Batch of the given lengths (0 ends the list) with random ids and types, labels of every third token, and of all
 * sequences but the second. Free with support_batch_free. */
static inline wherry_batch support_batch(const uint32_t *lengths, uint32_t vocabulary, uint32_t types, uint64_t seed)
{
    uint32_t n = 0, tokens = 0;
    while (lengths[n]) tokens += lengths[n++];
    uint32_t *offsets = calloc((size_t)n + 1, sizeof *offsets);
    int32_t *ids = calloc(3 * (size_t)tokens + n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) offsets[i + 1] = offsets[i] + lengths[i];
    for (uint32_t i = 0; i < n; i++) ids[3 * tokens + i] = i == 1 ? -100 : i % 2 == 0;
    for (uint32_t t = 0; t < tokens; t++) {
        ids[t] = (int32_t)(support_random(&seed) % vocabulary);
        ids[tokens + t] = types ? (int32_t)(support_random(&seed) % types) : 0;
        ids[2 * tokens + t] = t % 3 ? -100 : (int32_t)((t * 41 + 7) % vocabulary); /* without a draw of their own */
    }
    return (wherry_batch){.struct_size = sizeof(wherry_batch),
                          .sequences = n,
                          .offsets = offsets,
                          .ids = ids,
                          .types = types ? ids + tokens : NULL,
                          .labels = ids + 2 * tokens,
                          .next = ids + 3 * tokens};
}

/* Other ids and types: no row of a table is named twice, of `vocabulary` (no multiple of 37) while tokens are fewer. Q
 * has as many rows as a batch of this size can name. */
static inline void support_batch_spread(wherry_batch *batch, uint32_t vocabulary, uint32_t types)
{
    for (uint32_t t = 0; t < batch->offsets[batch->sequences]; t++) {
        ((int32_t *)(uintptr_t)batch->ids)[t] = (int32_t)(t * 37 % vocabulary);
        ((int32_t *)(uintptr_t)batch->types)[t] = (int32_t)(t % types);
    }
}

static inline void support_batch_free(wherry_batch *batch)
{
    free((void *)batch->offsets);
    free((void *)batch->ids);
}

#endif
