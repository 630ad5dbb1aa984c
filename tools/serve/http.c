/* Connections: bytes in, bytes out, by libmicrohttpd. */
#include "http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "clock.h"
#include "complain.h"
#include "listen.h"
#include "options.h"
#include "routes.h"

/* What a client that sends too much may send before the connection is cut, so that most see the answer that says so;
 * and how slow a client may be, once it has had the time that it is given in any case. */
enum { DISCARD_MOST = 64 << 20, LEAST_RATE = 1 << 16 };
/* Of all bodies that are being received: beyond, new ones are refused. */
enum { BODIES_MOST = 512 << 20 };

enum phase { RECEIVING, WORKING, SENDING };

/* A connection, for those that watch it. */
struct peer {
    int socket;
    enum phase phase;
    double since;
    size_t bytes; /* that the phase has to move */
    bool cut;
    struct peer *next, *previous;
};

struct http {
    struct server *server;
    const struct settings *settings;
    struct MHD_Daemon *daemon;
    char address[ADDRESS];
    pthread_t watcher;
    bool watched, stop;
    pthread_cond_t stopped;
    pthread_mutex_t mutex; /* of stop, peers and keys */
    struct peer *peers;
    char *keys[KEYS_MOST];
    uint32_t keys_count;
    atomic_size_t bodies;
};

/* ---- peers ---- */

static void peer_notice(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code)
{
    struct http *http = user;
    struct peer *peer = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = peer = need(calloc(1, sizeof *peer));
        peer->socket = info ? info->connect_fd : -1;
        peer->since = clock_now();
        pthread_mutex_lock(&http->mutex);
        peer->next = http->peers;
        if (http->peers) http->peers->previous = peer;
        http->peers = peer;
        pthread_mutex_unlock(&http->mutex);
    } else if (peer) {
        pthread_mutex_lock(&http->mutex);
        if (peer->next) peer->next->previous = peer->previous;
        if (peer->previous)
            peer->previous->next = peer->next;
        else
            http->peers = peer->next;
        pthread_mutex_unlock(&http->mutex);
        free(peer);
        *context = NULL;
    }
}

static struct peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void peer_phase(struct http *http, struct MHD_Connection *connection, enum phase phase, size_t bytes)
{
    struct peer *peer = peer_of(connection);
    if (!peer) return;
    pthread_mutex_lock(&http->mutex);
    peer->phase = phase;
    peer->since = clock_now();
    peer->bytes = bytes;
    pthread_mutex_unlock(&http->mutex);
}

/* Cuts what is too slow. A peer's socket is still its own: who closes it takes it from the list before. */
static void cut_slow(struct http *http)
{
    double now = clock_now(), timeout = http->settings->timeout;
    for (struct peer *peer = http->peers; peer; peer = peer->next) {
        if (peer->phase == WORKING || peer->cut || now - peer->since < timeout + (double)peer->bytes / LEAST_RATE)
            continue;
        peer->cut = true;
        shutdown(peer->socket, SHUT_RDWR);
        metrics_count(server_metrics(http->server), COUNT_CONNECTIONS_CUT, 1);
    }
}

static void *watch(void *user)
{
    struct http *http = user;
    double pause = http->settings->timeout < 4 ? http->settings->timeout / 4 : 1;
    pthread_mutex_lock(&http->mutex);
    while (!http->stop) {
        struct timespec end = clock_later(pause);
        pthread_cond_timedwait(&http->stopped, &http->mutex, &end);
        cut_slow(http);
    }
    pthread_mutex_unlock(&http->mutex);
    return NULL;
}

static void end_watch(struct http *http)
{
    if (!http->watched) return;
    pthread_mutex_lock(&http->mutex);
    http->stop = true;
    pthread_cond_signal(&http->stopped);
    pthread_mutex_unlock(&http->mutex);
    pthread_join(http->watcher, NULL);
}

/* ---- keys ---- */

static void drop_keys(struct http *http)
{
    for (uint32_t k = 0; k < http->keys_count; k++) free(http->keys[k]);
    http->keys_count = 0;
}

void http_keys(struct http *http, char *const *keys, uint32_t count)
{
    pthread_mutex_lock(&http->mutex);
    drop_keys(http);
    for (; http->keys_count < count; http->keys_count++)
        http->keys[http->keys_count] = need(strdup(keys[http->keys_count]));
    pthread_mutex_unlock(&http->mutex);
}

/* In a time that does not tell how much of it is right. */
static bool same_secret(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char different = n != m;
    for (size_t i = 0; i < n; i++) different |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !different;
}

