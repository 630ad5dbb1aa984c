/* Gradients on their way between processes that train together: how long, and how much of it is waited for. */
#ifndef WHERRY_TOOLS_RANK_PREDICT_H
#define WHERRY_TOOLS_RANK_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a message: its bytes go at `rate`, and arrive `latency` later; before the next one lies `overhead`. */
struct rank_link {
    double rate, latency, overhead; /* bytes and seconds */
    double copy;                    /* bytes a second between the device and the host, each way; 0: takes no time */
    double float_bytes;             /* of a gradient's float in a message */
};

/* Gradients that go together. */
struct rank_bucket {
    double floats;
    double ready; /* seconds after the step's begin */
    bool table;   /* of the word table, of which touched rows go */
};

/* A step of one process, as it was measured. */
struct rank_step {
    double seconds, backward_end, optimizer;
    struct rank_bucket *buckets; /* in the order in which they go */
    size_t n_buckets;
    double table_share; /* of the table that goes, with the tokens of all processes */
};

struct rank_prediction {
    double step, exposed, exchange; /* seconds; exchange: from the first bucket's begin to the last one's end */
};

/* With so many processes; `hidden`: buckets go when their gradients are there, else after the backward pass. */
struct rank_prediction rank_predict(const struct rank_step *step, const struct rank_link *link, uint32_t processes,
                                    bool hidden);

#endif
