/* Optimizers: what is asked for, what is accumulated, and the step, whose scalars the host computes in double. */
#include "train/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "interface/optimizer.h"
#include "runtime/train.h"
#include "train/state.h"

enum { CLEAN_STEPS = 2000 };
static const double FIRST_SCALE = 65536;

/* ---- what is asked for ---- */

static bool within(const char *name, double value, double low, double high, struct error *e)
{
    if (value >= low && value < high) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: %s is %s: it is from %s to below %s", name,
                NUMBER("%g", value), NUMBER("%g", low), NUMBER("%g", high));
}

static bool numbers_check(const struct optimizer_options *options, struct error *e)
{
    const bool moments = options->kind != OPTIMIZER_SGD;
    int exponent;
    TRY(within("weight_decay", options->weight_decay, 0, INFINITY, e));
    TRY(within("max_norm", options->max_norm, 0, INFINITY, e));
    TRY(within("momentum", moments ? 0 : options->momentum, 0, 1, e));
    TRY(within("beta1", moments ? options->beta1 : 0, 0, 1, e));
    TRY(within("beta2", moments ? options->beta2 : 0, 0, 1, e));
    if (moments && !(options->epsilon > 0 && options->epsilon < INFINITY))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: epsilon is %s: it is above 0",
                    NUMBER("%g", options->epsilon));
    if (options->loss_scale != 0 && !(options->loss_scale >= 1 && frexp(options->loss_scale, &exponent) == 0.5))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: loss_scale is %s: it is a power of two, or 0",
                    NUMBER("%g", options->loss_scale));
    return true;
}

static bool options_check(const struct wherry_session *s, const struct optimizer_options *options, struct error *e)
{
    size_t trained = 0, count = wherry_gradient_count(s);
    if (!count || s->part)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "optimizer: the session does not train (wherry_session_desc.training), or has a part of its plan "
                    "alone");
    if (options->kind > OPTIMIZER_SGD)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: there is no kind %d", (int)options->kind);
    if (options->count != count)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: %zu tensors are given, the session has %zu",
                    options->count, count);
    TRY(numbers_check(options, e));
    for (size_t n = 0; n < count; n++) {
        TRY(within("rate_factor", (double)options->tensors[n].rate_factor, 0, INFINITY, e));
        trained += !options->tensors[n].frozen;
    }
    return trained || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: all tensors are frozen");
}

/* ---- life ---- */

static uint32_t parts_of(const struct optimizer *o)
{
    const bool moments = o->options.kind != OPTIMIZER_SGD;
    return 1u << ARENA_GRADIENT | (o->session->f16 ? 1u << ARENA_MASTER : 0u) |
           (moments || o->options.momentum > 0 ? 1u << ARENA_FIRST : 0u) | (moments ? 1u << ARENA_SECOND : 0u);
}

static bool plan(struct optimizer *o, struct error *e)
{
    const struct host *host = &o->session->context->host;
    const size_t count = o->options.count;
    if (!(o->tensors = host_alloc(host, count, sizeof *o->tensors, e))) return false;
    memcpy(o->tensors, o->options.tensors, count * sizeof *o->tensors);
    o->options.tensors = o->tensors;
    o->parts = parts_of(o);
    bool *trains = host_alloc(host, count, sizeof *trains, e);
    for (size_t n = 0; trains && n < count; n++) trains[n] = !o->tensors[n].frozen;
    bool ok = trains && arena_plan(o->session, trains, count, o->options.sums, &o->arena, e);
    host_free(host, trains);
    return ok && arena_make(o->session, o->parts, &o->arena, e) && optimizer_program_create(o, e);
}

static bool prepare(struct wherry_session *s, struct error *e)
{
    if (s->prepared || wherry_session_prepare(s, NULL, NULL, NULL) == WHERRY_STATUS_OK) return true;
    const struct error *why = context_error(s->context);
    if (why != e) *e = *why;
    return false;
}

struct optimizer *optimizer_create(struct wherry_session *session, const struct optimizer_options *options,
                                   struct error *e)
{
    if (!options_check(session, options, e) || !prepare(session, e)) return NULL;
    struct optimizer *o = host_alloc(&session->context->host, 1, sizeof *o, e);
    if (!o) return NULL;
    o->session = session;
    o->options = *options;
    o->state.scale = !session->f16 ? 1 : options->loss_scale > 0 ? options->loss_scale : FIRST_SCALE;
    if (!o->options.clean_steps) o->options.clean_steps = CLEAN_STEPS;
    if (plan(o, e) && optimizer_masters(o, e)) return o;
    optimizer_destroy(o);
    return NULL;
}

