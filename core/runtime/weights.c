/* Copies a session's weights to the device. They are cut into pieces, which several threads read, check and convert in
 * rounds; the calling thread, which alone may talk to the device, copies one round while the next is converted. Where
 * the device's memory is the host's, pieces are converted to their place at once. */
#include "runtime/weights.h"

#include <math.h>
#include <string.h>

#include "base/platform.h"
#include "base/round.h"
#include "runtime/weight_fold.h"

/* In another order pieces are larger, so that most matrices are read row after row, and not some columns of every row
 * at a time. A round is some pieces for each thread, and no more: new memory takes longer than the cache that it should
 * stay in. On 16 cores of an H200's machine rounds of 8 M values took the 45 MB of MiniLM in f16 3 ms longer. */
enum { PIECE_ELEMENTS = 1 << 16, REORDER_ELEMENTS = 1 << 22, ROUND_ELEMENTS = 1 << 21, ROUND_PIECES = 128 };
/* The memory is busy long before all cores of a large machine are; and few weights, as of the small models that kernels
 * are checked and tuned with, are converted before a thread has started. */
enum { THREADS_MOST = 16, FEW_ELEMENTS = 1 << 20 };
/* Tensors that lie nearer than this in a buffer are copied as one, with what is between them. */
enum { GAP_BYTES = 4096 };

struct piece {
    const struct weight_part *parts;
    enum weight_type as;
    size_t size; /* bytes of a value */
    bool reordered;
    uint32_t columns;   /* > 0: a whole matrix of int8, */
    uint64_t scales_at; /* and bytes from its beginning to its rows' scales */
    struct weight_fold fold;
    struct matrix_order order;
    uint64_t first, count; /* values; in another order, of the outer index */
    int block;
    uint64_t offset, bytes; /* in the block; a multiple of 4, the last values' padding included */
    uint64_t at;            /* in the round's memory */
    unsigned char *to;
    bool ok;
    struct error e; /* why it is not */
};

struct round {
    struct piece pieces[ROUND_PIECES];
    size_t count;
    unsigned char *memory; /* what they are converted to, where that is not their place */
    uint64_t room;         /* its bytes */
};

struct upload {
    struct wherry_session *s;
    unsigned char **direct; /* [n_blocks]: its bytes, where they are the host's */
    struct workers *workers;
    size_t threads;
    void *raw[THREADS_MOST], *strip[THREADS_MOST]; /* what a conversion works in */
    struct round *rounds;                          /* [2] */
    struct round *now, *before;
    int tensor;  /* the next piece's */
    uint64_t at; /* its first value, or of the outer index */
    bool uploaded;
    struct error e; /* why not all of `before` is */
};

/* ---- which pieces there are ---- */

static bool is_uploaded(const struct wherry_session *s, int t)
{
    const struct tensor *tensor = &s->graph.tensors[t];
    return tensor->role == TENSOR_WEIGHT && tensor->parent < 0 && s->memory.of[t].block >= 0 &&
           !shared_weights_ready(s, s->memory.of[t].block);
}

static uint64_t outer_of(const struct matrix_order *order) { return order->transposed ? order->columns : order->rows; }

/* Of the outer index, in one piece. */
static uint64_t step_of(const struct matrix_order *order)
{
    uint64_t outer = outer_of(order), inner = order->rows * order->columns / outer;
    uint64_t step = REORDER_ELEMENTS / inner / 2 * 2;
    if (step < 2) step = 2;
    return step > outer ? outer : step;
}

static bool check_count(const struct wherry_session *s, int t, const struct weight_part *parts, int n, struct error *e)
{
    uint64_t have = 0, want = tensor_elements(&s->graph, &s->limits, t);
    for (int i = 0; i < n; i++) have += parts[i].elements;
    return have == want || fail(e, WHERRY_STATUS_BAD_FORMAT, "%s: the model has %llu values, the graph needs %llu",
                                s->graph.tensors[t].name, (unsigned long long)have, (unsigned long long)want);
}

static enum weight_type weight_type(const struct wherry_session *s, const struct tensor *t)
{
    if (t->bf16) return WEIGHT_TYPE_BF16;
    if (!s->f16 || t->f32 || t->int8) return WEIGHT_TYPE_F32;
    return s->bf16 ? WEIGHT_TYPE_BF16 : WEIGHT_TYPE_F16;
}

