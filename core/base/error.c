/* Error texts. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { WHERE_MAX = 512 }; /* the rest is for what happened there */

/* Names in a message are from anywhere: files, drivers. Here they become harmless, for all. */
static bool record(struct error *e, wherry_status status, int native, const char *format, va_list ap)
{
    e->status = status;
    e->native = native;
    e->timer = 0;
    utf8_format(e->text, sizeof e->text, format, ap);
    return false;
}

bool fail(struct error *e, wherry_status status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    record(e, status, 0, format, ap);
    va_end(ap);
    return false;
}

bool fail_list(struct error *e, wherry_status status, const char *format, va_list ap)
{
    return record(e, status, 0, format, ap);
}

bool fail_native(struct error *e, wherry_status status, int native, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    record(e, status, native, format, ap);
    va_end(ap);
    return false;
}

bool fail_timer(struct error *e, int timer, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    record(e, WHERRY_STATUS_UNSUPPORTED, 0, format, ap);
    va_end(ap);
    e->timer = timer;
    return false;
}

bool fail_in(struct error *e, const char *where)
{
    char text[sizeof e->text];
    memcpy(text, e->text, sizeof text);
    size_t length = utf8_show(where, strlen(where), e->text, WHERE_MAX);
    length += (size_t)snprintf(e->text + length, sizeof e->text - length, ": ");
    utf8_show(text, strlen(text), e->text + length, sizeof e->text - length);
    return false;
}

const char *wherry_status_name(wherry_status status)
{
    static const char *const names[] = {
        [WHERRY_STATUS_OK] = "ok",
        [WHERRY_STATUS_INVALID_ARGUMENT] = "invalid argument",
        [WHERRY_STATUS_OUT_OF_HOST_MEMORY] = "out of host memory",
        [WHERRY_STATUS_OUT_OF_DEVICE_MEMORY] = "out of device memory",
        [WHERRY_STATUS_UNSUPPORTED] = "unsupported",
        [WHERRY_STATUS_NO_DEVICE] = "no device",
        [WHERRY_STATUS_DEVICE_LOST] = "device lost",
        [WHERRY_STATUS_COMPILE_FAILED] = "compile failed",
        [WHERRY_STATUS_IO] = "input/output",
        [WHERRY_STATUS_BAD_FORMAT] = "bad format",
        [WHERRY_STATUS_TOO_LONG] = "too long",
        [WHERRY_STATUS_VERIFY_FAILED] = "verify failed",
        [WHERRY_STATUS_CANCELLED] = "cancelled",
        [WHERRY_STATUS_BUSY] = "busy",
        [WHERRY_STATUS_TIMEOUT] = "timeout",
    };
    size_t n = sizeof names / sizeof *names;
    return (size_t)status < n && names[status] ? names[status] : "unknown status";
}
