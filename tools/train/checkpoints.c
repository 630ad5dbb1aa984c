/* Where a training keeps what it needs to go on. */
#include "train/checkpoints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "new_folder.h"
#include "system.h"

enum { KEPT = 2, STEP_DIGITS = 9 };

/* ---- folders ---- */

static char *joined(const char *a, const char *b, const char *c)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = need(malloc(size));
    snprintf(text, size, "%s%s%s", a, b, c);
    return text;
}

/* A trailing '/' is no part of the folder's name. */
static char *folder_of_checkpoints(const struct options *options)
{
    size_t length = strlen(options->out);
    while (length > 1 && strchr("/\\", options->out[length - 1])) length--;
    char *name = need(malloc(length + 1));
    memcpy(name, options->out, length);
    name[length] = 0;
    char *folder = joined(name, ".checkpoints", "");
    free(name);
    return folder;
}

static char *folder_of_step(const char *folder, uint64_t step)
{
    char name[40];
    snprintf(name, sizeof name, "/step-%0*llu", STEP_DIGITS, (unsigned long long)step);
    return joined(folder, name, "");
}

static void note_any(const char *path, void *user)
{
    (void)path;
    *(bool *)user = true;
}

static bool has_any(const char *folder)
{
    bool any = false;
    system_list(folder, note_any, &any);
    return any;
}

/* ---- which there are ---- */

struct found {
    uint64_t last, before; /* steps, plus 1; 0: none */
    uint64_t limit;        /* those before it are taken away */
};

static const char *name_in(const char *path)
{
    const char *name = path + strlen(path);
    while (name > path && !strchr("/\\", name[-1])) name--;
    return name;
}

/* The step that a checkpoint's name has, plus 1; 0: it is none, or an unfinished one. */
static uint64_t step_of(const char *path)
{
    const char *name = name_in(path);
    char *end;
    if (strncmp(name, "step-", 5) || strlen(name) < 5 + STEP_DIGITS ||
        strspn(name + 5, "0123456789") != strlen(name + 5))
        return 0;
    unsigned long long step = strtoull(name + 5, &end, 10);
    return step + 1;
}

static void look(const char *path, void *user)
{
    struct found *found = user;
    uint64_t step = step_of(path);
    if (step > found->last) {
        found->before = found->last;
        found->last = step;
    } else if (step > found->before) {
        found->before = step;
    }
}

/* Unfinished ones go, too; what else lies there is not ours. */
static void remove_old(const char *path, void *user)
{
    const struct found *found = user;
    if (!strncmp(name_in(path), "step-", 5) && step_of(path) < found->limit) remove_all(path);
}

/* ---- begin and end ---- */

int checkpoints_begin(struct train_run *run, bool *done)
{
    const char *out = run->options->out;
    char *folder = folder_of_checkpoints(run->options);
    bool there = has_any(folder);
    int code = EXIT_FINE, error = system_writable(out);
    *done = false;
    if (has_any(out) && there) {
        /* Ended between its last two steps, or somebody else filled the folder: which is not for us to tell. */
        const bool adapter = (run->options->lora || run->options->adapter) && !run->options->lora_merge;
        char *model = joined(out, adapter ? "/adapter_model.safetensors" : "/model.safetensors", "");
        struct stat file;
        *done = !stat(model, &file);
        free(model);
        if (*done && !run->options->quiet)
            complain(0, "note: this training has ended: what it made is in %s; %s may be removed", out, folder);
        if (!*done)
            code = complain(EXIT_OUTPUT,
                            "%s is not empty, and has no model of the training that %s is of: empty it, and the same "
                            "command goes on",
                            out, folder);
    } else if (has_any(out)) {
        code = complain(EXIT_OUTPUT, "%s is not empty: a trained model goes to a new folder, or an empty one", out);
    } else if (error && error != EISDIR) {
        code = complain(EXIT_OUTPUT, "can't write %s: %s", out, strerror(error));
    } else if (!some_folder(folder)) {
        code = EXIT_OUTPUT;
    }
    free(folder);
    return code;
}

static int output_error(struct train_run *run, wherry_status status, const char *what)
{
    int code = tool_error(&run->tool, status, what);
    return status == WHERRY_STATUS_IO ? EXIT_OUTPUT : code;
}

