/* Weights that sessions of a device have in common: planned once, copied once, and the same vectors as of one's own. */
#include "runtime/session.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static wherry_context *context;

enum { VOCABULARY = 4000, HIDDEN = 64, TOKENS = 400, SEQUENCES = 3 };

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* ---- a device and a model ---- */

struct setup {
    wherry_device *device;
    wherry_model *model;
    const struct backend *backend; /* the device's own */
    struct backend counting;       /* in its place */
};

static uint64_t written; /* bytes, by buffer_write */
static const struct backend *counted;

static bool count_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                        uint64_t bytes, struct error *e)
{
    written += bytes;
    return counted->buffer_write(device, buffer, offset, data, bytes, e);
}

static wherry_model *model_make(uint64_t seed)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 136,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2,
                                        .pooler = true};
    wherry_model *model;
    OK(wherry_model_create_random(context, &config, seed, &model));
    return model;
}

/* Copies are counted, and none goes around that. */
static struct setup setup_make(const char *id)
{
    struct setup s;
    OK(wherry_device_open(context, id, &s.device));
    s.model = model_make(3);
    s.backend = counted = s.device->backend;
    return s;
}

static void setup_count(struct setup *s)
{
    s->counting = *s->backend;
    s->counting.buffer_write = count_write;
    s->counting.buffer_bytes = NULL;
    s->device->backend = &s->counting;
}

static void setup_free(struct setup *s)
{
    s->device->backend = s->backend;
    wherry_model_close(s->model);
    assert_null(s->device->weights.arenas);
    wherry_device_close(s->device);
}

static wherry_session *session_make(const struct setup *s, wherry_session_desc desc)
{
    wherry_session *session;
    desc.struct_size = sizeof desc;
    if (!desc.max_tokens) desc.max_tokens = TOKENS;
    if (!desc.dtype) desc.dtype = WHERRY_DTYPE_F32;
    desc.kernels = support_kernels(s->device->info.id);
    OK(wherry_session_create(context, s->device, s->model, &desc, &session));
    return session;
}

static wherry_session_plan plan_of(const wherry_session *session)
{
    wherry_session_plan plan = {.struct_size = sizeof plan};
    OK(wherry_session_query(session, &plan));
    return plan;
}

static void encode(wherry_session *session, float out[SEQUENCES * HIDDEN])
{
    const uint32_t lengths[] = {9, 40, 2, 0};
    wherry_batch batch = support_batch(lengths, VOCABULARY, 2, 5);
    OK(wherry_encode(session, &batch, out, SEQUENCES * HIDDEN));
    support_batch_free(&batch);
}

static uint64_t device_bytes(const struct setup *s) { return s->backend->allocated(s->device->handle); }

/* ---- what is shared ---- */

/* Two sessions have the weights once, whichever is destroyed first. */
static void test_two_sessions(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        setup_count(&s);
        float alone[SEQUENCES * HIDDEN], first[SEQUENCES * HIDDEN], second[SEQUENCES * HIDDEN];
        uint64_t before = device_bytes(&s);
        wherry_session *a = session_make(&s, (wherry_session_desc){0});
        wherry_session_plan own = plan_of(a);
        assert_int_equal(own.shared_bytes, 0);
        encode(a, alone);
        uint64_t one = device_bytes(&s) - before;
        wherry_session *b = session_make(&s, (wherry_session_desc){.max_tokens = TOKENS / 2});
        wherry_session_plan smaller = plan_of(b);
        assert_true(smaller.shared_bytes > 0 && smaller.shared_bytes == plan_of(a).shared_bytes);
        assert_in_range(smaller.weight_bytes, smaller.shared_bytes, own.weight_bytes);
        assert_in_range(own.weight_bytes - smaller.shared_bytes, 0, MEMORY_ROUND); /* all of them */
        written = 0;
        encode(b, second);
        assert_in_range(written, 0, own.weight_bytes / 2); /* a probe at most */
        uint64_t both = device_bytes(&s) - before;
        assert_in_range(both, one, one + smaller.activation_bytes + 16 * MEMORY_ROUND);
        assert_memory_equal(alone, second, sizeof alone);
        wherry_session_destroy(a);
        assert_int_equal(plan_of(b).shared_bytes, 0);
        encode(b, second);
        assert_memory_equal(alone, second, sizeof alone);
        a = session_make(&s, (wherry_session_desc){0});
        wherry_session_destroy(b); /* before a is prepared: weights go, and are copied again */
        assert_int_equal(device_bytes(&s), before);
        encode(a, first);
        assert_memory_equal(alone, first, sizeof alone);
        wherry_session_destroy(a);
        assert_int_equal(device_bytes(&s), before);
        setup_free(&s);
    }
}

