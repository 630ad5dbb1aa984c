/* The log of measurements, as processes leave it that are killed while they append: cut at every byte. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/platform.h"
#include "support.h"

enum { ENTRIES = 3, STEPS = 2 };

static struct host host;

static struct tuning_key key(void)
{
    static const uint8_t uuid[16] = {1, 2, 3};
    return tuning_key("opencl", uuid, "a device", "a driver", 7, false);
}

static struct measured entry_of(int n)
{
    struct measured m = {.verdict = WHERRY_TUNE_RIGHT, .nmse = 1e-9 * n};
    m.usual = m.other = (wherry_time){.median = 1e-3 * (n + 1), .ci_low = 9e-4, .ci_high = 2e-3, .n = 7};
    snprintf(m.work, sizeof m.work, "gemm %d", n);
    snprintf(m.use, sizeof m.use, "tile %d", n);
    return m;
}

static struct stepped step_of(int n)
{
    struct stepped m = {.session = 11, .unit = (uint64_t)n, .reference = 0.5};
    m.time = (wherry_time){.median = 0.25 * (n + 1), .ci_low = 0.1, .ci_high = 0.5, .n = 9};
    return m;
}

/* How many of the first `size` bytes' lines are whole, after the four of the header. */
static int whole_lines(const char *text, size_t size)
{
    int n = -4;
    for (size_t i = 0; i < size; i++) n += text[i] == '\n';
    return n < 0 ? 0 : n;
}

static void check_known(const struct tune_log *log, int lines)
{
    int entries = lines < ENTRIES ? lines : ENTRIES;
    for (int n = 0; n < ENTRIES; n++) {
        struct measured want = entry_of(n);
        const struct measured *got = tune_log_find(log, want.work, want.use, false);
        assert_int_equal(got != NULL, n < entries);
        if (got) assert_true(got->other.median == want.other.median && got->other.n == want.other.n);
    }
    for (int n = 0; n < STEPS; n++) {
        const struct stepped *got = tune_log_step(log, 11, (uint64_t)n);
        assert_int_equal(got != NULL, n < lines - entries);
        if (got) assert_true(got->time.median == 0.25 * (n + 1));
    }
}

/* What is whole is known, what is cut is lost, and what is added to that is found by the next process. */
static void check_cut(const char *path, const char *text, size_t size)
{
    struct tuning_key k = key();
    struct tune_log log;
    struct error e = {0};
    struct measured later = entry_of(9);
    int lines = whole_lines(text, size);
    assert_true(cache_write(path, text, size, &e));
    assert_true(tune_log_open(&log, &host, &k, false, &e));
    check_known(&log, lines);
    assert_true(tune_log_add(&log, &later, &e));
    tune_log_close(&log);
    assert_true(tune_log_open(&log, &host, &k, false, &e));
    check_known(&log, lines);
    assert_non_null(tune_log_find(&log, later.work, later.use, false));
    assert_int_equal(log.count + log.n_steps, (size_t)lines + 1);
    tune_log_close(&log);
}

static void cut_at_every_byte(void **state)
{
    struct tuning_key k = key();
    struct tune_log log;
    struct error e = {0};
    char *text, path[TUNING_PATH];
    size_t size;
    (void)state;
    assert_true(tune_log_open(&log, &host, &k, true, &e));
    for (int n = 0; n < ENTRIES; n++) {
        struct measured m = entry_of(n);
        assert_true(tune_log_add(&log, &m, &e));
    }
    struct stepped steps[STEPS] = {step_of(0), step_of(1)};
    assert_true(tune_log_add_steps(&log, steps, STEPS, &e));
    snprintf(path, sizeof path, "%s", log.path);
    tune_log_close(&log);
    assert_true(file_read(&support_host, path, 1 << 16, &text, &size, &e));
    assert_int_equal(whole_lines(text, size), ENTRIES + STEPS);
    for (size_t cut = 0; cut <= size; cut++) check_cut(path, text, cut);
    free(text);
    assert_int_equal(remove(path), 0);
}

static int make_folder(void **state)
{
    const char *at = getenv("TMPDIR");
    char folder[512];
    (void)state;
    snprintf(folder, sizeof folder, "%s/wherry-log-XXXXXX", at ? at : "/tmp");
    if (!mkdtemp(folder)) return -1;
    host = support_host;
    snprintf(host.cache_dir, sizeof host.cache_dir, "%s", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(host.cache_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(cut_at_every_byte, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
