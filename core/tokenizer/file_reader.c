/* What the readers of a tokenizer's files share. */
#include <stdio.h>
#include <string.h>

#include "tokenizer/tokenizer_files.h"

bool file_fail(const struct file_reader *r, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%.600s/%s", r->folder, name);
    return fail_in(r->part.e, path);
}

bool file_added(const struct file_reader *r, const json_t *object, const char **content, struct added_entry *out)
{
    const struct part_reader *part = &r->part;
    *out = (struct added_entry){0};
    return part_string(part, object, "content", content) &&
           part_bool(part, object, "single_word", &out->token.single_word) &&
           part_bool(part, object, "lstrip", &out->token.lstrip) &&
           part_bool(part, object, "rstrip", &out->token.rstrip) &&
           part_bool(part, object, "normalized", &out->normalized);
}

/* ---- tokenizer_config.json ---- */

static bool is_class(const char *name, const char *wanted)
{
    size_t n = strlen(wanted);
    return !strncmp(name, wanted, n) && (!name[n] || !strcmp(name + n, "Fast"));
}

bool file_is_class(const struct file_reader *r, const char *wanted)
{
    return r->class_name && is_class(r->class_name, wanted);
}

bool file_refuse_class(const struct file_reader *r, const char *file, const char *read)
{
    const char *name = r->class_name, *quote = name ? "\"" : "";
    return fail(r->part.e, WHERRY_STATUS_UNSUPPORTED, "%.600s has a %s for the tokenizer %s%.100s%s; %s", r->folder,
                file, quote, name ? name : "of an unknown class", quote, read);
}

/* The classes that are BERT's tokenizer, by whatever name. Others that come with a vocab.txt (BertJapanese, MPNet)
 * split words or frame sequences in their own way. */
bool file_is_bert(const char *name)
{
    static const char *const names[] = {"BertTokenizer",       "DistilBertTokenizer", "ElectraTokenizer",
                                        "MobileBertTokenizer", "ConvBertTokenizer",   "SqueezeBertTokenizer",
                                        "LayoutLMTokenizer",   "RetriBertTokenizer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_class(name, names[i])) return true;
    return false;
}

static bool same(const struct bert_normalizer *a, const struct bert_normalizer *b)
{
    return a->lowercase == b->lowercase && a->split_ideographs == b->split_ideographs &&
           a->strip_follows == b->strip_follows && (a->strip_follows || a->strip_accents == b->strip_accents);
}

bool file_bert_settings(const struct file_reader *r, struct bert_normalizer *bert)
{
    const struct bert_normalizer before = *bert;
    TRY(part_optional_bool(&r->part, r->config, "do_lower_case", &bert->lowercase) &&
        part_optional_bool(&r->part, r->config, "tokenize_chinese_chars", &bert->split_ideographs));
    if (json_object_get(r->config, "strip_accents")) {
        bert->strip_follows = json_is_null(json_object_get(r->config, "strip_accents"));
        TRY(part_optional_bool(&r->part, r->config, "strip_accents", &bert->strip_accents));
    }
    if (!same(&before, bert))
        host_log(&r->t->host, WHERRY_LOG_INFO, "%.500s: tokenizer_config.json overrides how text is normalized",
                 r->folder);
    return true;
}

bool file_special(const struct file_reader *r, const json_t *value, const char *key, const char **content,
                  struct added_entry *entry)
{
    *entry = (struct added_entry){0};
    *content = NULL;
    if (!value || json_is_null(value)) return true;
    if (json_is_object(value)) return file_added(r, value, content, entry);
    *content = json_string_value(value);
    return *content || part_wrong(&r->part, key, "a string or an object");
}

bool file_more_added(struct file_reader *r)
{
    const json_t *more = json_object_get(r->config, "additional_special_tokens");
    struct added_entry entry;
    const char *content, *id;
    json_t *value;
    for (size_t i = 0; i < json_array_size(more); i++)
        TRY(file_special(r, json_array_get(more, i), "additional_special_tokens", &content, &entry) &&
            added_add(&r->added, content, &entry, false, r->part.e));
    json_object_foreach(json_object_get(r->config, "added_tokens_decoder"), id, value)
        TRY(file_added(r, value, &content, &entry) && added_add(&r->added, content, &entry, false, r->part.e));
    return true;
}
