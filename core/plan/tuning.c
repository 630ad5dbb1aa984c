/* Reads, checks and writes what was measured on a device. */
#include "plan/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/number.h"
#include "base/platform.h"

/* A log of all measurements of a device gains some 300 bytes with each. */
enum { FILE_MOST = 1 << 26, LINES_MOST = 1 << 18, CHECKSUM_DIGITS = 16 };

static const char magic[] = "wherry-tuning 1";

/* ---- the key ---- */

static void copy_line(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
    for (; *to; to++)
        if ((unsigned char)*to < ' ') *to = ' ';
}

struct tuning_key tuning_key(const char *api, const uint8_t uuid[16], const char *name, const char *driver,
                             uint64_t kernels, bool unoptimized)
{
    struct tuning_key key = {.kernels = hash_bytes(kernels, &unoptimized, sizeof unoptimized)};
    char device[sizeof key.device];
    struct text_writer t = text_begin(device, sizeof device);
    text_add(&t, "%s ", api);
    text_hex(&t, uuid, 16);
    text_add(&t, " %s", name);
    copy_line(key.device, sizeof key.device, device);
    copy_line(key.driver, sizeof key.driver, driver);
    return key;
}

void tuning_path(const char *folder, const char *kind, const struct tuning_key *key, char path[TUNING_PATH])
{
    snprintf(path, TUNING_PATH, "%s/%s-%016" PRIx64 ".txt", folder, kind,
             hash_bytes(HASH_START, key->device, strlen(key->device)));
}

uint64_t tuning_hash(const char *text) { return hash_bytes(HASH_START, text, strlen(text)); }

static uint64_t key_hash(const struct tuning_key *key)
{
    uint64_t hash = hash_text(HASH_START, key->device);
    hash = hash_text(hash, key->driver);
    return hash_bytes(hash, &key->kernels, sizeof key->kernels);
}

/* ---- lines ---- */

size_t tuning_header(const struct tuning_key *key, char text[TUNING_LINE])
{
    return (size_t)snprintf(text, TUNING_LINE, "%s\ndevice %s\ndriver %s\nkernels %016" PRIx64 "\n", magic, key->device,
                            key->driver, key->kernels);
}

static uint64_t line_checksum(const struct tuning_key *key, const char *fields)
{
    return hash_bytes(key_hash(key), fields, strlen(fields));
}

size_t tuning_line(const struct tuning_key *key, const char *fields, char text[TUNING_LINE])
{
    return (size_t)snprintf(text, TUNING_LINE, "%016" PRIx64 "\t%s\n", line_checksum(key, fields), fields);
}

/* The next line, ended by a NUL in the place of its newline; NULL after the last whole one. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

static bool header_refuse(struct tuning_file *file, const char *what, const char *have, const char *want)
{
    snprintf(file->refused, sizeof file->refused, "it is of the %s \"%.200s\", this is \"%.200s\"", what, have, want);
    return false;
}

static bool header_check(char **at, const struct tuning_key *key, struct tuning_file *file)
{
    char kernels[17];
    const char *line = next_line(at);
    snprintf(kernels, sizeof kernels, "%016" PRIx64, key->kernels);
    const struct {
        const char *name, *want;
    } fields[] = {{"device", key->device}, {"driver", key->driver}, {"kernels", kernels}};
    if (!line || strcmp(line, magic)) {
        snprintf(file->refused, sizeof file->refused, "it does not begin with \"%s\"", magic);
        return false;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        size_t length = strlen(fields[i].name);
        line = next_line(at);
        if (!line || strncmp(line, fields[i].name, length) || line[length] != ' ') {
            snprintf(file->refused, sizeof file->refused, "its header has no %s", fields[i].name);
            return false;
        }
        if (strcmp(line + length + 1, fields[i].want))
            return header_refuse(file, fields[i].name, line + length + 1, fields[i].want);
    }
    return true;
}

static int split_fields(char *text, char *fields[TUNING_FIELDS])
{
    int n = 0;
    for (char *at = text; at && n < TUNING_FIELDS; n++) {
        fields[n] = at;
        if ((at = strchr(at, '\t'))) *at++ = 0;
    }
    return n;
}

static bool line_whole(const struct tuning_key *key, const char *line)
{
    char want[CHECKSUM_DIGITS + 1];
    if (strlen(line) <= CHECKSUM_DIGITS || line[CHECKSUM_DIGITS] != '\t') return false;
    snprintf(want, sizeof want, "%016" PRIx64, line_checksum(key, line + CHECKSUM_DIGITS + 1));
    return !strncmp(line, want, CHECKSUM_DIGITS);
}

static bool read_lines(char *at, const struct tuning_key *key, tuning_take take, void *user, struct tuning_file *file,
                       struct error *e)
{
    if (!header_check(&at, key, file)) return true;
    file->there = true;
    for (char *line; (line = next_line(&at));) {
        char *fields[TUNING_FIELDS];
        if (!line_whole(key, line)) {
            file->damaged++;
            continue;
        }
        file->good++;
        int n = split_fields(line + CHECKSUM_DIGITS + 1, fields);
        TRY(take(fields, n, user, e));
    }
    file->damaged += *at != 0; /* a line without an end: whoever wrote it was stopped */
    return true;
}

