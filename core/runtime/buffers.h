/* A session's device memory. */
#ifndef WHERRY_RUNTIME_BUFFERS_H
#define WHERRY_RUNTIME_BUFFERS_H

#include "runtime/session.h"

enum { SESSION_SMALL_BUFFER = 256 };
/* Makes `buffers`, and `whole` where small batches share one. `small`: all of SESSION_SMALL_BUFFER bytes, for programs
 * that are compiled and never run. */
bool session_make_buffers(struct wherry_session *s, bool small, struct error *e);
/* Whether they are parts of one buffer, which kernels may be compiled for. */
bool session_one_buffer(const struct wherry_session *s);
/* Whether the memory that was planned is one buffer for this session. */
bool session_in_one_buffer(const struct wherry_session *s);
/* Destroys `buffers` and `whole`, where they are. */
void session_free_buffers(struct wherry_session *s);

#endif
