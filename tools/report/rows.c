/* The rows of tables: operations of a plan, those that repeat from layer to layer added up. */
#include "report/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "session.h"

/* What operations share that are one row. */
static struct key row_key(const json_t *op)
{
    bool layered = strcmp(op_kind(op), field_text(op, "id")) != 0;
    return (struct key){.texts = {op_kind(op), field_text(op, "kernel"), field_text(op, "phase")}, .number = layered};
}

static const char *one_regime(const char *so_far, const char *next)
{
    if (!so_far || strcmp(so_far, next) == 0) return next;
    return "mixed";
}

static void row_add(struct row *row, const json_t *op, const char *mode)
{
    const json_t *time = field_get(op, mode), *derived = field_get(field_get(op, "derived"), mode);
    double seconds = field_number(time, "median");
    row->count++;
    row->launches += (unsigned)field_bytes(op, "launches");
    row->over += field_true(derived, "over_peak");
    row->seconds += seconds;
    row->p05 += field_number(time, "p05");
    row->p95 += field_number(time, "p95");
    row->ci_low += time_bound(time, 0);
    row->ci_high += time_bound(time, 1);
    row->flops += field_number(op, "flops");
    row->share += field_number(op, "share");
    row->limit += field_number(derived, "limit_seconds");
    row->q_read += field_number(op, "bytes.q.r");
    row->q_written += field_number(op, "bytes.q.w");
    row->d_read += field_number(op, "bytes.d_model.r");
    row->d_written += field_number(op, "bytes.d_model.w");
    row->requested_read += field_number(op, "bytes.requested.r");
    row->requested_written += field_number(op, "bytes.requested.w");
    row->roof_memory += field_number(derived, "roof_memory") * seconds;
    row->roof_cache += field_number(derived, "roof_cache") * seconds;
    row->copy_share += field_number(derived, "copy_share") * seconds;
    row->mue += field_number(derived, "mue") * seconds;
    row->mue_theoretical += field_number(derived, "mue_theoretical") * seconds;
    row->regime = one_regime(row->regime, field_text(derived, "regime"));
}

struct row *rows_merge(const struct plan_ops *ops, const char *mode, const char *phase, size_t *count)
{
    struct row *rows = need(calloc(ops->count + 1, sizeof *rows));
    size_t *row_of = need(calloc(ops->count + 1, sizeof *row_of)); /* of an operation that is the first of its row */
    struct keys keys = keys_begin(ops->count);
    for (size_t n = 0; n < ops->count; n++) keys_add(&keys, row_key(ops->list[n]));
    keys_sort(&keys);
    *count = 0;
    for (size_t n = 0; n < ops->count; n++) {
        const json_t *op = ops->list[n];
        if (phase && strcmp(field_text(op, "phase"), phase) != 0) continue; /* as is its whole row */
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
        total.q_read += row->q_read;
        total.q_written += row->q_written;
        total.d_read += row->d_read;
        total.d_written += row->d_written;
        total.requested_read += row->requested_read;
        total.requested_written += row->requested_written;
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
    bool cache = row->regime && strcmp(row->regime, "cache") == 0;
    return (cache ? row->roof_cache : row->roof_memory) / row->seconds;
}

double row_bandwidth(const struct row *row) { return (row->d_read + row->d_written) / row->seconds; }

double row_q_over_d(const struct row *row) { return (row->q_read + row->q_written) / (row->d_read + row->d_written); }

char row_class(const struct row *row)
{
    const char *name = field_text(row->op, "class");
    for (size_t n = 0; n < 3; n++)
        if (strcmp(class_names[n], name) == 0) return "TSE"[n];
    return '?';
}

bool plan_measured(const struct plan_ops *ops, const char *mode)
{
    for (size_t n = 0; n < ops->count; n++)
        if (field_get(ops->list[n], mode)) return true;
    return false;
}

size_t plan_phases(const struct plan_ops *ops, const char **phases, size_t room)
{
    size_t count = 0, p;
    for (size_t n = 0; n < ops->count; n++) {
        const char *phase = field_text(ops->list[n], "phase");
        for (p = 0; p < count && strcmp(phases[p], phase) != 0; p++) continue;
        if (p == count && count < room) phases[count++] = phase;
    }
    return count;
}
