/* How many cores a process counts on by its affinity (taskset), and a team of threads on less than the machine has.
 * Quotas of control groups: test_platform. */
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
        cmocka_unit_test(takes_one_core),
        cmocka_unit_test(shares_one_core),
        cmocka_unit_test(does_without_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
