/* What is counted while it serves, and the text that Prometheus reads of it: text-embeddings-inference's names, and our
 * own. Every function may be called by any thread. */
#ifndef WHERRY_SERVE_METRICS_H
#define WHERRY_SERVE_METRICS_H

#include <stdint.h>

#include "bytes.h"

enum counter {
    COUNT_SINGLE, /* requests of one text */
    COUNT_BATCH,  /* of a list */
    COUNT_SUCCESS_SINGLE,
    COUNT_SUCCESS_BATCH,
    COUNT_EMBED, /* texts */
    COUNT_EMBED_SUCCESS,
    COUNT_PREDICT,
    COUNT_PREDICT_SUCCESS,
    COUNT_TOKENS, /* that ran */
    COUNT_BATCHES,
    COUNT_RELOADS,
    COUNT_RELOADS_FAILED,
    COUNT_DEVICES_LOST,
    COUNT_CONNECTIONS_CUT, /* for being slow */
    COUNTERS
};

/* Why a request failed; the order is that of its names. */
enum failure {
    FAILED_NOT = 0,
    FAILED_BATCH_SIZE,
    FAILED_DROPPED, /* its client went away */
    FAILED_INFERENCE,
    FAILED_MODEL_TYPE,
    FAILED_OVERLOADED,
    FAILED_TOKENIZATION,
    FAILED_VALIDATION,
    FAILED_UNHEALTHY,
    FAILED_UNAUTHORIZED,
    FAILED_TIMEOUT,
    FAILURES
};

enum histogram {
    TIME_REQUEST,
    TIME_TOKENIZATION,
    TIME_QUEUE,
    TIME_INFERENCE,
    TIME_EMBED,
    TIME_EMBED_TOKENIZATION,
    TIME_EMBED_QUEUE,
    TIME_EMBED_INFERENCE,
    INPUT_LENGTH,
    BATCH_SIZE,
    BATCH_TOKENS,
    HISTOGRAMS
};

struct metrics;
struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics);
void metrics_count(struct metrics *metrics, enum counter counter, uint64_t more);
uint64_t metrics_counted(const struct metrics *metrics, enum counter counter);
void metrics_failed(struct metrics *metrics, enum failure failure);
void metrics_observe(struct metrics *metrics, enum histogram histogram, double value);
/* A batch ran so long and moved so many bytes by the plan's account of them; 0: not known. */
void metrics_ran(struct metrics *metrics, double seconds, double bytes);
/* Bytes a second over the last batches, weighed by age; 0: none ran, or nothing is known of them. */
double metrics_bandwidth(const struct metrics *metrics);
double metrics_busy(const struct metrics *metrics); /* seconds that batches ran, in all */
/* The value that a share of `q` of what was observed is below: the bucket's upper end. 0: nothing was observed. */
double metrics_quantile(const struct metrics *metrics, enum histogram histogram, double q);
void metrics_write(const struct metrics *metrics, struct bytes *out);
/* One more line of the same text: a gauge. */
void metrics_gauge(struct bytes *out, const char *name, const char *help, double value);

#endif
