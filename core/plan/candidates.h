/* The sizes that a kernel call could have instead of those of the static table: what `wherry tune` measures. */
#ifndef WHERRY_PLAN_CANDIDATES_H
#define WHERRY_PLAN_CANDIDATES_H

#include "base/text.h"
#include "plan/tiles.h"

enum {
    CHOICE_SIZES = 16,   /* constants of one choice */
    CHOICE_TEXT = 272,   /* bytes */
    WORK_TEXT = 512,     /* bytes */
    CALL_TEXT = 544,     /* bytes, at most, that call_text adds */
    CHOICES_LEGAL = 512, /* of one call at most */
    CHOICES_MEASURED = 40
};

/* A kernel, portable or a variant, and its sizes. */
struct choice {
    const char *kernel;
    struct call_constant sizes[CHOICE_SIZES]; /* ascending ids */
    int n_sizes;
    double bound; /* seconds on a large GPU that no run of it comes below, for comparing; 0: unknown */
};

struct choices {
    struct choice of[CHOICES_LEGAL];
    int n;
    int kept;    /* of them, by choices_prune; those after are there all the same, where nothing was to be cut */
    int refused; /* that the device, or this session, can't run: shared memory, registers, work-items, tables */
    const struct sizes *s;
};

/* What a call does, without its sizes, and the bucket of the session's limits: equal texts, equal work. Model sizes are
 * as they are, rows (and, where it counts, the longest sequence) are rounded up to a power of two, dropout's
 * probability and the values of floats do not matter. `call` as group_calls made it, or with sizes. false: the text
 * is cut, and no key. */
bool work_text(const struct call *call, const struct sizes *s, char text[WORK_TEXT]);

/* The sizes that a call has; those that follow from `before` are not among them. false: more than a choice can have. */
bool choice_of(const struct call *call, const struct call *before, struct choice *out);
/* "gemm 0=256 27=128 ...": equal texts, equal choices. */
void choice_text(const struct choice *choice, char text[CHOICE_TEXT]);
/* Adds the kernel with all of its constants. */
void call_text(const struct call *call, struct text_writer *out);
/* Makes call number `i` of a group one with these sizes; a weight's gradient in parts gets its second call. */
void choice_apply(const struct choice *choice, struct call calls[GROUP_MAX_CALLS], int i, int *count,
                  const struct sizes *s);

/* Adds the sizes of `call` to the list when the device can run them and they are new. */
void choices_add(struct choices *list, const struct call *call);
/* Rows that a part has where there are `parts` of them in the bucket, a multiple of `unit`. */
uint32_t choices_part_rows(const struct choices *list, uint64_t parts, uint32_t unit);
/* What a number of rows, or a length, counts as. */
uint64_t choices_bucket(uint64_t rows);

/* What kernels' lists are made of. */
enum { LOCAL_LEAST = 32, PART_COUNTS = 5, REGISTERS_REST = 24 /* of a work-item, beside what a kernel counts */ };
/* Every power of two that leaves a work-item no more of a row than its registers hold. */
void choices_local_sizes(struct choices *list, const struct call *sized, uint32_t least, uint32_t most);
/* All of these, for a row of N elements a work-group. */
void choices_rows(const struct call *sized, const struct sizes *s, struct choices *list);
/* A row for each work-group, or for each team in it. */
void choices_teams(const struct call *sized, const struct sizes *s, struct choices *list);
/* For kernels that look at no more than LOCAL_SIZE elements each. */
void choices_elements(const struct call *sized, const struct sizes *s, struct choices *list);
/* Number `i`, of PART_COUNTS, of parts: work-groups of half a round of a GPU and multiples; a CPU's take turns. */
uint64_t choices_parts(const struct choices *list, int i);

/* All sizes that the kernels for this call are right with on this device: they depend on the call, the device and the
 * bucket alone. The static table's are not among them where they follow from the exact number of rows. */
void choices_legal(const struct call *call, const struct sizes *s, struct choices *list);
/* Leaves `most` of them: first those that the bound of bytes and flop says could be good, then those near `usual`, the
 * static table's. Returns how many were cut. `all`: those that would be cut stay, after the others. */
int choices_prune(struct choices *list, const struct choice *usual, int most, bool all);

#endif
