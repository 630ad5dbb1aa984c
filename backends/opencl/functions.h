/* OpenCL's functions, from the library that is opened at run time: so that a program starts where there is none.
 * Included behind CL/cl.h; from there on a call by OpenCL's name goes through the table. */
#ifndef WHERRY_BACKENDS_OPENCL_FUNCTIONS_H
#define WHERRY_BACKENDS_OPENCL_FUNCTIONS_H

#include <stdbool.h>

#include "base/error.h"

/* Those of OpenCL 1.2, which every library has: one that lacks one is refused. A new row needs a #define below;
 * without, the linker misses the function. */
#define OPENCL_FUNCTIONS(X)                                                                                            \
    X(clGetPlatformIDs)                                                                                                \
    X(clGetPlatformInfo)                                                                                               \
    X(clGetDeviceIDs)                                                                                                  \
    X(clGetDeviceInfo)                                                                                                 \
    X(clCreateContext)                                                                                                 \
    X(clRetainContext)                                                                                                 \
    X(clReleaseContext)                                                                                                \
    X(clGetContextInfo)                                                                                                \
    X(clCreateCommandQueue)                                                                                            \
    X(clRetainCommandQueue)                                                                                            \
    X(clReleaseCommandQueue)                                                                                           \
    X(clGetCommandQueueInfo)                                                                                           \
    X(clFlush)                                                                                                         \
    X(clFinish)                                                                                                        \
    X(clCreateBuffer)                                                                                                  \
    X(clCreateSubBuffer)                                                                                               \
    X(clRetainMemObject)                                                                                               \
    X(clReleaseMemObject)                                                                                              \
    X(clGetMemObjectInfo)                                                                                              \
    X(clCreateProgramWithSource)                                                                                       \
    X(clCreateProgramWithBinary)                                                                                       \
    X(clReleaseProgram)                                                                                                \
    X(clBuildProgram)                                                                                                  \
    X(clGetProgramInfo)                                                                                                \
    X(clGetProgramBuildInfo)                                                                                           \
    X(clCreateKernel)                                                                                                  \
    X(clReleaseKernel)                                                                                                 \
    X(clSetKernelArg)                                                                                                  \
    X(clGetKernelInfo)                                                                                                 \
    X(clGetKernelWorkGroupInfo)                                                                                        \
    X(clEnqueueReadBuffer)                                                                                             \
    X(clEnqueueReadBufferRect)                                                                                         \
    X(clEnqueueWriteBuffer)                                                                                            \
    X(clEnqueueWriteBufferRect)                                                                                        \
    X(clEnqueueCopyBuffer)                                                                                             \
    X(clEnqueueCopyBufferRect)                                                                                         \
    X(clEnqueueFillBuffer)                                                                                             \
    X(clEnqueueMapBuffer)                                                                                              \
    X(clEnqueueUnmapMemObject)                                                                                         \
    X(clEnqueueNDRangeKernel)                                                                                          \
    X(clEnqueueMarkerWithWaitList)                                                                                     \
    X(clEnqueueBarrierWithWaitList)                                                                                    \
    X(clCreateUserEvent)                                                                                               \
    X(clSetUserEventStatus)                                                                                            \
    X(clSetEventCallback)                                                                                              \
    X(clWaitForEvents)                                                                                                 \
    X(clGetEventInfo)                                                                                                  \
    X(clGetEventProfilingInfo)                                                                                         \
    X(clRetainEvent)                                                                                                   \
    X(clReleaseEvent)

/* clCreateCommandQueueWithProperties, of OpenCL 2.0, which Apple's header lacks. */
typedef cl_command_queue(CL_API_CALL *opencl_queue_function)(cl_context context, cl_device_id device,
                                                             const cl_ulong *properties, cl_int *code);

/* __typeof__: GCC, clang, and MSVC from 19.39 (Visual Studio 2022 17.9) on. */
#define OPENCL_FUNCTION(name) __typeof__(&name) name;
struct opencl_functions {
    OPENCL_FUNCTIONS(OPENCL_FUNCTION)
    opencl_queue_function create_queue; /* NULL where the library lacks it; only for devices of OpenCL 2.0 */
};
#undef OPENCL_FUNCTION

