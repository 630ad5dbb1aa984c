/* Normalizers: the table of their kinds, and one after the other. */
#include "tokenizer/normalizers.h"

#include <string.h>

static const struct normalizer_kind *const kinds[] = {
    &normalizer_bert,       &normalizer_lowercase, &normalizer_strip, &normalizer_strip_accents,
    &normalizer_replace,    &normalizer_prepend,   &normalizer_nmt,   &normalizer_nfc,
    &normalizer_nfd,        &normalizer_nfkc,      &normalizer_nfkd,  &normalizer_precompiled,
    &normalizer_byte_level,
};

static void normalizer_close(const struct host *host, const struct normalizer *normalizer)
{
    if (normalizer->kind->close && normalizer->data) normalizer->kind->close(host, normalizer->data);
}

bool normalizers_add(const struct part_reader *r, const struct normalizer_kind *kind, void *data,
                     struct normalizers *out)
{
    struct normalizer one = {kind, data};
    struct normalizer *list = host_grow(r->host, out->list, out->count, out->count + 1, sizeof *list, r->e);
    if (!list) {
        normalizer_close(r->host, &one);
        return false;
    }
    out->list = list;
    list[out->count++] = one;
    return true;
}

static bool read_one(const struct part_reader *r, const json_t *json, const char *type, struct normalizers *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->type, type)) continue;
        struct normalizer one = {kinds[i], NULL};
        if (one.kind->open && !one.kind->open(r, json, &one.data)) {
            normalizer_close(r->host, &one);
            return false;
        }
        return normalizers_add(r, one.kind, one.data, out);
    }
    return part_unsupported(r, "normalizer", type);
}

bool normalizers_read(const struct part_reader *r, const json_t *json, struct normalizers *out)
{
    const char *type;
    if (!json || json_is_null(json)) return true;
    TRY(part_type(r, json, "normalizer", &type));
    if (strcmp(type, "Sequence")) return read_one(r, json, type, out);
    const json_t *members = json_object_get(json, "normalizers");
    if (!json_is_array(members)) return part_wrong(r, "normalizers", "an array");
    for (size_t i = 0; i < json_array_size(members); i++) {
        if (out->count >= PARTS_MOST) return part_wrong(r, "normalizers", "a short array");
        TRY(normalizers_read(r, json_array_get(members, i), out));
    }
    return true;
}

void normalizers_free(const struct host *host, struct normalizers *normalizers)
{
    for (size_t i = 0; i < normalizers->count; i++) normalizer_close(host, &normalizers->list[i]);
    host_free(host, normalizers->list);
    *normalizers = (struct normalizers){0};
}

struct bert_normalizer *normalizers_bert(const struct normalizers *normalizers)
{
    bool bert = normalizers->count == 1 && normalizers->list[0].kind == &normalizer_bert;
    return bert ? normalizers->list[0].data : NULL;
}

bool normalizers_apply(const struct normalizers *normalizers, const struct view *from, struct text between[2],
                       struct view *out, struct error *e)
{
    *out = *from;
    between[0].most = between[1].most = from->length * GROWTH_MOST + GROWTH_MORE;
    for (size_t i = 0; i < normalizers->count; i++) {
        const struct normalizer *one = &normalizers->list[i];
        TRY(one->kind->apply(one->data, out, &between[i & 1], e));
        *out = text_view(&between[i & 1]);
    }
    return true;
}
