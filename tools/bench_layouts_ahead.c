/* Compiling for `wherry bench layouts` by several processes, before anything is measured: so nothing compiles beside
 * what is timed. */
#include <math.h>

#include "bench_layouts.h"
#include "compile_jobs.h"
#include "system.h"

enum {
    AHEAD = 4,        /* of a work that a process compiles before it goes on to the next one */
    AHEAD_MOST = 4096 /* of a work */
};

static const double compiling_share = 0.4; /* of all time, where that is limited */

/* Some of what was drawn, without what the log has. */
static int some_compile(struct work *w, size_t at)
{
    uint64_t some[AHEAD];
    size_t n = 0;
    for (size_t i = at; i < at + AHEAD && i < w->n_drawn; i++)
        if (!layouts_log_find(&w->bench->log, w->name, w->drawn[i])) some[n++] = w->drawn[i];
    if (system_stopped()) return EXIT_STOPPED;
    if (!n) return EXIT_FINE;
    wherry_status status = wherry_layout_bench_measure(w->runs, some, n, layouts_progress, NULL, NULL);
    if (system_stopped()) return EXIT_STOPPED;
    return status ? tool_error(&w->bench->tool, status, w->name) : EXIT_FINE;
}

/* All works in turns: whenever the time is up, what is there is from each. */
int layouts_share_compile(struct bench *b, uint32_t share, uint32_t shares)
{
    struct work works[LAYOUT_WORKS];
    int code = EXIT_FINE, n = 0;
    for (int number = 0; number < LAYOUT_WORKS && !code; number++)
        if (layouts_work_wanted(&b->options, number)) code = layouts_work_open(b, number, &works[n++]);
    for (size_t at = (size_t)share * AHEAD; at < AHEAD_MOST && !code; at += (size_t)shares * AHEAD)
        for (int i = 0; i < n && !code; i++) code = some_compile(&works[i], at);
    while (n) layouts_work_close(&works[--n]);
    return code;
}

/* A folder of its own, for these are thousands of kernels that nobody asks for again; a run that was stopped finds it.
 */
int layouts_compile_ahead(struct bench *b)
{
    uint32_t jobs;
    int code = compile_jobs_count(&b->tool, &jobs);
    if (code || jobs < 2) return code;
    if (!b->log.path)
        return b->options.quiet ? EXIT_FINE
                                : (complain(0, "note: without --output or --log, beside which compiled kernels wait, "
                                               "one process compiles"),
                                   EXIT_FINE);
    int size = snprintf(b->kernels, sizeof b->kernels, "%s.kernels", b->log.path);
    if (size >= (int)sizeof b->kernels) return complain(EXIT_USAGE, "--log: the path is too long");
    const struct compile_jobs desc = {.what = "the layouts",
                                      .cache = b->kernels,
                                      .until = b->options.seconds > 0 ? b->begun + compiling_share * b->options.seconds
                                                                      : INFINITY};
    return compile_jobs_run(&b->tool, jobs, &desc);
}

static void kernel_remove(const char *path, void *user)
{
    (void)user;
    remove(path);
}

void layouts_ahead_remove(const struct bench *b)
{
    if (!*b->kernels) return;
    system_list(b->kernels, kernel_remove, NULL);
    remove(b->kernels);
}
