/* From the embedded text of a kernel and its constants to a program of the driver: compiled in parallel, or taken from
 * the cache on disk. */
#include "opencl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "base/text.h"
#include "kernel/interface.h"

/* ---- the compiler's options ---- */

#define NAME(constant) [CONST_##constant] = #constant
static const char *const constant_names[] = {
    NAME(LOCAL_SIZE), NAME(N),           NAME(K),          NAME(ROWS),     NAME(BIAS),        NAME(ACTIVATION),
    NAME(RESIDUAL),   NAME(NORM),        NAME(EPSILON),    NAME(SUM),      NAME(WORD),        NAME(POSITION),
    NAME(TYPE),       NAME(POOL),        NAME(NORMALIZE),  NAME(HEADS),    NAME(HEAD_DIM),    NAME(SCALE),
    NAME(X_STRIDE),   NAME(X_OFFSET),    NAME(W_STRIDE),   NAME(W_OFFSET), NAME(V_STRIDE),    NAME(V_OFFSET),
    NAME(Y_STRIDE),   NAME(Y_OFFSET),    NAME(BATCHED),    NAME(TILE_M),   NAME(TILE_N),      NAME(TILE_K),
    NAME(THREAD_M),   NAME(THREAD_N),    NAME(ALIGNED),    NAME(FORM),     NAME(M),           NAME(DROPOUT),
    NAME(DERIVATIVE), NAME(COLUMN_SUMS), NAME(PART_ROWS),  NAME(SETS),     NAME(LSE),         NAME(SOFTMAX),
    NAME(DELTA),      NAME(NORM_DW),     NAME(NORM_DX),    NAME(BIAS_SUM), NAME(ADDEND),      NAME(TILE_V),
    NAME(PARTS),      NAME(KEPT),        NAME(MATRIX_M),   NAME(MATRIX_N), NAME(MATRIX_K),    NAME(SUBGROUP),
    NAME(BLOCKS),     NAME(GROUPS),      NAME(QUERY_ROWS), NAME(STAGES),   NAME(WARP_M),      NAME(WARP_N),
    NAME(SLABS),      NAME(TEAM),        NAME(ENTRIES),    NAME(NORM_Y),   NAME(HEADS_WHOLE), NAME(RUNTIME),
};
#undef NAME
_Static_assert(sizeof constant_names / sizeof *constant_names == CONST_COUNT, "a constant lacks its name");

/* NVIDIA's compiler then says in its log what a kernel takes of a multiprocessor. */
#define VERBOSE "-cl-nv-verbose"

enum { OPTIONS_BYTES = 96 + GROUP_MAX_CONSTANTS * 32 };

/* Unsigned values, as the kernels' and GLSL's: a float's bits may have the highest one set. No option may let the
 * compiler change sums (-cl-mad-enable and the like): kernels say fma() where they mean it. -w, because PoCL counts
 * warnings on stderr. */
static bool write_options(const struct step *step, bool unoptimized, bool nvidia, char *text, size_t size,
                          struct error *e)
{
    struct text_writer options = text_begin(text, size);
    text_add(&options, "-cl-std=CL1.2 -w %s%s-D F16=%d", unoptimized ? "-cl-opt-disable " : "",
             nvidia ? VERBOSE " " : "", step->f16 ? 1 : 0);
    if (nvidia && opencl_whole(step)) text_add(&options, " -D ONE_BUFFER=1");
    for (int i = 0; i < step->call->n_constants; i++) {
        const struct call_constant *c = &step->call->constants[i];
        if (c->id >= CONST_COUNT) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: there is no kernel constant number %u", step->name,
                        (unsigned)c->id);
        }
        text_add(&options, " -D %s=%" PRIu32 "u", constant_names[c->id], c->value);
    }
    return !options.cut || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: more kernel constants than fit", step->name);
}

bool opencl_kernel_find(const char *name, struct embedded_kernel *out)
{
    for (size_t i = 0; opencl_kernel(i, out); i++) {
        if (!strcmp(out->name, name)) return true;
    }
    return false;
}

/* ---- the cache: one file per build, its name a hash of all that the binary depends on ---- */