static bool read_file(const struct host *host, const char *path, bool given, bool *exists, char **data, size_t *size,
                      struct error *e)
{
    if (!given) return cache_read(host, path, FILE_MOST, exists, data, size, e);
    return file_exists(path, exists, e) && (!*exists || file_read(host, path, FILE_MOST, data, size, e));
}

bool tuning_read(const struct host *host, const char *path, bool given, const struct tuning_key *key, tuning_take take,
                 void *user, struct tuning_file *file, struct error *e)
{
    struct error unread;
    char *data;
    size_t size;
    *file = (struct tuning_file){0};
    bool exists, ok = read_file(host, path, given, &exists, &data, &size, &unread);
    if (!ok) snprintf(file->refused, sizeof file->refused, "%.600s", unread.text);
    if (!ok || !exists) return true;
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    if (strlen(data) != size)
        snprintf(file->refused, sizeof file->refused, "it is no text");
    else if (lines > LINES_MOST)
        snprintf(file->refused, sizeof file->refused, "it has %zu lines, and %d are the most that are read", lines,
                 LINES_MOST);
    else
        ok = read_lines(data, key, take, user, file, e);
    host_free(host, data);
    return ok;
}

/* ---- lines to be written ---- */

static bool lines_room(struct tuning_lines *l, struct error *e)
{
    if (l->room - l->used > TUNING_LINE) return true;
    size_t room = l->room ? 2 * l->room : 16 * (size_t)TUNING_LINE;
    char *grown = host_grow(l->host, l->text, l->used, room, 1, e);
    if (!grown) return false;
    l->text = grown;
    l->room = room;
    return true;
}

bool tuning_lines_begin(struct tuning_lines *l, const struct host *host, const struct tuning_key *key, struct error *e)
{
    *l = (struct tuning_lines){.host = host, .key = key};
    return lines_room(l, e);
}

void tuning_lines_header(struct tuning_lines *l) { l->used += tuning_header(l->key, l->text + l->used); }

bool tuning_lines_add(struct tuning_lines *l, const char *fields, struct error *e)
{
    l->used += tuning_line(l->key, fields, l->text + l->used);
    return lines_room(l, e);
}

void tuning_lines_free(struct tuning_lines *l)
{
    host_free(l->host, l->text);
    l->text = NULL;
}

/* ---- chosen sizes ---- */

static bool entry_find(const struct tuning *tuning, const char *work, size_t *i)
{
    for (size_t at = 0; index_next(&tuning->by_work, hash_text(HASH_START, work), &at, i);)
        if (!strcmp(tuning->entries[*i].work, work)) return true;
    return false;
}

/* The last entry takes the place of one that goes, so all are numbered again. */
static bool entry_remove(const struct host *host, struct tuning *tuning, size_t i, struct error *e)
{
    tuning->entries[i] = tuning->entries[--tuning->count];
    index_free(host, &tuning->by_work);
    for (i = 0; i < tuning->count; i++)
        TRY(index_add(host, &tuning->by_work, hash_text(HASH_START, tuning->entries[i].work), i, e));
    return true;
}

static bool entry_add(const struct host *host, struct tuning *tuning, const char *work, struct error *e)
{
    struct tuned *grown = host_grow_one(host, tuning->entries, tuning->count, &tuning->room, sizeof *grown, e);
    if (!grown) return false;
    tuning->entries = grown;
    return index_add(host, &tuning->by_work, hash_text(HASH_START, work), tuning->count++, e);
}

bool tuning_set(const struct host *host, struct tuning *tuning, const char *work, const char *use, double usual,
                double best, struct error *e)
{
    size_t i = 0;
    bool there = entry_find(tuning, work, &i);
    if (!use) return !there || entry_remove(host, tuning, i, e);
    if (!there) {
        i = tuning->count;
        TRY(entry_add(host, tuning, work, e));
    }
    struct tuned *t = &tuning->entries[i];
    *t = (struct tuned){.usual = usual, .best = best};
    snprintf(t->work, sizeof t->work, "%s", work);
    snprintf(t->use, sizeof t->use, "%s", use);
    snprintf(t->why, sizeof t->why, "tuned: %s us, with the table's sizes %s us", NUMBER("%.4g", 1e6 * best),
             NUMBER("%.4g", 1e6 * usual));
    return true;
}

static bool layouts_find(const struct tuning *tuning, const char *kind, size_t *i)
{
    for (size_t at = 0; index_next(&tuning->by_kind, hash_text(HASH_START, kind), &at, i);)
        if (!strcmp(tuning->layouts[*i].kind, kind)) return true;
    return false;
}

