/* A step that is divided into shards, of which this process may have a part. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train.h"
#include "train/trainer.h"

struct task {
    const wherry_shard *shards;
    size_t n_shards, first, end; /* this process has those from `first` to, without, `end` */
    size_t rows;                 /* of all */
    const wherry_targets *targets;
};

/* ---- what is given ---- */

static bool fail_in_shard(size_t shard, struct error *e)
{
    char where[64];
    snprintf(where, sizeof where, "shard %zu", shard);
    return fail_in(e, where);
}

static bool shards_check(struct wherry_trainer *t, struct task *task, struct error *e)
{
    struct sharding *s = &t->sharding;
    if (!task->shards || (task->n_shards != s->most && task->n_shards != 1))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "%zu shards: this trainer was made for %zu (wherry_trainer_desc.shards)", task->n_shards, s->most);
    s->rows[0] = 0;
    for (size_t v = 0; v < task->n_shards; v++) {
        const wherry_shard *shard = &task->shards[v];
        size_t rows = 0;
        if (shard->struct_size != sizeof *shard)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_shard.struct_size is not %zu", sizeof *shard);
        if (shard->n_batches && !trainer_batches_check(t, shard->batches, shard->n_batches, &rows, e))
            return fail_in_shard(v, e);
        s->rows[v + 1] = s->rows[v] + rows;
    }
    task->rows = s->rows[task->n_shards];
    if (!task->rows) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "all shards are empty: give one batch at least");
    TRY(trainer_rows_check(t, task->rows, task->targets, e));
    for (size_t v = 0; v < task->n_shards; v++)
        if (!trainer_labels_check(t, task->shards[v].batches, task->shards[v].n_batches, s->rows[v], task->targets, e))
            return fail_in_shard(v, e);
    return true;
}

/* ---- rows of losses that know all of them ---- */

/* Between shard by shard, each column by column, and column by column of all. */
static void rows_turn(const struct wherry_trainer *t, const struct task *task, const float *from, bool to_columns,
                      float *to)
{
    const size_t *rows = t->sharding.rows, examples = task->rows / t->columns;
    for (size_t v = 0; v < task->n_shards; v++)
        for (uint32_t c = 0; c < t->columns; c++) {
            size_t n = (rows[v + 1] - rows[v]) / t->columns, first = rows[v] / t->columns;
            size_t by_shard = (rows[v] + c * n) * t->row_floats, by_column = (c * examples + first) * t->row_floats;
            memcpy(to + (to_columns ? by_column : by_shard), from + (to_columns ? by_shard : by_column),
                   n * t->row_floats * sizeof *to);
        }
}

/* ---- passes ---- */

static bool fail_in_batch(size_t shard, size_t batch, struct error *e)
{
    char where[64];
    snprintf(where, sizeof where, "shard %zu, batch %zu", shard, batch);
    return fail_in(e, where);
}

static bool forward(struct wherry_trainer *t, const struct task *task, size_t shard, size_t batch, float *rows,
                    size_t count, struct error *e)
{
    const wherry_step step = trainer_masks(t, shard, batch);
    return !wherry_forward(t->session, &task->shards[shard].batches[batch], NULL, &step, rows,
                           rows ? count * t->row_floats : 0) ||
           fail_in_batch(shard, batch, e);
}

/* `last`: nothing of this process' is added afterwards. */
static bool gradients_add(struct wherry_trainer *t, const float *gradient, size_t floats, double weight, bool last,
                          struct error *e)
{
    if (last && t->sharding.buckets) return shard_add_last(t, gradient, floats, weight, e);
    return session_gradient_give(t->session, gradient, floats, e) && session_backward_given(t->session, e) &&
           shard_add(t, weight, e);
}

/* Both passes of a batch whose loss is in the session's graph. */
static bool masked_add(struct wherry_trainer *t, const struct task *task, size_t shard, size_t batch, size_t first,
                       struct masked_counts counts, double share, bool last, struct error *e)
{
    const wherry_step step = trainer_masks(t, shard, batch);
    float gradient[MASKED_FLOATS];
    double loss;
    if (!masked_submit(t->session, &task->shards[shard].batches[batch], task->targets->labels + first, &step, e))
        return fail_in_batch(shard, batch, e);
    masked_gradient(counts, optimizer_scale(t->optimizer), gradient);
    TRY(gradients_add(t, gradient, t->row_floats, share, last, e));
    if (!masked_loss(t->session, counts, &loss, e)) return fail_in_batch(shard, batch, e);
    t->sharding.results[shard].loss += share * loss;
    return true;
}

