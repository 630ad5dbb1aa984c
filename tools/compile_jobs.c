/* Compiling by several processes of a command. */
#include "compile_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "system.h"

enum { JOBS_USUAL_MOST = 16, JOBS_MOST = 256 };

int compile_share(const struct options *options, uint32_t *share, uint32_t *shares)
{
    unsigned one, of;
    char after;
    *share = *shares = 0;
    if (!options->compile_share) return EXIT_FINE;
    if (sscanf(options->compile_share, "%u/%u%c", &one, &of, &after) != 2 || one < 1 || one > of || of > JOBS_MOST)
        return complain(EXIT_USAGE, "--compile-share %s: must be K/N, with K from 1 to N, and N up to %d",
                        options->compile_share, JOBS_MOST);
    *share = one - 1;
    *shares = of;
    return EXIT_FINE;
}

/* Through Vulkan one process compiles on all cores, and what it compiles is kept in one file; drivers for processors
 * have all cores busy, too. */
static uint32_t usual_jobs(const struct tool *tool)
{
    const wherry_device_info *info = &tool->device_info;
    struct system_host host;
    if (strncmp(info->id, "opencl:", 7) || info->type == WHERRY_DEVICE_CPU) return 1;
    system_describe(&host);
    return host.cores < 1 ? 1 : host.cores > JOBS_USUAL_MOST ? JOBS_USUAL_MOST : (uint32_t)host.cores;
}

int compile_jobs_count(const struct tool *tool, uint32_t *jobs)
{
    const struct options *options = tool->options;
    *jobs = options->jobs ? options->jobs : usual_jobs(tool);
    if (options->jobs < 2 || !strncmp(tool->device_info.id, "opencl:", 7)) return EXIT_FINE;
    return complain(EXIT_USAGE,
                    "--jobs %u: %s is no OpenCL device; through other interfaces one process compiles on all cores",
                    (unsigned)options->jobs, tool->device_info.id);
}

static long start_job(const struct options *options, const struct compile_jobs *desc, uint32_t share, uint32_t shares)
{
    char text[32];
    char **arguments = need(calloc((size_t)options->argc + 6, sizeof *arguments));
    int n = 0;
    snprintf(text, sizeof text, "%u/%u", (unsigned)share + 1, (unsigned)shares);
    for (; n < options->argc; n++) arguments[n] = options->argv[n];
    arguments[n++] = "--compile-share";
    arguments[n++] = text;
    arguments[n++] = "--quiet";
    if (desc->cache) {
        arguments[n++] = "--cache";
        arguments[n++] = (char *)desc->cache;
    }
    long process = system_start(arguments);
    free(arguments);
    return process;
}

int compile_jobs_run(const struct tool *tool, uint32_t jobs, const struct compile_jobs *desc)
{
    const struct options *options = tool->options;
    uint32_t running = 0;
    long processes[JOBS_MOST];
    for (uint32_t n = 0; n < jobs; n++) {
        processes[running] = start_job(options, desc, n, jobs);
        running += processes[running] > 0;
    }
    uint32_t failed = jobs - running;
    progress_start(options);
    bool stopped = false, asked = false;
    while (running) {
        stopped = stopped || system_stopped();
        if (!asked && (stopped || system_seconds() >= desc->until)) {
            for (uint32_t n = 0; n < running; n++) system_end(processes[n]);
            asked = true;
        }
        for (uint32_t n = 0; n < running;) {
            int code;
            if (system_ended(processes[n], &code)) {
                failed += code != EXIT_FINE && !asked;
                processes[n] = processes[--running];
            } else {
                n++;
            }
        }
        progress_show("compiling for %s: %u of %u processes at it", desc->what, (unsigned)running, (unsigned)jobs);
        if (running) system_sleep(0.02);
    }
    progress_end();
    if (stopped) return complain(EXIT_STOPPED, "interrupted; what was compiled is kept");
    if (failed && !options->quiet)
        complain(0, "warning: %u of %u compiling processes failed: their kernels are compiled one after the other",
                 (unsigned)failed, (unsigned)jobs);
    return EXIT_FINE;
}
