/* Weights that sessions of a device have in common. */
#include "runtime/shared_weights.h"

#include <string.h>

#include "base/round.h"
#include "plan/pieces.h"
#include "runtime/session.h"

struct shared_tensor {
    enum weight weight, folded;
    int layer;
    size_t element; /* bytes */
    bool bf16, reordered;
    struct matrix_order order;
    struct placement at; /* in the arena's blocks */
    uint32_t sessions;   /* that use it */
};

struct weight_arena {
    struct weight_arena *next;
    const struct wherry_model *model;
    struct shared_tensor *tensors; /* [count] */
    int count;
    struct memory_block *blocks; /* [n_blocks] */
    int n_blocks;
    uint32_t sessions; /* that use a tensor of it */
    /* With the store's `memory`: */
    uint32_t holders;        /* of these sessions, those with device memory */
    struct buffer **buffers; /* [n_blocks]; NULL: there are none */
    bool ready;              /* they have the weights */
};

/* ---- the store ---- */

void weight_store_make(struct weight_store *store)
{
    mutex_make(&store->lock);
    mutex_make(&store->memory);
    store->arenas = NULL;
}

void weight_store_free(struct weight_store *store)
{
    mutex_free(&store->lock);
    mutex_free(&store->memory);
}

static void arena_free(const struct host *host, struct weight_arena *arena)
{
    if (!arena) return;
    host_free(host, arena->tensors);
    host_free(host, arena->blocks);
    host_free(host, arena);
}

static void arena_leave(const struct host *host, struct weight_store *store, struct weight_arena *arena)
{
    if (--arena->sessions) return;
    struct weight_arena **at = &store->arenas;
    while (*at != arena) at = &(*at)->next;
    *at = arena->next;
    arena_free(host, arena);
}

/* ---- which tensors are the same ---- */

static bool is_weight(const struct wherry_session *s, int t)
{
    const struct tensor *tensor = &s->graph.tensors[t];
    return tensor->role == TENSOR_WEIGHT && tensor->parent < 0 && groups_read(&s->graph, s->groups, s->n_groups, t);
}

static struct shared_tensor tensor_key(const struct wherry_session *s, int t)
{
    const struct tensor *tensor = &s->graph.tensors[t];
    struct shared_tensor key = {.weight = tensor->weight,
                                .folded = tensor->folded,
                                .layer = tensor->layer,
                                .element = tensor_element_bytes(&s->graph, t, session_storage(s)),
                                .bf16 = tensor->bf16 || session_type(s) == STORAGE_BF16};
    key.reordered = tensor_reordered(&s->graph, t, &key.order);
    key.at.bytes = round_up(tensor_elements(&s->graph, &s->limits, t) * key.element + tensor_scale_bytes(&s->graph, t),
                            MEMORY_ALIGNMENT);
    key.at.piece_bytes = table_piece_bytes(&s->graph, &s->limits, t, session_storage(s),
                                           s->device_limits.max_binding_bytes, s->device_limits.max_buffer_bytes);
    return key;
}

static bool orders_equal(const struct matrix_order *a, const struct matrix_order *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->transposed == b->transposed && a->heads == b->heads &&
           a->channels == b->channels && a->paired == b->paired && a->half == b->half;
}

static bool keys_equal(const struct shared_tensor *a, const struct shared_tensor *b)
{
    return a->weight == b->weight && a->folded == b->folded && a->layer == b->layer && a->element == b->element &&
           a->bf16 == b->bf16 && a->reordered == b->reordered &&
           (!a->reordered || orders_equal(&a->order, &b->order)) && a->at.bytes == b->at.bytes &&
           a->at.piece_bytes == b->at.piece_bytes;
}

/* NULL: no arena has it. */
static struct weight_arena *store_find(const struct wherry_session *s, int t, int *index)
{
    const struct shared_tensor key = tensor_key(s, t);
    for (struct weight_arena *arena = s->device->weights.arenas; arena; arena = arena->next)
        for (int i = 0; arena->model == s->model && i < arena->count; i++)
            if (keys_equal(&arena->tensors[i], &key)) {
                *index = i;
                return arena;
            }
    return NULL;
}

/* ---- finding ---- */

/* The number that the arena's first block has for the session, -1: there was no memory for that. */
static int arena_join(struct wherry_session *s, struct weight_arena *arena, struct error *e)
{
    struct shared_weights *w = &s->shared;
    const struct host *host = &s->context->host;
    for (int i = 0; i < w->given.n_blocks; i++)
        if (w->arenas[i] == arena) return i;
    const size_t have = (size_t)w->given.n_blocks, want = have + (size_t)arena->n_blocks;
    void *blocks = host_grow(host, w->blocks, have, want, sizeof *w->blocks, e);
    if (!blocks) return -1;
    w->given.blocks = w->blocks = blocks;
    void *arenas = host_grow(host, w->arenas, have, want, sizeof *w->arenas, e);
    if (!arenas) return -1;
    w->arenas = arenas;
    void *numbers = host_grow(host, w->arena_blocks, have, want, sizeof *w->arena_blocks, e);
    if (!numbers) return -1;
    w->arena_blocks = numbers;
    for (int i = 0; i < arena->n_blocks; i++) {
        w->blocks[have + (size_t)i] = arena->blocks[i];
        w->arenas[have + (size_t)i] = arena;
        w->arena_blocks[have + (size_t)i] = i;
    }
    w->given.n_blocks = (int)want;
    arena->sessions++;
    return (int)have;
}

