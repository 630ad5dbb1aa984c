/* Makes pipelines in parallel; what the driver compiled is kept on disk (pipeline_cache.c). */
#include "jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/guard.h"
#include "backends/occupancy.h"
#include "backends/quirks.h"
#include "base/index.h"
#include "base/parts.h"
#include "base/platform.h"
#include "base/text.h"
#include "interface/interface.h"
#include "interface/roof.h"
#include "plan/device_class.h"
#include "plan/launches.h"

/* ---- keys ---- */

/* Of all embedded kernels. */
static uint64_t kernels_hash(void)
{
    uint64_t hash = HASH_START;
    struct embedded_kernel kernel;
    for (size_t i = 0; vulkan_kernel(i, &kernel); i++) {
        unsigned char type = (unsigned char)kernel.type;
        hash = hash_bytes(hash, kernel.name, strlen(kernel.name) + 1);
        hash = hash_bytes(hash, &type, 1);
        hash = hash_bytes(hash, &kernel.hash, sizeof kernel.hash);
    }
    return hash;
}

uint64_t vulkan_kernels(const struct backend_device *d) { return d->pipelines.kernels; }

struct pipeline pipeline_describe(size_t kernel, const struct call_constant *constants, int n_constants)
{
    struct pipeline p = {.kernel = kernel, .n_constants = n_constants};
    struct embedded_kernel embedded;
    vulkan_kernel(kernel, &embedded);
    unsigned char type = (unsigned char)embedded.type;
    p.key = hash_bytes(HASH_START, embedded.name, strlen(embedded.name) + 1);
    p.key = hash_bytes(p.key, &type, 1);
    for (int i = 0; i < n_constants; i++) {
        p.constants[i] = constants[i];
        p.key = hash_bytes(p.key, &constants[i].id, sizeof constants[i].id);
        p.key = hash_bytes(p.key, &constants[i].value, sizeof constants[i].value);
    }
    return p;
}

static bool pipeline_equal(const struct pipeline *a, const struct pipeline *b)
{
    if (a->key != b->key || a->kernel != b->kernel || a->n_constants != b->n_constants) return false;
    for (int i = 0; i < a->n_constants; i++) {
        if (a->constants[i].id != b->constants[i].id || a->constants[i].value != b->constants[i].value) return false;
    }
    return true;
}

bool pipelines_open(struct backend_device *d, struct error *e)
{
    d->pipelines.kernels = kernels_hash();
    return pipeline_cache_open(d, e);
}

void pipelines_close(struct backend_device *d)
{
    struct pipeline_store *store = &d->pipelines;
    for (int i = 0; i < store->count; i++) d->vk.DestroyPipeline(d->handle, store->list[i].handle, NULL);
    store->count = 0;
    if (store->cache) d->vk.DestroyPipelineCache(d->handle, store->cache, NULL);
    store->cache = VK_NULL_HANDLE;
}

/* ---- making pipelines ---- */

static void job_run(struct job *job)
{
    struct backend_device *d = job->d;
    struct pipeline *p = &job->pipeline;
    struct embedded_kernel kernel;
    struct kernel_program program;
    vulkan_kernel(p->kernel, &kernel);
    vulkan_program(&d->physical.limits, d->physical.size_chosen, &kernel, p->constants, p->n_constants, &program);
    const uint64_t guarded = job->guarding ? job_guard_key(job) : 0;
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = kernel.size,
        .pCode = (const uint32_t *)(const void *)kernel.data,
    };
    VkShaderModule module;
    job->result = d->vk.CreateShaderModule(d->handle, &module_info, NULL, &module);
    if (job->result != VK_SUCCESS) return;

    VkSpecializationMapEntry entries[CALL_MAX_CONSTANTS + 1];
    for (int i = 0; i < program.n_constants; i++)
        entries[i] =
            (VkSpecializationMapEntry){program.ids[i], (uint32_t)(i * sizeof *program.values), sizeof *program.values};
    const VkSpecializationInfo constants = {.mapEntryCount = (uint32_t)program.n_constants,
                                            .pMapEntries = entries,
                                            .dataSize = (size_t)program.n_constants * sizeof *program.values,
                                            .pData = program.values};
    VkPipelineCreationFeedback whole = {0}, stage = {0};
    VkPipelineCreationFeedbackCreateInfo feedback = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pPipelineCreationFeedback = &whole,
        .pipelineStageCreationFeedbackCount = 1,
        .pPipelineStageCreationFeedbacks = &stage,
    };
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = program.subgroup_size,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .pNext = d->physical.feedback ? &feedback : NULL,
        .flags = job->asked ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0u,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = program.subgroup_size ? &subgroup : NULL,
                .flags = program.full_subgroups ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
                .pSpecializationInfo = &constants,
            },
        .layout = d->pipeline_layout,
        .basePipelineIndex = -1,
    };
    if (guarded) guard_begin(d->host, kernel.name, guarded, job->guarding == GUARDED_ALONE);
    job->result = d->vk.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, &p->handle);
    if (guarded) guard_end(d->host, guarded);
    if (job->result != VK_SUCCESS) p->handle = VK_NULL_HANDLE;
    if (p->handle && job->asked) {
        statistics_read(d, p->handle, &p->usage);
        p->told = true;
    }
    job->told = whole.flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
    job->hit = job->told && whole.flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    d->vk.DestroyShaderModule(d->handle, module, NULL);
}

