/* What follows from the tables: sizes, flop, bytes, and the call of a group's kernel. */
#include <string.h>

#include "graph/kinds.h"
#include "kernel/interface.h"

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

uint32_t tensor_row_stride(const struct graph *g, int tensor) { return tensor_row_length(g, tensor_owner(g, tensor)); }

uint32_t tensor_row_offset(const struct graph *g, int tensor)
{
    return g->tensors[tensor].parent >= 0 ? g->tensors[tensor].slice * tensor_row_length(g, tensor) : 0;
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
    double per_element = o->kind->flops_per_element;
    if (o->dropout > 0 && o->kind != &kind_dropout) per_element += 1; /* the softmax's own dropout */
    return per_element * (double)tensor_elements(g, b, o->kind->flops_on_input ? o->in[0] : o->out);
}

uint64_t op_reads(const struct graph *g, const struct batch_shape *b, const struct op *o, int n)
{
    if (o->in[n] < 0) return 0;
    uint64_t all = tensor_elements(g, b, o->in[n]), out = tensor_elements(g, b, o->out);
    bool part = (o->kind->gathers > 0 && o->kind->gathers == n) || (o->kind->reads_output_size && n == 0);
    return part && out < all ? out : all;
}

double group_flops(const struct graph *g, const struct batch_shape *b, const struct group *group)
{
    double n = 0;
    for (int o = group->first; o < group->first + group->count; o++) n += op_flops(g, b, &g->ops[o]);
    return n;
}

/* Elements that the group reads of a tensor: the most that one of its operators reads. */
static uint64_t group_reads_of(const struct graph *g, const struct batch_shape *b, const struct group *group,
                               int tensor)
{
    uint64_t most = 0;
    for (int o = group->first; o < group->first + group->count; o++)
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] == tensor) {
                uint64_t n = op_reads(g, b, &g->ops[o], i);
                most = n > most ? n : most;
            }
    return most;
}

void group_bytes(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                 uint64_t *read, uint64_t *written)
{
    *read = *written = 0;
    for (int i = 0; i < group->n_reads; i++) {
        int t = group->reads[i];
        *read += group_reads_of(g, b, group, t) * (g->tensors[t].u32 ? 4 : storage);
    }
    for (int i = 0; i < group->n_writes; i++) *written += tensor_elements(g, b, group->writes[i]) * storage;
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

bool group_call(const struct graph *g, const struct group *group, struct call *out, struct error *e)
{
    memset(out, 0, sizeof *out);
    out->kernel = group->row->kernel;
    out->launch = group->row->launch;
    for (int o = group->first; o < group->first + group->count; o++) {
        const struct op *op = &g->ops[o];
        for (int i = 0; i < OP_MAX_IN; i++) {
            bool outside = false;
            for (int r = 0; r < group->n_reads; r++) outside |= group->reads[r] == op->in[i];
            if (!outside) continue;
            uint8_t slot = op->kind->in_slot[i];
            /* A second product in one kernel (attention) has its second operand in a slot of its own. */
            if (!call_add(out, slot, false, op->in[i]) && !(slot == SLOT_W && call_add(out, SLOT_V, false, op->in[i])))
                return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: two inputs of %s want the same argument slot %d",
                            group->name, op->name, slot);
        }
    }
    if (group->n_writes < 1 || group->n_writes > 2)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: a kernel writes one or two tensors, not %d", group->name,
                    group->n_writes);
    call_add(out, SLOT_Y, true, group->writes[group->n_writes - 1]);
    if (group->n_writes == 2) call_add(out, SLOT_SUM, true, group->writes[0]);
    for (int o = group->first; o < group->first + group->count; o++) g->ops[o].kind->constants(g, &g->ops[o], out);
    return true;
}

bool group_reference(const struct graph *g, const struct group *group, const struct batch_shape *b, struct values *v,
                     struct error *e)
{
    for (int o = group->first; o < group->first + group->count; o++)
        TRY(g->ops[o].kind->reference(g, &g->ops[o], b, v, e));
    return true;
}
