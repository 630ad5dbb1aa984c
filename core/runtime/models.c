/* Models and their tokenizers, as the public API shows them. */
#include <string.h>

#include "model/architecture.h"
#include "model/model.h"
#include "runtime/context.h"
#include "tokenizer/tokenizer.h"

wherry_status wherry_model_open(wherry_context *context, const char *folder, wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || !out) return context_invalid(context, "wherry_model_open: folder or out is NULL");
    int before = part_enter(&context->host, PART_FILES);
    bool ok = model_open(&context->host, folder, out, &context->error);
    part_leave(&context->host, before);
    return context_status(context, ok);
}

wherry_status wherry_model_create_random(wherry_context *context, const wherry_model_config *config, uint64_t seed,
                                         wherry_model **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!config || !out || config->struct_size != sizeof *config)
        return context_invalid(context,
                               "wherry_model_create_random: config or out is NULL, or config->struct_size is not %zu",
                               sizeof *config);
    return context_status(context, model_random(&context->host, config, seed, out, &context->error));
}

wherry_status wherry_model_config_named(wherry_context *context, const char *name, wherry_model_config *out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!name || !out) return context_invalid(context, "wherry_model_config_named: name or out is NULL");
    return context_status(context, architecture_shape(name, out, &context->error));
}

wherry_status wherry_model_describe(const wherry_model *model, wherry_model_info *out)
{
    if (!model || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = model->info;
    return WHERRY_STATUS_OK;
}

void wherry_model_close(wherry_model *model) { model_close(model); }

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
    struct error *e = &context->error;
    if (!model->tokenizer) {
        fail(e, WHERRY_STATUS_UNSUPPORTED,
             "this model has no tokenizer: its folder needs tokenizer.json, or the older files");
        return context_status(context, false);
    }
    size_t room = ids ? *count : 0;
    bool ok = tokenizer_encode_places(&context->host, model->tokenizer, text ? text : "", text_bytes, pair, pair_bytes,
                                      max_tokens, ids, types, places, count, e);
    /* A model that doesn't tell a pair's texts apart by type takes both as type 0, whatever the tokenizer calls them.
     */
    if (ok && types && model->info.config.token_types < 2)
        memset(types, 0, (*count < room ? *count : room) * sizeof *types);
    return context_status(context, ok);
}
