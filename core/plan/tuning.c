/* Reads, checks and writes what was measured on a device. */
#include "plan/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"

enum { FILE_MOST = 1 << 26, CHECKSUM_DIGITS = 16 };

static const char magic[] = "wherry-tuning 1";

/* FNV-1a: finds damage and lines of other devices; nothing here defends against an attacker with write access. */
static uint64_t hash_more(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

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
    struct tuning_key key = {.kernels = hash_more(kernels, &unoptimized, sizeof unoptimized)};
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
             hash_more(hash_start, key->device, strlen(key->device)));
}

uint64_t tuning_hash(const char *text) { return hash_more(hash_start, text, strlen(text)); }

static uint64_t key_hash(const struct tuning_key *key)
{
    uint64_t hash = hash_more(hash_start, key->device, strlen(key->device) + 1);
    hash = hash_more(hash, key->driver, strlen(key->driver) + 1);
    return hash_more(hash, &key->kernels, sizeof key->kernels);
}

/* ---- lines ---- */

size_t tuning_header(const struct tuning_key *key, char text[TUNING_LINE])
{
    return (size_t)snprintf(text, TUNING_LINE, "%s\ndevice %s\ndriver %s\nkernels %016" PRIx64 "\n", magic, key->device,
                            key->driver, key->kernels);
}

static uint64_t line_checksum(const struct tuning_key *key, const char *fields)
{
    return hash_more(key_hash(key), fields, strlen(fields));
}

size_t tuning_line(const struct tuning_key *key, const char *fields, char text[TUNING_LINE])
{
    return (size_t)snprintf(text, TUNING_LINE, "%016" PRIx64 "\t%s\n", line_checksum(key, fields), fields);
}

/* The next line, ended by a NUL in the place of its newline; NULL behind the last whole one. */
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
    if (strlen(data) != size)
        snprintf(file->refused, sizeof file->refused, "it is no text");
    else
        ok = read_lines(data, key, take, user, file, e);
    host_free(host, data);
    return ok;
}

/* ---- chosen sizes ---- */

bool tuning_set(const struct host *host, struct tuning *tuning, const char *work, const char *use, double usual,
                double best, struct error *e)
{
    size_t i = 0;
    while (i < tuning->count && strcmp(tuning->entries[i].work, work)) i++;
    if (!use) {
        if (i < tuning->count) tuning->entries[i] = tuning->entries[--tuning->count];
        return true;
    }
    if (i == tuning->count) {
        struct tuned *grown = host_grow(host, tuning->entries, i, i + 1, sizeof *grown, e);
        if (!grown) return false;
        tuning->entries = grown;
        tuning->count++;
    }
    struct tuned *t = &tuning->entries[i];
    *t = (struct tuned){.usual = usual, .best = best};
    snprintf(t->work, sizeof t->work, "%s", work);
    snprintf(t->use, sizeof t->use, "%s", use);
    snprintf(t->why, sizeof t->why, "tuned: %.4g us, with the table's sizes %.4g us", 1e6 * best, 1e6 * usual);
    return true;
}

bool tuning_arrange(const struct host *host, struct tuning *tuning, const struct arranged *entry, struct error *e)
{
    size_t i = 0;
    while (i < tuning->n_arranged && strcmp(tuning->arranged[i].kind, entry->kind)) i++;
    if (i == tuning->n_arranged) {
        struct arranged *grown = host_grow(host, tuning->arranged, i, i + 1, sizeof *grown, e);
        if (!grown) return false;
        tuning->arranged = grown;
        tuning->n_arranged++;
    }
    tuning->arranged[i] = *entry;
    return true;
}

const struct arranged *tuning_arranged(const struct tuning *tuning, const char *kind)
{
    for (size_t i = 0; i < tuning->n_arranged; i++)
        if (!strcmp(tuning->arranged[i].kind, kind)) return &tuning->arranged[i];
    return NULL;
}

struct loading {
    const struct host *host;
    struct tuning *tuning;
};

static bool take_tuned(char *const fields[], int n, void *user, struct error *e)
{
    const struct loading *l = user;
    if (n != 5) return true; /* another kind of entry */
    double usual = strtod(fields[3], NULL), best = strtod(fields[4], NULL);
    if (!strcmp(fields[0], "sizes") && strlen(fields[1]) < WORK_TEXT && strlen(fields[2]) < CHOICE_TEXT)
        return tuning_set(l->host, l->tuning, fields[1], fields[2], usual, best, e);
    if (strcmp(fields[0], "layouts")) return true;
    struct arranged entry = {.usual = usual, .best = best};
    if (strlen(fields[1]) >= sizeof entry.kind || strlen(fields[2]) >= sizeof entry.layouts) return true; /* no key */
    snprintf(entry.kind, sizeof entry.kind, "%s", fields[1]);
    snprintf(entry.layouts, sizeof entry.layouts, "%s", fields[2]);
    return tuning_arrange(l->host, l->tuning, &entry, e);
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
    char *text = host_alloc(host, (tuning->count + tuning->n_arranged + 1) * TUNING_LINE, 1, e);
    if (!text) return false;
    size_t at = tuning_header(key, text);
    for (size_t i = 0; i < tuning->count; i++) {
        const struct tuned *t = &tuning->entries[i];
        snprintf(fields, sizeof fields, "sizes\t%s\t%s\t%.9e\t%.9e", t->work, t->use, t->usual, t->best);
        at += tuning_line(key, fields, text + at);
    }
    for (size_t i = 0; i < tuning->n_arranged; i++) {
        const struct arranged *a = &tuning->arranged[i];
        snprintf(fields, sizeof fields, "layouts\t%s\t%s\t%.9e\t%.9e", a->kind, a->layouts, a->usual, a->best);
        at += tuning_line(key, fields, text + at);
    }
    bool ok = cache_write(path, text, at, e);
    host_free(host, text);
    return ok;
}

void tuning_free(const struct host *host, struct tuning *tuning)
{
    host_free(host, tuning->entries);
    host_free(host, tuning->arranged);
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
    while (i < tuning->count && strcmp(tuning->entries[i].work, work)) i++;
    if (i == tuning->count) return TUNED_NONE;
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
