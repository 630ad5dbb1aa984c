/* What gemm and its variants are called with: the constants and the arguments. cl/gemm.cl says what is computed of
 * them. */
#ifndef FORM
#define FORM GEMM_NT
#endif
#ifndef M
#define M 32
#endif
#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef DELTA
#define DELTA 0
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 8
#endif
#ifndef GATE
#define GATE GATE_NONE
#endif
#ifndef ROTARY
#define ROTARY ROTARY_NONE
#endif
#ifndef SCALES
#define SCALES 0
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef NORM
#define NORM 0
#endif
#ifndef NORM_Y
#define NORM_Y 0
#endif
#ifndef MOMENTS
#define MOMENTS MOMENTS_NONE
#endif
#ifndef RMS
#define RMS RMS_NONE
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif

#ifndef RUNTIME
#define RUNTIME RUNTIME_FORM
#endif

/* Which size is the batch's number of rows. */
#define BATCH_M (RUNTIME == RUNTIME_M || (RUNTIME == RUNTIME_FORM && FORM != GEMM_TN))
#define BATCH_N (RUNTIME == RUNTIME_N)
#define BATCH_K (RUNTIME == RUNTIME_K || (RUNTIME == RUNTIME_FORM && FORM == GEMM_TN))
/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* Sums in parts, over the batch's rows or, where the call says what a part has, over K; the results' sums over the rows.
 */
#if defined(PART_ROWS) && BATCH_M && !COLUMN_SUMS
#define PARTS_OF_K 1
#else
#define PARTS_OF_K 0
#endif
#define PARTS ((BATCH_K && COLUMN_SUMS) || PARTS_OF_K)
#define EPILOGUE_SUMS (!BATCH_K && COLUMN_SUMS)
/* x is summed over the batch's rows on the way: the gradient of the bias with that of the weight. */
#define OPERAND_SUMS (BATCH_K && SUM)

#ifndef X_STRIDE
#define X_STRIDE (X_MAJOR ? M : K)
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE (W_MAJOR ? N : K)
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

/* ---- arguments ---- */

#if BIAS
#define ARGUMENT_BIAS , INPUT(bias)
#define BEGIN_BIAS BEGIN(bias)
#else
#define ARGUMENT_BIAS
#define BEGIN_BIAS
#endif
#if RESIDUAL
#define ARGUMENT_RESIDUAL , INPUT(residual)
#define BEGIN_RESIDUAL BEGIN(residual)
#else
#define ARGUMENT_RESIDUAL
#define BEGIN_RESIDUAL
#endif
#if NORM || NORM_Y
#define ARGUMENT_NORM , INPUT(gamma), INPUT(beta)
#define BEGIN_NORM                                                                                                     \
    BEGIN(gamma);                                                                                                      \
    BEGIN(beta)
#elif MOMENTS == MOMENTS_READ
#define ARGUMENT_NORM , INPUT(gamma), INPUT_OF(float, moments)
#define BEGIN_NORM                                                                                                     \
    BEGIN(gamma);                                                                                                      \
    BEGIN_OF(float, moments)
#elif MOMENTS == MOMENTS_WRITTEN
#define ARGUMENT_NORM , OUTPUT_OF(float, moments)
#define BEGIN_NORM BEGIN_OUTPUT_OF(float, moments)
#else
#define ARGUMENT_NORM
#define BEGIN_NORM
#endif
#define READS_SAVED (DERIVATIVE || DELTA)
#if READS_SAVED
#define ARGUMENT_SAVED , INPUT(saved)
#define BEGIN_SAVED BEGIN(saved)
#else
#define ARGUMENT_SAVED
#define BEGIN_SAVED
#endif
#if ROTARY
#define ARGUMENT_ROTARY , INPUT_OF(uint, positions), INPUT_OF(float, position)
#define BEGIN_ROTARY                                                                                                   \
    BEGIN_OF(uint, positions);                                                                                         \
    BEGIN_OF(float, position)
#else
#define ARGUMENT_ROTARY
#define BEGIN_ROTARY
#endif
#if DELTA
#define ARGUMENT_DELTA , OUTPUT_OF(float, delta)
#define BEGIN_DELTA BEGIN_OUTPUT_OF(float, delta)
#else
#define ARGUMENT_DELTA
#define BEGIN_DELTA
#endif
#if COLUMN_SUMS || PARTS_OF_K
#define ARGUMENT_PARTIALS , OUTPUT_OF(float, partials)
#define BEGIN_PARTIALS BEGIN_OUTPUT_OF(float, partials)
#else
#define ARGUMENT_PARTIALS
#define BEGIN_PARTIALS
#endif
/* Whoever adds the parts has the result. */
#if PARTS && !defined(ADDS_PARTS)
#define ARGUMENT_Y
#define BEGIN_Y
#else
#define ARGUMENT_Y , OUTPUT(y)
#define BEGIN_Y BEGIN_OUTPUT(y)
#endif
/* Of sums over the batch's rows x's; with NORM what the layernorm of x gives; else what goes into the activation. */
#if SUM
#define ARGUMENT_BEFORE , OUTPUT(before)
#define BEGIN_BEFORE BEGIN_OUTPUT(before)
#else
#define ARGUMENT_BEFORE
#define BEGIN_BEFORE
#endif
/* Where operands are loaded by the copy engine: the program's tensor maps, and the number of the first of this call's. */
#ifdef TENSOR_MAPS
#define ARGUMENT_MAPS , __global const uchar *restrict maps, const uint map_at
#else
#define ARGUMENT_MAPS
#endif
/* Where the kernel itself adds sums in parts: the program's counters, and the number of the first of this call's. */
#if PARTS && defined(ADDS_PARTS)
#define ARGUMENT_COUNTERS , __global uint *restrict counters, const uint counter_at
#else
#define ARGUMENT_COUNTERS
#endif
#if DROPOUT
#define ARGUMENT_SITE , const uint site
#else
#define ARGUMENT_SITE
#endif

/* Of w: with SCALES elements of 8 bits, and rows' scales so many floats after its beginning. */
#if SCALES
typedef char weight;
#define BEGIN_SCALES __global const float *scales = (__global const float *)w + SCALES
#else
typedef storage weight;
#define BEGIN_SCALES
#endif

#define PRODUCT_ARGUMENTS                                                                                              \
    BATCH_ARGUMENT, INPUT(x),                                                                                          \
        INPUT_OF(weight, w) ARGUMENT_BIAS ARGUMENT_RESIDUAL ARGUMENT_NORM ARGUMENT_SAVED ARGUMENT_ROTARY ARGUMENT_DELTA           \
            ARGUMENT_PARTIALS ARGUMENT_Y ARGUMENT_BEFORE ARGUMENT_MAPS ARGUMENT_COUNTERS ARGUMENT_SITE

#define BEGIN_PRODUCT                                                                                                  \
    BEGIN_OF(uint, batch);                                                                                             \
    BEGIN(x);                                                                                                          \
    BEGIN_OF(weight, w);                                                                                               \
    BEGIN_SCALES;                                                                                                      \
    BEGIN_BIAS;                                                                                                        \
    BEGIN_RESIDUAL;                                                                                                    \
    BEGIN_NORM;                                                                                                        \
    BEGIN_SAVED;                                                                                                       \
    BEGIN_ROTARY;                                                                                                      \
    BEGIN_DELTA;                                                                                                       \
    BEGIN_PARTIALS;                                                                                                    \
    BEGIN_Y;                                                                                                           \
    BEGIN_BEFORE
