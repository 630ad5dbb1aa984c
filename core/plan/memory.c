/* Plans the memory of weights, batch and activations: those that never live at the same time share it. */
#include "plan/memory.h"

#include <string.h>

#include "base/round.h"
#include "plan/pieces.h"

/* Groups between which an activation lives; first > last: never. */
struct life {
    int first, last;
};

static void live_during(struct life *l, int group)
{
    l->first = group < l->first ? group : l->first;
    l->last = group > l->last ? group : l->last;
}

/* Of tensors, and after them of the groups' scratch memory. What the caller gives is there before the pass it belongs
 * to. */
static void lives_find(const struct memory_request *r, struct life *lives)
{
    const struct graph *g = r->graph;
    int backward = groups_forward(r->groups, r->n_groups);
    for (int t = 0; t < g->n_tensors + r->n_groups; t++) lives[t] = (struct life){r->n_groups, -1};
    for (int i = 0; i < r->n_groups; i++) {
        for (int w = 0; w < r->groups[i].n_writes; w++) live_during(&lives[tensor_owner(g, r->groups[i].writes[w])], i);
        for (int k = 0; k < r->groups[i].n_reads; k++) {
            int t = tensor_owner(g, r->groups[i].reads[k]);
            if (g->tensors[t].role != TENSOR_VALUE) continue;
            live_during(&lives[t], i);
            if (g->tensors[t].input) live_during(&lives[t], t == g->out_gradient && !g->loss ? backward : 0);
        }
        if (r->scratch && r->scratch[i]) lives[g->n_tensors + i] = (struct life){i, i};
    }
    for (int t = 0; t < g->n_tensors; t++) {
        if (lives[t].last < 0) continue;
        bool forward = lives[t].first < backward;
        if (g->tensors[t].output || g->tensors[t].input || (g->save_all && forward)) lives[t].last = r->n_groups;
        if (r->keep) lives[t] = (struct life){0, r->n_groups};
    }
    for (int i = 0; i < r->n_groups && r->keep; i++)
        if (lives[g->n_tensors + i].last >= 0) lives[g->n_tensors + i] = (struct life){0, r->n_groups};
}

static int block_add(struct memory_plan *plan, enum memory_kind kind, struct error *e)
{
    void *grown = host_grow(plan->host, plan->blocks, (size_t)plan->n_blocks, (size_t)plan->n_blocks + 1,
                            sizeof *plan->blocks, e);
    if (!grown) return -1;
    plan->blocks = grown;
    plan->blocks[plan->n_blocks].kind = kind;
    return plan->n_blocks++;
}

static bool fits(const struct memory_request *r, const char *name, uint64_t bytes, struct error *e)
{
    if (bytes <= r->max_tensor_bytes && bytes + 2 * r->guard <= r->max_block_bytes) return true;
    return fail(
        e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
        "%s needs %llu bytes, but one kernel argument on this device reaches %llu and one allocation %llu: use smaller "
        "limits (tokens, length), f16, or the plan \"flash\"",
        name, (unsigned long long)bytes, (unsigned long long)r->max_tensor_bytes,
        (unsigned long long)r->max_block_bytes);
}

/* A table that no block holds, in blocks of its own. False in *done: it is none. */
static bool place_pieces(const struct memory_request *r, struct memory_plan *plan, enum memory_kind kind, int tensor,
                         bool *done, struct error *e)
{
    const struct graph *g = r->graph;
    uint64_t piece = table_piece_bytes(g, &r->limits, tensor, r->storage, r->max_tensor_bytes, r->max_block_bytes);
    uint64_t bytes = tensor_elements(g, &r->limits, tensor) * tensor_element_bytes(g, tensor, r->storage);
    *done = piece > 0;
    if (!piece) return true;
    bytes = round_up(bytes, MEMORY_ALIGNMENT);
    plan->of[tensor] = (struct placement){.block = plan->n_blocks, .bytes = bytes, .piece_bytes = piece};
    for (uint64_t at = 0; at < bytes; at += piece) {
        int block = block_add(plan, kind, e);
        if (block < 0) return false;
        plan->blocks[block].bytes = bytes - at > piece ? piece : round_up(bytes - at + r->guard, MEMORY_ROUND);
    }
    return true;
}

/* Weights and batch tensors: back to back. Weights that no group reads have no memory. */
static bool place_fixed(const struct memory_request *r, struct memory_plan *plan, enum memory_kind kind,
                        enum tensor_role role, uint64_t start, struct error *e)
{
    const struct graph *g = r->graph;
    int block = block_add(plan, kind, e);
    if (block < 0) return false;
    uint64_t at = start;
    bool done;
    for (int t = 0; t < g->n_tensors; t++) {
        if (g->tensors[t].role != role || g->tensors[t].parent >= 0) continue;
        if (role == TENSOR_WEIGHT && !groups_read(g, r->groups, r->n_groups, t)) continue;
        if (plan->of[t].block >= 0) continue; /* given */
        TRY(place_pieces(r, plan, kind, t, &done, e));
        if (done) continue;
        uint64_t bytes = round_up(tensor_elements(g, &r->limits, t) * tensor_element_bytes(g, t, r->storage) +
                                      tensor_scale_bytes(g, t),
                                  MEMORY_ALIGNMENT);
        TRY(fits(r, g->tensors[t].name, bytes, e));
        if (at + bytes > r->max_block_bytes) {
            plan->blocks[block].bytes = round_up(at, MEMORY_ROUND);
            if ((block = block_add(plan, kind, e)) < 0) return false;
            at = 0;
        }
        plan->of[t] = (struct placement){.block = block, .offset = at, .bytes = bytes};
        at += bytes;
    }
    plan->blocks[block].bytes = round_up(at ? at : MEMORY_ROUND, MEMORY_ROUND);
    if (!at && role == TENSOR_WEIGHT && plan->n_given && block == plan->n_blocks - 1) plan->n_blocks--;
    return true;
}

