/* A set of tokens with their ids, made for one question: which is the longest token that begins here? */
#include "tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* A token by a few of its characters, which tell most of them apart: so sorting hardly looks at anything else. */
struct sorted {
    uint64_t key;
    const struct token *token;
};

enum { KEY_CHARACTERS = 3, CHARACTER_BITS = 21, DIGIT_BITS = 9, DIGITS = 7, DIGIT_VALUES = 1 << DIGIT_BITS };

/* The characters from `at` on. Those of Unicode have 21 bits. A text that ends goes before all that go on: as 0, which
 * comes last in ties. */
static uint64_t token_key(const struct token *t, size_t at)
{
    uint64_t key = 0;
    for (size_t i = at; i < at + KEY_CHARACTERS; i++) key = key << CHARACTER_BITS | (i < t->length ? t->text[i] : 0);
    return key;
}

/* Of two whose first KEY_CHARACTERS are equal, with the keys of those after them. */
static int token_compare(const void *left, const void *right)
{
    const struct sorted *x = left, *y = right;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    const struct token *a = x->token, *b = y->token;
    size_t length = a->length < b->length ? a->length : b->length;
    for (size_t i = 2 * KEY_CHARACTERS; i < length; i++) {
        if (a->text[i] != b->text[i]) return a->text[i] < b->text[i] ? -1 : 1;
    }
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* By the keys alone, equal ones staying in order: digit by digit, from the lowest. Returns which of the two has them.
 */
static struct sorted *sort_keys(struct sorted *from, struct sorted *to, size_t count)
{
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        size_t place[DIGIT_VALUES] = {0}, before = 0;
        unsigned shift = digit * DIGIT_BITS;
        for (size_t i = 0; i < count; i++) place[from[i].key >> shift & (DIGIT_VALUES - 1)]++;
        if (place[from[0].key >> shift & (DIGIT_VALUES - 1)] == count) continue; /* all the same */
        for (size_t v = 0; v < DIGIT_VALUES; v++) {
            size_t own = place[v];
            place[v] = before;
            before += own;
        }
        for (size_t i = 0; i < count; i++) to[place[from[i].key >> shift & (DIGIT_VALUES - 1)]++] = from[i];
        struct sorted *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* Those that have the same key, among each other. */
static void sort_rest(struct sorted *order, size_t count)
{
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && order[end].key == order[first].key;) end++;
        if (end - first < 2) continue;
        for (size_t i = first; i < end; i++) order[i].key = token_key(order[i].token, KEY_CHARACTERS);
        qsort(order + first, end - first, sizeof *order, token_compare);
    }
}

/* In place. */
static bool tokens_sort(const struct host *host, struct token *tokens, size_t count, struct error *e)
{
    struct sorted *order = host_alloc_unset(host, count, 2 * sizeof *order, e);
    struct token *copy = order ? host_alloc_unset(host, count, sizeof *copy, e) : NULL;
    if (copy) {
        memcpy(copy, tokens, count * sizeof *copy);
        for (size_t i = 0; i < count; i++) order[i] = (struct sorted){token_key(&copy[i], 0), &copy[i]};
        struct sorted *sorted = sort_keys(order, order + count, count);
        sort_rest(sorted, count);
        for (size_t i = 0; i < count; i++) tokens[i] = *sorted[i].token;
    }
    host_free(host, copy);
    host_free(host, order);
    return copy != NULL;
}

static size_t shared_prefix(const struct token *a, const struct token *b)
{
    size_t n = 0;
    while (n < a->length && n < b->length && a->text[n] == b->text[n]) n++;
    return n;
}

/* Drops all but the last of equal texts; returns how many stay. */
static size_t drop_duplicates(struct token *tokens, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool same = kept && tokens[kept - 1].length == tokens[i].length &&
                    shared_prefix(&tokens[kept - 1], &tokens[i]) == tokens[i].length;
        tokens[same ? kept - 1 : kept++] = tokens[i];
    }
    return kept;
}

/* Of a node that is being made: the sorted tokens that begin with it. */
struct range {
    uint32_t first, end;
};

/* Level by level, so that each node's children get neighbouring places. */
static void make_nodes(const struct token *tokens, struct vocabulary *v, struct range *ranges)
{
    size_t made = 1, level_end = 1, depth = 0;
    ranges[0] = (struct range){0, (uint32_t)v->tokens};
    v->nodes[0].c = 0;
    for (size_t n = 0; n < made; n++) {
        if (n == level_end) {
            level_end = made;
            depth++;
        }
        struct vocabulary_node *node = &v->nodes[n];
        uint32_t i = ranges[n].first, end = ranges[n].end;
        node->id = -1;
        node->first_child = (uint32_t)made;
        if (i < end && tokens[i].length == depth) node->id = tokens[i++].id;
        while (i < end) {
            uint32_t c = tokens[i].text[depth], first = i;
            while (i < end && tokens[i].text[depth] == c) i++;
            v->nodes[made].c = c;
            ranges[made++] = (struct range){first, i};
        }
        node->children = (uint32_t)made - node->first_child;
    }
}

