/* Fusion: plans, the groups of operators that they make of a graph, and the calls of kernels that run a group. */
#ifndef WHERRY_GRAPH_GROUP_H
#define WHERRY_GRAPH_GROUP_H

#include "graph/call.h"
#include "graph/graph.h"

enum { GROUP_MAX_OPS = 12, GROUP_MAX_TENSORS = CALL_MAX_ARGUMENTS, GROUP_MAX_CALLS = 2 };

/* ---- plans ---- */

/* One row of a plan: the kernel `kernel` runs the operators that have these roles, in this order, where the graph has
 * them. Whether the kernel takes operators of their kinds is the filter's to say, by the constants that the kinds set.
 * An operator that no row covers runs alone. */
struct plan_row {
    const char *name;   /* the paper's name where it has one */
    const char *kernel; /* cl/<kernel>.cl, shaders/<kernel>.comp */
    enum launch launch;
    uint16_t roles[GROUP_MAX_OPS + 2];           /* enum role, ended by ROLE_END */
    enum { NORM_ANY, NORM_POST, NORM_PRE } norm; /* for encoders whose layernorms stand there only */
    bool optional; /* in inference and in the backward pass, where the device has a kernel for all of it, before any
                      other row; elsewhere the others do it */
};

struct plan {
    const char *name;
    const struct plan_row *rows;
    size_t n_rows;
};

extern const struct plan plans[];
extern const size_t plans_count;
const struct plan *plan_find(const char *name, struct error *e);

/* ---- groups ---- */

/* Operators that one kernel executes, the sums over rows among them with a second one's help. */
struct group {
    char name[64];      /* "layer.0.qkv" */
    const char *kernel; /* cl/<kernel>.cl, shaders/<kernel>.comp; NULL: none runs it, it is there to be counted */
    enum launch launch;
    bool optional;                 /* of a row that is */
    int ops[GROUP_MAX_OPS], count; /* ascending */
    int layer;
    int reads[GROUP_MAX_TENSORS], n_reads;   /* tensors made outside and used inside, in the order of use */
    int writes[GROUP_MAX_TENSORS], n_writes; /* made inside and used outside */
    bool backward;
};

/* Whether a device runs this group; when not, `reason` says why. NULL as a whole: every group runs. */
struct group_filter {
    bool (*runs)(const struct graph *g, const struct group *group, char *reason, size_t reason_size, void *user);
    void (*split)(const struct graph *g, const struct group *group, const char *reason,
                  void *user); /* told about every split */
    void *user;
    bool optional; /* also rows that are optional, where they run */
};

/* Covers the graph's operators by groups of the plan, in an order in which everything is made before it is used. Where
 * the filter refuses the row that covers most, the next one is tried, of several as long in the plan's order, in the
 * end the operator alone. Fails when that is refused, too. */
bool groups_create(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                   struct group **out, int *count, struct error *e);
/* Whether a row of the plan's products has the operator beside a product, and the device runs the group. */
bool plan_runs_product(const struct graph *g, const struct plan *plan, const struct group_filter *filter, int op);
/* Everything about a group but its name and row, from its operators. */
void group_complete(const struct graph *g, struct group *out);
/* Whether the tensor is made inside and used outside. */
bool group_writes(const struct group *group, int tensor);
/* Whether any of them reads the tensor, or a slice of it. */
bool groups_read(const struct graph *g, const struct group *groups, int count, int tensor);
/* The group of one operator, which runs alone. */
void group_single(const struct graph *g, int op, struct group *out);
/* The group's name without its layer: "qkv". */
const char *group_short_name(const struct group *group);
/* Groups as they are found stand by their first operator; one that needs what a later one makes moves after it. Fails
 * when groups wait for each other; `plan` is a name for the message. */
bool groups_sort(const struct graph *g, const char *plan, struct group *groups, int count, struct error *e);
double group_flops(const struct graph *g, const struct batch_shape *b, const struct group *group);
/* Bytes of all reads and of all writes, each distinct tensor once, with `storage` bytes an element. */
void group_bytes(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                 uint64_t *read, uint64_t *written);
/* Both: bytes, and flop by what computes them. */
void group_work(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                wherry_work *out);

/* Groups of the forward pass: they come first. */
int groups_forward(const struct group *groups, int count);
/* Bytes of the tensors that the forward groups write and the backward groups read; x and what slices share counted
 * once. 0 without a backward pass. */
uint64_t groups_saved_bytes(const struct graph *g, const struct batch_shape *b, const struct group *groups, int count,
                            size_t storage);

/* The calls of a group, one after the other. Everything but the tile sizes, PART_ROWS and ALIGNED, which depend on the
 * device (plan/tiles.h). */
bool group_calls(const struct graph *g, const struct group *group, struct call out[GROUP_MAX_CALLS], int *count,
                 struct error *e);

#endif
