/* What the commands share: a context, device, model and session made from the options, and how errors end the command.
 */
#ifndef WHERRY_TOOLS_SESSION_H
#define WHERRY_TOOLS_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <wherry/wherry.h>

#include "complain.h"
#include "names.h"
#include "options.h"

/* A half-opened one may be closed. */
struct tool {
    const struct options *options;
    wherry_context *context, *model_context; /* model_context: of a model that was read beside the device; else NULL */
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_device_info device_info;
    wherry_model_info model_info;
    wherry_session_plan plan;
    wherry_prepare_info prepared;
    wherry_status failure; /* of the last error that was printed */
};

/* These return an exit code, and have complained when it is not EXIT_FINE. */
int tool_open_context(struct tool *tool, const struct options *options);
int tool_open_device(struct tool *tool);
int tool_open_model(struct tool *tool); /* --model, or --config with random weights */
/* Both of these at once, where there are files to read. What is wrong with the model is said first. */
int tool_open_model_and_device(struct tool *tool);
int tool_open_random(struct tool *tool, const wherry_model_config *config);
/* What computes products, NULL: nothing was said. */
const char *tool_kernels(const struct tool *tool);
/* `desc` without what the options say: dtype, memory budget. `plan` NULL: flash. */
int tool_open_session(struct tool *tool, const char *plan, wherry_session_desc desc);
/* The same, but nothing is allocated on the device or compiled. */
int tool_plan_session(struct tool *tool, const char *plan, wherry_session_desc desc);
void tool_close_session(struct tool *tool);
void tool_close(struct tool *tool);
/* Complains with the context's last error, "<what>: " before it where `what` is not NULL; the exit code for `status`.
 */
int tool_error(struct tool *tool, wherry_status status, const char *what);
/* Of a call in another thread, which kept the text: errors are a thread's own. */
int tool_error_text(struct tool *tool, const char *text, wherry_status status, const char *what);
/* The exit code of what went wrong in another context, and was said. */
int tool_failed(struct tool *tool, wherry_status status);

/* Notes of the session ("splits", matrix products) on `out`, or on standard error when NULL. */
void tool_notes(const struct tool *tool, struct output *out);
json_t *notes_json(const struct tool *tool);
json_t *device_json(const wherry_device_info *info);
json_t *model_json(const struct tool *tool);
json_t *session_json(const struct tool *tool);
/* The commit that the command was built from, "" where that is not known. */
const char *tool_commit(void);
/* Who made this result: versions, commit, command line, date. */
json_t *run_json(const struct options *options);
/* A JSON string with invalid UTF-8 replaced: texts of drivers and the command line. */
json_t *text_json(const char *text);

/* Random tokens for a batch of these lengths: offsets, ids as memory to free. The uniform batch of the options where
 * `lengths` is NULL. */
struct random_batch {
    wherry_batch batch;
    uint32_t *offsets;
    int32_t *ids;
    uint32_t tokens, longest;
};
int random_batch_create(const struct tool *tool, const uint32_t *lengths, uint32_t count, struct random_batch *out);
void random_batch_destroy(struct random_batch *batch);
json_t *lengths_json(const struct random_batch *batch);

#endif
