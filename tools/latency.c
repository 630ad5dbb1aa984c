/* Requests of one text each, from several threads at once. An application's code: public calls, a context for each
 * thread, a session behind a lock or one for each thread, as wherry.h asks for. */
#include "latency.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"
#include "threads.h"

struct request {
    char *text; /* NULL: the model has no tokenizer, and ids are given */
    size_t bytes;
    const int32_t *ids;
    uint32_t tokens;
};

enum phase { WARMING, COUNTING, ENDING, STOPPED };

/* What the clients of one load share. */
struct run {
    const struct latency *latency;
    _Atomic int phase;
    _Atomic uint32_t running, cold; /* clients; of them, those without an answer so far */
    _Atomic uint64_t left;          /* requests to be counted */
};

struct client {
    struct run *run;
    struct tool tool;  /* its own context; with a session each, device and session, too */
    struct tool *with; /* whose session it uses */
    int32_t *ids;
    float *vector;
    size_t next; /* request */
    double begin, end, waited;
    wherry_status status; /* of the call that failed */
    struct tool *failed;  /* whose call it was */
    char problem[1024];   /* what its context said, in the client's thread */
};

/* ---- texts ---- */

static const char *const words[] = {
    "a",    "boat",  "carries", "people", "across", "the",   "water",  "while", "wind", "is",   "low",
    "and",  "old",   "men",     "sit",    "on",     "their", "way",    "home",  "with", "fish", "bread",
    "salt", "from",  "town",    "where",  "many",   "small", "houses", "stand", "near", "one",  "church",
    "by",   "river", "in",      "cold",   "light",  "of",    "early",  "spring"};
enum { WORDS = sizeof words / sizeof *words };

static int count_tokens(const struct tool *tool, const char *text, size_t *count)
{
    *count = 0;
    wherry_status status =
        wherry_tokenize(tool->context, tool->model, text, strlen(text), NULL, 0, 0, NULL, NULL, count);
    return status ? tool_error((struct tool *)tool, status, "the request's text") : EXIT_FINE;
}

/* Words with spaces between them, as many as have `left` tokens, those that are too long left out. Words have the same
 * tokens in any company. */
static char *join_words(const size_t tokens[WORDS], size_t left)
{
    size_t room = 1, used = 0, passed = 0;
    char *text = need(malloc(room + 16 * left));
    for (size_t n = 0; left && passed < WORDS; n++) {
        const char *word = words[n % WORDS];
        passed++;
        if (!tokens[n % WORDS] || tokens[n % WORDS] > left) continue;
        passed = 0;
        left -= tokens[n % WORDS];
        if (used) text[used++] = ' ';
        memcpy(text + used, word, strlen(word));
        used += strlen(word);
    }
    text[used] = 0;
    return text;
}

/* A text of so many tokens, special ones included. */
static int make_text(const struct tool *tool, uint32_t length, struct request *request)
{
    size_t special, tokens[WORDS], count;
    int code = count_tokens(tool, "", &special);
    if (!code && length < special)
        return complain(EXIT_USAGE, "--lengths: a text of this model has at least %zu tokens, the special ones",
                        special);
    for (size_t n = 0; n < WORDS && !code; n++) {
        code = count_tokens(tool, words[n], &tokens[n]);
        tokens[n] -= special;
    }
    if (code) return code;
    request->text = join_words(tokens, length - special);
    request->bytes = strlen(request->text);
    code = count_tokens(tool, request->text, &count);
    if (!code && count != length)
        code =
            complain(EXIT_INPUT, "no text of %u tokens for this model's tokenizer: the nearest has %zu", length, count);
    return code;
}

static int make_requests(struct latency *l)
{
    const struct random_batch *batch = l->batch;
    l->requests = need(calloc(batch->batch.sequences, sizeof *l->requests));
    int code = EXIT_FINE;
    for (uint32_t n = 0; n < batch->batch.sequences && !code; n++) {
        struct request *request = &l->requests[n];
        request->ids = batch->ids + batch->offsets[n];
        request->tokens = batch->offsets[n + 1] - batch->offsets[n];
        if (l->tool->model_info.has_tokenizer) code = make_text(l->tool, request->tokens, request);
    }
    return code;
}

/* ---- sessions ---- */

static int open_session(const struct latency *l, struct tool *tool)
{
    const struct options *options = l->tool->options;
    return tool_open_session(tool, options->plan ? plan_name(options->plan) : NULL,
                             (wherry_session_desc){.max_tokens = l->batch->longest,
                                                   .max_sequences = 1,
                                                   .max_length = l->batch->longest,
                                                   .dtype = (wherry_dtype)options->dtype,
                                                   .weights = (wherry_weights)options->weights});
}