static bool is_allowed(struct http *http, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    bool bearer = given && !strncmp(given, scheme, sizeof scheme - 1), allowed = false;
    pthread_mutex_lock(&http->mutex);
    for (uint32_t k = 0; k < http->keys_count; k++)
        if (bearer) allowed |= same_secret(given + sizeof scheme - 1, http->keys[k]);
    allowed |= !http->keys_count;
    pthread_mutex_unlock(&http->mutex);
    return allowed;
}

/* ---- answers ---- */

static void add_number(struct MHD_Response *response, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.0f", value);
    MHD_add_response_header(response, name, text);
}

/* Milliseconds, each an item's mean, as text-embeddings-inference gives them. */
static void add_times(struct http *http, struct MHD_Response *response, const struct call *call)
{
    double count = call->count ? call->count : 1, all = 1e3 * (clock_now() - call->received);
    struct engine *engine = server_engine(http->server);
    bool cpu = engine && engine_device(engine)->type == WHERRY_DEVICE_CPU;
    if (engine) engine_drop(engine);
    MHD_add_response_header(response, "x-compute-type", cpu ? "cpu" : "gpu+optimized");
    add_number(response, "x-compute-time", all);
    add_number(response, "x-compute-characters", (double)call->characters);
    add_number(response, "x-compute-tokens", (double)call->tokens);
    add_number(response, "x-total-time", all);
    add_number(response, "x-tokenization-time", 1e3 * call->tokenizing / count);
    add_number(response, "x-queue-time", 1e3 * call->queueing / count);
    add_number(response, "x-inference-time", 1e3 * call->running / count);
}

static enum MHD_Result send_answer(struct http *http, struct MHD_Connection *connection, struct call *call)
{
    if (call->gone) return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(call->answer.used, call->answer.at ? call->answer.at : (void *)"",
                                        call->answer.at ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    size_t bytes = call->answer.used;
    call->answer = (struct bytes){.at = NULL};
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, call->type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (!strncmp(call->type, "text/html", 9))
        MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    if (call->status == 429 || call->status == 503) MHD_add_response_header(response, "Retry-After", "1");
    if (call->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (call->status == 200 && call->tokens) add_times(http, response, call);
    if (server_stopping(http->server)) MHD_add_response_header(response, "Connection", "close");
    peer_phase(http, connection, SENDING, bytes);
    enum MHD_Result code = MHD_queue_response(connection, call->status, response);
    MHD_destroy_response(response);
    return code;
}

static void answered(struct call *call)
{
    call->answered = true;
    MHD_resume_connection(call->connection);
}

/* ---- requests ---- */

static void refuse(struct http *http, struct call *call, unsigned status, enum error_type type, enum failure failure,
                   const char *what)
{
    call_fail(call, status, type, failure, "%s", what);
    metrics_failed(server_metrics(http->server), failure);
    call->discard = true;
}

static void refuse_size(struct http *http, struct call *call)
{
    char text[128];
    snprintf(text, sizeof text, "the body is larger than %zu bytes, the limit (--payload-limit)",
             http->settings->payload);
    refuse(http, call, 413, ERROR_VALIDATION, FAILED_VALIDATION, text);
}

/* What is known before the body is there. */
static void check_head(struct http *http, struct MHD_Connection *connection, struct call *call, const char *url,
                       const char *method)
{
    bool other, post = !strcmp(method, "POST"), get = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    const struct route *route = post || get ? route_find(url, post, &other) : NULL;
    if (route) call->dialect = route->dialect;
    if (!(route && route->open) && !is_allowed(http, connection))
        refuse(http, call, 401, ERROR_VALIDATION, FAILED_UNAUTHORIZED,
               "an API key is needed: Authorization: Bearer KEY");
    else if (!post && !get)
        refuse(http, call, 405, ERROR_VALIDATION, FAILED_VALIDATION, "only GET, HEAD and POST are known here");
    else if (!route)
        refuse(http, call, other ? 405 : 404, ERROR_VALIDATION, FAILED_VALIDATION,
               other ? "this path has another method" : "there is nothing under this path");
    else if (!route->page && server_stopping(http->server))
        refuse(http, call, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "the server is stopping");
    else if (route->page)
        route->page(http->server, call, url + strlen(route->path));
    else
        call->task = route->task;
    if (route && route->page) call->discard = true;
}

static enum MHD_Result begin(struct http *http, struct MHD_Connection *connection, const char *url, const char *method,
                             void **context)
{
    struct call *call = *context = call_create();
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *expect = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    unsigned long long bytes = length ? strtoull(length, NULL, 10) : 0;
    call->connection = connection;
    call->socket = info ? info->connect_fd : -1;
    call->received = clock_now();
    check_head(http, connection, call, url, method);
    if (!call->discard && bytes > http->settings->payload) refuse_size(http, call);
    if (!call->discard && atomic_load(&http->bodies) > BODIES_MOST)
        refuse(http, call, 429, ERROR_OVERLOADED, FAILED_OVERLOADED,
               "Model is overloaded: too many bodies are being received");
    peer_phase(http, connection, RECEIVING, bytes < DISCARD_MOST ? (size_t)bytes : DISCARD_MOST);
    /* Who asks before sending is told; who sends more than is read is cut off. */
    if (call->discard && bytes && (expect || bytes > DISCARD_MOST)) return send_answer(http, connection, call);
    return MHD_YES;
}

static void drop_count(struct http *http, struct call *call)
{
    atomic_fetch_sub(&http->bodies, call->counted);
    call->counted = 0;
}

static enum MHD_Result take_body(struct http *http, struct call *call, const char *data, size_t size)
{
    if (!call->discard && call->body.used + size > http->settings->payload) {
        drop_count(http, call);
        bytes_free(&call->body);
        refuse_size(http, call);
    }
    if (call->discard) {
        call->discarded += size;
        return call->discarded <= DISCARD_MOST ? MHD_YES : MHD_NO;
    }
    atomic_fetch_add(&http->bodies, size);
    call->counted += size;
    bytes_put(&call->body, data, size);
    return MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **context)
{
    struct http *http = user;
    struct call *call = *context;
    (void)version;
    if (!call) return begin(http, connection, url, method, context);
    if (*size) {
        enum MHD_Result code = take_body(http, call, data, *size);
        *size = 0;
        return code;
    }
    if (call->answered || call->discard) return send_answer(http, connection, call);
    drop_count(http, call);
    peer_phase(http, connection, WORKING, 0);
    MHD_suspend_connection(connection);
    if (server_take(http->server, call, answered)) return MHD_YES;
    answered(call);
    return MHD_YES;
}

static void *request_line(void *user, const char *uri, struct MHD_Connection *connection)
{
    (void)uri;
    peer_phase(user, connection, RECEIVING, 0);
    return NULL;
}

static void completed(void *user, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
    struct http *http = user;
    struct call *call = *context;
    (void)code;
    *context = NULL;
    peer_phase(http, connection, RECEIVING, 0);
    if (!call) return;
    drop_count(http, call);
    server_release(http->server, call);
}

static void log_line(void *user, const char *format, va_list arguments)
{
    const struct http *http = user;
    if (!http->settings->verbose) return;
    char *text = shown_text(false, format, arguments);
    complain(0, "HTTP: %s", text);
    free(text);
}

/* ---- made and given back ---- */

/* Each connection is a file. */
static unsigned connections_most(const struct settings *settings)
{
    struct rlimit limit;
    unsigned wanted = 4 * settings->concurrent + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
    rlim_t need_files = (rlim_t)wanted + 128;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < need_files) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > need_files ? need_files : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need_files) return wanted;
    return limit.rlim_cur > 256 ? (unsigned)(limit.rlim_cur - 128) : 128;
}

