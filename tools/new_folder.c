/* Makes folders for results. */
#include "new_folder.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"

#ifdef _WIN32
#include <direct.h>
#define make_folder(path) _mkdir(path)
#else
#define make_folder(path) mkdir((path), 0777)
#endif

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

bool new_folder(const char *path)
{
    if (!make_folder(path)) return true;
    if (errno != EEXIST) return complain(0, "can't make the folder %s: %s", path, strerror(errno));
    DIR *stream = opendir(path);
    bool empty = true;
    if (!stream) return complain(0, "can't read the folder %s: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(stream));) empty = empty && is_dots(entry->d_name);
    closedir(stream);
    return empty || complain(0, "%s is not empty: results go to a new folder, or an empty one", path);
}
