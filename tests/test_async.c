/* Tickets on every device: the bits of wherry_encode with several under way, merged and in order; cancelled, destroyed
 * and waited for in every state; callbacks, timeouts, bounds. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/submit.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST_TOKENS = 400, HIDDEN = 64, VOCABULARY = 97, TEXTS = 24, TEXT_MOST = 40 };

static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static bool unoptimized;

#define OK(context, call)                                                                                              \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* ---- a session, and texts with what wherry_encode makes of them ---- */

static size_t allocations;

static void *count_alloc(size_t size, void *user)
{
    (void)user;
    allocations++;
    return malloc(size);
}

struct text {
    wherry_batch batch;
    uint32_t offsets[2];
    int32_t ids[TEXT_MOST], types[TEXT_MOST];
    float *expected, *out; /* [floats] */
    size_t floats;
};

struct setup {
    const char *name;
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    struct text texts[TEXTS];
};

static void expect(const struct setup *s, wherry_status got, wherry_status want, const char *part)
{
    if (got != want || !strstr(wherry_last_error(s->context), part))
        fail_msg("%s: status %s with \"%s\": wanted %s with \"%s\"", s->name, wherry_status_name(got),
                 wherry_last_error(s->context), wherry_status_name(want), part);
}

static void texts_make(struct setup *s, wherry_pool pool)
{
    uint64_t random = 7;
    for (size_t i = 0; i < TEXTS; i++) {
        struct text *t = &s->texts[i];
        uint32_t length = 1 + (uint32_t)(i * 11 % TEXT_MOST);
        t->offsets[1] = length;
        for (uint32_t k = 0; k < length; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            t->ids[k] = (int32_t)((random >> 33) % VOCABULARY);
            t->types[k] = (int32_t)(random >> 62 & 1);
        }
        t->batch = (wherry_batch){sizeof t->batch, 1, t->offsets, t->ids, i % 3 ? t->types : NULL, NULL};
        t->floats = HIDDEN * (pool == WHERRY_POOL_NONE ? length : 1);
        t->expected = calloc(t->floats, sizeof *t->expected);
        t->out = calloc(t->floats, sizeof *t->out);
        OK(s->context, wherry_encode(s->session, &t->batch, t->expected, t->floats));
    }
}

static void setup_make(struct setup *s, size_t device, wherry_session_desc desc)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 136,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2};
    const wherry_context_desc context = {.struct_size = sizeof context,
                                         .alloc = count_alloc,
                                         .free = support_free,
                                         .cache_dir = getenv("WHERRY_TEST_CACHE"),
                                         .unoptimized = unoptimized};
    *s = (struct setup){.name = devices[device]};
    assert_int_equal(wherry_context_create(&context, &s->context), WHERRY_STATUS_OK);
    OK(s->context, wherry_device_open(s->context, s->name, &s->device));
    OK(s->context, wherry_model_create_random(s->context, &config, 3, &s->model));
    desc.struct_size = sizeof desc;
    desc.max_tokens = desc.max_tokens ? desc.max_tokens : MOST_TOKENS;
    desc.kernels = support_kernels(s->name);
    OK(s->context, wherry_session_create(s->context, s->device, s->model, &desc, &s->session));
    texts_make(s, desc.pool);
}

static void setup_free(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    wherry_context_destroy(s->context);
    for (size_t i = 0; i < TEXTS; i++) {
        free(s->texts[i].expected);
        free(s->texts[i].out);
    }
}

static void submit(struct setup *s, size_t text, wherry_done done, void *user, wherry_ticket **out)
{
    struct text *t = &s->texts[text];
    const wherry_submit_desc desc = {
        .struct_size = sizeof desc, .out = t->out, .out_floats = t->floats, .done = done, .user = user};
    memset(t->out, 0, t->floats * sizeof *t->out);
    OK(s->context, wherry_encode_submit(s->session, &t->batch, &desc, out));
}

static void check_result(const struct setup *s, size_t text)
{
    const struct text *t = &s->texts[text];
    if (memcmp(t->out, t->expected, t->floats * sizeof *t->out))
        fail_msg("%s: text %zu has other bits than by wherry_encode", s->name, text);
}

/* No bit of it was written. */
static void check_untouched(const struct setup *s, size_t text)
{
    for (size_t i = 0; i < s->texts[text].floats; i++)
        if (s->texts[text].out[i] != 0) fail_msg("%s: text %zu was cancelled and got a result", s->name, text);
}

