/* Models: the table of their kinds. */
#include "tokenizer/models.h"

#include <string.h>

#include "base/utf8.h"

static const struct model_kind *const kinds[] = {&model_word_piece, &model_unigram, &model_bpe};

/* Files of early versions don't name the type. */
static const char *type_of(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    if (type || json_object_get(json, "type") || !json_is_object(json)) return type;
    if (json_object_get(json, "merges")) return "BPE";
    return json_is_array(json_object_get(json, "vocab")) ? "Unigram" : "WordPiece";
}

bool model_read(struct model_reader *r, const json_t *json, struct token_model *out)
{
    const char *type = type_of(json);
    if (!type) return fail(r->part.e, WHERRY_STATUS_UNSUPPORTED, "its model is of no kind: \"type\" is missing");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->type, type)) continue;
        out->kind = kinds[i];
        return kinds[i]->open(r, json, &out->data);
    }
    return part_unsupported(&r->part, "model", type);
}

int32_t model_find(const struct token_model *model, const char *name)
{
    uint32_t text[256];
    size_t length = 0, bytes = strlen(name);
    for (size_t i = 0; i < bytes && length < 256;) i += utf8_decode(name + i, bytes - i, &text[length++], NULL);
    return length < 256 ? model->kind->find(model->data, text, length) : -1;
}

void model_free(const struct host *host, struct token_model *model)
{
    if (model->kind && model->data) model->kind->close(host, model->data);
    *model = (struct token_model){0};
}