/* The next one of the tensor that it is at. Device copies are multiples of 4 bytes, so values are even in number but
 * for a tensor's last ones. */
static bool piece_next(struct upload *u, struct piece *p, struct error *e)
{
    struct wherry_session *s = u->s;
    const struct tensor *t = &s->graph.tensors[u->tensor];
    const struct placement *at = &s->memory.of[u->tensor];
    p->size = tensor_element_bytes(&s->graph, u->tensor, session_storage(s));
    p->as = weight_type(s, t);
    uint64_t size = p->size, all = tensor_elements(&s->graph, &s->limits, u->tensor), inner = 1;
    int n = model_weight(s->model, t->weight, t->layer, &p->parts);
    TRY(check_count(s, u->tensor, p->parts, n, e));
    p->first = u->at;
    p->count = PIECE_ELEMENTS;
    p->fold = weight_fold_of(s, u->tensor, p->as);
    if (p->fold.columns) p->count = round_up(p->count, p->fold.columns); /* whole rows */
    if ((p->columns = t->int8)) p->count = all, p->scales_at = sizeof(float) * tensor_scales_at(&s->graph, u->tensor);
    if ((p->reordered = tensor_reordered(&s->graph, u->tensor, &p->order))) {
        inner = all / outer_of(&p->order);
        p->count = p->columns ? all / inner : step_of(&p->order);
    }
    if (p->count > all / inner - p->first) p->count = all / inner - p->first;
    /* A table in several blocks is in its model's order: a piece is of one of them. */
    uint64_t left = placement_find(at, p->first * inner * size, &p->block, &p->offset);
    if (at->piece_bytes && p->count > left / size) p->count = left / size;
    p->bytes = (p->count * inner * size + tensor_scale_bytes(&s->graph, u->tensor) + 3) / 4 * 4;
    u->at += p->count;
    if (u->at * inner == all) u->tensor++, u->at = 0;
    return true;
}

/* In the round's memory pieces lie as in the buffer, so that they can be copied together. */
static uint64_t piece_place(const struct piece *before, const struct piece *p)
{
    if (!before) return 0;
    uint64_t end = before->offset + before->bytes;
    bool near = p->block == before->block && p->offset >= end && p->offset - end < GAP_BYTES;
    return near ? before->at + (p->offset - before->offset) : (before->at + before->bytes + 63) / 64 * 64;
}

static bool round_fill(struct upload *u, struct round *r, struct error *e)
{
    struct wherry_session *s = u->s;
    uint64_t most = ROUND_ELEMENTS * session_storage(s), bytes = 0;
    for (r->count = 0; r->count < ROUND_PIECES && bytes < most; r->count++) {
        while (u->tensor < s->graph.n_tensors && !is_uploaded(s, u->tensor)) u->tensor++;
        if (u->tensor == s->graph.n_tensors) break;
        struct piece *p = &r->pieces[r->count];
        TRY(piece_next(u, p, e));
        p->at = piece_place(r->count ? p - 1 : NULL, p);
        bytes = p->at + p->bytes;
    }
    if (!r->count || u->direct[r->pieces[0].block]) bytes = 0;
    if (bytes > r->room) {
        const struct host *host = &s->context->host;
        if (bytes > most && bytes < most / 4 * 5) bytes = most / 4 * 5; /* for later rounds, too */
        host_free(host, r->memory);
        r->room = 0;
        if (!(r->memory = host_alloc_unset(host, (size_t)bytes, 1, e))) return false;
        r->room = bytes;
    }
    for (size_t i = 0; i < r->count; i++) {
        struct piece *p = &r->pieces[i];
        p->to = u->direct[p->block] ? u->direct[p->block] + p->offset : r->memory + p->at;
    }
    return true;
}

/* ---- converting, on any thread ---- */