/* ---- results ---- */

static const wherry_dtype dtypes[] = {WHERRY_DTYPE_F32, WHERRY_DTYPE_DEFAULT};

/* In whatever company, waited for from either end. */
static void test_same_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (int k = 0; k < 2; k++) {
            struct setup s;
            wherry_ticket *tickets[TEXTS];
            setup_make(&s, d, (wherry_session_desc){.dtype = dtypes[k], .pool = k ? WHERRY_POOL_NONE : 0});
            for (int backwards = 0; backwards < 2; backwards++) {
                for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
                for (size_t i = 0; i < TEXTS; i++) {
                    size_t at = backwards ? TEXTS - 1 - i : i;
                    OK(s.context, wherry_ticket_wait(tickets[at], UINT64_MAX));
                    check_result(&s, at);
                }
                for (size_t i = 0; i < TEXTS; i++) {
                    OK(s.context, wherry_ticket_wait(tickets[i], 0)); /* as often as one asks */
                    wherry_ticket_destroy(tickets[i]);
                }
            }
            setup_free(&s);
        }
}

/* What waits is merged: fewer runs than tickets, as many as the limits ask for. */
static size_t runs;
static const struct backend *honest;

static bool submit_counted(struct backend_device *device, struct program *program, const struct run *run, int slot,
                           struct error *e)
{
    runs++;
    return honest->program_submit(device, program, run, slot, e);
}

static void test_merged(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100, .max_sequences = 8});
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_submit = submit_counted;
        s.device->backend = &face;
        runs = 0;
        for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        OK(s.context, wherry_ticket_wait(tickets[TEXTS - 1], UINT64_MAX));
        for (size_t i = 0; i < TEXTS; i++) {
            assert_int_equal(wherry_ticket_poll(tickets[i]), WHERRY_STATUS_OK); /* those before it are done, too */
            check_result(&s, i);
            wherry_ticket_destroy(tickets[i]);
        }
        /* A fast device may be done before the next is there, which no other can be in between. */
        assert_in_range(runs, 5, honest->submit_runs ? 9 : TEXTS);
        s.device->backend = honest;
        setup_free(&s);
    }
}

/* wherry_encode, and whatever else the session does, comes after what was submitted. */
static void test_between(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        wherry_verify_summary summary = {.struct_size = sizeof summary};
        float out[TEXT_MOST * HIDDEN];
        setup_make(&s, d, (wherry_session_desc){.keep_intermediates = true});
        for (size_t i = 0; i + 1 < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        OK(s.context, wherry_encode(s.session, &s.texts[TEXTS - 1].batch, out, HIDDEN));
        assert_memory_equal(out, s.texts[TEXTS - 1].expected, HIDDEN * sizeof *out);
        for (size_t i = 0; i + 1 < TEXTS; i++) {
            assert_int_equal(wherry_ticket_poll(tickets[i]), WHERRY_STATUS_OK);
            check_result(&s, i);
            wherry_ticket_destroy(tickets[i]);
        }
        for (size_t i = 0; i < 4; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        if (strcmp(s.name, "reference"))
            OK(s.context, wherry_verify(s.session, &s.texts[5].batch, 1, NULL, NULL, &summary));
        for (size_t i = 0; i < 4; i++) {
            OK(s.context, wherry_ticket_wait(tickets[i], UINT64_MAX));
            check_result(&s, i);
            wherry_ticket_destroy(tickets[i]);
        }
        setup_free(&s);
    }
}

static void test_no_allocation(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (!strcmp(devices[d], "reference")) continue; /* its operators work in memory of their own */
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        size_t before = 0;
        setup_make(&s, d, (wherry_session_desc){0});
        for (int turn = 0; turn < 9; turn++) {
            if (turn == 1) before = allocations;
            for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
            for (size_t i = 0; i < TEXTS; i++) {
                OK(s.context, wherry_ticket_wait(tickets[i], UINT64_MAX));
                wherry_ticket_destroy(tickets[i]);
            }
        }
        if (allocations - before > TEXTS) /* a ticket that waits for the first time is given memory for its batch */
            fail_msg("%s: %zu allocations in 8 turns of %d tickets", s.name, allocations - before, TEXTS);
        setup_free(&s);
    }
}

