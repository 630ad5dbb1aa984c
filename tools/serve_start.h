/* `wherry serve`: becomes wherry-serve, which is a program of its own. */
#ifndef WHERRY_TOOLS_SERVE_START_H
#define WHERRY_TOOLS_SERVE_START_H

/* The program's name, then what follows "serve", and NULL. Returns only where it can't be started, having said why. */
int serve_start(char **arguments);

#endif
