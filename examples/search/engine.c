/* The model, and two sessions of it (engine.h): one with large batches for files, one with small ones for queries. They
 * share the model's weights on the device, and a query is no batch of files: it does not wait for the files to be done.
 */
#define _POSIX_C_SOURCE 200809L
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry_async.h>

#include "memory.h"
#include "vulkan.h"

enum { TICKETS = 16, SEQUENCES = 256, QUERY_TOKENS = 128, LENGTH = 512, SUBMIT_MS = 8, FOUND = 50 };

/* Some passages of a file, whose vectors the device writes where they belong. */
struct job {
    wherry_ticket *ticket;
    size_t entry;
    uint32_t count;
};

struct engine {
    wherry_context *context;
    struct lent_vulkan *lent; /* NULL: the device is the library's */
    wherry_device *device;
    wherry_model *model;
    wherry_session *files, *queries;
    wherry_device_info info;
    const char *prompt, *query_prompt; /* what the model wants before texts; "": nothing */
    struct index index;
    size_t embedded;

    /* The file whose passages are handed in. */
    size_t entry, next_entry;
    char *text; /* NULL: none */
    wherry_tokens tokens;
    uint32_t next_passage;

    struct job jobs[TICKETS]; /* a ring, oldest first */
    size_t first_job, job_count;

