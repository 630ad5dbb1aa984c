/* A step's shards: sums of gradients on this device, and what the processes tell each other. */
#include "train/shards.h"

#include <inttypes.h>
#include <string.h>

#include "base/index.h"
#include "runtime/backward.h"
#include "runtime/train.h"
#include "train/arena.h"
#include "train/trainer.h"

static size_t shards_most(const wherry_trainer_desc *desc) { return desc->shards ? desc->shards : 1; }

static uint32_t processes_of(const wherry_trainer_desc *desc) { return desc->exchange ? desc->exchange->processes : 1; }

bool sharding_check(const wherry_trainer_desc *desc, struct error *e)
{
    if (desc->shards > TREE_SHARDS_MOST)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_trainer_desc.shards is over %d", TREE_SHARDS_MOST);
    if ((unsigned)desc->wire > WHERRY_WIRE_BF16)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_wire", (int)desc->wire);
    if (desc->exchange) TRY(exchange_check(desc->exchange, e));
    return !desc->bucket_bytes || desc->bucket_bytes >= 4096 ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_trainer_desc.bucket_bytes is below 4096");
}

bool sharding_accumulates(const wherry_trainer_desc *desc) { return shards_most(desc) > 1 || processes_of(desc) > 1; }

int sharding_sums(const wherry_trainer_desc *desc) { return tree_depth(shards_most(desc), processes_of(desc)) - 1; }

/* ---- life ---- */

size_t sharding_table(const struct wherry_trainer *t)
{
    const struct graph *g = &t->session->graph;
    const size_t gradients = wherry_gradient_count(t->session);
    for (size_t n = 0; n < gradients && !trainer_masked(t); n++) {
        int gradient = session_gradient(t->session, n), weight = g->tensors[gradient].gradient_of;
        struct matrix_order order;
        if (g->tensors[weight].weight != WEIGHT_WORD || t->weights.gradients[n].frozen) continue;
        return tensor_reordered(g, gradient, &order) ? SIZE_MAX : n;
    }
    return SIZE_MAX;
}

static bool buckets_make(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e)
{
    struct buckets_desc d = {.session = t->session,
                             .optimizer = t->optimizer,
                             .exchange = &t->sharding.exchange,
                             .wire = desc->wire,
                             .bytes = desc->bucket_bytes,
                             .table = sharding_table(t)};
    if (d.table != SIZE_MAX) d.rows = t->model->info.config.vocabulary;
    /* Numbers between tensors are exchanged, too: they must not spoil a bucket's scale on the wire. */
    return (t->sharding.buckets = buckets_create(&d, e)) != NULL && optimizer_sums_clear(t->optimizer, e);
}

/* Whatever has to be the same in all processes, beside the weights, so that their messages fit. */
static uint64_t trainer_hash(const struct wherry_trainer *t, const wherry_trainer_desc *desc)
{
    const struct arena *a = optimizer_arena(t->optimizer);
    const struct graph *g = &t->session->graph;
    const wherry_optimizer_desc *o = &t->optimizer_desc;
    const wherry_loss_desc *l = desc->loss;
    const double numbers[] = {(double)o->kind,
                              (double)o->learning_rate,
                              (double)o->beta1,
                              (double)o->beta2,
                              (double)o->epsilon,
                              (double)o->weight_decay,
                              (double)o->momentum,
                              (double)o->max_norm,
                              (double)o->loss_scale,
                              (double)o->layer_decay,
                              (double)o->schedule,
                              (double)o->warmup_steps,
                              (double)o->total_steps,
                              (double)l->loss,
                              (double)l->scale,
                              (double)l->symmetric,
                              (double)t->columns,
                              (double)l->positive_weight,
                              (double)t->training.dropout,
                              t->lora ? (double)t->lora->settings.alpha : 0,
                              t->lora ? (double)t->lora->settings.root : 0};
    const uint64_t words[] = {
        t->seed,       t->sharding.most,    desc->wire, desc->bucket_bytes, session_type(t->session),
        t->row_floats, (uint64_t)a->n_slabs};
    uint64_t hash = hash_bytes(hash_bytes(HASH_START, numbers, sizeof numbers), words, sizeof words);
    for (int i = 0; i < a->n_segments; i++) {
        const struct segment *s = &a->segments[i];
        const uint64_t place[] = {s->tensor, s->first, s->count, (uint64_t)s->slab, s->at};
        const int tensor = session_gradient(t->session, s->tensor);
        hash = hash_text(hash_bytes(hash, place, sizeof place), tensor < 0 ? "adapter" : g->tensors[tensor].dims);
    }
    return buckets_hash(t->sharding.buckets, hash);
}

