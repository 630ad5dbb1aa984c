/* Steps that oneDNN computes, where a session asks for it: products with a weight, in blocks of rows and columns that
 * the team's threads take one by one, as they do the items of any kernel here. */
#include "cpu.h"

#ifndef WHERRY_HAVE_ONEDNN

bool cpu_onednn_open(struct backend_device *device, struct error *e)
{
    (void)device;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "this build has no oneDNN: configure with -DWHERRY_ONEDNN=ON where its headers are (Debian's "
                "libdnnl-dev), or ask for other kernels");
}

void cpu_onednn_close(struct backend_device *device) { (void)device; }

bool cpu_onednn_take(struct backend_device *device, const struct step *step, bool weight, struct cpu_step *s,
                     struct error *e)
{
    (void)step, (void)weight, (void)s;
    return cpu_onednn_open(device, e);
}

void cpu_onednn_release(struct backend_device *device, struct cpu_step *s) { (void)device, (void)s; }

bool cpu_onednn_check_run(struct backend_device *device, struct error *e) { return (void)device, (void)e, true; }

#else

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "onednn.h"

/* All steps that are alike have one, made and checked once. */
struct product {
    struct onednn_work work;           /* `columns`: all */
    size_t columns, in_a_row;          /* of a block; blocks */
    struct onednn_block *whole, *last; /* `last`: NULL where all have the same number of columns */
    bool works;
    char note[256];
    struct product *next;
};

struct cpu_onednn {
    struct onednn *library;
    struct product *products;
    atomic_int failed; /* the status of a call in a run, 0: none failed */
};

/* What a step has of its own. */
struct onednn_step {
    struct cpu_onednn *of;
    const struct product *product;
    struct onednn_panel *panels[]; /* [product's in_a_row] */
};

bool cpu_onednn_open(struct backend_device *device, struct error *e)
{
    if (device->onednn) return true;
    struct cpu_onednn *all = host_alloc(device->host, 1, sizeof *all, e);
    if (!all) return false;
    if (onednn_open(device->host, &all->library, e)) {
        device->onednn = all;
        return true;
    }
    host_free(device->host, all);
    return false;
}

void cpu_onednn_close(struct backend_device *device)
{
    struct cpu_onednn *all = device->onednn;
    if (!all) return;
    for (struct product *p = all->products, *next; p; p = next) {
        next = p->next;
        onednn_block_destroy(all->library, device->host, p->whole);
        onednn_block_destroy(all->library, device->host, p->last);
        host_free(device->host, p);
    }
    onednn_close(device->host, all->library);
    host_free(device->host, all);
    device->onednn = NULL;
}

static const struct onednn_block *block_of(const struct product *p, size_t column_block)
{
    return column_block + 1 == p->in_a_row && p->last ? p->last : p->whole;
}

static size_t panel_floats(const struct product *p)
{
    size_t floats = onednn_packed(p->whole);
    return (floats + 15) / 16 * 16; /* each begins on a line; the last one has no more */
}

/* ---- rows ---- */

/* Rows of the largest block that is computed on a copy, with zeros below the rows that there are. */
enum { COPY_ROWS = 48 };

static size_t copy_floats(const struct product *p)
{
    return COPY_ROWS * (p->work.x_row + 2 * p->work.y_row) / 16 * 16 + 16;
}

/* The block that so many rows begin with: the least that has them all, where a third of it at most is zeros, else the
 * largest that they fill. */
static int size_of(size_t rows)
{
    int size = ONEDNN_SIZES - 1;
    while (size && onednn_rows(size) < rows) size--;
    size_t have = onednn_rows(size);
    if (have <= rows || have == ONEDNN_ROWS_LEAST || (have <= COPY_ROWS && 3 * (have - rows) <= have)) return size;
    return size + 1;
}