void optimizer_destroy(struct optimizer *o)
{
    if (!o) return;
    const struct host *host = &o->session->context->host;
    optimizer_program_destroy(o);
    arena_free(o->session, &o->arena);
    host_free(host, o->tensors);
    host_free(host, o);
}

double optimizer_scale(const struct optimizer *o) { return o->state.scale; }
struct optimizer_state optimizer_state_get(const struct optimizer *o) { return o->state; }
void optimizer_state_set(struct optimizer *o, const struct optimizer_state *state) { o->state = *state; }
uint64_t optimizer_parameters(const struct optimizer *o) { return o->arena.parameters; }

/* ---- what is accumulated ---- */

static void set_float(struct optimizer *o, uint32_t word, double value)
{
    const float narrow = (float)value;
    memcpy(&o->words[word], &narrow, sizeof narrow);
}

static void set_add(struct optimizer *o, uint32_t mode, double factor)
{
    memset(o->words, 0, (size_t)o->header_bytes);
    o->words[OPTIMIZER_ACTIVE] = 1;
    o->words[OPTIMIZER_MODE] = mode;
    set_float(o, OPTIMIZER_FACTOR, factor);
}

static bool add(struct optimizer *o, uint32_t mode, double factor, struct error *e)
{
    set_add(o, mode, factor);
    o->summed = optimizer_run(o, PASS_ADD, e);
    return o->summed;
}

bool optimizer_add_sum(struct optimizer *o, int sum, bool first, double weight, struct error *e)
{
    const struct wherry_session *s = o->session;
    if (!s->backward_done || s->forward_done)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "optimizer: gradients are there after a backward pass, until the next forward pass");
    if (!isfinite(weight))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: gradients' weight is %s", NUMBER("%g", weight));
    const uint32_t mode = first ? OPTIMIZER_SET : OPTIMIZER_ADD;
    if (sum) {
        set_add(o, mode, weight / o->state.scale);
        o->summed = false; /* the sums of squares are another's */
        return optimizer_run_sum(o, sum, false, e);
    }
    TRY(add(o, mode, weight / o->state.scale, e));
    o->accumulated = true;
    return true;
}

bool optimizer_accumulate(struct optimizer *o, double weight, struct error *e)
{
    return optimizer_add_sum(o, 0, !o->accumulated, weight, e);
}

bool optimizer_join_sum(struct optimizer *o, int sum, bool first, struct error *e)
{
    set_add(o, first ? OPTIMIZER_SET : OPTIMIZER_ADD, 1);
    o->summed = false;
    TRY(optimizer_run_sum(o, sum, true, e));
    if (sum == 1) o->accumulated = o->summed = true;
    return true;
}

void optimizer_overflow(struct optimizer *o) { o->overflow = true; }

void optimizer_clear(struct optimizer *o) { o->accumulated = o->summed = o->overflow = false; }

/* ---- the step ---- */

/* The norm of all gradients together. */
static bool norm_read(struct optimizer *o, double *norm, struct error *e)
{
    double sum = 0;
    if (!o->summed) TRY(add(o, OPTIMIZER_KEEP, 0, e));
    TRY(optimizer_read_partials(o, e));
    for (int i = 0; i < o->arena.n_launches; i++) {
        const struct launch_range *l = &o->arena.launches[i];
        for (uint32_t chunk = 0; chunk < l->chunks; chunk++) sum += (double)o->partials[optimizer_partial(l) + chunk];
    }
    *norm = sqrt(sum);
    return true;
}

/* A rate and a decay for each trained tensor, in the words of the pass. */
static void set_rates(struct optimizer *o, enum pass pass, double rate, double correction)
{
    for (size_t n = 0, i = 0; n < o->options.count; n++) {
        const struct optimizer_tensor *t = &o->tensors[n];
        if (t->frozen) continue;
        double own = rate * (double)t->rate_factor, decay = t->decays ? o->options.weight_decay : 0;
        if (pass == PASS_CHANGE) own *= o->ratios[i];
        if (o->options.kind == OPTIMIZER_ADAMW) decay = 1 - own * decay;
        set_float(o, (uint32_t)(OPTIMIZER_RATES + 2 * i), own / correction);
        set_float(o, (uint32_t)(OPTIMIZER_RATES + 2 * i + 1), decay);
        i++;
    }
}

