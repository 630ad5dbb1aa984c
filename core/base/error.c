/* Error texts. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool record(struct error *e, wherry_status status, int native, const char *format, va_list ap)
{
    e->status = status;
    e->native = native;
    e->timer = 0;
    vsnprintf(e->text, sizeof e->text, format, ap);
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
    snprintf(e->text, sizeof e->text, "%s: %.900s", where, text);
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
    };
    size_t n = sizeof names / sizeof *names;
    return (size_t)status < n && names[status] ? names[status] : "unknown status";
}