/* A tensor in another order, one that only one of them reads, and all of another type or model are the session's own;
 * the rest is shared. */
static void test_parts(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        float want[2][SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        const wherry_session_desc other[] = {{.layouts = "w_lin1=iu"}, {.pool = WHERRY_POOL_POOLER}};
        const uint64_t of_other[] = {2 * 136 * HIDDEN * sizeof(float), (HIDDEN + 1) * HIDDEN * sizeof(float)};
        for (int i = 0; i < 2; i++) {
            wherry_session *alone = session_make(&s, other[i]);
            encode(alone, want[i]);
            wherry_session_destroy(alone);
        }
        wherry_session *a = session_make(&s, (wherry_session_desc){0});
        encode(a, got);
        for (int i = 0; i < 2; i++) {
            wherry_session *b = session_make(&s, other[i]);
            wherry_session_plan plan = plan_of(b);
            assert_true(plan.shared_bytes > VOCABULARY * HIDDEN * sizeof(float));
            assert_true(plan.weight_bytes - plan.shared_bytes >= of_other[i] &&
                        plan.weight_bytes - plan.shared_bytes < of_other[i] + 2 * MEMORY_ROUND);
            encode(b, got);
            assert_memory_equal(want[i], got, sizeof got);
            wherry_session_destroy(b);
        }
        wherry_device_limits limits = {.struct_size = sizeof limits};
        OK(wherry_device_query(s.device, &limits));
        if (limits.f16) {
            wherry_session *b = session_make(&s, (wherry_session_desc){.dtype = WHERRY_DTYPE_F16});
            assert_int_equal(plan_of(b).shared_bytes, 0);
            wherry_session_destroy(b);
        }
        struct setup same = s;
        same.model = model_make(3);
        wherry_session *b = session_make(&same, (wherry_session_desc){0});
        assert_int_equal(plan_of(b).shared_bytes, 0);
        wherry_session_destroy(b);
        wherry_model_close(same.model);
        wherry_session_destroy(a);
        setup_free(&s);
    }
}

/* What writes to memory has its own. */
static void test_own(void **state)
{
    (void)state;
    const wherry_training_desc training = {.struct_size = sizeof training};
    const wherry_session_desc own[] = {{.training = &training}, {.keep_intermediates = true}, {.only = "lin1"}};
    struct setup s = setup_make(devices[0]);
    wherry_session *a = session_make(&s, (wherry_session_desc){0});
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        wherry_session *b = session_make(&s, own[i]);
        assert_int_equal(plan_of(b).shared_bytes, 0);
        wherry_session_destroy(b);
    }
    wherry_session_destroy(a);
    setup_free(&s);
}

/* Of a later session, a budget is for what it has besides. */
static void test_budget(void **state)
{
    (void)state;
    struct setup s = setup_make(devices[0]);
    wherry_session *a = session_make(&s, (wherry_session_desc){0}), *b = NULL;
    wherry_session_plan plan = plan_of(a);
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = TOKENS,
                                .dtype = WHERRY_DTYPE_F32,
                                .kernels = support_kernels(devices[0]),
                                .memory_budget = plan.device_bytes - plan.weight_bytes};
    OK(wherry_session_create(context, s.device, s.model, &desc, &b));
    wherry_session_destroy(b);
    desc.memory_budget--;
    assert_int_equal(wherry_session_create(context, s.device, s.model, &desc, &b), WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(wherry_last_error(context), "beside the weights that other sessions have"));
    wherry_session_destroy(a);
    desc.memory_budget++;
    assert_int_equal(wherry_session_create(context, s.device, s.model, &desc, &b), WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    setup_free(&s);
}

/* A copy that fails or is cancelled leaves nothing that another session would take for weights. */
static bool cancel(const char *what, size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    return strcmp(what, "weights") != 0;
}

static void test_cancelled(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        float want[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        uint64_t before = device_bytes(&s);
        wherry_session *a = session_make(&s, (wherry_session_desc){0}), *b = session_make(&s, (wherry_session_desc){0});
        assert_int_equal(wherry_session_prepare(a, cancel, NULL, NULL), WHERRY_STATUS_CANCELLED);
        assert_int_equal(device_bytes(&s), before);
        encode(b, got);
        encode(a, want);
        assert_memory_equal(want, got, sizeof got);
        wherry_session_destroy(a);
        wherry_session_destroy(b);
        setup_free(&s);
    }
}

