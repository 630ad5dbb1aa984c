/* Sockets that wait for clients. */
#ifndef WHERRY_SERVE_LISTEN_H
#define WHERRY_SERVE_LISTEN_H

#include "settings.h"

enum { ADDRESS = 256 };

/* -1, having said why. `address` is what clients connect to. */
int listen_open(const struct settings *settings, char address[ADDRESS]);
/* What is left on the disk of it. */
void listen_close(const struct settings *settings);

#endif
