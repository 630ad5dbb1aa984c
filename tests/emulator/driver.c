/* The emulator as an OpenCL driver: what the library's OpenCL backend calls of the API, by the table through which
 * OpenCL's loader reaches a driver. Commands run when they are enqueued. */
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "emulator.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COMPUTE_UNITS = 3, MEMORY_BYTES = 1 << 30, PAGE = 4096, BUFFERS = 4096 };

/* Loaders want the table first in every object. */
#define OBJECT                                                                                                         \
    const struct _cl_icd_dispatch *dispatch;                                                                           \
    int references

struct _cl_platform_id {
    OBJECT;
};
struct _cl_device_id {
    OBJECT;
};
struct _cl_context {
    OBJECT;
};
struct _cl_command_queue {
    OBJECT;
    cl_context context;
    cl_command_queue_properties properties;
};
struct _cl_mem {
    OBJECT;
    cl_mem whole;
    unsigned char *data;
    size_t bytes;
};
struct _cl_program {
    OBJECT;
    char *source, *text;
    char log[16384];
    bool built;
    struct module module;
};
struct _cl_kernel {
    OBJECT;
    cl_program program;
    char name[64];
    void *function;
    uint32_t required;
    cl_uint n;
    bool pointers[KERNEL_ARGUMENTS], set[KERNEL_ARGUMENTS];
    uint64_t values[KERNEL_ARGUMENTS];
};
struct _cl_event {
    OBJECT;
    cl_ulong start, end;
};

static struct _cl_icd_dispatch table;
static struct _cl_platform_id platform = {.dispatch = &table};
static struct _cl_device_id device = {.dispatch = &table};
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* launches, and the list of buffers */
static cl_mem buffers[BUFFERS];

static void *object(size_t size, cl_int *code)
{
    struct _cl_platform_id *o = calloc(1, size);
    if (!o) abort();
    o->dispatch = &table;
    o->references = 1;
    if (code) *code = CL_SUCCESS;
    return o;
}

static cl_int answer(const void *value, size_t bytes, size_t size, void *to, size_t *used)
{
    if (used) *used = bytes;
    if (!to) return CL_SUCCESS;
    if (size < bytes) return CL_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *to, size_t *used)
{
    return answer(text, strlen(text) + 1, size, to, used);
}

static cl_int answer_number(uint64_t value, size_t bytes, size_t size, void *to, size_t *used)
{
    return answer(&value, bytes, size, to, used); /* the low bytes come first */
}

/* ---- platform, device, context, queue ---- */

static cl_int get_platforms(cl_uint n, cl_platform_id *list, cl_uint *count)
{
    if (n && list) *list = &platform;
    if (count) *count = 1;
    return CL_SUCCESS;
}

