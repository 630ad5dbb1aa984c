/* How many cores a process counts on: its affinity (taskset), the quotas of its control groups, as containers have
 * them, and a team of threads on less than the machine has. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_setaffinity */
#include <sched.h>
#endif
#include "model_files.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/platform.h"
#include "base/platform_system.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifndef __linux__

int main(void)
{
    printf("skipped: affinity and control groups are Linux's\n");
    return 77;
}

#else

/* ---- quotas ---- */

static char *root;

/* A file of the made-up mounts, with its folders. */
static void put(const char *path, const char *text)
{
    struct error e;
    char *whole = files_format("%s/%s", root, path), *slash = strrchr(whole, '/');
    *slash = 0;
    if (!folder_make(whole, &e)) fail_msg("%s", e.text);
    files_write(whole, slash + 1, text, strlen(text));
    free(whole);
}

static size_t cores_of(const char *groups)
{
    char *path = files_format("%s/groups", root);
    put("groups", groups);
    size_t cores = quota_least(path, root, 64);
    free(path);
    return cores;
}

static void second_version(void **state)
{
    (void)state;
    root = files_folder();
    assert_int_equal(cores_of("0::/\n"), 64); /* no such files */
    put("a/b/c/cpu.max", "max 100000\n");
    put("a/b/cpu.max", "350000 100000\n");
    put("a/cpu.max", "800000 100000\n");
    assert_int_equal(cores_of("0::/a/b/c\n"), 3); /* that of a group around it */
    assert_int_equal(cores_of("0::/a\n"), 8);
    assert_int_equal(cores_of("0::/a/missing/group\n"), 8);
    assert_int_equal(cores_of("0::/other\n"), 64);
    put("cpu.max", "150000 100000\n"); /* a container's own group is its root */
    assert_int_equal(cores_of("0::/\n"), 1);
    assert_int_equal(cores_of("0::/../outside\n"), 1);
    assert_int_equal(cores_of("0::/a/b/c\n"), 1);
    put("cpu.max", "20000 100000\n"); /* less than a core */
    assert_int_equal(cores_of("0::/\n"), 1);
    put("cpu.max", "not a quota\n");
    assert_int_equal(cores_of("0::/a\n"), 8);
    put("cpu.max", "");
    assert_int_equal(cores_of("0::/a\n"), 8);
    files_remove(root);
}

static void first_version(void **state)
{
    (void)state;
    root = files_folder();
    put("cpu/pod/box/cpu.cfs_quota_us", "400000\n");
    put("cpu/pod/box/cpu.cfs_period_us", "100000\n");
    put("cpu/pod/cpu.cfs_quota_us", "-1\n");
    put("cpu/pod/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_of("3:cpuset:/\n2:cpuacct,cpu:/pod/box\n"), 4);
    assert_int_equal(cores_of("2:cpu,cpuacct:/pod/box\n"), 4);
    assert_int_equal(cores_of("1:cpu:/pod/box\n0::/\n"), 4);
    assert_int_equal(cores_of("1:cpu:/pod\n"), 64);
    assert_int_equal(cores_of("1:cpuset:/pod/box\n2:cpuacct:/pod/box\n"), 64);
    put("cpu/cpu.cfs_quota_us", "200000\n"); /* without a period */
    assert_int_equal(cores_of("1:cpu:/pod\n"), 64);
    put("cpu/cpu.cfs_period_us", "100000\n"); /* a container that sees its own group as the root, by another name */
    assert_int_equal(cores_of("1:cpu:/docker/0123\n"), 2);
    put("cpu/cpu.cfs_period_us", "0\n");
    assert_int_equal(cores_of("1:cpu:/pod\n"), 64);
    files_remove(root);
}

/* No list of groups, and lines that are none. */
static void strange_lists(void **state)
{
    (void)state;
    root = files_folder();
    put("cpu.max", "100000 100000\n");
    char *missing = files_format("%s/missing", root), *long_line = malloc(20001);
    assert_int_equal(quota_least(missing, root, 64), 64);
    assert_int_equal(cores_of(""), 64);
    assert_int_equal(cores_of("0\n:\nno groups at all\n"), 64);
    memset(long_line, 'x', 20000);
    memcpy(long_line, "0::/", 4);
    long_line[20000] = 0;
    cores_of(long_line); /* its end is read as lines of their own */
    free(missing);
    free(long_line);
    files_remove(root);
}

/* ---- affinity ---- */

static void count_up(size_t thread, void *user)
{
    (void)thread;
    atomic_fetch_add((atomic_int *)user, 1);
}

/* In a process of its own, because the first answer stays. */
static int on_one_core(void)
{
    static const size_t most[] = {0, 1, 10000};
    cpu_set_t set, one;
    struct error e;
    int first = 0;
    if (sched_getaffinity(0, sizeof set, &set)) return 2;
    while (!CPU_ISSET(first, &set)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 3;
    if (core_count() != 1) return 4;
    for (int i = 0; i < 3; i++) {
        atomic_int runs = 0;
        struct workers *workers = workers_create(&files_host, most[i], &e);
        if (!workers || workers_count(workers) != 1) return 5;
        workers_run(workers, count_up, &runs);
        workers_destroy(workers);
        if (runs != 1) return 6;
    }
    return 0;
}

/* A team that was made on several cores goes on where all its threads share one. */
static int moved_to_one_core(void)
{
    cpu_set_t one;
    struct error e;
    atomic_int runs = 0;
    struct workers *workers = workers_create(&files_host, 0, &e);
    if (!workers) return 2;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 3;
    for (int i = 0; i < 100; i++) workers_run(workers, count_up, &runs);
    bool all = runs == 100 * (int)workers_count(workers);
    workers_destroy(workers);
    return all ? 0 : 4;
}

/* No thread can be made: a user who is not root has as many processes as he may. */
static int without_threads(void)
{
    const struct rlimit none = {1, 1};
    struct error e;
    atomic_int runs = 0;
    if (!geteuid() && (setgid(65534) || setuid(65534))) return 77;
    if (setrlimit(RLIMIT_NPROC, &none)) return 77;
    struct workers *workers = workers_create(&files_host, 0, &e);
    if (!workers) return 2;
    size_t count = workers_count(workers);
    workers_run(workers, count_up, &runs);
    workers_destroy(workers);
    return count == 1 && runs == 1 ? 0 : 3;
}

static void in_child(int (*run)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void takes_one_core(void **state) { (void)state, in_child(on_one_core); }
static void shares_one_core(void **state) { (void)state, in_child(moved_to_one_core); }
static void does_without_threads(void **state) { (void)state, in_child(without_threads); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_version), cmocka_unit_test(first_version),   cmocka_unit_test(strange_lists),
        cmocka_unit_test(takes_one_core), cmocka_unit_test(shares_one_core), cmocka_unit_test(does_without_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
