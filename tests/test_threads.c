/* One context and one device for several threads, each with sessions of its own: results are those of a thread alone,
 * bit for bit, and each thread has its own errors. Built with -fsanitize=thread too (scripts/threads.sh). */
#include "support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { THREADS_MOST = 4, BATCHES = 6, SEQUENCES = 5, HIDDEN = 64, VOCABULARY = 97, TOKENS = 200, ROUNDS = 12 };

static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static wherry_context *context;

static wherry_model *model_make(void)
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
    wherry_model *model = NULL;
    assert_int_equal(wherry_model_create_random(context, &config, 3, &model), WHERRY_STATUS_OK);
    return model;
}

/* ---- what every thread does ---- */

struct shared {
    wherry_device *device;
    const wherry_model *model;
    const char *name;
    wherry_batch batches[BATCHES];
    float want[BATCHES][SEQUENCES * HIDDEN];
};

struct thread {
    const struct shared *of;
    int number;
    bool renews; /* makes its session again and again, as others run */
    char failed[512];
};

static void tell(struct thread *t, const char *what)
{
    if (!*t->failed)
        snprintf(t->failed, sizeof t->failed, "thread %d: %s: %s", t->number, what, wherry_last_error(context));
}

static wherry_session *session_make(struct thread *t)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .max_sequences = SEQUENCES,
                                      .dtype = WHERRY_DTYPE_F32,
                                      .kernels = support_kernels(t->of->name)};
    wherry_session *session = NULL;
    if (wherry_session_create(context, t->of->device, t->of->model, &desc, &session)) tell(t, "create");
    return session;
}

/* Says the thread's number, whatever the others' calls fail with meanwhile. */
static void check_error(struct thread *t, wherry_session *session)
{
    const uint32_t offsets[] = {0, 1};
    const int32_t id = VOCABULARY + 1000 * (t->number + 1);
    const wherry_batch wrong = {.struct_size = sizeof wrong, .sequences = 1, .offsets = offsets, .ids = &id};
    float out[HIDDEN];
    char text[64];
    snprintf(text, sizeof text, "has the id %d", (int)id);
    if (wherry_encode(session, &wrong, out, HIDDEN) != WHERRY_STATUS_INVALID_ARGUMENT ||
        !strstr(wherry_last_error(context), text))
        tell(t, "another thread's error");
}

static void check_batch(struct thread *t, wherry_session *session, size_t number)
{
    float got[SEQUENCES * HIDDEN];
    if (wherry_encode(session, &t->of->batches[number], got, SEQUENCES * HIDDEN))
        tell(t, "encode");
    else if (memcmp(got, t->of->want[number], t->of->batches[number].sequences * HIDDEN * sizeof *got))
        tell(t, "other bits than alone");
}

static void *work(void *user)
{
    struct thread *t = user;
    uint64_t seed = (uint64_t)t->number + 1;
    wherry_session *session = session_make(t);
    for (int round = 0; session && round < ROUNDS; round++) {
        check_batch(t, session, support_random(&seed) % BATCHES);
        check_error(t, session);
        wherry_session_plan plan = {.struct_size = sizeof plan};
        if (wherry_session_query(session, &plan)) tell(t, "query");
        if (!t->renews || round % 3 != 2) continue;
        wherry_session_destroy(session);
        session = session_make(t);
    }
    wherry_session_destroy(session);
    return NULL;
}

/* ---- the test ---- */

static void shared_make(struct shared *s, const char *name)
{
    *s = (struct shared){.name = name, .model = model_make()};
    if (wherry_device_open(context, name, &s->device)) fail_msg("%s: %s", name, wherry_last_error(context));
    uint64_t seed = 7;
    for (size_t b = 0; b < BATCHES; b++) {
        uint32_t lengths[SEQUENCES + 1] = {0}, n = 1 + support_random(&seed) % SEQUENCES;
        for (uint32_t i = 0; i < n; i++) lengths[i] = 1 + support_random(&seed) % (TOKENS / SEQUENCES);
        s->batches[b] = support_batch(lengths, VOCABULARY, 2, seed);
    }
    struct thread alone = {.of = s};
    wherry_session *session = session_make(&alone);
    for (size_t b = 0; session && b < BATCHES; b++)
        if (wherry_encode(session, &s->batches[b], s->want[b], SEQUENCES * HIDDEN)) tell(&alone, "encode");
    wherry_session_destroy(session);
    if (*alone.failed) fail_msg("%s: %s", name, alone.failed);
}

static void shared_free(struct shared *s)
{
    for (size_t b = 0; b < BATCHES; b++) support_batch_free(&s->batches[b]);
    wherry_model_close((wherry_model *)(uintptr_t)s->model);
    wherry_device_close(s->device);
}

static void run_threads(const struct shared *s, int count)
{
    struct thread threads[THREADS_MOST] = {0};
    pthread_t handles[THREADS_MOST];
    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){.of = s, .number = i, .renews = i % 2};
        assert_int_equal(pthread_create(&handles[i], NULL, work, &threads[i]), 0);
    }
    for (int i = 0; i < count; i++) pthread_join(handles[i], NULL);
    for (int i = 0; i < count; i++)
        if (*threads[i].failed) fail_msg("%s, %d threads: %s", s->name, count, threads[i].failed);
}

static void test_threads(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct shared s;
        shared_make(&s, devices[d]);
        run_threads(&s, 2);
        run_threads(&s, 4);
        shared_free(&s);
    }
}

/* Threads that come and go leave nothing of theirs that a later one would read. */
static void *fail_once(void *user)
{
    bool *ok = user;
    wherry_model *model;
    *ok = !strcmp(wherry_last_error(context), "");
    *ok = *ok && wherry_model_open(context, NULL, &model) == WHERRY_STATUS_INVALID_ARGUMENT &&
          strstr(wherry_last_error(context), "folder or out is NULL");
    return NULL;
}

static void test_errors(void **state)
{
    (void)state;
    wherry_device *device;
    assert_int_equal(wherry_device_open(context, "no such device", &device), WHERRY_STATUS_NO_DEVICE);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        bool ok = false;
        assert_int_equal(pthread_create(&thread, NULL, fail_once, &ok), 0);
        pthread_join(thread, NULL);
        assert_true(ok);
    }
    assert_non_null(strstr(wherry_last_error(context), "no such device"));
}

int main(void)
{
    if (!(context = support_context(NULL, devices, &n_devices))) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_errors)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
