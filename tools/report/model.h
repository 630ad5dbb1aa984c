/* A record (schema rl-1, docs/report.schema.json) as structures: read once from its JSON, derived from, written into
 * every format. What is null there is NAN, "" or 0 here, and what nobody but the page reads stays in the tree alone,
 * which goes on with the structures: their texts are its. */
#ifndef WHERRY_TOOLS_REPORT_MODEL_H
#define WHERRY_TOOLS_REPORT_MODEL_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wherry/wherry_measure.h>

#include "report/histogram.h"

#define RECORD_SCHEMA "rl-1"

/* What caches hold before a run. */
enum mode { WARM, COLD, MODES };
extern const char *const mode_names[MODES];

enum { CLASSES = WHERRY_CLASS_ELEMENTWISE + 1, REGIMES = WHERRY_REGIME_COMPUTE + 1 };
/* As they are listed. */
extern const wherry_regime regime_order[REGIMES];

/* The parts of a training step that are timed apart, as they are listed. Of layers the first three, of whole models all
 * others but BOTH. */
enum { STEP_FORWARD, STEP_BACKWARD, STEP_BOTH, STEP_LOSS, STEP_OPTIMIZER, STEP_PARTS };
extern const char *const step_names[STEP_PARTS];

/* What the memory of a whole model's training is for, as they are listed; the last is the total. */
enum { MEMORY_ROWS = 10 };
struct memory_row {
    const char *name, *text;
};
extern const struct memory_row memory_rows[MEMORY_ROWS];

/* The percentiles of a load. */
enum { LOAD_P50, LOAD_P90, LOAD_P99, LOAD_P999, LOAD_PERCENTILES };
extern const unsigned load_per_mille[LOAD_PERCENTILES];
/* A record has at most so many of each. */
enum { RECORD_LOADS = 64, RECORD_IDLES = 64 };

/* ---- the parts of a record ---- */

struct record_device {
    uint64_t dev; /* what the rest of the record calls it */
    const char *id, *name, *backend, *driver, *api, *quirks;
    const char *device_class; /* "": not told */
    double peak_bandwidth;    /* theoretical */
    const char *peak_source;
    double cache_bytes;
    const char *timer_kind, *timer_status, *timer_reason; /* "": not tested */
};

struct record_ceiling {
    uint64_t dev;
    const char *id, *unit, *config, *dtype, *data_kind;
    double value, amount, footprint_bytes;
    bool best; /* of its id: what is divided by */
    wherry_time time;
};

struct record_point {
    uint64_t dev;
    double bytes;
    wherry_time time;
};

/* Bytes. */
struct record_bytes {
    double read, written;
};

/* One of an operation's kernels. */
struct record_kernel {
    const char *name, *variant, *reason;
    double registers, spilled_bytes, shared_bytes;
};

/* With warm caches, or with cold ones. */
struct record_mode {
    wherry_time time;
    bool is_derived; /* there is what follows: */
    wherry_derived derived;
    const char *regime; /* its name. A record may have another one than we know */
};

struct record_op {
    const char *id, *plan, *class_name, *phase, *kernel, *variant, *store, *accumulate;
    uint64_t dev, launches, remeasured;
    unsigned class_; /* a wherry_class; CLASSES: another one than we know */
    double layer, paper_row, operators, flops;
    struct record_bytes q, d_model, requested;
    double d_counter, footprint_bytes;
    double share, cold_sets;
    bool exceeds_peak, timer_ok;
    struct record_mode modes[MODES];
    struct record_kernel *kernels;
    size_t kernel_count;
};

/* Of a plan's operations of one class. */
struct record_class {
    const char *name;
    double seconds, flops, bytes, share;
};

struct record_step {
    bool measured;
    double host_seconds, device_seconds;
};

struct record_plan {
    const char *name, *dtype, *layouts;
    uint64_t dev, groups, launches, repeats;
    double device_bytes, saved_bytes, warm_seconds;
    wherry_time host, kernels; /* of a step */
    double gap_seconds, limit_seconds, headroom;
    bool has_steps;
    struct record_step steps[STEP_PARTS];
    bool has_memory;
    double memory[MEMORY_ROWS]; /* bytes */
    double processes;           /* that train together, 0: alone; of their exchange in a step: */
    double exchange_bytes, exchange_seconds, exchange_hidden;
    struct record_class *classes;
    size_t class_count;
    bool has_regimes;
    double regimes[REGIMES]; /* seconds */
    const char **notes;
    size_t note_count;
    struct record_op **ops; /* the record's, in its order */
    size_t op_count;
};

