/* What the operators of a masked language model's loss mean, in double, and the constants of their kernels. */
#include <math.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kind_constants.h"
#include "graph/references.h"
#include "interface/interface.h"

static double *value(const struct graph *g, struct values *v, int tensor)
{
    return tensor < 0 ? NULL : v->of[tensor_owner(g, tensor)];
}

enum { STATE_PEAK, STATE_SUM, STATE_RIGHT, STATE_WORDS = ENTROPY_STATE };
enum { TOTAL_LOSS, TOTAL_RIGHT };

REFERENCE(reference_pick)
{
    size_t n = tensor_row_length(g, o->out[0]), rows = (size_t)tensor_elements(g, b, o->out[0]) / n;
    size_t limit = (size_t)tensor_elements(g, b, o->in[0]) / n;
    const uint32_t *ids = v->ids[o->in[1]];
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, y += n) {
        if (ids[r] >= limit && ids[r] != NO_ROW)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: row %u of %zu", o->name, ids[r], limit);
        if (ids[r] == NO_ROW)
            memset(y, 0, n * sizeof *y);
        else
            memcpy(y, x + ids[r] * n, n * sizeof *y);
    }
    return true;
}

/* The largest score, the sum of the exponentials by that, and the score of the label, with the strips before. */
REFERENCE(reference_entropy)
{
    (void)e;
    size_t n = tensor_row_length(g, o->in[0]), rows = (size_t)tensor_elements(g, b, o->in[0]) / n;
    const uint32_t *labels = v->ids[o->in[1]];
    const double *x = value(g, v, o->in[0]), *before = value(g, v, o->in[2]);
    double *state = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, x += n, state += STATE_WORDS) {
        double peak = before ? before[STATE_PEAK] : x[0], sum = 0, right = before ? before[STATE_RIGHT] : 0;
        for (size_t c = 0; c < n; c++) peak = x[c] > peak ? x[c] : peak;
        if (before) sum = before[STATE_SUM] * exp(before[STATE_PEAK] - peak);
        for (size_t c = 0; c < n; c++) sum += exp(x[c] - peak);
        if (labels[r] >= o->column && labels[r] - o->column < n) right = x[labels[r] - o->column];
        state[STATE_PEAK] = peak;
        state[STATE_SUM] = sum;
        state[STATE_RIGHT] = right;
        if (before) before += STATE_WORDS;
    }
    return true;
}

/* The sum of all rows' losses, and how many rows have no word above their label; of each row the logarithm. */
REFERENCE(reference_entropy_sum)
{
    (void)e;
    const double *state = value(g, v, o->in[0]);
    const size_t rows = (size_t)tensor_elements(g, b, o->in[0]) / STATE_WORDS;
    double *total = value(g, v, o->out[0]) + tensor_row_offset(g, o->out[0]), *lse = value(g, v, o->out[1]), loss = 0,
           right = 0;
    for (size_t r = 0; r < rows; r++, state += STATE_WORDS) {
        lse[r] = state[STATE_PEAK] + log(state[STATE_SUM]);
        loss += lse[r] - state[STATE_RIGHT];
        right += state[STATE_RIGHT] >= state[STATE_PEAK];
    }
    total[TOTAL_LOSS] = loss;
    total[TOTAL_RIGHT] = right;
    return true;
}

REFERENCE(reference_entropy_dx)
{
    (void)e;
    size_t n = tensor_row_length(g, o->in[0]), rows = (size_t)tensor_elements(g, b, o->in[0]) / n;
    const uint32_t *labels = v->ids[o->in[1]];
    const double *x = value(g, v, o->in[0]), *lse = value(g, v, o->in[3]),
                 d = value(g, v, o->in[2])[tensor_row_offset(g, o->in[2]) + TOTAL_LOSS];
    double *y = value(g, v, o->out[0]);
    for (size_t r = 0; r < rows; r++, x += n, y += n)
        for (size_t c = 0; c < n; c++) y[c] = d * (exp(x[c] - lse[r]) - (o->column + c == labels[r] ? 1 : 0));
    return true;
}

/* ---- constants ---- */

static void set_rows(const struct graph *g, int tensor, struct call *call)
{
    call_set(call, CONST_N, tensor_row_length(g, tensor));
    call_set(call, CONST_ROWS, dims_rows(g->tensors[tensor].dims));
}

CONSTANTS(constants_pick)
{
    (void)group;
    set_rows(g, o->out[0], call);
    call_set(call, CONST_K, dims_rows(g->tensors[o->in[0]].dims));
}

CONSTANTS(constants_entropy)
{
    (void)group;
    set_rows(g, o->in[0], call);
    call_set_pitches(g, call);
    call_set(call, CONST_POSITION, o->column);
    if (o->in[2] >= 0) call_set(call, CONST_RESIDUAL, 1);
}

/* One work-group adds all rows. */
CONSTANTS(constants_entropy_sum)
{
    const uint32_t offset = tensor_row_offset(g, o->out[0]);
    call_set(call, CONST_M, 1);
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->in[0]].dims));
    if (offset) call_set(call, CONST_Y_OFFSET, offset);
    if (group_writes(group, o->out[1])) call_set(call, CONST_LSE, LSE_WRITE);
}

CONSTANTS(constants_entropy_dx)
{
    const uint32_t offset = tensor_row_offset(g, o->in[2]);
    (void)group;
    if (offset) call_set(call, CONST_W_OFFSET, offset);
    set_rows(g, o->in[0], call);
    call_set_pitches(g, call);
    call_set(call, CONST_POSITION, o->column);
}
