/* What training data is drawn by: numbers and permutations that are functions of a seed and of places, with no state
 * that would have to be kept. */
#ifndef WHERRY_TOOLS_TRAIN_DRAWS_H
#define WHERRY_TOOLS_TRAIN_DRAWS_H

#include <stdint.h>

/* 64 random bits for a place (a, b) of a seed. */
uint64_t draw_bits(uint64_t seed, uint64_t a, uint64_t b);
/* The same as a number in [0, 1). */
double draw_unit(uint64_t seed, uint64_t a, uint64_t b);
/* Number of [0, count) at place `place` of an epoch's order: a permutation for each seed and epoch. */
uint64_t draw_order(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t place);

#endif
