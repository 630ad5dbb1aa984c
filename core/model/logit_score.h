/* Rerankers that are causal language models: their score is how much more likely "yes" is than "no" as the next word
 * after a question about a query and a document. */
#ifndef WHERRY_MODEL_LOGIT_SCORE_H
#define WHERRY_MODEL_LOGIT_SCORE_H

#include "model/modules.h"

/* Makes a reranker of one label of a model that is one: modules.json has a LogitScore, or there is no modules.json, the
 * class is one ForCausalLM, and the tokenizer has both words. After the tokenizer; the weights are those of files. */
bool logit_score_find(struct wherry_model *model, const struct modules *modules, struct error *e);
/* Frames pairs by the chat template of a classifier that sentence-transformers gives messages
 * (modality_config.message of sentence_bert_config.json). */
bool pair_messages_find(struct wherry_model *model, const char *folder, struct error *e);

#endif
