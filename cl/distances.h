/* A bias of scores by the distance of key and query: the head's row of it in shared memory. Twin of
 * shaders/distances.glsl. */
#ifndef RELATIVE
#define RELATIVE 0
#endif

/* From the key that is RELATIVE before its query to the one that is as many after it; what is farther is as these. */
#define DISTANCES (2 * RELATIVE + 1)
#define FARTHEST ((int)(RELATIVE))

#if RELATIVE > 0
INLINE uint distance_at(const int offset) { return (uint)(max(min(offset, FARTHEST), -FARTHEST) + FARTHEST); }

/* The table's element for keys `offset` tokens after the query. */
INLINE float table_bias(__global const storage *relative, __global const uint *batch, const uint head, const uint at)
{
    return LOAD(relative, batch[batch[HEADER_AT_BUCKETS] + at] * HEADS + head);
}

/* All of a head, times a factor; to be used after a barrier. */
INLINE void load_biases(__local float *biases, __global const storage *relative, __global const uint *batch,
                        const uint head, const float factor)
{
    for (uint i = local_number(); i < DISTANCES; i += LOCAL_SIZE)
        biases[i] = table_bias(relative, batch, head, i) * factor;
}

INLINE float bias_of(const __local float *biases, const int offset) { return biases[distance_at(offset)]; }

/* Four, each `step` after the one before. */
INLINE float4 bias_quad(const __local float *biases, const int offset, const int step)
{
    return (float4)(bias_of(biases, offset), bias_of(biases, offset + step), bias_of(biases, offset + 2 * step),
                    bias_of(biases, offset + 3 * step));
}
#endif