/* ---- memory that is given back, and bounds of it ---- */

static wherry_device_memory_info memory_of(const struct setup *s)
{
    wherry_device_memory_info info = {.struct_size = sizeof info};
    OK(wherry_device_memory(s->device, &info));
    return info;
}

/* A released session has nothing on the device, and gives the same afterwards, by itself. */
static void test_release(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        float want[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        uint64_t before = memory_of(&s).used_bytes;
        wherry_session *a = session_make(&s, (wherry_session_desc){0}), *b = session_make(&s, (wherry_session_desc){0});
        OK(wherry_session_release(a)); /* which has nothing */
        encode(a, want);
        uint64_t one = memory_of(&s).used_bytes;
        encode(b, got);
        uint64_t two = memory_of(&s).used_bytes;
        OK(wherry_session_release(a));
        assert_int_equal(memory_of(&s).used_bytes, one);
        assert_true(one < two && two - one < plan_of(a).weight_bytes);
        encode(b, got);
        assert_memory_equal(got, want, sizeof got);
        OK(wherry_session_release(b));
        assert_int_equal(memory_of(&s).used_bytes, before);
        encode(a, got);
        assert_memory_equal(got, want, sizeof got);
        OK(wherry_session_prepare(b, NULL, NULL, NULL));
        assert_int_equal(memory_of(&s).used_bytes, two);
        OK(wherry_session_release(b));
        wherry_session_destroy(b);
        wherry_session_destroy(a);
        setup_free(&s);
    }
    assert_int_equal(wherry_session_release(NULL), WHERRY_STATUS_INVALID_ARGUMENT);
}

