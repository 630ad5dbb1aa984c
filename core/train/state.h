/* What an optimizer is inside. */
#ifndef WHERRY_TRAIN_STATE_H
#define WHERRY_TRAIN_STATE_H

#include "interface/optimizer.h"
#include "runtime/pass.h"
#include "train/arena.h"
#include "train/optimizer.h"

/* The order of a program's steps: a step for each launch of a kernel, but one of the sums. */
enum phase {
    PHASE_ADD,
    PHASE_NORM,
    PHASE_STEP,
    PHASE_RATIOS, /* this and the next with LAMB alone */
    PHASE_CHANGE,
    PHASES
};

/* Where the gradients of a step are: what was accumulated, or the session's own. Each has its program. */
enum way { WAY_ACCUMULATED, WAY_DIRECT, WAYS };

struct way_program {
    struct call calls[PHASES];
    int first[PHASES + 1]; /* steps; those that the kind has not are none */
    /* Behind those of phases, where gradients are accumulated: for each of the arena's further sums two times
     * n_launches, gradients added to it, and it to the sum before. */
    struct step *steps;
    struct grid *grids;
    struct schedule schedule;
    struct program *program;       /* NULL: not made yet */
    struct pass passes[RUN_SLOTS]; /* 0: up to the norm; 1: what changes weights */
};

struct optimizer {
    struct wherry_session *session;
    struct optimizer_options options; /* with an own `tensors` */
    struct optimizer_tensor *tensors; /* [count] */
    struct optimizer_state state;
    struct arena arena;
    uint32_t parts;           /* the arena's, bits 1 << ARENA_* */
    bool accumulated, summed; /* there is a gradient; and sums of its squares */
    bool direct;              /* the session's gradients are to be stepped by, */
    double weight;            /* times this */
    bool overflow;            /* the next step is skipped */
    bool begun;               /* and under way */

    struct buffer *header;
    uint32_t *words; /* [header_bytes / 4]: what the next run finds there */
    uint64_t header_bytes;
    struct buffer *verdict; /* interface/optimizer.h */
    uint64_t verdict_bytes;
    float told[VERDICT_WORDS]; /* its first floats, as the last step's norm left them */
    struct buffer *tensors_table;
    uint64_t table_bytes;
    struct way_program ways[WAYS];
    double *timed; /* optimizer_time's */
};

static inline bool optimizer_lamb(const struct optimizer *o) { return o->options.kind == OPTIMIZER_LAMB; }
/* One launch adds up what those of the phase before left. */
static inline bool phase_sums(enum phase phase) { return phase == PHASE_NORM || phase == PHASE_RATIOS; }

/* Finds the bytes of what the programs read. The arena is planned. */
void optimizer_program_plan(struct optimizer *o);
/* Makes what the programs read. The arena is there. */
bool optimizer_program_create(struct optimizer *o, struct error *e);
/* The kernels' calls of a way, without memory; those of phases that the kind has not, too. */
bool optimizer_calls_make(struct optimizer *o, enum way way, struct error *e);
/* Makes a program where it is not made yet. */
bool optimizer_way_create(struct optimizer *o, enum way way, struct error *e);
void optimizer_program_destroy(struct optimizer *o);
/* Gives the masters, where they are not the session's weights, what the model's files have. */
bool optimizer_masters(struct optimizer *o, struct error *e);
/* There is something to accumulate in. */
bool optimizer_accumulator(struct optimizer *o, struct error *e);
/* Submits phases `from` to `last`, behind what is under way. With PHASE_NORM the verdict's beginning is `told` when
 * slot 0 was waited for. `words`: the header is uploaded before. */
bool optimizer_submit(struct optimizer *o, enum way way, int slot, enum phase from, enum phase last, bool words,
                      struct error *e);
/* The same of what adds gradients to a further sum, from 1, or, `joins`, that to the one before. */
bool optimizer_submit_sum(struct optimizer *o, int sum, bool joins, struct error *e);

#endif
