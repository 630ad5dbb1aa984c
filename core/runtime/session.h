/* A session: a graph, covered by groups, planned in memory, and, once prepared, recorded on a device. */
#ifndef WHERRY_RUNTIME_SESSION_H
#define WHERRY_RUNTIME_SESSION_H

#include "model/model.h"
#include "plan/batch.h"
#include "plan/memory.h"
#include "plan/tuning.h"
#include "runtime/pass.h"
#include "runtime/shared_weights.h"

/* Passes of training, or pieces of them, that are under way at a time: so many that the device has some to compute
 * while the host waits for what is exchanged of the one before. */
enum { PASS_SLOTS = 4 };

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
    uint32_t max_length, max_labels;
    bool f16;                    /* elements have 16 bits: f16, or bf16 */
    bool bf16;                   /* those, or, where elements are f32 (the device cpu), weights of products alone */
    bool int8;                   /* weights of products have 8 bits, whatever the storage */
    bool shares;                 /* weights with other sessions of the device */
    bool keep, part;             /* part: some groups of the plan, for measuring */
    const char *only;            /* their names, while it is created */
    char kind[LAYOUTS_TEXT];     /* session_kind */
    char why[96];                /* its tensors lie as they do, where that was tuned */
    struct layout_choice layout; /* the graph's */
    struct batch_tables tables;
    struct memory_plan memory;
    struct shared_weights shared;
    uint32_t tokens_fit;        /* where the plan is over its budget: most tokens of a session that is not, 0: none */
    char (*notes)[512];         /* what differs from the plan asked for */
    int n_notes, covered_notes; /* covered_notes: of them, from before session_cover */
    uint32_t splits;
    uint64_t seed; /* dropout's */
    uint32_t step;

    bool divides; /* the backward pass is submitted in pieces: pieces[n_pieces + 1], the calls that they begin with, and
                     ends[n_calls], whether one ends behind a call; both made by prepare (runtime/backward.h) */
    bool *ends;
    int *pieces, n_pieces;

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
    uint32_t dimensions;                     /* floats that embeddings are cut to; 0: none are */
    bool normalized;                         /* embeddings have length 1, also when they were cut */
    struct pass passes[PASS_SLOTS];          /* of training, that are not waited for yet */
    struct outside pass_outside[PASS_SLOTS]; /* and theirs of the application's */
    uint32_t *pass_offsets[PASS_SLOTS];      /* theirs; NULL: not made yet */
    struct tickets *tickets;                 /* runs under way, and what waits for them (runtime/submit.h) */
    double *timed;             /* [n_calls], measuring: runs are timed, and a call's seconds are put there; NULL: not */
    double max_submit_seconds; /* that one submission may take; 0: there is no bound */
    double max_launch_seconds; /* that one launch of a kernel may take; 0: there is no bound */
    uint64_t pause_ns;         /* between two */
    struct portions *portions; /* with a bound: what is submitted at a time (runtime/portions.h) */
};

/* One of which nothing is decided yet; wherry_session_destroy takes it however far it came. NULL: failed. */
struct wherry_session *session_new(struct wherry_context *context, struct wherry_device *device,
                                   const struct wherry_model *model, struct error *e);
/* Index of the first of a group's calls. */
int group_first_call(const struct wherry_session *s, int group);
double session_tolerance(const struct wherry_session *s); /* NMSE above which a device's results are wrong */
static inline wherry_dtype session_dtype(const struct wherry_session *s)
{
    return s->bf16 ? WHERRY_DTYPE_BF16 : s->f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
}
/* Bytes of an element (tensor_element_bytes). */
static inline size_t session_storage(const struct wherry_session *s) { return s->f16 ? 2 : 4; }
static inline enum storage session_type(const struct wherry_session *s)
{
    return !s->f16 ? STORAGE_F32 : s->bf16 ? STORAGE_BF16 : STORAGE_F16;
}
/* Once, however many layers say the same. */
bool session_note(struct wherry_session *s, struct error *e, const char *format, ...) PRINTF_LIKE(3, 4);
/* One that the log has already. */
bool session_note_logged(struct wherry_session *s, const char *note, struct error *e);

#endif