static bool run_step(struct optimizer *o, double rate, double clip, struct error *e)
{
    const struct optimizer_options *p = &o->options;
    const bool adamw = p->kind == OPTIMIZER_ADAMW;
    const double t = (double)(o->state.step + 1);
    const double first = 1 - pow(p->beta1, t), second = 1 - pow(p->beta2, t);
    memset(o->words, 0, (size_t)o->header_bytes);
    o->words[OPTIMIZER_ACTIVE] = 1;
    set_float(o, OPTIMIZER_FACTOR, clip);
    set_float(o, OPTIMIZER_FIRST_OLD, p->kind == OPTIMIZER_SGD ? p->momentum : p->beta1);
    set_float(o, OPTIMIZER_FIRST_NEW, 1 - p->beta1);
    set_float(o, OPTIMIZER_SECOND_OLD, p->beta2);
    set_float(o, OPTIMIZER_SECOND_NEW, 1 - p->beta2);
    set_float(o, OPTIMIZER_EPSILON, p->epsilon);
    set_float(o, OPTIMIZER_FIRST_SCALE, 1 / first);
    set_float(o, OPTIMIZER_SECOND_SCALE, adamw ? 1 / sqrt(second) : 1 / second);
    set_rates(o, PASS_STEP, rate, adamw ? first : 1);
    return optimizer_run(o, PASS_STEP, e);
}

/* LAMB's q of each tensor, of the sums that its first kernel left. */
static void ratios_fill(struct optimizer *o)
{
    const struct arena *a = &o->arena;
    double weights = 0, changes = 0;
    for (int i = 0; i < a->n_launches; i++) {
        const float *sums = o->partials + optimizer_partial(&a->launches[i]);
        for (int k = a->launches[i].first; k < a->launches[i].end; k++) {
            const struct segment *segment = &a->segments[k];
            if (!segment->first) weights = changes = 0;
            for (uint64_t at = 0; at < segment->count; at += OPTIMIZER_CHUNK, sums += 2) {
                weights += (double)sums[0];
                changes += (double)sums[1];
            }
            bool adapts = o->tensors[segment->tensor].decays && weights > 0 && changes > 0;
            o->ratios[segment->rates] = adapts ? sqrt(weights) / sqrt(changes) : 1;
        }
    }
}

static bool run_change(struct optimizer *o, double rate, struct error *e)
{
    TRY(optimizer_read_partials(o, e));
    ratios_fill(o);
    set_rates(o, PASS_CHANGE, rate, 1);
    return optimizer_run(o, PASS_CHANGE, e);
}

/* Half the scale, or twice as much after enough clean steps. Without one it stays at 1. */
static void scale_update(struct optimizer *o, bool skipped)
{
    struct optimizer_state *state = &o->state;
    if (!o->session->f16) return;
    state->clean = skipped ? 0 : state->clean + 1;
    if (skipped && state->scale > 1) state->scale /= 2;
    if (state->clean < o->options.clean_steps) return;
    state->scale *= 2;
    state->clean = 0;
}

bool optimizer_step(struct optimizer *o, double learning_rate, struct optimizer_result *out, struct error *e)
{
    const double most = o->options.max_norm;
    double norm = INFINITY;
    if (!(learning_rate >= 0 && learning_rate < INFINITY))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: the learning rate is %s",
                    NUMBER("%g", learning_rate));
    if (!o->accumulated && !o->overflow)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: there is no gradient to step by");
    if (!o->overflow) TRY(norm_read(o, &norm, e));
    const bool skipped = !isfinite(norm);
    const double clip = most > 0 ? fmin(1, most / (norm + 1e-6)) : 1;
    if (!skipped) {
        TRY(run_step(o, learning_rate, clip, e));
        if (o->options.kind == OPTIMIZER_LAMB) TRY(run_change(o, learning_rate, e));
        o->state.step++;
    }
    scale_update(o, skipped);
    optimizer_clear(o);
    *out = (struct optimizer_result){.norm = norm, .scale = o->state.scale, .skipped = skipped, .step = o->state.step};
    return true;
}

/* ---- bytes ---- */

/* Of each parameter, in floats: `accumulate` reads nothing of what was accumulated before. */
struct optimizer_bytes optimizer_bytes(const struct optimizer *o)
{
    const uint64_t n = o->arena.parameters, storage = session_storage(o->session), copy = o->session->f16 ? storage : 0;
    /* What a step reads and writes: ADAMW g, p, m, v and p, m, v; with momentum g, p, m and p, m; LAMB g, p, m, v and
     * u, m, v, then u, p and p. */
    static const uint64_t adamw = 7, lamb = 10, momentum = 5, plain = 3;
    const uint64_t floats = o->options.kind == OPTIMIZER_ADAMW  ? adamw
                            : o->options.kind == OPTIMIZER_LAMB ? lamb
                            : o->options.momentum > 0           ? momentum
                                                                : plain;
    return (struct optimizer_bytes){.memory = arena_bytes(&o->arena, o->parts) + o->header_bytes,
                                    .accumulate = n * (storage + sizeof(float)),
                                    .step = n * (floats * sizeof(float) + copy)};
}
