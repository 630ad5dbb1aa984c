/* The layer over OpenCL: OPENCL_LAYERS=libnull_opencl.so (ocl-icd from 2.3 on, and Khronos' loader). */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_layer.h>

#include "null.h"

static const cl_icd_dispatch *below;
static cl_icd_dispatch table;

/* What a command that does nothing leaves: the event of one that does nothing either. */
static cl_int nothing(cl_command_queue queue, cl_uint n, const cl_event *list, cl_event *event)
{
    return event ? below->clEnqueueMarkerWithWaitList(queue, n, list, event) : CL_SUCCESS;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                                 cl_event *event)
{
    if (null_does("kernels")) return nothing(queue, n, list, event);
    return below->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, list, event);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t bytes,
                                       const void *from, cl_uint n, const cl_event *list, cl_event *event)
{
    if (null_does("copies")) return nothing(queue, n, list, event);
    return below->clEnqueueWriteBuffer(queue, memory, wait, at, bytes, from, n, list, event);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t bytes,
                                      void *to, cl_uint n, const cl_event *list, cl_event *event)
{
    if (null_does("queue")) return CL_OUT_OF_RESOURCES;
    if (null_does("copies")) return nothing(queue, n, list, event);
    return below->clEnqueueReadBuffer(queue, memory, wait, at, bytes, to, n, list, event);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at,
                                      size_t bytes, cl_uint n, const cl_event *list, cl_event *event)
{
    if (null_does("copies")) return nothing(queue, n, list, event);
    return below->clEnqueueCopyBuffer(queue, from, to, from_at, to_at, bytes, n, list, event);
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    return null_does("queue") ? CL_OUT_OF_RESOURCES : below->clFinish(queue);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *to, size_t *used)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    static const char name[] = "null";
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
    table.clEnqueueNDRangeKernel = launch;
    table.clEnqueueWriteBuffer = write_buffer;
    table.clEnqueueReadBuffer = read_buffer;
    table.clEnqueueCopyBuffer = copy_buffer;
    table.clFinish = finish;
    *given = (cl_uint)(entries < pointers ? entries : pointers);
    *layer = &table;
    return CL_SUCCESS;
}
