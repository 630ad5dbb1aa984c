/* The calls of a group's kernels, from its operators. */
#include <string.h>

#include "graph/group.h"
#include "graph/kinds.h"
#include "interface/interface.h"

static bool call_add(struct call *call, uint8_t slot, bool written, int tensor)
{
    int at = 0;
    while (at < call->n_arguments && call->arguments[at].slot < slot) at++;
    if (at < call->n_arguments && call->arguments[at].slot == slot) return call->arguments[at].tensor == tensor;
    memmove(&call->arguments[at + 1], &call->arguments[at], (size_t)(call->n_arguments - at) * sizeof *call->arguments);
    call->arguments[at] = (struct call_argument){slot, written, tensor};
    call->n_arguments++;
    return true;
}

static bool call_has_tensor(const struct call *call, int tensor)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].tensor == tensor) return true;
    return false;
}

static bool group_reads_tensor(const struct group *group, int tensor)
{
    for (int r = 0; r < group->n_reads; r++)
        if (group->reads[r] == tensor) return true;
    return false;
}

/* The slot of input n of an operator from outside the group. Several products in one kernel (attention) share operands
 * and put what collides into slots of its own. A bias gradient that comes with a layernorm's is summed from a tensor of
 * its own (the paper's EBSB). */
static bool add_input(const struct graph *g, const struct group *group, const struct op *op, int n, struct call *call,
                      struct error *e)
{
    uint8_t slot = op->kind->in_slot[op_exchanged(g, op) ? 1 - n : n];
    int tensor = op->in[n];
    if (op->kind == &kind_column_sum && !strcmp(call->kernel, "layernorm_backward")) slot = SLOT_EXTRA;
    if (op->kind == &kind_contract && group->count > 1 && call_has_tensor(call, tensor)) return true;
    if (call_add(call, slot, false, tensor)) return true;
    if (op->kind == &kind_contract && slot == SLOT_W && call_add(call, SLOT_V, false, tensor)) return true;
    if (op->kind == &kind_contract && slot == SLOT_W && call_add(call, SLOT_EXTRA, false, tensor)) return true;
    if (op->kind == &kind_contract && slot == SLOT_X && call_add(call, SLOT_GRADIENT, false, tensor)) return true;
    if (slot == SLOT_POSITIONS && call_add(call, SLOT_TURN_POSITIONS, false, tensor)) return true;
    if (slot == SLOT_POSITION && call_add(call, SLOT_TURN, false, tensor)) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: two inputs of %s want the same argument slot %d", group->name,
                op->name, slot);
}

/* Whether a product sums the columns of its operand on the way, the gradient of a bias with that of the weight. */
static bool sums_operand(const struct group *group, const struct op *op, const struct call *call)
{
    return op->kind == &kind_column_sum && !strcmp(call->kernel, "gemm") && group_reads_tensor(group, op->in[0]);
}

/* Those are the columns of the first operand. A transposed weight's gradient has it as its second. */
static bool sums_first_operand(const struct graph *g, const struct group *group, const struct call *call,
                               struct error *e)
{
    bool exchanged = false, sums = false;
    for (int i = 0; i < group->count; i++) {
        exchanged |= op_exchanged(g, &g->ops[group->ops[i]]);
        sums |= sums_operand(group, &g->ops[group->ops[i]], call);
    }
    if (!exchanged || !sums) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: no product sums the columns of its second operand", group->name);
}

/* In channel-major order, tensors are walked by products and element by element. */
static bool channels_run(const struct graph *g, const struct group *group, struct error *e)
{
    bool outside = false;
    for (int i = 0; i < group->n_reads; i++) outside |= dims_channel_major(g->tensors[group->reads[i]].dims);
    for (int i = 0; i < group->n_writes; i++) outside |= dims_channel_major(g->tensors[group->writes[i]].dims);
    if (!outside || !strcmp(group->kernel, "gemm") || !strcmp(group->kernel, "map")) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the kernel %s takes no tensors in channel-major order", group->name,
                group->kernel);
}

/* Rows with a pitch are read and written by products and by what goes from row to row. */
static bool pitches_run(const struct graph *g, const struct group *group, struct error *e)
{
    static const char *const kernels[] = {"gemm", "entropy", "entropy_backward", "columns"};
    bool outside = false;
    for (int i = 0; i < group->n_reads; i++) outside |= g->tensors[group->reads[i]].pitch > 0;
    for (int i = 0; i < group->n_writes; i++) outside |= g->tensors[group->writes[i]].pitch > 0;
    for (size_t i = 0; outside && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(group->kernel, kernels[i])) return true;
    return !outside || fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the kernel %s takes no rows with a pitch", group->name,
                            group->kernel);
}

/* Outputs that leave the group: those with a slot of their own, sums over rows (for the second kernel), then Y for the
 * last and SUM for the first of the others. Slices of one tensor are one argument. */
static bool add_outputs(const struct graph *g, const struct group *group, struct call *call, int sums[3], int *n_sums,
                        struct error *e)
{
    int others[GROUP_MAX_TENSORS], n = 0;
    for (int at = 0; at < 2 * group->count; at++) { /* biases' sums after a layernorm's */
        const struct op *op = &g->ops[group->ops[at % group->count]];
        if ((op->kind == &kind_column_sum) != (at >= group->count)) continue;
        for (int k = 0; k < OP_MAX_OUT; k++) {
            if (op->out[k] < 0 || !group_writes(group, op->out[k])) continue;
            int owner = tensor_owner(g, op->out[k]);
            if (sums_operand(group, op, call)) {
                call_add(call, SLOT_SUM, true, op->out[k]);
            } else if (op->kind->sums_columns) {
                if (*n_sums == 3)
                    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: a kernel sums at most three sets of columns",
                                group->name);
                sums[(*n_sums)++] = op->out[k];
            } else if (op->kind->out_slot[k]) {
                call_add(call, op->kind->out_slot[k], true, op->out[k]);
            } else if (n && tensor_owner(g, others[n - 1]) == owner) {
                others[n - 1] = owner;
            } else {
                others[n++] = op->out[k];
            }
        }
    }
    if (n > 2)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: a kernel writes at most two tensors of rows", group->name);
    if (n) call_add(call, SLOT_Y, true, others[n - 1]);
    if (n == 2) call_add(call, SLOT_SUM, true, others[0]);
    return true;
}

