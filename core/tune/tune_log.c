/* The log of all measurements of a device: each is on disk before the next one begins. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/platform.h"
#include "tune/tune.h"

static const char *const verdicts[] = {"right", "wrong", "failed"};

/* "measured", stage, work, sizes, verdict, both times with their intervals, rounds, NMSE, text. */
static void entry_fields(const struct measured *m, char *fields, size_t size)
{
    snprintf(fields, size, "measured\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%u\t%s\t%s",
             m->confirmed ? "confirmed" : "tried", m->work, m->use, verdicts[m->verdict],
             NUMBER("%.9e", m->usual.median), NUMBER("%.9e", m->usual.ci_low), NUMBER("%.9e", m->usual.ci_high),
             NUMBER("%.9e", m->other.median), NUMBER("%.9e", m->other.ci_low), NUMBER("%.9e", m->other.ci_high),
             (unsigned)m->other.n, NUMBER("%.9e", m->nmse), m->text);
}

static wherry_time read_time(char *const fields[3], uint32_t n)
{
    return (wherry_time){.median = number_read(fields[0], NULL),
                         .ci_low = number_read(fields[1], NULL),
                         .ci_high = number_read(fields[2], NULL),
                         .n = n};
}

static uint64_t entry_hash(const char *work, const char *use, bool confirmed)
{
    return hash_bytes(hash_text(hash_text(HASH_START, work), use), &confirmed, sizeof confirmed);
}

static struct measured *entry_find(const struct tune_log *log, const char *work, const char *use, bool confirmed)
{
    uint64_t hash = entry_hash(work, use, confirmed);
    for (size_t at = 0, i; index_next(&log->by_work, hash, &at, &i);) {
        struct measured *m = &log->entries[i];
        if (m->confirmed == confirmed && !strcmp(m->use, use) && !strcmp(m->work, work)) return m;
    }
    return NULL;
}

/* Of several with one key the last counts. */
static bool keep(struct tune_log *log, const struct measured *entry, struct error *e)
{
    struct measured *same = entry_find(log, entry->work, entry->use, entry->confirmed);
    if (same) return *same = *entry, true;
    struct measured *grown = host_grow_one(log->host, log->entries, log->count, &log->room, sizeof *grown, e);
    if (!grown) return false;
    log->entries = grown;
    log->entries[log->count] = *entry;
    return index_add(log->host, &log->by_work, entry_hash(entry->work, entry->use, entry->confirmed), log->count++, e);
}

/* "step", session, unit, seconds of the reference, time with its interval, rounds, "wrong" or "right", text. */
static void step_fields(const struct stepped *m, char *fields, size_t size)
{
    snprintf(fields, size, "step\t%016" PRIx64 "\t%016" PRIx64 "\t%s\t%s\t%s\t%s\t%u\t%s\t%s", m->session, m->unit,
             NUMBER("%.9e", m->reference), NUMBER("%.9e", m->time.median), NUMBER("%.9e", m->time.ci_low),
             NUMBER("%.9e", m->time.ci_high), (unsigned)m->time.n, m->wrong ? "wrong" : "right", m->text);
}

static uint64_t step_hash(uint64_t session, uint64_t unit)
{
    return hash_bytes(hash_bytes(HASH_START, &session, sizeof session), &unit, sizeof unit);
}

static struct stepped *step_find(const struct tune_log *log, uint64_t session, uint64_t unit)
{
    for (size_t at = 0, i; index_next(&log->by_step, step_hash(session, unit), &at, &i);)
        if (log->steps[i].session == session && log->steps[i].unit == unit) return &log->steps[i];
    return NULL;
}

static bool keep_step(struct tune_log *log, const struct stepped *step, struct error *e)
{
    struct stepped *same = step_find(log, step->session, step->unit);
    if (same) return *same = *step, true;
    struct stepped *grown = host_grow_one(log->host, log->steps, log->n_steps, &log->steps_room, sizeof *grown, e);
    if (!grown) return false;
    log->steps = grown;
    log->steps[log->n_steps] = *step;
    return index_add(log->host, &log->by_step, step_hash(step->session, step->unit), log->n_steps++, e);
}

static bool take_step(char *const fields[], int n, struct tune_log *log, struct error *e)
{
    enum { FIELDS = 10, SESSION = 1, UNIT = 2, REFERENCE = 3, TIME = 4, ROUNDS = 7, VERDICT = 8, TEXT = 9 };
    if (n != FIELDS) return true;
    struct stepped m = {.session = strtoull(fields[SESSION], NULL, 16),
                        .unit = strtoull(fields[UNIT], NULL, 16),
                        .reference = number_read(fields[REFERENCE], NULL),
                        .wrong = !strcmp(fields[VERDICT], "wrong")};
    m.time = read_time(fields + TIME, (uint32_t)strtoul(fields[ROUNDS], NULL, 10));
    snprintf(m.text, sizeof m.text, "%s", fields[TEXT]);
    return keep_step(log, &m, e);
}

