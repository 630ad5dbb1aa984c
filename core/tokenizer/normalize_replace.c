/* The normalizer that puts one string in the place of another. */
#include "tokenizer/normalizers.h"
#include "tokenizer/search.h"

struct replace {
    struct search search;
    struct list content;
};

static bool open_replace(const struct part_reader *r, const json_t *json, void **data)
{
    struct replace *replace = host_alloc(r->host, 1, sizeof *replace, r->e);
    if (!replace) return false;
    *data = replace;
    replace->content.host = r->host;
    return search_read(r, json_object_get(json, "pattern"), &replace->search) &&
           part_characters(r, json, "content", &replace->content);
}

static bool apply_replace(const void *data, const struct view *from, struct text *to, struct error *e)
{
    const struct replace *replace = data;
    struct search_walk walk = {0};
    struct rewrite r;
    size_t first = 0, end = 0;
    bool more = true;
    bool ok = rewrite_begin(&r, from, to, 0, e) && search_begin(&replace->search, to->characters.host, from, &walk, e);
    while (ok && (ok = search_next(&walk, &more, &first, &end, e)) && more) {
        while (r.at < first) rewrite_replace(&r, from->characters[r.at]);
        rewrite_skip(&r, end - first);
        ok = text_reserve(to, replace->content.count + (from->length - end), e);
        for (size_t i = 0; ok && i < replace->content.count; i++) rewrite_insert(&r, replace->content.items[i]);
    }
    while (ok && r.at < from->length) rewrite_replace(&r, from->characters[r.at]);
    search_end(&walk);
    return ok;
}

static void close_replace(const struct host *host, void *data)
{
    struct replace *replace = data;
    search_free(&replace->search);
    list_free(&replace->content);
    host_free(host, replace);
}

const struct normalizer_kind normalizer_replace = {"Replace", open_replace, apply_replace, close_replace};
