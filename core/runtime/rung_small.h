/* Small copies of a session, by which its kernels are checked and timed: its own programs, on a model of few layers and
 * random weights. */
#ifndef WHERRY_RUNTIME_RUNG_SMALL_H
#define WHERRY_RUNTIME_RUNG_SMALL_H

#include "runtime/plan.h"

/* Every kind of group that any number of layers has is in two of them: a first and a last one, and what goes from one
 * to the next. Where some layers keep the least for the backward pass, in two of these and two others. */
enum { SMALL_LAYERS = 2, SMALL_VOCABULARY = 64 };

/* What a copy is made with; `desc` refers to the others. */
struct small {
    wherry_session_desc desc;
    wherry_training_desc training;
    char layouts[ORDERS_TEXT];
};

/* NULL: failed. A session that weighs words of the vocabulary, which its products' sizes follow from, keeps all of it.
 */
wherry_model *small_model(const struct wherry_session *of, const wherry_session_desc *of_desc, struct error *e);
void small_model_close(wherry_model *model); /* accepts NULL; before the model that it was made of */
/* Begins one that may take the same rungs, with the same sizes; `tuning` is lent, to be taken back once it is covered.
 * `small` is what to go on with, made from what the session was. */
bool small_begin(const struct wherry_session *of, struct wherry_session *s, const wherry_session_desc *of_desc,
                 bool keep, struct small *small, struct error *e);

/* Token ids of such a model that are used: from 0, fewer than this. */
uint32_t small_words(const wherry_model *model);

#endif