struct cache_header {
    char magic[8];
    uint64_t key_bytes, binary_bytes, checksum; /* of key and binary */
    uint32_t registers, spilled;
};

static const char cache_magic[8] = {'W', 'H', 'R', 'C', 'L', '0', '0', '2'};

/* FNV-1a: tells files apart and finds damage; nothing here defends against an attacker with write access. */
static uint64_t hash_more(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

uint64_t opencl_kernels_hash(void)
{
    uint64_t hash = hash_start;
    struct embedded_kernel kernel;
    for (size_t i = 0; opencl_kernel(i, &kernel); i++) {
        hash = hash_more(hash, kernel.name, strlen(kernel.name) + 1);
        hash = hash_more(hash, kernel.data, kernel.size);
    }
    return hash;
}

static bool key_create(const struct backend_device *device, struct kernel_build *b, struct error *e)
{
    const struct host *host = device->host;
    if (!host->cache_dir[0]) return true;
    size_t size = strlen(device->identity) + strlen(b->kernel) + strlen(b->options) + 64;
    b->key = host_alloc(host, size, 1, e);
    if (!b->key) return false;
    snprintf(b->key, size, "%s%s\n%s\n%016" PRIx64 " %zu\n", device->identity, b->kernel, b->options,
             hash_more(hash_start, b->source.data, b->source.size), b->source.size);
    snprintf(b->cache_path, sizeof b->cache_path, "%s/opencl-%s-%016" PRIx64 ".bin", host->cache_dir, b->kernel,
             hash_more(hash_start, b->key, strlen(b->key)));
    return true;
}

/* The binary inside a cache file; NULL for a file that is damaged or of another key. */
static const unsigned char *cache_check(const struct file_map *map, struct kernel_build *b, size_t *size)
{
    struct cache_header h;
    const char *key = b->key;
    size_t key_bytes = strlen(key);
    if (map->size < sizeof h) return NULL;
    memcpy(&h, map->data, sizeof h);
    size_t rest = map->size - sizeof h;
    if (memcmp(h.magic, cache_magic, sizeof cache_magic) || h.key_bytes != key_bytes || rest < key_bytes) return NULL;
    if (h.binary_bytes != rest - key_bytes || !h.binary_bytes) return NULL;
    if (memcmp(map->data + sizeof h, key, key_bytes)) return NULL;
    if (hash_more(hash_start, map->data + sizeof h, rest) != h.checksum) return NULL;
    *size = rest - key_bytes;
    b->registers = h.registers;
    b->spilled = h.spilled;
    return map->data + sizeof h + key_bytes;
}

/* ---- what a kernel takes of a multiprocessor ---- */

/* The number in front of `unit`, the last one there; `none` where there is none. */
static uint32_t number_before(const char *text, const char *unit, uint32_t none)
{
    uint32_t found = none;
    for (const char *at = text; (at = strstr(at, unit)); at += strlen(unit)) {
        const char *digit = at;
        while (digit > text && digit[-1] >= '0' && digit[-1] <= '9') digit--;
        if (digit < at) found = (uint32_t)strtoul(digit, NULL, 10);
    }
    return found;
}

static void read_usage(const struct backend_device *device, struct kernel_build *b)
{
    char log[8192];
    size_t size = 0;
    if (!device->limits.nvidia_sm) return;
    if (clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, &size)) return;
    log[size < sizeof log ? size : sizeof log - 1] = 0;
    b->registers = number_before(log, " registers", 0);
    b->spilled = number_before(log, " bytes spill stores", 0);
}

/* ---- one build; called from several threads, so it allocates nothing from the host ---- */

struct batch {
    struct backend_device *device;
    struct kernel_build **pending;
    size_t first; /* item 0 of the running parallel_for */
};

/* Whether the program really has its kernel: a driver that took a binary may still refuse it here. */
static bool has_kernel(cl_program program, const char *name)
{
    cl_int code;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    if (kernel) clReleaseKernel(kernel);
    return code == CL_SUCCESS;
}

