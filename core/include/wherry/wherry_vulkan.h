/* Running Wherry on the application's own Vulkan device. Needs neither vulkan.h nor the Vulkan loader: the few handles
 * are declared here as vulkan.h declares them, so that both headers may be included, in any order. */
#ifndef WHERRY_WHERRY_VULKAN_H
#define WHERRY_WHERRY_VULKAN_H

#include "wherry/wherry.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VK_VERSION_1_0
typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkQueue_T *VkQueue;
#endif

/* The calling convention of Vulkan (VKAPI_PTR). */
#if defined(_WIN32)
#define WHERRY_VULKAN_CALL __stdcall
#elif defined(__ANDROID__) && defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__ARM_32BIT_STATE)
#define WHERRY_VULKAN_CALL __attribute__((pcs("aapcs-vfp")))
#else
#define WHERRY_VULKAN_CALL
#endif

typedef void(WHERRY_VULKAN_CALL *wherry_vulkan_function)(void);
/* vkGetInstanceProcAddr. */
typedef wherry_vulkan_function(WHERRY_VULKAN_CALL *wherry_vulkan_get_function)(VkInstance instance, const char *name);

/* What a device must have been created with, and what is used where it was. */
typedef struct wherry_vulkan_needs {
    uint32_t struct_size; /* set by the caller */
    uint32_t api_version; /* least version of instance and device, in Vulkan's encoding */
    /* Each list ends with NULL. Extensions by their full names, features by the names of their members. Among the
     * optional ones are those of MoltenVK: Vulkan wants VK_KHR_portability_subset enabled on every device that lists
     * it, and lists such devices only to instances with VK_KHR_portability_enumeration and its flag
     * VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR. */
    const char *const *required_device_extensions;
    const char *const *optional_device_extensions;
    const char *const *optional_instance_extensions;
    const char *const *required_features;
    const char *const *optional_features;
} wherry_vulkan_needs;

/* Needs no device, no context and no driver. Fails only on a wrong struct_size. */
WHERRY_API wherry_status wherry_vulkan_query_needs(wherry_vulkan_needs *out);

typedef struct wherry_vulkan_desc {
    uint32_t struct_size;
    uint32_t api_version; /* VkApplicationInfo's, in Vulkan's encoding; 0: 1.1 */
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue; /* of a family that computes */
    uint32_t queue_family;
    wherry_vulkan_get_function get_instance_proc_addr; /* NULL: the system's loader */
    /* Enabled when the device was made. Without it sessions store 32-bit floats. */
    bool storage_buffer_16bit_access;
    /* VK_EXT_debug_utils was enabled in the instance: steps and buffers get names. */
    bool debug_utils;
    /* VK_KHR_cooperative_matrix was enabled with the features cooperativeMatrix, shaderFloat16, vulkanMemoryModel,
     * subgroupSizeControl, computeFullSubgroups and maintenance4, and api_version is at least 1.3. Without it products
     * run without matrix units. */
    bool cooperative_matrix;
    /* Device extensions that were enabled; those not wanted here are ignored. */
    const char *const *device_extensions;
    size_t device_extension_count;
    /* Called around every submission, for a queue that other threads use too. Both or neither. */
    void (*queue_lock)(void *user);
    void (*queue_unlock)(void *user);
    void *user;
} wherry_vulkan_desc;

/* Wraps the application's device. Its handles stay the application's: they must outlive the wherry_device, and closing
 * that destroys none of them. Memory comes from the device like any other user's. */
WHERRY_API wherry_status wherry_device_wrap_vulkan(wherry_context *context, const wherry_vulkan_desc *desc,
                                                   wherry_device **out);

#ifdef __cplusplus
}
#endif
#endif
