/* Which device a name means, and which one it is when nothing is asked for. */
#ifndef WHERRY_RUNTIME_CHOOSE_H
#define WHERRY_RUNTIME_CHOOSE_H

#include "runtime/device_list.h"

/* Puts into the list, which is empty, or was made by an earlier search for the best one, what has to be known, and
 * chooses from it the entry that `name` means: an id, a UUID, a part of a name, an API. NULL or "": the best one. That
 * is a GPU, else the host's cores, a CPU's driver, Vulkan's after OpenCL's, the reference. Where several CPU devices
 * were tuned for the same calls (wherry_tune), the one that took less time for them. A driver takes 0.1 s to be loaded
 * and asked: a name that begins with an API's is looked for there first, and of GPUs that are as good the first is
 * taken without a look at the APIs that come after.
 */
bool device_choose(struct wherry_context *context, struct device_list *list, const char *name, size_t *chosen,
                   struct error *e);
/* Whether the name is the id of a device by its number in an API ("vulkan:0"): which backend, which number. */
bool device_numbered(const char *name, size_t *backend, size_t *index);

#endif
