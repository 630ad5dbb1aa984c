/* What a normalizer replaces and a pre-tokenizer splits at. A string is found in linear time as Knuth, Morris and Pratt
 * do it. */
#include "tokenizer/search.h"

#include <string.h>

static bool link_back(struct search *s, struct error *e)
{
    const uint32_t *text = s->text.items;
    s->back.host = s->text.host;
    TRY(list_reserve(&s->back, s->text.count, e));
    s->back.count = s->text.count;
    s->back.items[0] = 0;
    for (size_t i = 1, n = 0; i < s->text.count; i++) {
        while (n && text[i] != text[n]) n = s->back.items[n - 1];
        n += text[i] == text[n];
        s->back.items[i] = (uint32_t)n;
    }
    return true;
}

/* "C+" and "C{N,}" of a character that means itself: a run of it. */
static bool read_run(const char *regex, struct search *out, struct error *e)
{
    static const char special[] = ".^$*+?()[]{}\\|";
    TRY(list_add_text(&out->text, regex, strlen(regex), "a pattern", e));
    const uint32_t *c = out->text.items;
    size_t n = out->text.count, digits = 0;
    if (n < 2 || (c[0] < 0x80 && strchr(special, (int)c[0]))) return true;
    if (n == 2 && c[1] == '+') out->least = 1;
    if (n < 5 || c[1] != '{' || c[n - 2] != ',' || c[n - 1] != '}') return true;
    for (size_t i = 2; i < n - 2 && c[i] - '0' < 10 && i < 8; i++)
        digits = digits * 10 + (c[i] - '0'), out->least = digits;
    if (out->least && n - 4 > 6) out->least = 0;
    for (size_t i = 2; i < n - 2; i++)
        if (c[i] - '0' >= 10) out->least = 0;
    return true;
}

bool search_read(const struct part_reader *r, const json_t *pattern, struct search *out)
{
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    *out = (struct search){.text = {.host = r->host}};
    if (regex) {
        TRY(read_run(regex, out, r->e));
        size_t bytes = json_string_length(json_object_get(pattern, "Regex"));
        return out->least || regex_open(r->host, regex, bytes, &out->regex, r->e);
    }
    TRY(part_characters(r, pattern, "String", &out->text));
    if (!out->text.count) return part_wrong(r, "pattern", "a string that is not empty");
    return link_back(out, r->e);
}

void search_free(struct search *search)
{
    if (search->text.host) list_free(&search->text);
    if (search->back.host) list_free(&search->back);
    regex_close(search->text.host, search->regex);
}

/* ---- the walk ---- */

bool search_begin(const struct search *search, const struct host *host, const struct view *text,
                  struct search_walk *walk, struct error *e)
{
    *walk = (struct search_walk){.search = search, .text = text};
    return !search->regex || regex_begin(search->regex, host, text, &walk->regex, e);
}

void search_end(struct search_walk *walk) { regex_end(&walk->regex); }

static bool next_run(const struct search *s, const struct view *text, size_t *first, size_t *end)
{
    for (size_t i = *first, n = 0; i <= text->length; i++) {
        if (i < text->length && text->characters[i] == s->text.items[0]) {
            n++;
        } else if (n >= s->least) {
            *first = i - n;
            *end = i;
            return true;
        } else {
            n = 0;
        }
    }
    return false;
}

static bool next_string(const struct search *s, const struct view *text, size_t *first, size_t *end)
{
    for (size_t i = *first, n = 0; i < text->length; i++) {
        while (n && text->characters[i] != s->text.items[n]) n = s->back.items[n - 1];
        n += text->characters[i] == s->text.items[n];
        if (n < s->text.count) continue;
        *end = i + 1;
        *first = *end - n;
        return true;
    }
    return false;
}

bool search_next(struct search_walk *walk, bool *more, size_t *first, size_t *end, struct error *e)
{
    const struct search *s = walk->search;
    if (s->regex) return regex_next(&walk->regex, more, first, end, e);
    *first = *end = walk->at;
    *more = s->least ? next_run(s, walk->text, first, end) : next_string(s, walk->text, first, end);
    walk->at = *end;
    return true;
}