/* Of rows on the host, and their gradients. */
static bool loss_of(struct wherry_trainer *t, const struct task *task, size_t first, size_t n, double *loss,
                    struct error *e)
{
    const struct loss_targets targets = trainer_targets(t, task->targets, first, n);
    return loss_run(t->loss, t->rows, n, &targets, (float)optimizer_scale(t->optimizer), loss, t->sharding.d_rows, e) &&
           trainer_loss_check(*loss, e);
}

static bool backward(struct wherry_trainer *t, size_t shard, const float *d_rows, size_t count, double weight,
                     bool last, struct error *e)
{
    size_t floats = count * t->row_floats;
    bool held = true;
    for (size_t i = 0; t->session->f16 && i < floats; i++)
        held &= fabsf(d_rows[i]) < storage_beyond(session_type(t->session));
    if (!held) t->sharding.results[shard].overflow = 1;
    return !held || gradients_add(t, d_rows, floats, weight, last, e);
}

/* ---- this process' shards, the last one first ---- */

/* The last of a shard's batches that counts. */
static size_t last_of(struct wherry_trainer *t, const struct task *task, size_t v)
{
    const wherry_shard *shard = &task->shards[v];
    size_t last = 0;
    for (size_t b = 0, first = t->sharding.rows[v], n; b < shard->n_batches; b++, first += n) {
        n = trainer_batch_rows(t, &shard->batches[b]);
        if (trainer_share(t, task->targets, first, n) > 0) last = b;
    }
    return last;
}

/* Rows' gradients do not depend on each other. `all` labels are in the step, and `next` of sequences. */
static bool shard_alone(struct wherry_trainer *t, const struct task *task, size_t v, double all, double next,
                        struct error *e)
{
    const wherry_shard *shard = &task->shards[v];
    struct shard_result *result = &t->sharding.results[v];
    const size_t end = v == task->first ? last_of(t, task, v) : shard->n_batches;
    for (size_t b = 0, first = t->sharding.rows[v], n; b < shard->n_batches && !result->overflow; b++, first += n) {
        n = trainer_batch_rows(t, &shard->batches[b]);
        double loss, share = trainer_share(t, task->targets, first, n) / all;
        if (!(share > 0)) continue;
        if (trainer_masked(t)) {
            TRY(masked_add(t, task, v, b, first, masked_counts(share * all, share, next), share, b == end, e));
            continue;
        }
        TRY(sharding_room(t, n, e) && forward(t, task, v, b, t->rows, n, e) && loss_of(t, task, first, n, &loss, e));
        TRY(backward(t, v, t->sharding.d_rows, n, share, b == end, e));
        result->loss += share * loss;
    }
    return true;
}

static bool shards_add(struct wherry_trainer *t, const struct task *task, struct error *e)
{
    struct sharding *s = &t->sharding;
    double all, next = 0;
    TRY(trainer_share_all(t, task->targets, task->rows, &all, e));
    for (size_t v = 0; v < task->n_shards; v++)
        next += masked_next(t, task->shards[v].batches, task->shards[v].n_batches);
    for (size_t v = 0; v < task->n_shards; v++)
        s->there[v] = trainer_share(t, task->targets, s->rows[v], s->rows[v + 1] - s->rows[v]) > 0;
    TRY(shards_begin(t, task->shards, task->n_shards, e));
    for (size_t v = task->end; v-- > task->first;) {
        shard_begin(t, v);
        TRY(shard_alone(t, task, v, all, next, e) && shard_end(t, e));
    }
    return true;
}

/* What the last batch's forward pass has left is there still where it is the first to go back. */
static bool shard_joined(struct wherry_trainer *t, const struct task *task, size_t v, const float *d_rows, bool left,
                         struct error *e)
{
    const wherry_shard *shard = &task->shards[v];
    size_t last = shard->n_batches - 1, n = trainer_batch_rows(t, &shard->batches[last]);
    const size_t *rows = t->sharding.rows;
    const bool ends = v == task->first;
    TRY(left || forward(t, task, v, last, NULL, n, e));
    TRY(backward(t, v, d_rows + (rows[v + 1] - n) * t->row_floats, n, 1, ends && !last, e));
    for (size_t b = 0, first = rows[v]; b < last && !t->sharding.results[v].overflow; b++, first += n) {
        n = trainer_batch_rows(t, &shard->batches[b]);
        TRY(forward(t, task, v, b, NULL, n, e) &&
            backward(t, v, d_rows + first * t->row_floats, n, 1, ends && b + 1 == last, e));
    }
    return true;
}