/* A training session's passes begin again. */
static void test_release_training(void **state)
{
    (void)state;
    const wherry_training_desc training = {.struct_size = sizeof training};
    if (strchr(devices[0], ':')) return; /* a driver, which would compile for long; it is not the device's matter */
    struct setup s = setup_make(devices[0]);
    wherry_session *a = session_make(&s, (wherry_session_desc){.training = &training});
    const uint32_t lengths[] = {9, 40, 2, 0};
    wherry_batch batch = support_batch(lengths, VOCABULARY, 2, 5);
    float out[SEQUENCES * HIDDEN], again[SEQUENCES * HIDDEN];
    OK(wherry_forward(a, &batch, NULL, NULL, out, SEQUENCES * HIDDEN));
    OK(wherry_session_release(a));
    assert_int_equal(wherry_backward(a, out, SEQUENCES * HIDDEN, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_gradient_read(a, 0, out, SEQUENCES * HIDDEN), WHERRY_STATUS_INVALID_ARGUMENT);
    OK(wherry_forward(a, &batch, NULL, NULL, again, SEQUENCES * HIDDEN));
    assert_memory_equal(out, again, sizeof out);
    OK(wherry_backward(a, out, SEQUENCES * HIDDEN, NULL, 0));
    support_batch_free(&batch);
    wherry_session_destroy(a);
    setup_free(&s);
}

static void expect_no_room(wherry_session *session, const char *const says[])
{
    assert_int_equal(wherry_session_prepare(session, NULL, NULL, NULL), WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    for (; *says; says++)
        if (!strstr(wherry_last_error(context), *says)) fail_msg("no \"%s\" in %s", *says, wherry_last_error(context));
}

/* What does not fit says so with the numbers, before anything is made; what is there goes on. */
static void test_limit(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        float want[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        wherry_session *a = session_make(&s, (wherry_session_desc){0}),
                       *b = session_make(&s, (wherry_session_desc){.max_tokens = TOKENS / 2});
        encode(a, want);
        wherry_session_plan plan = plan_of(b);
        char limit[64], needs[64], used[64];
        uint64_t has = memory_of(&s).used_bytes, more = plan.device_bytes - plan.weight_bytes;
        OK(wherry_device_limit_memory(s.device, has + more - 1));
        assert_int_equal(memory_of(&s).limit_bytes, has + more - 1);
        snprintf(limit, sizeof limit, "the limit is %llu", (unsigned long long)(has + more - 1));
        snprintf(needs, sizeof needs, "needs %llu bytes", (unsigned long long)more);
        snprintf(used, sizeof used, "beside %llu in use", (unsigned long long)has);
        expect_no_room(b, (const char *const[]){needs, used, limit, "wherry_session_release", NULL});
        assert_int_equal(memory_of(&s).used_bytes, has);
        encode(a, got); /* also below the limit that it has outgrown */
        OK(wherry_device_limit_memory(s.device, 1));
        encode(a, got);
        assert_memory_equal(want, got, sizeof got);
        OK(wherry_device_limit_memory(s.device, has + more));
        encode(b, got);
        assert_memory_equal(want, got, sizeof got);
        OK(wherry_device_limit_memory(s.device, has + more - 1));
        OK(wherry_session_release(a));
        OK(wherry_session_release(b));
        encode(b, got);
        assert_memory_equal(want, got, sizeof got);
        wherry_session_destroy(a);
        wherry_session_destroy(b);
        setup_free(&s);
    }
}

static uint64_t driver_gives, driver_used;

static bool fake_budget(struct backend_device *device, uint64_t *bytes, uint64_t *in_use)
{
    (void)device;
    *bytes = driver_gives;
    *in_use = driver_used;
    return true;
}

/* The driver's word changes while sessions are there. */
static void test_driver_budget(void **state)
{
    (void)state;
    struct setup s = setup_make(devices[0]);
    setup_count(&s);
    s.counting.budget = fake_budget;
    float out[SEQUENCES * HIDDEN];
    wherry_session *a = session_make(&s, (wherry_session_desc){0});
    driver_gives = plan_of(a).device_bytes + 1000;
    driver_used = 1000;
    encode(a, out);
    OK(wherry_session_release(a));
    driver_gives = 5000;
    assert_true(memory_of(&s).budget_bytes == 5000 && memory_of(&s).process_bytes == 1000);
    expect_no_room(a,
                   (const char *const[]){"of the 5000 that the driver gives this process now 1000 are in use", NULL});
    driver_used = 6000; /* more than it gives by now */
    expect_no_room(a, (const char *const[]){"now 6000 are in use", NULL});
    driver_gives = UINT64_MAX;
    encode(a, out);
    wherry_session_destroy(a);
    setup_free(&s);
    assert_int_equal(wherry_device_memory(NULL, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_device_limit_memory(NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
}

/* Of batches of random lengths nothing stays, on the device or the host (scripts/flat.sh runs many more). */
static size_t live;

static void *count_alloc(size_t size, void *user)
{
    (void)user;
    live++;
    return malloc(size);
}

static void count_free(void *pointer, void *user)
{
    (void)user;
    live--;
    free(pointer);
}

static void test_flat(void **state)
{
    (void)state;
    const char *given = getenv("WHERRY_TEST_BATCHES");
    const unsigned long batches = given ? strtoul(given, NULL, 10) : 100;
    wherry_context *before = context;
    const wherry_context_desc desc = {.struct_size = sizeof desc,
                                      .alloc = count_alloc,
                                      .free = count_free,
                                      .cache_dir = getenv("WHERRY_TEST_CACHE"),
                                      .unoptimized =
                                          support_unoptimized(context, (const char(*)[64])devices, n_devices)};
    OK(wherry_context_create(&desc, &context));
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(devices[d]);
        wherry_session *session = session_make(&s, (wherry_session_desc){.max_sequences = SEQUENCES});
        float out[SEQUENCES * HIDDEN];
        uint64_t seed = 1;
        encode(session, out);
        const size_t live_before = live;
        const uint64_t used = memory_of(&s).used_bytes;
        for (unsigned long i = 0; i < batches; i++) {
            uint32_t lengths[SEQUENCES + 1] = {0}, n = 1 + support_random(&seed) % SEQUENCES;
            for (uint32_t k = 0; k < n; k++) lengths[k] = 1 + support_random(&seed) % (TOKENS / SEQUENCES - 10);
            wherry_batch batch = support_batch(lengths, VOCABULARY, 2, seed);
            OK(wherry_encode(session, &batch, out, SEQUENCES * HIDDEN));
            support_batch_free(&batch);
        }
        assert_int_equal(live, live_before);
        assert_int_equal(memory_of(&s).used_bytes, used);
        wherry_session_destroy(session);
        setup_free(&s);
    }
    wherry_context_destroy(context);
    assert_int_equal(live, 0);
    context = before;
}

int main(void)
{
    if (!(context = support_context(NULL, devices, &n_devices))) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sessions),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_release_training),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_driver_budget),
        cmocka_unit_test(test_flat),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