static bool build_cached(struct backend_device *device, struct kernel_build *b)
{
    struct error ignored; /* a cache that fails is a cache that misses */
    struct file_map map;
    if (!b->cache_path[0] || !file_map(b->cache_path, &map, &ignored)) return false;
    size_t size = 0;
    const unsigned char *binary = cache_check(&map, b, &size);
    cl_program program = NULL;
    if (binary) {
        cl_int status = CL_SUCCESS, code;
        program = clCreateProgramWithBinary(device->context, 1, &device->id, &size, &binary, &status, &code);
        bool ok = program && !code && !status && !clBuildProgram(program, 1, &device->id, NULL, NULL, NULL);
        if (program && !(ok && has_kernel(program, b->kernel))) {
            clReleaseProgram(program);
            program = NULL;
        }
    }
    file_unmap(&map);
    b->program = program;
    b->cached = program;
    return program;
}

/* ---- binaries ---- */

/* Room behind a binary for what a patch adds. */
enum { PTX_ROOM = 32 };

/* The driver's binary for this device behind `before` free bytes and before `behind` ones; NULL and why not in e. */
static unsigned char *binary_fetch(struct backend_device *device, cl_program program, size_t before, size_t behind,
                                   size_t *size, struct error *e)
{
    enum { MAX_DEVICES = 64 }; /* of an application's context */
    cl_device_id ids[MAX_DEVICES];
    size_t sizes[MAX_DEVICES], ids_bytes = 0, own = MAX_DEVICES;
    unsigned char *binaries[MAX_DEVICES] = {0};
    cl_int code = clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof ids, ids, &ids_bytes);
    size_t count = ids_bytes / sizeof *ids;
    for (size_t i = 0; !code && i < count; i++) {
        if (ids[i] == device->id) own = i;
    }
    if (!code) code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL);
    if (code || own == MAX_DEVICES || !sizes[own]) {
        opencl_fail(e, code, "clGetProgramInfo has no binary");
        return NULL;
    }
    unsigned char *data = host_alloc(device->host, before + sizes[own] + behind, 1, e);
    if (!data) return NULL;
    binaries[own] = data + before;
    code = clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL);
    if (code) {
        opencl_fail(e, code, "clGetProgramInfo for a binary");
        host_free(device->host, data);
        return NULL;
    }
    *size = sizes[own];
    return data;
}

/* What the driver made of a marked kernel is text, which becomes another program, not built yet. */
static void patch(struct backend_device *device, struct kernel_build *b)
{
    struct error e;
    size_t size = 0;
    cl_int status = CL_SUCCESS;
    b->failed = "taking back the PTX";
    b->code = CL_INVALID_BINARY;
    unsigned char *data = binary_fetch(device, b->program, 0, PTX_ROOM, &size, &e);
    if (!data) return;
    const unsigned char *text = data;
    b->failed = "patching the PTX";
    if (opencl_patch_ptx((char *)data, &size)) {
        clReleaseProgram(b->program);
        b->failed = "clCreateProgramWithBinary of patched PTX";
        b->program = clCreateProgramWithBinary(device->context, 1, &device->id, &size, &text, &status, &b->code);
        if (b->program && !b->code && !status) {
            b->failed = NULL;
            b->patched = true;
        }
    }
    host_free(device->host, data);
}

static void build_from_source(struct backend_device *device, struct kernel_build *b)
{
    const char *text = (const char *)b->source.data;
    size_t size = b->source.size;
    b->failed = "clCreateProgramWithSource";
    b->program = clCreateProgramWithSource(device->context, 1, &text, &size, &b->code);
    if (!b->program) return;
    b->failed = "clBuildProgram";
    b->code = clBuildProgram(b->program, 1, &device->id, b->options, NULL, NULL);
    if (b->code) return;
    b->failed = NULL;
    read_usage(device, b);
}

static void build_item(size_t item, void *user)
{
    struct batch *batch = user;
    struct kernel_build *b = batch->pending[batch->first + item];
    if (!build_cached(batch->device, b)) build_from_source(batch->device, b);
}

