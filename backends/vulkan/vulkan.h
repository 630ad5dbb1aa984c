/* What the files of the Vulkan backend share. Each instance and each device has a function table of its own, taken from
 * its own vkGetInstanceProcAddr: an application's device may come from another loader than ours, and nothing is global
 * but that loader. Tests replace single functions in the tables to inject faults. */
#ifndef WHERRY_BACKENDS_VULKAN_VULKAN_H
#define WHERRY_BACKENDS_VULKAN_VULKAN_H

#include <vulkan/vulkan.h>

#include "backends/backend.h"
#include "backends/kernel_program.h"
#include "base/mutex.h"
#include "extensions.h"
#include "interface/interface.h"
#include "wherry/wherry_vulkan.h"

#define INSTANCE_FUNCTIONS(X)                                                                                          \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceProperties)                                                                                     \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties)                                                                               \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(EnumerateDeviceExtensionProperties)                                                                              \
    X(CreateDevice)                                                                                                    \
    X(GetDeviceProcAddr)

/* VK_EXT_debug_utils: all NULL where it is not enabled. */
#define DEBUG_FUNCTIONS(X)                                                                                             \
    X(CreateDebugUtilsMessengerEXT)                                                                                    \
    X(DestroyDebugUtilsMessengerEXT)                                                                                   \
    X(SetDebugUtilsObjectNameEXT)                                                                                      \
    X(CmdBeginDebugUtilsLabelEXT)                                                                                      \
    X(CmdEndDebugUtilsLabelEXT)

/* NULL where a driver lacks the extension. */
#define OPTIONAL_INSTANCE_FUNCTIONS(X)                                                                                 \
    X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                                 \
    X(GetPhysicalDeviceMemoryProperties2)
#define OPTIONAL_DEVICE_FUNCTIONS(X)                                                                                   \
    X(GetPipelineExecutablePropertiesKHR)                                                                              \
    X(GetPipelineExecutableStatisticsKHR)

/* VK_EXT_external_memory_host. */
#define IMPORT_DEVICE_FUNCTIONS(X) X(GetMemoryHostPointerPropertiesEXT)

#define DEVICE_FUNCTIONS(X)                                                                                            \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue)                                                                                                  \
    X(QueueSubmit)                                                                                                     \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(CreateFence)                                                                                                     \
    X(DestroyFence)                                                                                                    \
    X(ResetFences)                                                                                                     \
    X(GetFenceStatus)                                                                                                  \
    X(WaitForFences)                                                                                                   \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(FlushMappedMemoryRanges)                                                                                         \
    X(InvalidateMappedMemoryRanges)                                                                                    \
    X(CreateShaderModule)                                                                                              \
    X(DestroyShaderModule)                                                                                             \
    X(CreatePipelineCache)                                                                                             \
    X(DestroyPipelineCache)                                                                                            \
    X(GetPipelineCacheData)                                                                                            \
    X(MergePipelineCaches)                                                                                             \
    X(CreateComputePipelines)                                                                                          \
    X(DestroyPipeline)                                                                                                 \
    X(CreatePipelineLayout)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(CreateDescriptorSetLayout)                                                                                       \
    X(DestroyDescriptorSetLayout)                                                                                      \
    X(CreateDescriptorPool)                                                                                            \
    X(DestroyDescriptorPool)                                                                                           \
    X(AllocateDescriptorSets)                                                                                          \
    X(UpdateDescriptorSets)                                                                                            \
    X(CreateQueryPool)                                                                                                 \
    X(DestroyQueryPool)                                                                                                \
    X(GetQueryPoolResults)                                                                                             \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers)                                                                                          \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdPushConstants)                                                                                                \
    X(CmdBindDescriptorSets)                                                                                           \
    X(CmdDispatch)                                                                                                     \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdResetQueryPool)                                                                                               \
    X(CmdWriteTimestamp)

#define FUNCTION_MEMBER(name) PFN_vk##name name;
struct instance_functions {
    INSTANCE_FUNCTIONS(FUNCTION_MEMBER)
    DEBUG_FUNCTIONS(FUNCTION_MEMBER)
    OPTIONAL_INSTANCE_FUNCTIONS(FUNCTION_MEMBER)
};
struct device_functions {
    DEVICE_FUNCTIONS(FUNCTION_MEMBER)
    OPTIONAL_DEVICE_FUNCTIONS(FUNCTION_MEMBER)
    IMPORT_DEVICE_FUNCTIONS(FUNCTION_MEMBER)
};
#undef FUNCTION_MEMBER

