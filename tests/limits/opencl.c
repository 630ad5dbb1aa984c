/* The layer over OpenCL: OPENCL_LAYERS=liblimits_opencl.so (ocl-icd from 2.3 on, and Khronos' loader). */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_layer.h>

#include "limits.h"

static const cl_icd_dispatch *below;
static cl_icd_dispatch table;

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t size, void *to, size_t *used)
{
    static const char priorities[] = " cl_khr_priority_hints";
    size_t whole = 0;
    cl_int code = below->clGetDeviceInfo(device, what, size, to, &whole);
    if (!code && what == CL_DEVICE_EXTENSIONS && limit("priority", 0)) {
        if (to && whole - 1 + sizeof priorities > size) return CL_INVALID_VALUE;
        if (to) memcpy((char *)to + whole - 1, priorities, sizeof priorities);
        whole += sizeof priorities - 1;
    }
    if (used) *used = whole;
    if (code || !to) return code;
    switch (what) {
    case CL_DEVICE_TYPE:
        if (limit("gpu", 0)) *(cl_device_type *)to = CL_DEVICE_TYPE_GPU;
        break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        *(size_t *)to = (size_t)lower("local", *(size_t *)to);
        break;
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        for (int i = 0; i < 3; i++) ((size_t *)to)[i] = (size_t)lower("local", ((size_t *)to)[i]);
        break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        *(cl_ulong *)to = lower("shared", *(cl_ulong *)to);
        break;
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        *(cl_ulong *)to = lower("buffer", *(cl_ulong *)to);
        break;
    default:
        break;
    }
    return code;
}

/* Of the properties the driver gets all but the priority. */
static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 const cl_queue_properties *properties, cl_int *code)
{
    enum { PRIORITY = 0x1096, LOW = 4 };
    cl_queue_properties given[16];
    size_t n = 0;
    for (size_t i = 0; properties && properties[i] && n < 14; i += 2) {
        const bool own = limit("priority", 0) && properties[i] == PRIORITY;
        if (own && (properties[i + 1] != LOW || limit("priority", 0) == 2)) {
            if (code) *code = CL_INVALID_QUEUE_PROPERTIES;
            return NULL;
        }
        if (own) continue;
        given[n++] = properties[i];
        given[n++] = properties[i + 1];
    }
    given[n] = 0;
    return below->clCreateCommandQueueWithProperties(context, device, given, code);
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)
{
    if (!(flags & CL_MEM_ALLOC_HOST_PTR)) hold("buffer", bytes, "clCreateBuffer"); /* staging is the host's */
    return below->clCreateBuffer(context, flags, bytes, host, code);
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                                 cl_event *event)
{
    size_t items = 1;
    for (cl_uint i = 0; local && i < dimensions; i++) {
        items *= local[i];
        hold("groups", global[i] / local[i], "clEnqueueNDRangeKernel");
    }
    hold("local", items, "clEnqueueNDRangeKernel");
    cl_device_id device = NULL;
    cl_ulong shared = 0;
    below->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    below->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL);
    hold("shared", shared, "clEnqueueNDRangeKernel");
    return below->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, list, event);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    size_t bytes = 1;
    below->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes);
    compile(bytes - 1); /* the text's end is counted */
    return below->clBuildProgram(program, n, devices, options, done, user);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *to, size_t *used)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char name[] = "limits";
    const void *value = what == CL_LAYER_NAME ? (const void *)name : &version;
    size_t bytes = what == CL_LAYER_NAME ? sizeof name : sizeof version;
    if (what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
    if (used) *used = bytes;
    if (to && size < bytes) return CL_INVALID_VALUE;
    if (to) memcpy(to, value, bytes);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target, cl_uint *given,
                                            const cl_icd_dispatch **layer)
{
    const size_t pointers = sizeof table / sizeof(void *);
    below = target;
    memcpy(&table, target, (entries < pointers ? entries : pointers) * sizeof(void *));
    table.clGetDeviceInfo = device_info;
    table.clBuildProgram = build;
    table.clCreateBuffer = create_buffer;
    table.clCreateCommandQueueWithProperties = create_queue;
    table.clEnqueueNDRangeKernel = launch;
    *given = (cl_uint)(entries < pointers ? entries : pointers);
    *layer = &table;
    return CL_SUCCESS;
}
