/* wherry_exchange.share: every process offers its memory to all others; what two of them reach of each other is used.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/link.h"
#include "mpi/shared.h"
#include "options.h"

/* `all` has a part of `size` bytes for each process, of which this one's own goes to all others; with `each`, every
 * other one gets its part of that. */
static bool tell_all(struct link *link, const void *each, bool same, void *all, size_t size)
{
    const struct link_place *place = link_place_of(link);
    const size_t n = place->processes - 1;
    wherry_message *messages = need(calloc(2 * n + 1, sizeof *messages));
    double seconds;
    for (uint32_t p = 0, i = 0; p < place->processes; p++) {
        if (p == place->process) continue;
        char *part = (char *)all + p * size;
        const char *told = (const char *)each + (same ? 0 : p * size);
        messages[i] = (wherry_message){.process = p, .data = (void *)told, .bytes = size};
        messages[n + i++] = (wherry_message){.process = p, .data = part, .bytes = size};
    }
    bool ok = link_start(link, messages, n, messages + n, n) && link_finish(link, &seconds);
    free(messages);
    return ok;
}

bool link_share(void *user, size_t bytes, void **memory)
{
    struct link *link = user;
    const struct link_place *place = link_place_of(link);
    const uint32_t own = place->process, n = place->processes;
    struct shared_offer *offers = need(calloc(n, sizeof *offers));
    struct shared_memory *shared = need(calloc(n, sizeof *shared));
    uint64_t *reached = need(calloc(2 * (size_t)n, sizeof *reached)); /* by this one, and by others */
    for (uint32_t p = 0; p < n; p++) shared[p].file = -1;
    shared[own] = shared_make(bytes, &offers[own]);
    bool ok = tell_all(link, &offers[own], true, offers, sizeof *offers);
    for (uint32_t p = 0; ok && p < n; p++)
        if (p != own && shared[own].memory) shared[p] = shared_open(&offers[p]);
    for (uint32_t p = 0; p < n; p++) reached[p] = shared[p].memory != NULL;
    ok = ok && tell_all(link, reached, false, reached + n, sizeof *reached);
    for (uint32_t p = 0; p < n; p++) {
        if (!ok || (p != own && !reached[n + p])) shared_close(&shared[p]);
        memory[p] = shared[p].memory;
    }
    if (ok)
        link_keep(link, shared, n);
    else
        free(shared);
    free(reached);
    free(offers);
    return ok;
}
