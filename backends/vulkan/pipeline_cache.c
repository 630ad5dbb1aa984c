/* What the driver compiled, on disk: a file of this header, the keys of pipelines, the driver's own data. */
#include "vulkan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/platform.h"
#include "base/text.h"

struct cache_header {
    char magic[8];
    uint64_t kernels; /* hash of all embedded kernels */
    uint64_t n_keys, data_bytes;
    uint64_t checksum; /* of all that follows the header */
    uint32_t vendor, device, driver_version, zero;
    uint8_t uuid[VK_UUID_SIZE];
};

static const char cache_magic[8] = {'W', 'H', 'E', 'R', 'R', 'Y', 'V', '1'};
static const size_t cache_max_bytes = (size_t)256 << 20;

static struct cache_header header_expected(const struct backend_device *d)
{
    const struct physical *p = &d->physical;
    struct cache_header h = {
        .kernels = d->pipelines.kernels,
        .vendor = p->vendor,
        .device = p->device,
        .driver_version = p->driver_version,
    };
    memcpy(h.magic, cache_magic, sizeof h.magic);
    memcpy(h.uuid, p->cache_uuid, sizeof h.uuid);
    return h;
}

static void path_make(struct backend_device *d)
{
    struct pipeline_store *store = &d->pipelines;
    const struct physical *p = &d->physical;
    if (!d->host->cache_dir[0]) return;
    uint64_t build = hash_bytes(store->kernels, &p->driver_version, sizeof p->driver_version);
    build = hash_bytes(build, p->cache_uuid, sizeof p->cache_uuid);
    struct text_writer path = text_begin(store->path, sizeof store->path);
    text_add(&path, "%s/vulkan-", d->host->cache_dir);
    text_hex(&path, p->info.uuid, VK_UUID_SIZE);
    text_add(&path, "-%016" PRIx64 ".cache", build);
}

/* Whether the driver's data is what this driver wrote. Drivers check too, but not all of them well. *empty: there is
 * nothing after the driver's header. */
static bool data_fits(const struct backend_device *d, const char *data, size_t bytes, bool *empty)
{
    VkPipelineCacheHeaderVersionOne h;
    *empty = !bytes;
    if (!bytes) return true;
    if (bytes < sizeof h) return false;
    memcpy(&h, data, sizeof h);
    *empty = bytes < (size_t)h.headerSize + 16; /* some count their entries, none */
    return h.headerSize >= sizeof h && h.headerSize <= bytes &&
           h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && h.vendorID == d->physical.vendor &&
           h.deviceID == d->physical.device && !memcmp(h.pipelineCacheUUID, d->physical.cache_uuid, VK_UUID_SIZE);
}

/* The sizes of a file's parts, or why it can't be used. */
static const char *file_refusal(struct backend_device *d, const char *file, size_t bytes, struct cache_header *h)
{
    struct cache_header expected = header_expected(d);
    if (bytes < sizeof *h) return "it is too short";
    memcpy(h, file, sizeof *h);
    expected.n_keys = h->n_keys;
    expected.data_bytes = h->data_bytes;
    expected.checksum = h->checksum;
    if (memcmp(h, &expected, sizeof *h)) return "it was written by another driver or build";
    size_t left = bytes - sizeof *h;
    if (h->n_keys > left / sizeof(uint64_t) || h->data_bytes != left - h->n_keys * sizeof(uint64_t)) {
        return "its length is wrong";
    }
    if (h->checksum != hash_bytes(HASH_START, file + sizeof *h, left)) return "its checksum is wrong";
    if (!data_fits(d, file + bytes - h->data_bytes, h->data_bytes, &d->pipelines.empty))
        return "the driver's part is of another driver";
    return NULL;
}

static VkResult cache_make(struct backend_device *d, const void *data, size_t bytes, VkPipelineCache *out)
{
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = bytes,
        .pInitialData = data,
    };
    VkResult r = d->vk.CreatePipelineCache(d->handle, &info, NULL, out);
    if (r != VK_SUCCESS) *out = VK_NULL_HANDLE;
    return r;
}

/* Takes over keys and data of a good file; no or no good file is no failure. */
static bool cache_load(struct backend_device *d, struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    char *file = NULL;
    size_t bytes = 0;
    struct error cause = {0};
    if (!store->path[0]) return true;
    bool exists, ok = cache_read(d->host, store->path, cache_max_bytes, &exists, &file, &bytes, &cause);
    if (ok && !exists) return true;
    if (!ok) {
        host_log(d->host, WHERRY_LOG_WARNING, "compiled kernels are not used: %s", cause.text);
        return true;
    }
    struct cache_header h;
    const char *refusal = file_refusal(d, file, bytes, &h);
    if (!refusal && cache_make(d, file + bytes - h.data_bytes, h.data_bytes, &store->cache) != VK_SUCCESS) {
        refusal = "the driver refuses it";
    }
    if (refusal) {
        host_log(d->host, WHERRY_LOG_WARNING, "%s: compiled kernels are not used: %s", store->path, refusal);
    } else {
        store->keys = host_alloc(d->host, h.n_keys, sizeof *store->keys, e);
        ok = store->keys;
        if (ok) memcpy(store->keys, file + sizeof h, h.n_keys * sizeof *store->keys);
        if (ok) store->n_keys = h.n_keys;
    }
    host_free(d->host, file);
    return ok;
}

