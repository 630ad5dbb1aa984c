/* The device's timer against the host's clock. */
#ifndef WHERRY_MEASURE_TIMER_H
#define WHERRY_MEASURE_TIMER_H

#include "measure/roof.h"

enum { TIMER_LENGTHS = 4 }; /* work 1, 2, 4 and 8 times as long */

struct timer_sample {
    double host[TIMER_LENGTHS], device[TIMER_LENGTHS]; /* seconds */
};

/* The verdict on what was seen: status, slope and reason. */
void timer_judge(const struct timer_sample *samples, size_t n, wherry_timer_info *out);
/* Tests with work `w`, a work_calibrate'd or new one of arithmetic. Fails only where a run fails for another reason
 * than the timer. */
bool timer_measure(struct bench *b, struct work *w, wherry_timer_info *out, struct error *e);
/* Tested once: a timer that was found good stays so until a run shows otherwise. The reference takes its times from the
 * host's clock. False: the test could not run. */
bool timer_of_device(struct wherry_device *device, wherry_timer_info *out);
/* A verdict of a run that failed. */
void timer_condemn(wherry_timer_info *info, wherry_timer_status status, const char *reason);

#endif
