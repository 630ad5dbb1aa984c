/* Optimizers: what is asked for, what is accumulated, and the step: the host computes in double what does not depend on
 * the gradients, and the device the rest. */
#include "train/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "model/model.h"
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
    count += adapters_tensors(options->adapters);
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
    return (optimizer_lamb(o) || o->options.accumulates ? 1u << ARENA_GRADIENT : 0u) |
           (o->session->f16 ? 1u << ARENA_MASTER : 0u) | (moments || o->options.momentum > 0 ? 1u << ARENA_FIRST : 0u) |
           (moments ? 1u << ARENA_SECOND : 0u);
}

/* A model's files have query, key and value as tensors of their own, or as one: LAMB's ratio is of each tensor. */
static uint32_t rates_of(const struct optimizer *o, size_t n)
{
    const struct graph *g = &o->session->graph;
    const int gradient = session_gradient(o->session, n);
    const struct weight_part *parts;
    if (!optimizer_lamb(o) || !o->tensors[n].decays || gradient < 0) return 1;
    const struct tensor *weight = &g->tensors[g->tensors[gradient].gradient_of];
    return (uint32_t)model_weight(o->session->model, weight->weight, weight->layer, &parts);
}

static bool plan(struct optimizer *o, struct error *e)
{
    const struct host *host = &o->session->context->host;
    const size_t count = o->options.count;
    if (!(o->tensors = host_alloc(host, count, sizeof *o->tensors, e))) return false;
    memcpy(o->tensors, o->options.tensors, count * sizeof *o->tensors);
    o->options.tensors = o->tensors;
    o->parts = parts_of(o);
    uint32_t *parts = host_alloc(host, count, sizeof *parts, e);
    for (size_t n = 0; parts && n < count; n++) parts[n] = o->tensors[n].frozen ? 0 : rates_of(o, n);
    bool ok = parts && arena_plan(o->session, o->options.adapters, parts, count, o->options.sums, &o->arena, e);
    host_free(host, parts);
    if (!ok) return false;
    optimizer_program_plan(o);
    return o->options.planned ||
           (adapters_make(o->options.adapters, e) && arena_make(o->session, o->parts, &o->arena, e) &&
            optimizer_program_create(o, e) && optimizer_masters(o, e));
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
    if (!options_check(session, options, e) || !(options->planned || prepare(session, e))) return NULL;
    struct optimizer *o = host_alloc(&session->context->host, 1, sizeof *o, e);
    if (!o) return NULL;
    o->session = session;
    o->options = *options;
    o->state.scale = session_type(session) != STORAGE_F16 ? 1
                     : options->loss_scale > 0            ? options->loss_scale
                                                          : FIRST_SCALE;
    o->options.accumulates |= o->options.sums > 0;
    if (!o->options.clean_steps) o->options.clean_steps = CLEAN_STEPS;
    if (plan(o, e)) return o;
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

static bool gradients_check(const struct optimizer *o, double weight, struct error *e)
{
    const struct wherry_session *s = o->session;
    if (!s->backward_done || s->forward_done)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "optimizer: gradients are there after a backward pass, until the next forward pass");
    return isfinite(weight) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: gradients' weight is %s", NUMBER("%g", weight));
}

/* The header of what is added to what is accumulated, or to a further sum. */
static void words_add(struct optimizer *o, bool first, double factor)
{
    memset(o->words, 0, (size_t)o->header_bytes);
    o->words[OPTIMIZER_ACTIVE] = 1;
    o->words[OPTIMIZER_MODE] = first ? OPTIMIZER_SET : OPTIMIZER_ADD;
    set_float(o, OPTIMIZER_FACTOR, factor);
}

bool optimizer_add_sum(struct optimizer *o, int sum, bool first, double weight, struct error *e)
{
    TRY(gradients_check(o, weight, e) && optimizer_accumulator(o, e) && adapters_differentiate(o->options.adapters, e));
    words_add(o, first, weight / o->state.scale);
    o->summed = false; /* a further sum's are the squares that are there next */
    if (sum) return optimizer_submit_sum(o, sum, false, e);
    TRY(optimizer_submit(o, WAY_ACCUMULATED, 0, PHASE_ADD, PHASE_ADD, true, e));
    o->accumulated = o->summed = true;
    return true;
}

bool optimizer_direct(struct optimizer *o, double weight, struct error *e)
{
    TRY(gradients_check(o, weight, e));
    if (o->accumulated)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "optimizer: something is accumulated already, to which gradients are to be added");
    o->direct = true;
    o->weight = weight;
    return adapters_differentiate(o->options.adapters, e);
}

bool optimizer_accumulate(struct optimizer *o, double weight, struct error *e)
{
    return optimizer_add_sum(o, 0, !o->accumulated, weight, e);
}

bool optimizer_join_sum(struct optimizer *o, int sum, bool first, struct error *e)
{
    words_add(o, first, 1);
    o->summed = false;
    TRY(optimizer_submit_sum(o, sum, true, e));
    if (sum == 1) o->accumulated = o->summed = true;
    return true;
}

void optimizer_overflow(struct optimizer *o) { o->overflow = true; }