/* Of fewer rows than the block has. `scratch`: copy_floats, and then the library's. */
static int multiply_copy(const struct onednn *library, const struct product *p, const struct onednn_block *b, int size,
                         const struct onednn_operands *at, size_t columns, size_t rows)
{
    const size_t x_row = p->work.x_row, y_row = p->work.y_row, have = onednn_rows(size);
    float *x = at->scratch, *y = x + have * x_row, *residual = y + have * y_row;
    const struct onednn_operands copy = {x,     at->bias, at->residual ? residual : NULL,
                                         at->w, y,        at->scratch + copy_floats(p)};
    for (size_t r = 0; r < have; r++) {
        if (r < rows)
            memcpy(x + r * x_row, at->x + r * x_row, p->work.k * sizeof *x);
        else
            memset(x + r * x_row, 0, p->work.k * sizeof *x);
        if (at->residual && r < rows)
            memcpy(residual + r * y_row, at->residual + r * y_row, columns * sizeof *x);
        else if (at->residual)
            memset(residual + r * y_row, 0, columns * sizeof *x);
    }
    int status = onednn_multiply(library, b, size, &copy);
    for (size_t r = 0; !status && r < rows; r++) memcpy(at->y + r * y_row, y + r * y_row, columns * sizeof *y);
    return status;
}

/* Returns the library's status. */
static int multiply(const struct onednn *library, const struct product *p, const struct onednn_block *b,
                    struct onednn_operands at, size_t columns, size_t rows)
{
    struct onednn_operands whole = at;
    whole.scratch += copy_floats(p);
    while (rows) {
        int size = size_of(rows);
        size_t count = onednn_rows(size);
        if (count > rows) return multiply_copy(library, p, b, size, &at, columns, rows);
        int status = onednn_multiply(library, b, size, &whole);
        if (status) return status;
        rows -= count;
        whole.x = at.x += count * p->work.x_row;
        whole.y = at.y += count * p->work.y_row;
        if (at.residual) whole.residual = at.residual += count * p->work.y_row;
    }
    return 0;
}

/* ---- as a kernel ---- */

static size_t cut_rows(const struct cpu_step *s, const struct product *p)
{
    size_t rows = ONEDNN_ROWS_MOST;
    for (;; rows /= 2) {
        size_t count = blocks_of(step_rows(s), rows) * p->in_a_row;
        if (s->threads == 1 || count >= 3 * s->threads) return rows;
        if (rows <= (count < s->threads ? ONEDNN_ROWS_LEAST : 4 * ONEDNN_ROWS_LEAST)) return rows;
    }
}

static size_t items(const struct cpu_step *s)
{
    const struct product *p = s->onednn->product;
    return blocks_of(step_rows(s), cut_rows(s, p)) * p->in_a_row;
}

static void run(const struct cpu_step *s, size_t item, float *scratch)
{
    const struct product *p = s->onednn->product;
    size_t cut = cut_rows(s, p), block = item % p->in_a_row, row = item / p->in_a_row * cut,
           column = block * p->columns, rows = block_end(item / p->in_a_row, cut, step_rows(s)) - row,
           columns = p->work.columns - column < p->columns ? p->work.columns - column : p->columns;
    const size_t y = row * p->work.y_row + column;
    const struct onednn_operands at = {.x = s->at[SLOT_X] + s->value[CONST_X_OFFSET] + row * p->work.x_row,
                                       .bias = p->work.bias ? s->at[SLOT_BIAS] + column : NULL,
                                       .residual = p->work.residual ? s->at[SLOT_RESIDUAL] + y : NULL,
                                       .w = s->onednn->panels[block],
                                       .y = s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + y,
                                       .scratch = scratch};
    int status = multiply(s->onednn->of->library, p, block_of(p, block), at, columns, rows);
    if (status) atomic_store(&s->onednn->of->failed, status);
}

static size_t scratch_floats(const struct product *p)
{
    size_t most = onednn_scratch(p->whole), last = p->last ? onednn_scratch(p->last) : 0;
    return copy_floats(p) + (most > last ? most : last);
}

static size_t scratch(const struct cpu_step *s) { return scratch_floats(s->onednn->product); }

static size_t packed(const struct cpu_step *s, size_t *panels)
{
    *panels = s->onednn->product->in_a_row;
    return *panels * panel_floats(s->onednn->product) * sizeof(float);
}

