/* What follows from the tables: sizes, flop, bytes, and the call of a group's kernel. */
#include <string.h>

#include "graph/kinds.h"
#include "interface/interface.h"

/* ---- sizes ---- */

uint64_t dims_volume(const struct dims *d, const struct batch_shape *b, const char *letters)
{
    bool j = strchr(letters, 'j') != NULL, k = strchr(letters, 'k') != NULL, sequence = strchr(letters, 'b') != NULL;
    uint64_t n = j && k ? b->pairs : j || k ? b->tokens : sequence ? b->sequences : 1;
    for (const char *c = letters; *c; c++)
        if (!strchr("bjk", *c)) n *= d->of[(unsigned char)*c];
    return n;
}

uint64_t tensor_elements(const struct graph *g, const struct batch_shape *b, int tensor)
{
    return dims_volume(&g->dims, b, g->tensors[tensor].dims);
}

bool dims_channel_major(const char *dims) { return strchr(dims, 'j') && *dims != 'b'; }

uint64_t tensor_extent(const struct graph *g, const struct batch_shape *b, int tensor)
{
    if (!dims_channel_major(g->tensors[tensor].dims)) return tensor_elements(g, b, tensor);
    return (uint64_t)tensor_row_length(g, tensor) * g->channel_stride;
}

int tensor_owner(const struct graph *g, int tensor)
{
    return g->tensors[tensor].parent >= 0 ? g->tensors[tensor].parent : tensor;
}

uint32_t tensor_row_length(const struct graph *g, int tensor)
{
    uint32_t n = 1;
    for (const char *c = g->tensors[tensor].dims; *c; c++)
        if (!strchr("bjk", *c)) n *= g->dims.of[(unsigned char)*c];
    return n;
}

static uint32_t letters_volume(const struct graph *g, const char *letters)
{
    uint32_t n = 1;
    for (const char *c = letters; *c; c++) n *= g->dims.of[(unsigned char)*c];
    return n;
}

/* The owner's letters from q on. A slice has the same ones before it, and its own from the same place on. */
static const char *slice_letters(const struct graph *g, int tensor)
{
    return strchr(g->tensors[tensor_owner(g, tensor)].dims, 'q');
}

uint32_t tensor_row_stride(const struct graph *g, int tensor)
{
    if (g->tensors[tensor].parent < 0) return tensor_row_length(g, tensor);
    return letters_volume(g, strpbrk(g->tensors[tensor_owner(g, tensor)].dims, "qh"));
}

uint32_t tensor_slice_stride(const struct graph *g, int tensor)
{
    return g->tensors[tensor].parent >= 0 ? letters_volume(g, slice_letters(g, tensor)) : tensor_row_length(g, tensor);
}

uint32_t tensor_row_offset(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    return t->parent >= 0 ? t->slice * letters_volume(g, slice_letters(g, tensor) + 1) : 0;
}

uint32_t tensor_slice_length(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    if (t->parent < 0) return tensor_row_length(g, tensor);
    return letters_volume(g, t->dims + (slice_letters(g, tensor) - g->tensors[t->parent].dims));
}

bool dims_qkv_interleaved(const char *dims)
{
    const char *stack = strchr(dims, 'q');
    return stack && strchr(dims, 'h') < stack;
}

bool tensor_reordered(const struct graph *g, int tensor, struct matrix_order *out)
{
    const struct tensor *t = &g->tensors[tensor];
    const char *model = t->model_dims, *dims = t->dims;
    if (!model) return false;
    bool whole = dims_qkv_interleaved(dims);
    /* Where the letters of a row begin in the model; a bias has none. */
    const char *inner = strchr(model, whole ? 'i' : dims[0]);
    *out = (struct matrix_order){.columns = inner ? letters_volume(g, inner) : 1,
                                 .transposed = inner && *inner == dims[0],
                                 .heads = whole ? g->dims.of['h'] : 0,
                                 .channels = whole ? g->dims.of['p'] : 0};
    out->rows = letters_volume(g, model) / out->columns;
    return true;
}

uint64_t matrix_order_row(const struct matrix_order *order, uint64_t row)
{
    if (!order->heads) return row;
    uint64_t stack = order->rows / order->heads / order->channels, p = row % order->channels,
             q = row / order->channels % stack, h = row / order->channels / stack;
    return (q * order->heads + h) * order->channels + p;
}

/* ---- operands ---- */

bool op_exchanged(const struct graph *g, const struct op *o)
{
    char first[16], second[16], slowest = g->tensors[o->out[0]].dims[0];
    if (o->kind != &kind_contract) return false;
    einsum_operand(o->einsum, 0, first);
    einsum_operand(o->einsum, 1, second);
    return strchr(second, slowest) && !strchr(first, slowest);
}

uint32_t op_transposed_rows(const struct graph *g, const struct op *o)
{
    const char *x = g->tensors[o->in[0]].dims, *columns = strchr(x, g->tensors[o->out[0]].dims[0]);
    return letters_volume(g, x) / letters_volume(g, columns);
}

