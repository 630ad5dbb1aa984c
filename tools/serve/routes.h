/* The routes, one table. */
#ifndef WHERRY_SERVE_ROUTES_H
#define WHERRY_SERVE_ROUTES_H

#include "pages.h"

struct route {
    const char *path;
    void (*page)(struct server *server, struct call *call, const char *rest); /* of GET; NULL: POST */
    enum task task;
    enum dialect dialect;
    bool open;  /* without an API key, too */
    bool below; /* with "/..." after it, too */
};

/* NULL: there is none; *method: there is one of another method. */
const struct route *route_find(const char *path, bool post, bool *method);

#endif
