/* Makes an instance and a device, as a program does that draws with them, with what the library can use of the hardware
 * (wherry_vulkan_query_needs), and lends it that device. The loader is opened at run time: the program starts without.
 */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<vulkan/vulkan.h>)
#define HAVE_VULKAN
#endif
#endif

#ifndef HAVE_VULKAN

struct lent_vulkan *lent_vulkan_open(wherry_context *context, bool any, wherry_device **device, char *why, size_t size)
{
    (void)context, (void)any, (void)device;
    snprintf(why, size, "this program was built without the headers of Vulkan");
    return NULL;
}

void lent_vulkan_close(struct lent_vulkan *lent) { (void)lent; }

#else

#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <wherry/wherry_vulkan.h>

#include "memory.h"

enum { DEVICES_MOST = 16, FAMILIES_MOST = 32, EXTENSIONS_MOST = 16 };

struct lent_vulkan {
    PFN_vkGetInstanceProcAddr get;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkDevice device;
    uint32_t family;
    const char *extensions[EXTENSIONS_MOST];
    uint32_t extension_count;
    bool halves, matrices; /* what was enabled */
};

/* A function of the instance, by its name, as its type. */
#define GET(v, name) ((PFN_##name)(v)->get((v)->instance, #name))

/* ---- the instance, and the device that it is ---- */

static const char *open_instance(struct lent_vulkan *v, const wherry_vulkan_needs *needs)
{
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    if (!loader) loader = dlopen("libvulkan.1.dylib", RTLD_NOW);
    void *get = loader ? dlsym(loader, "vkGetInstanceProcAddr") : NULL;
    if (!get) return "there is no Vulkan on this machine";
    memcpy(&v->get, &get, sizeof get); /* C has no cast from one to the other */
    uint32_t version = VK_API_VERSION_1_0;
    PFN_vkEnumerateInstanceVersion ask = GET(v, vkEnumerateInstanceVersion);
    if (ask) ask(&version);
    if (version < needs->api_version) return "this machine's Vulkan is too old";
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "search", .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    if (GET(v, vkCreateInstance)(&info, NULL, &v->instance)) return "Vulkan can't be started";
    return NULL;
}

static bool find_family(struct lent_vulkan *v, VkPhysicalDevice physical)
{
    VkQueueFamilyProperties families[FAMILIES_MOST];
    uint32_t count = FAMILIES_MOST;
    GET(v, vkGetPhysicalDeviceQueueFamilyProperties)(physical, &count, families);
    for (v->family = 0; v->family < count; v->family++)
        if (families[v->family].queueFlags & VK_QUEUE_COMPUTE_BIT) return true;
    return false;
}

static const char *find_device(struct lent_vulkan *v, const wherry_vulkan_needs *needs, bool any)
{
    static const VkPhysicalDeviceType wanted[] = {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                                  VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                                  VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU, VK_PHYSICAL_DEVICE_TYPE_CPU};
    VkPhysicalDevice devices[DEVICES_MOST];
    uint32_t count = DEVICES_MOST;
    VkResult result = GET(v, vkEnumeratePhysicalDevices)(v->instance, &count, devices);
    if (result < 0) count = 0;
    for (size_t w = 0; w < (any ? 4 : 3); w++)
        for (uint32_t i = 0; i < count; i++) {
            GET(v, vkGetPhysicalDeviceProperties)(devices[i], &v->properties);
            if (v->properties.deviceType != wanted[w] || v->properties.apiVersion < needs->api_version ||
                !find_family(v, devices[i]))
                continue;
            v->physical = devices[i];
            return NULL;
        }
    return "no GPU through Vulkan";
}

/* ---- the device, with what the library can use ---- */

/* Of the extensions that are asked for, those that the device has. */
static void choose_extensions(struct lent_vulkan *v, const char *const *wanted)
{
    uint32_t count = 0;
    PFN_vkEnumerateDeviceExtensionProperties list = GET(v, vkEnumerateDeviceExtensionProperties);
    list(v->physical, NULL, &count, NULL);
    VkExtensionProperties *all = need(calloc(count ? count : 1, sizeof *all));
    list(v->physical, NULL, &count, all);
    for (; *wanted; wanted++)
        for (uint32_t i = 0; i < count && v->extension_count < EXTENSIONS_MOST; i++)
            if (!strcmp(all[i].extensionName, *wanted)) v->extensions[v->extension_count++] = *wanted;
    free(all);
}

#ifdef VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME
static bool enabled(const struct lent_vulkan *v, const char *extension)
{
    for (uint32_t i = 0; i < v->extension_count; i++)
        if (!strcmp(v->extensions[i], extension)) return true;
    return false;
}
#endif

