/* `wherry models`: what is in each folder, whether it runs, and what it needs. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "session.h"

/* One folder, and what was found in it. */
struct found {
    const char *folder;
    wherry_model_info info;
    wherry_session_plan plans[2]; /* in f32 and in f16; device_bytes 0: not that */
    wherry_status status;
    char reason[1024]; /* why it does not run, "" where it does */
};

static const wherry_dtype dtypes[2] = {WHERRY_DTYPE_F32, WHERRY_DTYPE_F16};

static const char *head_name(wherry_head head)
{
    static const char *const names[] = {"none", "classes", "token classes", "vocabulary"};
    return (unsigned)head < sizeof names / sizeof *names ? names[head] : "?";
}

/* What stands on token vectors beside the head, `none` where nothing does. */
static const char *token_heads_name(const wherry_model_info *info, const char *none)
{
    if (info->token_weights && info->token_vectors) return "sparse, colbert";
    return info->token_weights ? "sparse" : info->token_vectors ? "colbert" : none;
}

/* Plans a session of each type; what the device has not is left out. */
static wherry_status plan_sessions(struct tool *tool, const wherry_model *model, struct found *found)
{
    for (size_t i = 0; i < 2; i++) {
        const wherry_session_desc desc = {.struct_size = sizeof desc, .dtype = dtypes[i]};
        wherry_session *session;
        wherry_status status = wherry_session_create(tool->context, tool->device, model, &desc, &session);
        if (status && !(status == WHERRY_STATUS_UNSUPPORTED && i)) return status;
        if (status) continue;
        found->plans[i].struct_size = sizeof found->plans[i];
        wherry_session_query(session, &found->plans[i]);
        wherry_session_destroy(session);
    }
    return WHERRY_STATUS_OK;
}

static void look_at(struct tool *tool, const char *folder, struct found *found)
{
    wherry_model *model = NULL;
    found->folder = folder;
    found->info.struct_size = sizeof found->info;
    found->status = wherry_model_open(tool->context, folder, &model);
    if (!found->status) found->status = wherry_model_describe(model, &found->info);
    if (!found->status) found->status = plan_sessions(tool, model, found);
    if (found->status) snprintf(found->reason, sizeof found->reason, "%s", wherry_last_error(tool->context));
    wherry_model_close(model);
}

/* ---- results ---- */

static void bytes_cell(struct table *table, const wherry_session_plan *plan)
{
    char text[NUMBER_SIZE];
    table_cell(table, "%s", plan->device_bytes ? format_bytes((double)plan->device_bytes, text) : "-");
}

static void print_table(const struct found *found, size_t count, struct output *out)
{
    struct table table = {.columns = "~model|<architecture|<layers|>params|>longest|<pool|<tokenizer|<head|>f32|>f16",
                          .width = 132};
    uint32_t tokens = 0;
    for (size_t n = 0; n < count; n++) {
        const wherry_model_info *info = &found[n].info;
        const wherry_model_config *config = &info->config;
        if (found[n].status) continue;
        if (found[n].plans[0].max_tokens > tokens) tokens = found[n].plans[0].max_tokens;
        table_cell(&table, "%s", found[n].folder);
        table_cell(&table, "%s", info->architecture);
        table_cell(&table, "%u x %u, %u heads", config->layers, config->hidden, config->heads);
        table_cell(&table, "%.1f M", (double)info->parameters / 1e6);
        table_cell(&table, "%u", info->max_tokens);
        table_cell(&table, "%s%s", info->words ? "words" : pool_name(info->pool), info->normalize ? ", length 1" : "");
        table_cell(&table, "%s", info->has_tokenizer ? info->tokenizer : "none");
        if (config->labels)
            table_cell(&table, "%u %s", config->labels, head_name(config->head));
        else
            table_cell(&table, "%s", token_heads_name(info, head_name(config->head)));
        bytes_cell(&table, &found[n].plans[0]);
        bytes_cell(&table, &found[n].plans[1]);
    }
    if (tokens) {
        table_print(&table, out);
        output_format(out, "f32, f16: memory on the device with batches of %u tokens\n", tokens);
    }
    for (size_t n = 0; n < count; n++)
        if (found[n].status) output_format(out, "%s does not run: %s\n", found[n].folder, found[n].reason);
}

static json_t *plan_json(const wherry_session_plan *plan)
{
    if (!plan->device_bytes) return json_null();
    return need(json_pack("{s:I, s:I, s:I}", "device_bytes", (json_int_t)plan->device_bytes, "weight_bytes",
                          (json_int_t)plan->weight_bytes, "batch_tokens", (json_int_t)plan->max_tokens));
}

static json_t *found_json(const struct found *found)
{
    const wherry_model_info *info = &found->info;
    const wherry_model_config *config = &info->config;
    json_t *json = need(json_pack("{s:o, s:b, s:o}", "folder", text_json(found->folder), "runs", !found->status,
                                  "reason", found->status ? text_json(found->reason) : json_null()));
    if (found->status) return json;
    json_t *more = need(json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:o, s:s, s:I, s:b, s:b, s:b, s:b, s:o, s:o}",
        "architecture", text_json(info->architecture), "layers", (json_int_t)config->layers, "hidden",
        (json_int_t)config->hidden, "heads", (json_int_t)config->heads, "feed_forward",
        (json_int_t)config->feed_forward, "vocabulary", (json_int_t)config->vocabulary, "positions",
        (json_int_t)config->positions, "parameters", (json_int_t)info->parameters, "weight_file_bytes",
        (json_int_t)info->weight_file_bytes, "max_tokens", (json_int_t)info->max_tokens, "pool", pool_name(info->pool),
        "normalize", (int)info->normalize, "tokenizer", info->has_tokenizer ? text_json(info->tokenizer) : json_null(),
        "head", head_name(config->head), "labels", (json_int_t)config->labels, "token_weights",
        (int)info->token_weights, "token_vectors", (int)info->token_vectors, "words", (int)info->words, "pair_template",
        (int)info->pair_template, "f32", plan_json(&found->plans[0]), "f16", plan_json(&found->plans[1])));
    json_object_update(json, more);
    json_decref(more);
    return json;
}

static void print_json(const struct found *found, size_t count, struct output *out)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) json_array_append_new(list, found_json(&found[n]));
    output_json(out, need(json_pack("{s:s, s:o}", "library", wherry_version_string(), "models", list)));
}

/* ---- the command ---- */

int models_command(const struct options *options)
{
    struct tool tool;
    struct output out;
    if (!options->files_count) return complain(EXIT_USAGE, "a folder is missing: wherry models FOLDER...");
    struct found *found = need(calloc(options->files_count, sizeof *found));
    int code = tool_open_context(&tool, options);
    if (!code && wherry_device_open(tool.context, options->device ? options->device : "reference", &tool.device))
        code = tool_error(&tool, WHERRY_STATUS_NO_DEVICE, NULL), code = EXIT_DEVICE;
    int kept = code;
    for (uint32_t n = 0; !code && n < options->files_count; n++) {
        look_at(&tool, options->files[n], &found[n]);
        if (found[n].status) kept = EXIT_INPUT;
    }
    if (!code && !output_open(&out, options->output)) {
        kept = EXIT_OUTPUT;
    } else if (!code) {
        (options->json ? print_json : print_table)(found, options->files_count, &out);
        if (!output_close(&out, true)) kept = EXIT_OUTPUT;
    }
    free(found);
    tool_close(&tool);
    return kept;
}
