/* In a process apart: pipelines that another process listed (jobs.c) are made, and kept in the cache. */
#include "jobs.h"

#include <stdlib.h>
#include <string.h>

static bool form_read(const char *text, struct call_constant *constants, int *count)
{
    for (*count = 0; *text; (*count)++) {
        char *end, *rest;
        unsigned long id = strtoul(text, &end, 10);
        if (*count == CALL_MAX_CONSTANTS || end == text || *end != ':' || id > UINT8_MAX) return false;
        unsigned long long value = strtoull(end + 1, &rest, 10);
        if (rest == end + 1 || value > UINT32_MAX) return false;
        constants[*count].id = (uint8_t)id;
        constants[*count].value = (uint32_t)value;
        text = *rest == ' ' ? rest + 1 : rest;
        if (*rest && *rest != ' ') return false;
    }
    return true;
}

/* "gemm:f16 12:256 ..." as a job. False: this build has no such kernel, or it can't be read. */
static bool job_read(struct backend_device *d, const struct apart_program *program, struct job *job)
{
    char name[sizeof program->kernel];
    struct call_constant constants[CALL_MAX_CONSTANTS];
    int n = 0;
    size_t kernel;
    memcpy(name, program->kernel, sizeof name);
    char *colon = strchr(name, ':');
    if (!colon) return false;
    *colon = 0;
    enum storage type = STORAGE_F32;
    while (type < STORAGE_BF16 && strcmp(colon + 1, storage_name(type))) type++;
    if (!vulkan_kernel_find(name, type, &kernel) || !form_read(program->form, constants, &n)) return false;
    *job = (struct job){.d = d, .pipeline = pipeline_describe(kernel, constants, n)};
    return true;
}

bool vulkan_compile(struct backend_device *d, uint64_t driver, const struct apart_program *programs, size_t count,
                    struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    struct program_info info = {0};
    int n = 0;
    if (driver != jobs_driver(d))
        return fail(e, WHERRY_STATUS_NO_DEVICE, "%s is not the device that kernels are to be compiled for: %s",
                    d->listed, d->physical.info.name);
    struct job *jobs = host_alloc(d->host, count, sizeof *jobs, e);
    struct pipeline *grown =
        jobs ? host_grow(d->host, store->list, (size_t)store->count, (size_t)store->count + count, sizeof *grown, e)
             : NULL;
    if (grown) store->list = grown;
    for (size_t i = 0; grown && i < count; i++) n += job_read(d, &programs[i], &jobs[n]);
    bool ok = grown && jobs_run(d, jobs, n, NULL, NULL, &info, e);
    if (ok) pipeline_cache_save(d);
    host_free(d->host, jobs);
    return ok;
}
