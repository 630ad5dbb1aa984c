/* JSON that the command reads, whole and within bounds. */
#include "json_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

const struct json_limits json_record = {.bytes = (size_t)64 << 20, .values = 1 << 20, .depth = 64};

int json_text_read(const char *text, size_t size, const char *name, const struct json_limits *limits, size_t flags,
                   json_t **out)
{
    char why[JSON_WHY];
    wherry_status status = json_read(text, size, limits, flags, out, why);
    if (!status) return EXIT_FINE;
    return complain(status == WHERRY_STATUS_OUT_OF_HOST_MEMORY ? EXIT_DEVICE : EXIT_INPUT, "%s: %s", name, why);
}

/* At most a byte more than `most`, so that more is seen to be there; NULL, having complained. */
static char *read_all(FILE *file, const char *name, size_t most, size_t *size)
{
    size_t room = 1 << 16;
    char *data = need(malloc(room));
    *size = 0;
    errno = 0;
    for (size_t got; *size <= most && (got = fread(data + *size, 1, room - *size, file)) > 0;) {
        *size += got;
        if (*size == room) data = need(realloc(data, room *= 2));
    }
    if (!ferror(file)) return data;
    complain(0, "can't read %s: %s", name, strerror(errno ? errno : EIO));
    free(data);
    return NULL;
}

int json_stream_read(FILE *file, const char *name, const struct json_limits *limits, size_t flags, json_t **out)
{
    size_t size;
    char *data = read_all(file, name, limits->bytes, &size);
    if (!data) return EXIT_INPUT;
    int code = json_text_read(data, size, name, limits, flags, out);
    free(data);
    return code;
}
