/* Measures steps of a trainer: the whole by the host's clock, and every group of its session, its loss and its
 * optimizer by the device's timer, in steps as a caller makes them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/costs.h"
#include "base/exchange_shape.h"
#include "base/number.h"
#include "base/platform.h"
#include "measure/describe.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "measure/train_shards.h"
#include "train/state.h"
#include "train/trainer.h"

static const uint32_t usual_repeats = 20;
static const double usual_warm_seconds = 0.5;
static const uint64_t usual_cache_bytes = (uint64_t)64 << 20;
/* A first loss scale of 2^16 and one that fits are at most so many steps apart. */
enum { SKIPS_MOST = 32, STEPS_TOGETHER = 5 };

/* What times steps: a session's groups are its own, an optimizer's are its kernels. */
struct measurement {
    struct wherry_trainer *trainer;
    struct step_shards shards;        /* what a step is of: the same batch in each */
    wherry_measure_desc desc;         /* with nothing left to choose */
    size_t parts[WHERRY_TRAIN_PARTS]; /* groups of each */
    size_t count;                     /* of all groups */
    double *samples;                  /* [count + parts + 2][repeats]: of groups, parts, their sum, the host's clock */
    double *firsts;                   /* likewise, of the first run */
    double *once[3];                  /* of the session's calls, the loss' and the optimizer's launches */
    wherry_train_measure *out;
};

/* ---- groups ---- */

/* NULL: the loss is in the session's own graph. */
static struct wherry_session *loss_of(const struct wherry_trainer *t) { return t->loss ? loss_session(t->loss) : NULL; }

static void parts_count(const struct wherry_trainer *t, size_t parts[WHERRY_TRAIN_PARTS])
{
    const struct wherry_session *s = t->session;
    struct optimizer_work work;
    size_t forward = 0;
    while (forward < (size_t)s->n_groups && !s->groups[forward].backward) forward++;
    parts[WHERRY_TRAIN_FORWARD] = forward;
    parts[WHERRY_TRAIN_BACKWARD] = (size_t)s->n_groups - forward;
    parts[WHERRY_TRAIN_LOSS] = loss_of(t) ? (size_t)loss_of(t)->n_groups : 0;
    parts[WHERRY_TRAIN_OPTIMIZER] = 0;
    while (optimizer_work(t->optimizer, (int)parts[WHERRY_TRAIN_OPTIMIZER], &work)) parts[WHERRY_TRAIN_OPTIMIZER]++;
}

static size_t parts_sum(const size_t parts[WHERRY_TRAIN_PARTS], int end)
{
    size_t sum = 0;
    for (int p = 0; p < end; p++) sum += parts[p];
    return sum;
}

static void name_after(const char *part, wherry_cost *cost)
{
    char name[sizeof cost->name];
    snprintf(name, sizeof name, "%s.%.48s", part, cost->name);
    memcpy(cost->name, name, sizeof name);
}

static void optimizer_cost(const struct optimizer_work *work, wherry_cost *out)
{
    *out = (wherry_cost){.class_ = WHERRY_CLASS_ELEMENTWISE,
                         .layer = -1,
                         .operators = 1,
                         .flops = work->flops,
                         .bytes_read = work->read,
                         .bytes_written = work->written};
    snprintf(out->name, sizeof out->name, "%s", work->name);
    snprintf(out->kernel, sizeof out->kernel, "%s", work->kernel);
    name_after("optimizer", out);
}

/* ---- the plan ---- */

wherry_status wherry_trainer_memory(const wherry_trainer *trainer, wherry_train_memory *out)
{
    if (!trainer || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    trainer_memory(trainer, out);
    return WHERRY_STATUS_OK;
}

static void costs_fill(const struct wherry_trainer *t, uint32_t labelled, wherry_cost *groups, size_t room)
{
    const struct wherry_session *of[] = {t->session, loss_of(t)};
    struct optimizer_work work;
    wherry_cost cost;
    size_t n = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; of[k] && i < of[k]->n_groups; i++, n++) {
            struct batch_shape shape = of[k]->limits; /* a full batch */
            if (labelled && labelled < shape.labelled) shape.labelled = labelled;
            cost_of_group(&of[k]->graph, &shape, &of[k]->groups[i], session_storage(of[k]), &cost);
            if (k) name_after("loss", &cost);
            if (n < room) groups[n] = cost;
        }
    for (int i = 0; optimizer_work(t->optimizer, i, &work); i++, n++)
        if (n < room) optimizer_cost(&work, &groups[n]);
}

