/* What the host and the kernels of low-rank adapters agree on: adapter_gradient and adapter_merge. Included by C,
 * OpenCL C and GLSL, so it holds nothing but #define lines. */
#ifndef WHERRY_KERNEL_ADAPTER_H
#define WHERRY_KERNEL_ADAPTER_H

/* The batch buffer's only word that is read; 0: nothing is done, as with the batch of nothing at a kernel's first
 * launch. */
#define ADAPTER_ACTIVE 0

/* adapter_gradient: ADAPTER_SPAN rows or columns of a matrix, ADAPTER_DEPTH of what is summed over, ADAPTER_RANKS of
 * the rank. adapter_merge: ADAPTER_TILE rows and columns, ADAPTER_STRIP of the rank at a time. */
#define ADAPTER_SPAN 256
#define ADAPTER_DEPTH 16
#define ADAPTER_RANKS 16
#define ADAPTER_TILE 64
#define ADAPTER_STRIP 8

/* The table of a launch, uint in SLOT_IDS: the number of work-groups, where the matrices begin, then of each group */
#define ADAPTER_GROUPS 0
#define ADAPTER_MATRICES 1
#define ADAPTER_TABLE 2
#define GROUP_MATRIX 0 /* the first word of its matrix, counted from where matrices begin */
#define GROUP_FIRST 1  /* adapter_merge: its first row; adapter_gradient: the first row of B's, or column of A's */
#define GROUP_SECOND 2 /* adapter_merge: its first column; adapter_gradient: the first of the rank */
#define GROUP_OF 3     /* adapter_gradient: GROUP_OF_A or GROUP_OF_B */
#define GROUP_WORDS 4
#define GROUP_OF_A 0
#define GROUP_OF_B 1

/* A matrix of the model's files, [rows][columns], and its adapter, A [rank][columns] and B [rows][rank]. Element (row,
 * column) lies at row / BLOCK * BLOCK_STEP + row % BLOCK * ROW_STEP + column * COLUMN_STEP from where the matrix
 * begins: one of the last two steps is 1. */
#define MATRIX_ROWS 0
#define MATRIX_COLUMNS 1
#define MATRIX_BLOCK 2
#define MATRIX_BLOCK_STEP 3
#define MATRIX_ROW_STEP 4
#define MATRIX_COLUMN_STEP 5
#define MATRIX_WEIGHT 6   /* where it begins in the weights */
#define MATRIX_GRADIENT 7 /* in the gradients */
#define MATRIX_BASE 8     /* in what the model has, in the same order */
#define MATRIX_A 9        /* in A and B of all, and in their gradients */
#define MATRIX_B 10
#define MATRIX_WORDS 11

/* The batch buffer's further words: the rank, and the scale of B A as a float. */
#define ADAPTER_RANK 1
#define ADAPTER_SCALE 2

#endif