/* The model is the main thread's: sessions of several contexts may read it. So is a shared session, and with a session
 * each the first client's. */
static int open_client(struct latency *l, struct client *client)
{
    struct tool *tool = &client->tool;
    bool own = l->per_client && client != l->clients;
    int code = tool_open_context(tool, l->quietly);
    if (!code) tool->model = l->tool->model;
    if (!code && own) code = tool_open_device(tool);
    if (!code && own) code = open_session(l, tool);
    client->with = own ? tool : l->tool;
    client->ids = need(calloc(l->batch->longest, sizeof *client->ids));
    client->vector = need(calloc(l->tool->plan.embedding_size, sizeof *client->vector));
    return code;
}

int latency_open(struct latency *l, uint32_t clients)
{
    l->quietly = need(malloc(sizeof *l->quietly));
    *l->quietly = *l->tool->options;
    l->quietly->quiet = true; /* what there is to say of the cache folder was said */
    int code = make_requests(l);
    if (!code) code = open_session(l, l->tool);
    l->turns = turns_create();
    l->clients = need(calloc(clients, sizeof *l->clients));
    while (l->client_count < clients && !code) {
        progress_show("sessions: %u of %u", l->client_count, clients);
        code = open_client(l, &l->clients[l->client_count++]);
        if (!code && system_stopped()) code = complain(EXIT_STOPPED, "interrupted");
    }
    return code;
}

void latency_close(struct latency *l)
{
    for (uint32_t n = 0; n < l->client_count; n++) {
        struct client *client = &l->clients[n];
        client->tool.model = NULL; /* not its own */
        tool_close(&client->tool);
        free(client->ids);
        free(client->vector);
    }
    for (uint32_t n = 0; l->requests && n < l->batch->batch.sequences; n++) free(l->requests[n].text);
    free(l->requests);
    free(l->clients);
    free(l->quietly);
    turns_destroy(l->turns);
}

/* ---- one request ---- */

static bool call_failed(struct client *client, struct tool *tool, wherry_status status)
{
    if (!status) return false;
    client->status = status;
    client->failed = tool;
    snprintf(client->problem, sizeof client->problem, "%s", wherry_last_error(tool->context));
    return true;
}

/* Nothing once another client has failed. */
static bool encode(struct client *client, const wherry_batch *batch)
{
    const struct latency *l = client->run->latency;
    double asked = system_seconds();
    if (!l->per_client) turns_take(l->turns);
    client->waited = system_seconds() - asked;
    bool fine = client->run->phase != STOPPED;
    if (fine)
        fine = !call_failed(
            client, client->with,
            wherry_encode(client->with->session, batch, client->vector, client->with->plan.embedding_size));
    if (!fine) client->run->phase = STOPPED;
    if (!l->per_client) turns_give(l->turns);
    return fine;
}

/* A text in, a vector out. */
static bool answer(struct client *client)
{
    const struct latency *l = client->run->latency;
    const struct request *request = &l->requests[client->next++ % l->batch->batch.sequences];
    size_t count = l->batch->longest;
    client->begin = system_seconds();
    if (request->text) {
        wherry_status status = wherry_tokenize(client->tool.context, l->tool->model, request->text, request->bytes,
                                               NULL, 0, 0, client->ids, NULL, &count);
        if (call_failed(client, &client->tool, status)) return false;
    } else {
        count = request->tokens;
    }
    const uint32_t offsets[] = {0, (uint32_t)count};
    const wherry_batch batch = {.struct_size = sizeof batch,
                                .sequences = 1,
                                .offsets = offsets,
                                .ids = request->text ? client->ids : request->ids};
    if (!encode(client, &batch)) return false;
    client->end = system_seconds();
    return true;
}

static int complain_failed(const struct client *client)
{
    int code = tool_error_text(client->failed, client->problem, client->status, NULL);
    return client->status == WHERRY_STATUS_VERIFY_FAILED ? EXIT_DEVICE : code;
}

/* ---- many ---- */

static bool take_one(struct run *run)
{
    uint64_t left = run->left;
    while (left && !atomic_compare_exchange_weak(&run->left, &left, left - 1)) continue;
    return left > 0;
}

/* What a client counts in one load. */
struct tally {
    struct client *client;
    struct task *task;
    bool warm; /* had an answer */
    double first, last, waited;
    struct histogram histogram;
};

