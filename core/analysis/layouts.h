/* The space of layouts: in which orders a tensor's letters may lie in memory, which of them make a contraction one
 * GEMM, and how many ways to lie and to be walked a fused kernel has. Pure arithmetic on letters: knows neither plans
 * nor kernels nor devices. docs/layouts.md tells what the space is.
 *
 * A layout is an order of letters, slowest first, the last one contiguous. Three of them, for A, B and C of a
 * contraction, written as an einsum ("qphi,ibj->qphbj"), name one point of its space. */
#ifndef WHERRY_ANALYSIS_LAYOUTS_H
#define WHERRY_ANALYSIS_LAYOUTS_H

#include "graph/group.h"
#include "wherry/wherry_measure.h"

/* ---- contractions ---- */

/* What a letter is to a GEMM, by the operands that have it: M those of A and C, N of B and C, K of A and B, batch of
 * all three. */
enum layout_group { LAYOUT_M, LAYOUT_N, LAYOUT_K, LAYOUT_BATCH, LAYOUT_GROUPS };

/* A contraction with sizes. */
struct layout_space {
    char operand[3][16];           /* letters of A, B and C */
    char group[LAYOUT_GROUPS][16]; /* letters of each group, "": none */
    struct dims dims;              /* of every letter, also b, j and k */
    uint64_t tokens, pairs;        /* of a packed batch: what b with j or k, and b with both, count; 0: equal lengths */
};

/* dims has the sizes of all letters, with j and k as long as every sequence is. Fails where the text is no contraction
 * of two operands: a letter that one operand has twice, or that stands in one of the three alone, or has no size. */
bool layout_space_create(const char *einsum, const struct dims *dims, struct layout_space *out, struct error *e);
/* Takes the sizes of a packed batch, for GEMMs over all of its tokens, and j and k of this sequence, for its own. */
void layout_space_sequence(struct layout_space *space, const struct batch_shape *b, uint32_t sequence);
uint64_t layout_group_size(const struct layout_space *space, enum layout_group group);

/* A triple of orders as a GEMM, or as strided-batched ones: C[m][n] = sum over k of A[m][k] B[k][n], `batch` times.
 * The leading dimension is the distance of the slower index of the two, in elements. */
struct layout_gemm {
    bool transposed[3]; /* A lies [k][m], B [n][k], C [n][m] */
    uint64_t m, n, k, batch;
    uint64_t ld[3];
    uint64_t stride[3]; /* from one product of the batch to the next, 0 without a batch group */
};

/* The same as BLAS has it, column by column: what a library is called with, and what tells whether two triples are the
 * same work. A result that is not transposed is, column by column, its transposition: B comes first there. */
struct layout_blas {
    bool transposed[2];
    uint64_t m, n, k, batch;
    uint64_t ld[3], stride[3];
};

/* *exchanged (may be NULL): B is the first operand. */
void layout_blas_of(const struct layout_gemm *gemm, struct layout_blas *out, bool *exchanged);
bool layout_blas_same(const struct layout_blas *a, const struct layout_blas *b);

/* Whether these orders of A, B and C are one GEMM or one strided-batched GEMM, and which: the letters of every group
 * stand together in every operand and everywhere in the same order, and no operand ends with the batch group, because
 * GEMM wants one of its two indices contiguous. */
bool layout_gemm_of(const struct layout_space *space, const char *const order[3], struct layout_gemm *out);

struct layout_triple {
    char order[3][16];
    struct layout_gemm gemm;
};

/* Which batches a triple is for. */
enum layout_batch {
    LAYOUT_UNIFORM, /* sequences of one length: b, j and k are letters like others */
    /* Those of the uniform ones whose tensors may be packed (layout_packed). With b in the batch group they still are
     * one GEMM for equal lengths only. */
    LAYOUT_PACKED,
    /* Packed batches where b is in the batch group: lengths differ from product to product, so each sequence has a GEMM
     * of its own, of the letters but b, which then may stand apart from the rest of the batch group. Its operands begin
     * where the sequence does. Nothing where b is in another group: there the tokens are rows of one GEMM. */
    LAYOUT_BY_SEQUENCE
};

/* Calls `visit` with each triple that is a GEMM, built group by group; false from it ends the walk and is returned. */
bool layouts_visit(const struct layout_space *space, enum layout_batch batch,
                   bool (*visit)(const struct layout_triple *triple, void *user), void *user);

/* `stack`: the letter whose slices others read as tensors of their own, 0: there is none. Slices are whole where it is
 * the slowest letter of every operand that has it. */
bool layout_stack_first(const struct layout_triple *triple, char stack);
void layout_space_count(const struct layout_space *space, char stack, wherry_product_layouts *out);

/* ---- tensors ---- */

/* Whether a packed batch can lie so. Its sequences are packed back to back, so b is slower than the positions; with
 * one position letter after it, next to it, both are the token's index, whose stride is the same in all sequences.
 * With two (scores) the strides are the sequence's own anyway, and letters may stand between. */
bool layout_packed(const char *order);
/* How many orders these letters have. */
uint64_t layout_orders(const char *letters, bool packed);

/* ---- kernels without a product ---- */

/* What can be chosen: an order for each tensor, the letter along which elements are loaded as vectors, and the one that
 * goes over threads. */
struct layout_kernel {
    char tensors[GROUP_MAX_TENSORS][16]; /* distinct ones; those that must lie alike once */
    int n_tensors;
    char vector[16], threads[16]; /* letters to choose from */
};

/* The rule for the two choices: vectors go along any letter that the kernel runs over; threads share what it reduces (a
 * warp adds up one row), or where it reduces nothing, any letter.
 *
 * By that rule, of tensors as text: "hbjk,hbjk,bj". `only` limits both choices to these letters, NULL: it does not. */
bool layout_kernel_read(const char *tensors, const char *reduced, const char *only, struct layout_kernel *out,
                        struct error *e);
/* Of a group's tensors but those that the host lays out (ids); false: the group has a product, with whose operands the
 * rest lies. */
bool layout_kernel_of(const struct graph *g, const struct group *group, struct layout_kernel *out);
/* Configurations: the product of all choices. UINT64_MAX: so many, or more. */
uint64_t layout_kernel_count(const struct layout_kernel *kernel, bool packed);

#endif
