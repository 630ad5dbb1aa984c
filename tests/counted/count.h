/* The kernels of backends/cpu/kernels as tests/test_traffic_cpu.c counts their loads and stores: the compiler calls
 * these functions for each (-fsanitize=thread, without its library), and here for what it would copy inline. */
#ifndef WHERRY_TESTS_COUNTED_COUNT_H
#define WHERRY_TESTS_COUNTED_COUNT_H

#include <stddef.h>
#include <string.h>

void *counted_copy(void *to, const void *from, size_t bytes);
void *counted_fill(void *to, int byte, size_t bytes);
#define memcpy counted_copy
#define memset counted_fill

#endif
