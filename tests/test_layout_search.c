/* The choice of orders as a whole: measured, stopped and gone on with, chosen, run, verified; what sessions make of the
 * file, and of one that is not theirs. On every device, one small layer in training; where OpenCL's kernels are
 * compiled for a CPU, which takes its time, an encode. */
#include "base/platform.h"
#include "runtime/tuned.h"
#include "support.h"
#include "tune/layout_search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TOKENS = 40, SEQUENCES = 2, LENGTH = 24, VOCABULARY = 97 };

static const uint32_t lengths[] = {24, 16, 0};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64], folder[512];
static size_t n_devices;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

static const wherry_training_desc training_desc = {.struct_size = sizeof training_desc, .dropout = 0.1f, .stack = true};

struct setup {
    const wherry_training_desc *training;
    wherry_device *device;
    wherry_model *model;
    wherry_batch batch;
};

static void setup_open(struct setup *s, const char *device)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 64,
                                        .heads = 2,
                                        .feed_forward = 128,
                                        .vocabulary = VOCABULARY,
                                        .positions = 32,
                                        .token_types = 2,
                                        .activation = WHERRY_ACTIVATION_RELU};
    memset(s, 0, sizeof *s);
    s->batch = support_batch(lengths, VOCABULARY, 2, 3);
    EXPECT_OK(wherry_device_open(context, device, &s->device));
    if (strncmp(device, "opencl", 6) || support_is_gpu(context, device)) s->training = &training_desc;
    EXPECT_OK(wherry_model_create_random(context, &config, 3, &s->model));
}

static void setup_close(struct setup *s)
{
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    support_batch_free(&s->batch);
}

static wherry_session_desc session_of(const struct setup *s)
{
    return (wherry_session_desc){.struct_size = sizeof(wherry_session_desc),
                                 .max_tokens = TOKENS,
                                 .max_sequences = SEQUENCES,
                                 .max_length = LENGTH,
                                 .dtype = WHERRY_DTYPE_F32,
                                 .training = s->training};
}

static void path_of(const struct setup *s, const char *kind, char path[TUNING_PATH])
{
    const struct tuning_key key = device_tuning_key(s->device);
    tuning_path(folder, kind, &key, path);
}

/* ---- the flow ---- */

struct watching {
    size_t left, steps; /* until it is stopped; how many steps of sessions were begun */
    uint32_t results;
};

static bool watch(const char *what, size_t done, size_t total, void *user)
{
    struct watching *w = user;
    assert_true(*what && done <= total);
    if (strncmp(what, "step, ", 6)) return true;
    w->steps++;
    return !w->left || --w->left;
}

static bool take(const wherry_tune_result *r, void *user)
{
    struct watching *w = user;
    w->results++;
    for (uint32_t n = 0; n < r->measured; n++) {
        assert_true(*r->candidates[n].sizes);
        if (r->candidates[n].verdict != WHERRY_TUNE_RIGHT)
            fail_msg("%s, %s: %s", r->group, r->candidates[n].sizes, r->candidates[n].reason);
        assert_true(r->candidates[n].time.median > 0 && r->candidates[n].usual.median > 0);
    }
    return true;
}

static wherry_status tune(struct setup *s, size_t stop, struct watching *w, wherry_layouts_chosen *out)
{
    const wherry_tune_desc desc = {.struct_size = sizeof desc, .candidates = 1, .rounds = 1};
    const wherry_session_desc session = session_of(s);
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    *out = (wherry_layouts_chosen){.struct_size = sizeof *out};
    *w = (struct watching){.left = stop};
    return wherry_tune_layouts(context, s->device, s->model, &session, &s->batch, &desc, watch, take, w, &summary, out);
}

/* Of an operator with the tensors in these orders; INFINITY: there is none. */
static double seconds_of(const wherry_layout_operator *of, const uint32_t *orders)
{
    for (size_t n = 0; n < of->n_times; n++) {
        bool same = true;
        for (uint32_t i = 0; i < of->n_tensors; i++) same &= of->times[n].orders[i] == orders[of->tensors[i]];
        if (same) return of->times[n].seconds;
    }
    return INFINITY;
}

