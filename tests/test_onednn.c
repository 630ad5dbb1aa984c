/* oneDNN on the host's cores: which steps it is given, how they are cut, and what its check finds, with a library made
 * up here; that the real one makes no threads and changes nothing of the caller's; and libraries that can't be used. */
#define _POSIX_C_SOURCE 200809L /* setenv, popen */
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#ifndef WHERRY_HAVE_CPU

int main(void)
{
    printf("skipped: this build has no backend for the host's cores\n");
    return 77;
}

#else

#include "backends/cpu/cpu.h"

/* The file that decides on steps, once more, with a library of our own below it. */
#define cpu_onednn_open tested_open
#define cpu_onednn_close tested_close
#define cpu_onednn_take tested_take
#define cpu_onednn_release tested_release
#define cpu_onednn_check_run tested_check_run
#define onednn_open made_open
#define onednn_close made_close
#define onednn_name made_name
#define onednn_block_create made_block_create
#define onednn_block_destroy made_block_destroy
#define onednn_block_kernel made_block_kernel
#define onednn_packed made_packed
#define onednn_scratch made_scratch
#define onednn_panel_create made_panel_create
#define onednn_panel_destroy made_panel_destroy
#define onednn_pack made_pack
#define onednn_multiply made_multiply
#define WHERRY_HAVE_ONEDNN
bool tested_open(struct backend_device *device, struct error *e);
void tested_close(struct backend_device *device);
bool tested_take(struct backend_device *device, const struct step *step, bool weight, struct cpu_step *s,
                 struct error *e);
void tested_release(struct backend_device *device, struct cpu_step *s);
bool tested_check_run(struct backend_device *device, struct error *e);
#include "backends/cpu/onednn_steps.c"

extern const struct backend backend_cpu;

/* ---- a library ---- */

enum fault { NO_FAULT, NO_KERNEL, WRONG_VALUE, OTHER_BITS, PACK_FAILS, RUN_FAILS };
static enum fault fault;

struct onednn_block {
    struct onednn_work work;
};
struct onednn_panel {
    float *packed;
};

bool made_open(const struct host *host, struct onednn **out, struct error *e)
{
    (void)host, (void)e;
    *out = (struct onednn *)(void *)&fault;
    return true;
}
void made_close(const struct host *host, struct onednn *o) { (void)host, (void)o; }
const char *made_name(const struct onednn *o) { return (void)o, "oneDNN 0.0.0"; }

struct onednn_block *made_block_create(const struct onednn *o, const struct host *host, const struct onednn_work *work,
                                       struct error *e)
{
    (void)o;
    if (fault == NO_KERNEL) return (void)fail(e, WHERRY_STATUS_UNSUPPORTED, "it has no kernel for this product"), NULL;
    struct onednn_block *b = host_alloc(host, 1, sizeof *b, e);
    if (b) b->work = *work;
    return b;
}
void made_block_destroy(const struct onednn *o, const struct host *host, struct onednn_block *b)
{
    (void)o;
    host_free(host, b);
}
const char *made_block_kernel(const struct onednn *o, const struct onednn_block *b)
{
    return (void)o, (void)b, "made up";
}
size_t made_packed(const struct onednn_block *b) { return b->work.columns * b->work.k + 1; }
size_t made_scratch(const struct onednn_block *b) { return (void)b, 5; }

struct onednn_panel *made_panel_create(const struct onednn *o, const struct onednn_block *b, float *packed)
{
    (void)o, (void)b;
    struct onednn_panel *panel = malloc(sizeof *panel);
    if (panel) panel->packed = packed;
    return panel;
}
void made_panel_destroy(const struct onednn *o, struct onednn_panel *panel)
{
    (void)o;
    free(panel);
}

int made_pack(const struct onednn *o, const struct onednn_block *b, const float *w, struct onednn_panel *panel)
{
    const struct onednn_work *work = &b->work;
    (void)o;
    for (size_t n = 0; n < work->columns; n++)
        for (size_t k = 0; k < work->k; k++) panel->packed[n * work->k + k] = w[k * work->w_step + n * work->w_row];
    return fault == PACK_FAILS;
}