/* ---- the ends of tickets ---- */

static void test_cancelled(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
        for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        for (size_t i = 0; i < TEXTS; i += 2) /* the first of them is under way, or even done */
            if (wherry_ticket_poll(tickets[i]) == WHERRY_STATUS_TIMEOUT)
                OK(s.context, wherry_ticket_cancel(tickets[i]));
            else
                expect(&s, wherry_ticket_cancel(tickets[i]), WHERRY_STATUS_INVALID_ARGUMENT, "done already (ok)");
        for (size_t i = 0; i < TEXTS; i++) {
            wherry_status status = wherry_ticket_wait(tickets[i], UINT64_MAX);
            if (i % 2 || !status)
                check_result(&s, i);
            else
                check_untouched(&s, i);
            if (status) expect(&s, wherry_ticket_wait(tickets[i], 0), WHERRY_STATUS_CANCELLED, "was cancelled");
            assert_true(!status || i % 2 == 0);
        }
        for (size_t i = 0; i < TEXTS; i++) wherry_ticket_destroy(tickets[i]);
        for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        for (size_t i = 0; i < TEXTS; i += 3) wherry_ticket_destroy(tickets[i]); /* whatever they do */
        for (size_t i = 0; i < TEXTS; i++) {
            if (i % 3 == 0) continue;
            OK(s.context, wherry_ticket_wait(tickets[i], UINT64_MAX));
            check_result(&s, i);
            wherry_ticket_destroy(tickets[i]);
        }
        setup_free(&s);
    }
}

static void count_done(wherry_ticket *ticket, wherry_status status, void *user)
{
    int *counts = user;
    (void)ticket;
    counts[status == WHERRY_STATUS_CANCELLED]++;
}

static void test_session_destroyed(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t done = 0; done < 4; done += 3) {
            struct setup s;
            wherry_ticket *tickets[TEXTS];
            int counts[2] = {0, 0};
            setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
            for (size_t i = 0; i < TEXTS; i++) submit(&s, i, count_done, counts, &tickets[i]);
            if (done) OK(s.context, wherry_ticket_wait(tickets[done], UINT64_MAX));
            wherry_session_destroy(s.session);
            s.session = NULL;
            assert_int_equal(counts[0] + counts[1], TEXTS);
            assert_true(!done || counts[0] > (int)done);
            for (size_t i = 0; i < TEXTS; i++) {
                wherry_status status = wherry_ticket_wait(tickets[i], UINT64_MAX);
                if (status)
                    expect(&s, wherry_ticket_poll(tickets[i]), WHERRY_STATUS_CANCELLED, "session of this ticket");
                else
                    check_result(&s, i);
                expect(&s, wherry_ticket_cancel(tickets[i]), WHERRY_STATUS_INVALID_ARGUMENT, "done already");
                wherry_ticket_destroy(tickets[i]);
            }
            setup_free(&s);
        }
}

/* ---- callbacks ---- */

struct chain {
    struct setup *s;
    size_t order[2 * TEXTS], n;
    int depth;
    wherry_status waited; /* what waiting in a callback gave */
};

struct link {
    struct chain *chain;
    size_t text;
    bool again;
};

static void link_done(wherry_ticket *ticket, wherry_status status, void *user)
{
    struct link *l = user;
    struct chain *c = l->chain;
    assert_int_equal(status, WHERRY_STATUS_OK);
    assert_int_equal(c->depth++, 0); /* none within another */
    check_result(c->s, l->text);
    c->order[c->n++] = l->text;
    c->waited = wherry_ticket_wait(ticket, 0);
    if (l->again) {
        l->again = false;
        submit(c->s, l->text, link_done, l, NULL);
    }
    c->depth--;
}

static void test_callbacks(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        struct chain chain = {.s = &s};
        struct link links[TEXTS];
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
        for (size_t i = 0; i < TEXTS; i++) {
            links[i] = (struct link){&chain, i, true};
            submit(&s, i, link_done, &links[i], NULL);
        }
        float out[HIDDEN]; /* which comes after all that was submitted before it */
        while (chain.n < 2 * TEXTS) OK(s.context, wherry_encode(s.session, &s.texts[0].batch, out, HIDDEN));
        assert_int_equal(chain.waited, WHERRY_STATUS_INVALID_ARGUMENT);
        size_t seen[TEXTS] = {0}, last = 0, firsts = 0;
        for (size_t i = 0; i < chain.n; i++) { /* the first turn in order, and each text twice */
            if (seen[chain.order[i]]++) continue;
            assert_true(!firsts++ || chain.order[i] == last + 1);
            last = chain.order[i];
        }
        for (size_t i = 0; i < TEXTS; i++) assert_int_equal(seen[i], 2);
        setup_free(&s);
    }
}

