/* The rows of tables: operations of a plan, those that repeat from layer to layer added up. */
#include "report/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "session.h"

static bool same_row(const json_t *a, const json_t *b)
{
    bool layered = strcmp(op_kind(a), field_text(a, "id")) != 0, other = strcmp(op_kind(b), field_text(b, "id")) != 0;
    return layered == other && strcmp(op_kind(a), op_kind(b)) == 0 &&
           strcmp(field_text(a, "kernel"), field_text(b, "kernel")) == 0 &&
           strcmp(field_text(a, "phase"), field_text(b, "phase")) == 0;
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

struct row *rows_merge(const json_t *record, const json_t *plan, const char *mode, const char *phase, size_t *count)
{
    size_t n, r;
    const json_t *op, *ops = json_object_get(record, "ops");
    struct row *rows = need(calloc(json_array_size(ops) + 1, sizeof *rows));
    *count = 0;
    json_array_foreach(ops, n, op)
    {
        if (!op_of_plan(op, plan) || (phase && strcmp(field_text(op, "phase"), phase) != 0)) continue;
        for (r = 0; r < *count && !same_row(rows[r].op, op); r++) continue;
        if (r == *count) rows[(*count)++].op = op;
        row_add(&rows[r], op, mode);
    }
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

bool plan_measured(const json_t *record, const json_t *plan, const char *mode)
{
    size_t n;
    const json_t *op;
    json_array_foreach(json_object_get(record, "ops"), n, op)
    {
        if (op_of_plan(op, plan) && field_get(op, mode)) return true;
    }
    return false;
}

size_t plan_phases(const json_t *record, const json_t *plan, const char **phases, size_t room)
{
    size_t n, count = 0, p;
    const json_t *op;
    json_array_foreach(json_object_get(record, "ops"), n, op)
    {
        const char *phase = field_text(op, "phase");
        if (!op_of_plan(op, plan)) continue;
        for (p = 0; p < count && strcmp(phases[p], phase) != 0; p++) continue;
        if (p == count && count < room) phases[count++] = phase;
    }
    return count;
}
