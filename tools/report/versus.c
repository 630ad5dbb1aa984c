/* What one device is to the host's cores: tokens a second and the rate of a copy, of records with the same workload and
 * phases, whatever type their values have. Of a record's plans the fastest counts. */
#include "report/versus.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/format.h"
#include "report/keys.h"
#include "report/titles.h"
#include "session.h"

/* A device of a record. */
struct entry {
    const struct record *record;
    const struct record_device *device;
    const struct record_plan *plan; /* the fastest, NULL: none was measured */
    char *work;                     /* the workload and the phases that were measured, as one text */
};

static bool is_cpu(const struct record_device *device) { return strcmp(device->backend, "cpu") == 0; }

const struct record_plan *record_fastest_plan(const struct record *record, uint64_t dev)
{
    const struct record_plan *best = NULL;
    for (size_t n = 0; n < record->plan_count; n++) {
        const struct record_plan *plan = &record->plans[n];
        if (plan->dev != dev || !(plan->host.median > 0)) continue;
        if (!best || plan->host.median < best->host.median) best = plan;
    }
    return best;
}

char *record_work_text(const struct record *record, const struct record_plan *plan)
{
    json_t *work = need(json_deep_copy(json_object_get(record->json, "workload")));
    json_object_del(work, "dtype");
    for (int n = 0; plan && plan->has_steps && n < STEP_PARTS; n++)
        json_object_set_new(work, step_names[n], json_boolean(plan->steps[n].measured));
    char *text = need(json_dumps(work, JSON_COMPACT | JSON_SORT_KEYS));
    json_decref(work);
    return text;
}

static double tokens_rate(const struct entry *e)
{
    return e->plan ? e->record->workload.tokens / e->plan->host.median : (double)NAN;
}

static double copy_rate(const struct entry *e)
{
    double rate = record_ceiling(e->record, e->device->dev, "dram.copy");
    return rate > 0 ? rate : (double)NAN;
}

/* "flash, f16" */
static void plan_words(const struct entry *e, char *text, size_t size)
{
    snprintf(text, size, "%.*s, %.*s", utf8_cut(e->plan->name, 40), e->plan->name, utf8_cut(e->plan->dtype, 8),
             e->plan->dtype);
}

static void device_words(const struct entry *e, char *text, size_t size)
{
    snprintf(text, size, "%.*s (%.*s)", utf8_cut(e->device->id, 40), e->device->id, utf8_cut(e->device->name, 60),
             e->device->name);
}

/* "" where neither can be compared. */
static void write_line(const struct entry *e, const struct entry *cpu, char *line, size_t size)
{
    char who[128], whom[128], work[160], own[64], other[64], a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE],
        tokens[320] = "", copies[160] = "";
    double faster = tokens_rate(e) / tokens_rate(cpu), copied = copy_rate(e) / copy_rate(cpu);
    *line = 0;
    if (!isfinite(faster) && !isfinite(copied)) return;
    device_words(e, who, sizeof who);
    device_words(cpu, whom, sizeof whom);
    workload_title(e->record, work, sizeof work);
    if (isfinite(faster)) {
        plan_words(e, own, sizeof own);
        plan_words(cpu, other, sizeof other);
        snprintf(tokens, sizeof tokens, " %.0f tokens/s (%s) against %.0f (%s)%s", tokens_rate(e), own,
                 tokens_rate(cpu), other, isfinite(copied) ? ";" : "");
    }
    if (isfinite(copied))
        snprintf(copies, sizeof copies, " a copy %s against %s, %s times", format_unit(copy_rate(e), "B/s", a),
                 format_unit(copy_rate(cpu), "B/s", b), format_short(copied, c));
    snprintf(line, size, "%s is %s times as fast as %s: %s,%s%s\n", who,
             format_short(isfinite(faster) ? faster : copied, a), whom, work, tokens, copies);
}

static struct key work_key(const void *entry) { return (struct key){.texts = {((const struct entry *)entry)->work}}; }

/* The first of the fastest with this work; NULL: none. */
static const struct entry *cpu_of(const struct entry *cpus, const struct keys *keys, const struct entry *like)
{
    const struct key *first = keys_find(keys, work_key(like));
    const struct entry *best = NULL;
    size_t count = first ? keys_like(keys, work_key(like)) : 0;
    for (size_t n = 0; n < count && n < 64; n++) {
        const struct entry *e = &cpus[first[n].item];
        if (!best || tokens_rate(e) > tokens_rate(best)) best = e;
    }
    return best;
}

static size_t devices_count(const struct report *report)
{
    size_t count = 0;
    for (size_t r = 0; r < report->count; r++) count += report->records[r].device_count;
    return count;
}

/* The devices cpu first; *cpus: how many. */
static size_t entries_fill(const struct report *report, struct entry *list, size_t *cpus)
{
    size_t count = 0;
    for (int others = 0; others < 2; others++) {
        for (size_t r = 0; r < report->count; r++)
            for (size_t d = 0; d < report->records[r].device_count; d++) {
                struct entry e = {.record = &report->records[r], .device = &report->records[r].devices[d]};
                if (is_cpu(e.device) == (others > 0) || !strcmp(e.device->backend, "reference")) continue;
                e.plan = record_fastest_plan(e.record, e.device->dev);
                e.work = record_work_text(e.record, e.plan);
                list[count++] = e;
            }
        if (!others) *cpus = count;
    }
    return count;
}

char *versus_lines(const struct report *report)
{
    enum { LINE = 1024 };
    struct entry *list = need(calloc(devices_count(report) + 1, sizeof *list));
    size_t cpus, count = entries_fill(report, list, &cpus), used = 0;
    struct keys keys = keys_of(list, cpus, sizeof *list, work_key);
    char *lines = need(calloc(1, 1));
    for (size_t n = cpus; n < count; n++) {
        const struct entry *cpu = cpu_of(list, &keys, &list[n]);
        if (!cpu) continue;
        lines = need(realloc(lines, used + LINE));
        write_line(&list[n], cpu, lines + used, LINE);
        used += strlen(lines + used);
    }
    keys_free(&keys);
    for (size_t n = 0; n < count; n++) free(list[n].work);
    free(list);
    return lines;
}
