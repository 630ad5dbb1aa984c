/* A bias of scores by the distance of key and query, and its gradient, in double. */
#include "graph/distances.h"

#include <math.h>
#include <string.h>

#include "graph/references.h"

bool distances_check(uint32_t buckets, uint32_t distance, struct error *e)
{
    if (!buckets && !distance) return true;
    if (buckets < 4 || buckets % 4)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a bias by distance of %u rows: they must be a multiple of 4, half of them for either side",
                    buckets);
    if (distance > buckets / 4 && distance <= DISTANCE_MOST) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "a bias by distance whose %u rows end at distance %u; it must be from %u to %d", buckets, distance,
                buckets / 4 + 1, DISTANCE_MOST);
}

/* In float, in this order: so is the rule computed that models were trained with. */
uint32_t distance_bucket(uint32_t buckets, uint32_t distance, int32_t offset)
{
    uint32_t half = buckets / 2, exact = half / 2, side = offset > 0 ? half : 0,
             apart = offset < 0 ? (uint32_t)-offset : (uint32_t)offset;
    if (apart < exact) return side + apart;
    float steps = logf((float)apart / (float)exact) / (float)log((double)distance / exact) * (float)(half - exact);
    uint32_t row = exact + (uint32_t)steps;
    return side + (row < half ? row : half - 1);
}

/* ---- what is computed ---- */

static double *value(const struct graph *g, struct values *v, int tensor) { return v->of[tensor_owner(g, tensor)]; }

/* Keys that far and farther from the query, on either side, are one. */
static int64_t clamp(int64_t offset, int64_t most) { return offset < -most ? -most : offset > most ? most : offset; }

/* y = x + the table's row / scale, which the softmax multiplies all with. */
REFERENCE(reference_scores_bias)
{
    (void)e;
    const double *x = value(g, v, o->in[0]), *table = value(g, v, o->in[1]);
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    int64_t heads = g->dims.of['h'];
    for (uint32_t s = 0; s < b->sequences; s++)
        for (int64_t h = 0, length = b->offsets[s + 1] - b->offsets[s]; h < heads; h++)
            for (int64_t j = 0; j < length; j++)
                for (int64_t k = 0; k < length; k++) {
                    int64_t row = distance_bucket(g->dims.of['d'], g->relative_distance,
                                                  (int32_t)clamp(k - j, g->relative_distance));
                    *y++ = *x++ + table[row * heads + h] / scale;
                }
    return true;
}

/* Of a sequence [distance][head], from the one farthest before the query to the one farthest after it. */
REFERENCE(reference_distance_sums)
{
    (void)e;
    const double *d = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    int64_t heads = g->dims.of['h'];
    memset(y, 0, (size_t)tensor_elements(g, b, o->out[0]) * sizeof *y);
    for (uint32_t s = 0; s < b->sequences; s++) {
        int64_t length = b->offsets[s + 1] - b->offsets[s], far = g->relative_distance;
        if (far > length - 1) far = length - 1;
        double *own = y + 2 * (size_t)b->offsets[s] * (size_t)heads;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t j = 0; j < length; j++)
                for (int64_t k = 0; k < length; k++) own[(clamp(k - j, far) + far) * heads + h] += *d++;
    }
    return true;
}

/* The table's gradient: what the layers after gave, and this one's sums. */
REFERENCE(reference_distance_dw)
{
    (void)e;
    const double *sums = value(g, v, o->in[0]), *before = o->in[1] >= 0 ? value(g, v, o->in[1]) : NULL;
    double *y = value(g, v, o->out[0]), scale = o->attribute;
    int64_t heads = g->dims.of['h'];
    size_t n = (size_t)tensor_elements(g, b, o->out[0]);
    for (size_t i = 0; i < n; i++) y[i] = before ? before[i] : 0;
    for (uint32_t s = 0; s < b->sequences; s++) {
        int64_t length = b->offsets[s + 1] - b->offsets[s], far = g->relative_distance;
        if (far > length - 1) far = length - 1;
        const double *own = sums + 2 * (size_t)b->offsets[s] * (size_t)heads;
        for (int64_t offset = -far; offset <= far; offset++) {
            int64_t row = distance_bucket(g->dims.of['d'], g->relative_distance, (int32_t)offset);
            for (int64_t h = 0; h < heads; h++) y[row * heads + h] += own[(offset + far) * heads + h] / scale;
        }
    }
    return true;
}