    wherry_ticket *query;
    float *vector; /* the query's */
    double asked, seconds, searched;
    bool answered, vector_there, more; /* more: files were read since it was searched for */
    struct found found[FOUND];
    size_t found_count;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool complain(const struct engine *e, const char *what)
{
    fprintf(stderr, "search: %s: %s\n", what, wherry_last_error(e->context));
    return false;
}

/* ---- opening ---- */

/* This program's own device, as a program has one that draws with it; else the library's choice, with a sentence. */
static bool open_device(struct engine *e, const char *name)
{
    if (!name || !strcmp(name, "lent")) {
        char why[160];
        e->lent = lent_vulkan_open(e->context, name != NULL, &e->device, why, sizeof why);
        if (e->lent) return wherry_device_describe(e->device, &e->info) == WHERRY_STATUS_OK;
        if (name) return fprintf(stderr, "search: no Vulkan device to lend: %s\n", why), false;
        fprintf(stderr, "search: %s; taking the best device that there is\n", why);
    }
    if (wherry_device_open(e->context, name, &e->device)) return complain(e, "no device");
    return wherry_device_describe(e->device, &e->info) == WHERRY_STATUS_OK;
}

static const char *prompt_of(const struct engine *e, const char *name)
{
    const char *prompt = NULL;
    for (uint32_t i = 0; (prompt = wherry_model_prompt_name(e->model, i)) != NULL; i++)
        if (!strcmp(prompt, name)) break;
    if (wherry_model_prompt(e->context, e->model, prompt, &prompt)) return "";
    return prompt;
}

static bool open_sessions(struct engine *e, const wherry_model_info *model, engine_waiting waiting, void *user)
{
    /* The host's cores compute inside of engine_step: little at a time, so that it returns soon. */
    const bool host = e->info.type == WHERRY_DEVICE_CPU;
    const uint32_t longest = model->max_tokens < LENGTH ? model->max_tokens : LENGTH;
    wherry_session_desc desc = {.struct_size = sizeof desc, .normalize = 1, .max_length = longest};
    desc.max_tokens = host ? LENGTH : 8 * LENGTH;
    /* Somebody looks at what the same GPU draws, and a query is to be answered between two portions of files. */
    desc.max_submit_ms = host ? 0 : SUBMIT_MS;
    if (wherry_session_create(e->context, e->device, e->model, &desc, &e->files)) return complain(e, "no session");
    desc.max_submit_ms = 0;
    desc.max_tokens = desc.max_length = longest < QUERY_TOKENS ? longest : QUERY_TOKENS;
    if (wherry_session_create(e->context, e->device, e->model, &desc, &e->queries)) return complain(e, "no session");
    if (wherry_session_prepare(e->queries, waiting, user, NULL) ||
        wherry_session_prepare(e->files, waiting, user, NULL))
        return complain(e, "no kernels");
    return true;
}

static bool open_index(struct engine *e, const char *folder, const char *model, const wherry_model_info *info)
{
    char name[sizeof e->index.model];
    const char *base = strrchr(model, '/'), *why;
    wherry_session_plan plan = {.struct_size = sizeof plan};
    if (wherry_session_query(e->files, &plan)) return complain(e, "no plan");
    snprintf(name, sizeof name, "%.60s %s %llu", base && base[1] ? base + 1 : model, info->architecture,
             (unsigned long long)info->parameters);
    index_open(&e->index, folder, name, plan.embedding_size, &why);
    if (why) fprintf(stderr, "search: %s/%s is made anew: %s\n", folder, INDEX_FILE, why);
    e->vector = need(calloc(plan.embedding_size, sizeof *e->vector));
    if (index_scan(&e->index)) return true;
    fprintf(stderr, "search: %s: %s\n", folder, strerror(errno));
    return false;
}

struct engine *engine_open(const char *folder, const char *model, const char *device, engine_waiting waiting,
                           void *user)
{
    struct engine *e = need(calloc(1, sizeof *e));
    wherry_model_info info = {.struct_size = sizeof info};
    e->tokens.struct_size = sizeof e->tokens;
    bool ok = wherry_context_create(NULL, &e->context) == WHERRY_STATUS_OK && open_device(e, device);
    if (ok && wherry_model_open(e->context, model, &e->model)) ok = complain(e, "no model");
    ok = ok && wherry_model_describe(e->model, &info) == WHERRY_STATUS_OK;
    if (ok) e->prompt = prompt_of(e, "document"), e->query_prompt = prompt_of(e, "query");
    ok = ok && open_sessions(e, &info, waiting, user) && open_index(e, folder, model, &info);
    if (ok) return e;
    engine_close(e);
    return NULL;
}

void engine_close(struct engine *e)
{
    if (!e) return;
    wherry_ticket_destroy(e->query);
    for (size_t i = 0; i < e->job_count; i++) wherry_ticket_destroy(e->jobs[(e->first_job + i) % TICKETS].ticket);
    wherry_session_destroy(e->queries);
    wherry_session_destroy(e->files);
    wherry_tokens_free(e->context, &e->tokens);
    wherry_model_close(e->model);
    wherry_device_close(e->device);
    lent_vulkan_close(e->lent); /* after the library's device, which uses it */
    wherry_context_destroy(e->context);
    index_close(&e->index);
    free(e->text);
    free(e->vector);
    free(e);
}

/* ---- files ---- */

/* Reads the next file that is new or was changed. False: there is none. */
static bool next_file(struct engine *e)
{
    for (; e->next_entry < e->index.count; e->next_entry++) {
        struct entry *entry = &e->index.entries[e->next_entry];
        if (entry->read) continue;
        e->embedded++;
        free(e->text);
        if (!(e->text = index_read(&e->index, e->next_entry)) || !entry->count) continue;
        wherry_text *texts = need(calloc(entry->count, sizeof *texts));
        for (uint32_t i = 0; i < entry->count; i++)
            texts[i] =
                (wherry_text){.text = e->text + entry->passages[i].offset, .text_bytes = entry->passages[i].bytes};
        wherry_session_plan plan = {.struct_size = sizeof plan};
        wherry_session_query(e->files, &plan);
        const wherry_texts_desc desc = {.struct_size = sizeof desc, .max_tokens = plan.max_length, .prompt = e->prompt};
        wherry_tokens_free(e->context, &e->tokens);
        wherry_status status = wherry_tokenize_texts(e->context, e->model, texts, entry->count, &desc, &e->tokens);
        free(texts);
        if (status || e->tokens.failed) {
            entry->count = 0; /* such a file is left out */
            continue;
        }
        e->entry = e->next_entry++;
        e->next_passage = 0;
        return true;
    }
    free(e->text);
    e->text = NULL;
    return false;
}

/* Hands in as many of the file's next passages as a batch takes. The library merges what waits, so that small files
 * fill batches, too. */
static bool submit_passages(struct engine *e)
{
    struct entry *entry = &e->index.entries[e->entry];
    const uint32_t *ends = e->tokens.offsets, from = e->next_passage, first = ends[from];
    wherry_session_plan plan = {.struct_size = sizeof plan};
    wherry_session_query(e->files, &plan);
    uint32_t offsets[SEQUENCES + 1] = {0}, count = 0;
    while (count < SEQUENCES && from + count < entry->count && ends[from + count + 1] - first <= plan.max_tokens) {
        count++;
        offsets[count] = ends[from + count] - first;
    }
    const wherry_batch batch = {.struct_size = sizeof batch,
                                .sequences = count,
                                .offsets = offsets,
                                .ids = e->tokens.ids + first,
                                .types = e->tokens.types + first};
    const wherry_submit_desc desc = {.struct_size = sizeof desc,
                                     .out = entry->vectors + (size_t)from * e->index.dimensions,
                                     .out_floats = (size_t)count * e->index.dimensions};
    struct job *job = &e->jobs[(e->first_job + e->job_count) % TICKETS];
    *job = (struct job){.entry = e->entry, .count = count};
    if (wherry_encode_submit(e->files, &batch, &desc, &job->ticket))
        return complain(e, e->index.entries[e->entry].path);
    e->job_count++;
    e->next_passage += count;
    return true;
}

/* Takes the jobs that are done. They are done in the order in which they were handed in. */
static bool take_jobs(struct engine *e)
{
    while (e->job_count) {
        struct job *job = &e->jobs[e->first_job];
        wherry_status status = wherry_ticket_poll(job->ticket);
        if (status == WHERRY_STATUS_TIMEOUT) return true;
        if (status) return complain(e, e->index.entries[job->entry].path);
        e->index.entries[job->entry].done += job->count;
        e->more = true;
        wherry_ticket_destroy(job->ticket);
        e->first_job = (e->first_job + 1) % TICKETS;
        e->job_count--;
    }
    return true;
}

static bool hand_in(struct engine *e)
{
    while (e->job_count < TICKETS) {
        if ((!e->text || e->next_passage == e->index.entries[e->entry].count) && !next_file(e)) return true;
        if (!submit_passages(e)) return false;
    }
    return true;
}

/* ---- queries ---- */

bool engine_ask(struct engine *e, const char *query)
{
    wherry_ticket_destroy(e->query); /* what nobody waits for any more */
    e->query = NULL;
    e->found_count = *query ? e->found_count : 0;
    e->answered = !*query;
    e->vector_there = false;
    e->asked = now();
    if (!*query) return true;
    wherry_tokens tokens = {.struct_size = sizeof tokens};
    wherry_session_plan plan = {.struct_size = sizeof plan};
    wherry_session_query(e->queries, &plan);
    const wherry_text text = {.text = query, .text_bytes = strlen(query)};
    const wherry_texts_desc how = {.struct_size = sizeof how, .max_tokens = plan.max_length, .prompt = e->query_prompt};
    if (wherry_tokenize_texts(e->context, e->model, &text, 1, &how, &tokens)) return complain(e, "the query");
    const wherry_batch batch = {.struct_size = sizeof batch,
                                .sequences = (uint32_t)tokens.texts,
                                .offsets = tokens.offsets,
                                .ids = tokens.ids,
                                .types = tokens.types};
    const wherry_submit_desc desc = {.struct_size = sizeof desc, .out = e->vector, .out_floats = e->index.dimensions};
    wherry_status status = wherry_encode_submit(e->queries, &batch, &desc, &e->query);
    wherry_tokens_free(e->context, &tokens);
    return status ? complain(e, "the query") : true;
}

static void search(struct engine *e)
{
    e->found_count = index_search(&e->index, e->vector, e->found, FOUND);
    e->searched = now();
    e->more = false;
}

/* What was found before all files were read: again, now and then, and at the end. */
static void search_again(struct engine *e)
{
    static const double pause = 0.2;
    if (e->more && e->answered && e->vector_there && (!e->job_count || now() - e->searched > pause)) search(e);
}

static bool take_answer(struct engine *e)
{
    if (!e->query) return true;
    wherry_status status = wherry_ticket_poll(e->query);
    if (status == WHERRY_STATUS_TIMEOUT) return true;
    if (status) return complain(e, "the query");
    wherry_ticket_destroy(e->query);
    e->query = NULL;
    search(e);
    e->seconds = e->searched - e->asked;
    e->answered = e->vector_there = true;
    return true;
}

/* ---- all of it ---- */

bool engine_step(struct engine *e)
{
    bool ok = take_answer(e) && take_jobs(e) && hand_in(e) && take_answer(e);
    if (ok) search_again(e);
    return ok;
}

bool engine_wait(struct engine *e)
{
    if (!engine_step(e)) return false;
    wherry_ticket *oldest = e->query ? e->query : e->job_count ? e->jobs[e->first_job].ticket : NULL;
    return !oldest || wherry_ticket_wait(oldest, UINT64_MAX) != WHERRY_STATUS_DEVICE_LOST || complain(e, "waiting");
}

size_t engine_found(const struct engine *e, const struct found **found)
{
    *found = e->found;
    return e->found_count;
}

const struct index *engine_index(const struct engine *e) { return &e->index; }

struct engine_state engine_state(const struct engine *e)
{
    struct engine_state s = {.files = e->index.count,
                             .embedded = e->embedded,
                             .busy = e->query || e->job_count || e->next_entry < e->index.count,
                             .answered = e->answered,
                             .seconds = e->seconds};
    snprintf(s.device, sizeof s.device, "%.60s%s", e->info.name, e->lent ? ", lent" : "");
    for (size_t i = 0; i < e->index.count; i++) {
        const struct entry *entry = &e->index.entries[i];
        s.files_done += entry->read && entry->done == entry->count;
        s.passages += entry->done;
    }
    return s;
}

bool engine_save(const struct engine *e)
{
    if (index_save(&e->index)) return true;
    fprintf(stderr, "search: can't write %s/%s: %s\n", e->index.folder, INDEX_FILE, strerror(errno));
    return false;
}
