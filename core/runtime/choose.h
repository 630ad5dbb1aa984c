/* Which device a name means, and which one it is when nothing is asked for. */
#ifndef WHERRY_RUNTIME_CHOOSE_H
#define WHERRY_RUNTIME_CHOOSE_H

#include "runtime/device_list.h"

/* The entry that `name` means: an id, a UUID, a part of a name, an API. NULL or "": the best one. That is a GPU, else
 * the host's cores, a CPU's driver, Vulkan's after OpenCL's, the reference. Where several CPU devices were tuned for
 * the same calls (wherry_tune), the one that took less time for them. */
bool device_choose(struct wherry_context *context, const struct device_list *list, const char *name, size_t *chosen,
                   struct error *e);

#endif
