/* What training data is drawn by. */
#include "train/draws.h"

/* A bijection of 64 bits whose output looks random (the finalizer of splitmix64, Steele et al. 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t draw_bits(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = mix(seed + 0x9E3779B97F4A7C15u);
    x = mix(x ^ (a + 0x9E3779B97F4A7C15u));
    return mix(x ^ (b + 0x9E3779B97F4A7C15u));
}

double draw_unit(uint64_t seed, uint64_t a, uint64_t b) { return (double)(draw_bits(seed, a, b) >> 11) * 0x1p-53; }

/* Six rounds of a Feistel network permute the least even power of two that is enough; what falls outside is permuted
 * again until it is inside, at most four times on average. */
uint64_t draw_order(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t place)
{
    enum { ROUNDS = 6 };
    unsigned half = 1;
    while (half < 32 && (uint64_t)1 << (2 * half) < count) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, key = draw_bits(seed, epoch, 0x6F72646572u), x = place;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (unsigned round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (draw_bits(key, round, right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= count);
    return x;
}
