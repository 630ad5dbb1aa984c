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
#if defined(__LP64__) || defined(_WIN64) || (defined(__x86_64__) && !defined(__ILP32__)) || defined(_M_X64) ||         \
    defined(__ia64) || defined(_M_IA64) || defined(__aarch64__) || defined(__powerpc64__) ||                           \
    (defined(__riscv) && __riscv_xlen == 64)
typedef struct VkBuffer_T *VkBuffer;
typedef struct VkSemaphore_T *VkSemaphore;
#else
typedef uint64_t VkBuffer, VkSemaphore;
#endif
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

/* Needs no device, no context and no driver. Fails only on a wrong struct_size, and with WHERRY_STATUS_UNSUPPORTED in a
 * library that was built without Vulkan. */
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
    /* Called around every submission, to either queue, where other threads use them too. Both or neither. */
    void (*queue_lock)(void *user);
    void (*queue_unlock)(void *user);
    void *user;
    /* A second queue, of any family: runs that are not waited for (wherry_encode_submit) have their uploads and
     * downloads there, beside what `queue` computes. It takes memory of the device for what two runs of each session
     * transfer. Batches with objects of the application's have all of theirs on `queue`. NULL: none. */
    VkQueue transfer_queue;
    uint32_t transfer_queue_family;
} wherry_vulkan_desc;

/* Wraps the application's device. Its handles stay the application's: they must outlive the wherry_device, and closing
 * that destroys none of them. Memory comes from the device like any other user's. */
WHERRY_API wherry_status wherry_device_wrap_vulkan(wherry_context *context, const wherry_vulkan_desc *desc,
                                                   wherry_device **out);

/* ---- the device's own objects, for wherry_submit_desc.vulkan ---- */

typedef struct wherry_vulkan_semaphore {
    VkSemaphore semaphore;
    uint64_t value; /* of a timeline semaphore, which the device was created for; 0: it is a binary one */
} wherry_vulkan_semaphore;

/* Of the session's device, either shared between queue families or owned by that of its queue. */
typedef struct wherry_vulkan_buffer {
    VkBuffer buffer; /* 0: none */
    VkDevice device; /* that it was created with, */
    uint64_t bytes;  /* its whole size */
    uint32_t usage;  /* and its usage flags */
    uint64_t offset; /* bytes before what is meant: a multiple of 4 */
} wherry_vulkan_buffer;

enum { WHERRY_VULKAN_SEMAPHORES = 8 };

typedef struct wherry_vulkan_submit {
    uint32_t struct_size;
    /* At most WHERRY_VULKAN_SEMAPHORES of each. What is waited for is waited for before anything of the batch runs;
     * what is signaled is signaled when the results are in their buffers, also of a ticket that was cancelled or
     * destroyed meanwhile. */
    uint32_t wait_count, signal_count;
    const wherry_vulkan_semaphore *waits, *signals;
    /* [tokens] of 32 bits, instead of wherry_batch.ids; TRANSFER_SRC. The host never sees them: one that is none of
     * the model's vocabulary, negative or too large, is taken for 0, and nobody is told. None may be the padding token
     * of a model with a position_offset. */
    wherry_vulkan_buffer ids;
    /* The result's rows, as wherry_encode has them; TRANSFER_DST. Nobody looks whether they are finite. */
    wherry_vulkan_buffer result;
    uint64_t result_stride; /* bytes from one row to the next, a multiple of 4; 0: they lie side by side */
    /* 0: f32, which a session of 16 bits makes of its results: the first that does waits for what is under way,
     * compiles a small kernel and makes a buffer of the largest result's size on the device. WHERRY_DTYPE_F16,
     * WHERRY_DTYPE_BF16: as sessions of that type have them, rows of an even number of values. */
    wherry_dtype result_type;
    /* Of wherry_backward_submit alone: rows of the gradient by the output, which lie as a result's do, with its stride
     * and type; TRANSFER_SRC. */
    wherry_vulkan_buffer gradient;
} wherry_vulkan_submit;

#ifdef __cplusplus
}
#endif
#endif
