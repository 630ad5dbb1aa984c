/* The figures of Ivanov et al., "Data Movement Is All You Need" (arXiv 2007.00072, version 2), and its ways of counting
 * and of printing, so that ours can stand beside them. */
#ifndef WHERRY_TOOLS_PAPER_H
#define WHERRY_TOOLS_PAPER_H

#include <wherry/wherry.h>

#include "output.h"

enum {
    PAPER_ROWS = 46,
    PAPER_USES = 14,
    PAPER_NOTES = 5,
    PAPER_BATCH = 8,
    PAPER_LENGTH = 512,
    PAPER_EINSUMS = 24,
    PAPER_KERNELS = 12
};

/* A row of its table of operators (Table III): cells as printed. */
struct paper_row {
    char class_;
    const char *gflop, *in, *out; /* 2^30; 10^6 words */
    uint32_t pytorch_us, us;      /* us 0: the row is part of a kernel whose time stands at its first row */
};
extern const struct paper_row paper_rows[PAPER_ROWS + 1]; /* from 1 */

/* A use of one of its twelve fused kernels. */
struct paper_use {
    const char *name;
    int first, last, beside; /* rows; one more that the authors' code computes there, 0: none */
    int words;               /* Q, the words of its lower bound, in units of one tensor */
    char tensor;             /* X: [b, j, i]; S: [b, h, j, k]; F: [b, j, u] */
    int moved;               /* words that the authors' code moves */
    uint32_t us, mue;
};
extern const struct paper_use paper_uses[PAPER_USES];

/* The five rows whose printed words are not those of the rule that the other rows follow. */
struct paper_note {
    int row;
    const char *text;
};
extern const struct paper_note paper_notes[PAPER_NOTES];

/* A contraction, as the authors' code enumerates its layouts, and what it counts there. */
struct paper_einsum {
    const char *name, *einsum;
    char stack;                                       /* of Q, K and V (q) or of two of them (v); 0: none */
    uint32_t m, n, k, batch;                          /* as its figures have them: M and N may be exchanged */
    uint32_t permutations, valid, stack_first, gemms; /* stack_first 0: there is no stack */
};
extern const struct paper_einsum paper_einsums[PAPER_EINSUMS];
/* The letters of its einsums, and their sizes in BERT-large at PAPER_BATCH and PAPER_LENGTH. */
extern const char paper_letters[];
extern const uint32_t paper_sizes[];

/* The tensors that one of its fused kernels can lay out, and how many configurations the authors' benchmark has. */
struct paper_kernel {
    const char *name;
    const char *tensors; /* what the benchmark ties to another is not listed twice */
    const char *reduced;
    const char *only; /* letters that its code limits vectors and threads to; NULL: none */
    uint32_t configurations;
    const char *note; /* what the authors chose, and no rule tells */
};
extern const struct paper_kernel paper_kernels[PAPER_KERNELS];

/* Times of the best and the worst layout that its figures print, in ms on a V100 in f16: 4 for contractions, on tensor
 * cores and without them; 5 for fused kernels, which have the first pair alone (else 0). */
struct paper_range {
    double best, worst, half_best, half_worst;
};
extern const struct paper_range paper_einsum_ranges[PAPER_EINSUMS], paper_kernel_ranges[PAPER_KERNELS];
/* The group of the plan "paper" that does the work of one of its kernels or einsums; NULL: none does by itself. */
extern const char *const paper_kernel_groups[PAPER_KERNELS], *const paper_einsum_groups[PAPER_EINSUMS];

/* Words of a row of wherry_analysis_rows, counted in f16: the paper also moves dropout's masks, which are not stored
 * here, and a layernorm's 1/std (one for each token), which is computed again here. */
void paper_words(const wherry_cost *row, uint64_t tokens, double *in, double *out);
double paper_tensor(const wherry_model_config *config, uint32_t batch, uint32_t length, char tensor);
/* The lower and upper end of MUE in percent: the time is printed in whole microseconds, cut off. */
void paper_mue(const struct paper_use *use, double words, double *low, double *high);
/* The use with just these rows (of `rows`, a bit each), NULL: there is none. */
const struct paper_use *paper_find(uint64_t rows);
uint64_t paper_use_rows(const struct paper_use *use);

/* flop / 2^30 as the paper prints it: rounded to 3 decimals, trailing zeros off, "-" for none. */
const char *paper_format_flops(double flops, char text[NUMBER_SIZE]);
/* Words / 10^6 as the paper prints them: cut off after the first decimal, "<0.1" where nothing would be left. */
const char *paper_format_words(double words, char text[NUMBER_SIZE]);
/* Whether a printed cell says the same as ours; "<0.01" and "<0.1" do. */
bool paper_same(const char *cell, const char *ours);

#endif