/* ---- flop and bytes ---- */

int einsum_letters(const char *einsum, char letters[16])
{
    int n = 0;
    for (const char *c = einsum; *c; c++)
        if (*c >= 'a' && *c <= 'z' && !memchr(letters, *c, (size_t)n) && n < 15) letters[n++] = *c;
    letters[n] = 0;
    return n;
}

void einsum_operand(const char *einsum, int operand, char letters[16])
{
    int n = 0, at = 0;
    for (const char *c = einsum; *c; c++) {
        if (*c == ',' || *c == '>')
            at++;
        else if (*c != '-' && at == operand && n < 15)
            letters[n++] = *c;
    }
    letters[n] = 0;
}

double op_flops(const struct graph *g, const struct batch_shape *b, const struct op *o)
{
    if (o->einsum) {
        char letters[16];
        einsum_letters(o->einsum, letters);
        return 2 * (double)dims_volume(&g->dims, b, letters);
    }
    return o->kind->flops_per_element * (double)tensor_elements(g, b, o->kind->flops_on_input ? o->in[0] : o->out[0]);
}

uint64_t op_reads(const struct graph *g, const struct batch_shape *b, const struct op *o, int n)
{
    if (o->in[n] < 0) return 0;
    uint64_t all = tensor_elements(g, b, o->in[n]), out = tensor_elements(g, b, o->out[0]);
    bool gathered = o->kind->gathers > 0 && o->kind->gathers == n;
    if (!gathered && !(o->kind->reads_output_size && n == 0)) return all;
    /* A list of ids or types may name as many different rows as there are tokens; positions are those of the longest
     * sequence. */
    const struct tensor *list = gathered ? &g->tensors[o->in[n - 1]] : NULL;
    if (list && list->role == TENSOR_BATCH && list->data == BATCH_POSITIONS && b->tokens)
        out = out / b->tokens * b->longest;
    return out < all ? out : all;
}

size_t tensor_element_bytes(const struct graph *g, int tensor, size_t storage)
{
    return g->tensors[tensor].u32 || g->tensors[tensor].f32 ? 4 : storage;
}

int tensor_maker(const struct graph *g, int tensor)
{
    for (int o = 0; o < g->n_ops; o++)
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (g->ops[o].out[k] == tensor) return o;
    return -1;
}

double group_flops(const struct graph *g, const struct batch_shape *b, const struct group *group)
{
    double n = 0;
    for (int i = 0; i < group->count; i++) n += op_flops(g, b, &g->ops[group->ops[i]]);
    return n;
}

static bool group_writes_tensor(const struct group *group, int tensor)
{
    for (int w = 0; w < group->n_writes; w++)
        if (group->writes[w] == tensor) return true;
    return false;
}

/* Elements that the group reads of a tensor: the most that one of its operators reads; of an operator that makes row by
 * row what stays inside, the rows that the others use. */
static uint64_t group_reads_of(const struct graph *g, const struct batch_shape *b, const struct group *group,
                               int tensor)
{
    uint64_t most = 0;
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_IN; k++)
            if (g->ops[group->ops[i]].in[k] == tensor) {
                const struct op *o = &g->ops[group->ops[i]];
                uint64_t n = op_reads(g, b, o, k), all = tensor_elements(g, b, o->out[0]);
                bool inside = o->kind->recomputable && !group_writes_tensor(group, o->out[0]);
                uint64_t used = inside && n == all ? group_reads_of(g, b, group, o->out[0]) : 0;
                if (used) n = used;
                most = n > most ? n : most;
            }
    return most;
}

void group_bytes(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                 uint64_t *read, uint64_t *written)
{
    *read = *written = 0;
    for (int i = 0; i < group->n_reads; i++)
        *read += group_reads_of(g, b, group, group->reads[i]) * tensor_element_bytes(g, group->reads[i], storage);
    for (int i = 0; i < group->n_writes; i++)
        *written += tensor_elements(g, b, group->writes[i]) * tensor_element_bytes(g, group->writes[i], storage);
}

void group_work(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                wherry_work *out)
{
    uint64_t read, written;
    group_bytes(g, b, group, storage, &read, &written);
    *out = (wherry_work){.bytes = read + written};
    for (int i = 0; i < group->count; i++) {
        const struct op *o = &g->ops[group->ops[i]];
        *(o->einsum ? &out->contraction_flops : &out->other_flops) += op_flops(g, b, o);
    }
}

/* Whether a group of the backward pass reads the tensor or a part of it. */
static bool read_backward(const struct graph *g, const struct group *groups, int count, int owner)
{
    for (int i = groups_forward(groups, count); i < count; i++)
        for (int r = 0; r < groups[i].n_reads; r++)
            if (tensor_owner(g, groups[i].reads[r]) == owner) return true;
    return false;
}

