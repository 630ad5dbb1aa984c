/* What the older files of RoBERTa's family share: whose they are, special tokens, and what is put around texts. */
#include "tokenizer/roberta_files.h"

#include <string.h>

bool files_owner_find(const struct file_reader *r, struct files_owner *out)
{
    *out = (struct files_owner){json_string_value(json_object_get(r->config, "tokenizer_class")), NULL, NULL};
    return out->class_name || file_model_type(r, &out->json, &out->type);
}

bool files_owner_is(const struct files_owner *owner, const char *class_name, const char *type)
{
    if (owner->class_name) return file_is_class(owner->class_name, class_name);
    return owner->type && !strcmp(owner->type, type);
}

bool files_owner_refuse(const struct file_reader *r, const struct files_owner *owner, const char *file,
                        const char *read)
{
    const char *name = owner->class_name ? owner->class_name : owner->type, *quote = name ? "\"" : "";
    return fail(r->part.e, WHERRY_STATUS_UNSUPPORTED, "%.600s has a %s for the tokenizer of %s%.100s%s; %s", r->folder,
                file, quote, name ? name : "nothing known", quote, read);
}

bool roberta_specials_add(struct file_reader *r, const json_t *map, bool mask_strips,
                          const char *specials[ROBERTA_SPECIALS])
{
    static const struct {
        const char *key, *content;
    } names[ROBERTA_SPECIALS] = {
        [ROBERTA_BEGIN] = {"bos_token", "<s>"},     [ROBERTA_END] = {"eos_token", "</s>"},
        [ROBERTA_UNKNOWN] = {"unk_token", "<unk>"}, [ROBERTA_SEPARATOR] = {"sep_token", "</s>"},
        [ROBERTA_PAD] = {"pad_token", "<pad>"},     [ROBERTA_CLASS] = {"cls_token", "<s>"},
        [ROBERTA_MASK] = {"mask_token", "<mask>"},
    };
    struct added_entry entry;
    for (int i = 0; i < ROBERTA_SPECIALS; i++) {
        const json_t *value = json_object_get(map, names[i].key);
        if (!value) value = json_object_get(r->config, names[i].key);
        TRY(file_special(r, value, names[i].key, &specials[i], &entry));
        if (!specials[i]) specials[i] = names[i].content;
        if (i == ROBERTA_MASK && !json_is_object(value)) entry.token.lstrip = mask_strips;
        TRY(added_add(&r->added, specials[i], &entry, false, r->part.e));
    }
    return true;
}

bool roberta_frame(struct file_reader *r, const char *first, const char *last)
{
    int32_t begin = model_find(&r->t->model, first), end = model_find(&r->t->model, last);
    if (begin < 0 || end < 0)
        return fail(r->part.e, WHERRY_STATUS_BAD_FORMAT, "the vocabulary has no \"%.100s\"", begin < 0 ? first : last);
    return post_processor_roberta(&r->part, begin, end, &r->t->post);
}
