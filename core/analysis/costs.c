/* What an operator or a group computes and moves, as reports have it. */
#include "analysis/costs.h"

#include "graph/kinds.h"

#include <stdio.h>
#include <string.h>

/* The operator that a group is reported as: its first product, where it has one, for that is its work. */
static const struct op *group_main(const struct graph *g, const struct group *group)
{
    for (int i = 0; i < group->count; i++)
        if (*g->ops[group->ops[i]].einsum) return &g->ops[group->ops[i]];
    return &g->ops[group->ops[0]];
}

/* As its tensors lie. */
static void describe_einsum(const struct graph *g, const struct op *o, char *out, size_t size)
{
    if (!*o->einsum) return;
    snprintf(out, size, "%s,%s->%s", g->tensors[o->in[0]].dims, g->tensors[o->in[1]].dims, g->tensors[o->out[0]].dims);
}

void cost_of_group(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                   wherry_cost *out)
{
    const struct op *most = group_main(g, group);
    memset(out, 0, sizeof *out);
    memcpy(out->name, group->name, sizeof out->name);
    snprintf(out->kernel, sizeof out->kernel, "%s", group->kernel ? group->kernel : "");
    snprintf(out->dims, sizeof out->dims, "%s", g->tensors[group->writes[group->n_writes - 1]].dims);
    out->backward = group->backward;
    describe_einsum(g, most, out->einsum, sizeof out->einsum);
    out->class_ = most->kind->class_;
    out->layer = group->layer;
    out->paper_row = (uint32_t)most->paper_row;
    out->first_operator = (uint32_t)group->ops[0];
    out->operators = (uint32_t)group->count;
    out->flops = group_flops(g, b, group);
    group_bytes(g, b, group, storage, &out->bytes_read, &out->bytes_written);
}

void cost_of_operator(const struct graph *g, const struct batch_shape *b, int index, size_t storage, wherry_cost *out)
{
    const struct op *o = &g->ops[index];
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", o->name);
    snprintf(out->kernel, sizeof out->kernel, "%s", o->kind->name);
    snprintf(out->dims, sizeof out->dims, "%s", g->tensors[o->out[0]].dims);
    out->backward = index >= g->n_forward;
    describe_einsum(g, o, out->einsum, sizeof out->einsum);
    out->class_ = o->kind->class_;
    out->layer = o->layer;
    out->paper_row = (uint32_t)o->paper_row;
    out->first_operator = (uint32_t)index;
    out->operators = 1;
    out->flops = op_flops(g, b, o);
    for (int i = 0; i < OP_MAX_IN; i++)
        if (o->in[i] >= 0)
            out->bytes_read +=
                op_reads(g, b, o, i) * tensor_element_bytes(g, o->in[i], storage) + tensor_scale_bytes(g, o->in[i]);
    for (int i = 0; i < OP_MAX_OUT; i++)
        if (o->out[i] >= 0)
            out->bytes_written += tensor_elements(g, b, o->out[i]) * tensor_element_bytes(g, o->out[i], storage);
}
