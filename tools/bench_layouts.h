/* What `wherry bench layouts` is made of: its works, and their compiling by several processes (bench_layouts_ahead.c).
 */
#ifndef WHERRY_TOOLS_BENCH_LAYOUTS_H
#define WHERRY_TOOLS_BENCH_LAYOUTS_H

#include "layouts_log.h"
#include "layouts_paper.h"
#include "session.h"

struct bench {
    struct tool tool;
    struct options options; /* with what nobody said filled in */
    struct layouts_log log;
    uint32_t sizes[16]; /* of paper_letters */
    double begun;
    int works;                    /* that are left to do */
    char kernels[1024];           /* the folder of what several processes compiled; "": there is none */
    double shipped[LAYOUT_WORKS]; /* seconds, NAN: not measured */
    char shipped_by[LAYOUT_WORKS][64];
    json_t *list;
};

/* One kernel or contraction. */
struct work {
    struct bench *bench;
    int number;
    const char *name;  /* the paper's */
    const char *takes; /* what wherry_layout_bench_desc calls it */
    wherry_layout_bench *runs;
    uint64_t *drawn;
    size_t n_drawn;
    double until; /* of system_seconds() */
};

bool layouts_progress(const char *what, size_t done, size_t total, void *user);
/* Whether --only names works that there are; an exit code. */
int layouts_works_check(const struct options *options);
/* Whether --only has it. */
bool layouts_work_wanted(const struct options *options, int number);
/* With what is drawn of it, the default first, what is from everywhere in the space; the same for the same seed. An
 * exit code. Closed in any case. */
int layouts_work_open(struct bench *bench, int number, struct work *w);
void layouts_work_close(struct work *w);

/* Has several processes compile what is going to be measured, where that gains, into a folder beside the log; an exit
 * code. */
int layouts_compile_ahead(struct bench *bench);
/* What one of those processes does. */
int layouts_share_compile(struct bench *bench, uint32_t share, uint32_t shares);
void layouts_ahead_remove(const struct bench *bench);

#endif
