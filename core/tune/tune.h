/* The parts of tuning that tests reach into. */
#ifndef WHERRY_TUNE_TUNE_H
#define WHERRY_TUNE_TUNE_H

#include "tune/trial.h"
#include "wherry/wherry_measure.h"

/* One finished measurement, as the log has it. */
struct measured {
    char work[WORK_TEXT], use[CHOICE_TEXT];
    bool confirmed; /* the second one, of those that were better in the first */
    wherry_tune_verdict verdict;
    wherry_time usual, other;
    double nmse;
    char text[160]; /* what was wrong */
};

/* What a group took in the step of a session; a run of it with the model's orders and the table's sizes took turns. */
struct stepped {
    uint64_t session; /* hash of the kind of session, the orders of its tensors and all of its kernels and sizes */
    uint64_t unit;    /* of the groups' works; 0: the whole step, after the units of its session */
    double reference; /* seconds of that other run */
    wherry_time time;
    bool wrong; /* its results are not those of the model's orders, or it failed: `text` says */
    char text[160];
};

/* All of them: tune/tune_log.c. */
struct tune_log {
    const struct host *host;
    struct tuning_key key;
    char path[TUNING_PATH];
    struct measured *entries;
    size_t count, room;
    struct stepped *steps;
    size_t n_steps, steps_room;
    struct index by_work, by_step;
};

/* Reads what an earlier run left, and leaves a file that can be added to: without damaged lines, and empty where it was
 * of another device, driver or library, or where `fresh`. */
bool tune_log_open(struct tune_log *log, const struct host *host, const struct tuning_key *key, bool fresh,
                   struct error *e);
/* On disk when it returns. */
bool tune_log_add(struct tune_log *log, const struct measured *entry, struct error *e);
const struct measured *tune_log_find(const struct tune_log *log, const char *work, const char *use, bool confirmed);
/* All of a session at once, the whole step last. */
bool tune_log_add_steps(struct tune_log *log, const struct stepped *steps, size_t n, struct error *e);
/* NULL: not measured. */
const struct stepped *tune_log_step(const struct tune_log *log, uint64_t session, uint64_t unit);
void tune_log_close(struct tune_log *log);

/* One tuning, of one session or of several with tensors in other orders, one after the other. */
struct tune {
    const struct host *host;
    struct tuning_key key;
    struct wherry_session *session;
    struct batch_shape shape; /* of the batch that was asked for */
    const wherry_batch *batch;
    wherry_tune_desc desc; /* with nothing left to choose */
    bool timer;
    wherry_progress progress;
    wherry_tune_callback callback;
    void *user;
    wherry_tune_summary *summary;
    struct tune_log log;
    struct tuning tuning; /* what was chosen, now and earlier */
    char path[TUNING_PATH];
    char (*works)[WORK_TEXT]; /* that are done */
    size_t n_works;
    size_t done, total;           /* candidates, and with several sessions their steps */
    size_t numbered;              /* kernels that were distributed to shares */
    wherry_tune_candidate *shown; /* [CHOICES_LEGAL]: of the work that is told about */
};

/* Sets up everything but the session: takes `desc` (NULL: the usual one), tests the device's timer, opens the files of
 * the device. */
bool tune_open(struct tune *t, struct wherry_device *device, const wherry_tune_desc *desc, struct error *e);
void tune_close(struct tune *t); /* accepts a zeroed one */
/* Forgets which works are done. */
void tune_restart(struct tune *t);
/* Adds the candidates of works that are not in works[] yet to `total`, and those works to works[]. The session need not
 * be prepared. */
bool tune_count(struct tune *t, struct wherry_session *s, struct error *e);
/* Whether the session has works that are not in works[]. */
bool tune_left(struct tune *t, struct wherry_session *s, bool *left, struct error *e);
/* Tunes the works of a prepared session that keeps its intermediates, as far as they are not in works[]. */
bool tune_session(struct tune *t, struct wherry_session *s, struct error *e);
/* The texts of a group's works with the sizes of the static table, of its calls one after the other. */
bool tune_group_works(struct wherry_session *s, int group, char works[GROUP_MAX_CALLS][WORK_TEXT], int *n,
                      struct error *e);
/* Compiles of a planned or prepared session's works, as far as they are not in works[], the share of the kernels that
 * `desc` says, the usual sizes' among them. */
bool tune_share(struct tune *t, struct wherry_session *s, struct error *e);
/* Takes back what was chosen for a group of this session. */
bool tune_drop(struct tune *t, struct wherry_session *s, int group, struct error *e);
bool tune_store(struct tune *t, struct error *e);

/* Compiles call `index` of a group with each of these sizes (NULL: the usual ones), the first one having the sizes
 * `first` (NULL: the table's). What can't be compiled is passed over. The session has its buffers, or small ones. */
void tune_compile(struct wherry_session *s, int group, int index, const struct choice *first,
                  const struct choice *const *choices, int n);
/* Whether an error says something about what was tried alone, so that a tuning goes on. */
bool tune_harmless(const struct error *e);
/* A text as a line of the log can have it. */
void tune_text(char to[160], const char *from);

/* Everything but the file of chosen sizes: verifies and times `list` (the usual sizes not among them) for call `index`
 * of a group, the first one having the sizes `first` (NULL: the table's), and says which is the best: -1 for the usual
 * ones. */
bool tune_work(struct tune *t, int group, int index, const struct choice *first, const char *work,
               const struct choices *list, wherry_tune_result *result, int *best, struct error *e);

#endif
