/* What an optimizer is inside. */
#ifndef WHERRY_TRAIN_STATE_H
#define WHERRY_TRAIN_STATE_H

#include "train/arena.h"
#include "train/optimizer.h"

/* The three kernels of a launch, in the order of the program's steps: all launches of the first, then of the second,
 * then, with LAMB, of the third. */
enum pass { PASS_ADD, PASS_STEP, PASS_CHANGE, PASSES };

struct optimizer {
    struct wherry_session *session;
    struct optimizer_options options; /* with an own `tensors` */
    struct optimizer_tensor *tensors; /* [count] */
    struct optimizer_state state;
    struct arena arena;
    uint32_t parts;           /* the arena's, bits 1 << ARENA_* */
    bool accumulated, summed; /* there is a gradient; and sums of its squares */
    bool overflow;            /* the next step is skipped */

    struct buffer *header;
    uint32_t *words; /* [header_bytes / 4]: what the next run finds there */
    uint64_t header_bytes;
    float *partials; /* of all launches, as they were read */
    double *ratios;  /* [trained]: LAMB's */
    struct call calls[PASSES];
    int n_passes;
    /* [n_passes * n_launches], then for each of the arena's further sums two times n_launches: gradients added to it,
     * and it to the sum before. */
    struct step *steps;
    struct grid *grids; /* likewise */
    struct schedule schedule;
    struct program *program;
};

/* Makes the program and what it reads; the arena is there. */
bool optimizer_program_create(struct optimizer *o, struct error *e);
void optimizer_program_destroy(struct optimizer *o);
/* Gives the masters, where they are not the session's weights, what the model's files have. */
bool optimizer_masters(struct optimizer *o, struct error *e);
/* Runs all launches of a pass with the header's words. */
bool optimizer_run(struct optimizer *o, enum pass pass, struct error *e);
/* The same of what adds gradients to a further sum, from 1, or, `joins`, that to the one before. */
bool optimizer_run_sum(struct optimizer *o, int sum, bool joins, struct error *e);
/* Reads the sums that a pass left: of each chunk number `chunk` of a launch the `sets` floats from chunk * sets on. */
bool optimizer_read_partials(struct optimizer *o, struct error *e);
/* The number of the float of the first chunk of launch `l` among them. */
static inline size_t optimizer_partial(const struct launch_range *l) { return (size_t)(l->partials.begin / 4); }

#endif
