/* A session: a graph, covered by groups, planned in memory, and, once prepared, recorded on a device. */
#ifndef WHERRY_RUNTIME_SESSION_H
#define WHERRY_RUNTIME_SESSION_H

#include "model/model.h"
#include "plan/batch.h"
#include "plan/memory.h"
#include "plan/tuning.h"
#include "runtime/context.h"

struct wherry_session {
    struct wherry_context *context;
    struct wherry_device *device;
    const struct wherry_model *model;
    const struct plan *plan;

    struct graph graph;
    struct group *groups;
    int n_groups;
    struct call *calls;    /* [n_calls]: one or two of each group, in order */
    int *call_groups;      /* [n_calls] */
    const char **reasons;  /* [n_calls]: why a call has this kernel and these sizes, NULL: nothing was chosen */
    uint64_t *scratch;     /* [n_groups] bytes */
    int n_calls, boundary; /* the backward pass' first call, n_calls without one */
    struct batch_shape limits;
    struct device_limits device_limits; /* with the rungs that this session may take */
    enum library library;
    struct tuning tuning; /* sizes that were measured here; empty: the static table's */
    uint32_t max_length;
    bool f16, keep, part;                /* part: some groups of the plan, for measuring */
    const char *only;                    /* their names, while it is created */
    char kind[LAYOUTS_TEXT];             /* session_kind */
    char why[96];                        /* its tensors lie as they do, where that was tuned */
    uint32_t transposed, copied;         /* graph_options.transposed and copied */
    bool qkv_interleaved, channel_major; /* likewise */
    struct batch_tables tables;
    struct memory_plan memory;
    uint32_t tokens_fit; /* where the plan is over its budget: most tokens of a session that is not, 0: none */
    char (*notes)[512];  /* what differs from the plan asked for */
    int n_notes;
    uint32_t splits;
    uint64_t seed; /* dropout's */
    uint32_t step;

    /* Made by prepare */
    bool prepared;
    struct buffer *whole;    /* of which `buffers` are parts, NULL: of none */
    struct buffer **buffers; /* [memory.n_blocks] */
    struct step *steps;      /* [n_calls] */
    struct schedule schedule;
    struct program *program;
    struct grid *grids;       /* [n_calls] */
    uint32_t *words;          /* batch header and tables */
    uint32_t *batch_u32;      /* [BATCH_DATA_COUNT][max tokens] */
    uint32_t *offsets;        /* [max sequences + 1] */
    uint32_t sequences;       /* that `offsets` has */
    bool lengths_sent;        /* the device has the tables and positions that follow from `offsets` */
    bool types_sent;          /* and the types in batch_u32 */
    void *output_storage;     /* what a run downloads */
    void *input_storage;      /* training: what it uploads as x or as the loss gradient */
    struct batch_shape shape; /* of the last batch: the backward pass is of the last forward one */
    bool forward_done, backward_done;
};

/* wherry_session_create, with the rungs given: no check is made. `rungs` 0: as the description says. `units`: instead
 * of the device's number of multiprocessors, by which tiles are chosen; 0: the device's. */
wherry_status session_create(wherry_context *context, wherry_device *device, const wherry_model *model,
                             const wherry_session_desc *desc, uint32_t rungs, uint32_t units, wherry_session **out);
/* Whether wherry_session_desc.kernels names something; else the error has the names. */
bool kernels_check(const char *kernels, struct error *e);
/* Fills in device_limits and library. `kernels` passed kernels_check. */
bool session_rungs(struct wherry_session *s, const char *kernels, struct error *e);
enum { SESSION_SMALL_BUFFER = 256 };
/* Makes `buffers`, and `whole` where small batches share one. `small`: all of SESSION_SMALL_BUFFER bytes, for programs
 * that are compiled and never run. */
bool session_make_buffers(struct wherry_session *s, bool small, struct error *e);
/* Destroys `buffers` and `whole`, where they are. */
void session_free_buffers(struct wherry_session *s);
struct tuning_key device_tuning_key(const struct wherry_device *device);
/* What the choice of orders depends on, as text: equal texts, the same choice. `kernels` passed kernels_check. */
bool session_kind(const struct wherry_session *s, const struct graph_options *options, const char *kernels,
                  char text[LAYOUTS_TEXT], struct error *e);
/* Takes what was tuned on this device: `path` as in wherry_session_desc. A file that can't be used becomes a note. */
bool session_tuning(struct wherry_session *s, const char *path, struct error *e);
/* A group's calls, and the bytes that they need for each other. `forced`: the sizes of each call (NULL: the static
 * table's); NULL: those that were tuned, where there are some. */
bool session_calls(struct wherry_session *s, const struct graph *g, const struct group *group,
                   const struct choice *const forced[GROUP_MAX_CALLS], struct call calls[GROUP_MAX_CALLS],
                   const char *reasons[GROUP_MAX_CALLS], int *count, uint64_t *scratch, struct error *e);
/* The step of a call of this group, on the session's own memory. */
void session_step(const struct wherry_session *s, const struct call *call, int group, struct step *step);
/* Index of the first of a group's calls. */
int group_first_call(const struct wherry_session *s, int group);
double session_tolerance(const struct wherry_session *s); /* NMSE above which a device's results are wrong */
size_t session_storage(const struct wherry_session *s);   /* bytes of an element */
/* Once, however many layers say the same. */
bool session_note(struct wherry_session *s, struct error *e, const char *format, ...) PRINTF_LIKE(3, 4);
bool session_prepare(struct wherry_session *s, wherry_progress progress, void *user, wherry_prepare_info *info,
                     struct error *e);
/* Checks a batch against the limits and fills `shape` (with offsets kept by the session) and the host's side of the
 * batch buffer. */
bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e);
/* Runs the batch that session_batch filled in, or one phase of its training step. `upload`: a tensor that is copied
 * from input_storage before, `download`: one that is copied to output_storage after; -1: none. step_seconds [n_calls]
 * may be NULL. */
bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e);
/* The copy of a tensor, as long as it is in this batch, to or from `storage`. */
struct transfer session_transfer(const struct wherry_session *s, const struct batch_shape *shape, int tensor,
                                 void *storage);
/* The first `count` values of a tensor, in the order of the model's files, however it lies. */
bool session_tensor_read(const struct wherry_session *s, int tensor, float *out, size_t count, struct error *e);
/* For measuring and verify: random values in training's x and loss gradient; in a part of a plan in everything that its
 * groups read and none before them makes. */
bool session_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e);
void session_floats(const struct wherry_session *s, const void *storage, size_t count, float *out);

#endif
