/* Locks (mutex.h). */
#include "base/platform_system.h"

#include "base/mutex.h"

struct parts_of_mutex {
    system_lock lock;
    system_condition condition;
};
_Static_assert(sizeof(struct parts_of_mutex) <= sizeof(struct mutex), "there is room for the system's lock");
_Static_assert(_Alignof(struct parts_of_mutex) <= _Alignof(struct mutex), "the system's lock is aligned");

static struct parts_of_mutex *parts_of(struct mutex *mutex) { return (struct parts_of_mutex *)(void *)mutex; }

void mutex_make(struct mutex *mutex) { lock_make(&parts_of(mutex)->lock, &parts_of(mutex)->condition); }
void mutex_free(struct mutex *mutex) { lock_free(&parts_of(mutex)->lock, &parts_of(mutex)->condition); }
void mutex_enter(struct mutex *mutex) { lock_enter(&parts_of(mutex)->lock); }
void mutex_leave(struct mutex *mutex) { lock_leave(&parts_of(mutex)->lock); }
void mutex_wait(struct mutex *mutex) { condition_wait(&parts_of(mutex)->condition, &parts_of(mutex)->lock); }
void mutex_wake(struct mutex *mutex) { condition_wake(&parts_of(mutex)->condition); }

uintptr_t thread_number(void)
{
    static _Thread_local char own;
    return (uintptr_t)&own;
}

uint64_t thread_serial(void)
{
    static shared_counter last;
    static _Thread_local uint64_t own;
    if (!own) own = counter_next(&last) + 1;
    return own;
}
