/* Rotary positions: what they mean, in double, and the constants of their kernels. A token's position turns each pair
 * of channels of Q and K, as a point of the plane, by an angle that a table has as its cosine and sine. Pairs are
 * neighbours in memory (tensor.paired): then a work-item that has four or eight sums of a product has whole pairs, on
 * every rung. */
#include "graph/rotary.h"

#include <math.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kind_constants.h"
#include "graph/kinds.h"
#include "graph/references.h"
#include "interface/interface.h"

/* ---- angles by a text's length ---- */

struct frequency frequency_of(double radians)
{
    double units = radians / 6.283185307179586 * ANGLE_UNITS, whole = floor(units);
    return (struct frequency){(float)whole, (float)(units - whole)};
}

void rotary_rows(uint32_t trained, uint32_t sequences, const uint32_t *offsets, uint32_t *lengths, uint32_t *rows)
{
    uint32_t shared = 0, most = 0;
    for (uint32_t s = 0; s < sequences; s++) {
        uint32_t length = offsets[s + 1] - offsets[s];
        if (length > trained || length <= most) continue;
        most = length;
        shared = offsets[s];
    }
    for (uint32_t s = 0; s < sequences; s++) {
        uint32_t length = offsets[s + 1] - offsets[s], first = length > trained ? offsets[s] : shared;
        for (uint32_t t = 0; t < length; t++) {
            lengths[offsets[s] + t] = length - 1;
            rows[offsets[s] + t] = first + t;
        }
    }
}

uint64_t rotary_rows_count(uint32_t trained, uint32_t sequences, const uint32_t *offsets)
{
    uint64_t own = 0, shared = 0;
    for (uint32_t s = 0; s < sequences; s++) {
        uint32_t length = offsets[s + 1] - offsets[s];
        if (length > trained)
            own += length;
        else if (length > shared)
            shared = length;
    }
    return own + shared;
}

REFERENCE(reference_angles)
{
    const double *table = v->of[tensor_owner(g, o->in[2])];
    const uint32_t *positions = v->ids[o->in[0]], *lengths = v->ids[o->in[1]];
    double *y = v->of[tensor_owner(g, o->out[0])];
    size_t p = g->dims.of['p'];
    for (size_t t = 0; t < b->tokens; t++, y += p) {
        if (lengths[t] >= g->dims.of['m'] || positions[t] > lengths[t])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: position %u of %u, in a table of %u lengths", o->name,
                        positions[t], lengths[t] + 1, g->dims.of['m']);
        for (size_t c = 0; c < p; c += 2) {
            const double *share = table + lengths[t] * p + c;
            double turns = positions[t] * ((share[0] + share[1]) / ANGLE_UNITS),
                   angle = (turns - floor(turns)) * 6.283185307179586;
            y[c] = cos(angle);
            y[c + 1] = sin(angle);
        }
    }
    return true;
}

/* Not a token's own row of the table: that of its sequence's length. */
CONSTANTS(constants_angles)
{
    (void)group;
    call_set(call, CONST_ROTARY, ROTARY_ANGLES);
    call_set(call, CONST_N, tensor_row_length(g, o->out[0]));
    call_set(call, CONST_ROWS, HEADER_TOKENS);
}

/* ---- turning ---- */

static bool turn(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v, double sense,
                 struct error *e)
{
    const double *x = v->of[tensor_owner(g, o->in[0])], *table = v->of[tensor_owner(g, o->in[2])];
    const uint32_t *positions = v->ids[o->in[1]];
    double *y = v->of[tensor_owner(g, o->out[0])];
    size_t p = g->dims.of['p'], n = tensor_row_length(g, o->out[0]), rows = tensor_elements(g, b, o->in[2]) / p;
    bool interleaved = dims_qkv_interleaved(g->tensors[o->out[0]].dims);
    size_t first = tensor_turned(g, o->out[0]);
    for (size_t r = 0; r < b->tokens; r++, x += n, y += n) {
        if (positions[r] >= rows)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: position %u of %zu", o->name, positions[r], rows);
        for (size_t c = 0; c < n; c += 2) {
            const double *angle = table + positions[r] * p + c % p;
            bool turned = interleaved ? c / p % 3 < 2 : c < first;
            double cosine = turned ? angle[0] : 1, sine = turned ? sense * angle[1] : 0;
            y[c] = x[c] * cosine - x[c + 1] * sine;
            y[c + 1] = x[c + 1] * cosine + x[c] * sine;
        }
    }
    return true;
}

REFERENCE(reference_rotary) { return turn(g, o, b, v, 1, e); }

REFERENCE(reference_rotary_dx) { return turn(g, o, b, v, -1, e); }

/* In a group with norms of heads a row of the kernel is a head; one with attention knows the heads by itself. */
static void set_rotary(const struct graph *g, const struct group *group, const struct op *o, struct call *call,
                       uint32_t sense)
{
    call_set(call, CONST_ROTARY, sense);
    for (int i = 0; i < group->count; i++)
        if (g->ops[group->ops[i]].role == HEADS_NORM || !strcmp(group->kernel, "attention_backward")) return;
    call_set(call, CONST_N, tensor_row_length(g, o->out[0]));
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->out[0]].dims));
    call_set(call, CONST_HEAD_DIM, g->dims.of['p']);
    if (graph_key_heads(g)) call_set(call, CONST_KEY_HEADS, graph_key_heads(g));
    if (dims_qkv_interleaved(g->tensors[o->out[0]].dims)) call_set(call, CONST_QKV_INTERLEAVED, 1);
}

CONSTANTS(constants_rotary) { set_rotary(g, group, o, call, ROTARY_FORWARD); }

CONSTANTS(constants_rotary_dx) { set_rotary(g, group, o, call, ROTARY_BACKWARD); }
