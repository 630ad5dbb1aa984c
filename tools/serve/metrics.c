/* What is counted while it serves, and the text that Prometheus reads of it. */
#include "metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "complain.h"

enum { BUCKETS = 36 }; /* the last has no upper end */

struct buckets {
    double ends[BUCKETS - 1];
    uint64_t count[BUCKETS];
    double sum;
};

struct metrics {
    _Atomic uint64_t counters[COUNTERS], failures[FAILURES];
    pthread_mutex_t mutex; /* of what follows */
    struct buckets histograms[HISTOGRAMS];
    double busy, bytes;
    double recent_seconds, recent_bytes;
};

/* Of times from 15 us, each end half as much again as the one before; of counts powers of two. */
static void make_ends(struct buckets *b, bool times)
{
    double end = times ? 15e-6 : 1;
    for (int i = 0; i < BUCKETS - 1; i++, end *= times ? 1.5 : 2) b->ends[i] = end;
}

struct metrics *metrics_create(void)
{
    struct metrics *m = need(calloc(1, sizeof *m));
    pthread_mutex_init(&m->mutex, NULL);
    for (int h = 0; h < HISTOGRAMS; h++) make_ends(&m->histograms[h], h < INPUT_LENGTH);
    return m;
}

void metrics_destroy(struct metrics *m)
{
    if (m) pthread_mutex_destroy(&m->mutex);
    free(m);
}

void metrics_count(struct metrics *m, enum counter counter, uint64_t more)
{
    atomic_fetch_add_explicit(&m->counters[counter], more, memory_order_relaxed);
}

uint64_t metrics_counted(const struct metrics *m, enum counter counter)
{
    return atomic_load_explicit(&((struct metrics *)m)->counters[counter], memory_order_relaxed);
}

void metrics_failed(struct metrics *m, enum failure failure)
{
    atomic_fetch_add_explicit(&m->failures[failure], 1, memory_order_relaxed);
}

void metrics_observe(struct metrics *m, enum histogram histogram, double value)
{
    struct buckets *b = &m->histograms[histogram];
    int i = 0;
    while (i < BUCKETS - 1 && value > b->ends[i]) i++;
    pthread_mutex_lock(&m->mutex);
    b->count[i]++;
    b->sum += value;
    pthread_mutex_unlock(&m->mutex);
}

void metrics_ran(struct metrics *m, double seconds, double bytes)
{
    const double kept = 0.95;
    pthread_mutex_lock(&m->mutex);
    m->busy += seconds;
    m->bytes += bytes;
    if (bytes > 0) {
        m->recent_seconds = kept * m->recent_seconds + seconds;
        m->recent_bytes = kept * m->recent_bytes + bytes;
    }
    pthread_mutex_unlock(&m->mutex);
}

static pthread_mutex_t *lock_of(const struct metrics *m) { return &((struct metrics *)m)->mutex; }

double metrics_bandwidth(const struct metrics *m)
{
    pthread_mutex_lock(lock_of(m));
    double value = m->recent_seconds > 0 ? m->recent_bytes / m->recent_seconds : 0;
    pthread_mutex_unlock(lock_of(m));
    return value;
}

double metrics_busy(const struct metrics *m)
{
    pthread_mutex_lock(lock_of(m));
    double value = m->busy;
    pthread_mutex_unlock(lock_of(m));
    return value;
}

double metrics_quantile(const struct metrics *m, enum histogram histogram, double q)
{
    const struct buckets *b = &m->histograms[histogram];
    uint64_t all = 0, below = 0;
    double end = 0;
    pthread_mutex_lock(lock_of(m));
    for (int i = 0; i < BUCKETS; i++) all += b->count[i];
    for (int i = 0; all && i < BUCKETS; i++) {
        below += b->count[i];
        end = b->ends[i < BUCKETS - 1 ? i : BUCKETS - 2];
        if ((double)below >= q * (double)all) break;
    }
    pthread_mutex_unlock(lock_of(m));
    return end;
}

/* ---- as text ---- */

