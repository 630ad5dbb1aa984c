/* Whether f16 holds a session's weights: their parts are read once for each model, by several threads, and what came of
 * it is kept with the model. */
#include "runtime/ranges.h"

#include "base/platform.h"

/* Few enough that threads have about as much to do, whatever the sizes of matrices. */
enum { PIECE_ELEMENTS = 1 << 20, THREADS_MOST = 16 };

struct piece {
    const struct weight_part *part;
    uint64_t first, count;
    int tensor;
    bool within, beyond; /* neither: it can't be read, or has what is no number */
};

struct look {
    const struct wherry_session *s;
    struct workers *workers;
    void *raw[THREADS_MOST];
    struct piece *pieces; /* [count] */
    size_t count;
};

/* Random values are small, and f16 holds whatever was stored in it. */
static bool may_be_beyond(const struct wherry_model *model, const struct weight_part *part)
{
    return part->type != WEIGHT_TYPE_F16 && part->elements && (!part->memory || part->file || model->adapted);
}

static bool is_stored(const struct tensor *t)
{
    return t->role == TENSOR_WEIGHT && t->parent < 0 && !t->f32 && !t->int8;
}

static _Atomic unsigned char *known_of(const struct wherry_model *model, const struct tensor *t)
{
    return &model->ranges[t->layer + 1][t->weight];
}

/* Counts the pieces of what nobody has looked at; with `pieces` fills them in. */
static size_t pieces_list(const struct wherry_session *s, struct piece *pieces)
{
    size_t n = 0;
    for (int t = 0; t < s->graph.n_tensors; t++) {
        const struct tensor *tensor = &s->graph.tensors[t];
        const struct weight_part *parts;
        if (!is_stored(tensor) || *known_of(s->model, tensor) == RANGE_F16) continue;
        int count = model_weight(s->model, tensor->weight, tensor->layer, &parts);
        for (int i = 0; i < count; i++)
            for (uint64_t at = 0; may_be_beyond(s->model, &parts[i]) && at < parts[i].elements; at += PIECE_ELEMENTS) {
                uint64_t left = parts[i].elements - at;
                if (pieces)
                    pieces[n] = (struct piece){.part = &parts[i],
                                               .first = at,
                                               .count = left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS,
                                               .tensor = t};
                n++;
            }
    }
    return n;
}

static void piece_look(struct piece *p, void *raw, struct error *e)
{
    p->within = weight_check(p->part, p->first, p->count, WEIGHT_TYPE_F16, raw, e);
    p->beyond = !p->within && e->status == WHERRY_STATUS_UNSUPPORTED;
}

static void work(size_t thread, void *user)
{
    struct look *l = user;
    struct error e;
    for (size_t i; (i = workers_take(l->workers)) < l->count;) piece_look(&l->pieces[i], l->raw[thread], &e);
}

/* Of what f16 holds: the next session need not look. What it does not hold is found again, for the sentence. */
static void keep(const struct look *l)
{
    const struct graph *g = &l->s->graph;
    for (int t = 0; t < g->n_tensors; t++) {
        bool within = is_stored(&g->tensors[t]);
        for (size_t i = 0; within && i < l->count; i++) within = l->pieces[i].tensor != t || l->pieces[i].within;
        if (within) *known_of(l->s->model, &g->tensors[t]) = RANGE_F16;
    }
}

static bool look(struct look *l, bool *beyond, struct error *cause, struct error *e)
{
    const struct host *host = &l->s->context->host;
    size_t most = l->count < THREADS_MOST ? l->count : THREADS_MOST;
    if (host->threads && host->threads < most) most = host->threads;
    if (!(l->pieces = host_alloc(host, l->count, sizeof *l->pieces, e)) ||
        !(l->workers = workers_create(host, most, e)))
        return false;
    l->count = pieces_list(l->s, l->pieces); /* fewer, where another thread looked at the same model meanwhile */
    for (size_t i = 0; i < workers_count(l->workers); i++)
        if (!(l->raw[i] = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e))) return false;
    workers_run(l->workers, work, l);
    keep(l);
    for (size_t i = 0; i < l->count && !*beyond; i++)
        if ((*beyond = l->pieces[i].beyond)) piece_look(&l->pieces[i], l->raw[0], cause);
    return true;
}

bool weights_beyond_f16(const struct wherry_session *s, bool *beyond, struct error *cause, struct error *e)
{
    struct look l = {.s = s, .count = pieces_list(s, NULL)};
    const struct host *host = &s->context->host;
    *beyond = false;
    if (!l.count) return true;
    int before = part_enter(host, PART_WEIGHTS);
    bool ok = look(&l, beyond, cause, e);
    part_leave(host, before);
    workers_destroy(l.workers);
    for (int i = 0; i < THREADS_MOST; i++) host_free(host, l.raw[i]);
    host_free(host, l.pieces);
    return ok;
}
