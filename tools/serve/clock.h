/* Time. */
#ifndef WHERRY_SERVE_CLOCK_H
#define WHERRY_SERVE_CLOCK_H

#include <time.h>

/* Seconds of a clock that only goes forward. */
static inline double clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* When so many seconds have passed, as conditions are waited for. */
static inline struct timespec clock_later(double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    double at = (double)end.tv_nsec * 1e-9 + seconds;
    end.tv_sec += (time_t)at;
    end.tv_nsec = (long)(1e9 * (at - (double)(time_t)at));
    return end;
}

#endif