/* Requests of some clients, each with one at a time; times are of whole requests, in seconds. */
struct record_load {
    uint64_t dev, clients;
    double warm_seconds, seconds;
    double waited_seconds; /* of all requests, for the session */
    struct histogram *histogram;
    uint64_t requests;
    double rate, mean, min, max;
    double percentiles[LOAD_PERCENTILES]; /* NAN: too few requests */
};

/* One request after a pause. */
struct record_idle {
    uint64_t dev;
    double idle_seconds, seconds;
};

struct record_warning {
    json_t *json; /* its own */
    const char *code, *plan, *op, *text;
};

struct record {
    json_t *json;       /* its own */
    const char *status; /* "ok", "drift" */
    const char *run_id, *utc;
    bool has_sentinel;
    double first_seconds, last_seconds, drift; /* of the sentinel */
    struct {
        const char *kind, *model;
        double model_layers, sequences, tokens;
        bool has_lengths, has_training;
        double *lengths;
        size_t length_count;
        double layers, dropout; /* of a training */
        bool pre_layernorm;
        const char *activation, *save;
        const char *task, *optimizer; /* of whole models; "": none */
        const char *sessions;         /* of a load: "shared", "per-client" */
        bool tokenized;               /* its requests are texts, not token ids */
    } workload;
    const char *session_plan, *session_dtype; /* of a load */
    double session_bytes;
    struct record_device *devices; /* behind the last of each list is an empty one */
    struct record_ceiling *ceilings;
    struct record_point *sweep, *launch;
    struct record_plan *plans;
    struct record_op *ops;
    struct record_warning *warnings;
    struct record_load *loads;
    struct record_idle *idles;
    size_t load_count, idle_count;
    size_t device_count, ceiling_count, sweep_count, launch_count, plan_count, op_count, warning_count;
    size_t stray;             /* the first operation whose plan the record lacks; op_count: none */
    struct record_op **owned; /* what plans' ops point into */
};

/* ---- reading, writing ---- */

/* Of a tree whose fields are there with their types (report/validate.h), of which it keeps a reference. To be closed.
 */
void record_open(json_t *json, struct record *record);
void record_close(struct record *record);
/* Sets in the tree what record_derive has changed. */
void record_write(struct record *record);
/* Adds a warning; `plan` and `op` may be NULL. */
void record_warn(struct record *record, const char *code, const char *plan, const char *op, const char *text);

/* Entries for a tree that is being made. */
json_t *ceiling_json(const struct record_ceiling *ceiling);
json_t *point_json(const struct record_point *point);
json_t *op_json(const struct record_op *op);
json_t *kernel_json(const struct record_kernel *kernel);
json_t *load_json(const struct record_load *load);
json_t *idle_json(const struct record_idle *idle);
json_t *warning_json(const char *code, const char *plan, const char *op, const char *text);
/* Into what the session says of the plan. */
void plan_write(json_t *json, const struct record_plan *plan);

/* ---- what is in it ---- */

/* NULL: none of the record's is called so. */
const struct record_device *record_device_of(const struct record *record, uint64_t dev);
/* The value of the device's best ceiling of this id; 0: none. */
double record_ceiling(const struct record *record, uint64_t dev, const char *id);
/* Whether the record has ceilings of the device. */
bool record_has_roof(const struct record *record, uint64_t dev);
/* The operation in the record's tree. */
const json_t *record_op_json(const struct record *record, const struct record_op *op);
/* Whether it is the loss' or the optimizer's, which have types of their own. */
bool op_outside(const struct record_op *op);
/* The part of an operation's id after "layer.N.". */
const char *op_kind(const struct record_op *op);
static inline bool time_known(const wherry_time *time) { return !isnan(time->median); }
static inline double bytes_sum(struct record_bytes bytes) { return bytes.read + bytes.written; }

#endif
