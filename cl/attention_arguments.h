/* What attention, its backward pass and their variants are called with: the constants and the arguments. cl/attention.cl
 * and cl/attention_backward.cl say what is computed of them. */
#ifndef HEADS
#define HEADS 1
#endif
#ifndef KEY_HEADS
#define KEY_HEADS 0
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif
#ifndef X_STRIDE
#define X_STRIDE HEAD_DIM
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE HEAD_DIM
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef V_STRIDE
#define V_STRIDE HEAD_DIM
#endif
#ifndef V_OFFSET
#define V_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE HEAD_DIM
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

#include "heads.h"

#ifndef ROTARY
#define ROTARY ROTARY_NONE
#endif
#if ROTARY != ROTARY_NONE
#define ARGUMENT_TURN , INPUT_OF(uint, turn_positions), INPUT_OF(float, turn)
#define BEGIN_TURN                                                                                                     \
    BEGIN_OF(uint, turn_positions);                                                                                    \
    BEGIN_OF(float, turn)
#else
#define ARGUMENT_TURN
#define BEGIN_TURN
#endif

#if LSE == LSE_WRITE
#define ARGUMENT_LSE , OUTPUT_OF(float, lse)
#define BEGIN_LSE BEGIN_OUTPUT_OF(float, lse)
#else
#define ARGUMENT_LSE
#define BEGIN_LSE
#endif
#include "distances.h"
#include "masked.h"
#if RELATIVE > 0
#define ARGUMENT_RELATIVE , INPUT(relative)
#define BEGIN_RELATIVE BEGIN(relative)
#define ARGUMENT_DISTANCES , OUTPUT_OF(float, distances)
#define BEGIN_DISTANCES BEGIN_OUTPUT_OF(float, distances)
#else
#define ARGUMENT_RELATIVE
#define BEGIN_RELATIVE
#define ARGUMENT_DISTANCES
#define BEGIN_DISTANCES
#endif
#if DROPOUT > 0
#define ARGUMENT_SITE , const uint site
#else
#define ARGUMENT_SITE
#endif

#define OPERANDS BATCH_ARGUMENT, INPUT(x), INPUT(w), INPUT(v)
#define BEGIN_OPERANDS                                                                                                 \
    BEGIN_OF(uint, batch);                                                                                             \
    BEGIN(x);                                                                                                          \
    BEGIN(w);                                                                                                          \
    BEGIN(v)

/* Forward. */
#define ATTENTION_ARGUMENTS OPERANDS ARGUMENT_LSE ARGUMENT_RELATIVE, OUTPUT(y) ARGUMENT_SITE
#define BEGIN_ATTENTION                                                                                                \
    BEGIN_OPERANDS;                                                                                                    \
    BEGIN_LSE;                                                                                                         \
    BEGIN_RELATIVE;                                                                                                    \
    BEGIN_OUTPUT(y)

/* Backward; a kernel that leaves no partial sums defines NO_PARTIALS before. */
#ifdef NO_PARTIALS
#define ARGUMENT_PARTIALS
#define BEGIN_PARTIALS __global float *partials = 0
#else
#define ARGUMENT_PARTIALS , OUTPUT_OF(float, partials)
#define BEGIN_PARTIALS BEGIN_OUTPUT_OF(float, partials)
#endif
#define ATTENTION_BACKWARD_ARGUMENTS                                                                                   \
    OPERANDS ARGUMENT_TURN ARGUMENT_DISTANCES, INPUT_OF(float, lse) ARGUMENT_RELATIVE, INPUT_OF(float, delta),                       \
        INPUT(gradient) ARGUMENT_PARTIALS, OUTPUT(y) ARGUMENT_SITE
#define BEGIN_ATTENTION_BACKWARD                                                                                       \
    BEGIN_OPERANDS;                                                                                                    \
    BEGIN_OF(float, lse);                                                                                              \
    BEGIN_OF(float, delta);                                                                                            \
    BEGIN(gradient);                                                                                                   \
    BEGIN_PARTIALS;                                                                                                    \
    BEGIN_TURN;                                                                                                        \
    BEGIN_RELATIVE;                                                                                                    \
    BEGIN_DISTANCES;                                                                                                   \
    BEGIN_OUTPUT(y)
