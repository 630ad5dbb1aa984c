/* Devices of the backends as one list, and the opening of one. */
#ifndef WHERRY_RUNTIME_DEVICE_LIST_H
#define WHERRY_RUNTIME_DEVICE_LIST_H

#include "backends/backend.h"

enum { DEVICE_LIST_BACKENDS = 8 };

struct device_list {
    wherry_device_info *infos;
    size_t count;
    /* By backend: its first entry, and the one after its last; both 0 where it was not listed. */
    size_t first_of[DEVICE_LIST_BACKENDS], end_of[DEVICE_LIST_BACKENDS];
    size_t listed; /* backends, from the first on, that a search for the best device has listed */
};

/* Texts of drivers, made such that any terminal may show them. */
void device_show_texts(wherry_device_info *info);
/* Adds the devices of one backend, by its number, or of all of them. list->infos is to be freed, also after a failure.
 */
bool device_list_add(const struct host *host, struct device_list *list, size_t backend, struct error *e);
bool device_list_all(const struct host *host, struct device_list *list, struct error *e);
/* Opens entry `index` of the list, and has it execute something (device_try); NULL: failed. wherry_device_close. */
struct wherry_device *device_open_at(struct wherry_context *context, const struct device_list *list, size_t index,
                                     struct error *e);
/* Opens device `index` of a backend's order, of which nothing but that need be known. */
struct wherry_device *device_open_number(struct wherry_context *context, size_t backend, size_t index, struct error *e);
/* backend->open, in the account of the context's time. */
struct backend_device *device_open_handle(const struct host *host, const struct backend *backend, size_t index,
                                          const void *external, wherry_device_info *info, struct error *e);

#endif