/* Structures of features, chained; an older device knows the first alone. */
struct features {
    VkPhysicalDeviceFeatures2 all;
    VkPhysicalDevice16BitStorageFeatures storage;
    VkPhysicalDeviceShaderFloat16Int8Features small;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups;
    VkPhysicalDeviceMaintenance4Features maintenance;
#ifdef VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices;
#endif
};

static void chain(const struct lent_vulkan *v, struct features *f)
{
    *f = (struct features){.all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f->storage},
                           .storage = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES}};
    if (v->properties.apiVersion < VK_API_VERSION_1_3) return;
    f->storage.pNext = &f->small;
    f->small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    f->small.pNext = &f->memory;
    f->memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
    f->memory.pNext = &f->subgroups;
    f->subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    f->subgroups.pNext = &f->maintenance;
    f->maintenance.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES;
#ifdef VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME /* older headers lack it */
    if (!enabled(v, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) return;
    f->maintenance.pNext = &f->matrices;
    f->matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
#endif
}

/* Enables those of the features asked for that the device has. They are named as their members are. */
static void choose_features(struct lent_vulkan *v, const char *const *wanted, struct features *enable)
{
    struct features has;
    chain(v, &has);
    chain(v, enable);
    GET(v, vkGetPhysicalDeviceFeatures2)(v->physical, &has.all);
    const struct {
        const char *name;
        VkBool32 has, *enable;
    } known[] = {
        {"storageBuffer16BitAccess", has.storage.storageBuffer16BitAccess, &enable->storage.storageBuffer16BitAccess},
        {"shaderFloat16", has.small.shaderFloat16, &enable->small.shaderFloat16},
        {"vulkanMemoryModel", has.memory.vulkanMemoryModel, &enable->memory.vulkanMemoryModel},
        {"subgroupSizeControl", has.subgroups.subgroupSizeControl, &enable->subgroups.subgroupSizeControl},
        {"computeFullSubgroups", has.subgroups.computeFullSubgroups, &enable->subgroups.computeFullSubgroups},
        {"maintenance4", has.maintenance.maintenance4, &enable->maintenance.maintenance4},
#ifdef VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME
        {"cooperativeMatrix", has.matrices.cooperativeMatrix, &enable->matrices.cooperativeMatrix},
#endif
    };
    bool all = true;
    for (; *wanted; wanted++) {
        bool have = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(known[i].name, *wanted)) *known[i].enable = known[i].has, have = known[i].has;
        all = all && have;
    }
    v->halves = enable->storage.storageBuffer16BitAccess;
    v->matrices = all; /* these need all of them */
}

static const char *open_device(struct lent_vulkan *v, const wherry_vulkan_needs *needs)
{
    struct features features;
    choose_extensions(v, needs->optional_device_extensions);
    choose_features(v, needs->optional_features, &features);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = v->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features.all,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = v->extension_count,
                                     .ppEnabledExtensionNames = v->extensions};
    return GET(v, vkCreateDevice)(v->physical, &info, NULL, &v->device) ? "the GPU can't be opened" : NULL;
}

static bool lend(struct lent_vulkan *v, wherry_context *context, wherry_device **device)
{
    VkQueue queue;
    GET(v, vkGetDeviceQueue)(v->device, v->family, 0, &queue);
    const wherry_vulkan_desc desc = {.struct_size = sizeof desc,
                                     .api_version = VK_API_VERSION_1_3,
                                     .instance = v->instance,
                                     .physical_device = v->physical,
                                     .device = v->device,
                                     .queue = queue,
                                     .queue_family = v->family,
                                     .get_instance_proc_addr = (wherry_vulkan_get_function)v->get,
                                     .storage_buffer_16bit_access = v->halves,
                                     .cooperative_matrix = v->matrices,
                                     .device_extensions = v->extensions,
                                     .device_extension_count = v->extension_count};
    return wherry_device_wrap_vulkan(context, &desc, device) == WHERRY_STATUS_OK;
}

struct lent_vulkan *lent_vulkan_open(wherry_context *context, bool any, wherry_device **device, char *why, size_t size)
{
    struct lent_vulkan *v = need(calloc(1, sizeof *v));
    wherry_vulkan_needs needs = {.struct_size = sizeof needs};
    const char *failure = wherry_vulkan_query_needs(&needs) ? "the library is another one" : NULL;
    if (!failure) failure = open_instance(v, &needs);
    if (!failure) failure = find_device(v, &needs, any);
    if (!failure) failure = open_device(v, &needs);
    if (!failure && lend(v, context, device)) return v;
    snprintf(why, size, "%s", failure ? failure : wherry_last_error(context));
    lent_vulkan_close(v);
    return NULL;
}

void lent_vulkan_close(struct lent_vulkan *v)
{
    if (!v) return;
    if (v->device) GET(v, vkDestroyDevice)(v->device, NULL);
    if (v->instance) GET(v, vkDestroyInstance)(v->instance, NULL);
    free(v);
}

#endif
