/* A command that reads texts and writes something for each: it opens what is needed, and runs batch after batch. */
#ifndef WHERRY_TOOLS_TEXT_RUN_H
#define WHERRY_TOOLS_TEXT_RUN_H

#include "texts.h"

struct text_run {
    struct tool tool;
    struct text_source source;
    struct text_batch batch, next; /* next: filled while the device has the other one */
    bool per_token;                /* a row of the output for each token, not for each text */
    uint64_t texts, tokens;
    double seconds; /* in encode */
    double waited;  /* of `total`, from the first batch's start on: for the next batch's tokens */
    double total;
};

/* These complain and return an exit code. A half-opened one may be closed. */

/* Model, device and input, and room for a batch. */
int text_run_open(struct text_run *run, const struct options *options);
/* Puts a prompt in front of each text: the one that is asked for, else what the model's files use. */
int text_run_prompt(struct text_run *run);
/* Reads the first batch, and opens a session for it, or for all batches; `desc`: what it returns. */
int text_run_start(struct text_run *run, wherry_session_desc desc);
/* After text_run_start: the first batch from where the source is now, which may be empty. */
int text_run_again(struct text_run *run);
/* Gives `write` each batch's results, one text's after the other's. */
typedef int (*text_run_write)(struct text_run *run, const float *values);
int text_run_all(struct text_run *run, text_run_write write);
/* Begins an object of JSONL: its index, its id and its text where they are asked for. */
void text_run_object(const struct text_run *run, struct output *out, uint64_t index, const struct text_label *label);
/* Rows of the output that a sequence has. */
size_t text_run_rows(const struct text_run *run, uint32_t sequence);
/* What was done, on standard error, where somebody may want to know it. */
void text_run_tell(const struct text_run *run);
void text_run_close(struct text_run *run);

#endif
