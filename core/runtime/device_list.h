/* The devices of all backends as one list. */
#ifndef WHERRY_RUNTIME_DEVICE_LIST_H
#define WHERRY_RUNTIME_DEVICE_LIST_H

#include "base/host.h"

struct device_list {
    wherry_device_info *infos;
    size_t count;
    size_t first_of[8]; /* by backend: index of its first entry */
};

/* Texts of drivers, made such that any terminal may show them. */
void device_show_texts(wherry_device_info *info);
/* All of them; list->infos is to be freed, also after a failure. */
bool device_list_all(const struct host *host, struct device_list *list, struct error *e);
/* Opens entry `index` of the list; NULL: failed. wherry_device_close. */
struct wherry_device *device_open_at(struct wherry_context *context, const struct device_list *list, size_t index,
                                     struct error *e);

#endif