bool tuning_add_layouts(const struct host *host, struct tuning *tuning, const struct tuned_layouts *entry,
                        struct error *e)
{
    size_t i = 0;
    if (!layouts_find(tuning, entry->kind, &i)) {
        i = tuning->n_layouts;
        struct tuned_layouts *grown = host_grow_one(host, tuning->layouts, i, &tuning->layouts_room, sizeof *grown, e);
        if (!grown) return false;
        tuning->layouts = grown;
        TRY(index_add(host, &tuning->by_kind, hash_text(HASH_START, entry->kind), i, e));
        tuning->n_layouts++;
    }
    tuning->layouts[i] = *entry;
    return true;
}

const struct tuned_layouts *tuning_layouts(const struct tuning *tuning, const char *kind)
{
    size_t i;
    return layouts_find(tuning, kind, &i) ? &tuning->layouts[i] : NULL;
}

struct loading {
    const struct host *host;
    struct tuning *tuning;
};

static bool take_tuned(char *const fields[], int n, void *user, struct error *e)
{
    const struct loading *l = user;
    if (n != 5) return true; /* another kind of entry */
    double usual = number_read(fields[3], NULL), best = number_read(fields[4], NULL);
    if (!strcmp(fields[0], "sizes") && strlen(fields[1]) < WORK_TEXT && strlen(fields[2]) < CHOICE_TEXT)
        return tuning_set(l->host, l->tuning, fields[1], fields[2], usual, best, e);
    if (strcmp(fields[0], "layouts")) return true;
    struct tuned_layouts entry = {.usual = usual, .best = best};
    if (strlen(fields[1]) >= sizeof entry.kind || strlen(fields[2]) >= sizeof entry.layouts) return true; /* no key */
    snprintf(entry.kind, sizeof entry.kind, "%s", fields[1]);
    snprintf(entry.layouts, sizeof entry.layouts, "%s", fields[2]);
    return tuning_add_layouts(l->host, l->tuning, &entry, e);
}

bool tuning_load(const struct host *host, const char *path, bool given, const struct tuning_key *key,
                 struct tuning *out, struct tuning_file *file, struct error *e)
{
    struct loading loading = {host, out};
    *out = (struct tuning){0};
    return tuning_read(host, path, given, key, take_tuned, &loading, file, e);
}

bool tuning_store(const struct host *host, const char *path, const struct tuning_key *key, const struct tuning *tuning,
                  struct error *e)
{
    char fields[TUNING_LINE - CHECKSUM_DIGITS - 2];
    struct tuning_lines lines;
    bool ok = tuning_lines_begin(&lines, host, key, e);
    if (ok) tuning_lines_header(&lines);
    for (size_t i = 0; ok && i < tuning->count; i++) {
        const struct tuned *t = &tuning->entries[i];
        snprintf(fields, sizeof fields, "sizes\t%s\t%s\t%s\t%s", t->work, t->use, NUMBER("%.9e", t->usual),
                 NUMBER("%.9e", t->best));
        ok = tuning_lines_add(&lines, fields, e);
    }
    for (size_t i = 0; ok && i < tuning->n_layouts; i++) {
        const struct tuned_layouts *a = &tuning->layouts[i];
        snprintf(fields, sizeof fields, "layouts\t%s\t%s\t%s\t%s", a->kind, a->layouts, NUMBER("%.9e", a->usual),
                 NUMBER("%.9e", a->best));
        ok = tuning_lines_add(&lines, fields, e);
    }
    ok = ok && cache_write(path, lines.text, lines.used, e);
    tuning_lines_free(&lines);
    return ok;
}

void tuning_free(const struct host *host, struct tuning *tuning)
{
    host_free(host, tuning->entries);
    host_free(host, tuning->layouts);
    index_free(host, &tuning->by_work);
    index_free(host, &tuning->by_kind);
    *tuning = (struct tuning){0};
}

/* ---- use ---- */

/* An entry counts as long as its sizes are among those that the kernel is known to be right with. */
enum tuned_state tuning_find(const struct host *host, const struct tuning *tuning, const struct call *call,
                             const struct sizes *s, struct choice *out, const struct tuned **entry)
{
    char work[WORK_TEXT], text[CHOICE_TEXT];
    struct error e;
    size_t i = 0;
    if (!tuning->count) return TUNED_NONE;
    if (!work_text(call, s, work)) return TUNED_NONE; /* nor was it tuned */
    if (!entry_find(tuning, work, &i)) return TUNED_NONE;
    struct choices *list = host_alloc(host, 1, sizeof *list, &e);
    enum tuned_state state = TUNED_STALE;
    if (list) choices_legal(call, s, list);
    for (int k = 0; list && k < list->n && state != TUNED_FOUND; k++) {
        choice_text(&list->of[k], text);
        if (strcmp(text, tuning->entries[i].use)) continue;
        *out = list->of[k];
        state = TUNED_FOUND;
    }
    host_free(host, list);
    if (entry) *entry = &tuning->entries[i];
    return state;
}
