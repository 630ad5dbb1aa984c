/* The pre-tokenizer of SentencePiece: spaces become a character of their own, which words begin with. */
#include "tokenizer/pre_metaspace.h"

#include <string.h>

#include "tokenizer/behavior.h"

struct metaspace {
    uint32_t replacement;
    enum prepend { ALWAYS, FIRST, NEVER } prepend;
    bool split;
};

void *metaspace_make(const struct part_reader *r, bool prefix)
{
    struct metaspace *m = host_alloc(r->host, 1, sizeof *m, r->e);
    if (m) *m = (struct metaspace){.replacement = 0x2581, .prepend = prefix ? ALWAYS : NEVER, .split = true};
    return m;
}

static bool open_metaspace(const struct part_reader *r, const json_t *json, void **data)
{
    static const char *const schemes[] = {"always", "first", "never"};
    struct metaspace *m = host_alloc(r->host, 1, sizeof *m, r->e);
    if (!m) return false;
    *data = m;
    TRY(part_character(r, json, "replacement", &m->replacement));
    const json_t *scheme = json_object_get(json, "prepend_scheme");
    if (scheme) {
        const char *name;
        size_t i = 0;
        TRY(part_string(r, json, "prepend_scheme", &name));
        while (i < 3 && strcmp(name, schemes[i])) i++;
        if (i == 3) return part_wrong(r, "prepend_scheme", "\"always\", \"first\" or \"never\"");
        m->prepend = (enum prepend)i;
    }
    /* The key of older files. */
    bool add = true;
    TRY(part_optional_bool(r, json, "add_prefix_space", &add));
    if (!add && scheme && m->prepend != NEVER)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"add_prefix_space\" contradicts \"prepend_scheme\"");
    /* The reference refuses such a file where the older key is alone: then its default of the newer one decides. */
    if (!add && !scheme)
        return fail(
            r->e, WHERRY_STATUS_BAD_FORMAT,
            "\"add_prefix_space\" is false and \"prepend_scheme\" is missing: write \"prepend_scheme\": \"never\"");
    m->split = true;
    return part_optional_bool(r, json, "split", &m->split);
}

static bool split_metaspace(const void *data, const struct view *given, struct pieces *to)
{
    const struct metaspace *m = data;
    struct text *own = &to->scratch;
    uint32_t c = given->characters[0] == ' ' ? m->replacement : given->characters[0];
    bool prepend = c != m->replacement && (m->prepend == ALWAYS || (m->prepend == FIRST && given->origin == 0));
    TRY(text_prepend(given, &m->replacement, prepend, own, to->e));
    for (size_t i = 0; i < own->characters.count; i++)
        if (own->characters.items[i] == ' ') own->characters.items[i] = m->replacement;
    struct view text = text_view(own);
    struct splitting s = {.text = &text, .to = to, .behavior = MERGED_WITH_NEXT};
    size_t begin = 0;
    for (size_t i = 0; m->split && i < text.length && !*to->full; i++) {
        if (text.characters[i] != m->replacement) continue;
        TRY(splitting_add(&s, begin, i, false) && splitting_add(&s, i, i + 1, true));
        begin = i + 1;
    }
    return splitting_add(&s, begin, text.length, false) && splitting_end(&s);
}

static void close_metaspace(const struct host *host, void *data) { host_free(host, data); }

static bool first_needs_places(const void *data) { return ((const struct metaspace *)data)->prepend == FIRST; }

const struct pre_tokenizer_kind pre_tokenizer_metaspace = {"Metaspace", open_metaspace, split_metaspace,
                                                           close_metaspace, first_needs_places};
