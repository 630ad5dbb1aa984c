/* Describes the physical devices of an instance: names, limits, order, and why one can't be used. */
#include "vulkan.h"

#include <stdio.h>
#include <string.h>

#include "backends/quirks.h"
#include "plan/variants.h"

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- queue families ---- */

static VkQueueFamilyProperties *families_list(const struct host *host, const struct instance *instance,
                                              VkPhysicalDevice handle, uint32_t *count, struct error *e)
{
    *count = 0;
    instance->vk.GetPhysicalDeviceQueueFamilyProperties(handle, count, NULL);
    VkQueueFamilyProperties *families = host_alloc(host, *count, sizeof *families, e);
    if (families) instance->vk.GetPhysicalDeviceQueueFamilyProperties(handle, count, families);
    return families;
}

/* Timestamps count most; then a family that does not draw, where a desktop's work is not in the way. */
static int family_rank(const VkQueueFamilyProperties *family)
{
    if (!family->queueCount || !(family->queueFlags & VK_QUEUE_COMPUTE_BIT)) return 0;
    return 1 + (family->timestampValidBits ? 2 : 0) + (family->queueFlags & VK_QUEUE_GRAPHICS_BIT ? 0 : 1);
}

bool physical_use_family(const struct host *host, const struct instance *instance, struct physical *p, uint32_t family,
                         struct error *e)
{
    uint32_t count;
    VkQueueFamilyProperties *families = families_list(host, instance, p->handle, &count, e);
    if (!families) return false;
    bool found = family < count && family_rank(&families[family]);
    if (found) {
        p->queue_family = family;
        p->timestamp_bits = families[family].timestampValidBits;
    }
    host_free(host, families);
    if (found) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: queue family %u of %s has no compute queue",
                (unsigned)family, p->info.name);
}

bool physical_family_copies(const struct host *host, const struct instance *instance, const struct physical *p,
                            uint32_t family, struct error *e)
{
    const VkQueueFlags copying = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    uint32_t count;
    VkQueueFamilyProperties *families = families_list(host, instance, p->handle, &count, e);
    if (!families) return false;
    bool copies = family < count && families[family].queueCount && families[family].queueFlags & copying;
    host_free(host, families);
    return copies || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: queue family %u of %s has no queue that copies",
                          (unsigned)family, p->info.name);
}

/* ---- one device ---- */

static bool extension_present(const VkExtensionProperties *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(list[i].extensionName, name)) return true;
    }
    return false;
}

static wherry_device_type device_type(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return WHERRY_DEVICE_DISCRETE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return WHERRY_DEVICE_INTEGRATED_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return WHERRY_DEVICE_VIRTUAL_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return WHERRY_DEVICE_CPU;
    default:
        return WHERRY_DEVICE_OTHER;
    }
}

static void refuse(struct physical *p, const char *reason)
{
    p->info.usable = false;
    snprintf(p->info.reason, sizeof p->info.reason, "%s", reason);
}

/* What Vulkan 1.0 tells, which every driver answers. */
static void describe_basics(struct physical *p, const VkPhysicalDeviceProperties *properties)
{
    snprintf(p->info.name, sizeof p->info.name, "%s", properties->deviceName);
    snprintf(p->info.driver, sizeof p->info.driver, "%u.%u.%u", VK_VERSION_MAJOR(properties->driverVersion),
             VK_VERSION_MINOR(properties->driverVersion), VK_VERSION_PATCH(properties->driverVersion));
    snprintf(p->info.api, sizeof p->info.api, "Vulkan %u.%u.%u", VK_API_VERSION_MAJOR(properties->apiVersion),
             VK_API_VERSION_MINOR(properties->apiVersion), VK_API_VERSION_PATCH(properties->apiVersion));
    p->info.type = device_type(properties->deviceType);
    p->vendor = properties->vendorID;
    p->device = properties->deviceID;
    p->driver_version = properties->driverVersion;
    p->identity = (struct device_identity){
        .api = DEVICE_API_VULKAN, .vendor_id = properties->vendorID, .device_id = properties->deviceID};
    snprintf(p->identity.name, sizeof p->identity.name, "%s", properties->deviceName);
    memcpy(p->cache_uuid, properties->pipelineCacheUUID, sizeof p->cache_uuid);
    for (uint32_t i = 0; i < p->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &p->memory.memoryHeaps[i];
        if (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT && heap->size > p->info.memory_bytes) {
            p->info.memory_bytes = heap->size;
        }
    }
}