static bool find_all(struct wherry_session *s, struct error *e)
{
    struct shared_weights *w = &s->shared;
    for (int t = 0; t < s->graph.n_tensors; t++) {
        int index, first;
        struct weight_arena *arena = is_weight(s, t) ? store_find(s, t, &index) : NULL;
        if (!arena) continue;
        if ((first = arena_join(s, arena, e)) < 0) return false;
        arena->tensors[index].sessions++;
        w->numbers[t] = index;
        w->of[t] = arena->tensors[index].at;
        w->of[t].block += first;
    }
    return true;
}

bool shared_weights_find(struct wherry_session *s, struct error *e)
{
    struct shared_weights *w = &s->shared;
    const struct host *host = &s->context->host;
    shared_weights_leave(s);
    if (!w->wanted) return true;
    if (!(w->of = host_alloc(host, (size_t)s->graph.n_tensors, sizeof *w->of, e)) ||
        !(w->numbers = host_alloc(host, (size_t)s->graph.n_tensors, sizeof *w->numbers, e)))
        return false;
    for (int t = 0; t < s->graph.n_tensors; t++) w->of[t].block = -1;
    w->given.of = w->of;
    mutex_enter(&s->device->weights.lock);
    bool ok = find_all(s, e);
    mutex_leave(&s->device->weights.lock);
    return ok;
}

static bool is_own(const struct wherry_session *s, int t) { return is_weight(s, t) && s->shared.of[t].block < 0; }

/* All weights that were not found, as they lie in the session's blocks after those that were. */
static struct weight_arena *arena_make(const struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    const struct memory_plan *plan = &s->memory;
    struct weight_arena *arena = host_alloc(host, 1, sizeof *arena, e);
    if (!arena) return NULL;
    for (int t = 0; t < s->graph.n_tensors; t++) arena->count += is_own(s, t);
    while (plan->blocks[plan->n_given + arena->n_blocks].kind == MEMORY_WEIGHTS) arena->n_blocks++;
    *arena = (struct weight_arena){.model = s->model,
                                   .count = arena->count,
                                   .n_blocks = arena->n_blocks,
                                   .sessions = 1,
                                   .tensors = host_alloc(host, (size_t)arena->count, sizeof *arena->tensors, e)};
    if (!arena->tensors || !(arena->blocks = host_alloc(host, (size_t)arena->n_blocks, sizeof *arena->blocks, e))) {
        arena_free(host, arena);
        return NULL;
    }
    memcpy(arena->blocks, plan->blocks + plan->n_given, (size_t)arena->n_blocks * sizeof *arena->blocks);
    for (int t = 0, n = 0; t < s->graph.n_tensors; t++) {
        if (!is_own(s, t)) continue;
        arena->tensors[n] = tensor_key(s, t);
        arena->tensors[n].at = plan->of[t];
        arena->tensors[n].at.block -= plan->n_given;
        arena->tensors[n++].sessions = 1;
    }
    return arena;
}

bool shared_weights_publish(struct wherry_session *s, bool *again, struct error *e)
{
    struct weight_store *store = &s->device->weights;
    int own = 0, index;
    *again = false;
    if (!s->shared.wanted) return true;
    mutex_enter(&store->lock);
    for (int t = 0; t < s->graph.n_tensors && !*again; t++) {
        if (!is_own(s, t)) continue;
        own++;
        *again = store_find(s, t, &index);
    }
    bool ok = *again || !own || (s->shared.own = arena_make(s, e));
    if (s->shared.own) {
        s->shared.own->next = store->arenas;
        store->arenas = s->shared.own;
    }
    mutex_leave(&store->lock);
    return ok;
}

static void leave_all(struct wherry_session *s)
{
    struct shared_weights *w = &s->shared;
    const struct host *host = &s->context->host;
    struct weight_store *store = &s->device->weights;
    for (int t = 0; w->of && t < s->graph.n_tensors; t++)
        if (w->of[t].block >= 0) w->arenas[w->of[t].block]->tensors[w->numbers[t]].sessions--;
    for (int i = 0; w->own && i < w->own->count; i++) w->own->tensors[i].sessions--;
    for (int i = 0; i < w->given.n_blocks; i++)
        if (!w->arena_blocks[i]) arena_leave(host, store, w->arenas[i]);
    if (w->own) arena_leave(host, store, w->own);
}

