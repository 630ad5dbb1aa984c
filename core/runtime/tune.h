/* The parts of tuning that tests reach into. */
#ifndef WHERRY_RUNTIME_TUNE_H
#define WHERRY_RUNTIME_TUNE_H

#include "runtime/trial.h"
#include "wherry/wherry_measure.h"

enum verdict { VERDICT_RIGHT, VERDICT_WRONG, VERDICT_FAILED };

/* One finished measurement, as the log has it. */
struct measured {
    char work[WORK_TEXT], use[CHOICE_TEXT];
    bool confirmed; /* the second one, of those that were better in the first */
    enum verdict verdict;
    wherry_time usual, other;
    double nmse;
    char text[160]; /* what was wrong */
};

/* All of them: runtime/tune_log.c. */
struct tune_log {
    const struct host *host;
    struct tuning_key key;
    char path[TUNING_PATH];
    struct measured *entries;
    size_t count;
};

/* Reads what an earlier run left, and leaves a file that can be added to: without damaged lines, and empty where it was
 * of another device, driver or library, or where `fresh`. */
bool tune_log_open(struct tune_log *log, const struct host *host, const struct tuning_key *key, bool fresh,
                   struct error *e);
/* On disk when it returns. */
bool tune_log_add(struct tune_log *log, const struct measured *entry, struct error *e);
const struct measured *tune_log_find(const struct tune_log *log, const char *work, const char *use, bool confirmed);
void tune_log_close(struct tune_log *log);

/* One tuning. */
struct tune {
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
    size_t done, total; /* candidates */
};

/* Everything but the file of chosen sizes: verifies and times `list` (the usual sizes not among them) for call `index`
 * of a group, the first one having the sizes `first` (NULL: the table's), and says which is the best: -1 for the usual
 * ones. */
bool tune_work(struct tune *t, int group, int index, const struct choice *first, const char *work,
               const struct choices *list, wherry_tune_result *result, int *best, struct error *e);

#endif
