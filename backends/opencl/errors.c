/* OpenCL's error codes: their names, and which of our statuses they mean. */
#include "opencl.h"

#include <stdarg.h>
#include <stdio.h>

const char *opencl_error_name(cl_int code)
{
#define CASE(name)                                                                                                     \
    case name:                                                                                                         \
        return #name
    switch (code) {
        CASE(CL_SUCCESS);
        CASE(CL_DEVICE_NOT_FOUND);
        CASE(CL_DEVICE_NOT_AVAILABLE);
        CASE(CL_COMPILER_NOT_AVAILABLE);
        CASE(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        CASE(CL_OUT_OF_RESOURCES);
        CASE(CL_OUT_OF_HOST_MEMORY);
        CASE(CL_PROFILING_INFO_NOT_AVAILABLE);
        CASE(CL_MEM_COPY_OVERLAP);
        CASE(CL_BUILD_PROGRAM_FAILURE);
        CASE(CL_MAP_FAILURE);
        CASE(CL_MISALIGNED_SUB_BUFFER_OFFSET);
        CASE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        CASE(CL_COMPILE_PROGRAM_FAILURE);
        CASE(CL_LINKER_NOT_AVAILABLE);
        CASE(CL_LINK_PROGRAM_FAILURE);
        CASE(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
        CASE(CL_INVALID_VALUE);
        CASE(CL_INVALID_DEVICE_TYPE);
        CASE(CL_INVALID_PLATFORM);
        CASE(CL_INVALID_DEVICE);
        CASE(CL_INVALID_CONTEXT);
        CASE(CL_INVALID_QUEUE_PROPERTIES);
        CASE(CL_INVALID_COMMAND_QUEUE);
        CASE(CL_INVALID_HOST_PTR);
        CASE(CL_INVALID_MEM_OBJECT);
        CASE(CL_INVALID_BINARY);
        CASE(CL_INVALID_BUILD_OPTIONS);
        CASE(CL_INVALID_PROGRAM);
        CASE(CL_INVALID_PROGRAM_EXECUTABLE);
        CASE(CL_INVALID_KERNEL_NAME);
        CASE(CL_INVALID_KERNEL_DEFINITION);
        CASE(CL_INVALID_KERNEL);
        CASE(CL_INVALID_ARG_INDEX);
        CASE(CL_INVALID_ARG_VALUE);
        CASE(CL_INVALID_ARG_SIZE);
        CASE(CL_INVALID_KERNEL_ARGS);
        CASE(CL_INVALID_WORK_DIMENSION);
        CASE(CL_INVALID_WORK_GROUP_SIZE);
        CASE(CL_INVALID_WORK_ITEM_SIZE);
        CASE(CL_INVALID_GLOBAL_OFFSET);
        CASE(CL_INVALID_EVENT_WAIT_LIST);
        CASE(CL_INVALID_EVENT);
        CASE(CL_INVALID_OPERATION);
        CASE(CL_INVALID_BUFFER_SIZE);
        CASE(CL_INVALID_GLOBAL_WORK_SIZE);
        CASE(CL_INVALID_PROPERTY);
        CASE(CL_INVALID_COMPILER_OPTIONS);
        CASE(CL_INVALID_LINKER_OPTIONS);
    case -1001:
        return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
        return "an error that OpenCL does not define";
    }
#undef CASE
}

static bool fail_status(struct error *e, cl_int code, wherry_status status, const char *hint, const char *format,
                        va_list ap)
{
    char call[512];
    vsnprintf(call, sizeof call, format, ap);
    return fail_native(e, status, code, "%s: %s (%d)%s", call, opencl_error_name(code), (int)code, hint);
}

static const char memory_hint[] = ": the device is out of memory; use a smaller batch or free memory on the device";
static const char lost_hint[] = ": the driver gave the device up; close it and open it again";

bool opencl_fail(struct error *e, cl_int code, const char *format, ...)
{
    wherry_status status = WHERRY_STATUS_UNSUPPORTED;
    const char *hint = "";
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
        status = WHERRY_STATUS_OUT_OF_DEVICE_MEMORY;
        hint = memory_hint;
        break;
    case CL_OUT_OF_HOST_MEMORY:
        status = WHERRY_STATUS_OUT_OF_HOST_MEMORY;
        break;
    case CL_DEVICE_NOT_AVAILABLE:
        status = WHERRY_STATUS_DEVICE_LOST;
        hint = lost_hint;
        break;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_KERNEL_NAME:
    case CL_INVALID_PROGRAM_EXECUTABLE:
        status = WHERRY_STATUS_COMPILE_FAILED;
        break;
    default:
        break;
    }
    va_list ap;
    va_start(ap, format);
    fail_status(e, code, status, hint, format, ap);
    va_end(ap);
    return false;
}

bool opencl_fail_running(struct error *e, cl_int code, const char *format, ...)
{
    wherry_status status = WHERRY_STATUS_DEVICE_LOST;
    const char *hint = lost_hint;
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        status = WHERRY_STATUS_OUT_OF_DEVICE_MEMORY;
        hint = memory_hint;
        break;
    case CL_OUT_OF_HOST_MEMORY:
        status = WHERRY_STATUS_OUT_OF_HOST_MEMORY;
        hint = "";
        break;
    case CL_INVALID_VALUE:
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
    case CL_INVALID_GLOBAL_WORK_SIZE:
    case CL_INVALID_KERNEL_ARGS:
        status = WHERRY_STATUS_UNSUPPORTED;
        hint = "";
        break;
    default:
        break;
    }
    va_list ap;
    va_start(ap, format);
    fail_status(e, code, status, hint, format, ap);
    va_end(ap);
    return false;
}
