/* oneDNN as this backend sees it: blocks of a product with a weight, f32, y = activation(x * w + bias) + residual. No
 * name of its API is here (onednn.c has them), and nothing of this backend's steps is there (onednn_steps.c). */
#ifndef WHERRY_CPU_ONEDNN_H
#define WHERRY_CPU_ONEDNN_H

#include "base/host.h"

struct onednn;       /* the library, opened */
struct onednn_block; /* the primitives of all blocks of so many columns */
struct onednn_panel; /* a packed block of a weight, as the library sees it; it lies in memory of the caller's */

/* Rows of blocks, from many to few: all are multiples of six, for the AVX2 kernels have other orders of a sum for what
 * is left of tiles of six rows, and some of AVX-512 for a single row. */
enum { ONEDNN_SIZES = 8, ONEDNN_ROWS_MOST = 192, ONEDNN_ROWS_LEAST = 6 };
static inline size_t onednn_rows(int size)
{
    static const uint8_t rows[ONEDNN_SIZES] = {ONEDNN_ROWS_MOST, 96, 48, 36, 24, 18, 12, ONEDNN_ROWS_LEAST};
    return rows[size];
}

/* What a block computes. Element (r, k) of x is at r * x_row + k, (k, n) of w at k * w_step + n * w_row, (r, n) of y
 * and of the residual at r * y_row + n. */
struct onednn_work {
    size_t k, columns, x_row, w_row, w_step, y_row;
    uint32_t activation; /* ACTIVATION_* */
    bool bias, residual;
};

/* Where they are; `bias` and `residual` NULL where there is none. */
struct onednn_operands {
    const float *x, *bias, *residual;
    const struct onednn_panel *w;
    float *y, *scratch; /* `scratch`: onednn_scratch floats */
};

/* Opens the library, for good. Fails where it is not there, has another major version than the headers of this build,
 * or computes with threads that can't be kept to the caller's. */
bool onednn_open(const struct host *host, struct onednn **out, struct error *e);
void onednn_close(const struct host *host, struct onednn *o); /* accepts NULL */
const char *onednn_name(const struct onednn *o);              /* "oneDNN 2.6.3" */

/* NULL: out of memory, or the library has none for it. */
struct onednn_block *onednn_block_create(const struct onednn *o, const struct host *host,
                                         const struct onednn_work *work, struct error *e);
void onednn_block_destroy(const struct onednn *o, const struct host *host, struct onednn_block *b); /* accepts NULL */
const char *onednn_block_kernel(const struct onednn *o, const struct onednn_block *b); /* what the library calls it */
size_t onednn_packed(const struct onednn_block *b);                                    /* floats of a panel */
size_t onednn_scratch(const struct onednn_block *b); /* floats that a call wants, of the caller's own */

/* `packed`: onednn_packed floats, which outlive the panel. NULL: failed. */
struct onednn_panel *onednn_panel_create(const struct onednn *o, const struct onednn_block *b, float *packed);
void onednn_panel_destroy(const struct onednn *o, struct onednn_panel *panel); /* accepts NULL */
/* These two return the library's status, 0: done. Any number of threads may call them at once, for what they write. */
int onednn_pack(const struct onednn *o, const struct onednn_block *b, const float *w, struct onednn_panel *panel);
int onednn_multiply(const struct onednn *o, const struct onednn_block *b, int size, const struct onednn_operands *at);

#endif
