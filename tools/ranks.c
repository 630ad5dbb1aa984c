/* The processes of a command that mpirun started. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "system.h"
#ifdef WHERRY_HAVE_MPI
#include "mpi/link.h"
#endif

/* ---- begin and end ---- */

static int complain_lost(const struct ranks *r)
{
    return complain(EXIT_DEVICE, "can't go on with the other processes: %s", r->exchange.problem(r->exchange.user));
}

/* What Open MPI, MPICH and others of its family, and PMIx give what they start. */
bool ranks_started(void) { return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK"); }

#ifdef WHERRY_HAVE_MPI

static const double SILENCE = 30; /* seconds */

int ranks_open(struct ranks *r, const struct options *options)
{
    struct link_place place;
    char why[256];
    *r = (struct ranks){.processes = 1, .locals = 1, .started = ranks_started()};
    if (!r->started) return EXIT_FINE;
    r->link = link_open(options->silence > 0 ? options->silence : SILENCE, &place, why);
    if (!r->link) return complain(EXIT_DEVICE, "can't start MPI: %s", why);
    r->process = place.process;
    r->processes = place.processes;
    r->local = place.local;
    r->locals = place.locals;
    r->exchange = (wherry_exchange){.struct_size = sizeof r->exchange,
                                    .process = place.process,
                                    .processes = place.processes,
                                    .user = r->link,
                                    .start = link_start,
                                    .finish = link_finish,
                                    .problem = link_problem,
                                    .share = link_share};
    if (r->process) complain_as(r->process, place.host);
    /* mpirun ends all of them where one fails, and that one says why. */
    if (r->processes > 1) system_stop_waits(true);
    return EXIT_FINE;
}

void ranks_close(struct ranks *r)
{
    bool flag = false;
    free(r->device);
    r->device = NULL;
    if (!r->link) return;
    if (!ranks_any(r, &flag)) link_close(r->link);
    r->link = NULL;
}

int ranks_count(struct ranks *r, uint64_t *number)
{
    if (r->processes < 2) return *number = r->counted++, EXIT_FINE;
    return link_count(r->link, number) ? EXIT_FINE : complain_lost(r);
}

void ranks_abort(struct ranks *r, int code)
{
    if (r->link && r->processes > 1) link_abort(r->link, code);
}

#else

int ranks_open(struct ranks *r, const struct options *options)
{
    (void)options;
    *r = (struct ranks){.processes = 1, .locals = 1};
    if (!ranks_started()) return EXIT_FINE;
    return complain(EXIT_USAGE, "mpirun started this, and this wherry was built without MPI: build it with "
                                "-DWHERRY_MPI=ON, or start it without mpirun");
}

void ranks_close(struct ranks *r) { (void)r; }
void ranks_abort(struct ranks *r, int code) { (void)r, (void)code; }
int ranks_count(struct ranks *r, uint64_t *number) { return *number = r->counted++, EXIT_FINE; }

#endif

/* ---- what they tell each other ---- */

/* values[p] of every process. */
static int gather(struct ranks *r, uint64_t *values)
{
    wherry_message *messages = need(calloc(2 * r->processes, sizeof *messages));
    size_t n = r->processes - 1;
    double seconds;
    for (uint32_t p = 0, i = 0; p < r->processes; p++) {
        if (p == r->process) continue;
        messages[i] = (wherry_message){.process = p, .data = &values[r->process], .bytes = sizeof *values};
        messages[n + i++] = (wherry_message){.process = p, .data = &values[p], .bytes = sizeof *values};
    }
    bool ok = r->exchange.start(r->exchange.user, messages, n, messages + n, n) &&
              r->exchange.finish(r->exchange.user, &seconds);
    free(messages);
    return ok ? EXIT_FINE : complain_lost(r);
}

int ranks_sum(struct ranks *r, uint64_t *number)
{
    if (r->processes < 2) return EXIT_FINE;
    uint64_t *values = need(calloc(r->processes, sizeof *values));
    values[r->process] = *number;
    int code = gather(r, values);
    *number = 0;
    for (uint32_t p = 0; p < r->processes; p++) *number += values[p];
    free(values);
    return code;
}

int ranks_any(struct ranks *r, bool *flag)
{
    uint64_t number = *flag;
    int code = ranks_sum(r, &number);
    *flag = number > 0;
    return code;
}

int ranks_same(struct ranks *r, uint64_t number, const char *what, const char *help)
{
    if (r->processes < 2) return EXIT_FINE;
    uint64_t *values = need(calloc(r->processes, sizeof *values));
    values[r->process] = number;
    int code = gather(r, values);
    for (uint32_t p = 1; !code && p < r->processes; p++)
        if (values[p] != values[0])
            code = complain(EXIT_INPUT, "process %u has other %s than process 0: %s", p, what, help);
    free(values);
    return code;
}

/* ---- devices ---- */

static bool is_of(const wherry_device_info *info, const char *api, bool gpu)
{
    size_t length = strlen(api);
    return info->usable && !strncmp(info->id, api, length) && info->id[length] == ':' &&
           (!gpu || info->type != WHERRY_DEVICE_CPU);
}

/* "" : there is no GPU. */
static void api_of_first_gpu(const wherry_device_info *infos, size_t count, char api[32])
{
    *api = 0;
    for (size_t n = 0; n < count; n++) {
        size_t length = strcspn(infos[n].id, ":");
        if (!infos[n].usable || infos[n].type == WHERRY_DEVICE_CPU || !infos[n].id[length] || length > 31) continue;
        memcpy(api, infos[n].id, length);
        api[length] = 0;
        return;
    }
}

static char *choose(const struct ranks *r, const wherry_device_info *infos, size_t count, const char *wanted)
{
    char api[32];
    size_t n = 0, gpus = 0;
    api_of_first_gpu(infos, count, api);
    if (wanted) snprintf(api, sizeof api, "%.31s", wanted);
    for (size_t i = 0; i < count; i++) gpus += is_of(&infos[i], api, true);
    for (size_t i = 0; i < count; i++) n += is_of(&infos[i], api, gpus > 0);
    for (size_t i = 0, at = 0; i < count; i++) {
        if (!is_of(&infos[i], api, gpus > 0)) continue;
        if (at++ == r->local % n) return strcpy(need(malloc(strlen(infos[i].id) + 1)), infos[i].id);
    }
    return NULL;
}

static int choose_device(struct ranks *r, struct tool *tool)
{
    const char *wanted = tool->options->device;
    bool api = wanted && (!strcmp(wanted, "opencl") || !strcmp(wanted, "vulkan"));
    size_t count = 0;
    if (r->processes == 1 || (wanted && !api)) return EXIT_FINE;
    wherry_status status = wherry_device_list(tool->context, NULL, &count);
    wherry_device_info *infos = need(calloc(count + 1, sizeof *infos));
    if (!status) status = wherry_device_list(tool->context, infos, &count);
    if (!status) r->device = choose(r, infos, count, wanted);
    free(infos);
    return status ? tool_error(tool, status, "can't list devices") : EXIT_FINE;
}

int ranks_options(struct ranks *r, struct options *own)
{
    struct tool tool = {.options = own};
    size_t share = system_cores() / r->locals;
    if (r->process) {
        own->quiet = true;
        own->log = NULL;
    }
    if (r->processes == 1) return EXIT_FINE;
    int code = tool_open_context(&tool, own);
    if (!code) code = choose_device(r, &tool);
    tool_close(&tool);
    if (r->device) own->device = r->device;
    bool cpu = own->device && !strcmp(own->device, "cpu");
    if (!own->threads && r->locals > 1 && cpu) own->threads = share ? (uint32_t)share : 1;
    return code;
}

json_t *exchange_json(const wherry_exchange_times *times, uint32_t steps)
{
    double hidden = times->seconds > times->exposed_seconds ? 1 - times->exposed_seconds / times->seconds : 0.0;
    return need(json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:I}", "bytes_sent", (json_int_t)(times->bytes_sent / steps),
                          "seconds", times->seconds / steps, "exposed_seconds", times->exposed_seconds / steps,
                          "hidden", hidden, "device_seconds", times->device_seconds / steps, "others_seconds",
                          times->others_seconds / steps, "sharing", (json_int_t)times->sharing));
}
