#include "count.h"

uint32_t opencl_counted;

#ifdef WHERRY_HAVE_OPENCL

#include "backends/opencl/opencl.h"

static __typeof__(clEnqueueNDRangeKernel) real;

static cl_int CL_API_CALL counted(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                  const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                                  cl_event *event)
{
    opencl_counted++;
    return real(queue, kernel, dimensions, offset, global, local, n, list, event);
}

void opencl_count(bool on)
{
    if (on) real = clEnqueueNDRangeKernel;
    clEnqueueNDRangeKernel = on ? counted : real;
}

#else

void opencl_count(bool on) { (void)on; }

#endif
