/* Files of a model folder: paths that stay inside it, and JSON. */
#ifndef WHERRY_MODEL_FOLDER_H
#define WHERRY_MODEL_FOLDER_H

#include <jansson.h>

#include "base/host.h"

/* "folder/name"; `name` "" gives the folder itself. From `host`, to be freed. */
char *path_join(const struct host *host, const char *folder, const char *name, struct error *e);
/* Whether a path that a model's file gives is relative and has no "..": what it names lies inside the folder (or where
 * a link in the folder leads, as in Hugging Face's cache). */
bool path_is_inside(const char *name);
/* Whether there is folder/name; an error as of file_exists. */
bool folder_has(const struct host *host, const char *folder, const char *name, bool *has, struct error *e);
/* Reads and parses folder/name. Duplicate keys, invalid UTF-8 and anything behind the value are errors. The result is
 * given back by json_decref. `flags`: jansson's, besides these. */
bool json_file_read(const struct host *host, const char *folder, const char *name, size_t flags, json_t **out,
                    struct error *e);

#endif
