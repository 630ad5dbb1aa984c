/* Batches of training data: examples in an order that a seed draws for each epoch, tokenized, packed back to back. */
#ifndef WHERRY_TOOLS_TRAIN_BATCHES_H
#define WHERRY_TOOLS_TRAIN_BATCHES_H

#include <jansson.h>
#include <wherry/wherry_train.h>

#include "train/example.h"
#include "train/lines.h"

struct batches_desc {
    wherry_context *context;
    const wherry_model *model;
    const wherry_model_info *info;
    uint64_t seed;
    uint32_t examples;   /* in a batch, at most */
    uint32_t tokens;     /* the same, of tokens; an example that has more alone is an error. 0: no limit */
    uint32_t max_length; /* of a text, in tokens */
    bool truncate;       /* longer ones are cut; else they are errors */
    bool in_order;       /* as the files have them, for evaluation; no example is put off */
    double masked;       /* TASK_MLM: share of tokens that are predicted */
    uint32_t labels;     /* TASK_MLM: of a text, at most; 0: no limit */
    bool whole_words;
};

/* Where in the data a batch ends. Copied by position_copy, freed by position_free; zeroed is the begin. */
struct position {
    uint64_t epoch, place; /* next place of the epoch's order */
    /* Examples that stood before it and had to wait, as one of their texts was in the batch already; first come, first
     * served. */
    uint64_t *waiting;
    size_t n_waiting, room;
};

/* Sequences of a batch, column by column: all first texts, then all second ones, ... Classes and masks: one sequence
 * for each example. */
struct train_batch {
    uint32_t examples, columns;
    uint64_t *numbers; /* [examples]: lines of the data */
    uint32_t sequences, tokens;
    uint32_t *offsets;    /* [sequences + 1] */
    int32_t *ids, *types; /* [tokens] */
    int32_t *labels;      /* [n_labels] */
    int32_t *next;        /* [sequences]: wherry_batch.next; NULL: there is none */
    float *values;        /* [n_values] */
    size_t n_labels, n_values;
    struct position after;
    bool last; /* of its epoch */
};

struct batches {
    struct batches_desc desc;
    struct example_form *form;
    struct lines *lines;
    struct position position;
    struct example example;
    struct fill *fill; /* the batch that is being filled */
    bool counting;     /* which is not wanted, but that it can be filled */
};

/* `lines` and `form` outlive it. */
void batches_open(struct batches *batches, const struct batches_desc *desc, struct lines *lines,
                  struct example_form *form);
void batches_close(struct batches *batches);
/* The next batch, which does not reach into another epoch; epochs follow each other without end. Complains and returns
 * an exit code. */
int batches_next(struct batches *batches, struct train_batch *out);
void train_batch_free(struct train_batch *batch);
/* Batches of an epoch: reads all of it, and, by tokens, tokenizes it. The position stays. */
int batches_count(struct batches *batches, uint64_t epoch, uint64_t *count);

json_t *position_json(const struct position *position);
/* False: it is no position in so many lines. */
bool position_read(struct position *position, const json_t *json, uint64_t lines);
void position_copy(struct position *to, const struct position *from);
void position_free(struct position *position);

/* Parts of a batch that run one after the other: whole sequences in their order, at most so many tokens each. */
struct parts {
    wherry_batch *batches; /* [count], pointing into the train_batch */
    uint32_t *offsets;
    size_t count, room;
    uint32_t longest; /* part in tokens */
    /* Of a step in shards: batches of one after the other, and what they point into, sequences shard by shard. */
    wherry_shard *shards; /* [n_shards] */
    uint32_t n_shards;
    int32_t *ids, *types, *next;
    uint32_t *ends;
    size_t tokens_room;
};
/* What one has at most. */
struct part_limits {
    uint32_t tokens, sequences;
    uint32_t labels; /* of tokens, that count; 0: whatever it has */
};
void parts_of(struct parts *parts, const struct train_batch *batch, const struct part_limits *limits);
/* The same of a batch that is divided into shards of whole examples, with about as many tokens each. */
void parts_of_shards(struct parts *parts, const struct train_batch *batch, uint32_t shards,
                     const struct part_limits *limits);
void parts_free(struct parts *parts);

#endif
