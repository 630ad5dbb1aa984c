/* Runs that follow each other on the device's queue, of one program or of several, and that nobody waits for before the
 * last: each finds what those before it left. */
#ifndef WHERRY_RUNTIME_PASS_H
#define WHERRY_RUNTIME_PASS_H

#include "runtime/context.h"

enum { PASS_DOWNLOADS = 2 };

/* A run of a program that is under way in one of its slots, or was. */
struct pass {
    struct run run;
    struct transfer downloads[PASS_DOWNLOADS];
    struct batch_shape shape;
    bool under_way;
};

/* Submits a run of up to PASS_DOWNLOADS downloads, after it has waited for what is under way in that slot. Lists and
 * shape are copied; what uploads point to is the caller's again where the schedule stages it, and what the shape points
 * to, and the application's objects, stay. One with times is waited for here. */
bool pass_submit(struct wherry_device *device, struct program *program, int slot, struct pass *pass,
                 const struct run *run, struct error *e);
/* Waits for it, where it is under way. */
bool pass_wait(struct wherry_device *device, struct program *program, int slot, struct pass *pass, struct error *e);

#endif
