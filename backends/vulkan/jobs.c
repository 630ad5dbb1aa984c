/* Pipelines that may end the process: made in a process apart, or with a guard. */
#include "jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/guard.h"
#include "backends/quirks.h"
#include "base/index.h"
#include "base/text.h"

/* ---- the guard ---- */

uint64_t jobs_driver(const struct backend_device *d)
{
    const struct physical *p = &d->physical;
    uint64_t hash = hash_bytes(HASH_START, &p->device, sizeof p->device);
    hash = hash_bytes(hash, &p->driver_version, sizeof p->driver_version);
    return hash_bytes(hash_text(hash, p->info.driver), p->cache_uuid, sizeof p->cache_uuid);
}

uint64_t job_guard_key(const struct job *job)
{
    const struct pipeline *p = &job->pipeline;
    struct embedded_kernel kernel;
    struct kernel_program program;
    vulkan_kernel(p->kernel, &kernel);
    vulkan_program(&job->d->physical.limits, job->d->physical.size_chosen, &kernel, p->constants, p->n_constants,
                   &program);
    const uint64_t driver = jobs_driver(job->d), made = kernel_program_hash(&program);
    return hash_bytes(hash_bytes(HASH_START, &made, sizeof made), &driver, sizeof driver) | 1;
}

int jobs_suspects(struct job *jobs, int first, int end, void (*make)(struct job *job))
{
    for (int i = first; i < end; i++) {
        struct job *job = &jobs[i];
        const struct host *host = job->d->host;
        if (!job->guarding) continue;
        enum guard_state state = guard_state(host, job_guard_key(job), job->crashed);
        if (state != GUARD_REFUSED) job->crashed[0] = 0;
        if (state == GUARD_REFUSED) {
            job->result = VK_ERROR_UNKNOWN;
            job->tried = true;
            return i;
        } else if (state == GUARD_SUSPECT || job->guarding == GUARDED_ALONE) {
            job->guarding = GUARDED_ALONE;
            job->tried = true;
            make(job);
        }
    }
    return end;
}

/* ---- a process apart ---- */

static struct apart apart_of(const struct backend_device *d)
{
    return (struct apart){.host = d->host,
                          .device = d->listed,
                          .driver = jobs_driver(d),
                          .always = d->physical.limits.quirks & QUIRK_COMPILE_GUARDED};
}

enum { FORM_BYTES = CALL_MAX_CONSTANTS * 16 };

/* "12:256 3:768 ...": the call's constants, by which a pipeline is known. */
static void form_write(const struct pipeline *p, char text[FORM_BYTES])
{
    struct text_writer t = text_begin(text, FORM_BYTES);
    for (int i = 0; i < p->n_constants; i++)
        text_add(&t, "%s%u:%" PRIu32, i ? " " : "", (unsigned)p->constants[i].id, p->constants[i].value);
}

static void program_write(const struct job *job, char *form, struct apart_program *out)
{
    struct embedded_kernel kernel;
    vulkan_kernel(job->pipeline.kernel, &kernel);
    snprintf(out->kernel, sizeof out->kernel, "%.50s:%s", kernel.name, storage_name(kernel.type));
    out->code = kernel.hash;
    out->form = form;
    form_write(&job->pipeline, form);
}

/* NULL: out of memory. */
static struct apart_program *programs_list(const struct backend_device *d, const struct job *jobs, int n, bool missing,
                                           char **forms, size_t *count, struct error *e)
{
    struct apart_program *programs = host_alloc(d->host, (size_t)n, sizeof *programs, e);
    *count = 0;
    *forms = host_alloc(d->host, (size_t)n, FORM_BYTES, e);
    for (int i = 0; programs && *forms && i < n; i++)
        if (!missing || !key_known(&d->pipelines, jobs[i].pipeline.key)) {
            program_write(&jobs[i], *forms + *count * FORM_BYTES, &programs[*count]);
            ++*count;
        }
    if (programs && *forms) return programs;
    host_free(d->host, programs);
    host_free(d->host, *forms);
    return NULL;
}

bool jobs_apart(struct backend_device *d, struct job *jobs, int n, wherry_progress progress, void *user,
                struct error *e)
{
    const struct apart apart = apart_of(d);
    size_t count;
    char *forms;
    struct apart_program *programs = programs_list(d, jobs, n, true, &forms, &count, e);
    if (!programs) return false;
    enum apart_way way = apart_compile(&apart, programs, count, progress, user, e);
    host_free(d->host, programs);
    host_free(d->host, forms);
    if (way == APART_FAILED) return false;
    for (int i = 0; i < n; i++) {
        jobs[i].apart = way == APART_COMPILED && !key_known(&d->pipelines, jobs[i].pipeline.key);
        jobs[i].guarding = way == APART_PLAIN ? UNGUARDED : apart.always ? GUARDED_ALONE : GUARDED;
    }
    return way != APART_COMPILED || pipeline_cache_refresh(d, e);
}

void jobs_learn(struct backend_device *d, const struct job *jobs, int n)
{
    const struct apart apart = apart_of(d);
    struct error ignored;
    size_t count;
    char *forms;
    if (!n || !jobs[0].guarding || d->host->teller) return;
    struct apart_program *programs = programs_list(d, jobs, n, false, &forms, &count, &ignored);
    if (!programs) return;
    apart_learn(&apart, programs, count);
    host_free(d->host, programs);
    host_free(d->host, forms);
}
