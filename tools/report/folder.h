/* Folders of records, as scripts/gpu.sh leaves them. */
#ifndef WHERRY_TOOLS_REPORT_FOLDER_H
#define WHERRY_TOOLS_REPORT_FOLDER_H

#include "report/load.h"

/* Whether there is anything in it, as in a folder. */
bool is_folder(const char *path);
/* The files of a folder whose names end so, with its path, sorted; NULL, having complained, where they are too many. */
char **folder_files(const char *path, const char *ending, size_t *count);
void folder_files_free(char **files, size_t count);
/* "folder/name", to be freed. */
char *path_of(const char *folder, const char *name);
char *path_copy(const char *path); /* to be freed */
/* What the folder's power.json ({"schema": "power-1", "files": {NAME: {"watts": 61.5, ...}}}) says of the file `name`,
 * set in `count` origins; without that file, or where it says nothing usable, they stay. */
void power_read(const char *folder, const char *name, struct origin *origins, size_t count);

#endif
