/* What the kernels of buckets share: where elements lie, and powers of two. Included after common.glsl, by kernels that
 * have `batch` and `rows`. Twin of cl/bucket.h. */
#include "wire.glsl"

/* Where float number `i` of a bucket lies in the slab. */
uint element_at(const uint i)
{
    const uint row = batch[WIRE_ROW];
    if (row == 0) return batch[WIRE_AT] + i;
    return batch[WIRE_AT] + (rows[batch[WIRE_LIST] + i / row] - batch[WIRE_FIRST_ROW]) * row + i % row;
}

float power_of_two(const int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

/* Times 2^exponent: twice, where one factor is out of a float's range. */
float scaled(const float x, const int exponent)
{
    return x * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
}

/* Float number `i` of the message that begins with word `at` of x: rounded as bucket_add's, and not made one with the
 * addition behind it. */
#define MESSAGE_FLOAT(at, i)                                                                                           \
    (FORM != WIRE_FORM_F32 ? fma(scaled(wire_floats(x[(at) + WIRE_ROUND + (i) / 2])[(i) % 2], int(x[at])),             \
                                 uintBitsToFloat(x[(at) + WIRE_HEAD_FACTOR]), 0.0)                                     \
                           : uintBitsToFloat(x[(at) + (i)]))