wherry_status wherry_trainer_plan(wherry_context *context, wherry_device *device, const wherry_model *model,
                                  const wherry_session_desc *session, const wherry_trainer_desc *desc,
                                  uint32_t labelled, wherry_train_memory *memory, wherry_cost *groups, size_t *count,
                                  size_t parts[WHERRY_TRAIN_PARTS])
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!memory || memory->struct_size != sizeof *memory || !count || !parts)
        return context_invalid(context,
                               "wherry_trainer_plan: memory, count or parts is NULL, or memory->struct_size is not %zu",
                               sizeof *memory);
    wherry_trainer *trainer = NULL;
    wherry_status status = trainer_create(context, device, model, session, desc, true, &trainer);
    if (status) return status;
    trainer_memory(trainer, memory);
    parts_count(trainer, parts);
    costs_fill(trainer, labelled, groups, groups ? *count : 0);
    *count = parts_sum(parts, WHERRY_TRAIN_PARTS);
    wherry_trainer_destroy(trainer);
    return WHERRY_STATUS_OK;
}

/* ---- steps ---- */

/* Steps of several shards have no times of groups: their kernels run beside the exchange of gradients. */
static bool divided(const struct measurement *m) { return m->trainer->sharding.most > 1; }
static bool timer_ok(const struct measurement *m) { return !divided(m) && m->out->timer.status == WHERRY_TIMER_OK; }

/* One that changes the weights; steps whose gradients overflow are made again. */
static bool step(struct measurement *m, double *seconds, struct error *e)
{
    for (uint32_t skips = 0; skips <= SKIPS_MOST; skips++) {
        m->out->last.struct_size = sizeof m->out->last;
        uint64_t start = clock_ns();
        if (wherry_trainer_step_shards(m->trainer, m->shards.of, m->shards.n, m->shards.targets, &m->out->last))
            return false;
        *seconds = (double)(clock_ns() - start) * 1e-9;
        if (!m->out->last.skipped) return true;
        m->out->skipped++;
    }
    return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                "%d steps one after the other had gradients that 16-bit floats can't hold", SKIPS_MOST);
}

/* The device's times of a step, `stride` apart. A timer that passed its test and fails now is not believed any more:
 * then they are left alone. */
static bool step_timed(struct measurement *m, double *out, size_t stride, struct error *e)
{
    struct wherry_trainer *t = m->trainer;
    struct wherry_session *s = t->session, *loss = loss_of(t);
    double seconds;
    if (!timer_ok(m)) return true;
    s->timed = m->once[0];
    if (loss) loss->timed = m->once[1];
    optimizer_time(t->optimizer, m->once[2]);
    bool ok = step(m, &seconds, e);
    s->timed = NULL;
    optimizer_time(t->optimizer, NULL);
    if (loss) loss->timed = NULL;
    if (!ok && e->timer) {
        t->device->timer = (wherry_timer_info){0};
        timer_condemn(&m->out->timer, (wherry_timer_status)e->timer, e->text);
        return true;
    }
    if (!ok) return false;
    const size_t loss_first = parts_sum(m->parts, WHERRY_TRAIN_LOSS),
                 first = parts_sum(m->parts, WHERRY_TRAIN_OPTIMIZER);
    struct optimizer_work work;
    for (size_t i = 0; i < m->count + WHERRY_TRAIN_PARTS + 1; i++) out[i * stride] = 0;
    for (int i = 0; i < s->n_calls; i++) out[(size_t)s->call_groups[i] * stride] += m->once[0][i];
    for (int i = 0; loss && i < loss->n_calls; i++)
        out[(loss_first + (size_t)loss->call_groups[i]) * stride] += m->once[1][i];
    for (size_t w = 0; optimizer_work(t->optimizer, (int)w, &work); w++)
        for (uint32_t i = 0; i < work.launches; i++) out[(first + w) * stride] += m->once[2][work.timed + i];
    for (size_t p = 0, i = 0; p < WHERRY_TRAIN_PARTS; p++)
        for (size_t n = 0; n < m->parts[p]; n++, i++) {
            out[(m->count + p) * stride] += out[i * stride];
            out[(m->count + WHERRY_TRAIN_PARTS) * stride] += out[i * stride];
        }
    return true;
}

