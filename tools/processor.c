/* What kind of processor the host has. */
#include "processor.h"

#include <stdio.h>
#include <string.h>

/* The value of a line "key\t: value"; NULL: it is another line. */
static const char *value_of(const char *line, const char *key)
{
    if (strncmp(line, key, strlen(key))) return NULL;
    line += strlen(key);
    line += strspn(line, " \t");
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

bool processor_name(const char *path, char *text, size_t size)
{
    char line[512], maker[32] = "", design[32] = "";
    FILE *file = fopen(path, "r");
    *text = 0;
    while (file && !*text && fgets(line, sizeof line, file)) {
        const char *value;
        line[strcspn(line, "\n")] = 0;
        if ((value = value_of(line, "model name"))) snprintf(text, size, "%s", value);
        if ((value = value_of(line, "CPU implementer"))) snprintf(maker, sizeof maker, "%s", value);
        if ((value = value_of(line, "CPU part"))) snprintf(design, sizeof design, "%s", value);
    }
    if (file) fclose(file);
    if (!*text && *maker && *design) snprintf(text, size, "ARM, implementer %s, part %s", maker, design);
    return *text;
}
