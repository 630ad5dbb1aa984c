/* Stands between wherry-serve and the library's encoding, so that a test can make a device slow or lose it. The file
 * that WHERRY_SERVE_HOOK names says how, each time: "slow SECONDS", "lose" (once: the file is removed), "fail" (once).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wherry/wherry_async.h>

wherry_status __real_wherry_encode_submit(wherry_session *session, const wherry_batch *batch,
                                          const wherry_submit_desc *desc, wherry_ticket **out);
wherry_status __wrap_wherry_encode_submit(wherry_session *session, const wherry_batch *batch,
                                          const wherry_submit_desc *desc, wherry_ticket **out);

static wherry_status asked(void)
{
    char what[32] = "";
    double seconds = 0;
    const char *path = getenv("WHERRY_SERVE_HOOK");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return WHERRY_STATUS_OK;
    int found = fscanf(file, "%31s %lf", what, &seconds);
    fclose(file);
    if (found >= 1 && strcmp(what, "slow") != 0) remove(path);
    const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&pause, NULL);
    if (!strcmp(what, "lose")) return WHERRY_STATUS_DEVICE_LOST;
    return !strcmp(what, "fail") ? WHERRY_STATUS_OUT_OF_DEVICE_MEMORY : WHERRY_STATUS_OK;
}

wherry_status __wrap_wherry_encode_submit(wherry_session *session, const wherry_batch *batch,
                                          const wherry_submit_desc *desc, wherry_ticket **out)
{
    wherry_status status = asked();
    return status ? status : __real_wherry_encode_submit(session, batch, desc, out);
}
