/* What the host and the kernels of buckets of gradients agree on (core/train/buckets.h): bucket_add, bucket_take,
 * bucket_scan, bucket_pack, bucket_sum and bucket_unpack. Included by C, OpenCL C and GLSL, so it holds nothing but
 * #define lines.
 *
 * Messages lie in a buffer of 32-bit words, each from a multiple of WIRE_ROUND words on. One of floats has nothing but
 * them. One of 16-bit floats begins with WIRE_ROUND words: the exponent of the power of two that all were divided by,
 * so that the largest is just below 2^15 (of bf16, which has a float's range, 0), and a float that all are to be
 * multiplied with. */
#ifndef WHERRY_KERNEL_WIRE_H
#define WHERRY_KERNEL_WIRE_H

#define WIRE_ROUND 4
#define WIRE_HEAD_EXPONENT 0
#define WIRE_HEAD_FACTOR 1
/* CONST_FORM: what is in messages. */
#define WIRE_FORM_F32 0
#define WIRE_FORM_F16 1
#define WIRE_FORM_BF16 2
/* A float's bits as bf16: rounded to nearest, ties to even; a NaN stays one. */
#define WIRE_BF16(bits)                                                                                                \
    (((bits)&0x7fffffffu) > 0x7f800000u ? (bits) >> 16 | 0x40u : ((bits) + 0x7fffu + ((bits) >> 16 & 1u)) >> 16)
/* Work-groups of a message, and of what is summed or added: each has its part of the elements, and of a message its
 * largest in PARTIALS. */
#define WIRE_GROUPS 1024
/* The most sums that wait to be added at a time (core/train/tree.h). */
#define WIRE_DEPTH 24

/* The batch buffer's words. */
#define WIRE_ACTIVE 0 /* 0: nothing is done, as with the batch of nothing at a kernel's first launch */
/* Float number i of a bucket is, in the slab, WIRE_AT + i; with rows it is (list[WIRE_LIST + i / WIRE_ROW] -
 * WIRE_FIRST_ROW) * WIRE_ROW + i % WIRE_ROW behind WIRE_AT. */
#define WIRE_AT 1
#define WIRE_ROW 2 /* 0: no rows */
#define WIRE_LIST 3
#define WIRE_FIRST_ROW 4
#define WIRE_MESSAGES 5 /* in the table */
/* bucket_sum: floats of the bucket, and words that say how their sums are made. */
#define WIRE_SUM_FIRST 6
#define WIRE_SUM_COUNT 7
#define WIRE_OPERATIONS 8    /* their number */
#define WIRE_OPERATIONS_AT 9 /* where in the batch buffer */
/* bucket_add and bucket_take: chunks of the launch's table (interface/optimizer.h). bucket_take: WIRE_AT is counted
 * from where the launch's elements begin, the message is the table's first. */
#define WIRE_ADDS 10   /* 1: to what is there */
#define WIRE_FACTOR 11 /* a float: what gradients are multiplied with */
#define WIRE_CHUNK 12
#define WIRE_CHUNKS 13
#define WIRE_TABLE 16

/* The table of messages: of each */
#define MESSAGE_FIRST 0 /* the first of the bucket's floats */
#define MESSAGE_COUNT 1
#define MESSAGE_AT 2 /* where it lies: a word */
#define MESSAGE_WORDS 3

/* An operation: its kind, and a word's number. */
#define OPERATION_OWN 0     /* what this device has in its place */
#define OPERATION_MESSAGE 1 /* what was received */
#define OPERATION_FLOATS 2  /* floats beside the messages */
#define OPERATION_ADD 3     /* the last one to the one before it */
#define OPERATION_WORDS 2

#endif
