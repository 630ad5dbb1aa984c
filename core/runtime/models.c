/* Models and their tokenizers, as the public API shows them. */
#include <math.h>
#include <string.h>

#include "model/adapter.h"
#include "model/architecture.h"
#include "model/head.h"
#include "model/late.h"
#include "model/model.h"
#include "model/model_write.h"
#include "runtime/context.h"
#include "tokenizer/pair_frame.h"
#include "tokenizer/tokenizer.h"

wherry_status context_no_tokenizer(struct wherry_context *context)
{
    fail(context_error(context), WHERRY_STATUS_UNSUPPORTED,
         "this model has no tokenizer: its folder needs tokenizer.json, or the older files");
    return WHERRY_STATUS_UNSUPPORTED;
}

wherry_status wherry_model_open(wherry_context *context, const char *folder, wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || !out) return context_invalid(context, "wherry_model_open: folder or out is NULL");
    int before = part_enter(&context->host, PART_FILES);
    bool ok = model_open(&context->host, folder, out, context_error(context));
    part_leave(&context->host, before);
    return context_status(context, ok);
}

wherry_status wherry_model_open_new(wherry_context *context, const char *folder, uint64_t seed, wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || !out) return context_invalid(context, "wherry_model_open_new: folder or out is NULL");
    int before = part_enter(&context->host, PART_FILES);
    bool ok = model_open_new(&context->host, folder, seed, out, context_error(context));
    part_leave(&context->host, before);
    return context_status(context, ok);
}

wherry_status wherry_model_open_memory(wherry_context *context, const wherry_model_files *files, wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!files || !out || files->struct_size != sizeof *files)
        return context_invalid(
            context, "wherry_model_open_memory: files or out is NULL, or files->struct_size is not %zu", sizeof *files);
    int before = part_enter(&context->host, PART_FILES);
    bool ok = model_open_memory(&context->host, files, out, context_error(context));
    part_leave(&context->host, before);
    return context_status(context, ok);
}

wherry_status wherry_model_adapt(wherry_context *context, wherry_model *model, const char *folder)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || !folder) return context_invalid(context, "wherry_model_adapt: model or folder is NULL");
    int before = part_enter(&context->host, PART_FILES);
    bool ok = model_adapt(model, folder, context_error(context));
    part_leave(&context->host, before);
    return context_status(context, ok);
}

static bool model_save(const wherry_model *model, const char *path, struct error *e)
{
    struct new_folder folder;
    TRY(model_write_check(model, e) && new_folder_begin(&model->host, path, &folder, e));
    return new_folder_end(&folder, model_write(model, NULL, &folder, e), e);
}

wherry_status wherry_model_save(wherry_context *context, const wherry_model *model, const char *folder)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || !folder) return context_invalid(context, "wherry_model_save: model or folder is NULL");
    return context_status(context, model_save(model, folder, context_error(context)));
}

wherry_status wherry_model_create_random(wherry_context *context, const wherry_model_config *config, uint64_t seed,
                                         wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!config || !out || config->struct_size != sizeof *config)
        return context_invalid(context,
                               "wherry_model_create_random: config or out is NULL, or config->struct_size is not %zu",
                               sizeof *config);
    return context_status(context, model_random(&context->host, config, seed, out, context_error(context)));
}

wherry_status wherry_model_config_named(wherry_context *context, const char *name, wherry_model_config *out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!name || !out) return context_invalid(context, "wherry_model_config_named: name or out is NULL");
    return context_status(context, architecture_shape(name, out, context_error(context)));
}

wherry_status wherry_model_describe(const wherry_model *model, wherry_model_info *out)
{
    if (!model || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = model->info;
    return WHERRY_STATUS_OK;
}

void wherry_model_close(wherry_model *model) { model_close(model); }

const char *wherry_model_label(const wherry_model *model, uint32_t index)
{
    return model && model->labels && index < model->labels->count ? model->labels->names[index] : NULL;
}

wherry_status wherry_model_tokens(wherry_context *context, const wherry_model *model, wherry_token_callback callback,
                                  void *user)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || !callback) return context_invalid(context, "wherry_model_tokens: model or callback is NULL");
    if (!model->tokenizer) return context_no_tokenizer(context);
    return context_status(context,
                          tokenizer_tokens(&context->host, model->tokenizer, callback, user, context_error(context)));
}

const char *wherry_model_prompt_name(const wherry_model *model, uint32_t index)
{
    return model && index < model->prompts.count ? model->prompts.names[index] : NULL;
}

wherry_status wherry_model_prompt(wherry_context *context, const wherry_model *model, const char *name,
                                  const char **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || !out) return context_invalid(context, "wherry_model_prompt: model or out is NULL");
    return context_status(context, prompts_find(&model->prompts, name, out, context_error(context)));
}

wherry_status wherry_model_text_form(wherry_context *context, const wherry_model *model, const char *name,
                                     wherry_text_form *out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || !out || out->struct_size != sizeof *out)
        return context_invalid(context, "wherry_model_text_form: model or out is NULL, or out->struct_size is not %zu",
                               sizeof *out);
    return context_status(context, late_form(model, name, out, context_error(context)));
}

/* The largest logit is subtracted first, so that nothing overflows. */
static void softmax(float *x, size_t count)
{
    double most = (double)x[0], sum = 0;
    for (size_t i = 1; i < count; i++) most = (double)x[i] > most ? (double)x[i] : most;
    for (size_t i = 0; i < count; i++) sum += exp((double)x[i] - most);
    for (size_t i = 0; i < count; i++) x[i] = (float)(exp((double)x[i] - most) / sum);
}

void wherry_scores_apply(wherry_scores scores, float *logits, size_t rows, size_t labels)
{
    if (!logits || !labels) return;
    for (size_t i = 0; scores == WHERRY_SCORES_SIGMOID && i < rows * labels; i++)
        logits[i] = (float)(1 / (1 + exp(-(double)logits[i])));
    for (size_t r = 0; scores == WHERRY_SCORES_SOFTMAX && r < rows; r++) softmax(logits + r * labels, labels);
}

wherry_status wherry_tokenize(wherry_context *context, const wherry_model *model, const char *text, size_t text_bytes,
                              const char *pair, size_t pair_bytes, size_t max_tokens, int32_t *ids, int32_t *types,
                              size_t *count)
{
    return wherry_tokenize_places(context, model, text, text_bytes, pair, pair_bytes, max_tokens, ids, types, NULL,
                                  count);
}

wherry_status wherry_tokenize_places(wherry_context *context, const wherry_model *model, const char *text,
                                     size_t text_bytes, const char *pair, size_t pair_bytes, size_t max_tokens,
                                     int32_t *ids, int32_t *types, wherry_token_place *places, size_t *count)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!model || (!text && text_bytes) || (!pair && pair_bytes) || !count)
        return context_invalid(context, "wherry_tokenize: model, text or count is NULL");
    struct error *e = context_error(context);
    if (!model->tokenizer) return context_no_tokenizer(context);
    size_t room = ids ? *count : 0;
    bool ok = tokenizer_encode_pair(&context->host, model->tokenizer, NULL, text ? text : "", text_bytes, pair,
                                    pair_bytes, max_tokens, ids, types, places, count, e);
    /* A model without types takes none, whatever its tokenizer gives. */
    if (ok && types && !model->info.config.token_types)
        memset(types, 0, (*count < room ? *count : room) * sizeof *types);
    return context_status(context, ok);
}
