/* The log of all measurements of a device: each is on disk before the next one begins. */
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

static bool take_line(char *const fields[], int n, void *user, struct error *e)
{
    enum { FIELDS = 14, VERDICT = 4, USUAL = 5, OTHER = 8, ROUNDS = 11, NMSE = 12, TEXT = 13 };
    if (n != FIELDS || strcmp(fields[0], "measured")) return true; /* another kind of measurement */
    struct measured m = {.confirmed = !strcmp(fields[1], "confirmed"), .nmse = strtod(fields[NMSE], NULL)};
    uint32_t rounds = (uint32_t)strtoul(fields[ROUNDS], NULL, 10);
    snprintf(m.work, sizeof m.work, "%s", fields[2]);
    snprintf(m.use, sizeof m.use, "%s", fields[3]);
    for (int v = VERDICT_RIGHT; v <= VERDICT_FAILED; v++)
        if (!strcmp(fields[VERDICT], verdicts[v])) m.verdict = (enum verdict)v;
    m.usual = read_time(fields + USUAL, rounds);
    m.other = read_time(fields + OTHER, rounds);
    snprintf(m.text, sizeof m.text, "%s", fields[TEXT]);
    return keep(user, &m, e);
}

/* The file as it is to be: the header and all that is known. */
static bool rewrite(const struct tune_log *log, struct error *e)
{
    char fields[TUNING_LINE - 32];
    char *text = host_alloc(log->host, (log->count + 1) * TUNING_LINE, 1, e);
    if (!text) return false;
    size_t at = tuning_header(&log->key, text);
    for (size_t i = 0; i < log->count; i++) {
        entry_fields(&log->entries[i], fields, sizeof fields);
        at += tuning_line(&log->key, fields, text + at);
    }
    bool ok = file_replace(log->path, text, at, e);
    host_free(log->host, text);
    return ok;
}

bool tune_log_open(struct tune_log *log, const struct host *host, const struct tuning_key *key, bool fresh,
                   struct error *e)
{
    struct tuning_file file = {.there = false};
    *log = (struct tune_log){.host = host, .key = *key};
    tuning_path(host->cache_dir, "tuning", key, log->path);
    if (!fresh) TRY(tuning_read(host, log->path, key, take_line, log, &file, e));
    if (file.refused[0]) host_log(host, WHERRY_LOG_INFO, "measurements in %s begin anew: %s", log->path, file.refused);
    return (file.there && !file.damaged) || rewrite(log, e);
}

bool tune_log_add(struct tune_log *log, const struct measured *entry, struct error *e)
{
    char fields[TUNING_LINE - 32], line[TUNING_LINE];
    entry_fields(entry, fields, sizeof fields);
    size_t size = tuning_line(&log->key, fields, line);
    return file_append(log->path, line, size, e) && keep(log, entry, e);
}

const struct measured *tune_log_find(const struct tune_log *log, const char *work, const char *use, bool confirmed)
{
    for (size_t i = log->count; i-- > 0;) { /* the last one counts */
        const struct measured *m = &log->entries[i];
        if (m->confirmed == confirmed && !strcmp(m->use, use) && !strcmp(m->work, work)) return m;
    }
    return NULL;
}

void tune_log_close(struct tune_log *log)
{
    host_free(log->host, log->entries);
    log->entries = NULL;
    log->count = 0;
}
