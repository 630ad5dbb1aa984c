/* Programs that this process starts, and the path of its own. */
#ifdef __linux__
#define _GNU_SOURCE /* readlink's /proc/self/exe is Linux's */
#endif
#include "base/platform_system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32

/* A word of a command line as the C runtime takes it apart: in quotes, those within and what is before them escaped. */
static bool add_word(char *line, size_t size, size_t *used, const char *word)
{
    size_t slashes = 0;
    bool fits = *used + 2 * strlen(word) + 4 < size;
    if (!fits) return false;
    if (*used) line[(*used)++] = ' ';
    line[(*used)++] = '"';
    for (; *word; word++) {
        if (*word == '"')
            for (slashes++; slashes; slashes--) line[(*used)++] = '\\';
        slashes = *word == '\\' ? slashes + 1 : 0;
        line[(*used)++] = *word;
    }
    for (; slashes; slashes--) line[(*used)++] = '\\';
    line[(*used)++] = '"';
    line[*used] = 0;
    return true;
}

bool process_start(const char *const *arguments, struct child *child, struct error *e)
{
    char line[2 * PATH_BYTES];
    wchar_t wide[2 * PATH_BYTES];
    size_t used = 0;
    HANDLE from = NULL, to = NULL;
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    STARTUPINFOW start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES};
    PROCESS_INFORMATION made;
    bool ok = true;
    for (const char *const *word = arguments; ok && *word; word++) ok = add_word(line, sizeof line, &used, *word);
    if (!ok || !MultiByteToWideChar(CP_UTF8, 0, line, -1, wide, 2 * PATH_BYTES) ||
        !CreatePipe(&from, &to, &inherited, 0))
        return fail(e, WHERRY_STATUS_IO, "%.300s can't be started: no pipe, or its arguments are too long",
                    arguments[0]);
    SetHandleInformation(from, HANDLE_FLAG_INHERIT, 0);
    start.hStdOutput = start.hStdError = to;
    ok = CreateProcessW(NULL, wide, NULL, NULL, TRUE, CREATE_NO_WINDOW, NULL, NULL, &start, &made);
    DWORD code = GetLastError();
    CloseHandle(to);
    if (!ok) {
        CloseHandle(from);
        return fail(e, WHERRY_STATUS_IO, "%.300s can't be started: error %lu", arguments[0], (unsigned long)code);
    }
    CloseHandle(made.hThread);
    *child = (struct child){(intptr_t)made.hProcess, (intptr_t)from};
    return true;
}

int process_read(const struct child *child, char *text, size_t size, uint32_t milliseconds)
{
    for (uint64_t end = clock_ns() + (uint64_t)milliseconds * 1000000u;; Sleep(10)) {
        DWORD ready = 0, got = 0;
        if (!PeekNamedPipe((HANDLE)child->output, NULL, 0, NULL, &ready, NULL)) return 0;
        if (ready)
            return ReadFile((HANDLE)child->output, text, (DWORD)(ready < size ? ready : size), &got, NULL) ? (int)got
                                                                                                           : 0;
        if (clock_ns() >= end) return -1;
    }
}

void process_finish(struct child *child, bool stop, char how[64])
{
    DWORD code = 0;
    if (stop) TerminateProcess((HANDLE)child->process, 1);
    WaitForSingleObject((HANDLE)child->process, INFINITE);
    GetExitCodeProcess((HANDLE)child->process, &code);
    snprintf(how, 64, code < 256 ? "exit status %lu" : "exception 0x%08lX", (unsigned long)code);
    CloseHandle((HANDLE)child->process);
    CloseHandle((HANDLE)child->output);
}

void process_path(char *path, size_t size)
{
    wchar_t wide[PATH_BYTES];
    DWORD n = GetModuleFileNameW(NULL, wide, PATH_BYTES);
    if (size) *path = 0;
    if (n && n < PATH_BYTES && !WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)size, NULL, NULL) && size)
        *path = 0;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

extern char **environ;

/* Its standard input is empty, its signals are not those that this thread blocks. */
static int spawn(const char *const *arguments, int output, pid_t *process)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    int code = posix_spawn_file_actions_init(&files);
    if (code) return code;
    if ((code = posix_spawnattr_init(&attributes)) == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        code = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (!code) code = posix_spawn_file_actions_adddup2(&files, output, 1);
        if (!code) code = posix_spawn_file_actions_adddup2(&files, output, 2);
        if (!code)
            code =
                posix_spawn(process, arguments[0], &files, &attributes, (char *const *)(uintptr_t)arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return code;
}

bool process_start(const char *const *arguments, struct child *child, struct error *e)
{
    int ends[2];
    pid_t process = 0;
    int code = pipe(ends) ? errno : 0;
    if (!code) {
        for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        code = spawn(arguments, ends[1], &process);
        close(ends[1]);
        if (code) close(ends[0]);
    }
    if (code) return fail(e, WHERRY_STATUS_IO, "%.300s can't be started: %s", arguments[0], strerror(code));
    *child = (struct child){process, ends[0]};
    return true;
}

int process_read(const struct child *child, char *text, size_t size, uint32_t milliseconds)
{
    struct pollfd wait = {.fd = (int)child->output, .events = POLLIN};
    int ready = poll(&wait, 1, (int)milliseconds);
    if (ready < 0 && errno == EINTR) return -1;
    if (!ready) return -1;
    ssize_t got = read((int)child->output, text, size);
    return got < 0 && errno == EINTR ? -1 : got < 0 ? 0 : (int)got;
}

/* An application that ignores SIGCHLD has the system forget how it ended. */
void process_finish(struct child *child, bool stop, char how[64])
{
    int status = 0;
    pid_t got;
    if (stop) kill((pid_t)child->process, SIGKILL);
    while ((got = waitpid((pid_t)child->process, &status, 0)) < 0 && errno == EINTR) {
    }
    if (got < 0)
        snprintf(how, 64, "an end that nobody knows");
    else if (WIFSIGNALED(status))
        snprintf(how, 64, "signal %d", WTERMSIG(status));
    else
        snprintf(how, 64, "exit status %d", WEXITSTATUS(status));
    close((int)child->output);
}

void process_path(char *path, size_t size)
{
    if (!size) return;
    *path = 0;
#ifdef __linux__
    ssize_t got = readlink("/proc/self/exe", path, size - 1);
    path[got > 0 ? got : 0] = 0;
#elif defined(__APPLE__)
    uint32_t room = (uint32_t)size;
    if (_NSGetExecutablePath(path, &room)) *path = 0;
#endif
}

#endif