/* ---- loader.c: the loader, instances, driver errors ---- */

struct instance {
    VkInstance handle;
    bool external;   /* the application's */
    char listed[32]; /* "vulkan:0"; "": the application's */
    PFN_vkGetInstanceProcAddr get;
    uint32_t api; /* what the instance was made for */
    VkDebugUtilsMessengerEXT messenger;
    struct instance_functions vk;
};

/* Fails with WHERRY_STATUS_NO_DEVICE where this system has no loader or no driver. */
bool vulkan_has_loader(void); /* what no loader is missed by: an instance says where it was looked for */
bool instance_open(const struct host *host, struct instance *out, struct error *e);
bool instance_wrap(const wherry_vulkan_desc *desc, struct instance *out, struct error *e);
void instance_close(struct instance *instance); /* accepts a zeroed or half-opened one */

const char *result_name(VkResult result);
/* fail() with the text "<what>: VK_ERROR_..., <what it means>" and the status that belongs to the result. */
bool fail_result(struct error *e, VkResult result, const char *what, ...) PRINTF_LIKE(3, 4);

/* ---- physical.c: what devices there are ---- */

struct physical {
    VkPhysicalDevice handle;
    wherry_device_info info; /* without its id */
    struct device_limits limits;
    struct device_identity identity;
    uint32_t api; /* the lower one of instance and device */
    uint32_t queue_family;
    uint32_t timestamp_bits; /* 0: the queue has no timestamps */
    double timestamp_ns;     /* one tick */
    uint32_t max_groups[3];
    bool portability;       /* VK_KHR_portability_subset is there, and must then be enabled */
    bool feedback;          /* pipelines can tell whether they came from the cache */
    bool statistics;        /* pipelines can tell what they take: registers, shared memory, ... */
    const char *priorities; /* the extension by which queues have a priority among all processes', NULL: none */
    bool imports;           /* memory of the host's can be the device's, too (VK_EXT_external_memory_host) */
    uint32_t copy_family;   /* of queues that only copy, */
    uint32_t copy_queues;   /* and how many of them are wanted: up to two */
    bool budget;            /* the driver tells how much memory a process may have */
    bool size_chosen;       /* a pipeline's sub-groups must be told their size */
    VkPhysicalDeviceMemoryProperties memory;
    /* What compiled pipelines depend on. */
    uint32_t vendor, device, driver_version;
    uint8_t cache_uuid[VK_UUID_SIZE];
};

/* ---- matrices.c: cooperative matrices ---- */

/* Puts the shape of cooperative matrices into p->limits where this device can run kernels made of them, and what
 * VK_NV_cooperative_matrix2 adds. */
bool matrices_describe(const struct host *host, const struct instance *instance, struct physical *p,
                       const VkExtensionProperties *extensions, uint32_t n_extensions, struct error *e);

/* Puts the shape of these that suits best into limits: of f16, added in f32 by a sub-group. Those with sums of 16 bits,
 * too, without which there is no attention, come first, then the largest, which make the most of each element that is
 * loaded. */
void matrices_choose(const VkCooperativeMatrixPropertiesKHR *shapes, uint32_t count, struct device_limits *limits);

/* Of VK_KHR_shader_bfloat16, which headers before Vulkan 1.4.311 lack: its features, and its component type. */
#define SHADER_BFLOAT16_EXTENSION "VK_KHR_shader_bfloat16"
#define STRUCTURE_TYPE_BFLOAT16_FEATURES ((VkStructureType)1000141000)
#define COMPONENT_TYPE_BFLOAT16 ((VkComponentTypeKHR)1000141000)
struct bfloat16_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 type, dot_product, matrices;
};

/* What kernels made of them need, as a chain. */
struct matrix_features {
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups;
    VkPhysicalDeviceMaintenance4Features maintenance;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices;
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV more;
    struct bfloat16_features bf16;
};
enum { MATRIX_EXTENSIONS = 3 };
/* Adds the features, which outlive the info, to its chain, and at most MATRIX_EXTENSIONS to the list that it counts. */
void matrices_enable(const struct physical *p, struct matrix_features *features, VkDeviceCreateInfo *info,
                     const char **extensions);

