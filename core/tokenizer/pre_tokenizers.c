/* Pre-tokenizers: the table of their kinds. */
#include "tokenizer/pre_tokenizers.h"

#include <string.h>

static const struct pre_tokenizer_kind *const kinds[] = {
    &pre_tokenizer_bert,        &pre_tokenizer_whitespace, &pre_tokenizer_whitespace_split,
    &pre_tokenizer_punctuation, &pre_tokenizer_digits,     &pre_tokenizer_delimiter,
    &pre_tokenizer_split,       &pre_tokenizer_metaspace,  &pre_tokenizer_byte_level,
};

static void pre_tokenizer_close(const struct host *host, const struct pre_tokenizer *one)
{
    if (one->kind->close && one->data) one->kind->close(host, one->data);
}

bool pre_tokenizers_add(const struct part_reader *r, const struct pre_tokenizer_kind *kind, void *data,
                        struct pre_tokenizers *out)
{
    struct pre_tokenizer one = {kind, data};
    struct pre_tokenizer *list = host_grow(r->host, out->list, out->count, out->count + 1, sizeof *list, r->e);
    if (!list) {
        pre_tokenizer_close(r->host, &one);
        return false;
    }
    out->list = list;
    list[out->count++] = one;
    return true;
}

static bool read_one(const struct part_reader *r, const json_t *json, const char *type, struct pre_tokenizers *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->type, type)) continue;
        struct pre_tokenizer one = {kinds[i], NULL};
        if (one.kind->open && !one.kind->open(r, json, &one.data)) {
            pre_tokenizer_close(r->host, &one);
            return false;
        }
        return pre_tokenizers_add(r, one.kind, one.data, out);
    }
    return part_unsupported(r, "pre-tokenizer", type);
}

bool pre_tokenizers_read(const struct part_reader *r, const json_t *json, struct pre_tokenizers *out)
{
    const char *type;
    if (!json || json_is_null(json)) return true;
    TRY(part_type(r, json, "pre-tokenizer", &type));
    if (strcmp(type, "Sequence")) return read_one(r, json, type, out);
    const json_t *members = json_object_get(json, "pretokenizers");
    if (!json_is_array(members)) return part_wrong(r, "pretokenizers", "an array");
    for (size_t i = 0; i < json_array_size(members); i++) {
        if (out->count >= PARTS_MOST) return part_wrong(r, "pretokenizers", "a short array");
        TRY(pre_tokenizers_read(r, json_array_get(members, i), out));
    }
    return true;
}

void pre_tokenizers_free(const struct host *host, struct pre_tokenizers *pre_tokenizers)
{
    for (size_t i = 0; i < pre_tokenizers->count; i++) pre_tokenizer_close(host, &pre_tokenizers->list[i]);
    host_free(host, pre_tokenizers->list);
    *pre_tokenizers = (struct pre_tokenizers){0};
}

bool pre_tokenizers_need_places(const struct pre_tokenizers *pre_tokenizers)
{
    for (size_t i = 0; i < pre_tokenizers->count; i++) {
        const struct pre_tokenizer *one = &pre_tokenizers->list[i];
        if (one->kind->needs_places && one->kind->needs_places(one->data)) return true;
    }
    return false;
}