int made_multiply(const struct onednn *o, const struct onednn_block *b, int size, const struct onednn_operands *at)
{
    const struct onednn_work *work = &b->work;
    (void)o;
    memset(at->scratch, 0xff, 5 * sizeof *at->scratch);
    for (size_t r = 0; r < onednn_rows(size); r++)
        for (size_t n = 0; n < work->columns; n++) {
            float sum = work->bias ? at->bias[n] : 0.0f;
            for (size_t k = 0; k < work->k; k++) sum += at->x[r * work->x_row + k] * at->w->packed[n * work->k + k];
            if (work->activation == ACTIVATION_RELU && sum < 0) sum = 0;
            if (work->residual) sum += at->residual[r * work->y_row + n];
            if (fault == WRONG_VALUE && r + 1 == ONEDNN_ROWS_MOST && n + 1 == work->columns) sum += 0.01f;
            if (fault == OTHER_BITS && size == 2 && r == 3) sum *= 1 + 0x1p-22f;
            at->y[r * work->y_row + n] = sum;
        }
    return fault == RUN_FAILS;
}

#include <cmocka.h> /* whose fail() hides the library's */

/* ---- a step of it ---- */

enum { MOST_ROWS = 300, MOST_N = 150, MOST_K = 40, GUARD = 64 };

struct shape {
    uint32_t n, k, form, x_stride, y_stride, bias, residual, activation;
};
static const struct shape shapes[] = {{150, 40, GEMM_NT, 0, 0, 1, 0, ACTIVATION_RELU},
                                      {64, 17, GEMM_NN, 0, 0, 0, 1, ACTIVATION_NONE},
                                      {75, 9, GEMM_NT, 31, 100, 1, 1, ACTIVATION_RELU},
                                      {3, 1, GEMM_NN, 0, 0, 0, 0, ACTIVATION_NONE}};

static float x[MOST_ROWS * MOST_K + GUARD], w[MOST_N * MOST_K], bias[MOST_N], residual[MOST_ROWS * MOST_N],
    y[MOST_ROWS * MOST_N + GUARD];
static uint32_t header[64];

static struct call call_make(const struct shape *z)
{
    struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
    const uint32_t values[][2] = {{CONST_N, z->n},
                                  {CONST_K, z->k},
                                  {CONST_ROWS, HEADER_TOKENS},
                                  {CONST_FORM, z->form},
                                  {CONST_X_STRIDE, z->x_stride},
                                  {CONST_Y_STRIDE, z->y_stride},
                                  {CONST_BIAS, z->bias},
                                  {CONST_RESIDUAL, z->residual},
                                  {CONST_ACTIVATION, z->activation}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][1]) call_set(&call, (uint8_t)values[i][0], values[i][1]);
    return call;
}

/* As cpu_step_resolve makes it. */
static struct cpu_step step_make(const struct shape *z, size_t threads)
{
    struct cpu_step s = {.batch = header, .threads = threads};
    const struct call call = call_make(z);
    for (int i = 0; i < call.n_constants; i++) s.value[call.constants[i].id] = call.constants[i].value;
    s.at[SLOT_X] = x, s.at[SLOT_W] = w, s.at[SLOT_BIAS] = bias, s.at[SLOT_RESIDUAL] = residual, s.at[SLOT_Y] = y;
    return s;
}

static struct backend_device *device_open(void)
{
    struct error e;
    wherry_device_info info;
    struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
    assert_non_null(device);
    return device;
}

static void device_close(struct backend_device *device)
{
    tested_close(device);
    backend_cpu.close(device);
}

static bool take(struct backend_device *device, const struct shape *z, struct cpu_step *s)
{
    const struct call call = call_make(z);
    const struct step step = {.name = "product", .kernel = "gemm", .call = &call};
    struct error e;
    if (!tested_take(device, &step, true, s, &e)) fail_msg("%s", e.text);
    return s->onednn != NULL;
}

static float expected(const struct shape *z, size_t r, size_t n)
{
    float sum = z->bias ? bias[n] : 0.0f;
    size_t x_row = z->x_stride ? z->x_stride : z->k, y_row = z->y_stride ? z->y_stride : z->n;
    for (size_t k = 0; k < z->k; k++)
        sum += x[r * x_row + k] * (z->form == GEMM_NT ? w[n * z->k + k] : w[k * z->n + n]);
    if (z->activation == ACTIVATION_RELU && sum < 0) sum = 0;
    return z->residual ? sum + residual[r * y_row + n] : sum;
}

