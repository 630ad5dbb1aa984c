/* What a driver takes to open its device, and nothing else: what is left of a start's time is Wherry's.
 *
 *   open_device opencl|vulkan [NAME]
 *
 * opens the first device whose name has NAME in it: OpenCL's platforms, devices, context and queue, by the ICD loader
 * that the program is linked with; Vulkan's loader, opened at run time, instance, physical devices, device and queue.
 * Prints one line of JSON: seconds on the clock and of the processors, for each step and in all. */
#define _POSIX_C_SOURCE 200809L
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <CL/cl.h>
#include <vulkan/vulkan.h>

static struct {
    double wall, processor;
    double first_wall, first_processor;
    int steps;
} now;

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ends a step. */
static void step(const char *name)
{
    double wall = clock_seconds(CLOCK_MONOTONIC), processor = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("%s{\"part\":\"%s\",\"seconds\":%.9f,\"processor_seconds\":%.9f}", now.steps++ ? "," : "", name,
           wall - now.wall, processor - now.processor);
    now.wall = wall;
    now.processor = processor;
}

static void die(const char *what, int code)
{
    fprintf(stderr, "open_device: %s: %d\n", what, code);
    exit(1);
}

/* ---- OpenCL ---- */

static void open_opencl(const char *wanted)
{
    enum { MOST = 64 };
    cl_platform_id platforms[MOST];
    cl_uint n_platforms = 0;
    cl_int code = clGetPlatformIDs(MOST, platforms, &n_platforms);
    if (code) die("clGetPlatformIDs", code);
    step("platforms");
    cl_device_id found = NULL;
    for (cl_uint p = 0; p < n_platforms && p < MOST && !found; p++) {
        cl_device_id devices[MOST];
        cl_uint n = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &n)) continue;
        for (cl_uint d = 0; d < n && d < MOST && !found; d++) {
            char name[256] = "";
            clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name, name, NULL);
            if (strstr(name, wanted)) found = devices[d];
        }
    }
    if (!found) die("no OpenCL device has this name", 0);
    step("devices");
    cl_context context = clCreateContext(NULL, 1, &found, NULL, NULL, &code);
    if (!context) die("clCreateContext", code);
    step("context");
    cl_command_queue queue = clCreateCommandQueue(context, found, 0, &code);
    if (!queue) die("clCreateCommandQueue", code);
    step("queue");
}

/* ---- Vulkan ---- */

static PFN_vkGetInstanceProcAddr get;
#define GET(instance, name) PFN_##name name = (PFN_##name)get(instance, #name)

static VkPhysicalDevice find_physical(VkInstance instance, const char *wanted)
{
    enum { MOST = 64 };
    VkPhysicalDevice devices[MOST];
    uint32_t n = MOST;
    GET(instance, vkEnumeratePhysicalDevices);
    GET(instance, vkGetPhysicalDeviceProperties);
    VkResult r = vkEnumeratePhysicalDevices(instance, &n, devices);
    if (r < 0) die("vkEnumeratePhysicalDevices", r);
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (strstr(properties.deviceName, wanted)) return devices[i];
    }
    die("no Vulkan device has this name", 0);
    return VK_NULL_HANDLE;
}

static uint32_t find_family(VkInstance instance, VkPhysicalDevice physical)
{
    enum { MOST = 32 };
    VkQueueFamilyProperties families[MOST];
    uint32_t n = MOST;
    GET(instance, vkGetPhysicalDeviceQueueFamilyProperties);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
    for (uint32_t i = 0; i < n; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) return i;
    die("no queue computes", 0);
    return 0;
}

static void open_vulkan(const char *wanted)
{
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
    if (!loader || !(symbol = dlsym(loader, "vkGetInstanceProcAddr"))) die("there is no libvulkan.so.1", 0);
    memcpy(&get, &symbol, sizeof get);
    step("loader");
    GET(NULL, vkCreateInstance);
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkInstance instance;
    VkResult r = vkCreateInstance(&instance_info, NULL, &instance);
    if (r) die("vkCreateInstance", r);
    step("instance");
    VkPhysicalDevice physical = find_physical(instance, wanted);
    step("devices");
    float priority = 1;
    VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                          .queueFamilyIndex = find_family(instance, physical),
                                          .queueCount = 1,
                                          .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_info};
    VkDevice device;
    GET(instance, vkCreateDevice);
    if ((r = vkCreateDevice(physical, &device_info, NULL, &device))) die("vkCreateDevice", r);
    step("device");
    VkQueue queue;
    GET(instance, vkGetDeviceQueue);
    vkGetDeviceQueue(device, queue_info.queueFamilyIndex, 0, &queue);
    step("queue");
}

int main(int argc, char **argv)
{
    bool vulkan = argc > 1 && !strcmp(argv[1], "vulkan");
    if (argc < 2 || argc > 3 || (!vulkan && strcmp(argv[1], "opencl"))) {
        fputs("usage: open_device opencl|vulkan [NAME]\n", stderr);
        return 2;
    }
    now.wall = now.first_wall = clock_seconds(CLOCK_MONOTONIC);
    now.processor = now.first_processor = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("{\"api\":\"%s\",\"parts\":[", argv[1]);
    (vulkan ? open_vulkan : open_opencl)(argc > 2 ? argv[2] : "");
    printf("],\"seconds\":%.9f,\"processor_seconds\":%.9f}\n", now.wall - now.first_wall,
           now.processor - now.first_processor);
    fflush(stdout);
    _Exit(0); /* what closing takes is not asked */
}
