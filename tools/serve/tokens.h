/* Tokens of a call's texts. */
#ifndef WHERRY_SERVE_TOKENS_H
#define WHERRY_SERVE_TOKENS_H

#include "call.h"
#include "models.h"
#include "pool.h"

/* Gives the item its ids and types. False: the call has its error. */
bool tokens_make(struct worker *worker, struct item *item);
/* /tokenize: the answer's list for one text. False: the call has its error. */
bool tokens_write(struct worker *worker, const struct item *item, struct bytes *out);
/* Ids that the client gave, checked; memory to free. NULL: the call has its error. */
int32_t *tokens_given(const struct item *item);

#endif