/* Filled once per process, by the first that asks for OpenCL's devices or gives one of its own, and never changed
 * afterwards. Nothing may be called before. */
extern struct opencl_functions opencl_functions;

/* False where there is no OpenCL: the text says which names were looked for, and what the system says of each. */
bool opencl_functions_load(struct error *e);
/* Whether the library is one that WHERRY_OPENCL_LIBRARY names, so that others of this process may have another. */
bool opencl_functions_named(void);

#define clGetPlatformIDs opencl_functions.clGetPlatformIDs
#define clGetPlatformInfo opencl_functions.clGetPlatformInfo
#define clGetDeviceIDs opencl_functions.clGetDeviceIDs
#define clGetDeviceInfo opencl_functions.clGetDeviceInfo
#define clCreateContext opencl_functions.clCreateContext
#define clRetainContext opencl_functions.clRetainContext
#define clReleaseContext opencl_functions.clReleaseContext
#define clGetContextInfo opencl_functions.clGetContextInfo
#define clCreateCommandQueue opencl_functions.clCreateCommandQueue
#define clRetainCommandQueue opencl_functions.clRetainCommandQueue
#define clReleaseCommandQueue opencl_functions.clReleaseCommandQueue
#define clGetCommandQueueInfo opencl_functions.clGetCommandQueueInfo
#define clFlush opencl_functions.clFlush
#define clFinish opencl_functions.clFinish
#define clCreateBuffer opencl_functions.clCreateBuffer
#define clCreateSubBuffer opencl_functions.clCreateSubBuffer
#define clRetainMemObject opencl_functions.clRetainMemObject
#define clReleaseMemObject opencl_functions.clReleaseMemObject
#define clGetMemObjectInfo opencl_functions.clGetMemObjectInfo
#define clCreateProgramWithSource opencl_functions.clCreateProgramWithSource
#define clCreateProgramWithBinary opencl_functions.clCreateProgramWithBinary
#define clReleaseProgram opencl_functions.clReleaseProgram
#define clBuildProgram opencl_functions.clBuildProgram
#define clGetProgramInfo opencl_functions.clGetProgramInfo
#define clGetProgramBuildInfo opencl_functions.clGetProgramBuildInfo
#define clCreateKernel opencl_functions.clCreateKernel
#define clReleaseKernel opencl_functions.clReleaseKernel
#define clSetKernelArg opencl_functions.clSetKernelArg
#define clGetKernelInfo opencl_functions.clGetKernelInfo
#define clGetKernelWorkGroupInfo opencl_functions.clGetKernelWorkGroupInfo
#define clEnqueueReadBuffer opencl_functions.clEnqueueReadBuffer
#define clEnqueueReadBufferRect opencl_functions.clEnqueueReadBufferRect
#define clEnqueueWriteBuffer opencl_functions.clEnqueueWriteBuffer
#define clEnqueueWriteBufferRect opencl_functions.clEnqueueWriteBufferRect
#define clEnqueueCopyBuffer opencl_functions.clEnqueueCopyBuffer
#define clEnqueueCopyBufferRect opencl_functions.clEnqueueCopyBufferRect
#define clEnqueueFillBuffer opencl_functions.clEnqueueFillBuffer
#define clEnqueueMapBuffer opencl_functions.clEnqueueMapBuffer
#define clEnqueueUnmapMemObject opencl_functions.clEnqueueUnmapMemObject
#define clEnqueueNDRangeKernel opencl_functions.clEnqueueNDRangeKernel
#define clEnqueueMarkerWithWaitList opencl_functions.clEnqueueMarkerWithWaitList
#define clEnqueueBarrierWithWaitList opencl_functions.clEnqueueBarrierWithWaitList
#define clCreateUserEvent opencl_functions.clCreateUserEvent
#define clSetUserEventStatus opencl_functions.clSetUserEventStatus
#define clSetEventCallback opencl_functions.clSetEventCallback
#define clWaitForEvents opencl_functions.clWaitForEvents
#define clGetEventInfo opencl_functions.clGetEventInfo
#define clGetEventProfilingInfo opencl_functions.clGetEventProfilingInfo
#define clRetainEvent opencl_functions.clRetainEvent
#define clReleaseEvent opencl_functions.clReleaseEvent

#endif
