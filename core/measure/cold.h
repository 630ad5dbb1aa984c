/* Times of a group alone: with buffers taken in turn so that no cache holds them, or again and again with the same. */
#ifndef WHERRY_MEASURE_COLD_H
#define WHERRY_MEASURE_COLD_H

#include "runtime/session.h"
#include "wherry/wherry_measure.h"

/* What the groups of one session share. Every tensor of the session holds the values of its last step. */
struct cold {
    struct wherry_session *session;
    const struct batch_shape *shape;
    uint32_t repeats;
    double warm_seconds;
    bool again;      /* the session's own buffers every time, whatever caches hold of them */
    bool timer;      /* the device's can be trusted */
    uint64_t target; /* bytes that are touched before a buffer is used again */
    unsigned char *staging;
    struct sweep *sweep; /* NULL: not needed yet */
};

bool cold_open(struct cold *c, uint64_t cache_bytes, struct error *e);
/* At least `repeats` samples, by the device's timer, or by the host's clock where `timer` is false. `sets` gets the
 * number of buffer sets (`again`: of runs one after the other). Where it was the timer that failed, the error says so
 * (`timer`). */
bool cold_group(struct cold *c, int group, wherry_time *time, uint32_t *sets, struct error *e);
void cold_close(struct cold *c);

#endif
