/* Folders of records: which files there are, and the power that a script noted beside them. */
#include "report/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "json_file.h"
#include "options.h"
#include "system.h"

/* More than anybody's results, less than what would take a minute to sort. */
enum { NAMES_MOST = 4096 };

static void note(const char *path, void *user) { *(bool *)user = *path != 0; }

bool is_folder(const char *path)
{
    bool found = false;
    system_list(path, note, &found);
    return found;
}

char *path_of(const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = need(malloc(room));
    snprintf(path, room, "%s/%s", folder, name);
    return path;
}

char *path_copy(const char *path)
{
    size_t bytes = strlen(path) + 1;
    return memcpy(need(malloc(bytes)), path, bytes);
}

struct names {
    char **list;
    size_t count;
    const char *ending;
    bool too_many;
};

static void add_name(const char *path, void *user)
{
    struct names *names = user;
    size_t length = strlen(path), own = strlen(names->ending);
    if (length <= own || strcmp(path + length - own, names->ending) != 0) return;
    names->too_many = names->too_many || names->count == NAMES_MOST;
    if (!names->too_many) names->list[names->count++] = path_copy(path);
}

/* Of the paths of one folder. */
static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

char **folder_files(const char *path, const char *ending, size_t *count)
{
    struct names names = {.list = need(calloc(NAMES_MOST, sizeof *names.list)), .ending = ending};
    system_list(path, add_name, &names);
    *count = names.count;
    qsort(names.list, names.count, sizeof *names.list, compare_names);
    if (!names.too_many) return names.list;
    complain(0, "%s: more than %d files *%s", path, NAMES_MOST, ending);
    folder_files_free(names.list, names.count);
    *count = 0;
    return NULL;
}

void folder_files_free(char **names, size_t count)
{
    for (size_t n = 0; names && n < count; n++) free(names[n]);
    free(names);
}

void power_read(const char *folder, const char *name, struct origin *origins, size_t count)
{
    char *path = path_of(folder, "power.json");
    FILE *file = fopen(path, "rb");
    json_t *root = NULL;
    if (file && json_stream_read(file, path, &json_record, 0, &root)) root = NULL;
    if (file) fclose(file);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const json_t *one = json_object_get(json_object_get(root, "files"), name);
    double watts = json_number_value(json_object_get(one, "watts"));
    if (schema && strcmp(schema, "power-1") == 0 && isfinite(watts) && watts > 0 && watts < 1e5)
        for (size_t n = 0; n < count; n++) origins[n].watts = watts;
    json_decref(root);
    free(path);
}