static void client_work(void *user)
{
    struct tally *tally = user;
    struct client *client = tally->client;
    struct run *run = client->run;
    for (;;) {
        int phase = run->phase;
        if (phase == STOPPED || (phase == ENDING && tally->histogram.count)) break;
        if (phase != WARMING && !take_one(run)) break;
        if (!answer(client)) break;
        if (!tally->warm) run->cold--;
        tally->warm = true;
        if (phase == WARMING) continue;
        if (!tally->histogram.count) tally->first = client->begin;
        tally->last = client->end;
        tally->waited += client->waited;
        histogram_add(&tally->histogram, (uint64_t)(1e9 * (client->end - client->begin)));
    }
    run->running--;
}

/* Unless something else happened meanwhile. */
static void go_on(struct run *run, int from, int to) { atomic_compare_exchange_strong(&run->phase, &from, to); }

/* Until all clients have ended. The first request of all may take longer than the warming: drivers do at the first
 * launch what they put off. */
static void watch(struct run *run, double warm, double seconds)
{
    double begin = system_seconds();
    for (; run->running; system_sleep(0.02)) {
        double passed = system_seconds() - begin;
        if (system_stopped()) run->phase = STOPPED;
        if (run->phase == WARMING && passed >= warm && !run->cold) {
            go_on(run, WARMING, COUNTING);
            begin += passed;
        } else if (run->phase == COUNTING && seconds > 0 && passed >= seconds) {
            go_on(run, COUNTING, ENDING);
        }
        progress_show("%u clients, %s: %.0f s", (unsigned)run->running, run->phase == WARMING ? "warming" : "measuring",
                      passed);
    }
}

static void sum_up(const struct tally *tallies, uint32_t clients, struct load *load)
{
    double first = INFINITY, last = 0;
    for (uint32_t n = 0; n < clients; n++) {
        const struct tally *tally = &tallies[n];
        if (!tally->histogram.count) continue;
        histogram_merge(&load->histogram, &tally->histogram);
        first = fmin(first, tally->first);
        last = fmax(last, tally->last);
        load->waited += tally->waited;
    }
    load->seconds = last - first;
}

static int run_clients(struct latency *l, struct run *run, struct tally *tallies, uint32_t clients, double warm,
                       double seconds)
{
    uint32_t started = 0;
    const struct client *failed = NULL;
    run->running = run->cold = clients; /* before the first could end */
    for (; started < clients; started++) {
        struct tally *tally = &tallies[started];
        tally->client = &l->clients[started];
        tally->client->run = run;
        tally->client->next = started; /* not all the same one at a time */
        tally->task = task_start(client_work, tally);
        if (!tally->task) break;
    }
    if (started < clients) {
        run->phase = STOPPED;
        run->running -= clients - started;
    }
    watch(run, warm, seconds);
    for (uint32_t n = 0; n < clients; n++) {
        task_join(tallies[n].task);
        if (n < started && l->clients[n].failed) failed = &l->clients[n];
    }
    if (started < clients)
        return complain(EXIT_DEVICE, "the system has no thread for client %u of %u: give fewer --clients", started + 1,
                        clients);
    if (failed) return complain_failed(failed);
    return system_stopped() ? complain(EXIT_STOPPED, "interrupted") : EXIT_FINE;
}

int latency_load(struct latency *l, uint32_t clients, double warm, double seconds, uint32_t requests, struct load *load)
{
    struct run run = {
        .latency = l, .phase = warm > 0 ? WARMING : COUNTING, .left = seconds > 0 ? UINT64_MAX : requests};
    struct tally *tallies = need(calloc(clients, sizeof *tallies));
    *load = (struct load){.clients = clients, .warm_seconds = warm};
    progress_start(l->tool->options);
    int code = run_clients(l, &run, tallies, clients, warm, seconds);
    progress_end();
    if (!code) sum_up(tallies, clients, load);
    free(tallies);
    return code;
}

int latency_idle(struct latency *l, double idle, double *seconds)
{
    struct run run = {.latency = l, .phase = COUNTING};
    struct client *client = &l->clients[0];
    double begin = system_seconds(), left = idle;
    progress_start(l->tool->options);
    while (left > 0 && !system_stopped()) {
        progress_show("nothing, for %.0f s", ceil(left));
        system_sleep(fmin(left, 0.5));
        left = idle - (system_seconds() - begin);
    }
    progress_end();
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    client->run = &run;
    if (!answer(client)) return complain_failed(client);
    *seconds = client->end - client->begin;
    return EXIT_FINE;
}
