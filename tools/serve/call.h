/* One request on its way: what its client asked, the texts of it, what came out, and the answer. */
#ifndef WHERRY_SERVE_CALL_H
#define WHERRY_SERVE_CALL_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <wherry/wherry.h>

#include "bytes.h"
#include "metrics.h"

/* What a request wants of the model. */
enum task {
    TASK_NATURAL, /* what the model is for */
    TASK_EMBED,
    TASK_EMBED_ALL,
    TASK_EMBED_SPARSE,
    TASK_RERANK,
    TASK_PREDICT,
    TASK_SIMILARITY,
    TASK_TOKENIZE,
    TASK_DECODE
};
/* Whose words it is asked and answered in. */
enum dialect { DIALECT_TEI, DIALECT_OPENAI, DIALECT_RANK };

/* Of an error's body, in the order of their names. */
enum error_type { ERROR_UNHEALTHY, ERROR_BACKEND, ERROR_OVERLOADED, ERROR_VALIDATION, ERROR_TOKENIZER, ERROR_EMPTY };

enum direction { TRUNCATE_AS_FILES, TRUNCATE_RIGHT, TRUNCATE_LEFT };

struct call;

/* A text, and its pair where it has one. */
struct passage {
    const char *text, *pair; /* pair NULL: none */
    size_t text_bytes, pair_bytes;
};

/* One text, or one pair. */
struct item {
    struct call *call;
    struct item *next; /* in the queue */
    struct passage text;
    const json_t *given; /* ids instead of a text, NULL: none */
    int32_t *ids, *types;
    uint32_t count;
    float *values; /* what came out: `rows` rows of `width` */
    uint32_t rows, width;
    double queued;
};

struct engine;
struct served;

struct call {
    /* The connection's. */
    void *connection;
    int socket;
    struct bytes body;
    bool discard;              /* the body is read and not kept */
    size_t discarded, counted; /* of the body: not kept; among all that are being received */

    enum task task;
    enum dialect dialect;
    struct engine *engine; /* what serves it, held until it is answered; NULL: none */
    struct served *model;
    json_t *json; /* the body, into which texts point */

    /* What was asked. */
    bool list, truncate, normalize, raw_scores, return_text, add_special, skip_special, base64;
    enum direction direction;
    const char *prompt;      /* NULL: none */
    const char *instruction; /* of pairs; NULL: the model's own, or none */
    wherry_text_form form;
    const char *query;
    size_t query_bytes;
    uint32_t dimensions, top; /* 0: all */
    struct item *items;
    uint32_t count;

    /* While it runs. */
    atomic_uint shares;                          /* of its texts that are not tokenized yet */
    atomic_uint remaining;                       /* items that have not run */
    atomic_bool failed;                          /* an error stands in its answer */
    void (*done)(struct call *call, void *user); /* when no item remains */
    void *user;
    uint64_t asked; /* the batch before which its client was seen last */
    bool gone;      /* its client went away */

    double received, deadline;
    double tokenizing, queueing, running; /* seconds, of all items together; the dispatcher's are the last two */
    _Atomic uint64_t tokenizing_ns;
    size_t characters, tokens;

    /* The answer. */
    unsigned status;
    enum failure failure;
    const char *type; /* of its content */
    struct bytes answer;
    bool answered; /* it waits to be sent */
    bool taken;    /* by the server */
};

struct call *call_create(void);
void call_free(struct call *call);
/* The first error of a call is its answer; more are ignored. */
void call_fail(struct call *call, unsigned status, enum error_type type, enum failure failure, const char *format, ...)
    PRINTF_LIKE(5, 6);
/* Items for so many texts. */
void call_items(struct call *call, uint32_t count);
/* An item has run, or will not: the last one calls done. */
void call_item_done(struct item *item);

#endif
