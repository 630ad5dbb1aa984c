/* wherry-serve: answers requests over HTTP until it is told to stop. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "http.h"
#include "options.h"

struct program {
    int argc;
    char **argv;
    struct settings settings;
    struct server *server;
    struct http *http;
    sigset_t signals;
    atomic_bool ready, ended; /* what is told is heard; nobody has to listen any more */
};

/* ---- signals ---- */

/* Every other thread has them blocked. */
static void *listen_signals(void *user)
{
    struct program *p = user;
    bool stopping = false;
    for (int signal_number;;) {
        if (sigwait(&p->signals, &signal_number)) continue;
        if (signal_number == SIGUSR1 && atomic_load(&p->ended)) return NULL;
        if (signal_number == SIGUSR1) continue;
        if (signal_number == SIGHUP && !atomic_load(&p->ready)) continue;
        if (signal_number != SIGHUP && (stopping || !atomic_load(&p->ready))) _exit(EXIT_STOPPED);
        stopping |= signal_number != SIGHUP;
        server_tell(p->server, signal_number == SIGHUP ? EVENT_RELOAD : EVENT_STOP);
    }
}

static void block_signals(struct program *p)
{
    sigemptyset(&p->signals);
    sigaddset(&p->signals, SIGTERM);
    sigaddset(&p->signals, SIGINT);
    sigaddset(&p->signals, SIGHUP);
    sigaddset(&p->signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &p->signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- events ---- */

/* Models, and keys; what can't be read leaves both as they were. */
static void reload(struct program *p)
{
    struct settings fresh;
    if (settings_read(p->argc, p->argv, &fresh)) {
        complain(0, "nothing was read again: the old keys and models stay");
    } else if (server_reload(p->server)) {
        http_keys(p->http, fresh.keys, fresh.keys_count);
        if (!p->settings.quiet) complain(0, "the models were read again");
    } else {
        complain(0, "the models could not be read again: the old ones stay, and the old keys");
    }
    settings_free(&fresh);
}

/* A device that was lost may need a while. */
static void reopen(struct program *p, double *again, double *pause)
{
    if (server_reload(p->server)) {
        *again = 0;
        if (!p->settings.quiet) complain(0, "the device is open again");
    } else {
        *pause = *pause < 1 ? 1 : *pause < 30 ? 2 * *pause : 30;
        *again = clock_now() + *pause;
        complain(0, "the device could not be opened again; the next try is in %.0f s", *pause);
    }
}

static void answer(struct program *p)
{
    double again = 0, pause = 0; /* when to try to open the device again; 0: it is open */
    for (;;) {
        unsigned events = server_wait(p->server, again > 0 ? 0.1 : 3600);
        if (events & EVENT_STOP) return;
        if (events & EVENT_RELOAD) reload(p);
        if (events & EVENT_LOST) again = clock_now(), pause = 0;
        if (again > 0 && clock_now() >= again) reopen(p, &again, &pause);
    }
}

/* What runs is answered, for as long as a client may wait. */
static void drain(struct program *p)
{
    double end = clock_now() + p->settings.timeout;
    server_stop(p->server);
    if (!p->settings.quiet) complain(0, "stopping: %u requests are to be answered", server_calls(p->server));
    while (server_calls(p->server) && clock_now() < end) server_wait(p->server, 0.02);
    if (!server_calls(p->server)) return;
    complain(0, "%u requests were not answered within %g s", server_calls(p->server), p->settings.timeout);
    _exit(EXIT_DEVICE);
}

/* ---- the program ---- */

static int serve(struct program *p)
{
    pthread_t signals;
    block_signals(p);
    if (pthread_create(&signals, NULL, listen_signals, p))
        return complain(EXIT_DEVICE, "the system has no thread left");
    int code = server_open(&p->settings, &p->server);
    if (!code) code = http_open(p->server, &p->http);
    if (!code) {
        atomic_store(&p->ready, true);
        if (!p->settings.quiet) complain(0, "listening on %s", http_address(p->http));
        answer(p);
        drain(p);
    }
    atomic_store(&p->ended, true);
    pthread_kill(signals, SIGUSR1);
    pthread_join(signals, NULL);
    return code;
}

int main(int argc, char **argv)
{
    struct program p = {.argc = argc, .argv = argv};
    int code = settings_read(argc, argv, &p.settings);
    if (!code && p.settings.help) {
        settings_help();
    } else if (!code && p.settings.version) {
        printf("wherry-serve %d.%d.%d (library %s)\n", WHERRY_VERSION_MAJOR, WHERRY_VERSION_MINOR, WHERRY_VERSION_PATCH,
               wherry_version_string());
    } else if (!code) {
        code = serve(&p);
        http_close(p.http);
        server_close(p.server);
    }
    settings_free(&p.settings);
    return code;
}
