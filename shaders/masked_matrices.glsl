/* Which keys queries see, and scores' bias by distance, for matrices of scores. Included after `batch`, HEADS, SCALE and
 * MATRIX_*. */
#define BIASES
#include "distances.glsl"
#include "masked.glsl"

#define BIASED (RELATIVE > 0 || ALIBI != 0)

/* Of the head, times the same factor as its biases from a table. */
float slope;

void load_bias(const uint head, const float factor)
{
    if (RELATIVE > 0) load_biases(head, factor);
    if (ALIBI != 0) slope = alibi_slope(HEADS, head) * factor;
}

/* Of a key `offset` tokens after its query. */
float bias_at(const int offset) { return ALIBI != 0 ? -slope * float(abs(offset)) : bias_of(offset); }

/* Whether something of a matrix is hidden, whose first query and first key these are; a matrix that is all seen takes no
 * comparisons. */
#define HIDES(query, queries, key, keys)                                                                               \
    (MASKED ? !mask_sees_all(int(query), int(query) + int(queries) - 1, int(key), int(key) + int(keys) - 1, BEFORE,    \
                             AFTER)                                                                                    \
            : false)

/* Steps of `step` keys that the queries from `query` to `last` see, and of queries that see the keys from `key` to
 * `last`: the first one, and where they end. */
#define FIRST_KEY(query, step) (uint(mask_first_key(int(query), BEFORE)) / (step) * (step))
#define END_KEY(last, count) uint(mask_end_key(int(last), AFTER, int(count)))
#define FIRST_QUERY(key, step) (uint(mask_first_query(int(key), AFTER)) / (step) * (step))
#define END_QUERY(last, count) uint(mask_end_query(int(last), BEFORE, int(count)))
