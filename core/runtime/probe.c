/* Whether a device does what it is given. A driver that only compiles, or that lost its device without saying so,
 * reports success for everything, and what the host then reads is what it wrote itself some time before. */
#include <stdio.h>
#include <string.h>

#include "base/parts.h"
#include "base/platform.h"
#include "interface/interface.h"
#include "interface/roof.h"
#include "runtime/context.h"

enum { PROBE_LOCAL = 64, PROBE_GROUPS = 2, PROBE_WORDS = PROBE_LOCAL * PROBE_GROUPS, PROBE_HEADER = 64 };

struct probe {
    const struct wherry_device *device;
    struct buffer *header, *answer;
    uint32_t nonce;
};

/* Numbers that no memory holds from before: neither a session's nor another process's. */
static uint32_t make_nonce(const void *address)
{
    uint64_t x = clock_ns() ^ (uint64_t)(uintptr_t)address << 20;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

static bool fail_probe(const struct probe *p, const char *what, struct error *e)
{
    const wherry_device_info *info = &p->device->info;
    return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                "%s (%s) does not execute what it is given: %s, and the driver reports success (a null driver, or one "
                "that only compiles): use another device",
                info->id, info->name, what);
}

static void fill(uint32_t words[PROBE_WORDS], uint32_t seed)
{
    for (uint32_t i = 0; i < PROBE_WORDS; i++) words[i] = (seed ^ i) * 0x9E3779B1u;
}

/* A block that is written and read again, with another one, and so other bytes in all staging memory, between. */
static bool check_copies(struct probe *p, struct error *e)
{
    const struct backend *backend = p->device->backend;
    struct backend_device *handle = p->device->handle;
    uint32_t sent[PROBE_WORDS], other[PROBE_WORDS], back[PROBE_WORDS] = {0};
    fill(sent, ~p->nonce);
    fill(other, p->nonce << 1);
    TRY(backend->buffer_write(handle, p->answer, 0, sent, sizeof sent, e));
    TRY(backend->buffer_write(handle, p->header, 0, other, 4 * PROBE_HEADER, e));
    TRY(backend->buffer_read(handle, p->answer, 0, back, sizeof back, e));
    return !memcmp(sent, back, sizeof sent) || fail_probe(p, "bytes written to it don't come back", e);
}

/* The words that the kernel makes of the nonce, which no host memory has held. */
static bool is_answer(const struct probe *p, const uint32_t *words)
{
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        if (words[i] != ROOF_MIX(ROOF_SCATTER(i + p->nonce))) return false;
    return true;
}

/* The answer by both ways on which results come back: a run's download, and a copy outside of any run. */
static bool check_answer(struct probe *p, struct program *program, struct error *e)
{
    const struct backend *backend = p->device->backend;
    uint32_t header[PROBE_HEADER] = {0}, answer[PROBE_WORDS];
    header[ROOF_GROUPS] = PROBE_GROUPS;
    header[ROOF_TURNS] = header[ROOF_OWN] = header[ROOF_CHUNKS] = 1;
    header[ROOF_SALT] = p->nonce;
    header[ROOF_MASK] = UINT32_MAX;
    fill(answer, p->nonce + 1);
    const struct transfer up = {.buffer = p->header, .bytes = sizeof header, .host = header},
                          down = {.buffer = p->answer, .bytes = sizeof answer, .host = answer};
    const struct grid grid = {PROBE_GROUPS, 1, 1};
    const struct run run = {.uploads = &up, .downloads = &down, .n_uploads = 1, .n_downloads = 1, .grids = &grid};
    TRY(backend->program_run(p->device->handle, program, &run, e));
    bool arrived = is_answer(p, answer);
    fill(answer, p->nonce + 2);
    TRY(backend->buffer_read(p->device->handle, p->answer, 0, answer, sizeof answer, e));
    if (arrived && is_answer(p, answer)) return true;
    return fail_probe(p, is_answer(p, answer) ? "what a run copies back does not arrive" : "its kernels do nothing", e);
}

static bool check_kernels(struct probe *p, struct error *e)
{
    const struct backend *backend = p->device->backend;
    struct backend_device *handle = p->device->handle;
    struct call call = {.kernel = "roof_memory", .launch = LAUNCH_ELEMENTS};
    struct program_info info;
    call_set(&call, CONST_LOCAL_SIZE, PROBE_LOCAL);
    call_set(&call, CONST_N, 1);
    call_set(&call, CONST_FORM, ROOF_WRITE);
    call_set(&call, CONST_THREAD_M, 1);
    const struct step step = {
        .name = "probe",
        .kernel = call.kernel,
        .launch = call.launch,
        .call = &call,
        .n_bindings = 2,
        .bindings = {{.slot = SLOT_BATCH, .words = true, .buffer = p->header, .bytes = 4 * PROBE_HEADER},
                     {.slot = SLOT_Y, .written = true, .words = true, .buffer = p->answer, .bytes = 4 * PROBE_WORDS}}};
    const struct schedule schedule = {
        .steps = &step, .n_steps = 1, .max_upload = 4 * PROBE_HEADER, .max_download = 4 * PROBE_WORDS};
    struct program *program = backend->program_create(handle, &schedule, NULL, NULL, &info, e);
    bool ok = program && check_answer(p, program, e);
    backend->program_destroy(handle, program);
    return ok;
}

static bool probe(struct wherry_device *device, bool kernels, struct error *e)
{
    const struct backend *backend = device->backend;
    struct probe p = {.device = device};
    if (!device->kernels_hash) return true; /* the host itself */
    int before = part_enter(&device->context->host, PART_PROBE);
    p.nonce = make_nonce(&p);
    bool ok = (p.header = backend->buffer_create(device->handle, 4 * PROBE_HEADER, e)) &&
              (p.answer = backend->buffer_create(device->handle, 4 * PROBE_WORDS, e)) && check_copies(&p, e) &&
              (!kernels || check_kernels(&p, e));
    backend->buffer_destroy(device->handle, p.answer);
    backend->buffer_destroy(device->handle, p.header);
    part_leave(&device->context->host, before);
    device->copies |= ok;
    device->probed |= ok && kernels;
    return ok;
}

bool device_probe(struct wherry_device *device, bool kernels, struct error *e)
{
    mutex_enter(&device->lock);
    bool ok = probe(device, kernels, e);
    mutex_leave(&device->lock);
    return ok;
}

bool device_probe_first(struct wherry_device *device, bool kernels, struct error *e)
{
    mutex_enter(&device->lock);
    bool ok = (kernels ? device->probed : device->copies) || probe(device, kernels, e);
    mutex_leave(&device->lock);
    return ok;
}

bool device_try(struct wherry_device *device, struct error *e)
{
    const struct host *host = &device->context->host;
    struct error why;
    if (device_probe(device, host->compile_only, &why)) return true;
    if (!host->compile_only || why.status != WHERRY_STATUS_VERIFY_FAILED) {
        *e = why;
        return false;
    }
    device->info.compiles_only = true;
    device->info.usable = false;
    snprintf(device->info.reason, sizeof device->info.reason, "%.*s", (int)sizeof device->info.reason - 1, why.text);
    return true;
}

bool device_executes(const struct wherry_device *device, struct error *e)
{
    const wherry_device_info *info = &device->info;
    if (!info->compiles_only) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%s (%s) compiles only: nothing can be run on it. wherry prepare tells what its compiler makes of a "
                "model; to run one, use another device",
                info->id, info->name);
}
