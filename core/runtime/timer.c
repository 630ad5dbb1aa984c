/* The device's timer against the host's clock. */
#include "runtime/timer.h"

const char *wherry_timer_status_name(wherry_timer_status status)
{
    static const char *const names[] = {"ok", "absent", "backwards", "stuck", "unit"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "?";
}
