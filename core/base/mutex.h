/* Locks. */
#ifndef WHERRY_BASE_MUTEX_H
#define WHERRY_BASE_MUTEX_H

#include <stdint.h>

/* One thread at a time, the others sleep; not one that has it already. */
struct mutex {
    union {
        void *pointer;
        uint64_t number;
        unsigned char bytes[128];
    } system;
};
void mutex_make(struct mutex *mutex);
void mutex_free(struct mutex *mutex);
void mutex_enter(struct mutex *mutex);
void mutex_leave(struct mutex *mutex);
/* Lets others in until mutex_wake, which wakes all who wait; sometimes it comes back without. The caller has it. */
void mutex_wait(struct mutex *mutex);
void mutex_wake(struct mutex *mutex);
/* Of the calling thread; no two threads that run have the same one, but one that comes when another has ended may have
 * that one's. Never 0. */
uintptr_t thread_number(void);
/* The same, and no two threads of the process ever have the same one. */
uint64_t thread_serial(void);

#endif
