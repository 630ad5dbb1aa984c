/* A set of patterns, made for one question: which is the longest that begins at each place of a text? The answer takes
 * time linear in the text, whatever the patterns. */
#ifndef WHERRY_TOKENIZER_PATTERNS_H
#define WHERRY_TOKENIZER_PATTERNS_H

#include "tokenizer/vocabulary.h"

struct list;

/* Of a node of the tree. */
struct pattern_link {
    uint32_t shorter; /* the node of the longest text that this one's ends with, and that is in the tree too */
    uint32_t found;   /* the longest pattern that this one's text ends with, or is; the root: none */
    uint32_t length;  /* of this node's text */
};

/* The automaton of Aho and Corasick over the patterns read backward, for texts that are read backward. */
struct patterns {
    struct vocabulary tree;
    struct pattern_link *links; /* [tree.node_count] */
    size_t longest;             /* in characters */
};

/* Sorts `tokens` in place; the texts are needed only during the call. Empty ones are none. */
bool patterns_build(const struct host *host, struct token *tokens, size_t count, struct patterns *out, struct error *e);
/* The same of what lies after `prefix` in those tokens that begin with it; it has `length` characters. */
bool patterns_build_tails(const struct host *host, struct token *tokens, size_t count, const uint32_t *prefix,
                          size_t length, struct patterns *out, struct error *e);
void patterns_free(const struct host *host, struct patterns *patterns); /* accepts a zeroed one */

/* found->items[i] becomes the node of the longest pattern that begins at text[first + i], VOCABULARY_ROOT where none
 * does, for all places before `end`. Reads at most `longest` characters after those, and none from `length` on. */
bool patterns_find(const struct patterns *patterns, const uint32_t *text, size_t length, size_t first, size_t end,
                   struct list *found, struct error *e);
/* The pattern's id, and its length in characters. */
int32_t pattern_id(const struct patterns *patterns, uint32_t node, size_t *length);

#endif