/* All devices of an instance in this library's order. */
bool physical_list(const struct host *host, const struct instance *instance, struct physical **list, uint32_t *count,
                   struct error *e);
/* Fills in one device; not usable ones get their reason. */
bool physical_describe(const struct host *host, const struct instance *instance, VkPhysicalDevice handle,
                       struct physical *out, struct error *e);
/* False where that family has no queues that copy. */
bool physical_family_copies(const struct host *host, const struct instance *instance, const struct physical *p,
                            uint32_t family, struct error *e);
/* Fills in queue_family's timestamps; false when that family does not compute. */
bool physical_use_family(const struct host *host, const struct instance *instance, struct physical *p, uint32_t family,
                         struct error *e);

/* ---- memory.c: buffers and what crosses the bus ---- */

struct buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t bytes, allocated;
};

/* Host memory that the device reads and writes. */
struct mapped {
    VkBuffer handle;
    VkDeviceMemory memory;
    void *data;
    uint64_t bytes;
    bool coherent;
};

/* Prefers memory of the kinds in `preferred`. `what` is for error texts. */
bool mapped_create(struct backend_device *d, uint64_t bytes, VkBufferUsageFlags usage, VkMemoryPropertyFlags preferred,
                   const char *what, struct mapped *out, struct error *e);
void mapped_destroy(struct backend_device *d, struct mapped *mapped); /* accepts a zeroed one */
bool mapped_flush(struct backend_device *d, const struct mapped *mapped, struct error *e);
bool mapped_invalidate(struct backend_device *d, const struct mapped *mapped, struct error *e);

/* Memory of a type of `kinds`, of those that are in `allowed`, with what is chained to it; false: there is none. */
bool memory_import(struct backend_device *d, uint64_t bytes, uint32_t allowed, VkMemoryPropertyFlags kinds,
                   const void *chain, VkDeviceMemory *memory);
/* `shared`: by the families of all queues. */
struct buffer *buffer_make(struct backend_device *d, uint64_t bytes, bool shared, struct error *e);
struct buffer *vulkan_buffer_create(struct backend_device *d, uint64_t bytes, struct error *e);
void vulkan_buffer_destroy(struct backend_device *d, struct buffer *buffer);
bool vulkan_budget(struct backend_device *d, uint64_t *bytes, uint64_t *used);
bool vulkan_buffer_write(struct backend_device *d, struct buffer *buffer, uint64_t offset, const void *data,
                         uint64_t bytes, struct error *e);
bool vulkan_buffer_read(struct backend_device *d, struct buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                        struct error *e);

/* ---- pipelines.c: kernels made ready, and their cache on disk ---- */

/* What is pushed before each launch (shaders/common.glsl). A launch's first work-group is not the dispatch's base: with
 * vkCmdDispatchBase all launches did the first one's work on an H200 (driver 580.159.04). */
struct pushed {
    uint32_t site, first_group;
};

struct pipeline {
    VkPipeline handle;
    uint64_t key;  /* hash of what follows */
    size_t kernel; /* index of vulkan_kernel() */
    int n_constants;
    struct call_constant constants[CALL_MAX_CONSTANTS];
    bool told; /* the driver was asked for what it takes: */
    struct kernel_usage usage;
};

struct pipeline_store {
    VkPipelineCache cache;
    struct pipeline *list; /* live as long as the device */
    int count;
    uint64_t *keys; /* of pipelines that `cache` holds, from this process and earlier ones */
    size_t n_keys;
    uint64_t kernels;    /* hash of all embedded kernels */
    uint32_t waves_most; /* the most that the driver told of any kernel, of one that takes almost nothing, too */
    char path[800];      /* "": nothing is kept on disk */
    bool empty;          /* the file held keys, but nothing of the driver */
    enum { FEEDBACK_UNKNOWN, FEEDBACK_TELLS, FEEDBACK_SILENT } feedback;
};

/* pipeline_cache.c: opens the driver's cache with what is on disk, of which a file that is damaged or of another driver
 * or build is not used; writes it. */