static const struct {
    const char *name, *labels, *help;
} counter_names[COUNTERS] = {
    [COUNT_SINGLE] = {"te_request_count", "{method=\"single\"}", "Requests, of one text or of a list."},
    [COUNT_BATCH] = {"te_request_count", "{method=\"batch\"}", NULL},
    [COUNT_SUCCESS_SINGLE] = {"te_request_success", "{method=\"single\"}", "Requests that were answered."},
    [COUNT_SUCCESS_BATCH] = {"te_request_success", "{method=\"batch\"}", NULL},
    [COUNT_EMBED] = {"te_embed_count", "", "Texts to embed."},
    [COUNT_EMBED_SUCCESS] = {"te_embed_success", "", "Texts that were embedded."},
    [COUNT_PREDICT] = {"te_predict_count", "", "Texts and pairs to score."},
    [COUNT_PREDICT_SUCCESS] = {"te_predict_success", "", "Texts and pairs that were scored."},
    [COUNT_TOKENS] = {"wherry_tokens_total", "", "Tokens that ran."},
    [COUNT_BATCHES] = {"wherry_batches_total", "", "Batches that ran."},
    [COUNT_RELOADS] = {"wherry_reloads_total", "", "Times that the models were read again."},
    [COUNT_RELOADS_FAILED] = {"wherry_reloads_failed_total", "",
                              "Times that they could not be, and the old ones stayed."},
    [COUNT_DEVICES_LOST] = {"wherry_devices_lost_total", "", "Times that the device was lost."},
    [COUNT_CONNECTIONS_CUT] = {"wherry_connections_cut_total", "", "Connections that were cut for being too slow."},
};

static const char *const failure_names[FAILURES] = {"",           "batch_size",   "dropped",      "inference",
                                                    "model_type", "overloaded",   "tokenization", "validation",
                                                    "unhealthy",  "unauthorized", "timeout"};

static const struct {
    const char *name, *help;
} histogram_names[HISTOGRAMS] = {
    [TIME_REQUEST] = {"te_request_duration", "Seconds from a request's last byte to its answer."},
    [TIME_TOKENIZATION] = {"te_request_tokenization_duration", "Of them, tokenizing, of a text."},
    [TIME_QUEUE] = {"te_request_queue_duration", "Of them, waiting for the batch before."},
    [TIME_INFERENCE] = {"te_request_inference_duration", "Of them, in a batch that ran."},
    [TIME_EMBED] = {"te_embed_duration", "The same of requests for embeddings."},
    [TIME_EMBED_TOKENIZATION] = {"te_embed_tokenization_duration", "Of them, tokenizing, of a text."},
    [TIME_EMBED_QUEUE] = {"te_embed_queue_duration", "Of them, waiting for the batch before."},
    [TIME_EMBED_INFERENCE] = {"te_embed_inference_duration", "Of them, in a batch that ran."},
    [INPUT_LENGTH] = {"te_request_input_length", "Tokens of a text."},
    [BATCH_SIZE] = {"te_batch_next_size", "Texts of a batch."},
    [BATCH_TOKENS] = {"te_batch_next_tokens", "Tokens of a batch."},
};

static void head(struct bytes *out, const char *name, const char *type, const char *help)
{
    bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_histogram(const struct metrics *m, int h, struct bytes *out)
{
    const struct buckets *b = &m->histograms[h];
    const char *name = histogram_names[h].name;
    uint64_t below = 0;
    head(out, name, "histogram", histogram_names[h].help);
    for (int i = 0; i < BUCKETS; i++) {
        below += b->count[i];
        bytes_format(out, "%s_bucket{le=\"", name);
        if (i < BUCKETS - 1)
            bytes_number(out, b->ends[i]);
        else
            bytes_text(out, "+Inf");
        bytes_format(out, "\"} %llu\n", (unsigned long long)below);
    }
    bytes_format(out, "%s_sum ", name);
    bytes_number(out, b->sum);
    bytes_format(out, "\n%s_count %llu\n", name, (unsigned long long)below);
}

static void write_sum(struct bytes *out, const char *name, const char *help, double value)
{
    head(out, name, "counter", help);
    bytes_format(out, "%s ", name);
    bytes_number(out, value);
    bytes_text(out, "\n");
}

void metrics_write(const struct metrics *m, struct bytes *out)
{
    for (int c = 0; c < COUNTERS; c++) {
        if (counter_names[c].help) head(out, counter_names[c].name, "counter", counter_names[c].help);
        bytes_format(out, "%s%s %llu\n", counter_names[c].name, counter_names[c].labels,
                     (unsigned long long)metrics_counted(m, (enum counter)c));
    }
    head(out, "te_request_failure", "counter", "Requests that failed, by why.");
    for (int f = 1; f < FAILURES; f++)
        bytes_format(out, "te_request_failure{err=\"%s\"} %llu\n", failure_names[f],
                     (unsigned long long)atomic_load(&((struct metrics *)m)->failures[f]));
    pthread_mutex_lock(lock_of(m));
    for (int h = 0; h < HISTOGRAMS; h++) write_histogram(m, h, out);
    double busy = m->busy, bytes = m->bytes;
    pthread_mutex_unlock(lock_of(m));
    write_sum(out, "wherry_inference_seconds_total", "Seconds that batches ran.", busy);
    write_sum(out, "wherry_inference_bytes_total", "Bytes that they moved, each tensor of a kernel counted once.",
              bytes);
}

void metrics_gauge(struct bytes *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    bytes_format(out, "%s ", name);
    bytes_number(out, value);
    bytes_text(out, "\n");
}
