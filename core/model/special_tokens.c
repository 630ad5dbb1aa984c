/* Which ids a model's special tokens have. */
#include "model/special_tokens.h"

#include <string.h>

#include "base/folder.h"
#include "tokenizer/tokenizer.h"

/* The id of a text that is one token; -1: it is not. */
static bool token_find(const struct wherry_model *model, const char *text, int32_t *out, struct error *e)
{
    int32_t ids[16];
    wherry_token_place places[16];
    size_t empty = 0, count = 16;
    const struct host *host = &model->host;
    TRY(tokenizer_encode(host, model->tokenizer, "", 0, NULL, 0, 0, NULL, NULL, &empty, e));
    TRY(tokenizer_encode_places(host, model->tokenizer, text, strlen(text), NULL, 0, 0, ids, NULL, places, &count, e));
    for (size_t i = 0; count == empty + 1 && i < count && i < 16; i++)
        if (places[i].text == 0) *out = ids[i];
    return true;
}

static bool tokens_find(struct wherry_model *model, const json_t *json, struct error *e)
{
    wherry_model_info *info = &model->info;
    const struct {
        const char *key, *usual[2];
        int32_t *id;
    } tokens[] = {{"mask_token", {"[MASK]", "<mask>"}, &info->mask_token},
                  {"cls_token", {"[CLS]", "<s>"}, &info->cls_token},
                  {"eos_token", {"</s>"}, &info->eos_token}, /* BERT has none: its texts end with a separator */
                  {"pad_token", {"[PAD]", "<pad>"}, &info->pad_token},
                  {"unk_token", {"[UNK]", "<unk>"}, &info->unknown_token}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const json_t *token = json_object_get(json, tokens[i].key);
        const char *name = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
        if (name) TRY(token_find(model, name, tokens[i].id, e));
        for (size_t n = 0; n < 2 && tokens[i].usual[n] && *tokens[i].id < 0; n++)
            TRY(token_find(model, tokens[i].usual[n], tokens[i].id, e));
    }
    return true;
}

bool special_tokens_find(struct wherry_model *model, const char *folder, struct error *e)
{
    static const char file[] = "tokenizer_config.json";
    bool has = false;
    json_t *json = NULL;
    TRY(folder_has(&model->host, folder, file, &has, e));
    if (has) TRY(json_file_read(&model->host, folder, file, &json_tokenizer_config, JSON_DECODE_INT_AS_REAL, &json, e));
    bool ok = tokens_find(model, json, e);
    json_decref(json);
    return ok;
}