/* A thread has a panel alone. */
static void pack(const struct cpu_step *s, size_t item, void *packed_weight)
{
    float *to = packed_weight;
    struct onednn_step *own = s->onednn;
    const struct product *p = own->product;
    const struct onednn_block *b = block_of(p, item);
    const float *w = s->at[SLOT_W] + s->value[CONST_W_OFFSET] + item * p->columns * p->work.w_row;
    if (!own->panels[item]) own->panels[item] = onednn_panel_create(own->of->library, b, to + item * panel_floats(p));
    int status = own->panels[item] ? onednn_pack(own->of->library, b, w, own->panels[item]) : 1;
    if (status) atomic_store(&own->of->failed, status);
}

static const struct cpu_kernel kernel = {
    .name = "gemm_onednn", .items = items, .run = run, .scratch = scratch, .packed = packed, .pack = pack};

/* ---- the check of a product, when it is made ---- */

/* The primitives on random numbers: what they give is right, and a row has the same bits in blocks of any size,
 * wherever it stands there, which oneDNN does not promise. */
struct check {
    float *x, *w, *bias, *residual, *packed, *y, *again, *scratch;
    void *memory;
};

static size_t weight_floats(const struct onednn_work *work)
{
    return (work->columns - 1) * work->w_row + (work->k - 1) * work->w_step + 1;
}

static bool check_alloc(const struct host *host, const struct product *p, struct check *c, struct error *e)
{
    const struct onednn_work *work = &p->work;
    struct onednn_work block = *work;
    block.columns = p->columns;
    const size_t outputs = ONEDNN_ROWS_MOST * work->y_row, sizes[] = {ONEDNN_ROWS_MOST * work->x_row,
                                                                      weight_floats(&block),
                                                                      p->columns,
                                                                      outputs,
                                                                      panel_floats(p),
                                                                      outputs,
                                                                      outputs,
                                                                      scratch_floats(p)};
    float **pieces[] = {&c->x, &c->w, &c->bias, &c->residual, &c->packed, &c->y, &c->again, &c->scratch};
    enum { PIECES = sizeof sizes / sizeof *sizes };
    size_t all = 0;
    for (int i = 0; i < PIECES; i++) all += (sizes[i] + 15) / 16 * 16;
    float *at = cpu_alloc(host, (uint64_t)all * sizeof *at, &c->memory, e);
    if (!at) return false;
    uint32_t random = 1;
    for (int i = 0; i < PIECES; at += (sizes[i] + 15) / 16 * 16, i++) {
        *pieces[i] = at;
        for (size_t k = 0; i < 4 && k < sizes[i]; k++) {
            random = random * 1664525u + 1013904223u;
            at[k] = (float)(int32_t)random / 2147483648.0f;
        }
    }
    return true;
}

static double activate(double x, uint32_t activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_TANH:
        return tanh(x);
    }
    return x;
}

/* Within the bound of a sum in any order, and of an activation of a few units in the last place; a NaN fails, too. */
static bool row_right(const struct onednn_work *work, const struct check *c, size_t row, size_t columns)
{
    for (size_t n = 0; n < columns; n++) {
        double sum = work->bias ? (double)c->bias[n] : 0.0, size = fabs(sum);
        for (size_t k = 0; k < work->k; k++) {
            double product = (double)c->x[row * work->x_row + k] * c->w[k * work->w_step + n * work->w_row];
            sum += product;
            size += fabs(product);
        }
        double want = activate(sum, work->activation);
        if (work->residual) want += (double)c->residual[row * work->y_row + n];
        double most = 1.2 * 6e-8 * size * (double)(work->k + 1) + 2e-6 * (1 + fabs(want));
        if (!(fabs(c->y[row * work->y_row + n] - want) <= most)) return false;
    }
    return true;
}

/* Rows from `row` on by a block of this size: of all rows by the largest, to y, else to `again`. */
static int check_multiply(const struct onednn *library, const struct product *p, const struct onednn_block *b,
                          const struct check *c, const struct onednn_panel *panel, int size, size_t row)
{
    size_t y = row * p->work.y_row;
    const struct onednn_operands at = {
        c->x + row * p->work.x_row, c->bias, c->residual + y, panel, (size ? c->again : c->y) + y,
        c->scratch + copy_floats(p)};
    return onednn_multiply(library, b, size, &at);
}

