/* What adapters are inside. */
#ifndef WHERRY_TRAIN_ADAPTERS_STATE_H
#define WHERRY_TRAIN_ADAPTERS_STATE_H

#include "interface/adapter.h"
#include "model/model.h"
#include "runtime/pass.h"
#include "train/adapters.h"

enum { PLACE_ROUND = 64, ADAPTER_HEADER = MEMORY_ALIGNMENT };
/* A launch of each for every pair of blocks that weights and gradients lie in. */
enum adapter_kernel { DIFFERENTIATE, MERGE, ADAPTER_KERNELS };

struct adapted_matrix {
    struct adapter_target target;
    int weight;        /* the tensor that it is in, */
    uint64_t elements; /* with so many */
    int weight_block, gradient_block;
    uint64_t weight_offset, gradient_offset; /* bytes in these, of the whole tensor */
    uint64_t first;                          /* its first element in the tensor */
    uint64_t base;                           /* the tensor's first element in the launch's copies */
    uint32_t words[MATRIX_WORDS];
};

struct adapter_launch {
    int first, end;                  /* matrices */
    struct range weights, gradients; /* bytes of their blocks */
    uint64_t base_elements;
    struct buffer *base; /* the model's matrices, floats */
    struct range tables[ADAPTER_KERNELS];
    uint32_t groups[ADAPTER_KERNELS];
};

struct adapters {
    const struct wherry_session *session;
    uint32_t rank;
    float scale;
    struct adapted_matrix *matrices; /* [count] */
    int count;
    struct adapter_launch *launches; /* [n_launches] */
    int n_launches;
    uint64_t elements; /* of A and B of all, with what is between them */
    struct buffer *values, *gradients, *tables, *header;
    uint64_t tables_bytes;
    uint32_t words[ADAPTER_HEADER / 4];
    struct call calls[ADAPTER_KERNELS];
    struct step *steps; /* [ADAPTER_KERNELS * n_launches] */
    struct grid *grids;
    struct schedule schedule;
    struct program *program;
    struct pass passes[ADAPTER_KERNELS]; /* by slot */
    double *timed;                       /* adapters_time's */
};

/* Finds the tables' bytes; the launches are planned. */
void adapters_tables_plan(struct adapters *a);
/* The kernels' calls, without memory. */
bool adapters_calls(const struct wherry_session *session, struct call out[ADAPTER_KERNELS], struct error *e);
bool adapters_program_create(struct adapters *a, struct error *e);
void adapters_program_destroy(struct adapters *a);

#endif