int http_open(struct server *server, struct http **out)
{
    struct http *http = need(calloc(1, sizeof *http));
    const struct settings *settings = server_settings(server);
    http->server = server;
    http->settings = settings;
    pthread_mutex_init(&http->mutex, NULL);
    pthread_cond_init(&http->stopped, NULL);
    http->watched = !pthread_create(&http->watcher, NULL, watch, http);
    *out = http;
    if (!http->watched) return complain(EXIT_DEVICE, "the system has no thread left");
    http_keys(http, settings->keys, settings->keys_count);
    unsigned connections = connections_most(settings), threads = settings->http_threads;
    if (connections < threads) connections = threads;
    int file = listen_open(settings, http->address);
    if (file >= 0)
        http->daemon = MHD_start_daemon(
            MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, http,
            MHD_OPTION_EXTERNAL_LOGGER, log_line, http, MHD_OPTION_LISTEN_SOCKET, file, MHD_OPTION_THREAD_POOL_SIZE,
            threads, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned)settings->timeout + 1, MHD_OPTION_NOTIFY_COMPLETED, completed, http, MHD_OPTION_NOTIFY_CONNECTION,
            peer_notice, http, MHD_OPTION_URI_LOG_CALLBACK, request_line, http, MHD_OPTION_END);
    if (file >= 0 && !http->daemon) complain(0, "libmicrohttpd %s could not start", MHD_get_version());
    return http->daemon ? EXIT_FINE : EXIT_DEVICE;
}

void http_close(struct http *http)
{
    if (!http) return;
    end_watch(http);
    if (http->daemon) {
        MHD_stop_daemon(http->daemon);
        listen_close(http->settings);
    }
    drop_keys(http);
    pthread_cond_destroy(&http->stopped);
    pthread_mutex_destroy(&http->mutex);
    free(http);
}

const char *http_address(const struct http *http) { return http->address; }
