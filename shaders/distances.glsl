/* A bias of scores by the distance of key and query: the head's row of it in shared memory. Included after `batch`,
 * HEADS and SCALE. Twin of cl/distances.h. */
layout(constant_id = CONST_RELATIVE) const uint RELATIVE = 0;

INPUT_OF(SLOT_RELATIVE, storage, relative);

/* From the key that is RELATIVE before its query to the one that is as many after it; what is farther is as these. */
const uint DISTANCES = 2 * RELATIVE + 1;
const int FARTHEST = int(RELATIVE);

uint distance_at(const int offset) { return uint(clamp(offset, -FARTHEST, FARTHEST) + FARTHEST); }

/* The table's element for keys `offset` tokens after the query. */
float table_bias(const uint head, const uint at)
{
    return LOAD(relative, batch[batch[HEADER_AT_BUCKETS] + at] * HEADS + head);
}

#ifdef BIASES
shared float biases[DISTANCES];

/* All of a head, times a factor; to be used after a barrier. */
void load_biases(const uint head, const float factor)
{
    for (uint i = local_number(); i < DISTANCES; i += LOCAL_SIZE) biases[i] = table_bias(head, i) * factor;
}

float bias_of(const int offset) { return biases[distance_at(offset)]; }

/* Four, each `step` after the one before. */
vec4 bias_quad(const int offset, const int step)
{
    return vec4(bias_of(offset), bias_of(offset + step), bias_of(offset + 2 * step), bias_of(offset + 3 * step));
}
#endif
