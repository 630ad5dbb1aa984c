/* Whole units: how many hold n, and how much that is. */
#ifndef WHERRY_BASE_ROUND_H
#define WHERRY_BASE_ROUND_H

#include <stdint.h>

static inline uint64_t divide_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit; }
static inline uint64_t round_up(uint64_t n, uint64_t unit) { return divide_up(n, unit) * unit; }
/* The least power of two that is not below n. */
static inline uint64_t power_of_two(uint64_t n)
{
    uint64_t size = 1;
    while (size < n) size *= 2;
    return size;
}

#endif
