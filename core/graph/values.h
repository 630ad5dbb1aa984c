/* Tensors in double for the references, to and from the storage types. */
#ifndef WHERRY_GRAPH_VALUES_H
#define WHERRY_GRAPH_VALUES_H

#include "base/half.h"
#include "graph/group.h"

/* Values by tensor index; a slice's are its parent's. */
struct values {
    double **of;          /* [n_tensors], NULL where absent */
    const uint32_t **ids; /* [n_tensors]: u32 tensors */
    uint64_t seed;        /* dropout's */
    uint32_t step;
};

void doubles_from_storage(const void *storage, enum storage type, size_t count, double *out);
void storage_from_doubles(const double *values, enum storage type, size_t count, void *out);
/* The same of a whole tensor. Its values are rows of channels, however it lies. */
void tensor_load(const struct graph *g, const struct batch_shape *b, int tensor, enum storage type, const void *storage,
                 double *out);
void tensor_store(const struct graph *g, const struct batch_shape *b, int tensor, enum storage type,
                  const double *values, void *out);

bool values_create(const struct graph *g, struct values *out, struct error *e);
void values_destroy(const struct graph *g, struct values *values); /* with all memory below; accepts a zeroed one */

/* Where the bytes of a tensor are: NULL when they can't be had. */
typedef const void *(*tensor_bytes)(int tensor, void *user);

/* Gives every tensor that the group reads its values, and every output of its operators memory. */
bool values_load(const struct graph *g, const struct group *group, const struct batch_shape *b, enum storage type,
                 tensor_bytes bytes, void *user, struct values *values, struct error *e);
/* Frees the values of all tensors. */
void values_clear(const struct graph *g, struct values *values);

/* Runs the operators of a group in order. Every read must have values; the outputs of all its operators must have
 * memory. */
bool group_reference(const struct graph *g, const struct group *group, const struct batch_shape *b, struct values *v,
                     struct error *e);

#endif
