/* What the host and the kernels that measure a device's ceilings agree on. Included by C, OpenCL C and GLSL, so it
 * holds nothing but #define lines. */
#ifndef WHERRY_KERNEL_ROOF_H
#define WHERRY_KERNEL_ROOF_H

/* CONST_FORM */
#define ROOF_READ 0  /* y[group] = sum of the words that the group read, modulo 2^32 */
#define ROOF_WRITE 1 /* y = ROOF_MIX of each word's number */
#define ROOF_COPY 2  /* y = x */
#define ROOF_TRIAD 3 /* y = x + w / 2, floats: exact but for one rounding, with fma and without */

#define ROOF_PORTABLE 0 /* roof_arithmetic: what the language has */
#define ROOF_PTX 1      /* NVIDIA's instruction on pairs of halves */

/* The batch buffer's words; the slots that a batch of nothing (the first launch of a kernel) fills are left alone.
 * roof_memory: a chunk is what a work-group moves in one turn. In turn t, group g moves chunk
 * g * OWN + (g * FIRST + t * STEP) % CHUNKS. */
#define ROOF_GROUPS 0 /* work-groups; those beyond do nothing */
#define ROOF_TURNS 1
#define ROOF_OWN 9
#define ROOF_CHUNKS 10
#define ROOF_FIRST 11
#define ROOF_STEP 12 /* below CHUNKS */
#define ROOF_SALT 13 /* of what is written */
#define ROOF_MASK 14
#define ROOF_BITS 15
/* roof_arithmetic: each chain is a = a * FACTOR + ADDEND, floats; roof_matrix has neither. */
#define ROOF_FACTOR 9
#define ROOF_ADDEND 10

/* Word number `i` of what is written: random bits where MASK has ones. ROOF_MIX(ROOF_SCATTER(i + salt)) & mask | bits
 */
#define ROOF_SCATTER(i) ((i)*0x9E3779B1u)
#define ROOF_MIX(s) ((s) ^ ((s) >> 15))

/* roof_arithmetic, roof_matrix: operations of each chain in one turn. */
#define ROOF_UNROLLED 16

#endif