/* The others' blocks are the first ones. */
static bool place_given(const struct memory_request *r, struct memory_plan *plan, struct error *e)
{
    const struct memory_given *given = r->given;
    for (int i = 0; given && i < given->n_blocks; i++) {
        int block = block_add(plan, MEMORY_WEIGHTS, e);
        if (block < 0) return false;
        plan->blocks[block].bytes = given->blocks[i].bytes;
    }
    plan->n_given = plan->n_blocks;
    for (int t = 0; given && t < r->graph->n_tensors; t++) {
        if (given->of[t].block < 0) continue;
        plan->of[t] = given->of[t];
        plan->given_bytes += given->of[t].bytes;
    }
    return true;
}

/* The lowest offset in `block` where `bytes` are free during `life`, among the tensors placed so far. */
static uint64_t offset_free(const struct memory_plan *plan, const struct life *lives, const int *placed, int n,
                            int block, struct life life, uint64_t bytes, uint64_t guard)
{
    uint64_t at = guard;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const struct placement *p = &plan->of[placed[i]];
            const struct life *l = &lives[placed[i]];
            if (p->block != block || l->first > life.last || life.first > l->last) continue;
            if (p->offset < at + bytes + guard && at < p->offset + p->bytes + guard) {
                at = p->offset + p->bytes + guard;
                moved = true;
            }
        }
    }
    return at;
}

static bool place_activations(const struct memory_request *r, struct memory_plan *plan, struct life *lives, int *order,
                              struct error *e)
{
    const struct graph *g = r->graph;
    int n = 0;
    bool done = false;
    for (int t = 0; t < g->n_tensors + r->n_groups; t++) {
        if (lives[t].last < 0) continue;
        bool tensor = t < g->n_tensors;
        if (tensor) TRY(place_pieces(r, plan, MEMORY_ACTIVATIONS, t, &done, e));
        if (tensor && done) continue;
        uint64_t bytes = tensor ? tensor_extent(g, &r->limits, t) * tensor_element_bytes(g, t, r->storage)
                                : r->scratch[t - g->n_tensors];
        plan->of[t].bytes = round_up(bytes, MEMORY_ALIGNMENT);
        TRY(fits(r, tensor ? g->tensors[t].name : r->groups[t - g->n_tensors].name, plan->of[t].bytes, e));
        int at = n++; /* largest first; equal ones in the graph's order */
        while (at > 0 && plan->of[order[at - 1]].bytes < plan->of[t].bytes) order[at] = order[at - 1], at--;
        order[at] = t;
    }
    for (int i = 0, first_block = plan->n_blocks; i < n; i++) {
        struct placement *p = &plan->of[order[i]];
        for (int block = first_block;; block++) {
            if (block == plan->n_blocks && block_add(plan, MEMORY_ACTIVATIONS, e) < 0) return false;
            uint64_t at = offset_free(plan, lives, order, i, block, lives[order[i]], p->bytes, r->guard);
            uint64_t end = round_up(at + p->bytes + r->guard, MEMORY_ROUND);
            if (end > r->max_block_bytes && plan->blocks[block].bytes) continue;
            p->block = block;
            p->offset = at;
            if (end > plan->blocks[block].bytes) plan->blocks[block].bytes = end;
            break;
        }
    }
    return true;
}

bool memory_plan_create(const struct host *host, const struct memory_request *request, struct memory_plan *out,
                        struct error *e)
{
    const struct graph *g = request->graph;
    size_t n = (size_t)g->n_tensors + (size_t)request->n_groups; /* scratch memory after the tensors */
    memset(out, 0, sizeof *out);
    out->host = host;
    out->of = host_alloc(host, n, sizeof *out->of, e);
    struct life *lives = host_alloc(host, n, sizeof *lives, e);
    int *order = host_alloc(host, n, sizeof *order, e);
    bool ok = out->of && lives && order;
    if (ok) {
        for (size_t t = 0; t < n; t++) out->of[t].block = -1;
        out->scratch = out->of + g->n_tensors;
        lives_find(request, lives);
        ok = place_given(request, out, e) && place_fixed(request, out, MEMORY_WEIGHTS, TENSOR_WEIGHT, 0, e) &&
             place_fixed(request, out, MEMORY_BATCH, TENSOR_BATCH, round_up(request->tables_bytes, MEMORY_ALIGNMENT),
                         e) &&
             place_activations(request, out, lives, order, e);
    }
    for (int t = 0; ok && t < g->n_tensors; t++)
        if (g->tensors[t].parent >= 0) out->of[t] = out->of[g->tensors[t].parent];
    for (int i = out->n_given; ok && i < out->n_blocks; i++) {
        out->bytes_of[out->blocks[i].kind] += out->blocks[i].bytes;
        out->bytes += out->blocks[i].bytes;
    }
    host_free(host, lives);
    host_free(host, order);
    if (!ok) memory_plan_destroy(out);
    return ok;
}

void memory_plan_destroy(struct memory_plan *plan)
{
    if (!plan->host) return;
    host_free(plan->host, plan->of);
    host_free(plan->host, plan->blocks);
    memset(plan, 0, sizeof *plan);
}