/* Every combination of orders by what was measured: none is shorter than the path, and one is as short. */
static void check_exhaustive(const wherry_layouts_chosen *c, bool training)
{
    uint32_t orders[WHERRY_LAYOUT_TENSORS] = {0};
    double least = INFINITY, bests = 0;
    uint64_t n = 0;
    for (int v = 0; v >= 0; n++) {
        double sum = 0;
        for (size_t o = 0; o < c->n_operators; o++) sum += seconds_of(&c->operators[o], orders);
        if (sum < least) least = sum;
        for (v = (int)c->n_tensors - 1; v >= 0 && ++orders[v] == c->tensors[v].count; v--) orders[v] = 0;
    }
    for (size_t o = 0; o < c->n_operators; o++) {
        double best = INFINITY;
        for (size_t t = 0; t < c->operators[o].n_times; t++) {
            if (!isfinite(c->operators[o].times[t].seconds)) fail_msg("%s was not measured", c->operators[o].name);
            best = fmin(best, c->operators[o].times[t].seconds);
        }
        bests += best;
    }
    assert_int_equal(n, c->combinations);
    assert_true(fabs(c->path - least) <= 1e-9 * least);
    assert_true(fabs(c->best_sum - bests) <= 1e-9 * bests);
    assert_true(c->best_sum <= c->path * (1 + 1e-9));
    assert_true(!training || c->transposed >= c->best_sum); /* of a training's weights there are copies */
    if (training) assert_true(fmin(c->forward_first, c->backward_first) >= c->path * (1 - 1e-9));
    assert_true(c->random_n > 0 && c->random_p05 <= c->random_median && c->random_median <= c->random_p95);
}

static bool no_failure(const wherry_verify_result *result, void *user)
{
    (void)user;
    if (result->passed) return true;
    fail_msg("%s differs by an NMSE of %g", result->name, result->nmse);
    return false;
}

/* What a session without layouts of its own makes of the file; NULL: of the usual one. */
static void check_session(struct setup *s, const char *file, const char *layouts, const char *note, bool verify)
{
    wherry_session_desc desc = session_of(s);
    wherry_session *session;
    wherry_session_plan plan = {.struct_size = sizeof plan};
    desc.tuning = file;
    desc.keep_intermediates = verify;
    EXPECT_OK(wherry_session_create(context, s->device, s->model, &desc, &session));
    EXPECT_OK(wherry_session_query(session, &plan));
    assert_string_equal(plan.layouts, layouts);
    bool noted = !note;
    const char *text;
    for (size_t n = 0; (text = wherry_session_note(session, n)); n++) noted |= note && strstr(text, note);
    if (!noted) fail_msg("no note says \"%s\"", note);
    if (!note) assert_non_null(strstr(plan.layouts_reason, "tuned"));
    if (verify) {
        wherry_verify_summary summary = {.struct_size = sizeof summary};
        EXPECT_OK(wherry_verify(session, &s->batch, 1, no_failure, NULL, &summary));
        assert_true(summary.groups > 0);
    }
    wherry_session_destroy(session);
}

static void check_flow(struct setup *s, wherry_layouts_chosen *chosen)
{
    wherry_layouts_chosen again;
    struct watching w;
    struct error e;
    char path[TUNING_PATH], *text;
    size_t size;
    path_of(s, "tuned", path);
    remove(path);
    path_of(s, "tuning", path);
    remove(path);
    assert_int_equal(tune(s, 3, &w, chosen), WHERRY_STATUS_CANCELLED); /* before the third step */
    assert_true(file_read(&support_host, path, 1 << 24, &text, &size, &e));
    assert_true(cache_write(path, text, size - 7, &e)); /* as a process leaves it that is killed while it writes */
    free(text);
    EXPECT_OK(tune(s, 0, &w, chosen));
    assert_int_equal(chosen->known, 1); /* of two steps one is lost */
    assert_int_equal(chosen->wrong, 0);
    assert_int_equal(w.steps, chosen->measured);
    assert_true(chosen->possible > 1 && chosen->possible <= chosen->combinations);
    check_exhaustive(chosen, s->training);
    EXPECT_OK(tune(s, 0, &w, &again));
    assert_int_equal(again.known, again.measured); /* nothing is measured twice */
    assert_int_equal(again.measured, chosen->measured);
    double least = chosen->path / chosen->drift;
    assert_true(fabs(again.path / again.drift - least) <= 1e-8 * least); /* the log has nine digits */
    wherry_layouts_free(context, chosen);
    *chosen = again;
}

/* ---- the file ---- */

