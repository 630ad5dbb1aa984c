/* Finds the Vulkan loader, makes instances, and puts driver errors into words. */
#include "vulkan.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"

/* ---- errors ---- */

static const struct {
    VkResult result;
    const char *name;
    wherry_status status;
    const char *meaning;
} results[] = {
    {VK_NOT_READY, "VK_NOT_READY", WHERRY_STATUS_UNSUPPORTED, "the driver has no result where it must have one"},
    {VK_TIMEOUT, "VK_TIMEOUT", WHERRY_STATUS_DEVICE_LOST, "the device did not answer in time"},
    {VK_INCOMPLETE, "VK_INCOMPLETE", WHERRY_STATUS_UNSUPPORTED, "the driver gave less than there is"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", WHERRY_STATUS_OUT_OF_HOST_MEMORY,
     "the driver ran out of host memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
     "the device has too little free memory; use smaller limits or end other programs that use it"},
    {VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY", WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
     "the driver's pool is exhausted"},
    {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED", WHERRY_STATUS_NO_DEVICE,
     "the driver could not start; check its installation and the rights on its device files"},
    {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", WHERRY_STATUS_DEVICE_LOST,
     "the device stopped working (a fault, a watchdog or a removal); close it and open it again"},
    {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED", WHERRY_STATUS_OUT_OF_HOST_MEMORY,
     "device memory can't be mapped"},
    {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT", WHERRY_STATUS_NO_DEVICE,
     "a layer that VK_INSTANCE_LAYERS names is not installed"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT", WHERRY_STATUS_UNSUPPORTED,
     "the driver lacks an extension that it listed"},
    {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT", WHERRY_STATUS_UNSUPPORTED,
     "the driver lacks a feature that it listed"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER", WHERRY_STATUS_NO_DEVICE,
     "no Vulkan driver is installed that works here"},
    {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS", WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
     "the driver allows no more objects of this kind"},
    {VK_ERROR_INVALID_SHADER_NV, "VK_ERROR_INVALID_SHADER_NV", WHERRY_STATUS_COMPILE_FAILED,
     "the driver refused a shader"},
    {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN", WHERRY_STATUS_UNSUPPORTED, "the driver gives no reason"},
};

const char *result_name(VkResult result)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result == result) return results[i].name;
    }
    return "an unknown VkResult";
}

bool fail_result(struct error *e, VkResult result, const char *what, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result != result) continue;
        return fail_native(e, results[i].status, result, "Vulkan: %s: %s, %s", text, results[i].name,
                           results[i].meaning);
    }
    return fail_native(e, WHERRY_STATUS_UNSUPPORTED, result, "Vulkan: %s: VkResult %d", text, (int)result);
}

/* ---- the loader: once per process, never changed afterwards ---- */

static struct once loader_once = ONCE_INIT;
static PFN_vkGetInstanceProcAddr loader_function;
static char loader_missing[600];

/* Not through volk, whose functions of instances are global: docs/design.md has the reasons. */
static void loader_load(void)
{
    static const char *const names[] = {
#if defined(_WIN32)
        "vulkan-1.dll",
#elif defined(__APPLE__)
        "libvulkan.dylib",
        "libvulkan.1.dylib",
        "libMoltenVK.dylib",
#else
        "libvulkan.so.1",
        "libvulkan.so",
#endif
        NULL
    };
    const char *symbol = "vkGetInstanceProcAddr";
    void *library = library_open("WHERRY_VULKAN_LIBRARY", names, symbol, loader_missing, sizeof loader_missing);
    if (library) loader_function = (PFN_vkGetInstanceProcAddr)library_get(library, symbol);
}

bool vulkan_has_loader(void)
{
    run_once(&loader_once, loader_load);
    return loader_function;
}

static PFN_vkGetInstanceProcAddr loader_get(struct error *e)
{
    run_once(&loader_once, loader_load);
    if (loader_function) return loader_function;
    fail(e, WHERRY_STATUS_NO_DEVICE,
         "Vulkan: no loader; install it (Debian, Ubuntu: libvulkan1) and a driver. Tried: %s", loader_missing);
    return NULL;
}

/* ---- validation messages ---- */

static VKAPI_ATTR VkBool32 VKAPI_CALL message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                              VkDebugUtilsMessageTypeFlagsEXT types,
                                              const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)types;
    bool error = severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    host_log(user, error ? WHERRY_LOG_ERROR : WHERRY_LOG_WARNING, "Vulkan validation: %s: %s",
             data->pMessageIdName ? data->pMessageIdName : "", data->pMessage);
    return VK_FALSE;
}

/* Without the type GENERAL: that is the loader telling about drivers that find no device. */
static VkDebugUtilsMessengerCreateInfoEXT messenger_info(const struct host *host)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = message,
        .pUserData = (void *)host,
    };
}

/* ---- instances ---- */

