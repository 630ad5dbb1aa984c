/* Rungs that are measured: one that is slower than what is below it is left out, by a note that says by how much, and
 * one that is faster is taken; once for a device, its driver and its kernels, whichever process comes next; what is
 * asked for by its name is not measured; what can't be measured is left out for once; what is damaged is measured
 * again. On the reference behind the face of a GPU with matrix units, whose programs take as long as is said here. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nanosleep */

#include "base/platform.h"
#include "plan/variants.h"
#include "runtime/session.h"
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

/* ---- the face ---- */

static const struct backend *honest;
static uint32_t unmeasured;
static long slow_ns[2];      /* that a program without and with matrix units takes */
static int programs;         /* that were made */
static bool fails;           /* every program with matrix units after the check's */
static struct program *with; /* that has kernels of matrix units; there is one at a time beside others */

static const struct device_limits *face_limits(const struct backend_device *device)
{
    static struct device_limits limits;
    limits = *honest->limits(device);
    limits.cpu = false;
    limits.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_MMA);
    limits.rungs_unmeasured = unmeasured;
    limits.nvidia_sm = 80;
    limits.compute_units = 108;
    limits.shared_bytes = 49152;
    return &limits;
}

static struct program *face_create(struct backend_device *device, const struct schedule *schedule,
                                   wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    bool matrices = false;
    for (int i = 0; i < schedule->n_steps; i++)
        matrices = matrices || variant_of_rung(schedule->steps[i].kernel, RUNG_MMA);
    if (programs++ && matrices && fails) {
        (fail)(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "there is no room");
        return NULL;
    }
    struct program *made = honest->program_create(device, schedule, progress, user, info, e);
    if (matrices) with = made;
    return made;
}

static bool face_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    const struct timespec pause = {.tv_nsec = slow_ns[program == with]};
    nanosleep(&pause, NULL);
    return honest->program_run(device, program, run, e);
}

static struct backend_device *face_open(const struct host *host, size_t index, const void *external,
                                        wherry_device_info *info, struct error *e)
{
    return honest->open(host, index, external, info, e);
}

/* ---- one start: a context, a session or two ---- */

struct start {
    const char *driver, *kernels;
    uint32_t tokens; /* 0: 300 */
    bool training, twice;
    bool taken;     /* out: the rung is */
    int programs;   /* out: the check's and the measurement's */
    char note[512]; /* out: the first, "": none */
};

static void start(struct start *s)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = folder};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 64,
                                        .heads = 1,
                                        .feed_forward = 64,
                                        .vocabulary = 50,
                                        .positions = 64,
                                        .token_types = 1};
    const wherry_training_desc training = {.struct_size = sizeof training};
    const wherry_session_desc session_desc = {.struct_size = sizeof session_desc,
                                              .max_tokens = s->tokens ? s->tokens : 300,
                                              .max_length = 16,
                                              .dtype = WHERRY_DTYPE_F16,
                                              .kernels = s->kernels,
                                              .training = s->training ? &training : NULL};
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    assert_int_equal(wherry_context_create(&desc, &context), 0);
    assert_int_equal(wherry_device_open(context, "reference", &device), 0);
    honest = device->backend;
    struct backend face = *honest;
    face.limits = face_limits;
    face.program_create = face_create;
    face.program_run = face_run;
    face.open = face_open;
    device->backend = &face;
    if (s->driver) snprintf(device->info.driver, sizeof device->info.driver, "%s", s->driver);
    assert_int_equal(wherry_model_create_random(context, &config, 1, &model), 0);
    programs = 0;
    for (int i = 0; i <= s->twice; i++) {
        wherry_session *session;
        if (wherry_session_create(context, device, model, &session_desc, &session))
            fail_msg("%s", wherry_last_error(context));
        s->taken = session->device_limits.rungs & RUNG_BIT(RUNG_MMA);
        const char *note = wherry_session_note(session, 0);
        snprintf(s->note, sizeof s->note, "%s", note ? note : "");
        wherry_session_destroy(session);
    }
    s->programs = programs;
    wherry_model_close(model);
    device->backend = honest;
    wherry_device_close(device);
    wherry_context_destroy(context);
}