/* A callback's ticket that is destroyed before is told of nothing. */
static void test_destroyed_untold(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (strchr(devices[d], ':')) continue; /* nothing of it is the driver's */
        struct setup s;
        int counts[2] = {0, 0};
        wherry_ticket *ticket, *kept;
        setup_make(&s, d, (wherry_session_desc){0});
        submit(&s, 1, count_done, counts, &ticket);
        submit(&s, 2, count_done, counts, &kept);
        wherry_ticket_destroy(ticket);
        OK(s.context, wherry_ticket_wait(kept, UINT64_MAX));
        assert_int_equal(counts[0], 1);
        assert_int_equal(counts[1], 0);
        check_result(&s, 2);
        wherry_ticket_destroy(kept);
        setup_free(&s);
    }
}

/* ---- timeouts, bounds, bad input ---- */

/* Never done before it is let go. */
static bool held;

static bool wait_held(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns, bool *done,
                      struct error *e)
{
    if (held && timeout_ns == UINT64_MAX) held = false;
    *done = false;
    return held || honest->program_wait(device, program, slot, timeout_ns, done, e);
}

static void test_timeouts(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *ticket, *next;
        setup_make(&s, d, (wherry_session_desc){0});
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_wait = wait_held;
        s.device->backend = &face;
        held = true;
        submit(&s, 0, NULL, NULL, &ticket);
        submit(&s, 1, NULL, NULL, &next);
        for (int i = 0; i < 3; i++) {
            expect(&s, wherry_ticket_poll(ticket), WHERRY_STATUS_TIMEOUT, "not done yet");
            expect(&s, wherry_ticket_wait(next, 1000000), WHERRY_STATUS_TIMEOUT, "not done yet");
        }
        OK(s.context, wherry_ticket_wait(next, UINT64_MAX));
        OK(s.context, wherry_ticket_poll(ticket));
        check_result(&s, 0);
        check_result(&s, 1);
        wherry_ticket_destroy(ticket);
        wherry_ticket_destroy(next);
        s.device->backend = honest;
        setup_free(&s);
    }
}

static void test_busy(void **state)
{
    (void)state;
    enum { MANY = WHERRY_TICKETS_MAX + 160 }; /* and what two runs take */
    for (size_t d = 0; d < n_devices; d++) {
        if (strchr(devices[d], ':')) continue; /* nothing of it is the driver's */
        struct setup s;
        static wherry_ticket *tickets[MANY];
        static float outs[MANY][HIDDEN];
        size_t n = 0;
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_wait = wait_held;
        s.device->backend = &face;
        held = true;
        wherry_submit_desc desc = {.struct_size = sizeof desc, .out_floats = HIDDEN};
        wherry_status status = WHERRY_STATUS_OK;
        for (; !status && n < MANY; n += !status) {
            desc.out = outs[n];
            status = wherry_encode_submit(s.session, &s.texts[0].batch, &desc, &tickets[n]); /* of one token */
        }
        expect(&s, status, WHERRY_STATUS_BUSY, "tickets with");
        assert_in_range(n, WHERRY_TICKETS_MAX, MANY - 1);
        for (size_t i = n; i-- > 0;) {
            OK(s.context, wherry_ticket_wait(tickets[i], UINT64_MAX));
            assert_memory_equal(outs[i], s.texts[0].expected, sizeof outs[i]);
            wherry_ticket_destroy(tickets[i]);
        }
        s.device->backend = honest;
        setup_free(&s);
    }
}