static const char *check_sizes(const struct onednn *library, const struct product *p, const struct onednn_block *b,
                               const struct check *c, const struct onednn_panel *panel, size_t columns)
{
    const size_t y_row = p->work.y_row;
    if (check_multiply(library, p, b, c, panel, 0, 0)) return "it fails in a product";
    if (!row_right(&p->work, c, 0, columns) || !row_right(&p->work, c, ONEDNN_ROWS_MOST - 1, columns))
        return "a product is wrong";
    for (int size = 1; size < ONEDNN_SIZES; size++)
        for (size_t rows = onednn_rows(size), row = 0; row + rows <= ONEDNN_ROWS_MOST; row += rows / 2 + 1) {
            if (check_multiply(library, p, b, c, panel, size, row)) return "it fails in a product";
            for (size_t r = row; r < row + rows; r++)
                if (memcmp(c->again + r * y_row, c->y + r * y_row, columns * sizeof *c->y))
                    return "a row's bits change with the number of rows";
        }
    return NULL;
}

/* NULL: it is as it should be. */
static const char *check_block(const struct onednn *library, const struct product *p, const struct onednn_block *b,
                               const struct check *c, size_t columns)
{
    struct onednn_panel *panel = onednn_panel_create(library, b, c->packed);
    const char *wrong = !panel || onednn_pack(library, b, c->w, panel) ? "it does not pack a weight" : NULL;
    if (!wrong) wrong = check_sizes(library, p, b, c, panel, columns);
    onednn_panel_destroy(library, panel);
    return wrong;
}

/* ---- products ---- */

/* A quarter of the columns, so that few rows are work for several threads, in whole lines. With 1024 columns 2.6 sums
 * 192 rows in another order than fewer. How many there are depends on the product alone, for they decide on oneDNN's
 * kernels. */
static size_t columns_of(size_t n)
{
    size_t columns = ((n + 3) / 4 + 63) / 64 * 64;
    if (columns > 512) columns = 512;
    return columns < n ? columns : n;
}

static bool product_make(const struct host *host, const struct onednn *library, struct product *p, struct error *e)
{
    struct onednn_work work = p->work;
    struct check c;
    p->columns = work.columns = columns_of(p->work.columns);
    p->in_a_row = blocks_of(p->work.columns, p->columns);
    size_t last = p->work.columns - (p->in_a_row - 1) * p->columns;
    if (!(p->whole = onednn_block_create(library, host, &work, e))) return false;
    work.columns = last;
    if (last < p->columns && !(p->last = onednn_block_create(library, host, &work, e))) return false;
    if (p->last && onednn_packed(p->last) > panel_floats(p))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "it packs fewer columns into more memory");
    TRY(check_alloc(host, p, &c, e));
    const char *wrong = check_block(library, p, p->whole, &c, p->columns);
    if (!wrong && p->last) wrong = check_block(library, p, p->last, &c, last);
    host_free(host, c.memory);
    return !wrong || fail(e, WHERRY_STATUS_VERIFY_FAILED, "%s", wrong);
}

static bool work_equal(const struct onednn_work *a, const struct onednn_work *b)
{
    return a->k == b->k && a->columns == b->columns && a->x_row == b->x_row && a->w_row == b->w_row &&
           a->w_step == b->w_step && a->y_row == b->y_row && a->activation == b->activation && a->bias == b->bias &&
           a->residual == b->residual;
}

/* One that does not work says why in its note. NULL: out of memory. */
static const struct product *product_of(struct backend_device *device, const struct onednn_work *work, struct error *e)
{
    struct cpu_onednn *all = device->onednn;
    const char *name = onednn_name(all->library);
    struct product *p = all->products;
    while (p && !work_equal(&p->work, work)) p = p->next;
    if (p) return p;
    if (!(p = host_alloc(device->host, 1, sizeof *p, e))) return NULL;
    p->work = *work;
    p->next = all->products;
    all->products = p;
    p->works = product_make(device->host, all->library, p, e);
    if (p->works) {
        snprintf(p->note, sizeof p->note, "%s, %s, each call on one thread", name,
                 onednn_block_kernel(all->library, p->whole));
        return p;
    }
    snprintf(p->note, sizeof p->note, "own kernel, because of %s: %.150s", name, e->text);
    if (e->status != WHERRY_STATUS_OUT_OF_HOST_MEMORY) return p;
    p->work.k = 0; /* to be tried again */
    return NULL;
}