static void build_patched_item(size_t item, void *user)
{
    struct batch *batch = user;
    struct kernel_build *b = batch->pending[batch->first + item];
    if (!b->patched) return;
    b->code = clBuildProgram(b->program, 1, &batch->device->id, VERBOSE, NULL, NULL);
    if (b->code)
        b->failed = "clBuildProgram of patched PTX";
    else
        read_usage(batch->device, b);
}

/* ---- failures ---- */

/* The first lines of the compiler's log, where the cause stands. */
static bool fail_build(struct backend_device *device, const struct kernel_build *b, struct error *e)
{
    opencl_fail(e, b->code, "%s of the kernel %s (%s)", b->failed, b->kernel, b->options);
    if (e->status != WHERRY_STATUS_COMPILE_FAILED) return false;
    size_t size = 0;
    struct error ignored;
    if (clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) || size < 2) return false;
    char *log = host_alloc(device->host, size + 1, 1, &ignored);
    if (log && !clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, size, log, NULL)) {
        host_log(device->host, WHERRY_LOG_ERROR, "%s: %.900s", b->kernel, log);
        fail_native(e, WHERRY_STATUS_COMPILE_FAILED, b->code,
                    "the driver's compiler refuses the kernel %s: %s (%d): %.700s", b->kernel,
                    opencl_error_name(b->code), (int)b->code, log);
    }
    host_free(device->host, log);
    return false;
}

static void build_destroy(struct backend_device *device, struct kernel_build *b)
{
    if (!b) return;
    if (b->program) clReleaseProgram(b->program);
    host_free(device->host, b->options);
    host_free(device->host, b->key);
    host_free(device->host, b);
}

void opencl_builds_destroy(struct backend_device *device)
{
    for (size_t i = 0; i < device->n_builds; i++) build_destroy(device, device->builds[i]);
    host_free(device->host, device->builds);
    device->builds = NULL;
    device->n_builds = 0;
}

/* Forgets the builds from `first` on that have no usable program, so that a later attempt starts afresh. */
static void drop_failed(struct backend_device *device, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < device->n_builds; i++) {
        struct kernel_build *b = device->builds[i];
        if (b->program && !b->failed) {
            device->builds[kept++] = b;
        } else {
            build_destroy(device, b);
        }
    }
    device->n_builds = kept;
}

/* ---- all builds of a schedule ---- */

static struct kernel_build *build_add(struct backend_device *device, const char *options,
                                      const struct embedded_kernel *source, struct error *e)
{
    const struct host *host = device->host;
    struct kernel_build **grown =
        host_grow(host, device->builds, device->n_builds, device->n_builds + 1, sizeof *device->builds, e);
    if (!grown) return NULL;
    device->builds = grown;
    struct kernel_build *b = host_alloc(host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->kernel = source->name;
    b->source = *source;
    b->options = host_strdup(host, options, e);
    if (!b->options || !key_create(device, b, e)) {
        build_destroy(device, b);
        return NULL;
    }
    device->builds[device->n_builds++] = b;
    return b;
}

static struct kernel_build *build_find(const struct backend_device *device, const char *kernel, const char *options)
{
    for (size_t i = 0; i < device->n_builds; i++) {
        struct kernel_build *b = device->builds[i];
        if (!strcmp(b->kernel, kernel) && !strcmp(b->options, options)) return b;
    }
    return NULL;
}

static bool builds_list(struct backend_device *device, const struct schedule *schedule, const bool *wanted,
                        struct kernel_build **builds, struct error *e)
{
    for (int i = 0; i < schedule->n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        char options[OPTIONS_BYTES];
        struct embedded_kernel source;
        builds[i] = NULL;
        if (!wanted[i]) continue;
        if (!opencl_kernel_find(step->kernel, &source)) {
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: this build has no OpenCL kernel \"%s\"", step->name,
                        step->kernel);
        }
        TRY(write_options(step, device->host->unoptimized, device->limits.nvidia_sm, options, sizeof options, e));
        builds[i] = build_find(device, source.name, options);
        if (!builds[i]) builds[i] = build_add(device, options, &source, e);
        if (!builds[i]) return false;
    }
    return true;
}

