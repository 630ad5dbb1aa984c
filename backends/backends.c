/* The backends of this build. */
#include "backends/backend.h"
#include "wherry/wherry_vulkan.h"

extern const struct backend backend_reference, backend_cpu, backend_opencl, backend_vulkan;

const struct backend *const backends[] = {
#ifdef WHERRY_HAVE_VULKAN
    &backend_vulkan,
#endif
#ifdef WHERRY_HAVE_OPENCL
    &backend_opencl,
#endif
#ifdef WHERRY_HAVE_CPU
    &backend_cpu,
#endif
    &backend_reference,
};
const size_t backends_count = sizeof backends / sizeof *backends;

#ifndef WHERRY_HAVE_VULKAN
wherry_status wherry_vulkan_query_needs(wherry_vulkan_needs *out)
{
    (void)out;
    return WHERRY_STATUS_UNSUPPORTED;
}
#endif
