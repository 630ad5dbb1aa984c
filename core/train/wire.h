/* Floats as 16-bit floats in a message: before them the power of two that they were divided by, so that the largest is
 * just below 2^15. */
#ifndef WHERRY_TRAIN_WIRE_H
#define WHERRY_TRAIN_WIRE_H

#include <stdint.h>

/* Of a message; 0 floats are none. */
static inline uint64_t wire_bytes(uint64_t floats) { return floats ? 4 + 2 * floats + floats % 2 * 2 : 0; }
void wire_encode(const float *from, uint64_t floats, void *to);
void wire_decode(const void *from, float *to, uint64_t floats);

#endif
