/* The log of all measurements of a device: each is on disk before the next one begins. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "runtime/tune.h"

static const char *const verdicts[] = {"right", "wrong", "failed"};

/* "measured", stage, work, sizes, verdict, both times with their intervals, rounds, NMSE, text. */
static void entry_fields(const struct measured *m, char *fields, size_t size)
{
    snprintf(fields, size, "measured\t%s\t%s\t%s\t%s\t%.9e\t%.9e\t%.9e\t%.9e\t%.9e\t%.9e\t%u\t%.9e\t%s",
             m->confirmed ? "confirmed" : "tried", m->work, m->use, verdicts[m->verdict], m->usual.median,
             m->usual.ci_low, m->usual.ci_high, m->other.median, m->other.ci_low, m->other.ci_high,
             (unsigned)m->other.n, m->nmse, m->text);
}

static wherry_time read_time(char *const fields[3], uint32_t n)
{
    return (wherry_time){.median = strtod(fields[0], NULL),
                         .ci_low = strtod(fields[1], NULL),
                         .ci_high = strtod(fields[2], NULL),
                         .n = n};
}

static bool keep(struct tune_log *log, const struct measured *entry, struct error *e)
{
    struct measured *grown = host_grow(log->host, log->entries, log->count, log->count + 1, sizeof *grown, e);
    if (!grown) return false;
    log->entries = grown;
    log->entries[log->count++] = *entry;
    return true;
}

/* "step", session, unit, seconds of the reference, time with its interval, rounds, "wrong" or "right", text. */
static void step_fields(const struct stepped *m, char *fields, size_t size)
{
    snprintf(fields, size, "step\t%016" PRIx64 "\t%016" PRIx64 "\t%.9e\t%.9e\t%.9e\t%.9e\t%u\t%s\t%s", m->session,
             m->unit, m->reference, m->time.median, m->time.ci_low, m->time.ci_high, (unsigned)m->time.n,
             m->wrong ? "wrong" : "right", m->text);
}

static bool keep_step(struct tune_log *log, const struct stepped *step, struct error *e)
{
    struct stepped *grown = host_grow(log->host, log->steps, log->n_steps, log->n_steps + 1, sizeof *grown, e);
    if (!grown) return false;
    log->steps = grown;
    log->steps[log->n_steps++] = *step;
    return true;
}

static bool take_step(char *const fields[], int n, struct tune_log *log, struct error *e)
{
    enum { FIELDS = 10, SESSION = 1, UNIT = 2, REFERENCE = 3, TIME = 4, ROUNDS = 7, VERDICT = 8, TEXT = 9 };
    if (n != FIELDS) return true;
    struct stepped m = {.session = strtoull(fields[SESSION], NULL, 16),
                        .unit = strtoull(fields[UNIT], NULL, 16),
                        .reference = strtod(fields[REFERENCE], NULL),
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
    struct measured m = {.confirmed = !strcmp(fields[1], "confirmed"), .nmse = strtod(fields[NMSE], NULL)};
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
    char *text = host_alloc(log->host, (log->count + log->n_steps + 1) * TUNING_LINE, 1, e);
    if (!text) return false;
    size_t at = tuning_header(&log->key, text);
    for (size_t i = 0; i < log->count; i++) {
        entry_fields(&log->entries[i], fields, sizeof fields);
        at += tuning_line(&log->key, fields, text + at);
    }
    for (size_t i = 0; i < log->n_steps; i++) {
        step_fields(&log->steps[i], fields, sizeof fields);
        at += tuning_line(&log->key, fields, text + at);
    }
    bool ok = cache_write(log->path, text, at, e);
    host_free(log->host, text);
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
    for (size_t i = log->count; i-- > 0;) { /* the last one counts */
        const struct measured *m = &log->entries[i];
        if (m->confirmed == confirmed && !strcmp(m->use, use) && !strcmp(m->work, work)) return m;
    }
    return NULL;
}

bool tune_log_add_steps(struct tune_log *log, const struct stepped *steps, size_t n, struct error *e)
{
    char fields[TUNING_LINE - 32];
    char *text = host_alloc(log->host, n * TUNING_LINE, 1, e);
    size_t at = 0;
    if (!text) return false;
    for (size_t i = 0; i < n; i++) {
        step_fields(&steps[i], fields, sizeof fields);
        at += tuning_line(&log->key, fields, text + at);
    }
    bool ok = cache_append(log->path, text, at, e);
    host_free(log->host, text);
    for (size_t i = 0; ok && i < n; i++) ok = keep_step(log, &steps[i], e);
    return ok;
}

const struct stepped *tune_log_step(const struct tune_log *log, uint64_t session, uint64_t unit)
{
    for (size_t i = log->n_steps; i-- > 0;) /* the last one counts */
        if (log->steps[i].session == session && log->steps[i].unit == unit) return &log->steps[i];
    return NULL;
}

void tune_log_close(struct tune_log *log)
{
    host_free(log->host, log->entries);
    host_free(log->host, log->steps);
    *log = (struct tune_log){.host = log->host};
}