bool pipeline_cache_open(struct backend_device *d, struct error *e);
/* Takes over what has been written to the file since, by another device of the process or another process. */
bool pipeline_cache_refresh(struct backend_device *d, struct error *e);
void pipeline_cache_save(struct backend_device *d);
bool key_known(const struct pipeline_store *store, uint64_t key); /* whether it holds a pipeline of this key */
bool pipelines_open(struct backend_device *d, struct error *e);
void pipelines_close(struct backend_device *d);
/* Makes a pipeline for every step: of_step[i] gets the index in the store's list. */
bool pipelines_make(struct backend_device *d, const struct schedule *schedule, int *of_step, wherry_progress progress,
                    void *user, struct program_info *info, struct error *e);
/* The pipeline of this index. */
VkPipeline pipelines_handle(struct backend_device *d, int index);
/* What a pipeline takes. A driver that was not told to when it compiled it is asked with another one, beside its cache,
 * which may not keep what is compiled for that; so with all that were not asked for yet. */
struct kernel_usage pipelines_usage(struct backend_device *d, int index);
/* A hash of all embedded kernels. */
uint64_t vulkan_kernels(const struct backend_device *d);
bool vulkan_program_text(const struct backend_device *d, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e);

/* In a process apart, as the contract (backend.h) says. compile.c has it. */
bool vulkan_compile(struct backend_device *d, uint64_t driver, const struct apart_program *programs, size_t count,
                    struct error *e);

/* ---- statistics.c: what pipelines take ---- */

void statistics_read(struct backend_device *d, VkPipeline pipeline, struct kernel_usage *out);
/* Of what a driver told, with the work-items of a sub-group, all but waves_most. */
void statistics_translate(const VkPipelineExecutableStatisticKHR *list, uint32_t count, uint32_t subgroup,
                          struct kernel_usage *out);

/* ---- device.c: logical devices ---- */

/* Copies up that nothing waits for yet, at most. */
enum { COPIED_MOST = 8 };

struct backend_device {
    const struct host *host;
    struct instance instance;
    struct physical physical;
    VkDevice handle;
    bool external;   /* the application's */
    char listed[32]; /* "vulkan:0"; "": the application's */
    VkQueue queue;
    VkQueue transfer_queue;   /* for transfers beside it, NULL: none */
    uint32_t transfer_family; /* its family, and that of `queue` where there is none */
    VkQueue up, down;         /* of copies beside runs: those of copy_family, or `queue` */
    /* Copies up: what is submitted to `queue` next waits for them. */
    VkSemaphore copied[COPIED_MOST];
    uint32_t n_copied;
    /* And those that runs signal for copies down; `computed_last`: nothing was submitted to `queue` behind the last. */
    VkSemaphore computed[COPIED_MOST];
    uint32_t n_computed;
    bool computed_last;
    struct beside *beside; /* copies.c; NULL: not made yet */
    bool pin_failed;       /* of memory of the host's: copies are waited for */
    struct mutex queueing; /* of all queues */
    void (*queue_lock)(void *user);
    void (*queue_unlock)(void *user);
    void *queue_user;
    struct device_functions vk;
    VkFence fence;
    VkCommandPool pool;
    VkCommandBuffer copy;             /* recorded anew by every buffer_write and buffer_read */
    struct mutex copying;             /* of both */
    struct mapped transfer;           /* their staging memory, made by the first of them */
    VkDescriptorSetLayout set_layout; /* binding number = slot */
    VkPipelineLayout pipeline_layout;
    struct pipeline_store pipelines;
    struct mutex building; /* of the pipelines' store */
    _Atomic uint64_t allocated;
    _Atomic bool lost;
    bool inert;       /* opened for compiling: it has no queue that takes anything, and need not have memory */
    _Atomic int held; /* runs under way that wait for semaphores of the application's, for as long as that takes */
    _Atomic uint64_t held_end; /* by clock_ns(): when there was one last */
    _Atomic bool hung;         /* lost while work may still be running: its objects can't be destroyed any more */
};

bool vulkan_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e);
struct backend_device *vulkan_open(const struct host *host, size_t index, const void *external,
                                   wherry_device_info *info, struct error *e);
void vulkan_close(struct backend_device *d);

/* ---- submit.c: what every file asks of an open device ---- */

