/* A model's head: which one its configuration has, its labels, and what makes scores of its logits. */
#ifndef WHERRY_MODEL_HEAD_H
#define WHERRY_MODEL_HEAD_H

#include <jansson.h>

#include "base/host.h"

struct head_names; /* model/architecture.h */

/* Names of classes, by their number. */
struct labels {
    uint32_t count;
    char **names; /* [count] */
};

/* Whether head, labels and activation go together. */
bool head_check(const wherry_model_config *config, struct error *e);
/* Whether a dense layer stands before the classifier. */
bool model_has_dense(const wherry_model_config *config);
/* Of config.json: the head that goes with the class ("BertForTokenClassification"), its activation as in `names`, and
 * the number of its labels. */
bool head_read(const json_t *json, const char *class, const struct head_names *names, wherry_model_config *config,
               struct error *e);
/* Reads the names of a head's labels, and what the files want to be made of its logits, from config.json in `folder`.
 * *out is NULL where there is no classifier. */
bool labels_read(const struct host *host, const char *folder, const wherry_model_config *config, struct labels **out,
                 wherry_scores *scores, struct error *e);
/* "LABEL_0", ... */
bool labels_numbered(const struct host *host, uint32_t count, struct labels **out, struct error *e);
void labels_free(const struct host *host, struct labels *labels); /* accepts NULL */

#endif
