/* Texts read ahead and tokenized by several threads, handed out in their order. */
#ifndef WHERRY_TOOLS_AHEAD_H
#define WHERRY_TOOLS_AHEAD_H

#include "session.h"
#include "text_source.h"

struct ahead_text {
    struct text text; /* its parts are in the block's memory, until the next block is read */
    char *memory;     /* what they point into */
    wherry_status status;
    const char *problem; /* with a status: what the library said */
    size_t count;        /* tokens; with WHERRY_STATUS_TOO_LONG: only their number */
    const int32_t *ids, *types;
    const wherry_token_place *places; /* where they are asked for */
};

struct ahead;
/* How the texts become tokens; the same as a batch's of this name. */
struct ahead_form {
    uint32_t max_length;
    bool truncate, keep_places;
    const char *prompt, *query;
    const char *instruction; /* NULL: the model's own, or none */
    wherry_text_form taken;  /* what the prompt makes of texts */
    size_t block_bytes;      /* of text that are read ahead, about */
    uint32_t threads;        /* at most; 0: as many as there are cores */
};

/* Complains and returns an exit code. Destroying accepts NULL. */
int ahead_create(struct tool *tool, const struct ahead_form *form, struct ahead **out);
void ahead_destroy(struct ahead *ahead);
/* Drops what was read: the source is elsewhere now. Accepts NULL. */
void ahead_restart(struct ahead *ahead);
/* *out NULL: the source has ended. Valid until the next call. An error that is not one text's own is an exit code. */
int ahead_next(struct ahead *ahead, struct text_source *source, const struct ahead_text **out);
/* How many threads have tokenized at once. Accepts NULL. */
uint32_t ahead_threads(const struct ahead *ahead);

#endif