/* Fails when an earlier call lost the device. */
bool device_check(const struct backend_device *d, struct error *e);
/* Fails for an inert one. */
bool device_executes_commands(const struct backend_device *d, struct error *e);
/* As fail_result, and remembers a lost device. */
bool device_fail(struct backend_device *d, struct error *e, VkResult result, const char *what);
/* Makes a "Fence" or the like. What a failed call leaves in `out` is undefined: it becomes VK_NULL_HANDLE. */
#define DEVICE_CREATE(d, kind, info, out, e)                                                                           \
    device_created((d), (d)->vk.Create##kind((d)->handle, (info), NULL, (out)), (out), sizeof *(out),                  \
                   "vkCreate" #kind, (e))
bool device_created(struct backend_device *d, VkResult result, void *handle, size_t size, const char *what,
                    struct error *e);
/* Submits; the only place where a queue is given anything. Resets the fence, which is then signaled when all is done;
 * VK_NULL_HANDLE: none. */
bool device_queue(struct backend_device *d, VkQueue queue, const VkSubmitInfo *batches, uint32_t n, VkFence fence,
                  struct error *e);
/* After so long a device is taken for hung. */
struct patience {
    uint64_t since; /* by clock_ns() */
    double seconds;
    uint64_t usual; /* ns from `since` that it will likely take; 0: not known */
};
/* Waits for a fence at most so long; *done false: it is not there yet, which is no failure. */
bool device_await(struct backend_device *d, VkFence fence, const struct patience *patience, uint64_t timeout_ns,
                  bool *done, struct error *e);
/* Submits and waits until all is done, at most `seconds`. */
bool device_submit(struct backend_device *d, const VkSubmitInfo *batches, uint32_t n, double seconds, struct error *e);
/* Gives an object the name that tools and validation messages show. */
void device_name(struct backend_device *d, VkObjectType type, uint64_t handle, const char *name);

/* ---- program.c, run.c: schedules recorded and replayed ---- */

struct program *vulkan_program_create(struct backend_device *d, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e);
void vulkan_program_destroy(struct backend_device *d, struct program *program);
void vulkan_program_usage(struct backend_device *d, const struct program *program, int step, struct kernel_usage *out);
bool vulkan_program_submit(struct backend_device *d, struct program *program, const struct run *run, int slot,
                           struct error *e);
bool vulkan_program_wait(struct backend_device *d, struct program *program, int slot, uint64_t timeout_ns, bool *done,
                         struct error *e);
bool vulkan_program_run(struct backend_device *d, struct program *program, const struct run *run, struct error *e);

/* ---- copies.c: copies beside runs, as the contract (backend.h) says ---- */

bool vulkan_pins(const struct backend_device *d);
struct buffer *vulkan_buffer_copied(struct backend_device *d, uint64_t bytes, struct error *e);
struct pinned *vulkan_pin(struct backend_device *d, void *memory, uint64_t bytes, struct error *e);
void vulkan_unpin(struct backend_device *d, struct pinned *pinned);
/* `last`, which is submitted next, signals a copy_down behind it. */
bool copies_follow(struct backend_device *d, VkSubmitInfo *last, struct error *e);
bool vulkan_copies_up(struct backend_device *d, const struct transfer *list, int n, struct error *e);
bool vulkan_copy_down(struct backend_device *d, const struct transfer *copy, int ticket, struct error *e);
bool vulkan_copy_wait(struct backend_device *d, int ticket, struct error *e);
/* Waits for what is under way; accepts a device that has none. */
void copies_close(struct backend_device *d);

/* ---- outside.c: objects of the application's ---- */

bool vulkan_outside(struct backend_device *d, const void *desc, struct outside *out, struct error *e);

/* ---- hazards.c: where a barrier is needed ---- */

struct access {
    const struct buffer *buffer;
    uint64_t begin, end;
    bool written;
};

/* Accesses of the steps since the last barrier. */
struct hazards {
    struct access *list; /* room for all bindings of a schedule */
    size_t count;
};

/* Adds a step. True when it reads what an unfinished step writes, or writes what one reads or writes: then a barrier
 * must stand before it, and everything before that is forgotten. */
bool hazards_step(struct hazards *h, const struct binding *bindings, int n);

extern const struct backend backend_vulkan;

#endif
