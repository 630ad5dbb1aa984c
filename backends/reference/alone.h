/* Kernels of programs of their own, which no group of a graph stands for, by their definitions. */
#ifndef WHERRY_BACKENDS_REFERENCE_ALONE_H
#define WHERRY_BACKENDS_REFERENCE_ALONE_H

#include "backends/backend.h"
#include "interface/interface.h"

/* A step with its arguments by slot, NULL: it has none. Storage is of 16-bit floats where the step's is. */
struct alone_step {
    const struct step *step;
    void *at[SLOT_COUNT];
};

typedef void (*alone_run)(const struct alone_step *s);
/* NULL: it is no such kernel. */
alone_run alone_find(const char *kernel);
/* Those of buckets of gradients (alone_bucket.c). */
alone_run alone_find_bucket(const char *kernel);

/* alone_adapter.c */
void alone_adapter_gradient(const struct alone_step *s);
void alone_adapter_merge(const struct alone_step *s);

#endif