static void test_bad_input(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (strchr(devices[d], ':')) continue; /* nothing of it is the driver's */
        struct setup s;
        setup_make(&s, d, (wherry_session_desc){0});
        wherry_ticket *ticket = NULL;
        struct text *t = &s.texts[3];
        float out[HIDDEN];
        const wherry_submit_desc good = {.struct_size = sizeof good, .out = out, .out_floats = HIDDEN};
        wherry_submit_desc desc;
        wherry_batch batch;
#define BAD(part, ...)                                                                                                 \
    do {                                                                                                               \
        desc = good;                                                                                                   \
        batch = t->batch;                                                                                              \
        __VA_ARGS__;                                                                                                   \
        expect(&s, wherry_encode_submit(s.session, &batch, &desc, &ticket), WHERRY_STATUS_INVALID_ARGUMENT, part);     \
        assert_null(ticket);                                                                                           \
    } while (0)
        BAD("struct_size", desc.struct_size = 3);
        BAD("no `out`", desc.out = NULL);
        BAD("room for 63 floats", desc.out_floats = 63);
        BAD("struct_size", batch.struct_size = 3);
        BAD("has the id 97", t->ids[1] = VOCABULARY);
        assert_int_equal(wherry_encode_submit(NULL, &batch, &good, &ticket), WHERRY_STATUS_INVALID_ARGUMENT);
        expect(&s, wherry_encode_submit(s.session, NULL, &good, &ticket), WHERRY_STATUS_INVALID_ARGUMENT, "is NULL");
        expect(&s, wherry_encode_submit(s.session, &batch, NULL, &ticket), WHERRY_STATUS_INVALID_ARGUMENT, "is NULL");
        expect(&s, wherry_encode_submit(s.session, &batch, &good, NULL), WHERRY_STATUS_INVALID_ARGUMENT, "nobody");
        assert_int_equal(wherry_ticket_wait(NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
        assert_int_equal(wherry_ticket_poll(NULL), WHERRY_STATUS_INVALID_ARGUMENT);
        assert_int_equal(wherry_ticket_cancel(NULL), WHERRY_STATUS_INVALID_ARGUMENT);
        wherry_ticket_destroy(NULL);
        setup_free(&s);
    }
}

/* A run that fails: all that were merged in it fail with its sentence, and those after it are run. */
static int failures;

static bool submit_failing(struct backend_device *device, struct program *program, const struct run *run, int slot,
                           struct error *e)
{
    if (failures-- > 0) return (fail)(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "this one fails");
    return honest->program_submit(device, program, run, slot, e);
}

static void test_failures(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (strchr(devices[d], ':')) continue; /* nothing of it is the driver's */
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        size_t failed = 0;
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_submit = submit_failing;
        s.device->backend = &face;
        failures = 2;
        for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        for (size_t i = 0; i < TEXTS; i++) {
            wherry_status status = wherry_ticket_wait(tickets[i], UINT64_MAX);
            failed += status != 0;
            if (status)
                expect(&s, status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "this one fails");
            else
                check_result(&s, i);
            wherry_ticket_destroy(tickets[i]);
        }
        assert_in_range(failed, 2, TEXTS - 1);
        s.device->backend = honest;
        setup_free(&s);
    }
}

/* ---- a lost device ---- */

static bool loses;

static bool wait_lost(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns, bool *done,
                      struct error *e)
{
    if (!honest->program_wait(device, program, slot, timeout_ns, done, e) || !*done || !loses) return true;
    loses = false;
    return (fail)(e, WHERRY_STATUS_DEVICE_LOST, "the driver says so");
}