static void run_rows(const struct shape *z, const struct cpu_step *s, float *scratch, uint32_t rows)
{
    size_t y_row = z->y_stride ? z->y_stride : z->n;
    header[HEADER_TOKENS] = rows;
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) y[i] = -7.0f;
    for (size_t item = 0; item < s->how->items(s); item++) s->how->run(s, item, scratch);
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        size_t r = i / y_row, n = i % y_row;
        float want = r < rows && n < z->n ? expected(z, r, n) : -7.0f;
        if (y[i] != want)
            fail_msg("%ux%u, %u rows: row %zu, column %zu is %g, not %g", z->n, z->k, rows, r, n, y[i], want);
    }
}

/* Every number of rows is computed whole, once and nowhere else, whatever the number of threads. */
static void test_steps(void **state)
{
    (void)state;
    static const uint32_t rows[] = {0, 1, 5, 6, 7, 13, 20, 25, 33, 47, 63, 95, 97, 191, 192, 193, 300};
    fault = NO_FAULT;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t threads = 1; threads <= 9; threads += 4) {
            struct backend_device *device = device_open();
            struct cpu_step s = step_make(&shapes[i], threads);
            size_t panels;
            assert_true(take(device, &shapes[i], &s));
            assert_string_equal(s.note, "oneDNN 0.0.0, made up, each call on one thread");
            float *scratch = malloc(s.how->scratch(&s) * sizeof *scratch), *packed = malloc(s.how->packed(&s, &panels));
            for (int again = 0; again < 2; again++) { /* a weight that was written is packed once more */
                for (size_t k = 0; k < sizeof w / sizeof *w; k++) w[k] = -w[k];
                for (size_t p = 0; p < panels; p++) s.how->pack(&s, p, packed);
                for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) run_rows(&shapes[i], &s, scratch, rows[k]);
            }
            tested_release(device, &s);
            device_close(device);
            free(scratch);
            free(packed);
        }
}

