/* One group of a session with other sizes than the session's: made, checked against what the session's sizes gave, and
 * timed. */
#ifndef WHERRY_TUNE_TRIAL_H
#define WHERRY_TUNE_TRIAL_H

#include "runtime/session.h"

/* One of a group's outputs, with the bytes before and after it that nothing may write. */
struct expected {
    int tensor;           /* owns its memory */
    uint64_t at, bytes;   /* in its block, guards included */
    unsigned char *usual; /* [bytes]: with the session's sizes */
};

/* What the trials of one group share. Every tensor of the session holds the values of its last step. */
struct trials {
    struct wherry_session *session; /* keeps its intermediates */
    const struct batch_shape *shape;
    int group;
    uint32_t copies; /* of the group in one run, one after the other */
    int counted;     /* the first call whose time counts, by the device's timer */
    bool timer;      /* the device's can be trusted */
    struct expected expected[GROUP_MAX_TENSORS];
    int n_expected;
    unsigned char *found; /* as long as the longest of them */
};

struct trial {
    struct call calls[GROUP_MAX_CALLS];
    int n_calls;
    struct buffer *scratch;
    uint64_t scratch_bytes;
    struct step *steps; /* [copies][n_calls] */
    struct grid *grids;
    double *seconds;
    struct schedule schedule;
    struct program *program;
};

/* `forced` as for session_calls, not NULL. */
bool trial_make(const struct trials *t, const struct choice *const forced[GROUP_MAX_CALLS], struct trial *out,
                struct error *e);
void trial_unmake(const struct trials *t, struct trial *trial); /* accepts a zeroed or half-made one */
/* Seconds of one copy, by the device's timer, or by the host's clock where `timer` is false. */
bool trial_run(const struct trials *t, struct trial *trial, double *seconds, struct error *e);

/* Runs the usual sizes and keeps what they give; with other batches again. */
bool trials_expect(struct trials *t, struct trial *usual, struct error *e);
/* Runs the trial on outputs full of NaN and compares. wrong: "" or what is wrong with it. The outputs are then the
 * usual ones again. */
bool trial_check(struct trials *t, struct trial *trial, double *nmse, char wrong[160], struct error *e);
void trials_forget(struct trials *t);

#endif
