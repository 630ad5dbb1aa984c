/* How the command ends: signals that ask it to stop, and temporary files that go with it. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700 /* SIGXFSZ */

#include "system.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t stopped, noticed, patient;

void system_stop_waits(bool waits) { patient = waits; }

/* ---- temporary files ---- */

enum { TEMPORARIES = 16 };
static const char *volatile temporaries[TEMPORARIES];

void system_temporary_add(const char *path)
{
    for (int n = 0; n < TEMPORARIES; n++) {
        if (temporaries[n]) continue;
        temporaries[n] = path;
        return;
    }
}

void system_temporary_done(const char *path)
{
    for (int n = 0; n < TEMPORARIES; n++)
        if (temporaries[n] == path) temporaries[n] = NULL;
}

#ifdef _WIN32

#include <fcntl.h>
#include <io.h>
#include <windows.h>

bool system_stopped(void)
{
    if (stopped) noticed = 1;
    return stopped != 0;
}

static void temporaries_remove(void)
{
    for (int n = 0; n < TEMPORARIES; n++)
        if (temporaries[n]) _unlink(temporaries[n]);
}

/* Runs in a thread of its own. */
static void stop(int number)
{
    if (!stopped) {
        stopped = 1;
        signal(number, stop);
        Sleep(1000);
        if (noticed || patient) return;
    }
    temporaries_remove();
    _exit(128 + number);
}

void system_init(void)
{
    atexit(temporaries_remove);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
}

#else

#include <pthread.h>
#include <unistd.h>

/* Signals of one kind that come within so many seconds are one: `timeout` sends its own to the process and to the
 * process' group. */
enum { ONE_SIGNAL = 2 };
static volatile sig_atomic_t stopped_at; /* monotonic seconds, whole ones */

static sig_atomic_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (sig_atomic_t)now.tv_sec;
}

bool system_stopped(void)
{
    if (stopped && !noticed) {
        noticed = 1;
        alarm(0);
    }
    return stopped != 0;
}

static void temporaries_remove(void)
{
    for (int n = 0; n < TEMPORARIES; n++)
        if (temporaries[n]) unlink(temporaries[n]);
}

/* By the signal itself, so that the caller sees it. */
static void end_by(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    temporaries_remove();
    sigaction(number, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

/* No call of a driver can be interrupted: the alarm ends the process where it does not come back. */
static void stop(int number)
{
    sig_atomic_t now = seconds_now();
    if (stopped == number && now - stopped_at < ONE_SIGNAL) return;
    if (stopped) end_by(number);
    stopped_at = now; /* first: a second signal may come to another thread */
    stopped = number;
    if (!patient) alarm(1);
}

static void stop_late(int number)
{
    static const char text[] = "wherry: interrupted\n";
    (void)number;
    if (noticed) return;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    end_by((int)stopped);
}

void system_init(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    atexit(temporaries_remove);
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL); /* a file too large for the process' limit becomes a failed write, too */
    action.sa_handler = stop_late;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = stop;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

#endif