/* The kernel that adds the parts. */
static void call_reduce(const struct graph *g, const struct call *first, const int sums[3], int n_sums,
                        struct call *out)
{
    static const uint8_t slots[3] = {SLOT_Y, SLOT_SUM, SLOT_EXTRA};
    memset(out, 0, sizeof *out);
    out->kernel = "reduce";
    out->launch = LAUNCH_COLUMNS;
    call_add(out, SLOT_PARTIALS, false, TENSOR_SCRATCH);
    for (int i = 0; i < n_sums; i++) call_add(out, slots[i], true, sums[i]);
    call_set(out, CONST_N, tensor_row_length(g, sums[0]));
    call_set(out, CONST_ROWS, call_get(first, CONST_ROWS, HEADER_TOKENS));
    call_set(out, CONST_SETS, (uint32_t)n_sums);
}

/* Whether an activation's slope comes with its result. */
static bool makes_slope(const struct graph *g, const struct group *group)
{
    for (int i = 0; group->count > 1 && i < group->count; i++)
        if (g->ops[group->ops[i]].role == ACTIVATION_SLOPE) return true;
    return false;
}

/* What a kernel must know about operators that others come before. */
static void set_order(const struct graph *g, const struct group *group, struct call *call, int n_sums)
{
    bool rows = call_has_slot(call, SLOT_Y), norm = !strcmp(call->kernel, "layernorm_backward"),
         heads = !strcmp(call->kernel, "heads_norm_backward");
    if (call_has_slot(call, SLOT_SUM)) call_set(call, CONST_SUM, makes_slope(g, group) ? SUM_SLOPE : 1);
    if (n_sums && !norm && !heads) call_set(call, CONST_COLUMN_SUMS, rows ? 1 : 2);
    if (!norm) return;
    for (int i = 0; i < group->count; i++) {
        const struct op *op = &g->ops[group->ops[i]];
        if (op->kind == &kind_column_sum)
            call_set(call, CONST_BIAS_SUM, call_has_slot(call, SLOT_EXTRA) ? BIAS_SUM_OPERAND : BIAS_SUM_RESULT);
        if (op->kind == &kind_add && !group_reads_tensor(group, op->in[0])) call_set(call, CONST_ADDEND, 1);
    }
}

/* Attention's backward pass leaves the queries' gradient in parts, which a second kernel adds. */
static void split_attention(struct call calls[GROUP_MAX_CALLS], int *count)
{
    static const uint8_t shared[] = {CONST_HEADS, CONST_HEAD_DIM, CONST_SCALE, CONST_X_STRIDE, CONST_X_OFFSET};
    static const uint8_t others[] = {CONST_QKV_INTERLEAVED, CONST_BEFORE, CONST_AFTER, CONST_ROTARY};
    struct call *first = &calls[0], *second = &calls[1];
    if (strcmp(first->kernel, "attention_backward")) return;
    memset(second, 0, sizeof *second);
    second->kernel = "attention_dq";
    second->launch = LAUNCH_ELEMENTS;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        call_set(second, shared[i], call_get(first, shared[i], 0));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (call_get(first, others[i], 0)) call_set(second, others[i], call_get(first, others[i], 0));
    call_set(second, CONST_N, call_get(first, CONST_HEADS, 1) * call_get(first, CONST_HEAD_DIM, 1));
    for (int i = 0; i < first->n_arguments; i++) {
        const struct call_argument *a = &first->arguments[i];
        if (a->slot == SLOT_Y || a->slot == SLOT_TURN_POSITIONS || a->slot == SLOT_TURN)
            call_add(second, a->slot, a->written, a->tensor);
    }
    call_add(first, SLOT_PARTIALS, true, TENSOR_SCRATCH);
    call_add(second, SLOT_PARTIALS, false, TENSOR_SCRATCH);
    *count = 2;
}

bool group_calls(const struct graph *g, const struct group *group, struct call out[GROUP_MAX_CALLS], int *count,
                 struct error *e)
{
    int sums[3], n_sums = 0;
    struct call *first = &out[0];
    memset(first, 0, sizeof *first);
    *count = 1;
    first->kernel = group->kernel;
    first->launch = group->launch;
    TRY(channels_run(g, group, e) && pitches_run(g, group, e) && sums_first_operand(g, group, first, e));
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_IN; k++)
            if (group_reads_tensor(group, g->ops[group->ops[i]].in[k]))
                TRY(add_input(g, group, &g->ops[group->ops[i]], k, first, e));
    TRY(add_outputs(g, group, first, sums, &n_sums, e));
    for (int i = 0; i < group->count; i++)
        g->ops[group->ops[i]].kind->constants(g, group, &g->ops[group->ops[i]], first);
    set_order(g, group, first, n_sums);
    if (n_sums) {
        /* The type table's list is in the partial sums' slot. */
        call_add(first, call_has_slot(first, SLOT_PARTIALS) ? SLOT_SUM : SLOT_PARTIALS, true, TENSOR_SCRATCH);
        call_reduce(g, first, sums, n_sums, &out[(*count)++]);
    }
    split_attention(out, count);
    return true;
}
