/* Opens devices, or wraps the application's. */
#include "vulkan.h"

#include <stdio.h>
#include <string.h>

#include "plan/variants.h"

/* ---- listing ---- */

static bool list_append(const struct host *host, wherry_device_info **list, size_t *count,
                        const wherry_device_info *info, struct error *e)
{
    wherry_device_info *grown = host_grow(host, *list, *count, *count + 1, sizeof *grown, e);
    if (!grown) return false;
    *list = grown;
    grown[(*count)++] = *info;
    return true;
}

static void info_id(wherry_device_info *info, size_t index)
{
    snprintf(info->id, sizeof info->id, "vulkan:%zu", index);
}

/* What stands in the list where Vulkan itself is broken. */
static bool list_append_broken(const struct host *host, wherry_device_info **list, size_t *count,
                               const struct error *cause, struct error *e)
{
    wherry_device_info info = {.name = "Vulkan", .api = "Vulkan"};
    info_id(&info, 0);
    snprintf(info.reason, sizeof info.reason, "%.*s", (int)sizeof info.reason - 1, cause->text);
    return list_append(host, list, count, &info, e);
}

bool vulkan_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    struct instance instance;
    struct physical *devices = NULL;
    uint32_t n = 0;
    struct error cause = {0};
    bool ok = instance_open(host, &instance, &cause) && physical_list(host, &instance, &devices, &n, &cause);
    instance_close(&instance);
    if (!ok && cause.status == WHERRY_STATUS_OUT_OF_HOST_MEMORY) {
        *e = cause;
        return false;
    }
    if (!ok && cause.status == WHERRY_STATUS_NO_DEVICE && vulkan_has_loader()) {
        host_log(host, WHERRY_LOG_INFO, "%s", cause.text);
        return true;
    }
    if (!ok) return list_append_broken(host, list, count, &cause, e);
    for (uint32_t i = 0; ok && i < n; i++) {
        info_id(&devices[i].info, i);
        ok = list_append(host, list, count, &devices[i].info, e);
    }
    host_free(host, devices);
    return ok;
}

/* ---- opening ---- */

static bool functions_load(struct backend_device *d, struct error *e)
{
#define REQUIRE(function)                                                                                              \
    d->vk.function = (PFN_vk##function)d->instance.vk.GetDeviceProcAddr(d->handle, "vk" #function);                    \
    if (!d->vk.function) {                                                                                             \
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "Vulkan: %s lacks vk" #function, d->physical.info.name);             \
    }
    DEVICE_FUNCTIONS(REQUIRE)
#undef REQUIRE
#define LOAD(function) d->vk.function = (PFN_vk##function)d->instance.vk.GetDeviceProcAddr(d->handle, "vk" #function);
    if (d->physical.statistics) {
        OPTIONAL_DEVICE_FUNCTIONS(LOAD)
    }
    if (d->physical.imports) {
        IMPORT_DEVICE_FUNCTIONS(LOAD)
    }
#undef LOAD
    d->physical.statistics = d->vk.GetPipelineExecutablePropertiesKHR && d->vk.GetPipelineExecutableStatisticsKHR;
    return true;
}

static bool device_pick(struct backend_device *d, size_t index, struct error *e)
{
    struct physical *list;
    uint32_t count;
    TRY(instance_open(d->host, &d->instance, e));
    TRY(physical_list(d->host, &d->instance, &list, &count, e));
    if (index < count) d->physical = list[index];
    host_free(d->host, list);
    if (index >= count) {
        return fail(e, WHERRY_STATUS_NO_DEVICE, "Vulkan: there is no device number %zu, only %u", index,
                    (unsigned)count);
    }
    if (!d->physical.info.usable) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "Vulkan: %s can't be used: %s", d->physical.info.name,
                    d->physical.info.reason);
    }
    return true;
}

/* Says by what the queue is of low priority, or that it is not. */
static void priority_tell(struct backend_device *d, bool low)
{
    wherry_device_info *info = &d->physical.info;
    const char *by = d->physical.priorities;
    if (d->external)
        snprintf(info->priority, sizeof info->priority, "the application's: it made the queue");
    else if (low)
        snprintf(info->priority, sizeof info->priority, "low (%s)", by);
    else
        snprintf(info->priority, sizeof info->priority, "the driver's usual one: %s%s",
                 by ? "it refuses low priority by " : "it lists neither VK_KHR_global_priority nor the EXT",
                 by ? by : "");
}