void optimizer_clear(struct optimizer *o)
{
    struct error ignored;
    for (int way = 0; way < WAYS && o->begun; way++)
        pass_wait(o->session->device, o->ways[way].program, 0, &o->ways[way].passes[0], &ignored);
    o->accumulated = o->summed = o->direct = o->overflow = o->begun = false;
}

/* ---- the step ---- */

/* A rate and a decay for each trained tensor or part. */
static void set_rates(struct optimizer *o, double rate, double correction)
{
    for (int k = 0; k < o->arena.n_segments; k++) {
        const struct segment *segment = &o->arena.segments[k];
        const struct optimizer_tensor *t = &o->tensors[segment->tensor];
        double own = rate * (double)t->rate_factor, decay = t->decays ? o->options.weight_decay : 0;
        if (o->options.kind == OPTIMIZER_ADAMW) decay = 1 - own * decay;
        set_float(o, OPTIMIZER_RATES + 2 * segment->rates, own / correction);
        set_float(o, OPTIMIZER_RATES + 2 * segment->rates + 1, decay);
    }
}

/* The header of all phases. */
static void words_fill(struct optimizer *o, double rate)
{
    const struct optimizer_options *p = &o->options;
    const bool adamw = p->kind == OPTIMIZER_ADAMW;
    const double t = (double)(o->state.step + 1);
    const double first = 1 - pow(p->beta1, t), second = 1 - pow(p->beta2, t);
    memset(o->words, 0, (size_t)o->header_bytes);
    o->words[OPTIMIZER_ACTIVE] = 1;
    o->words[OPTIMIZER_MODE] = OPTIMIZER_KEEP;
    o->words[OPTIMIZER_SUMS] = (uint32_t)(o->arena.partials_bytes / 4);
    o->words[OPTIMIZER_TENSORS] = o->arena.n_rates;
    set_float(o, OPTIMIZER_FACTOR, o->direct ? o->weight / o->state.scale : 1);
    set_float(o, OPTIMIZER_MAX_NORM, p->max_norm);
    set_float(o, OPTIMIZER_FIRST_OLD, p->kind == OPTIMIZER_SGD ? p->momentum : p->beta1);
    set_float(o, OPTIMIZER_FIRST_NEW, 1 - p->beta1);
    set_float(o, OPTIMIZER_SECOND_OLD, p->beta2);
    set_float(o, OPTIMIZER_SECOND_NEW, 1 - p->beta2);
    set_float(o, OPTIMIZER_EPSILON, p->epsilon);
    set_float(o, OPTIMIZER_FIRST_SCALE, 1 / first);
    set_float(o, OPTIMIZER_SECOND_SCALE, adamw ? 1 / sqrt(second) : 1 / second);
    set_rates(o, rate, adamw ? first : 1);
}

bool optimizer_step_begin(struct optimizer *o, double learning_rate, struct error *e)
{
    const enum way way = o->direct ? WAY_DIRECT : WAY_ACCUMULATED;
    if (!(learning_rate >= 0 && learning_rate < INFINITY))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: the learning rate is %s",
                    NUMBER("%g", learning_rate));
    if (!o->accumulated && !o->direct && !o->overflow)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: there is no gradient to step by");
    if (o->begun) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: a step is under way already");
    if (!o->overflow) {
        words_fill(o, learning_rate);
        TRY(optimizer_submit(o, way, 0, o->direct || !o->summed ? PHASE_ADD : PHASE_NORM, PHASE_NORM, true, e));
        o->begun = true;
        TRY(optimizer_submit(o, way, 1, PHASE_STEP, PHASE_CHANGE, false, e));
        TRY(adapters_merge(o->options.adapters, e));
    }
    o->begun = true;
    return true;
}

/* Half the scale, or twice as much after enough clean steps. Where the type has the range it stays at 1. */
static void scale_update(struct optimizer *o, bool skipped)
{
    struct optimizer_state *state = &o->state;
    if (session_type(o->session) != STORAGE_F16) return;
    state->clean = skipped ? 0 : state->clean + 1;
    if (skipped && state->scale > 1) state->scale /= 2;
    if (state->clean < o->options.clean_steps) return;
    state->scale *= 2;
    state->clean = 0;
}

bool optimizer_step_end(struct optimizer *o, struct optimizer_result *out, struct error *e)
{
    struct way_program *w = &o->ways[o->direct ? WAY_DIRECT : WAY_ACCUMULATED];
    double norm = INFINITY;
    if (!o->begun) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: no step is under way");
    if (!o->overflow) {
        TRY(pass_wait(o->session->device, w->program, 0, &w->passes[0], e));
        norm = (double)o->told[VERDICT_NORM];
    }
    const bool skipped = o->overflow || !(o->told[VERDICT_FINITE] > 0);
    o->state.step += !skipped;
    scale_update(o, skipped);
    optimizer_clear(o);
    *out = (struct optimizer_result){.norm = norm, .scale = o->state.scale, .skipped = skipped, .step = o->state.step};
    return true;
}

bool optimizer_step(struct optimizer *o, double learning_rate, struct optimizer_result *out, struct error *e)
{
    return optimizer_step_begin(o, learning_rate, e) && optimizer_step_end(o, out, e);
}