static cl_int platform_info(cl_platform_id id, cl_platform_info what, size_t size, void *to, size_t *used)
{
    (void)id;
    switch (what) {
    case CL_PLATFORM_NAME:
        return answer_text("Emulator", size, to, used);
    case CL_PLATFORM_VENDOR:
        return answer_text("Wherry", size, to, used);
    case CL_PLATFORM_VERSION:
        return answer_text("OpenCL 1.2", size, to, used);
    case CL_PLATFORM_PROFILE:
        return answer_text("FULL_PROFILE", size, to, used);
    case CL_PLATFORM_EXTENSIONS:
        return answer_text("cl_khr_icd", size, to, used);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return answer_text("EMULATOR", size, to, used);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int get_devices(cl_platform_id id, cl_device_type type, cl_uint n, cl_device_id *list, cl_uint *count)
{
    (void)id;
    if (!(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT))) return CL_DEVICE_NOT_FOUND;
    if (n && list) *list = &device;
    if (count) *count = 1;
    return CL_SUCCESS;
}

static cl_int device_info(cl_device_id id, cl_device_info what, size_t size, void *to, size_t *used)
{
    static const char extensions[] = "cl_khr_byte_addressable_store cl_khr_icd cl_nv_device_attribute_query";
    const size_t sizes[3] = {MOST_ITEMS, MOST_ITEMS, 64};
    const cl_platform_id own = &platform;
    (void)id;
    switch (what) {
    case CL_DEVICE_TYPE:
        return answer_number(CL_DEVICE_TYPE_GPU, sizeof(cl_device_type), size, to, used);
    case CL_DEVICE_PLATFORM:
        return answer(&own, sizeof own, size, to, used);
    case CL_DEVICE_NAME:
        return answer_text(getenv("WHERRY_EMULATOR_NAME") ? getenv("WHERRY_EMULATOR_NAME") : "Emulated Hopper", size,
                           to, used);
    case CL_DEVICE_VENDOR:
        return answer_text("Wherry", size, to, used);
    case CL_DRIVER_VERSION:
        return answer_text("1", size, to, used);
    case CL_DEVICE_VERSION:
        return answer_text("OpenCL 1.2", size, to, used);
    case CL_DEVICE_OPENCL_C_VERSION:
        return answer_text("OpenCL C 1.2", size, to, used);
    case CL_DEVICE_PROFILE:
        return answer_text("FULL_PROFILE", size, to, used);
    case CL_DEVICE_EXTENSIONS:
        return answer_text(extensions, size, to, used);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return answer_number(CL_TRUE, sizeof(cl_bool), size, to, used);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return answer_number(CL_FALSE, sizeof(cl_bool), size, to, used);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer_number(COMPUTE_UNITS, sizeof(cl_uint), size, to, used);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer_number(MOST_ITEMS, sizeof(size_t), size, to, used);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return answer(sizes, sizeof sizes, size, to, used);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return answer_number(49152, sizeof(cl_ulong), size, to, used);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return answer_number(MEMORY_BYTES, sizeof(cl_ulong), size, to, used);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return answer_number(2048, sizeof(cl_uint), size, to, used);
    case CL_DEVICE_PROFILING_TIMER_RESOLUTION:
        return answer_number(1, sizeof(size_t), size, to, used);
    case CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV:
        return answer_number(9, sizeof(cl_uint), size, to, used);
    case CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV:
        return answer_number(0, sizeof(cl_uint), size, to, used);
    case CL_DEVICE_WARP_SIZE_NV:
        return answer_number(WARP, sizeof(cl_uint), size, to, used);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_context context_create(const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
                                 void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                                 cl_int *code)
{
    (void)properties, (void)n, (void)devices, (void)notify, (void)user;
    return object(sizeof(struct _cl_context), code);
}

static cl_int context_info(cl_context c, cl_context_info what, size_t size, void *to, size_t *used)
{
    const cl_device_id own = &device;
    (void)c;
    if (what == CL_CONTEXT_DEVICES) return answer(&own, sizeof own, size, to, used);
    return what == CL_CONTEXT_NUM_DEVICES ? answer_number(1, sizeof(cl_uint), size, to, used) : CL_INVALID_VALUE;
}

static cl_int context_retain(cl_context c)
{
    c->references++;
    return CL_SUCCESS;
}

static cl_int context_release(cl_context c)
{
    if (!--c->references) free(c);
    return CL_SUCCESS;
}

static cl_command_queue queue_create(cl_context c, cl_device_id id, cl_command_queue_properties properties,
                                     cl_int *code)
{
    (void)id;
    cl_command_queue q = object(sizeof *q, code);
    q->context = c;
    q->properties = properties;
    return q;
}

static cl_int queue_info(cl_command_queue q, cl_command_queue_info what, size_t size, void *to, size_t *used)
{
    const cl_device_id own = &device;
    switch (what) {
    case CL_QUEUE_CONTEXT:
        return answer(&q->context, sizeof q->context, size, to, used);
    case CL_QUEUE_DEVICE:
        return answer(&own, sizeof own, size, to, used);
    case CL_QUEUE_PROPERTIES:
        return answer(&q->properties, sizeof q->properties, size, to, used);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int queue_retain(cl_command_queue q)
{
    q->references++;
    return CL_SUCCESS;
}

static cl_int queue_release(cl_command_queue q)
{
    if (!--q->references) free(q);
    return CL_SUCCESS;
}

static cl_int queue_marker(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list; /* commands run when they are enqueued */
    return event ? CL_INVALID_VALUE : CL_SUCCESS;
}

static cl_int queue_finish(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

/* ---- memory: each buffer ends where a page begins that nobody may touch ---- */

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

bool memory_holds(const void *pointer, size_t bytes)
{
    uintptr_t begin = (uintptr_t)pointer;
    for (size_t i = 0; i < BUFFERS; i++) {
        uintptr_t at = buffers[i] ? (uintptr_t)buffers[i]->data : 0;
        if (at && begin >= at && begin - at <= buffers[i]->bytes && bytes <= buffers[i]->bytes - (begin - at))
            return true;
    }
    return false;
}

static cl_mem buffer_create(cl_context c, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)
{
    (void)c, (void)flags, (void)host;
    size_t slot = 0;
    unsigned char *all = mmap(NULL, pages(bytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + PAGE, pages(bytes), PROT_READ | PROT_WRITE)) {
        if (code) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    cl_mem m = object(sizeof *m, code);
    m->bytes = bytes;
    m->data = all + PAGE + (pages(bytes) - bytes) / 256 * 256; /* aligned as drivers do it */
    pthread_mutex_lock(&one_at_a_time);
    while (slot < BUFFERS && buffers[slot]) slot++;
    if (slot == BUFFERS) abort();
    buffers[slot] = m;
    pthread_mutex_unlock(&one_at_a_time);
    return m;
}

static cl_mem buffer_part(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                          cl_int *code)
{
    const cl_buffer_region *r = region;
    (void)flags, (void)type;
    cl_mem m = object(sizeof *m, code);
    m->whole = whole;
    m->data = whole->data + r->origin;
    m->bytes = r->size;
    whole->references++;
    return m;
}

static cl_int buffer_release(cl_mem m)
{
    if (--m->references) return CL_SUCCESS;
    if (m->whole) {
        buffer_release(m->whole);
    } else {
        pthread_mutex_lock(&one_at_a_time);
        for (size_t i = 0; i < BUFFERS; i++)
            if (buffers[i] == m) buffers[i] = NULL;
        pthread_mutex_unlock(&one_at_a_time);
        unsigned char *all = (unsigned char *)((uintptr_t)m->data / PAGE * PAGE) - PAGE;
        munmap(all, pages(m->bytes) + 2 * PAGE);
    }
    free(m);
    return CL_SUCCESS;
}

static cl_ulong now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

static void event_make(cl_event *event, cl_ulong start)
{
    if (!event) return;
    *event = object(sizeof **event, NULL);
    (*event)->start = start;
    (*event)->end = now();
}

static cl_int buffer_read(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t bytes, void *to, cl_uint n,
                          const cl_event *list, cl_event *event)
{
    (void)q, (void)wait, (void)n, (void)list;
    if (at > m->bytes || bytes > m->bytes - at) return CL_INVALID_VALUE;
    memcpy(to, m->data + at, bytes);
    event_make(event, now());
    return CL_SUCCESS;
}

static cl_int buffer_write(cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t bytes, const void *from,
                           cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)wait, (void)n, (void)list;
    if (at > m->bytes || bytes > m->bytes - at) return CL_INVALID_VALUE;
    memcpy(m->data + at, from, bytes);
    event_make(event, now());
    return CL_SUCCESS;
}

static void *buffer_map(cl_command_queue q, cl_mem m, cl_bool wait, cl_map_flags flags, size_t at, size_t bytes,
                        cl_uint n, const cl_event *list, cl_event *event, cl_int *code)
{
    (void)q, (void)wait, (void)flags, (void)n, (void)list;
    *code = at > m->bytes || bytes > m->bytes - at ? CL_INVALID_VALUE : CL_SUCCESS;
    event_make(event, now());
    return *code ? NULL : m->data + at;
}

static cl_int buffer_unmap(cl_command_queue q, cl_mem m, void *mapped, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)m, (void)mapped, (void)n, (void)list;
    event_make(event, now());
    return CL_SUCCESS;
}

/* ---- programs ---- */

static cl_program program_from_source(cl_context c, cl_uint n, const char **texts, const size_t *sizes, cl_int *code)
{
    (void)c, (void)n;
    cl_program p = object(sizeof *p, code);
    p->source = strndup(texts[0], sizes && sizes[0] ? sizes[0] : strlen(texts[0]));
    return p;
}

static cl_program program_from_binary(cl_context c, cl_uint n, const cl_device_id *ids, const size_t *sizes,
                                      const unsigned char **binaries, cl_int *status, cl_int *code)
{
    (void)c, (void)n, (void)ids;
    cl_program p = object(sizeof *p, code);
    p->text = strndup((const char *)binaries[0], sizes[0]);
    if (status) *status = CL_SUCCESS;
    return p;
}

/* Instructions of the source that are comments are for who patches the text and builds that: of such a program mostly
 * the text is taken, and it is compiled when a kernel of it is made. ptxas judges it at once. */
static bool unfinished(const struct _cl_program *p) { return p->source && strstr(p->text, "\"//") && !getenv("PTXAS"); }

static cl_int program_build(cl_program p, cl_uint n, const cl_device_id *ids, const char *options,
                            void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)n, (void)ids, (void)notify, (void)user;
    if (p->source && !p->text) p->text = module_text(p->source, options, p->log, sizeof p->log);
    p->built = p->text && (unfinished(p) || module_load(&p->module, p->text, p->log, sizeof p->log));
    return p->built ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

static cl_int program_info(cl_program p, cl_program_info what, size_t size, void *to, size_t *used)
{
    const cl_device_id own = &device;
    size_t bytes = p->text ? strlen(p->text) : 0;
    switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
        return answer_number(1, sizeof(cl_uint), size, to, used);
    case CL_PROGRAM_DEVICES:
        return answer(&own, sizeof own, size, to, used);
    case CL_PROGRAM_BINARY_SIZES:
        return answer(&bytes, sizeof bytes, size, to, used);
    case CL_PROGRAM_BINARIES:
        memcpy(*(unsigned char **)to, p->text, bytes);
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int program_build_info(cl_program p, cl_device_id id, cl_program_build_info what, size_t size, void *to,
                                 size_t *used)
{
    (void)id;
    return what == CL_PROGRAM_BUILD_LOG ? answer_text(p->log, size, to, used) : CL_INVALID_VALUE;
}

static cl_int program_release(cl_program p)
{
    if (--p->references) return CL_SUCCESS;
    pthread_mutex_lock(&one_at_a_time);
    module_close(&p->module);
    pthread_mutex_unlock(&one_at_a_time);
    free(p->source);
    free(p->text);
    free(p);
    return CL_SUCCESS;
}

/* ---- kernels ---- */

/* From the list after the kernel's name: which arguments are pointers. */
static void arguments_find(cl_kernel k)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "%s(", k->name);
    const char *at = strstr(k->program->text, wanted);
    int depth = 1;
    for (at = at ? at + strlen(wanted) : ""; *at && depth; at++) {
        depth += (*at == '(') - (*at == ')');
        if (k->n == KERNEL_ARGUMENTS) abort();
        if (*at == '*') k->pointers[k->n] = true;
        if (!depth || (*at == ',' && depth == 1)) k->n++;
    }
}

static cl_kernel kernel_create(cl_program p, const char *name, cl_int *code)
{
    uint32_t required;
    if (p->built && !p->module.library && !module_load(&p->module, p->text, p->log, sizeof p->log)) {
        fprintf(stderr, "emulator: %s\n", p->log);
        p->built = false;
    }
    void *function = p->built ? module_kernel(&p->module, name, &required) : NULL;
    if (!function) {
        if (code) *code = p->built ? CL_INVALID_KERNEL_NAME : CL_INVALID_PROGRAM_EXECUTABLE;
        return NULL;
    }
    cl_kernel k = object(sizeof *k, code);
    k->program = p;
    k->function = function;
    k->required = required;
    snprintf(k->name, sizeof k->name, "%s", name);
    arguments_find(k);
    p->references++;
    return k;
}

static cl_int kernel_release(cl_kernel k)
{
    if (--k->references) return CL_SUCCESS;
    program_release(k->program);
    free(k);
    return CL_SUCCESS;
}

static cl_int kernel_info(cl_kernel k, cl_kernel_info what, size_t size, void *to, size_t *used)
{
    return what == CL_KERNEL_NUM_ARGS ? answer_number(k->n, sizeof(cl_uint), size, to, used) : CL_INVALID_VALUE;
}

static cl_int kernel_group_info(cl_kernel k, cl_device_id id, cl_kernel_work_group_info what, size_t size, void *to,
                                size_t *used)
{
    const size_t required[3] = {k->required, k->required ? 1 : 0, k->required ? 1 : 0};
    (void)id;
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return answer_number(256, sizeof(size_t), size, to, used); /* as NVIDIA says it */
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return answer(required, sizeof required, size, to, used);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return answer_number(k->program->module.shared_bytes, sizeof(cl_ulong), size, to, used);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int kernel_argument(cl_kernel k, cl_uint n, size_t bytes, const void *value)
{
    if (n >= k->n) return CL_INVALID_ARG_INDEX;
    if (bytes > 8 || (k->pointers[n] && bytes != sizeof(cl_mem))) return CL_INVALID_ARG_SIZE;
    k->values[n] = 0;
    memcpy(&k->values[n], value, bytes);
    if (k->pointers[n]) k->values[n] = (uint64_t)(uintptr_t)((cl_mem)(uintptr_t)k->values[n])->data;
    k->set[n] = true;
    return CL_SUCCESS;
}

static const struct launch *running;

/* Which kernel left its buffers. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    char text[256];
    (void)context;
    int n = snprintf(text, sizeof text, "emulator: kernel %s, group %u, work-item %d: no memory at %p\n",
                     running ? running->name : "none", group.id[0], item ? (int)item->number : -1, info->si_addr);
    if (write(2, text, (size_t)n) < 0) _exit(3);
    signal(number, SIG_DFL);
    raise(number);
}

static void faults_catch(void)
{
    static bool done;
    if (done) return;
    done = true;
    static unsigned char stack[65536];
    const stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaltstack(&s, NULL);
    sigaction(SIGSEGV, &a, NULL);
}

static cl_int launch(cl_command_queue q, cl_kernel k, cl_uint dimensions, const size_t *offset, const size_t *global,
                     const size_t *local, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    char message[2048];
    struct launch l = {.name = k->name, .module = &k->program->module, .function = k->function};
    for (cl_uint i = 0; i < k->n; i++)
        if (!k->set[i]) return CL_INVALID_KERNEL_ARGS;
    for (cl_uint d = 0; d < 3; d++) {
        size_t of_group = d < dimensions && local ? local[d] : 1;
        if (d < dimensions && global[d] % of_group) return CL_INVALID_WORK_GROUP_SIZE;
        if (d && of_group != 1) return CL_INVALID_WORK_GROUP_SIZE;
        l.groups[d] = d < dimensions ? (uint32_t)(global[d] / of_group) : 1;
        l.offset[d] = d < dimensions && offset ? offset[d] : 0;
        if (!d) l.items = (uint32_t)of_group;
    }
    if (l.items > MOST_ITEMS || (k->required && l.items != k->required)) return CL_INVALID_WORK_GROUP_SIZE;
    memcpy(l.arguments, k->values, sizeof l.arguments);
    cl_ulong start = now();
    pthread_mutex_lock(&one_at_a_time);
    faults_catch();
    running = &l;
    bool ok = machine_run(&l, message, sizeof message);
    running = NULL;
    pthread_mutex_unlock(&one_at_a_time);
    if (getenv("WHERRY_EMULATOR_TIMES"))
        fprintf(stderr, "emulator: %s %u x %u: %.1f ms\n", l.name, l.groups[0], l.items,
                (double)(now() - start) * 1e-6);
    if (!ok) fprintf(stderr, "emulator: %s\n", message);
    if (ok) event_make(event, start);
    return ok ? CL_SUCCESS : CL_OUT_OF_RESOURCES; /* NVIDIA's word for whatever a kernel did wrong */
}

static cl_int event_times(cl_event e, cl_profiling_info what, size_t size, void *to, size_t *used)
{
    return answer_number(what == CL_PROFILING_COMMAND_END ? e->end : e->start, sizeof(cl_ulong), size, to, used);
}

static cl_int event_release(cl_event e)
{
    if (!--e->references) free(e);
    return CL_SUCCESS;
}

/* ---- the table ---- */

static cl_int not_here(void) { return CL_INVALID_OPERATION; }

__attribute__((constructor)) static void table_make(void)
{
    void **entries = (void **)&table;
    for (size_t i = 0; i < sizeof table / sizeof *entries; i++) entries[i] = (void *)not_here;
    table.clGetPlatformIDs = get_platforms;
    table.clGetPlatformInfo = platform_info;
    table.clGetDeviceIDs = get_devices;
    table.clGetDeviceInfo = device_info;
    table.clCreateContext = context_create;
    table.clGetContextInfo = context_info;
    table.clRetainContext = context_retain;
    table.clReleaseContext = context_release;
    table.clCreateCommandQueue = queue_create;
    table.clGetCommandQueueInfo = queue_info;
    table.clRetainCommandQueue = queue_retain;
    table.clReleaseCommandQueue = queue_release;
    table.clFlush = queue_finish;
    table.clFinish = queue_finish;
    table.clEnqueueMarkerWithWaitList = queue_marker;
    table.clCreateBuffer = buffer_create;
    table.clCreateSubBuffer = buffer_part;
    table.clReleaseMemObject = buffer_release;
    table.clEnqueueReadBuffer = buffer_read;
    table.clEnqueueWriteBuffer = buffer_write;
    table.clEnqueueMapBuffer = buffer_map;
    table.clEnqueueUnmapMemObject = buffer_unmap;
    table.clCreateProgramWithSource = program_from_source;
    table.clCreateProgramWithBinary = program_from_binary;
    table.clBuildProgram = program_build;
    table.clGetProgramInfo = program_info;
    table.clGetProgramBuildInfo = program_build_info;
    table.clReleaseProgram = program_release;
    table.clCreateKernel = kernel_create;
    table.clReleaseKernel = kernel_release;
    table.clGetKernelInfo = kernel_info;
    table.clGetKernelWorkGroupInfo = kernel_group_info;
    table.clSetKernelArg = kernel_argument;
    table.clEnqueueNDRangeKernel = launch;
    table.clGetEventProfilingInfo = event_times;
    table.clReleaseEvent = event_release;
}

/* What a loader asks a driver's library for. */
EXPORT void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    if (!strcmp(name, "clIcdGetPlatformIDsKHR")) return (void *)get_platforms;
    if (!strcmp(name, "clGetPlatformInfo")) return (void *)platform_info;
    return NULL;
}

EXPORT cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *list, cl_uint *count)
{
    return get_platforms(n, list, count);
}

EXPORT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t size, void *to,
                                            size_t *used)
{
    return platform_info(id, what, size, to, used);
}