bool key_known(const struct pipeline_store *store, uint64_t key)
{
    for (size_t i = 0; i < store->n_keys; i++) {
        if (store->keys[i] == key) return true;
    }
    return false;
}

/* Merges a good file into what there is. */
static bool file_merge(struct backend_device *d, const char *file, size_t bytes, const struct cache_header *h,
                       struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    VkPipelineCache other;
    size_t n = store->n_keys, added = 0;
    uint64_t *keys = host_grow(d->host, store->keys, n, n + h->n_keys, sizeof *keys, e);
    if (!keys) return false;
    store->keys = keys;
    for (size_t i = 0; i < h->n_keys; i++) {
        uint64_t key;
        memcpy(&key, file + sizeof *h + i * sizeof key, sizeof key);
        if (!key_known(store, key)) keys[n + added++] = key;
    }
    if (!added || cache_make(d, file + bytes - h->data_bytes, h->data_bytes, &other) != VK_SUCCESS) return true;
    if (d->vk.MergePipelineCaches(d->handle, store->cache, 1, &other) == VK_SUCCESS) store->n_keys += added;
    d->vk.DestroyPipelineCache(d->handle, other, NULL);
    return true;
}

bool pipeline_cache_refresh(struct backend_device *d, struct error *e)
{
    struct pipeline_store *store = &d->pipelines;
    char *file = NULL;
    size_t bytes = 0;
    bool exists = false, ok = true, empty = store->empty;
    struct error cause;
    struct cache_header h;
    if (!store->path[0] || !cache_read(d->host, store->path, cache_max_bytes, &exists, &file, &bytes, &cause))
        return true;
    if (!exists) return true;
    if (!file_refusal(d, file, bytes, &h))
        ok = file_merge(d, file, bytes, &h, e);
    else
        store->empty = empty; /* opening has said what is wrong with it */
    host_free(d->host, file);
    return ok;
}

/* The driver's data, after `before` bytes of room for the rest. Other pipelines of the process may have come in
 * between asking for the size and for the data, and some drivers name too small a size: then once more, with more room.
 */
static char *data_read(struct backend_device *d, size_t before, size_t *bytes, struct error *e)
{
    VkResult r = d->vk.GetPipelineCacheData(d->handle, d->pipelines.cache, bytes, NULL);
    size_t room = *bytes;
    for (int i = 0; r >= 0 && i < 4; i++, room = 2 * room + 4096) {
        char *file = host_alloc(d->host, 1, before + room, e);
        if (!file) return NULL;
        *bytes = room;
        r = d->vk.GetPipelineCacheData(d->handle, d->pipelines.cache, bytes, file + before);
        if (r == VK_SUCCESS) return file;
        host_free(d->host, file);
    }
    device_fail(d, e, r, "vkGetPipelineCacheData");
    return NULL;
}

/* The whole file in memory. */
static char *cache_pack(struct backend_device *d, size_t *bytes, struct error *e)
{
    const struct pipeline_store *store = &d->pipelines;
    struct cache_header h = header_expected(d);
    size_t key_bytes = store->n_keys * sizeof *store->keys, data_bytes = 0;
    char *file = data_read(d, sizeof h + key_bytes, &data_bytes, e);
    if (!file) return NULL;
    if (key_bytes) memcpy(file + sizeof h, store->keys, key_bytes);
    /* Mesa 26's lavapipe stores nothing and gives a piece of its header. */
    if (data_bytes < sizeof(VkPipelineCacheHeaderVersionOne)) data_bytes = 0;
    h.n_keys = store->n_keys;
    h.data_bytes = data_bytes;
    h.checksum = hash_bytes(HASH_START, file + sizeof h, key_bytes + data_bytes);
    memcpy(file, &h, sizeof h);
    *bytes = sizeof h + key_bytes + data_bytes;
    return file;
}

/* A cache that can't be written costs time at the next start, nothing else. */
void pipeline_cache_save(struct backend_device *d)
{
    struct error cause = {0};
    size_t bytes;
    if (!d->pipelines.path[0]) return;
    char *file = cache_pack(d, &bytes, &cause);
    if (!file || !cache_write(d->pipelines.path, file, bytes, &cause)) {
        host_log(d->host, WHERRY_LOG_WARNING, "compiled kernels are not kept: %s", cause.text);
    }
    host_free(d->host, file);
}

bool pipeline_cache_open(struct backend_device *d, struct error *e)
{
    path_make(d);
    TRY(cache_load(d, e));
    if (d->pipelines.cache) return true;
    VkResult r = cache_make(d, NULL, 0, &d->pipelines.cache);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkCreatePipelineCache");
}
