/* The cache of compiled kernels on disk: one file per build, its name a hash of all that the binary depends on. */
#include "opencl.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/platform.h"

struct cache_header {
    char magic[8];
    uint64_t key_bytes, binary_bytes; /* 0: the driver keeps the binary, and this file says that it has been compiled */
    uint32_t registers, spilled;
    uint64_t checksum; /* of all before it and of key and binary */
};

enum { MAX_FILE = 256 << 20 }; /* bytes; drivers' binaries of a kernel have some 100 KB */

static const char cache_magic[8] = {'W', 'H', 'R', 'C', 'L', '0', '0', '4'};

/* WHERRY_PTX: of the source of what patches their text (ptx.c). */
uint64_t opencl_kernels(const struct backend_device *device)
{
    (void)device;
    uint64_t hash = hash_text(HASH_START, WHERRY_PTX);
    struct embedded_kernel kernel;
    for (size_t i = 0; opencl_kernel(i, &kernel); i++) {
        hash = hash_bytes(hash, kernel.name, strlen(kernel.name) + 1);
        hash = hash_bytes(hash, &kernel.hash, sizeof kernel.hash);
    }
    return hash;
}

/* Hashes tell files apart and find damage. They do not stop who may write to the cache; cache_read lets nobody else.
 * Files of different formats have different names, so that two builds of the library can share a folder. */
static uint64_t format_hash(void) { return hash_bytes(HASH_START, cache_magic, sizeof cache_magic); }

bool opencl_build_key(const struct backend_device *device, struct kernel_build *b, struct error *e)
{
    const struct host *host = device->host;
    if (!host->cache_dir[0]) return true;
    size_t size = strlen(device->identity) + strlen(b->kernel) + strlen(b->options) + sizeof WHERRY_PTX + 80;
    b->key = host_alloc(host, size, 1, e);
    if (!b->key) return false;
    snprintf(b->key, size, "%s%s\n%s\n%016" PRIx64 " %zu%s%s\n", device->identity, b->kernel, b->options,
             b->source.hash, b->source.size, opencl_is_marked(&b->source) ? " patched " : "",
             opencl_is_marked(&b->source) ? WHERRY_PTX : "");
    snprintf(b->cache_path, sizeof b->cache_path, "%s/opencl-%s-%016" PRIx64 ".bin", host->cache_dir, b->kernel,
             hash_bytes(format_hash(), b->key, strlen(b->key)));
    return true;
}

static uint64_t checksum(const struct cache_header *h, const void *after, size_t size)
{
    return hash_bytes(hash_bytes(HASH_START, h, offsetof(struct cache_header, checksum)), after, size);
}

/* The binary inside a cache file, or a pointer to none (*size 0); NULL for a file that is damaged or of another key. */
static const unsigned char *binary_check(struct kernel_build *b, bool none, size_t *size)
{
    struct cache_header h;
    const char *key = b->key, *after = b->file + sizeof h;
    size_t key_bytes = strlen(key);
    if (b->file_bytes < sizeof h) return NULL;
    memcpy(&h, b->file, sizeof h);
    size_t rest = b->file_bytes - sizeof h;
    if (memcmp(h.magic, cache_magic, sizeof cache_magic) || h.key_bytes != key_bytes || rest < key_bytes) return NULL;
    if (h.binary_bytes != rest - key_bytes || (!h.binary_bytes && !none)) return NULL;
    if (memcmp(after, key, key_bytes)) return NULL;
    if (checksum(&h, after, rest) != h.checksum) return NULL;
    *size = rest - key_bytes;
    b->registers = h.registers;
    b->spilled = h.spilled;
    return (const unsigned char *)after + key_bytes;
}

/* ---- loading ---- */

/* Whether the program really has its kernel: a driver that took a binary may still refuse it here. */
static bool has_kernel(cl_program program, const char *name)
{
    cl_int code;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    if (kernel) clReleaseKernel(kernel);
    return code == CL_SUCCESS;
}

bool opencl_build_is_kept(const struct kernel_build *b)
{
    struct error why;
    bool exists = false;
    return b->cache_path[0] && file_exists(b->cache_path, &exists, &why) && exists;
}

void opencl_build_read(const struct backend_device *device, struct kernel_build *b)
{
    struct error why; /* a cache that fails is a cache that misses */
    bool exists;
    if (b->cache_path[0] && !cache_read(device->host, b->cache_path, MAX_FILE, &exists, &b->file, &b->file_bytes, &why))
        snprintf(b->uncached, sizeof b->uncached, "%s", why.text);
}

void opencl_build_forget(const struct backend_device *device, struct kernel_build *b)
{
    host_free(device->host, b->file);
    b->file = NULL;
    b->file_bytes = 0;
}

bool opencl_build_load(struct backend_device *device, struct kernel_build *b)
{
    if (!b->file) return false;
    size_t size = 0;
    const unsigned char *binary = binary_check(b, device->keeps_kernels, &size);
    if (!binary) {
        snprintf(b->uncached, sizeof b->uncached, "%s is damaged", b->cache_path);
        return false;
    }
    if (!size) { /* only a note: it is made from source, which the driver has compiled already */
        b->cached = true;
        return false;
    }
    cl_int status = CL_SUCCESS, code;
    cl_program program = clCreateProgramWithBinary(device->context, 1, &device->id, &size, &binary, &status, &code);
    bool ok = program && !code && !status && !clBuildProgram(program, 1, &device->id, NULL, NULL, NULL);
    if (program && !(ok && has_kernel(program, b->kernel))) {
        clReleaseProgram(program);
        program = NULL;
    }
    b->program = program;
    b->cached = program != NULL;
    return b->cached;
}

/* ---- storing ---- */

unsigned char *opencl_binary_fetch(struct backend_device *device, cl_program program, size_t before, size_t after,
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
    unsigned char *data = host_alloc(device->host, before + sizes[own] + after, 1, e);
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

void opencl_build_store(struct backend_device *device, struct kernel_build *b)
{
    if (!b->cache_path[0] || b->cached) return;
    b->cached = true; /* one attempt is enough */
    struct error e;
    struct cache_header h = {.key_bytes = strlen(b->key)};
    size_t size = 0, before = sizeof h + (size_t)h.key_bytes;
    bool ok = false;
    unsigned char *data = device->keeps_kernels ? host_alloc(device->host, before, 1, &e)
                                                : opencl_binary_fetch(device, b->program, before, 0, &size, &e);
    if (data) {
        memcpy(h.magic, cache_magic, sizeof cache_magic);
        memcpy(data + sizeof h, b->key, (size_t)h.key_bytes);
        h.binary_bytes = size;
        h.registers = b->registers;
        h.spilled = b->spilled;
        h.checksum = checksum(&h, data + sizeof h, (size_t)h.key_bytes + size);
        memcpy(data, &h, sizeof h);
        ok = cache_write(b->cache_path, data, before + size, &e);
    }
    if (!ok) {
        host_log(device->host, WHERRY_LOG_WARNING, "the kernel %s is not cached and will be compiled again: %s",
                 b->kernel, e.text);
    }
    host_free(device->host, data);
}
