/* The constants that kernels of losses need. */
#include <string.h>

#include "graph/group.h"
#include "graph/kind_constants.h"
#include "interface/interface.h"

/* Elements of a row: its last letter's; candidates are rows, too, though not the batch's. */
static uint32_t width_of(const struct graph *g, int tensor)
{
    const char *dims = g->tensors[tensor].dims;
    return g->dims.of[(unsigned char)dims[strlen(dims) - 1]];
}

static void set_take(const struct graph *g, const struct op *o, struct call *call, uint32_t form)
{
    const char *dims = g->tensors[o->out[0]].dims;
    call_set(call, CONST_FORM, form);
    call_set(call, CONST_N, width_of(g, o->out[0]));
    call_set(call, CONST_X_STRIDE, width_of(g, o->in[0]));
    call_set(call, CONST_ROWS, strchr(dims, 'j') ? HEADER_TOKENS : HEADER_SEQUENCES);
    call_set(call, CONST_POSITION, o->column);
    call_set(call, CONST_SETS, o->columns);
    if (!strchr(dims, 'b')) call_set(call, CONST_M, g->dims.of[(unsigned char)dims[0]]);
}

CONSTANTS(constants_take)
{
    (void)group;
    set_take(g, o, call, OF_FORWARD);
}

CONSTANTS(constants_take_dx)
{
    (void)group;
    set_take(g, o, call, OF_BACKWARD);
    if (o->in[1] >= 0) call_set(call, CONST_RESIDUAL, 1);
}

static void set_pairs(const struct graph *g, const struct op *o, struct call *call, uint32_t form, int rows)
{
    call_set(call, CONST_FORM, form);
    call_set(call, CONST_N, width_of(g, rows));
    call_set(call, CONST_ROWS, form == OF_FORWARD ? HEADER_SEQUENCES : HEADER_TOKENS);
    call_set(call, CONST_SETS, o->columns);
}

CONSTANTS(constants_pairs)
{
    (void)group;
    set_pairs(g, o, call, OF_FORWARD, o->in[0]);
}

CONSTANTS(constants_pairs_dx)
{
    (void)group;
    set_pairs(g, o, call, OF_BACKWARD, o->in[1]);
}

static void set_loss(const struct graph *g, const struct op *o, struct call *call, uint32_t form, int x)
{
    call_set(call, CONST_FORM, form);
    call_set(call, CONST_N, tensor_row_length(g, x));
    call_set(call, CONST_ROWS, HEADER_SEQUENCES);
    call_set_float(call, CONST_SCALE, o->attribute);
    if (!o->columns) return;
    call_set(call, CONST_RUNTIME, RUNTIME_N);
    call_set(call, CONST_SETS, o->columns);
}

#define LOSS_CONSTANTS(name, form)                                                                                     \
    CONSTANTS(constants_##name)                                                                                        \
    {                                                                                                                  \
        set_loss(g, o, call, form, o->in[0]);                                                                          \
        if (o->out[1] >= 0 && group_writes(group, o->out[1])) call_set(call, CONST_LSE, LSE_WRITE);                    \
    }                                                                                                                  \
    CONSTANTS(constants_##name##_dx)                                                                                   \
    {                                                                                                                  \
        (void)group;                                                                                                   \
        set_loss(g, o, call, form, o->in[1]);                                                                          \
    }
LOSS_CONSTANTS(cross_entropy, FORM_CROSS_ENTROPY)
LOSS_CONSTANTS(squared, FORM_SQUARED)
LOSS_CONSTANTS(binary, FORM_BINARY)
LOSS_CONSTANTS(cosent, FORM_COSENT)

/* One work-group adds all rows. */
static void set_sum(const struct group *group, const struct op *o, struct call *call, uint32_t form)
{
    call_set(call, CONST_FORM, form);
    call_set(call, CONST_M, 1);
    call_set(call, CONST_ROWS, HEADER_SEQUENCES);
    if (o->in[1] >= 0) call_set(call, CONST_RESIDUAL, 1);
    if (o->out[1] >= 0 && group_writes(group, o->out[1])) call_set(call, CONST_LSE, LSE_WRITE);
}

CONSTANTS(constants_loss_sum)
{
    (void)g;
    set_sum(group, o, call, FORM_SQUARED);
}

CONSTANTS(constants_cosent_sum)
{
    (void)g;
    set_sum(group, o, call, FORM_COSENT);
}
