/* Heads of K and V, of which each belongs to as many neighbouring heads of Q. Included by C, OpenCL C and GLSL after
 * KEY_HEADS and HEADS are defined, so it holds nothing but #define lines. */
#ifndef WHERRY_KERNEL_HEADS_H
#define WHERRY_KERNEL_HEADS_H

/* That of a head of Q, how many there are, and the heads of Q of each. */
#define KEY_HEAD(head) (KEY_HEADS != 0 ? (head) / (HEADS / KEY_HEADS) : (head))
#define KEY_HEAD_COUNT (KEY_HEADS != 0 ? KEY_HEADS : HEADS)
#define KEY_HEAD_MEMBERS (HEADS / KEY_HEAD_COUNT)

#endif
