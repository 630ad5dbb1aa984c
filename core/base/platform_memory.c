/* Memory in large pages, where the system has them for the asking. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "base/platform_system.h"

#ifdef __linux__

#include <sys/mman.h>

void memory_advise_large(void *memory, size_t bytes)
{
    const uintptr_t large = (uintptr_t)2 << 20;
    uintptr_t begin = ((uintptr_t)memory + large - 1) / large * large;
    uintptr_t end = ((uintptr_t)memory + bytes) / large * large;
    if (end > begin) madvise((void *)begin, (size_t)(end - begin), MADV_HUGEPAGE); /* advice: it may fail */
}

#else

void memory_advise_large(void *memory, size_t bytes) { (void)memory, (void)bytes; }

#endif
