/* What late interaction (ColBERT) makes of queries and documents beside the encoder's chain: marks in front of them,
 * their lengths, a query's expansion, and which of a document's tokens do not count. */
#ifndef WHERRY_MODEL_LATE_H
#define WHERRY_MODEL_LATE_H

#include "model/model.h"

enum late_task { LATE_QUERY, LATE_DOCUMENT, LATE_TASKS };

struct late {
    uint32_t lengths[LATE_TASKS]; /* of texts with their special tokens; 0: the model's limit */
    char *marks[LATE_TASKS];      /* what stands in front of the task's prompt; owned, NULL: nothing */
    uint32_t expanded;            /* tokens that a query has at least; 0: it is not expanded */
    bool fixed;                   /* and at most */
    bool attends;                 /* other tokens see those that are added */
    int32_t token;                /* that is added */
    bool skips[LATE_TASKS];       /* whether the ids below count in texts of the task */
    int32_t *skipped;             /* owned */
    size_t skipped_count;
};

/* Reads what sentence-transformers and PyLate write: in `encoder` query_length, document_length and query_expansion, in
 * `folder` those of PyLate's, and in `mask`, which may be NULL, a MultiVectorMask's. After the tokenizer. */
bool late_read(struct wherry_model *model, const char *folder, const char *encoder, const char *mask, struct error *e);
void late_free(const struct host *host, struct late *late); /* accepts NULL */
/* See wherry_model_text_form. */
bool late_form(const struct wherry_model *model, const char *name, wherry_text_form *out, struct error *e);

#endif