void shared_weights_leave(struct wherry_session *s)
{
    struct shared_weights *w = &s->shared;
    const struct host *host = &s->context->host;
    if (w->given.n_blocks || w->own) {
        mutex_enter(&s->device->weights.lock);
        leave_all(s);
        mutex_leave(&s->device->weights.lock);
    }
    host_free(host, w->of);
    host_free(host, w->numbers);
    host_free(host, w->blocks);
    host_free(host, w->arenas);
    host_free(host, w->arena_blocks);
    *w = (struct shared_weights){.wanted = w->wanted};
}

/* ---- memory ---- */

static struct weight_arena *arena_of(const struct wherry_session *s, int block, int *number)
{
    const struct shared_weights *w = &s->shared;
    const int given = w->given.n_blocks;
    if (block < given) {
        *number = w->arena_blocks[block];
        return w->arenas[block];
    }
    *number = block - given;
    return w->own && *number < w->own->n_blocks ? w->own : NULL;
}

bool shared_weights_has(const struct wherry_session *s, int block)
{
    int number;
    return arena_of(s, block, &number) != NULL;
}

static void arena_empty(struct wherry_session *s, struct weight_arena *arena)
{
    const struct backend *backend = s->device->backend;
    if (--arena->holders) return;
    for (int i = 0; arena->buffers && i < arena->n_blocks; i++)
        backend->buffer_destroy(s->device->handle, arena->buffers[i]);
    host_free(&s->context->host, arena->buffers);
    arena->buffers = NULL;
    arena->ready = false;
}

static bool arena_hold(struct wherry_session *s, struct weight_arena *arena, struct error *e)
{
    arena->holders++;
    if (arena->buffers) return true;
    bool ok = (arena->buffers = host_alloc(&s->context->host, (size_t)arena->n_blocks, sizeof *arena->buffers, e));
    for (int i = 0; ok && i < arena->n_blocks; i++)
        ok = (arena->buffers[i] = s->device->backend->buffer_create(s->device->handle, arena->blocks[i].bytes, e));
    if (!ok) arena_empty(s, arena);
    return ok;
}

/* Of the arenas that the session uses; NULL after the last. */
static struct weight_arena *arena_at(const struct wherry_session *s, int index)
{
    const struct shared_weights *w = &s->shared;
    int n = 0;
    for (int i = 0; i < w->given.n_blocks; i++)
        if (!w->arena_blocks[i] && n++ == index) return w->arenas[i];
    return n == index ? w->own : NULL;
}

bool shared_weights_hold(struct wherry_session *s, struct error *e)
{
    struct weight_arena *arena;
    for (int i = 0; (arena = arena_at(s, i)); i++) {
        if (arena_hold(s, arena, e)) continue;
        while (i > 0) arena_empty(s, arena_at(s, --i));
        return false;
    }
    s->shared.held = true;
    return true;
}

void shared_weights_release(struct wherry_session *s)
{
    struct weight_arena *arena;
    if (!s->shared.held) return;
    s->shared.held = false;
    mutex_enter(&s->device->weights.memory);
    for (int i = 0; (arena = arena_at(s, i)); i++) arena_empty(s, arena);
    mutex_leave(&s->device->weights.memory);
}

struct buffer *shared_weights_buffer(const struct wherry_session *s, int block)
{
    int number;
    const struct weight_arena *arena = arena_of(s, block, &number);
    return arena->buffers[number];
}

bool shared_weights_ready(const struct wherry_session *s, int block)
{
    int number;
    const struct weight_arena *arena = arena_of(s, block, &number);
    return arena && arena->ready;
}

void shared_weights_set_ready(struct wherry_session *s)
{
    struct weight_arena *arena;
    for (int i = 0; (arena = arena_at(s, i)); i++) arena->ready = true;
}

/* ---- how much ---- */

static uint64_t arena_bytes(const struct weight_arena *arena)
{
    uint64_t bytes = 0;
    for (int i = 0; arena && i < arena->n_blocks; i++) bytes += arena->blocks[i].bytes;
    return bytes;
}

uint64_t shared_weights_missing(const struct wherry_session *s)
{
    uint64_t bytes = 0;
    const struct weight_arena *arena;
    for (int i = 0; (arena = arena_at(s, i)); i++) bytes += arena->buffers ? 0 : arena_bytes(arena);
    return bytes;
}

uint64_t shared_weights_own(const struct wherry_session *s) { return arena_bytes(s->shared.own); }

uint64_t shared_weights_bytes(const struct wherry_session *s)
{
    const struct shared_weights *w = &s->shared;
    uint64_t bytes = 0;
    if (!w->given.n_blocks && !w->own) return 0;
    mutex_enter(&s->device->weights.lock);
    for (int t = 0; t < s->graph.n_tensors; t++) {
        if (w->of[t].block < 0) continue;
        const struct shared_tensor *tensor = &w->arenas[w->of[t].block]->tensors[w->numbers[t]];
        if (tensor->sessions > 1) bytes += tensor->at.bytes;
    }
    for (int i = 0; w->own && i < w->own->count; i++)
        if (w->own->tensors[i].sessions > 1) bytes += w->own->tensors[i].at.bytes;
    mutex_leave(&s->device->weights.lock);
    return bytes;
}