static bool functions_load(struct instance *i, bool debug, struct error *e)
{
#define LOAD(name) i->vk.name = (PFN_vk##name)i->get(i->handle, "vk" #name);
#define REQUIRE(name)                                                                                                  \
    LOAD(name)                                                                                                         \
    if (!i->vk.name) return fail(e, WHERRY_STATUS_UNSUPPORTED, "Vulkan: the instance lacks vk" #name);
    INSTANCE_FUNCTIONS(REQUIRE)
    OPTIONAL_INSTANCE_FUNCTIONS(LOAD)
    if (debug) {
        DEBUG_FUNCTIONS(LOAD)
    }
#undef REQUIRE
#undef LOAD
    return true;
}

static bool extension_listed(const VkExtensionProperties *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(list[i].extensionName, name)) return true;
    }
    return false;
}

bool instance_open(const struct host *host, struct instance *out, struct error *e)
{
    *out = (struct instance){.get = loader_get(e), .api = VK_API_VERSION_1_3};
    if (!out->get) return false;
    PFN_vkEnumerateInstanceVersion version =
        (PFN_vkEnumerateInstanceVersion)out->get(NULL, "vkEnumerateInstanceVersion");
    PFN_vkEnumerateInstanceExtensionProperties list_extensions =
        (PFN_vkEnumerateInstanceExtensionProperties)out->get(NULL, "vkEnumerateInstanceExtensionProperties");
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)out->get(NULL, "vkCreateInstance");
    uint32_t loader_api = 0;
    if (!list_extensions || !create || !version || version(&loader_api) != VK_SUCCESS ||
        loader_api < VK_API_VERSION_1_1) {
        return fail(e, WHERRY_STATUS_NO_DEVICE, "Vulkan: the loader is older than Vulkan 1.1; install a newer one");
    }

    uint32_t count = 0;
    VkResult r = list_extensions(NULL, &count, NULL);
    if (r != VK_SUCCESS) return fail_result(e, r, "vkEnumerateInstanceExtensionProperties");
    VkExtensionProperties *extensions = host_alloc(host, count, sizeof *extensions, e);
    if (!extensions) return false;
    r = list_extensions(NULL, &count, extensions);
    const char *enabled[2];
    uint32_t n = 0;
    bool debug = r >= 0 && extension_listed(extensions, count, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    bool portability = r >= 0 && extension_listed(extensions, count, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    host_free(host, extensions);
    if (r < 0) return fail_result(e, r, "vkEnumerateInstanceExtensionProperties");
    if (debug) enabled[n++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    if (portability) enabled[n++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;

    VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info(host);
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "wherry",
        .pEngineName = "wherry",
        .engineVersion = VK_MAKE_API_VERSION(0, WHERRY_VERSION_MAJOR, WHERRY_VERSION_MINOR, WHERRY_VERSION_PATCH),
        .apiVersion = out->api,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = debug && host->log ? &messages : NULL,
        .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &application,
        .enabledExtensionCount = n,
        .ppEnabledExtensionNames = enabled,
    };
    r = create(&info, NULL, &out->handle);
    if (r != VK_SUCCESS) {
        out->handle = VK_NULL_HANDLE;
        return fail_result(e, r, "vkCreateInstance");
    }
    if (!functions_load(out, debug, e)) return false;
    if (!debug || !host->log || !out->vk.CreateDebugUtilsMessengerEXT) return true;
    r = out->vk.CreateDebugUtilsMessengerEXT(out->handle, &messages, NULL, &out->messenger);
    if (r != VK_SUCCESS) out->messenger = VK_NULL_HANDLE; /* without messages, then */
    return true;
}

bool instance_wrap(const wherry_vulkan_desc *desc, struct instance *out, struct error *e)
{
    *out = (struct instance){
        .handle = desc->instance,
        .external = true,
        .get = (PFN_vkGetInstanceProcAddr)desc->get_instance_proc_addr,
        .api = desc->api_version ? desc->api_version : VK_API_VERSION_1_1,
    };
    if (!out->get) out->get = loader_get(e);
    return out->get && functions_load(out, desc->debug_utils, e);
}

/* The loader unloads the drivers with the last instance, and a driver may not bear being loaded again and again:
 * NVIDIA's 580 failed after some 28 times in one process. So the first instance that is closed lives as long as the
 * process. One of its own, made before all others, took as long as loading the drivers does. */
static bool instance_keep(VkInstance handle)
{
    static _Atomic(VkInstance) keeper;
    VkInstance none = VK_NULL_HANDLE;
    return atomic_compare_exchange_strong(&keeper, &none, handle);
}

void instance_close(struct instance *i)
{
    if (i->handle && !i->external) {
        if (i->messenger) i->vk.DestroyDebugUtilsMessengerEXT(i->handle, i->messenger, NULL);
        /* A half-opened instance may lack its table. */
        PFN_vkDestroyInstance destroy = (PFN_vkDestroyInstance)i->get(i->handle, "vkDestroyInstance");
        if (destroy && !instance_keep(i->handle)) destroy(i->handle, NULL);
    }
    *i = (struct instance){0};
}
