/* Makes folders for results, and takes them away. */
#include "new_folder.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"
#include "system.h"

#ifdef _WIN32
#include <direct.h>
#define make_folder(path) _mkdir(path)
#define drop_folder(path) _rmdir(path)
#else
#define make_folder(path) mkdir((path), 0777)
#define drop_folder(path) remove(path)
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

bool some_folder(const char *path)
{
    if (!make_folder(path) || errno == EEXIST) return true;
    return complain(0, "can't make the folder %s: %s", path, strerror(errno));
}

void remove_folder(const char *path) { drop_folder(path); }

static void remove_each(const char *path, void *user)
{
    if (!remove(path)) return;
    system_list(path, remove_each, user);
    remove_folder(path);
}

void remove_all(const char *path) { remove_each(path, NULL); }