uint64_t groups_saved_bytes(const struct graph *g, const struct batch_shape *b, const struct group *groups, int count,
                            size_t storage)
{
    int forward = groups_forward(groups, count);
    uint64_t bytes = 0;
    for (int t = 0; t < g->n_tensors && forward < count; t++) {
        bool made = t == g->input;
        for (int i = 0; i < forward && !made; i++)
            for (int w = 0; w < groups[i].n_writes; w++) made |= tensor_owner(g, groups[i].writes[w]) == t;
        if (made && (g->save_all || read_backward(g, groups, count, t)))
            bytes += tensor_elements(g, b, t) * tensor_element_bytes(g, t, storage);
    }
    return bytes;
}

/* ---- the kernel call ---- */

void call_set(struct call *call, uint8_t id, uint32_t value)
{
    int at = 0;
    while (at < call->n_constants && call->constants[at].id < id) at++;
    if (at == call->n_constants || call->constants[at].id != id) {
        memmove(&call->constants[at + 1], &call->constants[at],
                (size_t)(call->n_constants - at) * sizeof *call->constants);
        call->n_constants++;
    }
    call->constants[at] = (struct call_constant){id, value};
}

void call_set_float(struct call *call, uint8_t id, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    call_set(call, id, bits);
}

uint32_t call_get(const struct call *call, uint8_t id, uint32_t otherwise)
{
    for (int i = 0; i < call->n_constants; i++)
        if (call->constants[i].id == id) return call->constants[i].value;
    return otherwise;
}

uint32_t call_runtime(const struct call *call)
{
    uint32_t by_form = call_get(call, CONST_FORM, GEMM_NT) == GEMM_TN ? RUNTIME_K : RUNTIME_M,
             runtime = call_get(call, CONST_RUNTIME, RUNTIME_FORM);
    return runtime == RUNTIME_FORM ? by_form : runtime;
}

bool call_has_slot(const struct call *call, uint8_t slot)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot == slot) return true;
    return false;
}

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
    if (!outside || !strcmp(group->row->kernel, "gemm") || !strcmp(group->row->kernel, "map")) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the kernel %s takes no tensors in channel-major order", group->name,
                group->row->kernel);
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
            if (op->out[k] < 0 || !group_writes_tensor(group, op->out[k])) continue;
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

/* What a kernel must know about operators that others come before. */
static void set_order(const struct graph *g, const struct group *group, struct call *call, int n_sums)
{
    bool rows = call_has_slot(call, SLOT_Y), norm = !strcmp(call->kernel, "layernorm_backward");
    if (call_has_slot(call, SLOT_SUM)) call_set(call, CONST_SUM, 1);
    if (n_sums && !norm) call_set(call, CONST_COLUMN_SUMS, rows ? 1 : 2);
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
    struct call *first = &calls[0], *second = &calls[1];
    if (strcmp(first->kernel, "attention_backward")) return;
    memset(second, 0, sizeof *second);
    second->kernel = "attention_dq";
    second->launch = LAUNCH_ELEMENTS;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        call_set(second, shared[i], call_get(first, shared[i], 0));
    if (call_get(first, CONST_QKV_INTERLEAVED, 0)) call_set(second, CONST_QKV_INTERLEAVED, 1);
    call_set(second, CONST_N, call_get(first, CONST_HEADS, 1) * call_get(first, CONST_HEAD_DIM, 1));
    for (int i = 0; i < first->n_arguments; i++)
        if (first->arguments[i].slot == SLOT_Y) call_add(second, SLOT_Y, true, first->arguments[i].tensor);
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
    first->kernel = group->row->kernel;
    first->launch = group->row->launch;
    TRY(channels_run(g, group, e) && sums_first_operand(g, group, first, e));
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_IN; k++)
            if (group_reads_tensor(group, g->ops[group->ops[i]].in[k]))
                TRY(add_input(g, group, &g->ops[group->ops[i]], k, first, e));
    TRY(add_outputs(g, group, first, sums, &n_sums, e));
    for (int i = 0; i < group->count; i++) g->ops[group->ops[i]].kind->constants(g, &g->ops[group->ops[i]], first);
    set_order(g, group, first, n_sums);
    if (n_sums) {
        /* The type table's list is in the partial sums' slot. */
        call_add(first, call_has_slot(first, SLOT_PARTIALS) ? SLOT_SUM : SLOT_PARTIALS, true, TENSOR_SCRATCH);
        call_reduce(g, first, sums, n_sums, &out[(*count)++]);
    }
    split_attention(out, count);
    return true;
}

bool group_reference(const struct graph *g, const struct group *group, const struct batch_shape *b, struct values *v,
                     struct error *e)
{
    for (int i = 0; i < group->count; i++)
        TRY(g->ops[group->ops[i]].kind->reference(g, &g->ops[group->ops[i]], b, v, e));
    return true;
}