static bool trainers_compare(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e)
{
    bool same;
    uint32_t other = 0;
    TRY(exchange_same(&t->sharding.exchange, trainer_hash(t, desc), &other, &same, e));
    return same || fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "process %u has another model, loss, optimizer, seed or order of weights than process 0: start "
                        "all with the same ones, on devices of one kind",
                        (unsigned)other);
}

bool sharding_make(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e)
{
    const struct host *host = &t->context->host;
    struct sharding *s = &t->sharding;
    TRY(exchange_open(host, desc->exchange, &s->exchange, e));
    s->most = shards_most(desc);
    if (!(s->rows = host_alloc(host, s->most + 1, sizeof *s->rows, e)) ||
        !(s->there = host_alloc(host, s->most, sizeof *s->there, e)) ||
        !(s->results = host_alloc(host, s->most, sizeof *s->results, e)) ||
        !(s->begins = host_alloc(host, (size_t)s->exchange.of.processes + 1, sizeof *s->begins, e)) ||
        !(s->touched = host_alloc(host, t->model->info.config.vocabulary + 1u, sizeof *s->touched, e)))
        return false;
    return s->exchange.of.processes == 1 || (buckets_make(t, desc, e) && trainers_compare(t, desc, e));
}

void sharding_destroy(struct wherry_trainer *t)
{
    const struct host *host = &t->context->host;
    struct sharding *s = &t->sharding;
    void *memory[] = {s->rows, s->there, s->results, s->begins, s->touched, s->d_rows};
    buckets_destroy(s->buckets);
    exchange_close(&s->exchange);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(host, memory[i]);
}

bool sharding_room(struct wherry_trainer *t, size_t rows, struct error *e)
{
    const struct host *host = &t->context->host;
    struct sharding *s = &t->sharding;
    TRY(trainer_rows_room(t, rows, e));
    if (rows <= s->d_room) return true;
    host_free(host, s->d_rows);
    s->d_room = 0;
    if (!(s->d_rows = host_alloc_unset(host, rows, t->row_floats * sizeof *s->d_rows, e))) return false;
    s->d_room = rows;
    return true;
}

/* ---- sums on this device ---- */

void shard_begin(struct wherry_trainer *t, size_t shard)
{
    tree_add(&t->sharding.tree, (struct tree_part){.first = shard, .count = 1});
}

bool shard_add(struct wherry_trainer *t, double weight, struct error *e)
{
    struct tree *tree = &t->sharding.tree;
    struct tree_part *part = &tree->parts[tree->n - 1];
    bool first = !part->there;
    part->there = true;
    return optimizer_add_sum(t->optimizer, tree->n - 1, first, weight, e);
}

bool shard_add_last(struct wherry_trainer *t, const float *gradient, size_t floats, double weight, struct error *e)
{
    struct sharding *s = &t->sharding;
    const double factor = weight / optimizer_scale(t->optimizer);
    TRY(session_gradient_give(t->session, gradient, floats, e));
    for (int piece = 0; piece < t->session->n_pieces; piece++)
        TRY(backward_submit(t->session, piece, e) && buckets_go_on(s->buckets, piece, &s->tree, factor, e));
    s->tree.parts[s->tree.n - 1].there = s->joined = true;
    return true;
}

bool shard_end(struct wherry_trainer *t, struct error *e)
{
    struct tree *tree = &t->sharding.tree;
    bool adds, first;
    while (tree_join(tree, &adds, &first))
        if (adds && !t->sharding.joined) TRY(optimizer_join_sum(t->optimizer, tree->n, first, e));
    return true;
}