/* What is wrong with a product leaves it to the kernel that was there, and says so. */
static void test_check(void **state)
{
    (void)state;
    static const struct {
        enum fault fault;
        const char *why;
    } cases[] = {{NO_KERNEL, "it has no kernel for this product"},
                 {WRONG_VALUE, "a product is wrong"},
                 {OTHER_BITS, "a row's bits change with the number of rows"},
                 {PACK_FAILS, "it does not pack a weight"},
                 {RUN_FAILS, "it fails in a product"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct backend_device *device = device_open();
        struct cpu_step s = step_make(&shapes[0], 1);
        fault = cases[i].fault;
        assert_false(take(device, &shapes[0], &s));
        assert_null(s.how);
        assert_non_null(strstr(s.note, "own kernel, because of oneDNN 0.0.0: "));
        assert_non_null(strstr(s.note, cases[i].why));
        device_close(device);
    }
    fault = NO_FAULT;
}

/* A call that fails in a run fails the run, and only that one. */
static void test_failure(void **state)
{
    (void)state;
    struct error e;
    struct backend_device *device = device_open();
    struct cpu_step s = step_make(&shapes[3], 1);
    size_t panels;
    assert_true(take(device, &shapes[3], &s));
    float *scratch = malloc(s.how->scratch(&s) * sizeof *scratch), *packed = malloc(s.how->packed(&s, &panels));
    header[HEADER_TOKENS] = 5;
    for (int step = 0; step < 2; step++) {
        assert_true(tested_check_run(device, &e));
        fault = step ? RUN_FAILS : PACK_FAILS;
        s.how->pack(&s, 0, packed);
        s.how->run(&s, 0, scratch);
        fault = NO_FAULT;
        assert_false(tested_check_run(device, &e));
        assert_non_null(strstr(e.text, "oneDNN 0.0.0 failed in a product: status 1"));
    }
    assert_true(tested_check_run(device, &e));
    tested_release(device, &s);
    device_close(device);
    free(scratch);
    free(packed);
}

/* Calls that it is not given, each with its reason. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        uint8_t constant;
        uint32_t value;
        bool weight;
        const char *why;
    } cases[] = {{CONST_SUM, 1, true, "one result"},
                 {CONST_DROPOUT, 1, true, "drop"},
                 {CONST_DERIVATIVE, ACTIVATION_RELU, true, "derivatives"},
                 {CONST_COLUMN_SUMS, 1, true, "sums no columns"},
                 {CONST_FORM, GEMM_TN, true, "gradients of weights"},
                 {CONST_RUNTIME, RUNTIME_N, true, "channel-major"},
                 {CONST_N, 64, false, "written while steps run"}};
    struct backend_device *device = device_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cpu_step s = step_make(&shapes[0], 1);
        struct call call = call_make(&shapes[0]);
        struct error e;
        call_set(&call, cases[i].constant, cases[i].value);
        const struct step step = {.name = "product", .kernel = "gemm", .call = &call};
        assert_true(tested_take(device, &step, cases[i].weight, &s, &e));
        assert_null(s.onednn);
        if (!s.note || !strstr(s.note, cases[i].why)) fail_msg("\"%s\" does not say \"%s\"", s.note, cases[i].why);
    }
    device_close(device);
}

/* ---- sessions ---- */

enum { TOKENS = 200, HIDDEN = 48, THREADS = 3 };

static wherry_context *context;
static wherry_device *opened;
static wherry_model *model;

static wherry_status session_open(const char *device_id, wherry_dtype dtype, uint32_t threads, wherry_session **session)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = "", .threads = threads};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 130,
                                        .vocabulary = 97,
                                        .positions = 128,
                                        .token_types = 2};
    const wherry_session_desc session_desc = {
        .struct_size = sizeof session_desc, .max_tokens = TOKENS, .dtype = dtype, .kernels = "onednn"};
    *session = NULL;
    opened = NULL;
    model = NULL;
    wherry_status status = wherry_context_create(&desc, &context);
    if (!status) status = wherry_device_open(context, device_id, &opened);
    if (!status) status = wherry_model_create_random(context, &config, 3, &model);
    if (!status) status = wherry_session_create(context, opened, model, &session_desc, session);
    return status;
}

static void session_close(wherry_session *session)
{
    wherry_session_destroy(session);
    wherry_model_close(model);
    wherry_device_close(opened);
    wherry_context_destroy(context);
}

static void test_devices(void **state)
{
    (void)state;
    wherry_session *session;
    assert_int_equal(session_open("reference", WHERRY_DTYPE_F32, 1, &session), WHERRY_STATUS_UNSUPPORTED);
    assert_non_null(strstr(wherry_last_error(context), "oneDNN runs on the device cpu"));
    session_close(session);
}

