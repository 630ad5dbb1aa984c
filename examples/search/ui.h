/* Typing and reading: the program's interactive part. */
#ifndef SEARCH_UI_H
#define SEARCH_UI_H

#include "engine.h"

/* Until somebody chooses a passage or leaves. Returns the program's exit code: 0 chosen, which standard output then
 * names; 1 an error; 130 left. */
int ui_run(const char *folder, const char *model, const char *device);

#endif
