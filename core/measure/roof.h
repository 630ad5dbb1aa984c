/* What a roof is made of while it is measured: a bench with memory, and works, each one kernel at one size. */
#ifndef WHERRY_MEASURE_ROOF_H
#define WHERRY_MEASURE_ROOF_H

#include "interface/interface.h"
#include "interface/roof.h"
#include "runtime/context.h"
#include "wherry/wherry_measure.h"

struct wherry_roof {
    struct wherry_context *context;
    wherry_ceiling *ceilings;
    wherry_roof_point *sweep, *launches;
    size_t n_ceilings, n_sweep, n_launches;
    uint64_t cache_bytes;
    wherry_timer_info timer;
    wherry_time sentinel_first, sentinel_last;
};

enum {
    ROOF_HEADER_BYTES = 256,
    ROOF_WORKS = 160,  /* that a bench can have */
    WORK_STEPS = 5,    /* of one program; by the device's timer one is measured, by the host's clock all */
    BLOCK_WORDS = 256, /* of one look at a result */
    BENCH_BUFFERS = 3  /* operand, second operand, result */
};

struct bench {
    struct wherry_device *device;
    const struct backend *backend;
    struct backend_device *handle;
    const struct device_limits *limits;
    const struct host *host;
    const wherry_roof_desc *desc; /* its defaults filled in */
    wherry_progress progress;     /* NULL: none */
    void *user;
    uint64_t bytes;                        /* of each buffer */
    struct buffer *buffers[BENCH_BUFFERS]; /* filled with words made with salt 1, 2 and 3 */
    struct buffer *results, *headers;
    uint64_t result_bytes;
    uint32_t n_headers;
    uint32_t *sums;      /* of the first operand's blocks; NULL until they are needed */
    uint32_t mask, bits; /* of made words: floats from 1 to 2 of either sign, or zeros */
    bool host_clock;     /* the device's timer is not to be trusted */
    struct work *works;  /* [ROOF_WORKS] */
    size_t n_works;
};

enum work_kind { WORK_MEMORY, WORK_ARITHMETIC, WORK_MATRIX };

/* One kernel at one size. Lives in its bench's array, for programs point into it. */
struct work {
    wherry_ceiling ceiling; /* without value and time. Its id may stand in several works */
    enum work_kind kind;
    uint32_t form, width, items; /* ROOF_READ ...; words of an access; accesses of a work-item in one turn */
    uint64_t span;               /* bytes of each buffer that are used */
    double passes;               /* times that the whole span is moved in one run */
    bool lead;                   /* a run right before the measured one puts its data into the caches */
    uint32_t words[HEADER_WORDS];
    struct call call;
    struct step steps[WORK_STEPS];
    struct schedule schedule;
    struct program *program;
    uint32_t groups;
    uint64_t header_at;
    double *samples; /* [room] */
    uint32_t n, room;
    double first;
    double one; /* by the host's clock: the least that a single run took; 0: none yet */
};

/* ---- roof_work.c ---- */

/* Memory of `bytes` for each buffer, 0: as large as the device and the descriptor ask for. Half-opened ones may be
 * closed. */
bool bench_open(struct bench *b, struct wherry_device *device, const wherry_roof_desc *desc, struct error *e);
void bench_close(struct bench *b);
/* Whether a ceiling was asked for. */
bool bench_wants(const struct bench *b, const char *id);
bool bench_progress(const struct bench *b, const char *what, size_t done, size_t total, struct error *e);
struct grid groups_grid(uint32_t groups);

/* A new work of the bench, NULL where there is no room. Its fields, call and words are for the caller to fill in. */
struct work *work_add(struct bench *b, const char *id, enum work_kind kind, struct error *e);
/* Compiles the kernels of works first to the last in parallel, and makes their programs. */
bool works_prepare(struct bench *b, size_t first, struct error *e);
/* Gives the device new words. */
bool work_write_words(struct bench *b, struct work *w, struct error *e);
/* Runs the first `steps` of the program's; seconds [WORK_STEPS] by the device's timer, NULL: none; *host: what the host
 * waited for. */
bool work_run(struct bench *b, struct work *w, int steps, double *seconds, double *host, struct error *e);
/* One measurement. A timer that lies fails it: the error's `timer` says how. */
bool work_sample(struct bench *b, struct work *w, double *seconds, struct error *e);
/* Measures all in turn, `rounds` times, or at least `least` times where that takes longer than `seconds`. */
bool works_measure(struct bench *b, size_t first, size_t end, uint32_t rounds, uint32_t least, double seconds,
                   const char *what, struct error *e);
/* The samples' summary, each divided by the passes. */
wherry_time work_time(struct work *w);
/* Until three windows agree within 1 %, and at least `seconds`; no longer than four times that. */
bool work_warm(struct bench *b, struct work *w, double seconds, struct error *e);

/* ---- roof_memory.c ---- */

/* Gives the buffers their contents on the device, which also touches every page of them. */
bool memory_fill(struct bench *b, struct error *e);
/* Moves `span` bytes of each buffer once, or in `turns` times as many chunks over and over (0: once). */
struct work *memory_work(struct bench *b, const char *id, uint32_t form, uint32_t width, uint32_t items, uint32_t local,
                         uint64_t span, uint64_t least_moved, struct error *e);
/* Runs it once, and looks whether what it should have written is there. */
bool work_verify(struct bench *b, struct work *w, struct error *e);
bool dram_add(struct bench *b, struct error *e);
bool sweep_add(struct bench *b, struct error *e);
/* The copies of the launch fit. */
bool launches_add(struct bench *b, struct error *e);
bool cache_add(struct bench *b, uint64_t cache_bytes, struct error *e);
/* The last cache's edge in a sweep of ascending sizes; 0: there is none. */
uint64_t sweep_edge(const wherry_roof_point *points, size_t n);

/* ---- roof_compute.c ---- */

/* A chain of arithmetic that takes `seconds` at about the device's rate, once work_calibrate has run it. */
struct work *arithmetic_work(struct bench *b, const char *id, bool f16, uint32_t items, uint32_t local,
                             struct error *e);
bool work_calibrate(struct bench *b, struct work *w, double seconds, struct error *e);
void arithmetic_turns(struct work *w, uint32_t turns);
bool arithmetic_verify(struct bench *b, struct work *w, struct error *e);
bool compute_add(struct bench *b, struct error *e);

/* ---- roof_launch.c ---- */

/* a and b of T = a + V/b by least squares of relative errors; far ones count little. */
void launch_fit(const double *bytes, const double *seconds, size_t n, double *a, double *b);
/* Time between dependent kernels, and of a run with one: two ceilings, as samples per run. */
bool launch_gaps(struct bench *b, double *gaps, double *submits, uint32_t n, struct error *e);

#endif