int checkpoints_finish(struct train_run *run)
{
    const struct lora_options *lora = &run->setup.lora;
    wherry_status status = lora->used && !lora->merged ? wherry_trainer_save_adapter(run->trainer, run->options->out)
                                                       : wherry_trainer_save(run->trainer, run->options->out);
    if (status) return output_error(run, status, "the model can't be written; its checkpoint is kept");
    char *folder = folder_of_checkpoints(run->options);
    struct found found = {.limit = UINT64_MAX};
    system_list(folder, remove_old, &found);
    remove_folder(folder); /* where nothing of others is in it */
    free(folder);
    return EXIT_FINE;
}

/* ---- saving ---- */

int checkpoints_save(struct train_run *run)
{
    char *folder = folder_of_checkpoints(run->options), *path = folder_of_step(folder, run->step);
    json_t *state =
        need(json_pack("{s:I, s:I, s:O, s:o}", "step", (json_int_t)run->step, "tokens", (json_int_t)run->tokens,
                       "settings", run->settings, "position", position_json(&run->position)));
    char *text = need(json_dumps(state, JSON_COMPACT));
    wherry_status status = wherry_trainer_save_state(run->trainer, path, text, strlen(text));
    int code = status ? output_error(run, status, "no checkpoint was written; the one before it is whole") : EXIT_FINE;
    if (!code) {
        struct found found = {.last = 0};
        run->saved = run->step;
        system_list(folder, look, &found);
        found.limit = found.before ? found.before : found.last;
        system_list(folder, remove_old, &found);
    }
    free(text);
    json_decref(state);
    free(path);
    free(folder);
    return code;
}

/* ---- going on ---- */

/* Says what differs between what the checkpoint was made with and what is asked for now. */
static int compare_settings(const struct train_run *run, const json_t *then, const char *path)
{
    const char *name;
    json_t *now;
    json_object_foreach(run->settings, name, now)
    {
        const json_t *old = json_object_get(then, name);
        if (old && json_equal(old, now)) continue;
        char *a = old ? json_dumps(old, JSON_ENCODE_ANY) : NULL, *b = json_dumps(now, JSON_ENCODE_ANY);
        complain(0,
                 "%s was made by another training: \"%s\" was %s and is %s now; give the same command as then, or "
                 "another --out, or remove the folder",
                 path, name, a ? a : "not there", b ? b : "?");
        free(a);
        free(b);
        return EXIT_INPUT;
    }
    return EXIT_FINE;
}

static int take_state(struct train_run *run, const char *text, size_t bytes, const char *path)
{
    static const struct json_limits limits = {.bytes = 1 << 24, .values = 1 << 20, .depth = 8};
    char why[JSON_WHY];
    json_t *state = NULL;
    wherry_status status = json_read(text, bytes, &limits, 0, &state, why);
    if (status) return complain(EXIT_INPUT, "%s: %s", path, why);
    int code = compare_settings(run, json_object_get(state, "settings"), path);
    run->step = run->saved = (uint64_t)json_integer_value(json_object_get(state, "step"));
    run->tokens = (uint64_t)json_integer_value(json_object_get(state, "tokens"));
    if (!code && (!position_read(&run->position, json_object_get(state, "position"), run->lines.count) ||
                  run->step != wherry_trainer_steps(run->trainer)))
        code = complain(EXIT_INPUT, "%s: its place in the data makes no sense: remove the folder", path);
    if (!code) position_copy(&run->batches.position, &run->position);
    json_decref(state);
    return code;
}

static int load(struct train_run *run, const char *path)
{
    size_t bytes = 0;
    wherry_status status = wherry_trainer_load_state(run->trainer, path, NULL, &bytes);
    char *text = need(calloc(bytes + 1, 1));
    if (!status) status = wherry_trainer_load_state(run->trainer, path, text, &bytes);
    int code = EXIT_FINE;
    if (status) {
        code = tool_error(&run->tool, status, path);
        if (code == EXIT_USAGE) code = EXIT_INPUT;
    } else {
        code = take_state(run, text, bytes, path);
    }
    free(text);
    return code;
}

int checkpoints_resume(struct train_run *run)
{
    char *folder = folder_of_checkpoints(run->options);
    struct found found = {.last = 0};
    int code = EXIT_FINE;
    system_list(folder, look, &found);
    if (found.last) {
        char *path = folder_of_step(folder, found.last - 1);
        code = load(run, path);
        if (!code && !run->options->quiet && !run->ranks.process) complain(0, "note: going on from %s", path);
        free(path);
    }
    free(folder);
    return code;
}