static void job_make(struct job *job)
{
    struct embedded_kernel kernel;
    vulkan_kernel(job->pipeline.kernel, &kernel);
    job_run(job);
    apart_tell(job->d->host, kernel.name);
}

static void job_run_nth(size_t item, void *user)
{
    struct job *job = (struct job *)user + item;
    if (!job->tried) job_make(job);
}

/* Whether to believe this driver's feedback where it calls a pipeline of the cache new. Not from a driver that stored
 * nothing (lavapipe: it compiles at the first dispatch, and keeps that elsewhere), and not from one that never speaks
 * of hits: that shows when a pipeline is made again that the cache holds for certain. */
static bool feedback_tells(struct backend_device *d, const struct pipeline *made)
{
    struct pipeline_store *store = &d->pipelines;
    if (store->feedback == FEEDBACK_UNKNOWN && store->empty) store->feedback = FEEDBACK_SILENT;
    if (store->feedback == FEEDBACK_UNKNOWN) {
        struct job again = {.d = d, .pipeline = *made};
        again.pipeline.handle = VK_NULL_HANDLE;
        job_run(&again);
        store->feedback = again.hit ? FEEDBACK_TELLS : FEEDBACK_SILENT;
        if (again.pipeline.handle) d->vk.DestroyPipeline(d->handle, again.pipeline.handle, NULL);
    }
    return store->feedback == FEEDBACK_TELLS;
}

/* The driver's word, where it has one; else the list of keys that was stored with the driver's data. */
static bool job_compiled(const struct job *job)
{
    if (job->apart) return true;
    if (job->hit) return false;
    if (!key_known(&job->d->pipelines, job->pipeline.key)) return true;
    return job->told && feedback_tells(job->d, &job->pipeline);
}

static bool keys_add(struct backend_device *d, uint64_t key, struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    if (key_known(store, key)) return true;
    uint64_t *grown = host_grow(d->host, store->keys, store->n_keys, store->n_keys + 1, sizeof *grown, e);
    if (!grown) return false;
    store->keys = grown;
    grown[store->n_keys++] = key;
    return true;
}

static bool step_kernel(const struct step *step, size_t *index, struct error *e)
{
    return vulkan_kernel_find(step->kernel, step_type(step), index) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "Vulkan: %s: this build has no kernel \"%s\" for %s", step->name,
                step->kernel, storage_name(step_type(step)));
}

/* The distinct pipelines that the store lacks, as jobs. */
static bool jobs_collect(struct backend_device *d, const struct schedule *schedule, int *of_step, struct job *jobs,
                         int *n_jobs, struct error *e)
{
    const struct pipeline_store *store = &d->pipelines;
    const bool asked = d->physical.statistics && d->host->compile_only;
    *n_jobs = 0;
    for (int s = 0; s < schedule->n_steps; s++) {
        const struct step *step = &schedule->steps[s];
        size_t kernel;
        TRY(step_kernel(step, &kernel, e));
        struct pipeline wanted = pipeline_describe(kernel, step->call->constants, step->call->n_constants);
        int i = 0;
        while (i < store->count && !pipeline_equal(&store->list[i], &wanted)) i++;
        if (i == store->count) {
            int j = 0;
            while (j < *n_jobs && !pipeline_equal(&jobs[j].pipeline, &wanted)) j++;
            if (j == *n_jobs) jobs[(*n_jobs)++] = (struct job){.d = d, .pipeline = wanted, .asked = asked};
            i = store->count + j;
        }
        of_step[s] = i;
    }
    return true;
}

