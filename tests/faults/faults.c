/* The fault library: counting, memory, threads, and the report. */
#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const class_names[FAULT_CLASSES] = {
    [FAULT_MEMORY] = "memory", [FAULT_THREAD] = "thread", [FAULT_OPEN] = "open",     [FAULT_READ] = "read",
    [FAULT_WRITE] = "write",   [FAULT_SYNC] = "sync",     [FAULT_RENAME] = "rename", [FAULT_STAT] = "stat",
    [FAULT_CLOSE] = "close",   [FAULT_MAP] = "map",       [FAULT_FOLDER] = "folder", [FAULT_OTHER] = "other",
    [FAULT_OPENCL] = "opencl", [FAULT_VULKAN] = "vulkan"};

static const char *const object_names[OBJECT_KINDS] = {
    [OBJECT_CL_CONTEXT] = "cl_context",
    [OBJECT_CL_QUEUE] = "cl_command_queue",
    [OBJECT_CL_MEM] = "cl_mem",
    [OBJECT_CL_PROGRAM] = "cl_program",
    [OBJECT_CL_KERNEL] = "cl_kernel",
    [OBJECT_CL_EVENT] = "cl_event",
    [OBJECT_VK_INSTANCE] = "VkInstance",
    [OBJECT_VK_MESSENGER] = "VkDebugUtilsMessengerEXT",
    [OBJECT_VK_DEVICE] = "VkDevice",
    [OBJECT_VK_BUFFER] = "VkBuffer",
    [OBJECT_VK_MEMORY] = "VkDeviceMemory",
    [OBJECT_VK_FENCE] = "VkFence",
    [OBJECT_VK_SHADER] = "VkShaderModule",
    [OBJECT_VK_PIPELINE] = "VkPipeline",
    [OBJECT_VK_PIPELINE_CACHE] = "VkPipelineCache",
    [OBJECT_VK_PIPELINE_LAYOUT] = "VkPipelineLayout",
    [OBJECT_VK_SET_LAYOUT] = "VkDescriptorSetLayout",
    [OBJECT_VK_DESCRIPTOR_POOL] = "VkDescriptorPool",
    [OBJECT_VK_QUERY_POOL] = "VkQueryPool",
    [OBJECT_VK_COMMAND_POOL] = "VkCommandPool",
};

static struct {
    bool ready, sticky, alone, half, places;
    int class_, error;
    unsigned long at;
    const char *report;
} settings;

static atomic_ulong calls[FAULT_CLASSES];
static atomic_int objects[OBJECT_KINDS];
static _Atomic(const char *) hit;
static _Atomic(void *) hit_at; /* of memory: who asked */

/* ---- places: calls of a class with the same callers, all the way up ---- */

enum { MAX_PLACES = 1 << 15, FRAMES = 40 };

static struct place {
    uint64_t callers; /* a hash; 0: free */
    unsigned long first, second, last;
    int class_;
} places[MAX_PLACES];

static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool not_ours; /* what is called now is not for our sake */