static int tasks_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    if (!tasks) return -1;
    for (const struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static int openmp_threads(void)
{
    static const char *const names[] = {"", "libgomp.so.1", NULL};
    library_function found = library_find(names, "omp_get_max_threads");
    int (*get)(void) = NULL;
    memcpy(&get, &found, sizeof get);
    return get ? get() : -1;
}

/* With OpenMP's number of threads at eight, its library makes none: there are the team's, and the caller's number of
 * threads is what it was. */
static void test_threads(void **state)
{
    (void)state;
    const uint32_t lengths[] = {90, 1, 64, 33, 0};
    float out[4 * HIDDEN];
    wherry_batch batch = support_batch(lengths, 97, 2, 1);
    wherry_session *session;
    int alone = tasks_count();
    if (session_open("cpu", WHERRY_DTYPE_F32, THREADS, &session)) fail_msg("%s", wherry_last_error(context));
    int team = tasks_count(), told = 0, taken = 0;
    if (wherry_session_prepare(session, NULL, NULL, NULL)) {
        print_message("skipped: %s\n", wherry_last_error(context));
        session_close(session);
        support_batch_free(&batch);
        skip();
    }
    assert_in_range(team - alone, 0, THREADS - 1);
    for (int i = 0; i < 3; i++) assert_int_equal(wherry_encode(session, &batch, out, 4 * HIDDEN), 0);
    assert_int_equal(tasks_count(), team);
    assert_int_equal(openmp_threads(), 8);
    for (size_t i = 0; wherry_session_note(session, i); i++) {
        told += strstr(wherry_session_note(session, i), "oneDNN ") != NULL;
        taken += strstr(wherry_session_note(session, i), ": oneDNN ") != NULL;
    }
    assert_int_equal(told, 4); /* qkv, out, lin1, lin2 */
    print_message("oneDNN runs %d of 4 products\n", taken);
    session_close(session);
    support_batch_free(&batch);
}

/* ---- libraries that can't be used ---- */

#ifdef FAKE_ONEDNN

#include <oneapi/dnnl/dnnl_version.h>

#define TEXT_OF_NAME(name) TEXT_OF_VALUE(name)
#define TEXT_OF_VALUE(value) #value
#define MAJOR "libdnnl.so." TEXT_OF_NAME(DNNL_VERSION_MAJOR)

static const char *program;

/* What this program's `prepare` says where a library is called as oneDNN is. */
static void check_sentence(const char *target, int major, unsigned runtime, const char *part)
{
    static const char *const names[] = {FAKE_NAME, MAJOR, MAJOR "." TEXT_OF_NAME(DNNL_VERSION_MINOR)};
    char folder[] = "/tmp/wherry-onednn-XXXXXX", path[128], command[1024], said[1024] = "";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
        assert_int_equal(symlink(target, path), 0);
    }
    snprintf(command, sizeof command, "LD_LIBRARY_PATH='%s' FAKE_ONEDNN='%d.8.1 %u' '%s' prepare", folder, major,
             runtime, program);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    size_t length = fread(said, 1, sizeof said - 1, output);
    said[length] = 0;
    int code = pclose(output);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    if (code || !strstr(said, part)) fail_msg("\"%s\" (%d) does not say \"%s\"", said, code, part);
}

static void test_unusable(void **state)
{
    (void)state;
    check_sentence("/dev/null", 0, 0, "oneDNN can't be loaded: the system finds no usable libdnnl.so.");
    check_sentence(FAKE_ONEDNN, 5 - DNNL_VERSION_MAJOR, 2, ".8.1, and this build knows the functions of oneDNN ");
    check_sentence(FAKE_ONEDNN, DNNL_VERSION_MAJOR, 4, "was built with threads (4 of its DNNL_RUNTIME_)");
    check_sentence(FAKE_ONEDNN, DNNL_VERSION_MAJOR, 1, ".8.1, has no dnnl_");
}

#else

static const char *program;

static void test_unusable(void **state)
{
    (void)state;
    wherry_session *session;
    assert_int_equal(session_open("cpu", WHERRY_DTYPE_F32, 1, &session), 0);
    assert_int_equal(wherry_session_prepare(session, NULL, NULL, NULL), WHERRY_STATUS_UNSUPPORTED);
    assert_non_null(strstr(wherry_last_error(context), "this build has no oneDNN"));
    session_close(session);
}

#endif

/* For test_unusable: the sentence of a session that can't be prepared. */
static int prepare(void)
{
    wherry_session *session;
    if (session_open("cpu", WHERRY_DTYPE_F32, 1, &session) ||
        wherry_session_prepare(session, NULL, NULL, NULL) != WHERRY_STATUS_UNSUPPORTED)
        return 1;
    printf("%s\n", wherry_last_error(context));
    session_close(session);
    return 0;
}

int main(int argc, char **argv)
{
    program = argv[0];
    setenv("OMP_NUM_THREADS", "8", 1); /* before its library is loaded */
    if (argc > 1 && !strcmp(argv[1], "prepare")) return prepare();
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((i * 37) % 101) * 0.02f - 1;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++) w[i] = (float)((i * 53) % 89) * 0.02f - 0.9f;
    for (size_t i = 0; i < sizeof bias / sizeof *bias; i++) bias[i] = (float)(i % 7) * 0.1f;
    for (size_t i = 0; i < sizeof residual / sizeof *residual; i++) residual[i] = (float)(i % 11) * 0.3f - 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),    cmocka_unit_test(test_check),   cmocka_unit_test(test_failure),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_devices), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_unusable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