/* ---- steps ---- */

/* Why it is not given a step; NULL: it may be. */
static const char *refusal(const struct step *step, bool weight)
{
    const struct call *call = step->call;
    if (call_runtime(call) == RUNTIME_K) return "own kernel, because oneDNN is given no gradients of weights";
    if (call_runtime(call) != RUNTIME_M || call_get(call, CONST_FORM, GEMM_NT) == GEMM_TN)
        return "own kernel, because oneDNN is given no channel-major order";
    if (!weight) return "own kernel, because oneDNN packs weights once, and this one is written while steps run";
    if (call_get(call, CONST_SUM, 0)) return "own kernel, because oneDNN stores one result";
    if (call_get(call, CONST_DROPOUT, 0)) return "own kernel, because oneDNN does not drop elements as we do";
    if (call_get(call, CONST_SCALES, 0)) return "own kernel, because oneDNN is given no weights of 8 bits";
    if (call_get(call, CONST_GATE, GATE_NONE)) return "own kernel, because oneDNN does not gate pairs of columns";
    if (call_get(call, CONST_ROTARY, ROTARY_NONE)) return "own kernel, because oneDNN does not turn pairs of columns";
    if (call_get(call, CONST_DERIVATIVE, 0)) return "own kernel, because oneDNN is given no derivatives";
    if (call_get(call, CONST_COLUMN_SUMS, 0)) return "own kernel, because oneDNN sums no columns";
    return NULL;
}

static struct onednn_work work_of(const struct cpu_step *s)
{
    const uint32_t *value = s->value;
    size_t n = value[CONST_N], k = value[CONST_K];
    bool rows = value[CONST_FORM] == GEMM_NT; /* of the weight are added up, else columns */
    size_t w = value[CONST_W_STRIDE] ? value[CONST_W_STRIDE] : rows ? k : n;
    return (struct onednn_work){.k = k,
                                .columns = n,
                                .x_row = value[CONST_X_STRIDE] ? value[CONST_X_STRIDE] : k,
                                .w_row = rows ? w : 1,
                                .w_step = rows ? 1 : w,
                                .y_row = value[CONST_Y_STRIDE] ? value[CONST_Y_STRIDE] : n,
                                .activation = value[CONST_ACTIVATION],
                                .bias = value[CONST_BIAS] != 0,
                                .residual = value[CONST_RESIDUAL] != 0};
}

bool cpu_onednn_take(struct backend_device *device, const struct step *step, bool weight, struct cpu_step *s,
                     struct error *e)
{
    TRY(cpu_onednn_open(device, e));
    if (strcmp(step->kernel, "gemm") || (s->note = refusal(step, weight))) return true;
    const struct onednn_work work = work_of(s);
    const struct product *p = product_of(device, &work, e);
    if (!p) return false;
    s->note = p->note;
    if (!p->works) return true;
    s->onednn = host_alloc(device->host, 1, sizeof *s->onednn + p->in_a_row * sizeof *s->onednn->panels, e);
    if (!s->onednn) return false;
    s->onednn->of = device->onednn;
    s->onednn->product = p;
    s->how = &kernel;
    return true;
}

void cpu_onednn_release(struct backend_device *device, struct cpu_step *s)
{
    if (!s->onednn) return;
    for (size_t i = 0; i < s->onednn->product->in_a_row; i++)
        onednn_panel_destroy(s->onednn->of->library, s->onednn->panels[i]);
    host_free(device->host, s->onednn);
    s->onednn = NULL;
}

bool cpu_onednn_check_run(struct backend_device *device, struct error *e)
{
    int status = device->onednn ? atomic_exchange(&device->onednn->failed, 0) : 0;
    return !status || fail_native(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, status,
                                  "%s failed in a product: status %d of dnnl_types.h (1: out of memory)",
                                  onednn_name(device->onednn->library), status);
}

#endif
