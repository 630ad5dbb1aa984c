/* What the older files of RoBERTa's family share: special tokens, and what is put around texts. */
#include "tokenizer/roberta_files.h"

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
