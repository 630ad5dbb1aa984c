/* The double definition of every contraction: any einsum of two operands, sequence by sequence where lengths differ. */
#include <string.h>

#include "base/platform.h"
#include "graph/references.h"

/* A letter's size in one product, and its stride in each operand and the result (0 where it does not occur). */
struct axis {
    size_t size, stride[3];
};

/* One product: C[m][n] += sum over k of A[m][k] B[k][n], for all combinations of the letters of each kind of axis,
 * repeated over `batch`. */
enum axis_kind { AXIS_M, AXIS_N, AXIS_K, AXIS_BATCH, AXIS_COUNT };

struct product {
    const double *a, *b; /* where this sequence begins */
    double *c;
    struct axis axes[AXIS_COUNT][8];
    int n_axes[AXIS_COUNT];
    size_t count[AXIS_COUNT];
};

static size_t axis_count(const struct product *p, enum axis_kind kind)
{
    size_t n = 1;
    for (int i = 0; i < p->n_axes[kind]; i++) n *= p->axes[kind][i].size;
    return n;
}

/* Offset in operand `of` of the combination number `index` of an axis kind's letters. */
static size_t axis_offset(const struct product *p, enum axis_kind kind, size_t index, int of)
{
    size_t offset = 0;
    for (int i = p->n_axes[kind] - 1; i >= 0; i--) {
        const struct axis *x = &p->axes[kind][i];
        offset += index % x->size * x->stride[of];
        index /= x->size;
    }
    return offset;
}

struct block_work {
    const struct product *p;
    const double *packed;   /* [k][n] */
    const size_t *k_offset; /* [k]: in A */
    const double *a;
    double *c;
};

enum { BLOCK = 8 }; /* rows of C that one work item makes */

static void rows_work(size_t item, void *user)
{
    const struct block_work *w = user;
    const struct product *p = w->p;
    size_t n = p->count[AXIS_N], k = p->count[AXIS_K], end = (item + 1) * BLOCK;
    double sums[256];
    if (end > p->count[AXIS_M]) end = p->count[AXIS_M];
    for (size_t m = item * BLOCK; m < end; m++) {
        const double *a = w->a + axis_offset(p, AXIS_M, m, 0);
        double *c = w->c + axis_offset(p, AXIS_M, m, 2);
        for (size_t n0 = 0; n0 < n; n0 += 256) {
            size_t width = n - n0 < 256 ? n - n0 : 256;
            memset(sums, 0, sizeof sums);
            for (size_t at = 0; at < k; at++) {
                double x = a[w->k_offset[at]];
                const double *b = w->packed + at * n + n0;
                for (size_t i = 0; i < width; i++) sums[i] += x * b[i];
            }
            for (size_t i = 0; i < width; i++) c[axis_offset(p, AXIS_N, n0 + i, 2)] += sums[i];
        }
    }
}

static bool product_run(const struct host *host, struct product *p, struct error *e)
{
    for (int r = 0; r < AXIS_COUNT; r++) p->count[r] = axis_count(p, r);
    size_t n = p->count[AXIS_N], k = p->count[AXIS_K];
    double *packed = host_alloc(host, n * k, sizeof *packed, e);
    size_t *k_offset = packed ? host_alloc(host, k, sizeof *k_offset, e) : NULL;
    if (!k_offset) {
        host_free(host, packed);
        return false;
    }
    for (size_t i = 0; i < k; i++) k_offset[i] = axis_offset(p, AXIS_K, i, 0);
    for (size_t batch = 0; batch < p->count[AXIS_BATCH]; batch++) {
        const double *b = p->b + axis_offset(p, AXIS_BATCH, batch, 1);
        for (size_t in = 0; in < n; in++) {
            const double *column = b + axis_offset(p, AXIS_N, in, 1);
            for (size_t ik = 0; ik < k; ik++) packed[ik * n + in] = column[axis_offset(p, AXIS_K, ik, 1)];
        }
        struct block_work work = {p, packed, k_offset, p->a + axis_offset(p, AXIS_BATCH, batch, 0),
                                  p->c + axis_offset(p, AXIS_BATCH, batch, 2)};
        size_t items = (p->count[AXIS_M] + BLOCK - 1) / BLOCK;
        parallel_for(items, n * k > 65536 ? 0 : 1, rows_work, &work);
    }
    host_free(host, k_offset);
    host_free(host, packed);
    return true;
}

