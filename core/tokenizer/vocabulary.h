/* A set of tokens with their ids, made for one question: which is the longest token that begins here? */
#ifndef WHERRY_TOKENIZER_VOCABULARY_H
#define WHERRY_TOKENIZER_VOCABULARY_H

#include "base/host.h"

/* A token's characters (not bytes) and its id. */
struct token {
    const uint32_t *text;
    size_t length;
    int32_t id;
    size_t rank; /* of two equal texts, the one of higher rank counts */
};

/* One node of the tree of all prefixes; its children are packed back to back, in the order of their characters. */
struct vocabulary_node {
    uint32_t c;
    int32_t id; /* -1: no token ends here */
    uint32_t first_child, children;
};

struct vocabulary {
    struct vocabulary_node *nodes; /* nodes[0] is the root; NULL: the vocabulary is empty */
    size_t node_count;
    size_t tokens; /* different ones */
};

enum { VOCABULARY_ROOT = 0 };
#define VOCABULARY_NOWHERE UINT32_MAX

/* Sorts `tokens` in place; the texts are needed only during the call. */
bool vocabulary_build(const struct host *host, struct token *tokens, size_t count, struct vocabulary *out,
                      struct error *e);
void vocabulary_free(const struct host *host, struct vocabulary *vocabulary); /* accepts a zeroed one */

/* The node that `text` leads to from `node`, VOCABULARY_NOWHERE when no token goes on like this. */
uint32_t vocabulary_walk(const struct vocabulary *vocabulary, uint32_t node, const uint32_t *text, size_t length);
/* The longest way from `node` (which may be VOCABULARY_NOWHERE) along `text` that ends a token: its length in
 * characters, and the token's id. 0 when there is none. Takes at most as many steps as the longest token has
 * characters. */
size_t vocabulary_match(const struct vocabulary *vocabulary, uint32_t node, const uint32_t *text, size_t length,
                        int32_t *id);
/* Calls `visit` with the characters of each token; false: it said so, or there was no memory. */
typedef bool (*vocabulary_visit)(const uint32_t *text, size_t length, int32_t id, void *user);
bool vocabulary_walk_all(const struct host *host, const struct vocabulary *vocabulary, vocabulary_visit visit,
                         void *user, struct error *e);
/* The id of exactly this token, -1 when there is none. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const uint32_t *text, size_t length);

#endif