static bool sums_close(struct wherry_trainer *t, struct error *e)
{
    struct tree *tree = &t->sharding.tree;
    bool adds, first;
    while (tree_close(tree, &adds, &first))
        if (adds) TRY(optimizer_join_sum(t->optimizer, tree->n, first, e));
    return true;
}

/* ---- between processes ---- */

/* Of `size` bytes for each of `at[shard]` things before a shard (NULL: the shards themselves). */
static void begins_fill(struct sharding *s, size_t n_shards, const size_t *at, size_t size)
{
    uint32_t n = s->exchange.of.processes;
    for (uint32_t p = 0; p <= n; p++) {
        size_t shard = tree_first(n_shards, p, n);
        s->begins[p] = (at ? at[shard] : shard) * size;
    }
}

bool shards_gather_rows(struct wherry_trainer *t, size_t n_shards, float *rows, struct error *e)
{
    struct sharding *s = &t->sharding;
    begins_fill(s, n_shards, s->rows, t->row_floats * sizeof *rows);
    return exchange_gather(&s->exchange, rows, s->begins, e);
}

static void ids_touch(struct wherry_trainer *t, const wherry_shard *shards, size_t n_shards)
{
    bool *touched = t->sharding.touched;
    memset(touched, 0, t->model->info.config.vocabulary * sizeof *touched);
    for (size_t v = 0; v < n_shards; v++)
        for (size_t b = 0; t->sharding.there[v] && b < shards[v].n_batches; b++) {
            const wherry_batch *batch = &shards[v].batches[b];
            for (uint32_t i = 0; i < batch->offsets[batch->sequences]; i++) touched[batch->ids[i]] = true;
        }
}

bool shards_begin(struct wherry_trainer *t, const wherry_shard *shards, size_t n_shards, struct error *e)
{
    struct sharding *s = &t->sharding;
    s->tree.n = 0;
    s->joined = false;
    if (!s->buckets) return true;
    ids_touch(t, shards, n_shards);
    return buckets_begin(s->buckets, n_shards, s->there, s->touched, e);
}

bool shards_sum(struct wherry_trainer *t, size_t n_shards, struct error *e)
{
    struct sharding *s = &t->sharding;
    if (!s->buckets) return sums_close(t, e);
    TRY(buckets_finish(s->buckets, e));
    begins_fill(s, n_shards, NULL, sizeof *s->results);
    return exchange_gather(&s->exchange, s->results, s->begins, e);
}

/* ---- what is told and compared ---- */

wherry_status wherry_trainer_exchange_times(const wherry_trainer *trainer, wherry_exchange_times *out)
{
    if (!trainer || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = trainer->sharding.exchange.times;
    out->struct_size = sizeof *out;
    return WHERRY_STATUS_OK;
}

static bool weights_hash(struct wherry_trainer *t, uint64_t *out, struct error *e)
{
    *out = HASH_START;
    bool ok = true;
    for (size_t g = 0; ok && g < t->weights.n_gradients; g++) {
        const size_t n = (size_t)t->weights.elements[g];
        if (t->weights.gradients[g].frozen) continue;
        float *values = host_alloc_unset(&t->context->host, n, sizeof *values, e);
        ok = values && optimizer_tensor_read(t->optimizer, OPTIMIZER_MASTER, g, values, n, e);
        if (ok) *out = hash_bytes(*out, values, n * sizeof *values);
        host_free(&t->context->host, values);
    }
    return ok;
}

static bool weights_compare(struct wherry_trainer *t, struct error *e)
{
    uint64_t hash;
    uint32_t other = 0;
    bool same;
    if (t->sharding.exchange.of.processes == 1) return true;
    TRY(weights_hash(t, &hash, e) && exchange_same(&t->sharding.exchange, hash, &other, &same, e));
    return same || fail(e, WHERRY_STATUS_VERIFY_FAILED,
                        "after step %" PRIu64 " process %u has other weights than process 0: its device computes "
                        "otherwise; train on devices of one kind, with one driver",
                        t->step, (unsigned)other);
}

wherry_status wherry_trainer_weights_compare(wherry_trainer *trainer)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    return context_status(trainer->context, weights_compare(trainer, context_error(trainer->context)));
}