/* Stride of `letter` in a tensor, with this sequence's length for j and k. */
static size_t letter_stride(const struct graph *g, int tensor, char letter, size_t length)
{
    const char *dims = g->tensors[tensor].dims, *at = strchr(dims, letter);
    if (!at) return 0;
    bool scores = strchr(dims, 'j') && strchr(dims, 'k');
    if (strchr(DIMS_RAGGED, letter) && !scores) return tensor_row_stride(g, tensor);
    if (dims_channel_major(dims)) return 1; /* values are rows of channels (graph/values.h) */
    size_t stride = 1;
    if (g->tensors[tensor].parent >= 0 &&
        !g->tensors[tensor].strip) { /* what stands before q goes from row to row of the owner */
        const char *owner = g->tensors[g->tensors[tensor].parent].dims;
        if (at - dims < strpbrk(owner, "qQ") - owner) at = strchr(owner, letter);
    }
    for (const char *c = at + 1; *c; c++) stride *= strchr("jk", *c) ? length : g->dims.of[(unsigned char)*c];
    return stride;
}

bool einsum_reference(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                      struct error *e)
{
    const int tensors[3] = {o->in[0], o->in[1], o->out[0]};
    char letters[16], operand[3][16];
    int n = einsum_letters(o->einsum, letters);
    for (int t = 0; t < 3; t++) einsum_operand(o->einsum, t, operand[t]);
    size_t length_out = tensor_slice_length(g, o->out[0]), stride_out = tensor_slice_stride(g, o->out[0]);
    double *out = v->of[tensor_owner(g, o->out[0])] + tensor_row_offset(g, o->out[0]);
    for (size_t r = 0; r < (size_t)tensor_elements(g, b, o->out[0]) / length_out; r++) /* its slice of wider rows */
        memset(out + r * stride_out, 0, length_out * sizeof *out);
    /* Without a key position all tokens are one long sequence; without a query position the sequences are rows. */
    bool ragged = strchr(letters, 'k') != NULL;
    size_t score_base = 0;
    for (uint32_t s = 0; s < (ragged ? b->sequences : 1); s++) {
        size_t first = ragged ? b->offsets[s] : 0;
        size_t length = ragged ? b->offsets[s + 1] - b->offsets[s] : (size_t)b->tokens;
        struct product p = {0};
        const double *base[3];
        for (int t = 0; t < 3; t++) {
            const char *dims = g->tensors[tensors[t]].dims;
            base[t] = v->of[tensor_owner(g, tensors[t])] + tensor_row_offset(g, tensors[t]);
            if (strchr(dims, 'j') && strchr(dims, 'k'))
                base[t] += score_base * g->dims.of['h'];
            else if (strpbrk(dims, "jk"))
                base[t] += first * tensor_row_stride(g, tensors[t]);
        }
        for (int i = 0; i < n; i++) {
            char l = letters[i];
            if (l == 'b' && strpbrk(letters, "jksS")) continue; /* the loop over s, or part of j */
            bool in_a = strchr(operand[0], l), in_b = strchr(operand[1], l), in_c = strchr(operand[2], l);
            enum axis_kind kind = in_a && in_b ? (in_c ? AXIS_BATCH : AXIS_K) : in_a ? AXIS_M : AXIS_N;
            struct axis *x = &p.axes[kind][p.n_axes[kind]++];
            x->size = l == 'j' || l == 'k' ? length
                      : l == 's'           ? (size_t)b->labelled
                      : l == 'S'           ? (size_t)b->next
                      : l == 'b'           ? b->sequences
                                           : g->dims.of[(unsigned char)l];
            for (int t = 0; t < 3; t++)
                x->stride[t] = strchr(operand[t], l) ? letter_stride(g, tensors[t], l, length) : 0;
        }
        p.a = base[0];
        p.b = base[1];
        p.c = v->of[tensor_owner(g, o->out[0])] + (base[2] - v->of[tensor_owner(g, o->out[0])]);
        TRY(product_run(g->host, &p, e));
        score_base += length * length;
    }
    return true;
}