/* With low priority as far as the driver takes it: a priority of 0 is heeded among queues of one VkDevice, the
 * extension's among all processes' ones. */
static VkResult device_create(struct backend_device *d, VkDeviceCreateInfo *info, VkDeviceQueueCreateInfo *queue,
                              const char **extensions)
{
    static const float normal = 1.0f, low = 0.0f;
    const struct physical *p = &d->physical;
    VkDeviceQueueGlobalPriorityCreateInfoKHR global = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR,
        .globalPriority = VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR,
    };
    VkResult r = VK_ERROR_FEATURE_NOT_PRESENT;
    queue->pQueuePriorities = d->host->low_priority ? &low : &normal;
    if (d->host->low_priority && p->priorities) {
        queue->pNext = &global;
        extensions[info->enabledExtensionCount++] = p->priorities;
        r = d->instance.vk.CreateDevice(p->handle, info, NULL, &d->handle);
        queue->pNext = NULL;
        info->enabledExtensionCount--;
    }
    const bool made = r == VK_SUCCESS;
    if (!made) r = d->instance.vk.CreateDevice(p->handle, info, NULL, &d->handle);
    if (d->host->low_priority) priority_tell(d, made);
    return r;
}

static bool device_make(struct backend_device *d, struct error *e)
{
    const struct physical *p = &d->physical;
    static const float copying[] = {1.0f, 1.0f};
    const char *extensions[6 + MATRIX_EXTENSIONS];
    uint32_t n = 0;
    if (p->portability) extensions[n++] = "VK_KHR_portability_subset";
    if (p->feedback && p->api < VK_API_VERSION_1_3) {
        extensions[n++] = VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME;
    }
    if (p->imports) extensions[n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (p->limits.f16_arithmetic && p->api < VK_API_VERSION_1_2)
        extensions[n++] = VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME;
    VkDeviceQueueCreateInfo queues[] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = p->queue_family, .queueCount = 1},
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = p->copy_family,
         .queueCount = p->copy_queues,
         .pQueuePriorities = copying}};
    VkPhysicalDevice16BitStorageFeatures half = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = p->limits.f16,
    };
    VkPhysicalDeviceShaderFloat16Int8Features small = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .shaderFloat16 = p->limits.f16_arithmetic,
    };
    if (p->limits.f16_arithmetic) half.pNext = &small;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = &half,
        .pipelineExecutableInfo = VK_TRUE,
    };
    if (p->statistics) extensions[n++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    struct matrix_features matrices;
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = p->statistics ? (void *)&statistics : &half,
        .queueCreateInfoCount = p->imports && p->copy_queues ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = n,
        .ppEnabledExtensionNames = extensions,
    };
    matrices_enable(p, &matrices, &info, extensions);
    VkResult r = device_create(d, &info, queues, extensions);
    if (r != VK_SUCCESS) {
        d->handle = VK_NULL_HANDLE;
        return fail_result(e, r, "opening %s", p->info.name);
    }
    TRY(functions_load(d, e));
    d->vk.GetDeviceQueue(d->handle, p->queue_family, 0, &d->queue);
    d->up = d->down = d->queue;
    if (!p->imports || !p->copy_queues) return true;
    d->vk.GetDeviceQueue(d->handle, p->copy_family, 0, &d->up);
    d->vk.GetDeviceQueue(d->handle, p->copy_family, p->copy_queues - 1, &d->down);
    return true;
}

/* What the application gave, and 0 of the members that it does not know. */
static bool desc_take(const wherry_vulkan_desc *given, wherry_vulkan_desc *desc, struct error *e)
{
    const size_t least = offsetof(wherry_vulkan_desc, transfer_queue), size = given->struct_size;
    if (size < least) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_vulkan_desc: struct_size is %u, must be sizeof(wherry_vulkan_desc), %zu", (unsigned)size,
                    sizeof *desc);
    }
    *desc = (wherry_vulkan_desc){0};
    memcpy(desc, given, size < sizeof *desc ? size : sizeof *desc);
    if (!desc->instance || !desc->physical_device || !desc->device || !desc->queue) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_vulkan_desc: instance, physical_device, device and queue must all be given");
    }
    if (!desc->queue_lock != !desc->queue_unlock) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_vulkan_desc: queue_lock and queue_unlock must be given both or neither");
    }
    if (desc->device_extension_count && !desc->device_extensions) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_vulkan_desc: device_extensions is NULL");
    }
    return true;
}

