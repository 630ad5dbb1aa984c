/* The log of `wherry bench layouts`: text, a line for each configuration, each with a hash of what stands before it. */
#include "layouts_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "hash.h"
#include "options.h"
#include "system.h"

#define MAGIC "wherry layouts 1"
enum { LINE = 512, FIELDS = 9, ENTRIES_MOST = 1 << 24 };

static uint64_t line_hash(const char *text, size_t size) { return hash_more(HASH_BEGIN, text, size); }

/* "work number verdict median low high n text hash", with tabs between them. */
static void entry_write(FILE *file, const struct layouts_entry *m)
{
    char line[LINE];
    const wherry_time *t = &m->result.time;
    int n = snprintf(line, sizeof line, "%s\t%" PRIu64 "\t%d\t%.6e\t%.6e\t%.6e\t%u\t%s", m->work, m->configuration,
                     (int)m->result.verdict, t->median, t->ci_low, t->ci_high, (unsigned)t->n, m->result.text);
    if (n < 0 || n >= (int)sizeof line) return; /* no text is so long */
    fprintf(file, "%s\t%016" PRIx64 "\n", line, line_hash(line, (size_t)n));
}

static bool number_at(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) && *out >= 0;
}

static bool count_at(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out <= most;
}

/* Whether the line is one that entry_write wrote, whole. */
static bool entry_read(char *line, struct layouts_entry *out)
{
    char *fields[FIELDS] = {line};
    char *last = strrchr(line, '\t');
    uint64_t verdict, n;
    wherry_time *t = &out->result.time;
    *out = (struct layouts_entry){.configuration = 0};
    if (!last || strlen(last + 1) != 16 || strtoull(last + 1, NULL, 16) != line_hash(line, (size_t)(last - line)))
        return false;
    for (int f = 1; f < FIELDS; f++) {
        char *tab = strchr(fields[f - 1], '\t');
        if (!tab) return false;
        *tab = 0;
        fields[f] = tab + 1;
    }
    if (strlen(fields[0]) >= sizeof out->work || strlen(fields[7]) >= sizeof out->result.text) return false;
    snprintf(out->work, sizeof out->work, "%s", fields[0]);
    snprintf(out->result.text, sizeof out->result.text, "%s", fields[7]);
    if (!count_at(fields[1], UINT64_MAX - 1, &out->configuration) ||
        !count_at(fields[2], WHERRY_LAYOUT_REFUSED, &verdict) || !number_at(fields[3], &t->median) ||
        !number_at(fields[4], &t->ci_low) || !number_at(fields[5], &t->ci_high) || !count_at(fields[6], 1000000, &n))
        return false;
    out->result.verdict = (wherry_layout_verdict)verdict;
    t->n = (uint32_t)n;
    return verdict != WHERRY_LAYOUT_RIGHT || (t->median > 0 && n > 0);
}

/* The slot of an entry, or the free one where it would be. */
static size_t *slot_of(const struct layouts_log *log, const char *work, uint64_t configuration)
{
    uint64_t hash = hash_more(HASH_BEGIN, &configuration, sizeof configuration);
    for (size_t at = (size_t)hash_more(hash, work, strlen(work));; at++) {
        size_t *slot = &log->slots[at & (log->n_slots - 1)];
        if (!*slot) return slot;
        const struct layouts_entry *m = &log->entries[*slot - 1];
        if (m->configuration == configuration && !strcmp(m->work, work)) return slot;
    }
}

/* Twice as much room, a half of the slots free. */
static void grow(struct layouts_log *log)
{
    log->room = log->room ? 2 * log->room : 256;
    log->entries = need(realloc(log->entries, log->room * sizeof *log->entries));
    free(log->slots);
    log->n_slots = 2 * log->room;
    log->slots = need(calloc(log->n_slots, sizeof *log->slots));
    for (size_t n = 0; n < log->count; n++) *slot_of(log, log->entries[n].work, log->entries[n].configuration) = n + 1;
}

static void keep(struct layouts_log *log, const struct layouts_entry *entry)
{
    if (log->count == log->room) grow(log);
    *slot_of(log, entry->work, entry->configuration) = log->count + 1;
    log->entries[log->count++] = *entry;
}

const struct layouts_entry *layouts_log_find(const struct layouts_log *log, const char *work, uint64_t configuration)
{
    const size_t *slot = log->count ? slot_of(log, work, configuration) : NULL;
    return slot && *slot ? &log->entries[*slot - 1] : NULL;
}

/* Takes what is there. *cut: the last line has no end; *own: the file is a log of this key, or empty. */
static void read_lines(struct layouts_log *log, const char *key, bool *cut, bool *own)
{
    char line[LINE + 32];
    struct layouts_entry entry;
    bool first = true, whole = true;
    *own = true;
    while (fgets(line, sizeof line, log->file) && log->count < ENTRIES_MOST) {
        size_t n = strlen(line);
        bool begins = whole;
        whole = n && line[n - 1] == '\n';
        if (whole) line[n - 1] = 0;
        if (first) {
            char expected[LINE];
            snprintf(expected, sizeof expected, MAGIC "\t%s", key);
            *own = whole && strcmp(line, expected) == 0;
            if (!*own) return;
            first = false;
        } else if (begins && whole && entry_read(line, &entry) &&
                   !layouts_log_find(log, entry.work, entry.configuration)) {
            keep(log, &entry);
        }
    }
    *cut = !whole;
}

int layouts_log_open(struct layouts_log *log, const char *path, const char *key)
{
    bool cut = false, own;
    *log = (struct layouts_log){.path = path};
    if (!path) return EXIT_FINE;
    if (!(log->file = fopen(path, "a+b")))
        return complain(EXIT_OUTPUT, "can't write the log %s: %s", path, strerror(errno));
    rewind(log->file);
    read_lines(log, key, &cut, &own);
    if (!own)
        return complain(
            EXIT_INPUT,
            "%s is no log of these measurements (another device, driver, build, shape or type): name another "
            "--log, or remove it",
            path);
    fseek(log->file, 0, SEEK_END);
    if (ftell(log->file) == 0) fprintf(log->file, MAGIC "\t%s\n", key);
    if (cut) fputc('\n', log->file);
    return layouts_log_add(log, NULL, 0);
}

int layouts_log_add(struct layouts_log *log, const struct layouts_entry *entries, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        if (log->file) entry_write(log->file, &entries[n]);
        keep(log, &entries[n]);
    }
    if (!log->file || (!fflush(log->file) && !ferror(log->file) && !system_sync(log->file))) return EXIT_FINE;
    return complain(EXIT_OUTPUT, "can't write the log %s: %s", log->path, strerror(errno));
}

void layouts_log_close(struct layouts_log *log)
{
    if (log->file) fclose(log->file);
    free(log->entries);
    free(log->slots);
    *log = (struct layouts_log){.file = NULL};
}