/* All of it refuses, and a device that is opened again works. */
static void test_lost(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *tickets[TEXTS], *none = NULL;
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100});
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_wait = wait_lost;
        s.device->backend = &face;
        loses = true;
        for (size_t i = 0; i < TEXTS; i++) submit(&s, i, NULL, NULL, &tickets[i]);
        wherry_status status = wherry_ticket_wait(tickets[TEXTS - 1], UINT64_MAX);
        expect(&s, status, WHERRY_STATUS_DEVICE_LOST, "close it and open it again");
        for (size_t i = 0; i < TEXTS; i++) {
            status = wherry_ticket_poll(tickets[i]);
            assert_true(status == WHERRY_STATUS_DEVICE_LOST || (!status && i)); /* of runs that were under way, too */
            wherry_ticket_destroy(tickets[i]);
        }
        struct text *t = &s.texts[0];
        const wherry_submit_desc desc = {.struct_size = sizeof desc, .out = t->out, .out_floats = t->floats};
        expect(&s, wherry_encode(s.session, &t->batch, t->out, t->floats), WHERRY_STATUS_DEVICE_LOST, "was lost by");
        if (!wherry_encode_submit(s.session, &t->batch, &desc, &none))
            expect(&s, wherry_ticket_wait(none, UINT64_MAX), WHERRY_STATUS_DEVICE_LOST, "was lost by");
        wherry_ticket_destroy(none);
        wherry_session_destroy(s.session);
        /* As large as the one before: other limits may have other kernels. */
        const wherry_session_desc again = {
            .struct_size = sizeof again, .max_tokens = 100, .kernels = support_kernels(s.name)};
        s.session = NULL;
        if (!wherry_session_create(s.context, s.device, s.model, &again, &s.session))
            expect(&s, wherry_session_prepare(s.session, NULL, NULL, NULL), WHERRY_STATUS_DEVICE_LOST, "was lost by");
        wherry_session_destroy(s.session);
        s.device->backend = honest;
        wherry_device_close(s.device);
        OK(s.context, wherry_device_open(s.context, s.name, &s.device));
        OK(s.context, wherry_session_create(s.context, s.device, s.model, &again, &s.session));
        OK(s.context, wherry_encode(s.session, &t->batch, t->out, t->floats));
        check_result(&s, 0);
        setup_free(&s);
    }
}

/* ---- portions ---- */

/* A bound that no kernel keeps: each call of the plan is a submission of its own, and the bits are the same. */
static int submitted_to; /* the last run's `end` */

static bool submit_portion(struct backend_device *device, struct program *program, const struct run *run, int slot,
                           struct error *e)
{
    runs++;
    if (run->first) assert_int_equal(run->first, submitted_to); /* 0: another encode begins */
    submitted_to = run->end;
    return honest->program_submit(device, program, run, slot, e);
}

static void test_portions(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        wherry_ticket *tickets[TEXTS];
        setup_make(&s, d, (wherry_session_desc){.max_tokens = 100, .max_submit_ms = 1e-6, .pause_us = 10});
        const int calls = s.session->n_calls;
        struct backend face = *s.device->backend;
        honest = s.device->backend;
        face.program_submit = submit_portion;
        s.device->backend = &face;
        for (size_t i = 0; i < 8; i++) {
            struct text *t = &s.texts[i];
            runs = 0;
            OK(s.context, wherry_encode(s.session, &t->batch, t->out, t->floats));
            check_result(&s, i);
            assert_int_equal(runs, calls);
        }
        /* Polled for, a call submits one at most. */
        size_t polls = 0;
        runs = 0;
        submit(&s, 3, NULL, NULL, &tickets[0]);
        for (wherry_status status = WHERRY_STATUS_TIMEOUT; status == WHERRY_STATUS_TIMEOUT; polls++) {
            size_t before = runs;
            status = wherry_ticket_poll(tickets[0]);
            assert_in_range(runs - before, 0, 1);
        }
        assert_true(polls >= (size_t)calls);
        check_result(&s, 3);
        wherry_ticket_destroy(tickets[0]);
        /* Cancelled, it goes no further than the portion that is under way. */
        submit(&s, 3, NULL, NULL, &tickets[0]);
        runs = 0;
        while (runs < 2) assert_int_equal(wherry_ticket_poll(tickets[0]), WHERRY_STATUS_TIMEOUT);
        size_t at = runs;
        OK(s.context, wherry_ticket_cancel(tickets[0]));
        submit(&s, 4, NULL, NULL, &tickets[1]);
        OK(s.context, wherry_ticket_wait(tickets[1], UINT64_MAX));
        check_result(&s, 4);
        check_untouched(&s, 3);
        assert_in_range(runs, at + (size_t)calls, at + (size_t)calls + 1);
        wherry_ticket_destroy(tickets[0]);
        wherry_ticket_destroy(tickets[1]);
        s.device->backend = honest;
        setup_free(&s);
    }
}

int main(void)
{
    wherry_context *context = support_context(NULL, devices, &n_devices);
    unoptimized = support_unoptimized(context, (const char(*)[64])devices, n_devices);
    wherry_context_destroy(context);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_merged),
        cmocka_unit_test(test_between),   cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_cancelled), cmocka_unit_test(test_session_destroyed),
        cmocka_unit_test(test_callbacks), cmocka_unit_test(test_destroyed_untold),
        cmocka_unit_test(test_timeouts),  cmocka_unit_test(test_busy),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_portions),  cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