/* `left` values from number `first` on of parts in the model's order. */
static bool parts_convert(struct piece *p, uint64_t first, uint64_t left, enum weight_type as, void *raw,
                          unsigned char *to)
{
    uint64_t size = as == WEIGHT_TYPE_F32 ? 4 : 2;
    for (const struct weight_part *part = p->parts; left; part++) {
        if (first >= part->elements) {
            first -= part->elements;
            continue;
        }
        uint64_t n = part->elements - first < left ? part->elements - first : left;
        TRY(weight_convert(part, first, n, as, raw, to, &p->e));
        to += n * size;
        left -= n;
        first = 0;
    }
    return true;
}

/* Row number `r` of the piece, of matrices that lie row by row. */
static bool row_read(struct piece *p, uint64_t r, uint32_t columns, void *raw, float *row)
{
    if (p->reordered)
        return weight_convert_order(p->parts, &p->order, p->first + r, 1, WEIGHT_TYPE_F32, raw, NULL, row, &p->e);
    return parts_convert(p, p->first + r * columns, columns, WEIGHT_TYPE_F32, raw, (unsigned char *)row);
}

/* Rows that a norm's gamma is folded into, or gamma itself. `floats` has room for two rows. */
static bool rows_fold(struct piece *p, void *raw, float *floats)
{
    const uint32_t columns = p->fold.columns;
    const uint64_t rows = p->reordered ? p->count : p->count / columns;
    float *factors = floats + columns;
    TRY(weight_fold_factors(&p->fold, raw, factors, &p->e));
    for (uint64_t r = 0; r < rows; r++) {
        if (!p->fold.itself) TRY(row_read(p, r, columns, raw, floats));
        weight_fold_row(&p->fold, factors, floats, (uint16_t *)(void *)p->to + r * columns);
    }
    return true;
}

/* Rows of int8: the nearest multiples of a scale by which the largest value is 127. `row` has room for one of floats.
 */
static bool rows_scale(struct piece *p, void *raw, float *row)
{
    uint64_t rows = p->reordered ? p->count : p->count / p->columns;
    float *scales = (float *)(void *)(p->to + p->scales_at);
    memset(p->to + rows * p->columns, 0, (size_t)(p->scales_at - rows * p->columns));
    for (uint64_t r = 0; r < rows; r++) {
        int8_t *to = (int8_t *)p->to + r * p->columns;
        float largest = 0;
        TRY(row_read(p, r, p->columns, raw, row));
        for (uint32_t c = 0; c < p->columns; c++) largest = fabsf(row[c]) > largest ? fabsf(row[c]) : largest;
        scales[r] = largest / 127;
        for (uint32_t c = 0; c < p->columns; c++) to[c] = scales[r] > 0 ? (int8_t)nearbyintf(row[c] / scales[r]) : 0;
    }
    return true;
}

static bool piece_convert(struct piece *p, void *raw, void *strip)
{
    memset(p->to + p->bytes - 4, 0, 4); /* the last values' padding */
    if (p->columns) return rows_scale(p, raw, strip);
    if (p->fold.columns) return rows_fold(p, raw, strip);
    if (p->reordered)
        return weight_convert_order(p->parts, &p->order, p->first, p->count, p->as, raw, strip, p->to, &p->e);
    return parts_convert(p, p->first, p->count, p->as, raw, p->to);
}

/* ---- copying, on the calling thread ---- */

/* Pieces from `first` on that lie in the round's memory as in one buffer; returns the one after the last. */
static size_t run_end(const struct round *r, size_t first)
{
    size_t end = first + 1;
    for (; end < r->count; end++) {
        const struct piece *a = &r->pieces[end - 1], *b = &r->pieces[end];
        if (b->block != a->block || b->offset - a->offset != b->at - a->at) break;
        memset(r->memory + a->at + a->bytes, 0, (size_t)(b->at - a->at - a->bytes));
    }
    return end;
}

static bool round_upload(const struct upload *u, const struct round *r, struct error *e)
{
    struct wherry_session *s = u->s;
    for (size_t i = 0, end; i < r->count; i = end) {
        const struct piece *p = &r->pieces[i], *last;
        end = i + 1;
        if (u->direct[p->block]) continue;
        end = run_end(r, i);
        last = &r->pieces[end - 1];
        TRY(s->device->backend->buffer_write(s->device->handle, s->buffers[p->block], p->offset, p->to,
                                             last->at + last->bytes - p->at, e));
    }
    return true;
}

/* ---- both ---- */