static bool device_wrap(struct backend_device *d, const wherry_vulkan_desc *given, struct error *e)
{
    wherry_vulkan_desc taken, *desc = &taken;
    TRY(desc_take(given, desc, e));
    struct physical *p = &d->physical;
    d->external = true;
    TRY(instance_wrap(desc, &d->instance, e));
    TRY(physical_describe(d->host, &d->instance, desc->physical_device, p, e));
    if (!p->info.usable) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "Vulkan: %s can't be used: %s", p->info.name, p->info.reason);
    }
    TRY(physical_use_family(d->host, &d->instance, p, desc->queue_family, e));
    if (desc->transfer_queue) TRY(physical_family_copies(d->host, &d->instance, p, desc->transfer_queue_family, e));
    /* The device may do more than it was made for. */
    p->limits.f16 = p->limits.f16 && desc->storage_buffer_16bit_access;
    p->statistics = p->imports = false;
    p->limits.f16_arithmetic = p->limits.f16_arithmetic && p->limits.f16 && desc->cooperative_matrix;
    if (!p->limits.f16_arithmetic) {
        p->limits.coopmat_m = p->limits.coopmat_n = p->limits.coopmat_k = 0;
        p->limits.rungs &= ~RUNG_BIT(RUNG_COOPMAT);
    }
    p->limits.coopmat2 = p->limits.coopmat_bf16 = false;
    p->feedback = p->feedback && p->api >= VK_API_VERSION_1_3;
    for (size_t i = 0; i < desc->device_extension_count; i++) {
        if (!strcmp(desc->device_extensions[i], VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME)) p->feedback = true;
    }
    d->handle = desc->device;
    d->queue = desc->queue;
    d->transfer_queue = desc->transfer_queue;
    d->transfer_family = desc->transfer_queue ? desc->transfer_queue_family : desc->queue_family;
    d->queue_lock = desc->queue_lock;
    d->queue_unlock = desc->queue_unlock;
    d->queue_user = desc->user;
    if (d->host->low_priority) priority_tell(d, false);
    return functions_load(d, e);
}

static bool layouts_make(struct backend_device *d, struct error *e)
{
    VkDescriptorSetLayoutBinding slots[SLOT_COUNT];
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        slots[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = SLOT_COUNT,
        .pBindings = slots,
    };
    TRY(DEVICE_CREATE(d, DescriptorSetLayout, &set, &d->set_layout, e));
    VkPushConstantRange pushed = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(struct pushed)};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &d->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &pushed,
    };
    return DEVICE_CREATE(d, PipelineLayout, &layout, &d->pipeline_layout, e);
}

static bool commands_make(struct backend_device *d, struct error *e)
{
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->physical.queue_family,
    };
    TRY(DEVICE_CREATE(d, CommandPool, &pool, &d->pool, e));
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = d->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkResult r = d->vk.AllocateCommandBuffers(d->handle, &commands, &d->copy);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkAllocateCommandBuffers");
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return DEVICE_CREATE(d, Fence, &fence, &d->fence, e);
}

/* An empty submission: what a driver without a device behind it, or with one that is lost, fails first. A device that
 * answers at all answers this at once. */
static bool queue_try(struct backend_device *d, struct error *e)
{
    enum { SECONDS = 10 };
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkResult r = d->vk.BeginCommandBuffer(d->copy, &begin);
    if (r == VK_SUCCESS) r = d->vk.EndCommandBuffer(d->copy);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "an empty command buffer");
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &d->copy};
    return device_submit(d, &submit, 1, SECONDS, e) || fail_in(e, "it fails an empty submission");
}