/* The tokens with their characters side by side in `text`, so that a walk over them is one over the memory. */
static void pack(const struct token *tokens, size_t count, struct token *packed, uint32_t *text)
{
    for (size_t i = 0; i < count; i++) {
        packed[i] = tokens[i];
        packed[i].text = text;
        if (tokens[i].length) memcpy(text, tokens[i].text, tokens[i].length * sizeof *text);
        text += tokens[i].length;
    }
}

/* Of sorted tokens, which differ. */
static bool build(const struct host *host, const struct token *tokens, size_t count, struct vocabulary *out,
                  struct error *e)
{
    struct vocabulary v = {.tokens = count, .node_count = 1};
    for (size_t i = 0; i < v.tokens; i++)
        v.node_count += tokens[i].length - (i ? shared_prefix(&tokens[i - 1], &tokens[i]) : 0);
    if (v.node_count >= UINT32_MAX || v.tokens >= UINT32_MAX)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "the vocabulary has too many characters");
    v.nodes = host_alloc_unset(host, v.node_count, sizeof *v.nodes, e);
    if (!v.nodes) return false;
    struct range *ranges = host_alloc_unset(host, v.node_count, sizeof *ranges, e);
    if (!ranges) {
        vocabulary_free(host, &v);
        return false;
    }
    make_nodes(tokens, &v, ranges);
    host_free(host, ranges);
    *out = v;
    return true;
}

bool vocabulary_build(const struct host *host, struct token *tokens, size_t count, struct vocabulary *out,
                      struct error *e)
{
    *out = (struct vocabulary){0};
    if (!count) return true;
    TRY(tokens_sort(host, tokens, count, e));
    size_t characters = 0, kept = drop_duplicates(tokens, count);
    for (size_t i = 0; i < kept; i++) characters += tokens[i].length;
    struct token *packed = host_alloc_unset(host, kept, sizeof *packed, e);
    uint32_t *text = packed ? host_alloc_unset(host, characters, sizeof *text, e) : NULL;
    if (text) pack(tokens, kept, packed, text);
    bool ok = text && build(host, packed, kept, out, e);
    host_free(host, text);
    host_free(host, packed);
    return ok;
}

void vocabulary_free(const struct host *host, struct vocabulary *vocabulary)
{
    host_free(host, vocabulary->nodes);
    *vocabulary = (struct vocabulary){0};
}

static uint32_t child_of(const struct vocabulary *v, uint32_t node, uint32_t c)
{
    uint32_t low = v->nodes[node].first_child, end = low + v->nodes[node].children, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (v->nodes[middle].c < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && v->nodes[low].c == c ? low : VOCABULARY_NOWHERE;
}

uint32_t vocabulary_walk(const struct vocabulary *v, uint32_t node, const uint32_t *text, size_t length)
{
    if (!v->nodes) return VOCABULARY_NOWHERE;
    for (size_t i = 0; i < length && node != VOCABULARY_NOWHERE; i++) node = child_of(v, node, text[i]);
    return node;
}

size_t vocabulary_match(const struct vocabulary *v, uint32_t node, const uint32_t *text, size_t length, int32_t *id)
{
    size_t longest = 0;
    if (!v->nodes || node == VOCABULARY_NOWHERE) return 0;
    for (size_t i = 0; i < length; i++) {
        node = child_of(v, node, text[i]);
        if (node == VOCABULARY_NOWHERE) break;
        if (v->nodes[node].id < 0) continue;
        longest = i + 1;
        *id = v->nodes[node].id;
    }
    return longest;
}

int32_t vocabulary_find(const struct vocabulary *v, const uint32_t *text, size_t length)
{
    uint32_t node = vocabulary_walk(v, VOCABULARY_ROOT, text, length);
    return node == VOCABULARY_NOWHERE ? -1 : v->nodes[node].id;
}

/* ---- all of them ---- */

/* Depth first, by a stack of nodes and of how many of their children were visited: the text so far is the way to the
 * last one. */
bool vocabulary_walk_all(const struct host *host, const struct vocabulary *v, vocabulary_visit visit, void *user,
                         struct error *e)
{
    struct step {
        uint32_t node, next;
    } *steps = NULL;
    uint32_t *text = NULL;
    size_t depth = 0, room = 0;
    bool ok = true;
    if (!v->nodes) return true;
    for (uint32_t node = VOCABULARY_ROOT; ok;) {
        if (depth == room) { /* both grow together; the longest token decides */
            size_t wider = room ? 2 * room : 64;
            void *more = host_grow(host, steps, room, wider, sizeof *steps, e);
            if (more) steps = more;
            void *longer = more ? host_grow(host, text, room, wider, sizeof *text, e) : NULL;
            if (longer) text = longer;
            if (!(ok = longer != NULL)) break;
            room = wider;
        }
        steps[depth] = (struct step){node, 0};
        if (depth) text[depth - 1] = v->nodes[node].c;
        if (v->nodes[node].id >= 0) ok = visit(text, depth, v->nodes[node].id, user);
        depth++;
        while (depth && steps[depth - 1].next == v->nodes[steps[depth - 1].node].children) depth--;
        if (!depth) break;
        struct step *last = &steps[depth - 1];
        node = v->nodes[last->node].first_child + last->next++;
    }
    host_free(host, steps);
    host_free(host, text);
    return ok;
}
