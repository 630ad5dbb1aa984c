/* Buckets of gradients on their way between processes: each is copied to the host and sent in parts to the processes
 * that sum them, copied up, summed and copied down there, sent to all, and copied up. As core/train/buckets.c has it, a
 * turn is of a bucket that starts, and of those before it, each in a later stage; two copies, one each way, and the
 * link's messages take turns. Two processes send each other all of a bucket, which is done where it is summed. */
#include "rank_predict.h"

#include <math.h>

#include "base/exchange_shape.h"

/* At a time, with the one that starts. */
enum { UNDER_WAY = EXCHANGE_WRITTEN + 1 };

/* When the stages of a bucket end. */
struct stages {
    double down, scattered, summed, gathered, written;
};

/* What one thing at a time can use. */
struct lane {
    double free;
};

static double use(struct lane *lane, double from, double seconds)
{
    lane->free = fmax(lane->free, from) + seconds;
    return lane->free;
}

/* A message to each other process, and one from each. */
static double send(struct lane *wire, const struct rank_link *link, double from, double bytes, uint32_t others)
{
    return use(wire, from, bytes / link->rate + others * link->overhead) + link->latency;
}

static double copy_seconds(const struct rank_link *link, double bytes)
{
    return link->copy > 0 ? bytes / link->copy : 0;
}

/* Of a message of all of it; 0 beyond the last. */
static double bucket_bytes(const struct rank_step *step, const struct rank_link *link, size_t n)
{
    if (n >= step->n_buckets) return 0;
    return step->buckets[n].floats * link->float_bytes * (step->buckets[n].table ? step->table_share : 1);
}

struct rank_prediction rank_predict(const struct rank_step *step, const struct rank_link *link, uint32_t processes,
                                    bool hidden)
{
    const size_t n = step->n_buckets;
    const bool whole = exchange_whole(processes);
    const double others = processes - 1, part = whole ? 1 : 1.0 / processes;
    const size_t stages = whole ? EXCHANGE_SUMMED : EXCHANGE_WRITTEN;
    struct rank_prediction out = {.step = step->seconds};
    if (processes < 2 || !n) return out;
    struct stages of[UNDER_WAY];
    struct lane wire = {0}, down = {0}, up = {0};
    double now = 0, first = hidden ? step->buckets[0].ready : step->backward_end;
    for (size_t turn = 0; turn < n + stages; turn++) {
        double bytes[UNDER_WAY];
        for (size_t k = 0; k < UNDER_WAY; k++) bytes[k] = turn >= k ? bucket_bytes(step, link, turn - k) : 0;
        if (turn < n) {
            double ready = hidden ? step->buckets[turn].ready : step->backward_end;
            of[turn % UNDER_WAY].down = use(&down, ready, copy_seconds(link, bytes[0]));
            now = fmax(now, of[turn % UNDER_WAY].down);
            of[turn % UNDER_WAY].scattered = send(&wire, link, now, others * part * bytes[0], processes - 1);
        }
        if (bytes[EXCHANGE_SUMMED] > 0) {
            struct stages *s = &of[(turn - EXCHANGE_SUMMED) % UNDER_WAY];
            now = fmax(now, s->scattered);
            double there = use(&up, now, copy_seconds(link, others * part * bytes[EXCHANGE_SUMMED]));
            s->summed = whole ? there : use(&down, there, copy_seconds(link, part * bytes[EXCHANGE_SUMMED]));
            s->written = there;
        }
        if (!whole && bytes[EXCHANGE_TOLD] > 0) {
            struct stages *s = &of[(turn - EXCHANGE_TOLD) % UNDER_WAY];
            s->gathered = send(&wire, link, fmax(now, s->summed), others * part * bytes[EXCHANGE_TOLD], processes - 1);
        }
        if (!whole && bytes[EXCHANGE_WRITTEN] > 0) {
            struct stages *s = &of[(turn - EXCHANGE_WRITTEN) % UNDER_WAY];
            now = fmax(now, s->gathered);
            s->written = use(&up, now, copy_seconds(link, others * part * bytes[EXCHANGE_WRITTEN]));
        }
    }
    double end = of[(n - 1) % UNDER_WAY].written;
    out.exchange = end - first;
    out.exposed = fmax(0, end - step->backward_end);
    out.step = step->seconds + out.exposed;
    return out;
}
