/* tickets: what several batches under way are worth (wherry_async.h).
 *
 *   tickets DEVICE CONFIG DTYPE BATCHxLENGTH[,...] SECONDS [SESSION_TOKENS [MAX_SUBMIT_MS]]
 *
 * DEVICE as wherry_device_open takes it; CONFIG a named shape, with random weights; DTYPE f32, f16 or default. Prints a
 * line of JSON for each batch and each way of encoding it:
 *   blocking   wherry_encode, one after the other, in a session for one such batch
 *   submit     IN_FLIGHT tickets are kept submitted in a session of SESSION_TOKENS (default: of one batch), of which
 * those that wait are merged as far as it has room `batches` in `seconds`, `host`: the median time of wherry_encode,
 * `device`: the sum of the groups' times by the device's timer (wherry_measure, null where it has none), and `busy`:
 * device / (seconds / batches), the share of the time that the device had work, where nothing was merged. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>
#include <wherry/wherry_measure.h>

enum { WARM = 3, IN_FLIGHT_MOST = 1024 };

struct bench {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_model_config config;
    wherry_dtype dtype;
    uint32_t sequences, length;
    wherry_batch batch;
    float *out; /* of IN_FLIGHT_MOST batches */
    size_t floats;
    double seconds, host, measured; /* measured: by the device's timer */
    double max_submit_ms;           /* of all sessions (wherry_session_desc) */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(const struct bench *b, wherry_status status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "tickets: %s: %s: %s\n", what, wherry_status_name(status), wherry_last_error(b->context));
    exit(1);
}

static void *need(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "tickets: out of memory\n");
    exit(1);
}

static void batch_make(struct bench *b)
{
    uint32_t tokens = b->sequences * b->length, seed = 1;
    uint32_t *offsets = need(malloc((b->sequences + 1) * sizeof *offsets));
    int32_t *ids = need(malloc(tokens * sizeof *ids));
    for (uint32_t i = 0; i <= b->sequences; i++) offsets[i] = i * b->length;
    for (uint32_t t = 0; t < tokens; t++) {
        seed = seed * 1664525 + 1013904223;
        ids[t] = (int32_t)((seed >> 8) % b->config.vocabulary);
    }
    b->batch = (wherry_batch){sizeof b->batch, b->sequences, offsets, ids, NULL, NULL};
}

static void session_open(struct bench *b, uint32_t tokens)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = tokens,
                                      .max_sequences = tokens / b->length,
                                      .max_length = b->length,
                                      .dtype = b->dtype,
                                      .max_submit_ms = b->max_submit_ms};
    check(b, wherry_session_create(b->context, b->device, b->model, &desc, &b->session), "wherry_session_create");
    check(b, wherry_session_prepare(b->session, NULL, NULL, NULL), "wherry_session_prepare");
}

static void report(const struct bench *b, const char *way, uint32_t tokens, uint32_t in_flight, size_t batches,
                   double seconds)
{
    double of_one = seconds / (double)batches;
    printf("{\"batch\": \"%ux%u\", \"way\": \"%s\", \"session_tokens\": %u, \"in_flight\": %u, \"batches\": %zu, "
           "\"seconds\": %.4f, \"rate\": %.1f, \"host\": %.3e, ",
           b->sequences, b->length, way, tokens, in_flight, batches, seconds, 1 / of_one, b->host);
    if (b->measured > 0)
        printf("\"device\": %.4e, \"busy\": %.4f}\n", b->measured, b->measured / of_one);
    else
        printf("\"device\": null, \"busy\": null}\n");
    fflush(stdout);
}

static void blocking(struct bench *b)
{
    uint32_t tokens = b->sequences * b->length;
    wherry_step_measure step = {.struct_size = sizeof step};
    const wherry_measure_desc desc = {.struct_size = sizeof desc, .repeats = 30};
    size_t groups = 0, batches = 0;
    session_open(b, tokens);
    check(b, wherry_measure(b->session, &b->batch, &desc, NULL, &groups, &step), "wherry_measure");
    b->host = step.host.median;
    b->measured = step.kernels.n ? step.kernels.median : 0;
    for (int i = 0; i < WARM; i++) check(b, wherry_encode(b->session, &b->batch, b->out, b->floats), "wherry_encode");
    double start = now(), end = start;
    for (; end < start + b->seconds; end = now(), batches++)
        check(b, wherry_encode(b->session, &b->batch, b->out, b->floats), "wherry_encode");
    report(b, "blocking", tokens, 1, batches, end - start);
    wherry_session_destroy(b->session);
}