/* A check is a program, a measurement two. */
enum { CHECK = 1, MEASURE = 2 };

enum { MS = 1000000 };

static void expect(struct start s, bool taken, int made, const char *note)
{
    start(&s);
    if (s.taken != taken || s.programs != made) fail_msg("taken %d, %d programs: %s", s.taken, s.programs, s.note);
    if (note ? !strstr(s.note, note) : *s.note) fail_msg("note \"%s\"", s.note);
}

static int empty(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (d->d_name[0] != '.') unlink(path);
    }
    if (dir) closedir(dir);
    unmeasured = RUNG_BIT(RUNG_MMA);
    fails = false;
    slow_ns[false] = slow_ns[true] = 2 * MS;
    return 0;
}

/* ---- tests ---- */

static void test_slower(void **state)
{
    (void)state;
    slow_ns[true] = 160 * MS;
    expect((struct start){0}, false, CHECK + MEASURE, "times slower on this device");
    /* Now the kernels would be faster: what was found holds, in this process and others. */
    slow_ns[true] = 0;
    slow_ns[false] = 160 * MS;
    expect((struct start){.twice = true}, false, 0, "products by mma are left out: ");
    expect((struct start){.kernels = "mma"}, true, 0, NULL);
    expect((struct start){.driver = "another"}, true, CHECK + MEASURE, NULL);
    expect((struct start){.training = true}, true, CHECK + MEASURE, NULL);
    expect((struct start){.tokens = 64}, true, CHECK + MEASURE, NULL);
}

static void test_faster(void **state)
{
    (void)state;
    slow_ns[false] = 160 * MS;
    expect((struct start){.twice = true}, true, CHECK + MEASURE, NULL);
    slow_ns[true] = 320 * MS;
    expect((struct start){0}, true, 0, NULL);
}

/* What somebody saw to be faster on such devices is taken as it is, and what has a name. */
static void test_not_measured(void **state)
{
    (void)state;
    slow_ns[true] = 40 * MS;
    expect((struct start){.kernels = "mma"}, true, CHECK, NULL);
    unmeasured = 0;
    expect((struct start){.tokens = 301}, true, 0, NULL);
}

static void test_fails(void **state)
{
    (void)state;
    fails = true;
    slow_ns[false] = 40 * MS;
    expect((struct start){.twice = true}, false, CHECK + 2, "can't be measured: there is no room");
    fails = false;
    expect((struct start){0}, true, MEASURE, NULL);
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const results[] = {"0.5\n", "-1\n", "0\n", "nan\n", "1e99\n", "passed\n", "\n", ""};
    slow_ns[true] = 40 * MS;
    expect((struct start){0}, false, CHECK + MEASURE, "times slower");
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        char path[400] = "", text[4096];
        size_t size = 0;
        DIR *dir = opendir(folder);
        assert_non_null(dir);
        for (struct dirent *d; !*path && (d = readdir(dir));) {
            snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
            FILE *file = d->d_name[0] == '.' ? NULL : fopen(path, "rb");
            size = file ? fread(text, 1, sizeof text - 1, file) : 0;
            text[size] = 0;
            if (file) fclose(file);
            if (strncmp(text, "wherry-speed", 12)) *path = 0;
        }
        closedir(dir);
        assert_true(*path);
        char *end = strstr(text, "rows\n");
        assert_non_null(end);
        end[5] = 0;
        FILE *file = fopen(path, "wb");
        assert_true(file && fprintf(file, "%s%s0123456789abcdef\n", text, results[i]) > 0 && !fclose(file));
        expect((struct start){0}, false, MEASURE, "times slower");
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "%s", "/tmp/wherry-speed-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_slower, empty), cmocka_unit_test_setup(test_faster, empty),
        cmocka_unit_test_setup(test_not_measured, empty), cmocka_unit_test_setup(test_fails, empty),
        cmocka_unit_test_setup(test_damaged, empty)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("rung_speed", tests, NULL, NULL);
    empty(NULL);
    rmdir(folder);
    return failed;
}