static bool take_line(char *const fields[], int n, void *user, struct error *e)
{
    enum { FIELDS = 14, VERDICT = 4, USUAL = 5, OTHER = 8, ROUNDS = 11, NMSE = 12, TEXT = 13 };
    if (n && !strcmp(fields[0], "step")) return take_step(fields, n, user, e);
    if (n != FIELDS || strcmp(fields[0], "measured")) return true; /* another kind of measurement */
    struct measured m = {.confirmed = !strcmp(fields[1], "confirmed"), .nmse = number_read(fields[NMSE], NULL)};
    uint32_t rounds = (uint32_t)strtoul(fields[ROUNDS], NULL, 10);
    snprintf(m.work, sizeof m.work, "%s", fields[2]);
    snprintf(m.use, sizeof m.use, "%s", fields[3]);
    for (int v = WHERRY_TUNE_RIGHT; v <= WHERRY_TUNE_FAILED; v++)
        if (!strcmp(fields[VERDICT], verdicts[v])) m.verdict = (wherry_tune_verdict)v;
    m.usual = read_time(fields + USUAL, rounds);
    m.other = read_time(fields + OTHER, rounds);
    snprintf(m.text, sizeof m.text, "%s", fields[TEXT]);
    return keep(user, &m, e);
}

/* The file as it is to be: the header and all that is known. */
static bool rewrite(const struct tune_log *log, struct error *e)
{
    char fields[TUNING_LINE - 32];
    struct tuning_lines lines;
    bool ok = tuning_lines_begin(&lines, log->host, &log->key, e);
    if (ok) tuning_lines_header(&lines);
    for (size_t i = 0; ok && i < log->count; i++) {
        entry_fields(&log->entries[i], fields, sizeof fields);
        ok = tuning_lines_add(&lines, fields, e);
    }
    for (size_t i = 0; ok && i < log->n_steps; i++) {
        step_fields(&log->steps[i], fields, sizeof fields);
        ok = tuning_lines_add(&lines, fields, e);
    }
    ok = ok && cache_write(log->path, lines.text, lines.used, e);
    tuning_lines_free(&lines);
    return ok;
}

bool tune_log_open(struct tune_log *log, const struct host *host, const struct tuning_key *key, bool fresh,
                   struct error *e)
{
    struct tuning_file file = {.there = false};
    *log = (struct tune_log){.host = host, .key = *key};
    tuning_path(host->cache_dir, "tuning", key, log->path);
    if (!fresh) TRY(tuning_read(host, log->path, false, key, take_line, log, &file, e));
    if (file.refused[0]) host_log(host, WHERRY_LOG_INFO, "measurements in %s begin anew: %s", log->path, file.refused);
    return (file.there && !file.damaged) || rewrite(log, e);
}

bool tune_log_add(struct tune_log *log, const struct measured *entry, struct error *e)
{
    char fields[TUNING_LINE - 32], line[TUNING_LINE];
    entry_fields(entry, fields, sizeof fields);
    size_t size = tuning_line(&log->key, fields, line);
    return cache_append(log->path, line, size, e) && keep(log, entry, e);
}

const struct measured *tune_log_find(const struct tune_log *log, const char *work, const char *use, bool confirmed)
{
    return entry_find(log, work, use, confirmed);
}

bool tune_log_add_steps(struct tune_log *log, const struct stepped *steps, size_t n, struct error *e)
{
    char fields[TUNING_LINE - 32];
    struct tuning_lines lines;
    bool ok = tuning_lines_begin(&lines, log->host, &log->key, e);
    for (size_t i = 0; ok && i < n; i++) {
        step_fields(&steps[i], fields, sizeof fields);
        ok = tuning_lines_add(&lines, fields, e);
    }
    ok = ok && cache_append(log->path, lines.text, lines.used, e);
    tuning_lines_free(&lines);
    for (size_t i = 0; ok && i < n; i++) ok = keep_step(log, &steps[i], e);
    return ok;
}

const struct stepped *tune_log_step(const struct tune_log *log, uint64_t session, uint64_t unit)
{
    return step_find(log, session, unit);
}

void tune_log_close(struct tune_log *log)
{
    host_free(log->host, log->entries);
    host_free(log->host, log->steps);
    index_free(log->host, &log->by_work);
    index_free(log->host, &log->by_step);
    *log = (struct tune_log){.host = log->host};
}
