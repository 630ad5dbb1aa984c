/* A set of patterns, made for one question: which is the longest that begins at each place of a text? */
#include "tokenizer/patterns.h"

#include <string.h>

#include "tokenizer/text.h"

/* The node that continues `node`, or the longest text that it ends with, by c. Each step down was a step up before, so
 * that a text, and a pattern, costs no more steps than twice its characters. */
static uint32_t next_node(const struct patterns *p, uint32_t node, uint32_t c)
{
    for (;;) {
        uint32_t next = vocabulary_walk(&p->tree, node, &c, 1);
        if (next != VOCABULARY_NOWHERE) return next;
        if (node == VOCABULARY_ROOT) return VOCABULARY_ROOT;
        node = p->links[node].shorter;
    }
}

/* Nodes lie level by level: what is shorter is done. */
static void link_nodes(struct patterns *p)
{
    for (uint32_t n = 0; n < p->tree.node_count; n++) {
        const struct vocabulary_node *node = &p->tree.nodes[n];
        for (uint32_t child = node->first_child; child < node->first_child + node->children; child++) {
            struct pattern_link *link = &p->links[child];
            if (n != VOCABULARY_ROOT) link->shorter = next_node(p, p->links[n].shorter, p->tree.nodes[child].c);
            link->found = p->tree.nodes[child].id >= 0 ? child : p->links[link->shorter].found;
            link->length = p->links[n].length + 1;
        }
    }
}

/* Appends the tokens' characters from the last to the first, and lets the tokens point there. */
static bool reverse(struct token *tokens, size_t count, struct list *text, struct error *e)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) total += tokens[i].length;
    TRY(list_reserve(text, total + 1, e)); /* there is memory to point to, also where all are empty */
    for (size_t i = 0; i < count; i++) {
        uint32_t *to = text->items + text->count;
        for (size_t k = 0; k < tokens[i].length; k++) to[k] = tokens[i].text[tokens[i].length - 1 - k];
        tokens[i].text = to;
        text->count += tokens[i].length;
    }
    return true;
}

bool patterns_build(const struct host *host, struct token *tokens, size_t count, struct patterns *out, struct error *e)
{
    struct patterns p = {.longest = 0};
    struct list text = {.host = host};
    *out = p;
    bool ok = reverse(tokens, count, &text, e) && vocabulary_build(host, tokens, count, &p.tree, e);
    for (size_t i = 0; ok && i < p.tree.tokens; i++)
        if (tokens[i].length > p.longest) p.longest = tokens[i].length;
    list_free(&text);
    if (ok && p.longest) p.links = host_alloc(host, p.tree.node_count, sizeof *p.links, e);
    if (!p.links) { /* nothing to find, or a failure */
        bool none = ok && !p.longest;
        patterns_free(host, &p);
        return none;
    }
    link_nodes(&p);
    *out = p;
    return true;
}

bool patterns_build_tails(const struct host *host, struct token *tokens, size_t count, const uint32_t *prefix,
                          size_t length, struct patterns *out, struct error *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct token token = tokens[i];
        if (token.length < length || (length && memcmp(token.text, prefix, length * sizeof *prefix))) continue;
        token.text += length;
        token.length -= length;
        tokens[kept++] = token;
    }
    return patterns_build(host, tokens, kept, out, e);
}

void patterns_free(const struct host *host, struct patterns *patterns)
{
    vocabulary_free(host, &patterns->tree);
    host_free(host, patterns->links);
    *patterns = (struct patterns){0};
}

bool patterns_find(const struct patterns *patterns, const uint32_t *text, size_t length, size_t first, size_t end,
                   struct list *found, struct error *e)
{
    found->count = 0;
    TRY(list_reserve(found, end - first, e));
    found->count = end - first;
    if (!patterns->longest) { /* no patterns, so no tree */
        for (size_t i = 0; i < found->count; i++) found->items[i] = VOCABULARY_ROOT;
        return true;
    }
    size_t at = length - end > patterns->longest ? end + patterns->longest : length;
    for (uint32_t node = VOCABULARY_ROOT; at-- > first;) {
        node = next_node(patterns, node, text[at]);
        if (at < end) found->items[at - first] = patterns->links[node].found;
    }
    return true;
}

int32_t pattern_id(const struct patterns *patterns, uint32_t node, size_t *length)
{
    *length = patterns->links[node].length;
    return patterns->tree.nodes[node].id;
}
