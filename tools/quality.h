/* How near two sets of embeddings of the same texts are. */
#ifndef WHERRY_TOOLS_QUALITY_H
#define WHERRY_TOOLS_QUALITY_H

#include <stddef.h>

struct quality_found {
    double cosine, least;    /* of a text's two embeddings: the mean, and the least one */
    size_t least_at;         /* that text, from 0 */
    size_t compared;         /* texts that are compared with one another: all, or so many that lie evenly among them */
    double rank_correlation; /* Spearman's, of the similarities of all pairs of those */
    size_t top;              /* 10, or as many others as there are */
    double overlap;          /* of a text's `top` nearest others the share that are the same in both, the mean */
};

/* Both are [texts, size]; at least 3 texts. */
struct quality_found quality_find(const float *a, const float *b, size_t texts, size_t size);

#endif
