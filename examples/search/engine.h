/* A model that fills an index and answers queries, while the caller does something else. One thread calls all of it. */
#ifndef SEARCH_ENGINE_H
#define SEARCH_ENGINE_H

#include <wherry/wherry.h>

#include "index.h"

struct engine;

/* Called while kernels are compiled, which takes a while at the first start. False: stop, and the call fails. */
typedef bool (*engine_waiting)(const char *what, size_t done, size_t total, void *user);

struct engine_state {
    char device[96]; /* "vulkan:0 NVIDIA H200" */
    size_t files, files_done, passages;
    size_t embedded; /* files, since it was opened */
    bool busy;       /* files or a query are under way */
    bool answered;   /* the last query's result is there */
    double seconds;  /* that it took */
};

/* `device`: an id or a part of a name; "lent": this program's own Vulkan device; NULL: that where it is a GPU, else the
 * best that there is. NULL: it failed, and stderr says why. */
struct engine *engine_open(const char *folder, const char *model, const char *device, engine_waiting waiting,
                           void *user);
void engine_close(struct engine *engine); /* accepts NULL */
/* Hands the device what there is to do, and takes what it has done. Returns at once on a GPU, and soon on the host's
 * cores. False: the device failed, and stderr says why. */
bool engine_step(struct engine *engine);
/* The same for who has nothing else to do: waits for something to be done. */
bool engine_wait(struct engine *engine);
/* Asks for what is like this text; the query before it, if it is under way, is dropped. "": for nothing. */
bool engine_ask(struct engine *engine, const char *query);
/* What the last query that was answered found, best first. */
size_t engine_found(const struct engine *engine, const struct found **found);
const struct index *engine_index(const struct engine *engine);
struct engine_state engine_state(const struct engine *engine);
/* Writes what was embedded to the folder. False: stderr says why. */
bool engine_save(const struct engine *engine);

#endif