static bool shards_join(struct wherry_trainer *t, const struct task *task, double *loss, struct error *e)
{
    const struct sharding *s = &t->sharding;
    size_t last = task->end;
    TRY(sharding_room(t, task->rows, e));
    for (size_t v = 0; v < task->n_shards; v++) s->there[v] = task->shards[v].n_batches > 0;
    TRY(shards_begin(t, task->shards, task->n_shards, e));
    for (size_t v = task->first; v < task->end; v++)
        for (size_t b = 0, first = s->rows[v], n; b < task->shards[v].n_batches; b++, first += n, last = v) {
            n = trainer_batch_rows(t, &task->shards[v].batches[b]);
            TRY(forward(t, task, v, b, t->sharding.d_rows + first * t->row_floats, n, e));
        }
    TRY(shards_gather_rows(t, task->n_shards, t->sharding.d_rows, e));
    rows_turn(t, task, t->sharding.d_rows, true, t->rows);
    TRY(loss_of(t, task, 0, task->rows, loss, e));
    rows_turn(t, task, t->sharding.d_rows, false, t->rows);
    for (size_t v = task->end; v-- > task->first;) {
        shard_begin(t, v);
        if (s->there[v]) TRY(shard_joined(t, task, v, t->rows, v == last, e));
        TRY(shard_end(t, e));
    }
    return true;
}

/* ---- the step ---- */

static bool step(struct wherry_trainer *t, struct task *task, wherry_step_result *result, struct error *e)
{
    struct sharding *s = &t->sharding;
    const wherry_exchange *x = &s->exchange.of;
    double loss = 0;
    bool overflow = false;
    TRY(shards_check(t, task, e));
    task->first = tree_first(task->n_shards, x->process, x->processes);
    task->end = tree_first(task->n_shards, x->process + (size_t)1, x->processes);
    memset(s->results, 0, task->n_shards * sizeof *s->results);
    TRY(handover_clear(t->handover, e)); /* rows go by the host here */
    TRY(t->coupled ? shards_join(t, task, &loss, e) : shards_add(t, task, e));
    TRY(shards_sum(t, task->n_shards, e));
    for (size_t v = 0; v < task->n_shards; v++) {
        loss += s->results[v].loss;
        overflow |= s->results[v].overflow != 0;
    }
    if (overflow) optimizer_overflow(t->optimizer);
    return trainer_change_begin(t, e) && trainer_change_end(t, loss, result, e);
}

static bool step_any(struct wherry_trainer *t, const wherry_shard *shards, size_t n_shards,
                     const wherry_targets *targets, wherry_step_result *out, struct error *e)
{
    if (shards && n_shards == 1 && shards->struct_size == sizeof *shards && !t->sharding.buckets)
        return trainer_step_alone(t, shards->batches, shards->n_batches, targets, out, e);
    struct task task = {.shards = shards, .n_shards = n_shards, .targets = targets};
    if (step(t, &task, out, e)) return true;
    optimizer_clear(t->optimizer);
    return false;
}

wherry_status wherry_trainer_step_shards(wherry_trainer *trainer, const wherry_shard *shards, size_t n_shards,
                                         const wherry_targets *targets, wherry_step_result *out)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = trainer->context;
    if (!out || out->struct_size != sizeof *out)
        return context_invalid(context, "a trainer's step: out is NULL, or its struct_size is not %zu", sizeof *out);
    struct error *e = context_error(context);
    if (step_any(trainer, shards, n_shards, targets, out, e)) return WHERRY_STATUS_OK;
    char where[48];
    snprintf(where, sizeof where, "step number %" PRIu64 " from 0", trainer->step);
    return context_status(context, fail_in(e, where));
}

wherry_status wherry_trainer_step(wherry_trainer *trainer, const wherry_batch *batches, size_t n_batches,
                                  const wherry_targets *targets, wherry_step_result *out)
{
    const wherry_shard whole = {.struct_size = sizeof whole, .batches = batches, .n_batches = n_batches};
    return wherry_trainer_step_shards(trainer, &whole, 1, targets, out);
}
