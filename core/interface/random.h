/* Dropout's random numbers: the definition, for C, OpenCL C and GLSL, and so also the reference's. Counter-based, so
 * that a mask is recomputed wherever it is needed and never stored: Philox-4x32 with 7 rounds (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011, who show that 7 pass BigCrush).
 *
 * key      the seed's low and high word
 * counter  row, column / 8, site, step
 *
 * One call decides eight neighbouring columns: column c takes the low (c even) or high half of word (c % 8) / 2, and is
 * dropped when those 16 bits are below the threshold round(p * 65536). Kept values are scaled by
 * 65536 / (65536 - threshold). The row is the token's number in the batch, times the heads plus the head for
 * attention's weights, whose column is the key's position in its sequence. The site is 4 * layer + DROPOUT_*. */
#ifndef WHERRY_KERNEL_RANDOM_H
#define WHERRY_KERNEL_RANDOM_H

#define DROPOUT_ATTENTION 0 /* attention's weights */
#define DROPOUT_OUT 1       /* after attention's output product and its bias */
#define DROPOUT_ACTIVATION 2
#define DROPOUT_LIN2 3

/* The counter c0 to c3 becomes the result. All arguments are variables of 32 unsigned bits, the key's are changed, too.
 * PHILOX_MUL(high, low, a, b), each language's own: the two words of the product of a and b. */
#define PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                           \
    {                                                                                                                  \
        PHILOX_WORD high0, low0, high1, low1;                                                                          \
        PHILOX_MUL(high0, low0, 0xD2511F53u, c0);                                                                      \
        PHILOX_MUL(high1, low1, 0xCD9E8D57u, c2);                                                                      \
        c0 = high1 ^ c1 ^ k0;                                                                                          \
        c1 = low1;                                                                                                     \
        c2 = high0 ^ c3 ^ k1;                                                                                          \
        c3 = low0;                                                                                                     \
        k0 += 0x9E3779B9u;                                                                                             \
        k1 += 0xBB67AE85u;                                                                                             \
    }

#define PHILOX(c0, c1, c2, c3, k0, k1)                                                                                 \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)

#endif
