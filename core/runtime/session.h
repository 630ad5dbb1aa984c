/* A session: a graph, covered by groups, planned in memory, and, once prepared, recorded on a device. */
#ifndef WHERRY_RUNTIME_SESSION_H
#define WHERRY_RUNTIME_SESSION_H

#include "model/model.h"
#include "plan/batch.h"
#include "plan/memory.h"
#include "runtime/context.h"

struct wherry_session {
    struct wherry_context *context;
    struct wherry_device *device;
    const struct wherry_model *model;
    const struct plan *plan;

    struct graph graph;
    struct group *groups;
    int n_groups;
    struct call *calls; /* [n_groups] */
    struct batch_shape limits;
    uint32_t max_length;
    bool f16, keep;
    struct batch_tables tables;
    struct memory_plan memory;
    char (*notes)[512]; /* what differs from the plan asked for */
    int n_notes;
    uint32_t splits;

    /* Made by prepare */
    bool prepared;
    struct buffer **buffers; /* [memory.n_blocks] */
    struct step *steps;      /* [n_groups] */
    struct schedule schedule;
    struct program *program;
    struct grid *grids;   /* [n_groups] */
    uint32_t *words;      /* batch header and tables */
    uint32_t *batch_u32;  /* [BATCH_DATA_COUNT][max tokens] */
    uint32_t *offsets;    /* [max sequences + 1] */
    void *output_storage; /* what a run downloads */
};

size_t session_storage(const struct wherry_session *s); /* bytes of an element */
/* Once, however many layers say the same. */
bool session_note(struct wherry_session *s, struct error *e, const char *format, ...) PRINTF_LIKE(3, 4);
bool session_prepare(struct wherry_session *s, wherry_progress progress, void *user, wherry_prepare_info *info,
                     struct error *e);
/* Checks a batch against the limits and fills `shape` (with offsets kept by the session) and the host's side of the
 * batch buffer. */
bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e);
/* Runs the batch that session_batch filled in; the output is then in output_storage. step_seconds may be NULL. */
bool session_run(struct wherry_session *s, const struct batch_shape *shape, double *step_seconds, struct error *e);
void cost_of_group(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                   wherry_cost *out);

#endif