/* Processes make as many steps as each other, whatever their clocks say. */
static bool warm(struct measurement *m, uint64_t start, struct error *e)
{
    double seconds;
    uint32_t n = 0;
    do {
        TRY(step(m, &seconds, e));
        n++;
    } while (divided(m) ? n < STEPS_TOGETHER : (double)(clock_ns() - start) * 1e-9 < m->desc.warm_seconds);
    return true;
}

static bool steps(struct measurement *m, struct error *e)
{
    const size_t repeats = m->desc.repeats, host = m->count + WHERRY_TRAIN_PARTS + 1;
    wherry_exchange_times before = {.struct_size = sizeof before};
    uint64_t start = clock_ns();
    TRY(step(m, &m->firsts[host], e));
    TRY(step_timed(m, m->firsts, 1, e));
    TRY(warm(m, start, e));
    wherry_trainer_exchange_times(m->trainer, &before);
    for (size_t r = 0; r < repeats; r++) TRY(step(m, &m->samples[host * repeats + r], e));
    wherry_trainer_exchange_times(m->trainer, &m->out->exchange);
    exchange_since(&before, &m->out->exchange);
    for (size_t r = 0; r < repeats && timer_ok(m); r++) TRY(step_timed(m, m->samples + r, repeats, e));
    return true;
}

/* ---- results ---- */

static wherry_time summary(const struct measurement *m, size_t row)
{
    return time_summary(m->samples + row * m->desc.repeats, m->desc.repeats, m->firsts[row]);
}

static void describe_optimizer(const struct measurement *m, int index, wherry_group_measure *out)
{
    const struct wherry_session *s = m->trainer->session;
    const struct optimizer *o = m->trainer->optimizer;
    struct optimizer_work work;
    struct kernel_usage usage;
    memset(out, 0, sizeof *out);
    if (!optimizer_work(o, index, &work)) return;
    optimizer_cost(&work, &out->cost);
    out->launches = work.launches;
    out->traffic = (wherry_traffic){.unique_read = work.read,
                                    .unique_written = work.written,
                                    .model_read = work.read,
                                    .model_written = work.written,
                                    .requested_read = work.read,
                                    .requested_written = work.written,
                                    .footprint = work.read > work.written ? work.read : work.written};
    s->device->backend->program_usage(s->device->handle, work.program, (int)work.first, &usage);
    snprintf(out->kernels[0].name, sizeof out->kernels[0].name, "%s", work.kernel);
    out->kernels[0].registers = usage.registers;
    out->kernels[0].spilled_bytes = usage.spilled;
    out->kernels[0].shared_bytes = usage.shared;
    for (uint32_t k = 1; k < WHERRY_GROUP_KERNELS && k < work.launches; k++) out->kernels[k] = out->kernels[0];
}

static void describe(const struct measurement *m, size_t index, wherry_group_measure *out)
{
    const size_t loss = parts_sum(m->parts, WHERRY_TRAIN_LOSS), optimizer = parts_sum(m->parts, WHERRY_TRAIN_OPTIMIZER);
    const struct wherry_session *s = index < loss ? m->trainer->session : loss_of(m->trainer);
    if (index >= optimizer)
        describe_optimizer(m, (int)(index - optimizer), out);
    else
        group_describe(s, &s->shape, (int)(index < loss ? index : index - loss), m->desc.cache_bytes, out);
    if (index >= loss && index < optimizer) name_after("loss", &out->cost);
    out->timer = m->out->timer.status;
    if (timer_ok(m)) group_time_set(out, summary(m, index));
}

