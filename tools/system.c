/* The only file of the command that calls the operating system, beside system_stop.c: clock, terminal, safe
 * replacing. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700 /* realpath */

#include "system.h"
#include "processor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* Where the system gives no random bytes: mixes the clock and the process number. */
static void mix_random(unsigned char *bytes, size_t count)
{
    unsigned long long state = (unsigned long long)(1e9 * system_seconds()) ^ (unsigned long long)time(NULL) << 32 ^
                               (unsigned long long)system_process() << 16;
    for (size_t n = 0; n < count; n++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[n] = (unsigned char)(state >> 56);
    }
}

#ifdef _WIN32

#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <windows.h>

double system_seconds(void)
{
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}

bool system_is_terminal(FILE *file) { return _isatty(_fileno(file)) != 0; }

unsigned long system_process(void) { return (unsigned long)_getpid(); }

void system_random(unsigned char *bytes, size_t count) { mix_random(bytes, count); }

void system_sleep(double seconds) { Sleep((DWORD)(1e3 * seconds)); }

/* Not done here: what asks for it goes on in one process. */
long system_start(char **arguments)
{
    (void)arguments;
    return 0;
}

bool system_ended(long process, int *code)
{
    (void)process;
    *code = -1;
    return true;
}

void system_end(long process) { (void)process; }

void system_describe(struct system_host *out)
{
    SYSTEM_INFO info;
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    const char *cpu = getenv("PROCESSOR_IDENTIFIER");
    GetSystemInfo(&info);
    *out = (struct system_host){.cores = info.dwNumberOfProcessors};
    snprintf(out->os, sizeof out->os, "Windows");
    snprintf(out->cpu, sizeof out->cpu, "%s", cpu ? cpu : "");
    if (GlobalMemoryStatusEx(&memory)) out->ram_bytes = memory.ullTotalPhys;
}

bool system_is_special(const char *path)
{
    struct _stat64 status;
    return _stat64(path, &status) == 0 && !(status.st_mode & (_S_IFREG | _S_IFDIR));
}

char *system_resolve(const char *path) { return copy_text(path); }

bool system_is_dangling(const char *path)
{
    DWORD attributes = GetFileAttributesA(path); /* of a link: its own */
    struct _stat64 status;
    return attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_REPARSE_POINT && _stat64(path, &status);
}

static bool identify(HANDLE file, BY_HANDLE_FILE_INFORMATION *out)
{
    return file != INVALID_HANDLE_VALUE && GetFileType(file) == FILE_TYPE_DISK && GetFileInformationByHandle(file, out);
}

static HANDLE open_to_ask(const char *path)
{
    return CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
}

bool system_is_same(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION x, y;
    HANDLE first = open_to_ask(a), second = b ? open_to_ask(b) : GetStdHandle(STD_INPUT_HANDLE);
    bool same = identify(first, &x) && identify(second, &y) && x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
                x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
    if (first != INVALID_HANDLE_VALUE) CloseHandle(first);
    if (b && second != INVALID_HANDLE_VALUE) CloseHandle(second);
    return same;
}

void system_list(const char *folder, void (*take)(const char *path, void *user), void *user)
{
    char path[4096];
    WIN32_FIND_DATAA entry;
    if ((size_t)snprintf(path, sizeof path, "%s\\*", folder) >= sizeof path) return;
    HANDLE list = FindFirstFileA(path, &entry);
    if (list == INVALID_HANDLE_VALUE) return;
    do {
        int n = snprintf(path, sizeof path, "%s\\%s", folder, entry.cFileName);
        if (entry.cFileName[0] != '.' && n > 0 && (size_t)n < sizeof path) take(path, user);
    } while (FindNextFileA(list, &entry));
    FindClose(list);
}

/* The new file has the folder's access list; MoveFileEx gives it to nobody else. */
FILE *system_create(const char *path, const char *old)
{
    (void)old;
    return fopen(path, "w+bx");
}

FILE *system_spool(char **folder)
{
    const char *names[] = {"TMPDIR", "TMP", "TEMP"}, *at = ".";
    for (int n = 2; n >= 0; n--)
        if (getenv(names[n]) && *getenv(names[n])) at = getenv(names[n]);
    size_t size = strlen(at) + 64;
    char *path = malloc(size);
    FILE *file = NULL;
    *folder = copy_text(at);
    for (int attempt = 0; path && *folder && !file && attempt < 100; attempt++) {
        snprintf(path, size, "%s\\wherry-%lu-%d.tmp", at, system_process(), attempt);
        file = fopen(path, "w+bxTD"); /* kept in memory while there is room; gone when it is closed */
        if (!file && errno != EEXIST) break;
    }
    free(path);
    return file;
}

/* The folder of a path, as memory to free; NULL: out of memory. */
static char *parent_of(const char *path)
{
    char *folder = copy_text(path), *end = folder;
    if (!folder) return NULL;
    for (char *c = folder; *c; c++)
        if (*c == '/' || *c == '\\') end = c + (c == folder || c[-1] == ':');
    *end = 0;
    if (*folder) return folder;
    free(folder);
    return copy_text(".");
}

int system_writable(const char *path)
{
    struct _stat64 status;
    if (_stat64(path, &status) == 0) return status.st_mode & _S_IFDIR ? EISDIR : _access(path, 2) ? errno : 0;
    if (errno != ENOENT) return errno;
    char *folder = parent_of(path);
    int code = !folder ? ENOMEM : _stat64(folder, &status) ? errno : status.st_mode & _S_IFDIR ? 0 : ENOTDIR;
    free(folder);
    return code;
}