/* In chunks, so that the caller hears of progress and may cancel; most machines' cores all have work in each. */
static bool builds_run(struct backend_device *device, size_t first, wherry_progress progress, void *user,
                       struct error *e)
{
    enum { CHUNK = 16 };
    size_t count = device->n_builds - first;
    for (size_t done = 0; done < count; done += CHUNK) {
        struct batch batch = {device, device->builds, first + done};
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (progress && !progress(device->builds[first + done]->kernel, done, count, user)) {
            return fail(e, WHERRY_STATUS_CANCELLED, "cancelled while kernels were compiled");
        }
        parallel_for(n, device->build_threads, build_item, &batch);
        for (size_t i = 0; i < n; i++) {
            struct kernel_build *b = device->builds[first + done + i];
            if (!b->failed && !b->cached && opencl_is_marked(&b->source)) patch(device, b);
        }
        parallel_for(n, device->build_threads, build_patched_item, &batch);
        for (size_t i = 0; i < n; i++) {
            const struct kernel_build *b = device->builds[first + done + i];
            if (b->failed) return fail_build(device, b, e);
        }
    }
    if (count && progress && !progress("kernels", count, count, user)) {
        return fail(e, WHERRY_STATUS_CANCELLED, "cancelled after kernels were compiled");
    }
    return true;
}

struct kernel_build *opencl_build_named(struct backend_device *device, const char *kernel, struct error *e)
{
    static const char options[] = "-cl-std=CL1.2 -w";
    struct embedded_kernel source;
    struct kernel_build *b = build_find(device, kernel, options);
    if (b) return b;
    if (!opencl_kernel_find(kernel, &source)) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "this build has no OpenCL kernel \"%s\"", kernel);
        return NULL;
    }
    size_t first = device->n_builds;
    b = build_add(device, options, &source, e);
    if (b && builds_run(device, first, NULL, NULL, e)) {
        b->ready = true;
        opencl_build_store(device, b);
        return b;
    }
    drop_failed(device, first);
    return NULL;
}

bool opencl_builds_create(struct backend_device *device, const struct schedule *schedule, const bool *wanted,
                          struct kernel_build **builds, wherry_progress progress, void *user, uint32_t *kernels,
                          uint32_t *compiled, struct error *e)
{
    size_t first = device->n_builds;
    *kernels = *compiled = 0;
    if (!builds_list(device, schedule, wanted, builds, e) || !builds_run(device, first, progress, user, e)) {
        drop_failed(device, first);
        return false;
    }
    for (int i = 0; i < schedule->n_steps; i++) {
        bool seen = !builds[i];
        for (int j = 0; j < i && !seen; j++) seen = builds[j] == builds[i];
        *kernels += !seen;
    }
    for (size_t i = first; i < device->n_builds; i++) *compiled += !device->builds[i]->cached;
    return true;
}

/* ---- storing ---- */

void opencl_build_store(struct backend_device *device, struct kernel_build *b)
{
    if (!b->cache_path[0] || b->cached) return;
    b->cached = true; /* one attempt is enough */
    struct error e;
    struct cache_header h = {.key_bytes = strlen(b->key)};
    size_t size = 0, before = sizeof h + (size_t)h.key_bytes;
    bool ok = folder_make(device->host->cache_dir, &e);
    unsigned char *data = ok ? binary_fetch(device, b->program, before, 0, &size, &e) : NULL;
    if (data) {
        memcpy(h.magic, cache_magic, sizeof cache_magic);
        memcpy(data + sizeof h, b->key, (size_t)h.key_bytes);
        h.binary_bytes = size;
        h.registers = b->registers;
        h.spilled = b->spilled;
        h.checksum = hash_more(hash_start, data + sizeof h, (size_t)h.key_bytes + size);
        memcpy(data, &h, sizeof h);
        ok = file_replace(b->cache_path, data, before + size, &e);
    }
    if (!data || !ok) {
        host_log(device->host, WHERRY_LOG_WARNING, "the kernel %s is not cached and will be compiled again: %s",
                 b->kernel, e.text);
    }
    host_free(device->host, data);
}
