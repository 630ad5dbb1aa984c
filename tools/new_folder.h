/* A folder for results. */
#ifndef WHERRY_TOOLS_NEW_FOLDER_H
#define WHERRY_TOOLS_NEW_FOLDER_H

#include <stdbool.h>

/* Makes the folder, whose parent must be there, or takes one that is empty: what somebody has in a folder stays alone.
 * Complains and returns false where that is not to be had. */
bool new_folder(const char *path);
/* The same, but a folder is taken as it is. */
bool some_folder(const char *path);
/* Removes a folder that is empty; another stays. */
void remove_folder(const char *path);
/* Removes what is there with all that is in it, as far as it goes; a link goes by itself, not what it leads to. */
void remove_all(const char *path);

#endif
