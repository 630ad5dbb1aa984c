/* Files of a model folder: paths that stay inside it, and JSON. */
#ifndef WHERRY_BASE_FOLDER_H
#define WHERRY_BASE_FOLDER_H

#include "base/host.h"
#include "base/json.h"

/* "folder/name"; `name` "" gives the folder itself. From `host`, to be freed. */
char *path_join(const struct host *host, const char *folder, const char *name, struct error *e);
/* Whether there is folder/name; an error as of file_exists. */
bool folder_has(const struct host *host, const char *folder, const char *name, bool *has, struct error *e);
/* What the files of a model may have, each several times what the largest published ones have: a configuration some
 * 20,000 labels, twice; an index 100,000 tensors; tokenizer.json, of kinds that are not supported, too, 35 MB and 2
 * million values; tokenizer_config.json 100,000 added tokens of 7 values each. */
extern const struct json_limits json_config, json_index, json_tokenizer, json_tokenizer_config;
/* Reads and parses folder/name, as json_read does. */
bool json_file_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                    size_t flags, json_t **out, struct error *e);
/* Frees what was read of it, and names the file in the error where what was made of it is not ok. Returns ok. */
bool json_file_end(const struct host *host, const char *folder, const char *name, json_t *json, bool ok,
                   struct error *e);

#endif
