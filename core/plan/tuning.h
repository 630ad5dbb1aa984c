/* What was measured on one device, in text files of its own: the chosen sizes, which sessions use, and every
 * measurement, from which an interrupted tuning goes on. docs/tuning.md has the format. */
#ifndef WHERRY_PLAN_TUNING_H
#define WHERRY_PLAN_TUNING_H

#include "base/index.h"
#include "plan/candidates.h"

enum { TUNING_PATH = 768, TUNING_LINE = 2048, TUNING_FIELDS = 16 };

/* What all entries of a file depend on. */
struct tuning_key {
    char device[384]; /* API, UUID, name */
    char driver[256];
    uint64_t kernels; /* hash of their sources, and of whether compilers optimize */
};

struct tuning_key tuning_key(const char *api, const uint8_t uuid[16], const char *name, const char *driver,
                             uint64_t kernels, bool unoptimized);
/* By which texts (works, assignments) are told apart where they are too long. */
uint64_t tuning_hash(const char *text);
/* "FOLDER/KIND-HASH.txt", the hash being that of the device alone, so that another driver's file is found and refused.
 */
void tuning_path(const char *folder, const char *kind, const struct tuning_key *key, char path[TUNING_PATH]);

/* ---- files of lines: a header with the key, then a checksum and fields with tabs between them a line ---- */

struct tuning_file {
    bool there;        /* there is one, and it belongs to the key */
    char refused[640]; /* why one is not used; "" where there is none or it is */
    uint32_t damaged;  /* lines that were left out */
    uint32_t good;
};

/* The fields of a line; they live as long as the call. */
typedef bool (*tuning_take)(char *const fields[], int n, void *user, struct error *e);

/* Calls `take` for every line that is whole. A file that is absent, damaged or another's is no error.
 * `given`: the caller named the file; else it is one of the cache, which must be this user's. */
bool tuning_read(const struct host *host, const char *path, bool given, const struct tuning_key *key, tuning_take take,
                 void *user, struct tuning_file *file, struct error *e);
/* Writes the header into `text`, and a line with a checksum of it and of the key; both return its length. */
size_t tuning_header(const struct tuning_key *key, char text[TUNING_LINE]);
size_t tuning_line(const struct tuning_key *key, const char *fields, char text[TUNING_LINE]);

/* Lines that are gathered and then written at once. */
struct tuning_lines {
    const struct host *host;
    const struct tuning_key *key;
    char *text;
    size_t used, room; /* there is room for a header or a line */
};
bool tuning_lines_begin(struct tuning_lines *lines, const struct host *host, const struct tuning_key *key,
                        struct error *e);
void tuning_lines_header(struct tuning_lines *lines);
bool tuning_lines_add(struct tuning_lines *lines, const char *fields, struct error *e);
void tuning_lines_free(struct tuning_lines *lines); /* a half begun one, too */

/* ---- chosen sizes ---- */

struct tuned {
    char work[WORK_TEXT], use[CHOICE_TEXT]; /* work_text, choice_text */
    double usual, best;                     /* seconds: the static table's sizes, these */
    char why[96];
};

/* Orders of tensors, chosen for sessions of one kind. */
enum { LAYOUTS_TEXT = 256 };
struct tuned_layouts {
    char kind[LAYOUTS_TEXT];   /* of the sessions: model, pass, limits */
    char layouts[ORDERS_TEXT]; /* as orders_text has them, "": the model's own */
    double usual, best;        /* seconds of a run: with the model's orders and the static table's sizes; chosen */
};

struct tuning {
    struct tuned *entries;
    size_t count, room;
    struct tuned_layouts *layouts;
    size_t n_layouts, layouts_room;
    struct index by_work, by_kind;
};

bool tuning_load(const struct host *host, const char *path, bool given, const struct tuning_key *key,
                 struct tuning *out, struct tuning_file *file, struct error *e);
/* Replaces the file in one step. */
bool tuning_store(const struct host *host, const char *path, const struct tuning_key *key, const struct tuning *tuning,
                  struct error *e);
void tuning_free(const struct host *host, struct tuning *tuning); /* accepts a zeroed one */
/* Sets or, where `use` is NULL, takes away the entry of a work. */
bool tuning_set(const struct host *host, struct tuning *tuning, const char *work, const char *use, double usual,
                double best, struct error *e);

bool tuning_add_layouts(const struct host *host, struct tuning *tuning, const struct tuned_layouts *entry,
                        struct error *e);
/* NULL: nothing was chosen for such sessions. */
const struct tuned_layouts *tuning_layouts(const struct tuning *tuning, const char *kind);

enum tuned_state { TUNED_NONE, TUNED_FOUND, TUNED_STALE };
/* The sizes that are chosen for a call (without sizes, or with those of the table): STALE where this library has none
 * like them for it. `entry` may be NULL. */
enum tuned_state tuning_find(const struct host *host, const struct tuning *tuning, const struct call *call,
                             const struct sizes *s, struct choice *out, const struct tuned **entry);

#endif
