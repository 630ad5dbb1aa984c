/* Sums over shards: which of them one process keeps, and in which order they are added. */
#ifndef WHERRY_TRAIN_TREE_H
#define WHERRY_TRAIN_TREE_H

#include <stdbool.h>
#include <stddef.h>

enum { TREE_SHARDS_MOST = 1024, TREE_PARTS_MOST = 24 };

/* The sum over shards first to first + count - 1: those of a subtree of the balanced binary tree over as many shards as
 * there could be, a power of two. */
struct tree_part {
    size_t first, count;
    bool there; /* a shard of it has a gradient */
};

/* Shards are added from the last to the first. Sums that can't be joined yet lie one after the other. */
struct tree {
    struct tree_part parts[TREE_PARTS_MOST];
    int n;
};

/* A further part, below all that are there. */
void tree_add(struct tree *tree, struct tree_part part);
/* Whether the last two parts are the halves of one; if so they become it. *adds: the last one was to be added to the
 * one before, which *first says was empty. */
bool tree_join(struct tree *tree, bool *adds, bool *first);
/* The same of any two, where no shard will follow: their number is no power of two. */
bool tree_close(struct tree *tree, bool *adds, bool *first);

/* Shards of process p of n are those from tree_first(p) to, without, tree_first(p + 1). */
static inline size_t tree_first(size_t shards, size_t process, size_t processes)
{
    return shards * process / processes;
}
/* What is left of a process' shards, of which there[] says which have a gradient. */
void tree_of(size_t shards, size_t process, size_t processes, const bool *there, struct tree *out);
/* The most parts that a process has at a time: at most TREE_PARTS_MOST. */
int tree_depth(size_t shards, size_t processes);

#endif
