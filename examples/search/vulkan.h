/* A Vulkan device of the program's own, lent to the library. */
#ifndef SEARCH_VULKAN_H
#define SEARCH_VULKAN_H

#include <wherry/wherry.h>

struct lent_vulkan;

/* The first GPU of the machine, or with `any` what there is. NULL: none, and `why` says so. */
struct lent_vulkan *lent_vulkan_open(wherry_context *context, bool any, wherry_device **device, char *why, size_t size);
/* After the library's device was closed. Accepts NULL. */
void lent_vulkan_close(struct lent_vulkan *lent);

#endif