static bool measure(struct measurement *m, wherry_group_measure *groups, size_t room, struct error *e)
{
    const struct wherry_trainer *t = m->trainer;
    const struct host *host = &t->context->host;
    const struct wherry_session *s = t->session, *loss = loss_of(t);
    const size_t rows = m->count + WHERRY_TRAIN_PARTS + 2;
    TRY(timer_of_device(t->device, &m->out->timer));
    if (!(m->samples = host_alloc(host, rows * m->desc.repeats, sizeof *m->samples, e)) ||
        !(m->firsts = host_alloc(host, rows, sizeof *m->firsts, e)) ||
        !(m->once[0] = host_alloc(host, (size_t)s->n_calls, sizeof *m->once[0], e)) ||
        !(m->once[1] = host_alloc(host, loss ? (size_t)loss->n_calls : 1, sizeof *m->once[1], e)) ||
        !(m->once[2] = host_alloc(host, optimizer_timed(t->optimizer), sizeof *m->once[2], e)))
        return false;
    TRY(steps(m, e));
    for (size_t i = 0; i < m->count && i < room; i++) describe(m, i, &groups[i]);
    m->out->host = summary(m, rows - 1);
    for (size_t p = 0; p < WHERRY_TRAIN_PARTS && timer_ok(m); p++) m->out->parts[p] = summary(m, m->count + p);
    if (timer_ok(m)) m->out->kernels = summary(m, rows - 2);
    memcpy(m->out->groups, m->parts, sizeof m->parts);
    return true;
}

static wherry_status check(struct wherry_context *context, const wherry_measure_desc *desc,
                           const wherry_train_measure *out)
{
    if (!desc || !out || desc->struct_size != sizeof *desc || out->struct_size != sizeof *out)
        return context_invalid(context,
                               "wherry_trainer_measure: desc or out is NULL, or their struct_size is not %zu and %zu",
                               sizeof *desc, sizeof *out);
    if (desc->phase != WHERRY_PHASE_ALL || desc->cold || desc->alone)
        return context_invalid(context, "wherry_trainer_measure: whole steps are measured, with warm caches");
    if (!(desc->warm_seconds >= 0) || !isfinite(desc->warm_seconds))
        return context_invalid(context, "wherry_trainer_measure: %s seconds to warm up",
                               NUMBER("%g", desc->warm_seconds));
    return WHERRY_STATUS_OK;
}

wherry_status wherry_trainer_measure(wherry_trainer *trainer, const wherry_batch *batch, const wherry_targets *targets,
                                     const wherry_measure_desc *desc, wherry_group_measure *groups, size_t *count,
                                     wherry_train_measure *out)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = trainer->context;
    wherry_status status = check(context, desc, out);
    if (status) return status;
    if (!count) return context_invalid(context, "wherry_trainer_measure: count is NULL");
    struct measurement m = {.trainer = trainer, .desc = *desc, .out = out};
    struct error *e = context_error(context);
    *out = (wherry_train_measure){.struct_size = sizeof *out, .exchange.struct_size = sizeof out->exchange};
    if (!m.desc.repeats) m.desc.repeats = usual_repeats;
    if (!(m.desc.warm_seconds > 0)) m.desc.warm_seconds = usual_warm_seconds;
    if (!m.desc.cache_bytes) m.desc.cache_bytes = usual_cache_bytes;
    if (!divided(&m)) parts_count(trainer, m.parts);
    m.count = parts_sum(m.parts, WHERRY_TRAIN_PARTS);
    bool ok = step_shards_make(trainer, batch, targets, &m.shards, e) && measure(&m, groups, groups ? *count : 0, e);
    if (ok) *count = m.count;
    step_shards_free(&context->host, &m.shards);
    void *memory[] = {m.samples, m.firsts, m.once[0], m.once[1], m.once[2]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(&context->host, memory[i]);
    return context_status(context, ok);
}
