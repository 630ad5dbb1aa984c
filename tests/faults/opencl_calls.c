/* OpenCL's functions in front of the loader's. A call that fails is not made, but those that wait: what a device was
 * given to do, it has done. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include "faults.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_PLATFORM = -1001 };

#define COMMON CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

/* In the library that stands behind this one for a program that is linked with it, or that the system has. */
static void *true_function(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found ? NULL : dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) found = dlsym(library, name);
    if (found) return found;
    fprintf(stderr, "faults: there is no %s behind this library\n", name);
    abort();
}

#define TRUE_ONE(name)                                                                                                 \
    static __typeof__(&name) next;                                                                                     \
    if (!next) next = (__typeof__(&name))true_function(#name);

/* A function that returns its error, one of those after the arguments. `done`: what follows a success. */
#define CALL(name, parameters, arguments, done, ...)                                                                   \
    CL_API_ENTRY cl_int CL_API_CALL name parameters                                                                    \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        TRUE_ONE(name)                                                                                                 \
        if (fault_driver(FAULT_OPENCL, #name, errors, COUNT(errors), &error)) return error;                            \
        cl_int code = next arguments;                                                                                  \
        if (!code) {                                                                                                   \
            done;                                                                                                      \
        }                                                                                                              \
        return code;                                                                                                   \
    }

/* One that waits for the device. */
#define WAIT(name, parameters, arguments, done, ...)                                                                   \
    CL_API_ENTRY cl_int CL_API_CALL name parameters                                                                    \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        TRUE_ONE(name)                                                                                                 \
        cl_int code = next arguments;                                                                                  \
        if (fault_driver(FAULT_OPENCL, #name, errors, COUNT(errors), &error)) return error;                            \
        if (!code) {                                                                                                   \
            done;                                                                                                      \
        }                                                                                                              \
        return code;                                                                                                   \
    }

/* One that returns an object, and its error through the last argument. */
#define CREATE(type, name, kind, parameters, arguments, ...)                                                           \
    CL_API_ENTRY type CL_API_CALL name parameters                                                                      \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        TRUE_ONE(name)                                                                                                 \
        if (fault_driver(FAULT_OPENCL, #name, errors, COUNT(errors), &error)) {                                        \
            if (code) *code = error;                                                                                   \
            return NULL;                                                                                               \
        }                                                                                                              \
        type made = next arguments;                                                                                    \
        if (made) fault_object_count(kind, 1);                                                                         \
        return made;                                                                                                   \
    }

/* Releasing and retaining never fail. */
#define LIFE(name, type, kind, change)                                                                                 \
    CL_API_ENTRY cl_int CL_API_CALL name(type object)                                                                  \
    {                                                                                                                  \
        TRUE_ONE(name)                                                                                                 \
        cl_int code = next(object);                                                                                    \
        if (!code) fault_object_count(kind, change);                                                                   \
        return code;                                                                                                   \
    }

#define EVENT                                                                                                          \
    if (event) fault_object_count(OBJECT_CL_EVENT, 1)

/* ---- what there is ---- */

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    static const int errors[] = {CL_OUT_OF_HOST_MEMORY, NO_PLATFORM};
    int error;
    if (fault_alone()) return NO_PLATFORM;
    TRUE_ONE(clGetPlatformIDs)
    if (fault_driver(FAULT_OPENCL, "clGetPlatformIDs", errors, COUNT(errors), &error)) return error;
    return next(room, platforms, count);
}

CALL(clGetPlatformInfo, (cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *bytes),
     (platform, what, size, value, bytes), , CL_OUT_OF_HOST_MEMORY)
CALL(clGetDeviceIDs, (cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *ids, cl_uint *count),
     (platform, type, room, ids, count), , COMMON)
CALL(clGetDeviceInfo, (cl_device_id device, cl_device_info what, size_t size, void *value, size_t *bytes),
     (device, what, size, value, bytes), , COMMON)

/* ---- contexts, queues, memory ---- */

CREATE(cl_context, clCreateContext, OBJECT_CL_CONTEXT,
       (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
       (properties, n, devices, notify, user, code), CL_DEVICE_NOT_AVAILABLE, COMMON)
CALL(clGetContextInfo, (cl_context context, cl_context_info what, size_t size, void *value, size_t *bytes),
     (context, what, size, value, bytes), , COMMON)
CREATE(cl_command_queue, clCreateCommandQueue, OBJECT_CL_QUEUE,
       (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *code),
       (context, device, properties, code), COMMON)
CALL(clGetCommandQueueInfo,
     (cl_command_queue queue, cl_command_queue_info what, size_t size, void *value, size_t *bytes),
     (queue, what, size, value, bytes), , COMMON)
CREATE(cl_mem, clCreateBuffer, OBJECT_CL_MEM,
       (cl_context context, cl_mem_flags flags, size_t size, void *memory, cl_int *code),
       (context, flags, size, memory, code), CL_MEM_OBJECT_ALLOCATION_FAILURE, COMMON)
CREATE(cl_mem, clCreateSubBuffer, OBJECT_CL_MEM,
       (cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type, const void *info, cl_int *code),
       (whole, flags, type, info, code), CL_MEM_OBJECT_ALLOCATION_FAILURE, COMMON)

/* ---- programs and kernels ---- */

CREATE(cl_program, clCreateProgramWithSource, OBJECT_CL_PROGRAM,
       (cl_context context, cl_uint n, const char **texts, const size_t *sizes, cl_int *code),
       (context, n, texts, sizes, code), COMMON)
CREATE(cl_program, clCreateProgramWithBinary, OBJECT_CL_PROGRAM,
       (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *sizes, const unsigned char **binaries,
        cl_int *status, cl_int *code),
       (context, n, devices, sizes, binaries, status, code), CL_INVALID_BINARY, COMMON)
/* Without optimization, for which PoCL takes ten times as long, and which no result here depends on. */
CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                                               const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                               void *user)
{
    static const int errors[] = {CL_BUILD_PROGRAM_FAILURE, COMMON};
    char quick[4096];
    int error;
    TRUE_ONE(clBuildProgram)
    if (fault_driver(FAULT_OPENCL, "clBuildProgram", errors, COUNT(errors), &error)) return error;
    snprintf(quick, sizeof quick, "-cl-opt-disable %s", options ? options : "");
    return next(program, n, devices, options ? quick : NULL, notify, user);
}

CALL(clGetProgramInfo, (cl_program program, cl_program_info what, size_t size, void *value, size_t *bytes),
     (program, what, size, value, bytes), , COMMON)
CALL(clGetProgramBuildInfo,
     (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void *value, size_t *bytes),
     (program, device, what, size, value, bytes), , COMMON)
CREATE(cl_kernel, clCreateKernel, OBJECT_CL_KERNEL, (cl_program program, const char *name, cl_int *code),
       (program, name, code), COMMON)
CALL(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value), (kernel, index, size, value), ,
     COMMON)
CALL(clGetKernelInfo, (cl_kernel kernel, cl_kernel_info what, size_t size, void *value, size_t *bytes),
     (kernel, what, size, value, bytes), , COMMON)
CALL(clGetKernelWorkGroupInfo,
     (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size, void *value, size_t *bytes),
     (kernel, device, what, size, value, bytes), , COMMON)

/* ---- commands ---- */

CALL(clEnqueueNDRangeKernel,
     (cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t *offset, const size_t *global,
      const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *event),
     (queue, kernel, n, offset, global, local, n_wait, wait, event), EVENT, CL_MEM_OBJECT_ALLOCATION_FAILURE, COMMON)
CALL(clEnqueueReadBuffer,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t size, void *data, cl_uint n_wait,
      const cl_event *wait, cl_event *event),
     (queue, buffer, blocks, offset, size, data, n_wait, wait, event), EVENT, CL_MEM_OBJECT_ALLOCATION_FAILURE, COMMON)
