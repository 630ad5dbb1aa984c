/* The arithmetic of device timers: two stamps of a counter that may wrap. */
#ifndef WHERRY_BACKENDS_TICKS_H
#define WHERRY_BACKENDS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* Ticks from `start` to `end` of a counter of `bits` valid bits, 1 to 64, that may have wrapped once in between; false
 * where the end lies before the start: no run is half a counter long. */
static inline bool ticks_elapsed(uint64_t start, uint64_t end, uint32_t bits, uint64_t *ticks)
{
    uint64_t mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
    *ticks = (end - start) & mask;
    return *ticks <= mask / 2;
}

#endif