static void work(size_t thread, void *user)
{
    struct upload *u = user;
    if (!thread && u->before->count) {
        int before = part_enter(&u->s->context->host, PART_UPLOAD);
        u->uploaded = round_upload(u, u->before, &u->e);
        part_leave(&u->s->context->host, before);
    }
    for (size_t i; (i = workers_take(u->workers)) < u->now->count;) {
        struct piece *p = &u->now->pieces[i];
        p->ok = piece_convert(p, u->raw[thread], u->strip[thread]);
    }
}

/* The first failure in the order of the weights. */
static bool round_check(const struct upload *u, struct error *e)
{
    if (!u->uploaded) {
        *e = u->e;
        return false;
    }
    for (size_t i = 0; i < u->now->count; i++) {
        if (u->now->pieces[i].ok) continue;
        *e = u->now->pieces[i].e;
        return false;
    }
    return true;
}

static bool rounds_run(struct upload *u, wherry_progress progress, void *user, struct error *e)
{
    int tensors = u->s->graph.n_tensors;
    u->now = &u->rounds[0];
    u->before = &u->rounds[1];
    u->uploaded = true;
    do {
        struct round *next = u->before;
        TRY(round_fill(u, u->now, e));
        workers_run(u->workers, work, u);
        TRY(round_check(u, e));
        if (u->now->count && progress && !progress("weights", (size_t)u->tensor, (size_t)tensors, user))
            return fail(e, WHERRY_STATUS_CANCELLED, "cancelled while copying weights");
        u->before = u->now;
        u->now = next;
    } while (u->before->count);
    return true;
}

/* ---- memory ---- */

static bool upload_begin(struct upload *u, struct error *e)
{
    struct wherry_session *s = u->s;
    const struct host *host = &s->context->host;
    const struct backend *backend = s->device->backend;
    uint64_t elements = 0, strip = 0;
    if (!(u->direct = host_alloc(host, (size_t)s->memory.n_blocks, sizeof *u->direct, e))) return false;
    for (int t = 0; t < s->graph.n_tensors; t++) {
        struct matrix_order order;
        int block = s->memory.of[t].block;
        if (!is_uploaded(s, t)) continue;
        elements += tensor_elements(&s->graph, &s->limits, t);
        if (tensor_reordered(&s->graph, t, &order) && ORDER_STRIP * step_of(&order) > strip)
            strip = ORDER_STRIP * step_of(&order);
        /* A row of floats; two. */
        if (2 * s->graph.tensors[t].int8 > strip) strip = 2 * s->graph.tensors[t].int8;
        const uint64_t folded = s->graph.tensors[t].folded ? 4 * (uint64_t)s->graph.dims.of['i'] : 0;
        if (folded > strip) strip = folded;
        if (backend->buffer_bytes && !u->direct[block])
            u->direct[block] = backend->buffer_bytes(s->device->handle, s->buffers[block]);
    }
    size_t most = elements <= FEW_ELEMENTS ? 1 : THREADS_MOST;
    if (host->threads && host->threads < most) most = host->threads;
    if (!(u->workers = workers_create(host, most, e))) return false;
    u->threads = workers_count(u->workers);
    for (size_t i = 0; i < u->threads; i++)
        if (!(u->raw[i] = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e)) ||
            (strip && !(u->strip[i] = host_alloc_unset(host, (size_t)strip, session_storage(s), e))))
            return false;
    return (u->rounds = host_alloc(host, 2, sizeof *u->rounds, e)) != NULL;
}

bool session_weights(struct wherry_session *s, wherry_progress progress, void *user, struct error *e)
{
    const struct host *host = &s->context->host;
    struct upload u = {.s = s};
    int before = part_enter(host, PART_WEIGHTS);
    bool ok = upload_begin(&u, e) && rounds_run(&u, progress, user, e);
    workers_destroy(u.workers);
    for (size_t i = 0; i < THREADS_MOST; i++) {
        host_free(host, u.raw[i]);
        host_free(host, u.strip[i]);
    }
    for (size_t i = 0; u.rounds && i < 2; i++) host_free(host, u.rounds[i].memory);
    host_free(host, u.rounds);
    host_free(host, u.direct);
    part_leave(host, before);
    return ok;
}
