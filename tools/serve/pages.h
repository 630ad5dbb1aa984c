/* What is answered without the device. */
#ifndef WHERRY_SERVE_PAGES_H
#define WHERRY_SERVE_PAGES_H

#include "server.h"

/* Each writes call->answer, its type and its status. `rest` is what follows the route's path. */
void page_health(struct server *server, struct call *call, const char *rest);
void page_info(struct server *server, struct call *call, const char *rest);
void page_models(struct server *server, struct call *call, const char *rest);
void page_metrics(struct server *server, struct call *call, const char *rest);
void page_status(struct server *server, struct call *call, const char *rest);

#endif