static void place_note(int class_, unsigned long n)
{
    void *frames[FRAMES];
    uint64_t hash = (uint64_t)class_ + 1;
    not_ours = true;
    int depth = backtrace(frames, FRAMES);
    not_ours = false;
    for (int i = 0; i < depth; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    pthread_mutex_lock(&places_lock);
    size_t at = hash % MAX_PLACES;
    for (int tries = 0; places[at].callers && places[at].callers != hash && tries < MAX_PLACES; tries++)
        at = (at + 1) % MAX_PLACES;
    struct place *p = &places[at];
    if (!p->callers) *p = (struct place){.callers = hash, .first = n, .class_ = class_};
    if (p->callers == hash) {
        if (n > p->first && !p->second) p->second = n;
        p->last = n;
    }
    pthread_mutex_unlock(&places_lock);
}

bool fault_hit(enum fault_class class_, const char *what)
{
    if (!settings.ready || not_ours) return false;
    unsigned long n = atomic_fetch_add(&calls[class_], 1) + 1;
    if (settings.places) place_note((int)class_, n);
    if ((int)class_ != settings.class_ || !settings.at) return false;
    if (n != settings.at && !(settings.sticky && n > settings.at)) return false;
    if (!atomic_load(&hit)) atomic_store(&hit, what);
    return true;
}

bool fault_driver(enum fault_class class_, const char *what, const int *errors, int n, int *error)
{
    if (!fault_hit(class_, what)) return false;
    *error = errors[settings.error % n];
    return true;
}

bool fault_alone(void) { return settings.alone; }
int fault_errno(void) { return settings.error; }
bool fault_short(void) { return settings.half; }
void fault_object_count(enum fault_object kind, int change) { atomic_fetch_add(&objects[kind], change); }

/* ---- who asks for memory ---- */

/* Code that must bear a failure: the program, the libraries it is linked with, and without drivers the C library, which
 * asks for our sake. Drivers are not ours to test. */
enum { MAX_RANGES = 64 };

static struct {
    uintptr_t first, last;
} ranges[MAX_RANGES];

static int n_ranges;

static int range_add(struct dl_phdr_info *info, size_t size, void *user)
{
    static const char *const libraries[] = {"/libwherry.", "/libjansson.", "/libutf8proc.", "/libz."};
    bool ours = !info->dlpi_name[0] || (settings.alone && strstr(info->dlpi_name, "/libc.so"));
    (void)size;
    (void)user;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        ours |= strstr(info->dlpi_name, libraries[i]) != 0;
    for (int i = 0; ours && i < info->dlpi_phnum && n_ranges < MAX_RANGES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        ranges[n_ranges].first = info->dlpi_addr + p->p_vaddr;
        ranges[n_ranges++].last = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static bool asked_by_us(const void *address)
{
    for (int i = 0; i < n_ranges; i++)
        if ((uintptr_t)address >= ranges[i].first && (uintptr_t)address < ranges[i].last) return true;
    return false;
}

static bool memory_fails(const char *what, void *address)
{
    if (!settings.ready || !asked_by_us(address) || !fault_hit(FAULT_MEMORY, what)) return false;
    void *none = NULL;
    atomic_compare_exchange_strong(&hit_at, &none, address);
    errno = ENOMEM;
    return true;
}

/* What dlsym needs itself while it looks for the true functions; never given back. */
static _Alignas(16) char early[8192];
static size_t early_used;

static void *early_alloc(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof early - early_used) abort();
    early_used += size;
    return early + early_used - size;
}

#define TRUE_FUNCTION(name)                                                                                            \
    static __typeof__(&name) next;                                                                                     \
    static bool looking;                                                                                               \
    if (!next && !looking) {                                                                                           \
        looking = true;                                                                                                \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                                             \
        looking = false;                                                                                               \
    }

void *malloc(size_t size)
{
    TRUE_FUNCTION(malloc)
    if (!next) return early_alloc(size);
    return memory_fails("malloc", __builtin_return_address(0)) ? NULL : next(size);
}

void *calloc(size_t count, size_t size)
{
    TRUE_FUNCTION(calloc)
    if (!next) return early_alloc(count * size);
    return memory_fails("calloc", __builtin_return_address(0)) ? NULL : next(count, size);
}

void *realloc(void *pointer, size_t size)
{
    TRUE_FUNCTION(realloc)
    if (!next) return early_alloc(size);
    return memory_fails("realloc", __builtin_return_address(0)) ? NULL : next(pointer, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    TRUE_FUNCTION(aligned_alloc)
    return memory_fails("aligned_alloc", __builtin_return_address(0)) ? NULL : next(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    TRUE_FUNCTION(posix_memalign)
    return memory_fails("posix_memalign", __builtin_return_address(0)) ? ENOMEM : next(out, alignment, size);
}

/* Sanitizers have their own, which never come to malloc. */
char *strdup(const char *text)
{
    TRUE_FUNCTION(strdup)
    return memory_fails("strdup", __builtin_return_address(0)) ? NULL : next(text);
}

char *realpath(const char *path, char *out)
{
    TRUE_FUNCTION(realpath)
    return !out && memory_fails("realpath", __builtin_return_address(0)) ? NULL : next(path, out);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    TRUE_FUNCTION(pthread_create)
    if (asked_by_us(__builtin_return_address(0)) && fault_hit(FAULT_THREAD, "pthread_create")) return EAGAIN;
    return next(thread, attributes, run, argument);
}

/* A sanitizer asks for a thread's stack as the thread begins, and bears no failure. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *out)
{
    TRUE_FUNCTION(pthread_getattr_np)
    bool before = not_ours;
    not_ours = true;
    int code = next(thread, out);
    not_ours = before;
    return code;
}

/* ---- the beginning and the end ---- */

__attribute__((constructor)) static void begin(void)
{
    const char *class_ = getenv("FAULT_CLASS"), *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERROR");
    settings.report = getenv("FAULT_REPORT");
    if (!settings.report) return; /* a process that ours started */
    settings.class_ = FAULT_CLASSES;
    for (int i = 0; class_ && i < FAULT_CLASSES; i++)
        if (!strcmp(class_, class_names[i])) settings.class_ = i;
    settings.at = at ? strtoul(at, NULL, 10) : 0;
    settings.error = error ? atoi(error) : 0;
    settings.half = error && !strcmp(error, "short");
    settings.sticky = getenv("FAULT_STICKY") != NULL;
    settings.alone = getenv("FAULT_ALONE") != NULL;
    settings.places = getenv("FAULT_PLACES") != NULL;
    dl_iterate_phdr(range_add, NULL);
    void *frame;
    if (settings.places) backtrace(&frame, 1); /* loads what it needs */
    settings.ready = true;
    if (getenv("FAULT_UNDER")) fault_trap(getenv("FAULT_UNDER"));
}

static int report_hit(char *text, size_t size)
{
    const char *what = atomic_load(&hit);
    void *address = atomic_load(&hit_at);
    Dl_info info;
    if (!what) return 0;
    if (!address || !dladdr(address, &info)) return snprintf(text, size, "hit %s\n", what);
    return snprintf(text, size, "hit %s %s+0x%lx\n", what, info.dli_fname,
                    (unsigned long)((char *)address - (char *)info.dli_fbase));
}

__attribute__((destructor)) static void end(void)
{
    if (!settings.ready) return;
    settings.ready = false;
    char text[4096];
    int n = report_hit(text, sizeof text);
    for (int i = 0; i < FAULT_CLASSES; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "calls %s %lu\n", class_names[i], atomic_load(&calls[i]));
    for (int i = 0; i < OBJECT_KINDS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "left %s %d\n", object_names[i], atomic_load(&objects[i]));
    FILE *file = fopen(settings.report, "w");
    if (!file || fwrite(text, 1, (size_t)n, file) != (size_t)n) abort();
    for (size_t i = 0; i < MAX_PLACES; i++) {
        const struct place *p = &places[i];
        if (p->callers) fprintf(file, "place %s %lu %lu %lu\n", class_names[p->class_], p->first, p->second, p->last);
    }
    if (fclose(file)) abort();
}
