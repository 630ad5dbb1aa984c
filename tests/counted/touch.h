/* Which bytes of a session's memory the items of a step touch (test_traffic_cpu.c). */
#ifndef WHERRY_TESTS_COUNTED_TOUCH_H
#define WHERRY_TESTS_COUNTED_TOUCH_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each load and store of a kernel, whatever it touches. */
void touch(const void *at, size_t bytes, bool written);

#endif
