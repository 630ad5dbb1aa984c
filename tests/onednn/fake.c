/* A library by oneDNN's name that is of the version and threading runtime that FAKE_ONEDNN says ("3.7.2 2"), and has
 * nothing but that. */
#include <stdio.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

const dnnl_version_t DNNL_API *dnnl_version(void)
{
    static dnnl_version_t version;
    const char *text = getenv("FAKE_ONEDNN");
    if (!text || sscanf(text, "%d.%d.%d %u", &version.major, &version.minor, &version.patch, &version.cpu_runtime) != 4)
        abort();
    return &version;
}