int system_sync(FILE *file) { return fflush(file) ? -1 : _commit(_fileno(file)); }

int system_replace(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) return 0;
    errno = EACCES;
    return -1;
}

#else

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

double system_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool system_is_terminal(FILE *file) { return isatty(fileno(file)) == 1; }

unsigned long system_process(void) { return (unsigned long)getpid(); }

void system_random(unsigned char *bytes, size_t count)
{
    FILE *file = fopen("/dev/urandom", "rb");
    if (!file || fread(bytes, 1, count, file) != count) mix_random(bytes, count);
    if (file) fclose(file);
}

void system_sleep(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
}

long system_start(char **arguments)
{
    static const char self[] = "/proc/self/exe"; /* Linux; elsewhere by its name */
    posix_spawn_file_actions_t actions;
    pid_t process = 0;
    if (posix_spawn_file_actions_init(&actions)) return 0;
    int code = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!code)
        code = access(self, X_OK) ? posix_spawnp(&process, arguments[0], &actions, NULL, arguments, environ)
                                  : posix_spawn(&process, self, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code ? 0 : (long)process;
}

bool system_ended(long process, int *code)
{
    int status = 0;
    pid_t ended = waitpid((pid_t)process, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    *code = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
}

void system_end(long process) { kill((pid_t)process, SIGTERM); }

void system_describe(struct system_host *out)
{
    struct utsname name;
    *out = (struct system_host){.cores = 0};
    if (uname(&name) >= 0) snprintf(out->os, sizeof out->os, "%.60s %.60s", name.sysname, name.release);
    processor_name("/proc/cpuinfo", out->cpu, sizeof out->cpu); /* Linux; elsewhere it stays "" */
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (cores > 0) out->cores = (unsigned long)cores;
    if (pages > 0 && page > 0) out->ram_bytes = (unsigned long long)pages * (unsigned long long)page;
}

bool system_is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

char *system_resolve(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : copy_text(path);
}

bool system_is_dangling(const char *path)
{
    struct stat status;
    return stat(path, &status) != 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

bool system_is_same(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) != 0 || (b ? stat(b, &y) : fstat(STDIN_FILENO, &y)) != 0) return false;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void system_list(const char *folder, void (*take)(const char *path, void *user), void *user)
{
    char path[4096];
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && n > 0 && (size_t)n < sizeof path) take(path, user);
    }
    if (list) closedir(list);
}

/* Owner first: that clears bits of the mode. Who may not give the file its group gives that no more than all others. */
static void take_owner(int file, const struct stat *old)
{
    mode_t mode = old->st_mode & 0777;
    bool same = fchown(file, old->st_uid, old->st_gid) == 0 || fchown(file, (uid_t)-1, old->st_gid) == 0;
    if (!same) mode = (mode & 0707) | (mode & 07) << 3;
    (void)!fchmod(file, mode); /* a file system without modes has none to keep */
}

FILE *system_create(const char *path, const char *old)
{
    struct stat status;
    bool replaces = stat(old, &status) == 0;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
    if (file < 0) return NULL;
    if (replaces) take_owner(file, &status);
    FILE *stream = fdopen(file, "w+b");
    if (stream) return stream;
    int code = errno;
    close(file);
    unlink(path);
    errno = code;
    return NULL;
}

FILE *system_spool(char **folder)
{
    static const char name[] = "/wherry-XXXXXX";
    const char *at = getenv("TMPDIR");
    if (!at || !*at) at = "/tmp";
    char *path = malloc(strlen(at) + sizeof name);
    *folder = copy_text(at);
    int file = -1;
    if (path && *folder) {
        memcpy(path, at, strlen(at));
        memcpy(path + strlen(at), name, sizeof name);
        file = mkstemp(path);
        if (file >= 0) unlink(path);
    }
    free(path);
    FILE *stream = file >= 0 ? fdopen(file, "w+b") : NULL;
    if (file >= 0 && !stream) close(file);
    return stream;
}

/* The folder of a path, as memory to free; NULL: out of memory. */
static char *parent_of(const char *path)
{
    char *folder = copy_text(path), *end = folder ? strrchr(folder, '/') : NULL;
    if (end) {
        end[end == folder] = 0;
        return folder;
    }
    free(folder);
    return copy_text(".");
}

int system_writable(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return EISDIR;
        if (!S_ISREG(status.st_mode)) return access(path, W_OK) ? errno : 0;
    } else if (errno != ENOENT) {
        return errno;
    }
    if (path[strlen(path) - 1] == '/') return EISDIR; /* a folder that is not there */
    char *target = system_resolve(path), *folder = target ? parent_of(target) : NULL;
    int code = !folder ? ENOMEM : 0;
    if (folder) code = stat(folder, &status) ? errno : !S_ISDIR(status.st_mode) ? ENOTDIR : 0;
    if (!code && access(folder, W_OK | X_OK)) code = errno; /* a new file takes the old one's place there */
    free(folder);
    free(target);
    return code;
}

int system_sync(FILE *file) { return fflush(file) ? -1 : fsync(fileno(file)); }

int system_replace(const char *from, const char *to) { return rename(from, to); }

#endif
