/* A folder for results. */
#ifndef WHERRY_TOOLS_NEW_FOLDER_H
#define WHERRY_TOOLS_NEW_FOLDER_H

#include <stdbool.h>

/* Makes the folder, whose parent must be there, or takes one that is empty: what somebody has in a folder stays alone.
 * Complains and returns false where that is not to be had. */
bool new_folder(const char *path);

#endif
