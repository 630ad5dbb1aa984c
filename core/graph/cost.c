/* Flop and bytes of operators and groups. */
#include "graph/group.h"
#include "graph/kinds.h"
#include "graph/mask.h"
#include "graph/rotary.h"

/* A layernorm without a beta adds none, nor does its gradient sum one; of heads V's are not normed. */
static double flops_per_element(const struct graph *g, const struct op *o)
{
    bool wide = o->kind == &kind_wide_norm || o->kind == &kind_wide_norm_dw || o->kind == &kind_wide_norm_dx;
    if (wide || o->kind == &kind_heads_norm || o->kind == &kind_heads_norm_dw || o->kind == &kind_heads_norm_dx)
        return o->kind->flops_per_element * tensor_turned(g, o->in[0]) / tensor_row_length(g, o->in[0]);
    bool less = (o->kind == &kind_layernorm && o->in[2] < 0) || (o->kind == &kind_norm_dw && o->out[1] < 0);
    if (o->kind == &kind_moments && o->norm) return 2; /* squares alone */
    return o->kind->flops_per_element - (less ? 1 : 0);
}

/* Of scores, those of the keys that are seen. */
static double flops_of(const struct graph *g, const struct batch_shape *b, const struct op *o)
{
    if (*o->einsum) {
        char letters[16];
        einsum_letters(o->einsum, letters);
        return 2 * (double)dims_volume(&g->dims, b, letters);
    }
    return flops_per_element(g, o) * (double)tensor_elements(g, b, o->kind->flops_on_input ? o->in[0] : o->out[0]);
}

double op_flops(const struct graph *g, const struct batch_shape *b, const struct op *o)
{
    if (o->layer < 0 || !b) return flops_of(g, b, o); /* without a batch: of weights alone */
    struct mask mask = graph_mask(g, o->layer);
    struct batch_shape seen = *b;
    seen.pairs = mask_pairs(&mask, b);
    double bias = mask.alibi && (o->kind == &kind_softmax || o->kind == &kind_softmax_recompute)
                      ? (double)tensor_elements(g, &seen, o->out[0])
                      : 0;
    return flops_of(g, &seen, o) + bias;
}

/* Sums of all sequences by distance: what lies after a sequence's is nothing. */
static uint64_t distance_sums(const struct graph *g, const struct batch_shape *b)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < b->sequences; s++) {
        uint32_t farthest = b->offsets[s + 1] - b->offsets[s] - 1;
        n += 2 * (farthest < g->relative_distance ? farthest : g->relative_distance) + 1;
    }
    return n * g->dims.of['h'];
}

static bool is_angles(const struct op_kind *kind)
{
    return kind == &kind_angles || kind == &kind_rotary || kind == &kind_rotary_dx;
}

/* Tokens whose rows of angles are read: of texts that share theirs, the longest one's. */
static uint64_t angle_rows(const struct graph *g, const struct batch_shape *b)
{
    return b->offsets ? rotary_rows_count(g->rotary_trained, b->sequences, b->offsets) : b->tokens;
}

uint64_t op_reads(const struct graph *g, const struct batch_shape *b, const struct op *o, int n)
{
    if (o->in[n] < 0) return 0;
    uint64_t all = tensor_elements(g, b, o->in[n]), out = tensor_elements(g, b, o->out[0]);
    if (o->kind == &kind_scores_bias && n == 1) /* a table's row for keys after the query at no distance is nobody's */
        return all - g->dims.of['h'];
    if (o->kind == &kind_moments_norm && n == 1) return 1; /* the same for all channels */
    if (o->kind == &kind_distance_dw && n == 0 && b->offsets) return distance_sums(g, b);
    if (o->kind == &kind_experts && n == 1) { /* those of experts that have no row are not read */
        uint64_t rows = b->tokens * g->dims.of['T'], experts = g->dims.of['E'];
        return rows < experts ? all / experts * rows : all;
    }
    bool gathered = o->kind->gathers > 0 && o->kind->gathers == n;
    if (!gathered && !(o->kind->reads_output_size && n == 0)) return all;
    /* Of a table with rows of their own width. */
    if (gathered && is_angles(o->kind)) out = out / tensor_row_length(g, o->out[0]) * g->dims.of['p'];
    /* A list of ids or types may name as many different rows as there are tokens; positions are those of the longest
     * sequence, and lengths one a sequence. */
    const struct tensor *list = gathered ? &g->tensors[o->in[n - 1]] : NULL;
    if (list && list->role == TENSOR_BATCH && b->tokens) {
        if (list->data == BATCH_POSITIONS) out = out / b->tokens * b->longest;
        if (list->data == BATCH_LENGTHS) out = out / b->tokens * b->sequences;
        if (list->data == BATCH_ANGLES) out = out / b->tokens * angle_rows(g, b);
    }
    return out < all ? out : all;
}

double group_flops(const struct graph *g, const struct batch_shape *b, const struct group *group)
{
    double n = 0;
    for (int i = 0; i < group->count; i++) n += op_flops(g, b, &g->ops[group->ops[i]]);
    return n;
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
                bool inside = o->kind->recomputable && !group_writes(group, o->out[0]);
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
        *read += group_reads_of(g, b, group, group->reads[i]) * tensor_element_bytes(g, group->reads[i], storage) +
                 tensor_scale_bytes(g, group->reads[i]);
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
        *(*o->einsum ? &out->contraction_flops : &out->other_flops) += op_flops(g, b, o);
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