/* Moves finished pipelines of jobs first to end - 1 into the store, which has room. */
static bool jobs_take(struct backend_device *d, struct job *jobs, int first, int end, struct program_info *info,
                      struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    bool ok = true;
    for (int i = first; i < end; i++) {
        struct job *job = &jobs[i];
        struct embedded_kernel kernel;
        vulkan_kernel(job->pipeline.kernel, &kernel);
        if (job->result == VK_SUCCESS) {
            if (job_compiled(job)) info->compiled++;
            store->list[store->count++] = job->pipeline;
            device_name(d, VK_OBJECT_TYPE_PIPELINE, (uint64_t)job->pipeline.handle, kernel.name);
            ok = ok && keys_add(d, job->pipeline.key, e);
        } else if (d->host->teller && job->result != VK_ERROR_DEVICE_LOST) {
            continue; /* whoever runs it hears of it */
        } else if (ok && job->crashed[0]) {
            ok = guard_fail(kernel.name, job->crashed, e);
        } else if (ok) {
            if (job->result == VK_ERROR_DEVICE_LOST) d->lost = true;
            ok = fail_result(e, job->result, "%s: compiling kernel \"%s\" (%s)", d->physical.info.name, kernel.name,
                             storage_name(kernel.type));
            if (e->status == WHERRY_STATUS_UNSUPPORTED) e->status = WHERRY_STATUS_COMPILE_FAILED;
        }
    }
    return ok;
}

/* What was made is kept, and the one that is refused fails. */
static bool round_refused(struct backend_device *d, struct job *jobs, int first, int refused, struct program_info *info,
                          struct error *e)
{
    for (int i = first; i < refused; i++)
        if (jobs[i].tried) TRY(jobs_take(d, jobs, i, i + 1, info, e));
    return jobs_take(d, jobs, refused, refused + 1, info, e);
}

/* Rounds, so that the caller hears of progress and can cancel; wide enough to keep many cores busy. */
static bool jobs_run_rounds(struct backend_device *d, struct job *jobs, int n, size_t missing, wherry_progress progress,
                            void *user, struct program_info *info, struct error *e)
{
    const int round = 16;
    if (missing && progress && !progress("compile", 0, missing, user))
        return fail(e, WHERRY_STATUS_CANCELLED, "cancelled before kernels were compiled");
    for (int first = 0; first < n; first += round) {
        struct embedded_kernel kernel;
        vulkan_kernel(jobs[first].pipeline.kernel, &kernel);
        if (progress && !progress(kernel.name, (size_t)first, (size_t)n, user)) {
            return fail(e, WHERRY_STATUS_CANCELLED, "cancelled after %d of %d kernels", first, n);
        }
        int end = first + round < n ? first + round : n;
        int refused = jobs_suspects(jobs, first, end, job_make);
        if (refused < end) return d->host->teller || round_refused(d, jobs, first, refused, info, e);
        parallel_for((size_t)(end - first), 0, job_run_nth, jobs + first);
        TRY(jobs_take(d, jobs, first, end, info, e));
    }
    if (progress && !progress("kernels", (size_t)n, (size_t)n, user)) {
        return fail(e, WHERRY_STATUS_CANCELLED, "cancelled after all %d kernels", n);
    }
    return true;
}

static size_t jobs_missing(const struct backend_device *d, const struct job *jobs, int n)
{
    size_t missing = 0;
    for (int i = 0; i < n; i++) missing += !key_known(&d->pipelines, jobs[i].pipeline.key);
    return missing;
}

bool jobs_run(struct backend_device *d, struct job *jobs, int n, wherry_progress progress, void *user,
              struct program_info *info, struct error *e)
{
    if (!n) return true;
    size_t missing = jobs_missing(d, jobs, n);
    if (missing) {
        TRY(pipeline_cache_refresh(d, e));
        missing = jobs_missing(d, jobs, n);
    }
    int before = part_enter(d->host, missing ? PART_BUILD : PART_LOAD);
    bool ok = (!missing || jobs_apart(d, jobs, n, progress, user, e)) &&
              jobs_run_rounds(d, jobs, n, missing, progress, user, info, e);
    if (ok) jobs_learn(d, jobs, n);
    part_leave(d->host, before);
    return ok;
}

static uint32_t distinct_count(const int *of_step, int n)
{
    uint32_t count = 0;
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (of_step[first] != of_step[i]) first++;
        count += first == i;
    }
    return count;
}

/* ---- what they take ---- */

/* The driver's most waves are what it gives a kernel that fills memory, of which a work-item keeps nothing. */
static bool least_describe(struct backend_device *d, struct job *job)
{
    struct call call = {.kernel = "roof_memory"};
    size_t kernel;
    *job = (struct job){.d = d, .asked = true, .result = VK_ERROR_UNKNOWN};
    if (!vulkan_kernel_find(call.kernel, STORAGE_F32, &kernel)) return false;
    call_set(&call, CONST_LOCAL_SIZE, 64);
    call_set(&call, CONST_N, 1);
    call_set(&call, CONST_FORM, ROOF_WRITE);
    call_set(&call, CONST_THREAD_M, 1);
    job->pipeline = pipeline_describe(kernel, call.constants, call.n_constants);
    return true;
}

