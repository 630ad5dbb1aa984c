/* The order of sums over shards. */
#include "train/tree.h"

void tree_add(struct tree *tree, struct tree_part part) { tree->parts[tree->n++] = part; }

static void join(struct tree *tree, bool *adds, bool *first)
{
    struct tree_part *a = &tree->parts[tree->n - 2], *b = a + 1;
    *adds = b->there;
    *first = !a->there;
    *a = (struct tree_part){.first = b->first, .count = a->count + b->count, .there = a->there || b->there};
    tree->n--;
}

bool tree_join(struct tree *tree, bool *adds, bool *first)
{
    if (tree->n < 2) return false;
    const struct tree_part *a = &tree->parts[tree->n - 2], *b = a + 1;
    if (a->count != b->count || b->first % (2 * b->count)) return false;
    join(tree, adds, first);
    return true;
}

bool tree_close(struct tree *tree, bool *adds, bool *first)
{
    if (tree->n < 2) return false;
    join(tree, adds, first);
    return true;
}

void tree_of(size_t shards, size_t process, size_t processes, const bool *there, struct tree *out)
{
    size_t first = tree_first(shards, process, processes);
    bool adds, begins;
    out->n = 0;
    for (size_t v = tree_first(shards, process + 1, processes); v-- > first;) {
        tree_add(out, (struct tree_part){.first = v, .count = 1, .there = there[v]});
        while (tree_join(out, &adds, &begins)) continue;
    }
}

static int depth_of(size_t first, size_t end)
{
    struct tree tree = {.n = 0};
    int most = 0;
    bool adds, begins;
    for (size_t v = end; v-- > first;) {
        tree_add(&tree, (struct tree_part){.first = v, .count = 1});
        if (tree.n > most) most = tree.n;
        while (tree_join(&tree, &adds, &begins)) continue;
    }
    return most;
}

int tree_depth(size_t shards, size_t processes)
{
    int most = 1;
    for (size_t p = 0; p < processes; p++) {
        int depth = depth_of(tree_first(shards, p, processes), tree_first(shards, p + 1, processes));
        if (depth > most) most = depth;
    }
    return most;
}
