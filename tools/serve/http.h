/* Connections: bytes in, bytes out, by libmicrohttpd. Whatever takes time happens elsewhere, while the connection is
 * suspended. */
#ifndef WHERRY_SERVE_HTTP_H
#define WHERRY_SERVE_HTTP_H

#include "server.h"

struct http;

/* Listens and answers. Complains and returns an exit code. */
int http_open(struct server *server, struct http **out);
/* Closes what is open; no call may be in work. Accepts NULL. */
void http_close(struct http *http);
/* Keys of which clients must send one from now on, copied; none: they need none. */
void http_keys(struct http *http, char *const *keys, uint32_t count);
/* "http://127.0.0.1:3000", or "unix:/path". */
const char *http_address(const struct http *http);

#endif