/* What is needed to run something, or only to compile where the host wants devices that do no more. */
static bool queue_make(struct backend_device *d, struct error *e)
{
    if (commands_make(d, e) && queue_try(d, e)) return true;
    if (!d->host->compile_only || d->hung) return false;
    host_log(d->host, WHERRY_LOG_INFO, "%s can't execute: %s", d->physical.info.name, e->text);
    d->lost = false;
    d->inert = true;
    struct device_limits *limits = &d->physical.limits;
    if (!limits->max_buffer_bytes) limits->max_buffer_bytes = limits->memory_bytes = UINT64_MAX; /* it has no memory */
    return true;
}

struct backend_device *vulkan_open(const struct host *host, size_t index, const void *external,
                                   wherry_device_info *info, struct error *e)
{
    struct backend_device *d = host_alloc(host, 1, sizeof *d, e);
    if (!d) return NULL;
    d->host = host;
    mutex_make(&d->queueing);
    mutex_make(&d->copying);
    mutex_make(&d->building);
    if (!external) snprintf(d->listed, sizeof d->listed, "vulkan:%zu", index);
    bool ok = external ? device_wrap(d, external, e) : device_pick(d, index, e) && device_make(d, e);
    if (!ok || !layouts_make(d, e) || !queue_make(d, e) || !pipelines_open(d, e)) {
        vulkan_close(d);
        return NULL;
    }
    if (external) {
        snprintf(d->physical.info.id, sizeof d->physical.info.id, "vulkan:external");
    } else {
        info_id(&d->physical.info, index);
    }
    d->physical.limits.identity = &d->physical.identity;
    d->physical.limits.class = device_class_of(&d->physical.limits);
    if (d->physical.timestamp_bits) d->physical.limits.timer = "timestamp";
    d->physical.limits.timer_bits = d->physical.timestamp_bits;
    d->physical.limits.timer_seconds = d->physical.timestamp_ns * 1e-9;
    *info = d->physical.info;
    return d;
}

void vulkan_close(struct backend_device *d)
{
    if (!d) return;
    /* A hung device still runs what it was given: its objects stay, for destroying them would be undefined. */
    if (d->handle && d->vk.DestroyDevice && !d->hung) {
        copies_close(d);
        mapped_destroy(d, &d->transfer);
        pipelines_close(d);
        if (d->fence) d->vk.DestroyFence(d->handle, d->fence, NULL);
        if (d->pool) d->vk.DestroyCommandPool(d->handle, d->pool, NULL);
        if (d->pipeline_layout) d->vk.DestroyPipelineLayout(d->handle, d->pipeline_layout, NULL);
        if (d->set_layout) d->vk.DestroyDescriptorSetLayout(d->handle, d->set_layout, NULL);
    }
    if (d->handle && !d->external && !d->hung) {
        /* A device that lacks a function is half-opened, and its table incomplete. */
        PFN_vkDestroyDevice destroy =
            (PFN_vkDestroyDevice)d->instance.vk.GetDeviceProcAddr(d->handle, "vkDestroyDevice");
        if (destroy) destroy(d->handle, NULL);
    }
    if (!d->hung) instance_close(&d->instance);
    host_free(d->host, d->pipelines.list);
    host_free(d->host, d->pipelines.keys);
    mutex_free(&d->building);
    mutex_free(&d->copying);
    mutex_free(&d->queueing);
    host_free(d->host, d);
}

/* ---- what an application's device must have ---- */

wherry_status wherry_vulkan_query_needs(wherry_vulkan_needs *out)
{
    static const char *const none[] = {NULL};
    static const char *const device_extensions[] = {VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME,
                                                    VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
                                                    "VK_KHR_portability_subset", NULL};
    static const char *const instance_extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                                      VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME, NULL};
    static const char *const features[] = {
        "storageBuffer16BitAccess", "cooperativeMatrix",    "shaderFloat16", "vulkanMemoryModel",
        "subgroupSizeControl",      "computeFullSubgroups", "maintenance4",  NULL};
    if (!out || out->struct_size < sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = (wherry_vulkan_needs){
        .struct_size = out->struct_size,
        .api_version = VK_API_VERSION_1_1,
        .required_device_extensions = none,
        .optional_device_extensions = device_extensions,
        .optional_instance_extensions = instance_extensions,
        .required_features = none,
        .optional_features = features,
    };
    return WHERRY_STATUS_OK;
}
