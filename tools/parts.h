/* A long work on texts that several processes share: parts of the input, each with a file of results that is written
 * whole or not at all, so that the work goes on where it was stopped; at its end the files are joined in order. */
#ifndef WHERRY_TOOLS_PARTS_H
#define WHERRY_TOOLS_PARTS_H

#include "ranks.h"
#include "text_source.h"

struct parts {
    struct ranks *ranks;
    struct text_source *source;
    const char *target; /* what the results are joined to */
    char *folder;       /* of the parts' files, beside it */
    uint64_t identity;  /* of what makes results what they are, but the texts */
    uint64_t bytes;     /* of texts in a part */
    struct text_place place;
    uint64_t walked, texts; /* parts and texts before this place */
    uint64_t kept, made;    /* parts of this process: that were there already, that are new */
};

struct part {
    char *path; /* of its file; owned */
    struct text_place place;
    uint64_t number, first, texts, hash; /* first: texts before it */
};

/* All processes call these; they complain and return an exit code. */

/* `identity`: the same in all processes, and when the work goes on. Accepts `target` that is a file alone. */
int parts_open(struct parts *parts, struct ranks *ranks, struct text_source *source, const char *target,
               uint64_t identity);
/* The next part whose results are not there, with the source at its begin and its end; *more false: there is none. */
int parts_next(struct parts *parts, struct part *part, bool *more);
/* Opens the file of a part's results, and closes it; `keep` false: it goes. */
int part_begin(struct part *part, struct output *out);
int part_end(struct parts *parts, struct part *part, struct output *out, bool keep);
/* What process 0 does when all have no part left: rows of the results, then what parts_next's files have, one after the
 * other. */
int parts_rows(const struct parts *parts, uint64_t *rows);
int parts_join(const struct parts *parts, struct output *out);
/* Takes the parts' files away. */
void parts_remove(const struct parts *parts);
/* Accepts a zeroed one. */
void parts_close(struct parts *parts);

#endif