/* A ring of tickets: the oldest is waited for, and its place taken by a new one. */
static void submitted(struct bench *b, uint32_t tokens, uint32_t in_flight)
{
    wherry_ticket *ring[IN_FLIGHT_MOST] = {NULL};
    size_t done = 0, given = 0, counted = 0;
    double start = 0, end = 0;
    session_open(b, tokens);
    while (!start || end < start + b->seconds) {
        uint32_t at = (uint32_t)(given % in_flight);
        if (ring[at]) {
            check(b, wherry_ticket_wait(ring[at], UINT64_MAX), "wherry_ticket_wait");
            wherry_ticket_destroy(ring[at]);
            done++;
        }
        end = now();
        if (!start && done >= WARM * (size_t)in_flight) start = end, counted = done;
        const wherry_submit_desc desc = {
            .struct_size = sizeof desc, .out = b->out + at * b->floats, .out_floats = b->floats};
        check(b, wherry_encode_submit(b->session, &b->batch, &desc, &ring[at]), "wherry_encode_submit");
        given++;
    }
    for (uint32_t i = 0; i < in_flight; i++) wherry_ticket_destroy(ring[i]);
    report(b, "submit", tokens, in_flight, done - counted, end - start);
    wherry_session_destroy(b->session);
}

static bool shape_read(struct bench *b, const char **text)
{
    char *after;
    b->sequences = (uint32_t)strtoul(*text, &after, 10);
    if (*after != 'x') return false;
    b->length = (uint32_t)strtoul(after + 1, &after, 10);
    *text = *after == ',' ? after + 1 : after;
    return b->sequences && b->length && (!*after || *after == ',');
}

static void measure(struct bench *b, uint32_t session_tokens)
{
    uint32_t tokens = b->sequences * b->length;
    b->floats = (size_t)b->sequences * b->config.hidden;
    b->out = need(calloc(IN_FLIGHT_MOST * b->floats, sizeof *b->out));
    batch_make(b);
    blocking(b);
    submitted(b, tokens, 2);
    submitted(b, tokens, 3);
    if (session_tokens > tokens) {
        submitted(b, session_tokens, 16);
        submitted(b, session_tokens, 64);
        submitted(b, session_tokens, 512);
    }
    free(b->out);
    free((void *)b->batch.offsets);
    free((void *)b->batch.ids);
}

int main(int argc, char **argv)
{
    struct bench b = {.config = {.struct_size = sizeof b.config}};
    if (argc < 6) {
        fprintf(stderr, "usage: tickets DEVICE CONFIG f32|f16|default BATCHxLENGTH[,...] SECONDS [SESSION_TOKENS "
                        "[MAX_SUBMIT_MS]]\n");
        return 2;
    }
    b.dtype = !strcmp(argv[3], "f16")   ? WHERRY_DTYPE_F16
              : !strcmp(argv[3], "f32") ? WHERRY_DTYPE_F32
                                        : WHERRY_DTYPE_DEFAULT;
    b.seconds = atof(argv[5]);
    b.max_submit_ms = argc > 7 ? atof(argv[7]) : 0;
    if (wherry_context_create(NULL, &b.context)) return 1;
    check(&b, wherry_device_open(b.context, argv[1], &b.device), "wherry_device_open");
    check(&b, wherry_model_config_named(b.context, argv[2], &b.config), "wherry_model_config_named");
    check(&b, wherry_model_create_random(b.context, &b.config, 1, &b.model), "wherry_model_create_random");
    for (const char *shapes = argv[4]; *shapes;) {
        if (!shape_read(&b, &shapes)) return 2;
        measure(&b, argc > 6 ? (uint32_t)atoi(argv[6]) : 0);
    }
    wherry_model_close(b.model);
    wherry_device_close(b.device);
    wherry_context_destroy(b.context);
    return 0;
}
