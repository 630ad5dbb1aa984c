/* What the host and the kernels that measure layouts (layout_rows, layout_product, layout_samples) agree on. Included
 * by C, OpenCL C and GLSL, so it holds nothing but #define lines.
 *
 * These kernels take the numbers of constants that other kernels know under their own names:
 *
 * TILE_M, TILE_N, TILE_K, TILE_V, THREAD_M, THREAD_N  the sizes of letters 0 to 5; layout_rows has four, and
 *                      THREAD_M, THREAD_N are the letters that vectors and threads go along
 * X_STRIDE, X_OFFSET, W_STRIDE, W_OFFSET, V_STRIDE, V_OFFSET, Y_STRIDE, Y_OFFSET  orders of up to eight tensors
 *
 * An order has four bits for each letter, letter 0 in the lowest: how many of the tensor's letters are faster, 15: it
 * has no such letter. */
#ifndef WHERRY_KERNEL_LAYOUTS_H
#define WHERRY_KERNEL_LAYOUTS_H

/* ---- the batch buffer's words ---- */
#define LAYOUT_LIVE 0     /* 0: write nothing (the first launch of a kernel) */
#define LAYOUT_COUNT 1    /* layout_samples: how many */
#define LAYOUT_INPUTS 32  /* where each input begins in X, in elements: a multiple of 64 */
#define LAYOUT_OUTPUTS 44 /* the same of outputs in Y */
#define LAYOUT_WORDS 64

/* ---- orders ---- */
/* l is a digit. */
#define LAYOUT_SIZE(l) LAYOUT_SIZE_##l
#define LAYOUT_SIZE_0 TILE_M
#define LAYOUT_SIZE_1 TILE_N
#define LAYOUT_SIZE_2 TILE_K
#define LAYOUT_SIZE_3 TILE_V
#define LAYOUT_SIZE_4 THREAD_M
#define LAYOUT_SIZE_5 THREAD_N
#define LAYOUT_ABSENT 15u
#define LAYOUT_RANK(order, l) (((order) >> (4 * (l))) & 15u)
#define LAYOUT_FASTER(order, l, m) (LAYOUT_RANK(order, m) < LAYOUT_RANK(order, l) ? LAYOUT_SIZE(m) : 1u)
/* Elements from one value of letter l to the next, of a tensor with four letters at most; 0: it has no such letter. */
#define LAYOUT_STRIDE4(order, l)                                                                                       \
    (LAYOUT_RANK(order, l) == LAYOUT_ABSENT ? 0u                                                                       \
                                            : LAYOUT_FASTER(order, l, 0) * LAYOUT_FASTER(order, l, 1) *                \
                                                  LAYOUT_FASTER(order, l, 2) * LAYOUT_FASTER(order, l, 3))
/* Of one letter alone. */
#define LAYOUT_ALONE(l) (0xffffffffu ^ (15u << (4 * (l))))

/* ---- layout_rows: FORM, the paper's fused kernels ---- */
#define LAYOUT_AIB 0
#define LAYOUT_SM 1
#define LAYOUT_BDRLN 2
#define LAYOUT_BRD 3
#define LAYOUT_BSB 4
#define LAYOUT_BLNRD 5
#define LAYOUT_BDRB 6
#define LAYOUT_EBSB 7
#define LAYOUT_BAOB 8
#define LAYOUT_BS 9
#define LAYOUT_BAIB 10
#define LAYOUT_BEI 11
#define LAYOUT_FORMS 12

/* A bit for each letter that a form reduces: i of bji, k of hbjk; b and j of bji, bju or hpbj. */
#define LAYOUT_REDUCED(form)                                                                                           \
    ((form) == LAYOUT_BDRLN || (form) == LAYOUT_BLNRD                                                  ? 4u            \
     : (form) == LAYOUT_SM || (form) == LAYOUT_BS                                                      ? 8u            \
     : (form) == LAYOUT_BSB || (form) == LAYOUT_BDRB || (form) == LAYOUT_EBSB || (form) == LAYOUT_BAOB ? 3u            \
     : (form) == LAYOUT_BAIB                                                                           ? 12u           \
                                                                                                       : 0u)
/* Whether a row is read a second time, after something was reduced; else each element is read once. */
#define LAYOUT_TWICE(form)                                                                                             \
    ((form) == LAYOUT_BDRLN || (form) == LAYOUT_BLNRD || (form) == LAYOUT_SM || (form) == LAYOUT_BS)

/* Dropout, as the paper's kernel benchmark has it: half of all are dropped. One call of the generator (random.h) for a
 * vector, whatever its letter; counter 0 is the number of its first element, all letters in their own order. */
#define LAYOUT_THRESHOLD 32768u
#define LAYOUT_KEPT_SCALE 2.0f
#define LAYOUT_SEED 0x1e55e4u
#define LAYOUT_EPSILON 1e-5f

/* What is in an output before it is written. */
#define LAYOUT_SPOILED (-30000.0f)

/* ---- layout_product ---- */
#define LAYOUT_TILE 64
#define LAYOUT_DEPTH 16
#define LAYOUT_ITEMS 128 /* work-items */
/* BATCHED: two bits for each letter, which of these it belongs to; inside its group the last letter is the fastest. */
#define LAYOUT_M 0u
#define LAYOUT_N 1u
#define LAYOUT_K 2u
#define LAYOUT_BATCH 3u
/* V_STRIDE: of the operands A [m][k] and B [k][n], whether k is what vectors go along (else m or n), and whether there
 * are any. */
#define LAYOUT_A_ALONG_K 1u
#define LAYOUT_B_ALONG_K 2u
#define LAYOUT_A_WIDE 4u
#define LAYOUT_B_WIDE 8u

/* ---- layout_samples: FORM ---- */
#define LAYOUT_SPOIL 0
#define LAYOUT_GATHER 1

#endif
