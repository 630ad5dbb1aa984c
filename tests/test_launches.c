/* Kernels that would take a device too long are launched in pieces: the same bits as whole, and a submission for each
 * piece. With a bound that nothing keeps every kernel is cut, as far as its work-groups go. */
#include "support.h"

#include "interface/interface.h"
#include "launches/count.h"
#include "plan/launches.h"
#include "runtime/context.h"
#include "runtime/encode.h"
#include "wherry/wherry_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { HIDDEN = 32, VOCABULARY = 101, FLOATS_MOST = 1 << 16, TOKENS = 150 };
static const double whole = -1, divided = 1e-6; /* max_launch_ms */
static const uint32_t lengths[] = {70, 5, 33, 0}, few[] = {3, 0};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status result_ = (call);                                                                                \
        if (result_) fail_msg("%s: %s: %s", id, wherry_status_name(result_), wherry_last_error(context));              \
    } while (0)

static bool is(const char *id, const char *api) { return !strncmp(id, api, strlen(api)); }
static bool launches(const char *id) { return is(id, "opencl") || is(id, "vulkan"); }

/* ---- what a session gives ---- */

struct result {
    float *floats; /* [count]: rows, and in training all gradients */
    size_t count;
    uint32_t reached; /* the driver: kernels through OpenCL, submissions through Vulkan */
    uint32_t expected;
    bool noted;
    double seconds; /* of the same run with times */
};

static uint32_t *counter(const char *id) { return is(id, "vulkan") ? &vulkan_counted : &opencl_counted; }

static void count_begin(const char *id, const wherry_device *device)
{
    if (is(id, "opencl")) opencl_count(true);
    if (is(id, "vulkan")) vulkan_count(device->handle, true);
    *counter(id) = 0;
}

static void count_end(const char *id, const wherry_device *device, struct result *r)
{
    r->reached = *counter(id);
    if (is(id, "opencl")) opencl_count(false);
    if (is(id, "vulkan")) vulkan_count(device->handle, false);
}

static void gradients_read(const char *id, wherry_session *session, struct result *r)
{
    for (size_t i = 0; i < wherry_gradient_count(session); i++) {
        wherry_gradient info = {.struct_size = sizeof info};
        EXPECT_OK(wherry_gradient_describe(session, i, &info));
        assert_true(r->count + info.elements <= FLOATS_MOST);
        EXPECT_OK(wherry_gradient_read(session, i, r->floats + r->count, (size_t)info.elements));
        r->count += (size_t)info.elements;
    }
}

static void run(const char *id, wherry_session *session, const wherry_batch *batch, bool train, struct result *r)
{
    const size_t rows = (size_t)batch->sequences * HIDDEN;
    float *gradient = calloc(rows, sizeof *gradient);
    for (size_t i = 0; i < rows; i++) gradient[i] = 0.01f * (float)((int)(i * 7 % 23) - 11);
    r->count = rows;
    count_begin(id, session->device);
    if (train) {
        const wherry_step step = {.struct_size = sizeof step, .seed = 5, .step = 2};
        EXPECT_OK(wherry_forward(session, batch, NULL, &step, r->floats, rows));
        EXPECT_OK(wherry_backward(session, gradient, rows, NULL, 0));
    } else {
        EXPECT_OK(wherry_encode(session, batch, r->floats, rows));
    }
    count_end(id, session->device, r);
    if (train) gradients_read(id, session, r);
    free(gradient);
}

/* OpenCL's launches are what the schedule says. Vulkan's submissions: one for each launch of a divided step, those
 * between them, and copies of single tensors are none of a run. */
static uint32_t expected_launches(const char *id, const wherry_session *s)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_calls; i++) {
        const bool empty = !s->grids[i].x || !s->grids[i].y;
        const uint32_t its = launch_count(&s->steps[i], &s->grids[i]);
        if (is(id, "opencl")) n += empty ? 0 : its;
        if (is(id, "vulkan") && launch_count_most(&s->steps[i]) > 1) n += its;
    }
    return n;
}

static void time_run(const char *id, wherry_session *s, const wherry_batch *batch, struct result *r)
{
    struct batch_shape shape;
    struct error e;
    double *seconds = calloc((size_t)s->n_calls, sizeof *seconds);
    if (!session_batch(s, batch, &shape, &e) ||
        !session_run(s, &shape, WHERRY_PHASE_ALL, -1, s->graph.output, seconds, &e))
        fail_msg("%s: %s", id, e.text);
    for (int i = 0; i < s->n_calls; i++) {
        assert_true(seconds[i] >= 0 && seconds[i] < 60);
        r->seconds += seconds[i];
    }
    assert_memory_equal(s->output_storage, r->floats, (size_t)batch->sequences * HIDDEN * sizeof *r->floats);
    free(seconds);
}

static bool has_note(const wherry_session *session)
{
    const char *note;
    for (size_t i = 0; (note = wherry_session_note(session, i)); i++)
        if (strstr(note, " launches, for in one it would take ")) return true;
    return false;
}

/* One device and one model for both, since lavapipe compiles anew for each device. */
struct setup {
    const char *id;
    bool train;
    wherry_device *device;
    wherry_model *model;
};

/* Two layers, of which the second has a window. */
static void setup_open(struct setup *u)
{
    const char *id = u->id;
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 48,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2,
                                        .activation = WHERRY_ACTIVATION_GELU,
                                        .epsilon = 1e-12f,
                                        .window = 20,
                                        .global_every = 2};
    EXPECT_OK(wherry_device_open(context, id, &u->device));
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &u->model));
}

