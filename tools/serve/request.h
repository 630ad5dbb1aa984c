/* What a request's body asks for, in each dialect. */
#ifndef WHERRY_SERVE_REQUEST_H
#define WHERRY_SERVE_REQUEST_H

#include "engine.h"

/* Reads call->body: the model, the task, the texts. False: the call has its error. */
bool request_read(struct call *call, const struct settings *settings, wherry_context *context);

#endif
