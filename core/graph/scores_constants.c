/* The constants that a kernel needs for rows of scores: softmax, its gradient, biases and masks by place. */
#include "graph/group.h"
#include "graph/kind_constants.h"
#include "graph/mask.h"
#include "interface/interface.h"

static void set_scores(const struct graph *g, const struct op *o, struct call *call)
{
    call_set(call, CONST_HEADS, g->dims.of['h']);
    call_set_float(call, CONST_SCALE, o->attribute);
}

/* Also of what it stands with in a group, which then passes over what is not seen. */
static void set_mask(const struct graph *g, const struct op *o, struct call *call)
{
    struct mask mask = graph_mask(g, o->layer);
    if (mask.before) call_set(call, CONST_BEFORE, mask.before);
    if (mask.after) call_set(call, CONST_AFTER, mask.after);
    if (mask.alibi) call_set(call, CONST_ALIBI, 1);
}

CONSTANTS(constants_softmax)
{
    set_scores(g, o, call);
    set_mask(g, o, call);
    if (o->out[1] >= 0 && group_writes(group, o->out[1])) call_set(call, CONST_LSE, LSE_WRITE);
}

CONSTANTS(constants_softmax_recompute)
{
    (void)group;
    set_scores(g, o, call);
    set_mask(g, o, call);
    call_set(call, CONST_LSE, LSE_READ);
}

CONSTANTS(constants_softmax_dx)
{
    (void)group;
    set_scores(g, o, call);
    if (o->in[2] >= 0) call_set(call, CONST_DELTA, 1);
}

/* Alone it is a softmax that softens nothing. */
CONSTANTS(constants_scores_bias)
{
    bool alone = true;
    for (int i = 0; i < group->count; i++) alone &= g->ops[group->ops[i]].kind->class_ != WHERRY_CLASS_NORMALIZATION;
    set_scores(g, o, call);
    call_set(call, CONST_RELATIVE, g->relative_distance);
    if (alone) call_set(call, CONST_SOFTMAX, 0);
}

CONSTANTS(constants_distance_sums)
{
    (void)group;
    (void)o;
    call_set(call, CONST_HEADS, g->dims.of['h']);
    call_set(call, CONST_RELATIVE, g->relative_distance);
}

/* A work-group for each element of the table. */
CONSTANTS(constants_distance_dw)
{
    (void)group;
    set_scores(g, o, call);
    call_set(call, CONST_RELATIVE, g->relative_distance);
    call_set(call, CONST_M, tensor_row_length(g, o->out[0]));
    if (o->in[1] >= 0) call_set(call, CONST_RESIDUAL, 1);
}