static void describe_limits(struct physical *p, const VkPhysicalDeviceLimits *limits)
{
    p->timestamp_ns = limits->timestampPeriod;
    memcpy(p->max_groups, limits->maxComputeWorkGroupCount, sizeof p->max_groups);
    uint32_t local = limits->maxComputeWorkGroupInvocations;
    if (local > limits->maxComputeWorkGroupSize[0]) local = limits->maxComputeWorkGroupSize[0];
    p->limits = (struct device_limits){
        .cpu = p->info.type == WHERRY_DEVICE_CPU,
        .subgroup_min = 1,
        .subgroup_max = 1,
        .shared_bytes = limits->maxComputeSharedMemorySize,
        .max_local_size = local,
        .max_binding_bytes = limits->maxStorageBufferRange,
        .memory_bytes = p->info.memory_bytes,
        .rungs = RUNG_BIT(RUNG_TILED),
    };
}

/* Properties and features that Vulkan 1.1's extensible queries tell. */
static void describe_more(const struct instance *instance, struct physical *p, const VkExtensionProperties *extensions,
                          uint32_t n_extensions)
{
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                   .pNext = &id};
    VkPhysicalDeviceMaintenance3Properties allocation = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &subgroup};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &allocation};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties buffers = {.sType =
                                                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    const struct {
        void *properties;
        uint32_t core; /* the version that has it */
        const char *extension;
    } optional[] = {
        {&driver, VK_API_VERSION_1_2, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME},
        {&sizes, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME},
        {&buffers, VK_API_VERSION_1_3, VK_KHR_MAINTENANCE_4_EXTENSION_NAME},
    };
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        if (p->api < optional[i].core && !extension_present(extensions, n_extensions, optional[i].extension)) continue;
        VkBaseOutStructure *link = optional[i].properties;
        link->pNext = properties.pNext;
        properties.pNext = link;
    }
    instance->vk.GetPhysicalDeviceProperties2(p->handle, &properties);

    memcpy(p->info.uuid, id.deviceUUID, sizeof p->info.uuid);
    p->identity.driver_id = driver.driverID;
    if (driver.driverName[0]) {
        snprintf(p->info.driver, sizeof p->info.driver, "%.120s%s%.120s", driver.driverName,
                 driver.driverInfo[0] ? " " : "", driver.driverInfo);
    }
    snprintf(p->identity.driver_text, sizeof p->identity.driver_text, "%s", p->info.driver);
    identity_versions(&p->identity, driver.driverInfo, p->driver_version);
    p->limits.subgroup_min = sizes.minSubgroupSize ? sizes.minSubgroupSize : subgroup.subgroupSize;
    p->limits.subgroup_max = sizes.maxSubgroupSize ? sizes.maxSubgroupSize : subgroup.subgroupSize;
    p->limits.max_buffer_bytes = min_u64(allocation.maxMemoryAllocationSize, p->info.memory_bytes);
    if (buffers.maxBufferSize) {
        p->limits.max_buffer_bytes = min_u64(p->limits.max_buffer_bytes, buffers.maxBufferSize);
    }

    VkPhysicalDevice16BitStorageFeatures half = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &half};
    VkPhysicalDeviceShaderFloat16Int8Features small = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
    bool core = p->api >= VK_API_VERSION_1_2;
    if (core || extension_present(extensions, n_extensions, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
        half.pNext = &small;
    instance->vk.GetPhysicalDeviceFeatures2(p->handle, &features);
    p->limits.f16 = half.storageBuffer16BitAccess;
    p->limits.f16_arithmetic = p->limits.f16 && small.shaderFloat16;

    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    if (extension_present(extensions, n_extensions, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) {
        features = (VkPhysicalDeviceFeatures2){.sType = features.sType, .pNext = &statistics};
        instance->vk.GetPhysicalDeviceFeatures2(p->handle, &features);
    }
    p->statistics = statistics.pipelineExecutableInfo;
}

static void describe_quirks(struct physical *p)
{
    p->limits.quirks = quirks_find(&p->identity, p->info.quirks, sizeof p->info.quirks);
    if (p->limits.quirks & QUIRK_NO_16_BIT) p->limits.f16 = p->limits.f16_arithmetic = false;
    if (p->limits.quirks & QUIRK_NO_UUID) memset(p->info.uuid, 0, sizeof p->info.uuid);
}

bool physical_describe(const struct host *host, const struct instance *instance, VkPhysicalDevice handle,
                       struct physical *p, struct error *e)
{
    *p = (struct physical){.handle = handle, .info.usable = true};
    VkPhysicalDeviceProperties properties;
    instance->vk.GetPhysicalDeviceProperties(handle, &properties);
    instance->vk.GetPhysicalDeviceMemoryProperties(handle, &p->memory);
    p->api = instance->api < properties.apiVersion ? instance->api : properties.apiVersion;
    describe_basics(p, &properties);
    describe_limits(p, &properties.limits);
    if (p->api < VK_API_VERSION_1_1) {
        refuse(p, "the driver is older than Vulkan 1.1; install a newer one");
        return true;
    }

    uint32_t n_extensions = 0;
    VkResult r = instance->vk.EnumerateDeviceExtensionProperties(handle, NULL, &n_extensions, NULL);
    if (r < 0) n_extensions = 0;
    VkExtensionProperties *extensions = host_alloc(host, n_extensions, sizeof *extensions, e);
    if (!extensions) return false;
    if (n_extensions) {
        r = instance->vk.EnumerateDeviceExtensionProperties(handle, NULL, &n_extensions, extensions);
        if (r < 0) n_extensions = 0;
    }
    describe_more(instance, p, extensions, n_extensions);
    describe_quirks(p);
    p->portability = extension_present(extensions, n_extensions, "VK_KHR_portability_subset");
    static const char *const priorities[] = {VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME,
                                             VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME};
    for (size_t i = 0; !p->priorities && i < sizeof priorities / sizeof *priorities; i++)
        if (extension_present(extensions, n_extensions, priorities[i])) p->priorities = priorities[i];
    p->budget = instance->vk.GetPhysicalDeviceMemoryProperties2 &&
                extension_present(extensions, n_extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    p->feedback = p->api >= VK_API_VERSION_1_3 ||
                  extension_present(extensions, n_extensions, VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME);
    p->imports = extension_present(extensions, n_extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    bool ok = matrices_describe(host, instance, p, extensions, n_extensions, e);
    host_free(host, extensions);
    if (!ok) return false;

    uint32_t n_families;
    VkQueueFamilyProperties *families = families_list(host, instance, handle, &n_families, e);
    if (!families) return false;
    int best = 0;
    for (uint32_t i = 0; i < n_families; i++) {
        const VkQueueFlags other = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
        if (p->copy_queues || !(families[i].queueFlags & VK_QUEUE_TRANSFER_BIT) || families[i].queueFlags & other)
            continue;
        p->copy_family = i;
        p->copy_queues = families[i].queueCount < 2 ? families[i].queueCount : 2;
    }
    for (uint32_t i = 0; i < n_families; i++) {
        int rank = family_rank(&families[i]);
        if (rank <= best) continue;
        best = rank;
        p->queue_family = i;
        p->timestamp_bits = families[i].timestampValidBits;
    }
    host_free(host, families);

    uint32_t slots = properties.limits.maxPerStageDescriptorStorageBuffers;
    if (slots > properties.limits.maxDescriptorSetStorageBuffers) {
        slots = properties.limits.maxDescriptorSetStorageBuffers;
    }
    if (r < 0) {
        char reason[128];
        snprintf(reason, sizeof reason, "the driver fails to list its extensions (%s)", result_name(r));
        refuse(p, reason);
    } else if (!best) {
        refuse(p, "the device has no compute queue");
    } else if (slots < SLOT_COUNT) {
        char reason[128];
        snprintf(reason, sizeof reason, "a shader may use only %u storage buffers, and kernels need %d",
                 (unsigned)slots, SLOT_COUNT);
        refuse(p, reason);
    }
    return true;
}

/* ---- all devices ---- */

static int type_rank(wherry_device_type type)
{
    switch (type) {
    case WHERRY_DEVICE_DISCRETE_GPU:
        return 0;
    case WHERRY_DEVICE_INTEGRATED_GPU:
        return 1;
    case WHERRY_DEVICE_VIRTUAL_GPU:
        return 2;
    case WHERRY_DEVICE_CPU:
        return 3;
    default:
        return 4;
    }
}

static bool goes_before(const struct physical *a, const struct physical *b)
{
    int order = type_rank(a->info.type) - type_rank(b->info.type);
    return order ? order < 0 : memcmp(a->info.uuid, b->info.uuid, sizeof a->info.uuid) < 0;
}

bool physical_list(const struct host *host, const struct instance *instance, struct physical **list, uint32_t *count,
                   struct error *e)
{
    uint32_t n = 0;
    VkResult r = instance->vk.EnumeratePhysicalDevices(instance->handle, &n, NULL);
    if (r < 0) return fail_result(e, r, "vkEnumeratePhysicalDevices");
    VkPhysicalDevice *handles = host_alloc(host, n, sizeof *handles, e);
    struct physical *devices = handles ? host_alloc(host, n, sizeof *devices, e) : NULL;
    bool ok = devices;
    if (ok && n) {
        r = instance->vk.EnumeratePhysicalDevices(instance->handle, &n, handles);
        ok = r >= 0 || fail_result(e, r, "vkEnumeratePhysicalDevices");
    }
    /* Insertion keeps the driver's order among equals. */
    for (uint32_t i = 0; ok && i < n; i++) {
        struct physical new;
        ok = physical_describe(host, instance, handles[i], &new, e);
        if (!ok) break;
        uint32_t at = i;
        for (; at && goes_before(&new, &devices[at - 1]); at--) devices[at] = devices[at - 1];
        devices[at] = new;
    }
    host_free(host, handles);
    if (!ok) {
        host_free(host, devices);
        return false;
    }
    *list = devices;
    *count = n;
    return true;
}