/* NVIDIA's driver tells no waves. Of the other generations there are chips of several kinds. */
static void waves_count(const struct backend_device *d, struct pipeline *p)
{
    const enum device_class class = device_class_of(&d->physical.limits);
    uint32_t sm = class == CLASS_NVIDIA_HOPPER ? 90 : class == CLASS_NVIDIA_ADA ? 89 : 0, local = 0;
    for (int i = 0; i < p->n_constants; i++)
        if (p->constants[i].id == CONST_LOCAL_SIZE) local = p->constants[i].value;
    if (sm && !p->usage.waves)
        p->usage.waves = nvidia_waves(sm, p->usage.registers, p->usage.shared, local, &p->usage.waves_most);
}

/* A pipeline that can't be made this once stays unknown. */
static void usage_ask(struct backend_device *d)
{
    struct pipeline_store *store = &d->pipelines;
    struct error ignored;
    int n = 0;
    struct job *jobs = host_alloc(d->host, (size_t)store->count + 1, sizeof *jobs, &ignored);
    if (!jobs) return;
    if (!store->waves_most && least_describe(d, &jobs[n])) n++;
    int least = n;
    for (int i = 0; i < store->count; i++) {
        if (store->list[i].told) continue;
        jobs[n] = (struct job){.d = d, .pipeline = store->list[i], .asked = true};
        jobs[n++].pipeline.handle = VK_NULL_HANDLE;
    }
    parallel_for((size_t)n, 0, job_run_nth, jobs);
    for (int i = 0, j = least; i < store->count; i++)
        if (!store->list[i].told) {
            store->list[i].usage = jobs[j++].pipeline.usage;
            store->list[i].told = true;
        }
    for (int j = 0; j < n; j++) {
        if (jobs[j].pipeline.usage.waves > store->waves_most) store->waves_most = jobs[j].pipeline.usage.waves;
        if (jobs[j].pipeline.handle) d->vk.DestroyPipeline(d->handle, jobs[j].pipeline.handle, NULL);
    }
    for (int i = 0; i < store->count; i++)
        if (store->list[i].usage.waves > store->waves_most) store->waves_most = store->list[i].usage.waves;
    for (int i = 0; i < store->count; i++) {
        if (store->list[i].usage.waves) store->list[i].usage.waves_most = store->waves_most;
        waves_count(d, &store->list[i]);
    }
    host_free(d->host, jobs);
}

VkPipeline pipelines_handle(struct backend_device *d, int index)
{
    mutex_enter(&d->building);
    VkPipeline handle = d->pipelines.list[index].handle;
    mutex_leave(&d->building);
    return handle;
}

struct kernel_usage pipelines_usage(struct backend_device *d, int index)
{
    mutex_enter(&d->building);
    const struct pipeline *p = &d->pipelines.list[index];
    if (d->physical.statistics && (!p->told || (p->usage.waves && !p->usage.waves_most))) usage_ask(d);
    struct kernel_usage usage = p->usage;
    mutex_leave(&d->building);
    return usage;
}

bool vulkan_program_text(const struct backend_device *d, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e)
{
    size_t index;
    struct embedded_kernel kernel;
    (void)one_buffer;
    TRY(step_kernel(step, &index, e));
    vulkan_kernel(index, &kernel);
    vulkan_program(&d->physical.limits, d->physical.size_chosen, &kernel, step->call->constants,
                   step->call->n_constants, out);
    return true;
}

static bool make_all(struct backend_device *d, const struct schedule *schedule, int *of_step, wherry_progress progress,
                     void *user, struct program_info *info, struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    int n = 0;
    struct job *jobs = host_alloc(d->host, (size_t)schedule->n_steps, sizeof *jobs, e);
    if (!jobs) return false;
    bool ok = jobs_collect(d, schedule, of_step, jobs, &n, e);
    if (ok && n) {
        struct pipeline *grown =
            host_grow(d->host, store->list, (size_t)store->count, (size_t)(store->count + n), sizeof *grown, e);
        ok = grown;
        if (grown) store->list = grown;
    }
    size_t known = store->n_keys;
    if (ok) {
        info->kernels = distinct_count(of_step, schedule->n_steps);
        ok = jobs_run(d, jobs, n, progress, user, info, e);
    }
    /* Also after a failure: what was compiled until then is worth keeping. */
    if (info->compiled || store->n_keys > known) pipeline_cache_save(d);
    host_free(d->host, jobs);
    return ok;
}

bool pipelines_make(struct backend_device *d, const struct schedule *schedule, int *of_step, wherry_progress progress,
                    void *user, struct program_info *info, struct error *e)
{
    mutex_enter(&d->building);
    bool ok = make_all(d, schedule, of_step, progress, user, info, e);
    mutex_leave(&d->building);
    return ok;
}
