/* From a request whose bytes are there to an answer whose bytes are: who works on it, and with which engine. */
#ifndef WHERRY_SERVE_SERVER_H
#define WHERRY_SERVE_SERVER_H

#include "engine.h"
#include "pool.h"

struct server;

/* What the process is told, in bits. */
enum event { EVENT_STOP = 1, EVENT_RELOAD = 2, EVENT_LOST = 4 };

/* Opens the models. Complains and returns an exit code. `settings` lives longer. */
int server_open(const struct settings *settings, struct server **out);
/* Once no call is in work. Accepts NULL. */
void server_close(struct server *server);

/* Takes a call whose body is complete; `answered` is called by another thread. False: too many are in work, and the
 * call has its error. */
bool server_take(struct server *server, struct call *call, void (*answered)(struct call *call));
/* Its answer has been sent, or its client is gone: frees it. */
void server_release(struct server *server, struct call *call);

/* Wakes who waits. */
void server_tell(struct server *server, enum event event);
/* The events since the last time, at least one, or 0 when so many seconds have passed. */
unsigned server_wait(struct server *server, double seconds);

/* Opens all again and puts it in the place of what was there, which is given back when its calls are answered.
 * Complains where that fails; what was there stays. */
bool server_reload(struct server *server);
/* From now on requests are refused (503). */
void server_stop(struct server *server);
bool server_stopping(const struct server *server);
uint32_t server_calls(const struct server *server); /* in work, or not sent yet */

/* ---- asked by pages ---- */

/* Held; engine_drop gives it back. NULL: there is none. */
struct engine *server_engine(struct server *server);
struct metrics *server_metrics(const struct server *server);
const struct settings *server_settings(const struct server *server);
uint32_t server_workers(const struct server *server);
double server_started(const struct server *server);
/* NULL: it answers; else the reason why not. */
const char *server_unhealthy(struct server *server);

#endif