CALL(clEnqueueWriteBuffer,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t size, const void *data,
      cl_uint n_wait, const cl_event *wait, cl_event *event),
     (queue, buffer, blocks, offset, size, data, n_wait, wait, event), EVENT, CL_MEM_OBJECT_ALLOCATION_FAILURE, COMMON)
CALL(clEnqueueCopyBuffer,
     (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size, cl_uint n_wait,
      const cl_event *wait, cl_event *event),
     (queue, from, to, from_offset, to_offset, size, n_wait, wait, event), EVENT, CL_MEM_OBJECT_ALLOCATION_FAILURE,
     COMMON)
CALL(clEnqueueFillBuffer,
     (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size,
      cl_uint n_wait, const cl_event *wait, cl_event *event),
     (queue, buffer, pattern, pattern_size, offset, size, n_wait, wait, event), EVENT, CL_MEM_OBJECT_ALLOCATION_FAILURE,
     COMMON)
CALL(clEnqueueUnmapMemObject,
     (cl_command_queue queue, cl_mem buffer, void *data, cl_uint n_wait, const cl_event *wait, cl_event *event),
     (queue, buffer, data, n_wait, wait, event), EVENT, COMMON)
CALL(clFlush, (cl_command_queue queue), (queue), , COMMON)
WAIT(clFinish, (cl_command_queue queue), (queue), , COMMON)
WAIT(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events), , CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
     COMMON)
CALL(clGetEventProfilingInfo, (cl_event event, cl_profiling_info what, size_t size, void *value, size_t *bytes),
     (event, what, size, value, bytes), , CL_PROFILING_INFO_NOT_AVAILABLE, COMMON)

CL_API_ENTRY void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks,
                                                  cl_map_flags flags, size_t offset, size_t size, cl_uint n_wait,
                                                  const cl_event *wait, cl_event *event, cl_int *code)
{
    static const int errors[] = {CL_MAP_FAILURE, COMMON};
    int error;
    TRUE_ONE(clEnqueueMapBuffer)
    if (fault_driver(FAULT_OPENCL, "clEnqueueMapBuffer", errors, COUNT(errors), &error)) {
        if (code) *code = error;
        return NULL;
    }
    return next(queue, buffer, blocks, flags, offset, size, n_wait, wait, event, code);
}

LIFE(clRetainContext, cl_context, OBJECT_CL_CONTEXT, 1)
LIFE(clReleaseContext, cl_context, OBJECT_CL_CONTEXT, -1)
LIFE(clRetainCommandQueue, cl_command_queue, OBJECT_CL_QUEUE, 1)
LIFE(clReleaseCommandQueue, cl_command_queue, OBJECT_CL_QUEUE, -1)
LIFE(clRetainMemObject, cl_mem, OBJECT_CL_MEM, 1)
LIFE(clReleaseMemObject, cl_mem, OBJECT_CL_MEM, -1)
LIFE(clRetainProgram, cl_program, OBJECT_CL_PROGRAM, 1)
LIFE(clReleaseProgram, cl_program, OBJECT_CL_PROGRAM, -1)
LIFE(clRetainKernel, cl_kernel, OBJECT_CL_KERNEL, 1)
LIFE(clReleaseKernel, cl_kernel, OBJECT_CL_KERNEL, -1)
LIFE(clRetainEvent, cl_event, OBJECT_CL_EVENT, 1)
LIFE(clReleaseEvent, cl_event, OBJECT_CL_EVENT, -1)
