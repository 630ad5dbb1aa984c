/* The rows of tables: operations of a plan, those that repeat from layer to layer added up. */
#include "report/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/keys.h"
#include "session.h"

/* What operations share that are one row. */
static struct key row_key(const struct record_op *op)
{
    const char *kind = op_kind(op);
    return (struct key){.texts = {kind, op->kernel, op->phase}, .number = kind != op->id};
}

static const char *one_regime(const char *so_far, const char *next)
{
    if (!so_far || strcmp(so_far, next) == 0) return next;
    return "mixed";
}

static void add_bytes(struct record_bytes *sum, struct record_bytes bytes)
{
    sum->read += bytes.read;
    sum->written += bytes.written;
}

static void row_add(struct row *row, const struct record_op *op, enum mode mode)
{
    const wherry_time *time = &op->modes[mode].time;
    const wherry_derived *derived = &op->modes[mode].derived;
    row->count++;
    row->launches += (unsigned)op->launches;
    row->over += derived->over_peak;
    row->seconds += time->median;
    row->p05 += time->p05;
    row->p95 += time->p95;
    row->ci_low += time->ci_low;
    row->ci_high += time->ci_high;
    row->flops += op->flops;
    row->share += op->share;
    row->limit += derived->limit_seconds;
    add_bytes(&row->q, op->q);
    add_bytes(&row->d_model, op->d_model);
    add_bytes(&row->requested, op->requested);
    row->roof_memory += derived->roof_memory * time->median;
    row->roof_cache += derived->roof_cache * time->median;
    row->copy_share += derived->copy_share * time->median;
    row->mue += derived->mue * time->median;
    row->mue_theoretical += derived->mue_theoretical * time->median;
    row->regime = one_regime(row->regime, op->modes[mode].regime);
}

struct row *rows_merge(const struct record_plan *plan, enum mode mode, const char *phase, size_t *count)
{
    struct row *rows = need(calloc(plan->op_count + 1, sizeof *rows));
    size_t *row_of =
        need(calloc(plan->op_count + 1, sizeof *row_of)); /* of an operation that is the first of its row */
    struct keys keys = keys_begin(plan->op_count);
    for (size_t n = 0; n < plan->op_count; n++) keys_add(&keys, row_key(plan->ops[n]));
    keys_sort(&keys);
    *count = 0;
    for (size_t n = 0; n < plan->op_count; n++) {
        const struct record_op *op = plan->ops[n];
        if (phase && strcmp(op->phase, phase) != 0) continue; /* as is its whole row */
        size_t first = keys_find(&keys, row_key(op))->item;
        if (first == n) {
            row_of[n] = (*count)++;
            rows[row_of[n]].op = op;
        }
        row_add(&rows[row_of[first]], op, mode);
    }
    keys_free(&keys);
    free(row_of);
    return rows;
}

struct row rows_total(const struct row *rows, size_t count)
{
    struct row total = {.op = NULL};
    for (size_t n = 0; n < count; n++) {
        const struct row *row = &rows[n];
        total.count += row->count;
        total.launches += row->launches;
        total.over += row->over;
        total.seconds += row->seconds;
        total.p05 += row->p05;
        total.p95 += row->p95;
        total.ci_low += row->ci_low;
        total.ci_high += row->ci_high;
        total.flops += row->flops;
        total.share += row->share;
        total.limit += row->limit;
        add_bytes(&total.q, row->q);
        add_bytes(&total.d_model, row->d_model);
        add_bytes(&total.requested, row->requested);
        total.roof_memory += row->roof_memory;
        total.roof_cache += row->roof_cache;
        total.copy_share += row->copy_share;
        total.mue += row->mue;
        total.mue_theoretical += row->mue_theoretical;
        total.regime = "";
    }
    return total;
}

void row_name(const struct row *row, char *text, size_t size)
{
    if (row->count > 1)
        snprintf(text, size, "%ux %s", row->count, op_kind(row->op));
    else
        snprintf(text, size, "%s", op_kind(row->op));
}

double row_roof(const struct row *row)
{
    bool cache = row->regime && strcmp(row->regime, wherry_regime_name(WHERRY_REGIME_CACHE)) == 0;
    return (cache ? row->roof_cache : row->roof_memory) / row->seconds;
}

double row_bandwidth(const struct row *row) { return bytes_sum(row->d_model) / row->seconds; }

double row_q_over_d(const struct row *row) { return bytes_sum(row->q) / bytes_sum(row->d_model); }

char row_class(const struct row *row) { return class_letter((wherry_class)row->op->class_); }

bool plan_measured(const struct record_plan *plan, enum mode mode)
{
    for (size_t n = 0; n < plan->op_count; n++)
        if (time_known(&plan->ops[n]->modes[mode].time)) return true;
    return false;
}

const char not_modelled[] = "nobody has counted what these kernels move: D is not known, Q and flop are";

bool plan_modelled(const struct record_plan *plan)
{
    for (size_t n = 0; n < plan->op_count; n++)
        if (isnan(bytes_sum(plan->ops[n]->d_model))) return false;
    return true;
}

size_t plan_phases(const struct record_plan *plan, const char **phases, size_t room)
{
    size_t count = 0, p;
    for (size_t n = 0; n < plan->op_count; n++) {
        const char *phase = plan->ops[n]->phase;
        for (p = 0; p < count && strcmp(phases[p], phase) != 0; p++) continue;
        if (p == count && count < room) phases[count++] = phase;
    }
    return count;
}