/* `less`: of a short batch in the same session; NULL: there is none. */
static struct result result_of(const struct setup *u, double max_launch_ms, struct result *less)
{
    const char *id = u->id;
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .max_sequences = 4,
                                      .dtype = WHERRY_DTYPE_F32,
                                      .pool = WHERRY_POOL_MEAN,
                                      .training = u->train ? &training : NULL,
                                      .max_launch_ms = max_launch_ms};
    struct result r = {.floats = calloc(FLOATS_MOST, sizeof *r.floats)};
    wherry_batch batch = support_batch(lengths, VOCABULARY, 2, 3), short_one = support_batch(few, VOCABULARY, 2, 3);
    wherry_session *session;
    EXPECT_OK(wherry_session_create(context, u->device, u->model, &desc, &session));
    EXPECT_OK(wherry_session_prepare(session, NULL, NULL, NULL));
    run(id, session, &batch, u->train, &r);
    r.expected = expected_launches(id, session);
    r.noted = has_note(session);
    if (!u->train && launches(id)) time_run(id, session, &batch, &r);
    if (less) {
        less->floats = calloc(FLOATS_MOST, sizeof *less->floats);
        run(id, session, &short_one, u->train, less);
        less->expected = expected_launches(id, session);
    }
    wherry_session_destroy(session);
    support_batch_free(&batch);
    support_batch_free(&short_one);
    return r;
}

static void check_same_bits(const char *id, bool train)
{
    struct setup u = {.id = id, .train = train};
    setup_open(&u);
    struct result less = {0}, one = result_of(&u, whole, NULL), other = result_of(&u, divided, &less);
    printf("%s, %s: %u whole, %u divided, %u of a short batch\n", id, train ? "training" : "inference", one.reached,
           other.reached, less.reached);
    assert_int_equal(one.count, other.count);
    assert_memory_equal(one.floats, other.floats, one.count * sizeof *one.floats);
    assert_false(one.noted);
    assert_true(other.noted == launches(id));
    if (launches(id)) {
        assert_true(other.reached > 3 * one.reached);
        assert_in_range(other.reached, other.expected, other.expected + 8);
        /* A short batch leaves out what it has no work-groups for. */
        assert_in_range(less.reached, less.expected, less.expected + 8);
        assert_true(less.reached < other.reached);
        if (is(id, "opencl") && !train) assert_int_equal(one.reached, one.expected);
    }
    free(one.floats);
    free(other.floats);
    free(less.floats);
    wherry_model_close(u.model);
    wherry_device_close(u.device);
}

static void test_inference(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) check_same_bits(devices[d], false);
}

static void test_training(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) check_same_bits(devices[d], true);
}

static void test_refused(void **state)
{
    (void)state;
    static const double wrong[] = {2e9, -2e9, NAN};
    for (size_t i = 0; i < 3; i++) {
        const char *id = devices[0];
        const wherry_model_config config = {.struct_size = sizeof config,
                                            .layers = 1,
                                            .hidden = 8,
                                            .heads = 1,
                                            .feed_forward = 8,
                                            .vocabulary = 8,
                                            .positions = 8,
                                            .token_types = 1};
        const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = 8, .max_launch_ms = wrong[i]};
        wherry_device *device;
        wherry_model *model;
        wherry_session *session;
        EXPECT_OK(wherry_device_open(context, id, &device));
        EXPECT_OK(wherry_model_create_random(context, &config, 1, &model));
        assert_int_equal(wherry_session_create(context, device, model, &desc, &session),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(wherry_last_error(context), "max_launch_ms"));
        wherry_model_close(model);
        wherry_device_close(device);
    }
}

/* ---- the cut ---- */

/* Every work-group once, in rectangles of the grid. */
static void check_cut(uint64_t groups, double pieces)
{
    const struct call call = {.kernel = "attention"};
    const struct grid grid = {(uint32_t)(groups < GRID_WIDTH ? groups : GRID_WIDTH),
                              (uint32_t)((groups + GRID_WIDTH - 1) / GRID_WIDTH), 1};
    const uint64_t all = (uint64_t)grid.x * grid.y; /* the last row is a whole one */
    const struct step step = {.call = &call, .items_most = all, .groups_most = launch_groups(all, pieces)};
    const uint32_t n = launch_count(&step, &grid);
    uint64_t next = 0;
    assert_in_range(n, 1, LAUNCHES_MOST);
    if (pieces <= LAUNCHES_MOST / 2 && groups >= 2 * pieces && groups <= GRID_WIDTH) assert_true(n >= pieces);
    for (uint32_t i = 0; i < n; i++) {
        const struct launch_part r = launch_part(&step, &grid, i);
        assert_int_equal(r.first, next);
        assert_int_equal(r.grid.z, 1);
        assert_true(r.first % GRID_WIDTH + r.grid.x <= GRID_WIDTH);
        assert_true(r.grid.y == 1 || (r.grid.x == GRID_WIDTH && r.first % GRID_WIDTH == 0));
        next += (uint64_t)r.grid.x * r.grid.y;
    }
    assert_int_equal(next, all);
}

static void test_cut(void **state)
{
    (void)state;
    static const uint64_t groups[] = {1,     2,      3, 7, 64, 1000, 6144, GRID_WIDTH - 1, GRID_WIDTH, GRID_WIDTH + 1,
                                      98304, 1000000};
    static const double pieces[] = {0, 1, 1.5, 2, 3, 17, 100, 1023, 1024, 5000, 1e30, INFINITY};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) check_cut(groups[g], pieces[p]);
}

int main(void)
{
    context = support_context(NULL, devices, &n_devices);
    if (!context || !n_devices) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_training),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