/* The file of chosen sizes and orders with other orders in it. */
static void write_layouts(struct setup *s, const char *layouts, const char *path, bool other_driver)
{
    struct tuning_key key = device_tuning_key(s->device);
    struct tuning tuning = {0};
    struct tuned_layouts entry = {.usual = 2, .best = 1};
    struct error e;
    wherry_session_desc desc = session_of(s);
    wherry_session *session;
    desc.layouts = desc.tuning = "";
    EXPECT_OK(wherry_session_create(context, s->device, s->model, &desc, &session));
    snprintf(entry.kind, sizeof entry.kind, "%s", session->kind);
    wherry_session_destroy(session);
    snprintf(entry.layouts, sizeof entry.layouts, "%s", layouts);
    if (other_driver) snprintf(key.driver, sizeof key.driver, "another");
    assert_true(tuning_add_layouts(&support_host, &tuning, &entry, &e));
    assert_true(tuning_store(&support_host, path, &key, &tuning, &e));
    tuning_free(&support_host, &tuning);
}

static void check_files(struct setup *s)
{
    char path[TUNING_PATH + 8], *text, *at;
    size_t size;
    struct error e;
    snprintf(path, sizeof path, "%s/plan.txt", folder);
    write_layouts(s, "w_lin1=iu,w_lin2=ui", path, false);
    check_session(s, path, "w_lin1=iu,w_lin2=ui", NULL, true);
    write_layouts(s, "w_lin1=iu,w_lin2=uu", path, false);
    check_session(s, path, "", "are not used: layouts: \"uu\" is no order of the letters of w_lin2", false);
    write_layouts(s, "w_lin1=iu", path, true);
    check_session(s, path, "", "it is of the driver \"another\"", false);
    write_layouts(s, "w_lin1=iu", path, false);
    assert_true(file_read(&support_host, path, 1 << 24, &text, &size, &e));
    assert_non_null(at = strstr(text, "w_lin1=iu"));
    at[8] = 'x';
    assert_true(cache_write(path, text, size, &e));
    free(text);
    check_session(s, path, "", "their lines are damaged", false);
    remove(path);
}

/* ---- all devices ---- */

static void test_device(void **state)
{
    struct setup s;
    struct watching w;
    wherry_layouts_chosen chosen;
    setup_open(&s, *state);
    if (!s.device->kernels_hash) {
        assert_int_equal(tune(&s, 0, &w, &chosen), WHERRY_STATUS_UNSUPPORTED);
        setup_close(&s);
        return;
    }
    check_flow(&s, &chosen);
    check_session(&s, NULL, chosen.layouts, NULL, true);
    check_files(&s);
    wherry_layouts_free(context, &chosen);
    setup_close(&s);
}

static void test_arguments(void **state)
{
    struct setup s;
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    wherry_layouts_chosen out = {.struct_size = sizeof out};
    setup_open(&s, *state);
    wherry_session_desc session = session_of(&s);
    session.layouts = "w_lin1=iu";
    assert_int_equal(
        wherry_tune_layouts(context, s.device, s.model, &session, &s.batch, NULL, NULL, NULL, NULL, &summary, &out),
        WHERRY_STATUS_INVALID_ARGUMENT);
    session.layouts = NULL;
    out.struct_size = 1;
    assert_int_equal(
        wherry_tune_layouts(context, s.device, s.model, &session, &s.batch, NULL, NULL, NULL, NULL, &summary, &out),
        WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(
        wherry_tune_layouts(context, s.device, NULL, &session, &s.batch, NULL, NULL, NULL, NULL, &summary, &out),
        WHERRY_STATUS_INVALID_ARGUMENT);
    setup_close(&s);
}

int main(void)
{
    struct CMUnitTest tests[2 * SUPPORT_MAX_DEVICES];
    size_t n = 0;
    if (!(context = support_tuning_context("layout_search", folder, sizeof folder, devices, &n_devices))) return 1;
    for (size_t d = 0; d < n_devices; d++) {
        tests[n++] = (struct CMUnitTest){devices[d], test_device, NULL, NULL, devices[d]};
        tests[n++] = (struct CMUnitTest){devices[d], test_arguments, NULL, NULL, devices[d]};
    }
    int failed = _cmocka_run_group_tests("layout_search", tests, n, NULL, NULL);
    wherry_context_destroy(context);
    return failed != 0;
}
