/* Batches of texts' tokens. */
#ifndef WHERRY_TOOLS_TEXTS_H
#define WHERRY_TOOLS_TEXTS_H

#include "session.h"
#include "text_source.h"

/* Texts that run together, each with what is written beside its embedding. */
struct text_batch {
    uint32_t max_tokens, max_length; /* of the batch, of one text */
    bool truncate, keep_texts, keep_places;
    /* Of each text, rows[sequence] names a mask; with several masks it is there as often. */
    bool masked;
    int32_t mask; /* the mask's id */
    uint32_t *rows;
    const char *prompt;      /* in front of each text, NULL: nothing */
    wherry_text_form taken;  /* what the prompt makes of them */
    const char *query;       /* each text is the second one of a pair with this, NULL: none */
    const char *instruction; /* of pairs, NULL: the model's own, or none */
    uint32_t sequences, tokens;
    uint32_t *offsets;
    int32_t *ids, *types;
    wherry_token_place *places; /* with keep_places */
    struct text_label {
        char *id, *text; /* NULL: none */
        size_t text_bytes;
        const char *name; /* of the text's file */
        uint64_t line;
        bool again; /* the same text as before it, for its next mask */
    } * labels;
    /* A text that did not fit any more: the next batch begins with it. */
    bool waiting;
    struct text_label waiting_label;
    uint32_t waiting_tokens, waiting_row;
    int32_t *waiting_ids, *waiting_types;
    wherry_token_place *waiting_places;
    struct ahead *ahead; /* where the next ones come from, once there was one */
};

enum { TEXT_MASKS_MOST = 32 }; /* in a batch that is masked */

void text_label_free(struct text_label *label);

void text_batch_create(struct text_batch *batch, uint32_t max_tokens, uint32_t max_length);
void text_batch_destroy(struct text_batch *batch);
/* Replaces the batch by the next texts of the source, as many as fit; no sequences: the source has ended. Complains
 * and returns an exit code. */
int text_batch_fill(struct text_batch *batch, struct tool *tool, struct text_source *source);
/* Drops what is in it and what was read ahead: the source is elsewhere now. */
void text_batch_restart(struct text_batch *batch);
/* Makes `next` a batch like this one, which goes on where it ends: it has the waiting text, and reads the next ones.
 * Once for a `next` that is zeroed, then whenever the two have changed their places. */
void text_batch_pass(struct text_batch *batch, struct text_batch *next);
wherry_batch text_batch_view(const struct text_batch *batch);

/* Longest text and tokens of a batch by the options, the model and the device. */
int text_limits(const struct tool *tool, uint32_t *batch_tokens, uint32_t *length);
/* Opens a session that is large enough for the batch, or for any batch of this size when `more` is to come; `desc`:
 * what it returns. */
int tool_open_text_session(struct tool *tool, const struct text_batch *batch, bool more, wherry_session_desc desc);

#endif
