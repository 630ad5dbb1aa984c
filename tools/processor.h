/* What kind of processor the host has. */
#ifndef WHERRY_TOOLS_PROCESSOR_H
#define WHERRY_TOOLS_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>

/* Its name from a text like Linux's /proc/cpuinfo: the maker's ("model name"), or, on ARM, where there is none, the
 * numbers that stand for maker and design. False, and "": neither is there, or no such file. */
bool processor_name(const char *path, char *text, size_t size);

#endif
