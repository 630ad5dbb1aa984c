/* Opens OpenCL's library. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/platform.h"

#define LIBRARY_VARIABLE "WHERRY_OPENCL_LIBRARY"

struct opencl_functions opencl_functions;

static struct once functions_once = ONCE_INIT;
static bool functions_found;
static char functions_missing[700];

/* As a linker would: what the program itself has of these functions comes first, by which an application that is linked
 * with a library of OpenCL gives handles of that one, and what stands in front of it (LD_PRELOAD) is called. */
static void functions_open(void)
{
    static const char *const process[] = {"", NULL};
    static const char *const names[] = {
#if defined(_WIN32)
        "OpenCL.dll",
#elif defined(__APPLE__)
        "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#elif defined(__ANDROID__)
        "libOpenCL.so",
#else
        "libOpenCL.so.1",
        "libOpenCL.so",
#endif
        "",
        NULL,
    };
    static const char first[] = "clGetPlatformIDs";
    const char *missing = NULL;
    char why[500], ignored[8];
    void *library = library_open(LIBRARY_VARIABLE, names, first, why, sizeof why);
    void *front = opencl_functions_named() ? NULL : library_open(NULL, process, first, ignored, sizeof ignored);
    if (!library) {
        snprintf(functions_missing, sizeof functions_missing,
                 "no library; " LIBRARY_FROM("ocl-icd-libopencl1") ". Tried: %s", why);
        return;
    }
#define LOAD(name)                                                                                                     \
    if (front) name = (__typeof__(name))library_get(front, #name);                                                     \
    if (!name) name = (__typeof__(name))library_get(library, #name);                                                   \
    if (!name) missing = #name;
    OPENCL_FUNCTIONS(LOAD)
#undef LOAD
    static const char queue[] = "clCreateCommandQueueWithProperties";
    void *later = front ? library_get(front, queue) : NULL;
    opencl_functions.create_queue = (opencl_queue_function)(later ? later : library_get(library, queue));
    functions_found = !missing;
    if (missing) {
        snprintf(functions_missing, sizeof functions_missing,
                 "the library has no %s, a function of OpenCL 1.2; " LIBRARY_VARIABLE " can name another one", missing);
    }
}

bool opencl_functions_load(struct error *e)
{
    run_once(&functions_once, functions_open);
    return functions_found || fail(e, WHERRY_STATUS_NO_DEVICE, "OpenCL: %s", functions_missing);
}

bool opencl_functions_named(void)
{
    const char *name = getenv(LIBRARY_VARIABLE);
    return name && *name;
}
