/* What the library asks of Windows. */
#include "base/platform_system.h"

#ifdef _WIN32

#include <inttypes.h>
#include <stdio.h>

/* ---- files ---- */

bool fail_system(struct error *e, const char *what, const char *path, DWORD code)
{
    char text[256] = "";
    DWORD length = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, text,
                                  sizeof text, NULL);
    while (length && (text[length - 1] == '\n' || text[length - 1] == '\r' || text[length - 1] == '.')) {
        text[--length] = 0;
    }
    const char *remedy = code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? " (check the path)"
                         : code == ERROR_ACCESS_DENIED                                ? " (check the permissions)"
                         : code == ERROR_DISK_FULL                                    ? " (make room and try again)"
                                                                                      : "";
    return fail(e, WHERRY_STATUS_IO, "%s %s failed: %s (system error %lu)%s", what, path, text, (unsigned long)code,
                remedy);
}

bool path_wide(const char *path, wchar_t *wide, size_t count, struct error *e)
{
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, (int)count)) {
        return fail(e, WHERRY_STATUS_IO, "the path %.200s is not valid UTF-8 or longer than %zu characters", path,
                    count - 1);
    }
    return true;
}

/* Of a file that was just opened; closes it where that fails. */
static bool ask_size(HANDLE file, const char *path, uint64_t *size, struct error *e)
{
    LARGE_INTEGER length;
    if (!GetFileSizeEx(file, &length)) {
        DWORD code = GetLastError();
        CloseHandle(file);
        return fail_system(e, "asking the size of", path, code);
    }
    *size = (uint64_t)length.QuadPart;
    return true;
}

bool system_open_read(const char *path, system_file *file, uint64_t *size, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    *file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (*file == INVALID_HANDLE_VALUE) {
        DWORD code = GetLastError(), attributes = GetFileAttributesW(wide);
        /* Of a folder Windows says that access is denied. */
        if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY)
            return fail(e, WHERRY_STATUS_IO, "%.600s is not a regular file: give the path of a file", path);
        return fail_system(e, "opening", path, code);
    }
    return ask_size(*file, path, size, e);
}

bool file_open(const char *path, struct file *out, struct error *e)
{
    HANDLE file;
    uint64_t size;
    TRY(system_open_read(path, &file, &size, e));
    *out = (struct file){.handle = (intptr_t)file, .open = true};
    return true;
}

void file_close(struct file *file)
{
    if (file->open) CloseHandle((HANDLE)file->handle);
    *file = (struct file){0};
}

bool file_read_at(const struct file *file, const char *path, uint64_t offset, void *to, size_t size, size_t *got,
                  struct error *e)
{
    *got = 0;
    while (*got < size) {
        DWORD want = size - *got < READ_CHUNK ? (DWORD)(size - *got) : READ_CHUNK, n = 0;
        uint64_t at = offset + *got;
        OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        if (!ReadFile((HANDLE)file->handle, (char *)to + *got, want, &n, &place)) {
            DWORD code = GetLastError();
            if (code == ERROR_HANDLE_EOF) break;
            return fail_system(e, "reading", path, code);
        }
        if (!n) break;
        *got += n;
    }
    return true;
}

bool file_stamp(const struct file *file, const char *path, struct file_stamp *out, struct error *e)
{
    BY_HANDLE_FILE_INFORMATION info;
    if (!GetFileInformationByHandle((HANDLE)file->handle, &info)) {
        return fail_system(e, "asking the size of", path, GetLastError());
    }
    out->bytes = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    out->modified = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime);
    return true;
}

static bool is_missing(DWORD code) { return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND; }

bool system_exists(const char *path, bool *exists, bool *is_folder, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    DWORD attributes = GetFileAttributesW(wide); /* of a link: its own */
    *exists = attributes != INVALID_FILE_ATTRIBUTES;
    if (!*exists) return is_missing(GetLastError()) || fail_system(e, "looking for", path, GetLastError());
    *is_folder = attributes & FILE_ATTRIBUTE_DIRECTORY;
    if (*is_folder || !(attributes & FILE_ATTRIBUTE_REPARSE_POINT)) return true;
    HANDLE target = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (target != INVALID_HANDLE_VALUE) {
        CloseHandle(target);
        return true;
    }
    DWORD code = GetLastError();
    if (!is_missing(code)) return fail_system(e, "looking for", path, code);
    return fail(e, WHERRY_STATUS_IO,
                "%.400s is a link whose target is missing: fetch the file again, or the whole folder", path);
}

bool system_read(system_file file, const char *path, char *data, size_t size, size_t *got, struct error *e)
{
    *got = 0;
    while (*got < size) {
        DWORD want = size - *got < READ_CHUNK ? (DWORD)(size - *got) : READ_CHUNK, n = 0;
        if (!ReadFile(file, data + *got, want, &n, NULL)) return fail_system(e, "reading", path, GetLastError());
        if (!n) break;
        *got += n;
    }
    return true;
}

void system_close(system_file file) { CloseHandle(file); }

static bool write_all(HANDLE file, const unsigned char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        DWORD want = size - done < READ_CHUNK ? (DWORD)(size - done) : READ_CHUNK, n = 0;
        if (!WriteFile(file, data + done, want, &n, NULL)) return false;
        done += n;
    }
    return FlushFileBuffers(file);
}

bool system_make_folder(const char *path, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    if (CreateDirectoryW(wide, NULL)) return true;
    DWORD code = GetLastError(), attributes = GetFileAttributesW(wide);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) return true;
    return fail_system(e, "making the folder", path, code);
}

bool path_separates(char c) { return c == '/' || c == '\\'; }

/* "C:" and "" before a leading separator are not folders to make. */
bool path_is_root(const char *path) { return !*path || (path[1] == ':' && !path[2]); }

/* ---- the cache ---- */

void cache_folder(char *path, size_t size)
{
    wchar_t wide[PATH_BYTES];
    char local[PATH_BYTES];
    if (size) *path = 0;
    DWORD n = GetEnvironmentVariableW(L"LOCALAPPDATA", wide, PATH_BYTES);
    if (!n || n >= PATH_BYTES || !WideCharToMultiByte(CP_UTF8, 0, wide, -1, local, sizeof local, NULL, NULL)) return;
    int length = snprintf(path, size, "%s\\wherry", local);
    if (size && (length < 0 || (size_t)length >= size)) *path = 0;
}

/* Who may write there is for the folder's access list to say (platform.h). */
bool cache_check(const char *folder, struct error *e)
{
    (void)folder, (void)e;
    return true;
}

/* Opens the file itself, where it is a link, and refuses that. */
static bool open_unlinked(const char *path, DWORD access, DWORD how, HANDLE *file, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    *file = CreateFileW(wide, access, FILE_SHARE_READ, NULL, how, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT,
                        NULL);
    if (*file == INVALID_HANDLE_VALUE) return fail_system(e, "opening", path, GetLastError());
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileInformationByHandle(*file, &info) && !(info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT))
        return true;
    CloseHandle(*file);
    return fail(e, WHERRY_STATUS_IO,
                "%.500s is a link, which is not followed in a cache: delete it, or use another cache folder (--cache, "
                "cache_dir)",
                path);
}

bool system_open_cached(const char *path, bool *exists, system_file *file, uint64_t *size, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    *exists = GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
    if (!*exists) return is_missing(GetLastError()) || fail_system(e, "looking for", path, GetLastError());
    return open_unlinked(path, GENERIC_READ, OPEN_EXISTING, file, e) && ask_size(*file, path, size, e);
}

bool system_write_cached(const char *path, const void *data, size_t size, struct error *e)
{
    wchar_t to[PATH_BYTES], from[PATH_BYTES];
    TRY(path_wide(path, to, PATH_BYTES, e));
    HANDLE file = INVALID_HANDLE_VALUE;
    char temporary[PATH_BYTES];
    for (int attempt = 0; attempt < 100 && file == INVALID_HANDLE_VALUE; attempt++) {
        int n = snprintf(temporary, sizeof temporary, "%s.%lu-%" PRIx64 ".tmp", path,
                         (unsigned long)GetCurrentProcessId(), clock_ns());
        if (n < 0 || (size_t)n >= sizeof temporary) {
            return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long to be written", path);
        }
        TRY(path_wide(temporary, from, PATH_BYTES, e));
        file = CreateFileW(from, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file == INVALID_HANDLE_VALUE && GetLastError() != ERROR_FILE_EXISTS) break;
    }
    if (file == INVALID_HANDLE_VALUE) return fail_system(e, "creating a temporary file beside", path, GetLastError());
    bool ok = write_all(file, data, size);
    DWORD code = ok ? 0 : GetLastError();
    CloseHandle(file);
    if (ok && !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        ok = false;
        code = GetLastError();
    }
    if (ok) return true;
    DeleteFileW(from);
    return fail_system(e, "writing", path, code);
}

bool system_append_cached(const char *path, const void *data, size_t size, struct error *e)
{
    HANDLE file;
    TRY(open_unlinked(path, FILE_APPEND_DATA, OPEN_ALWAYS, &file, e));
    bool ok = write_all(file, data, size);
    DWORD code = ok ? 0 : GetLastError();
    CloseHandle(file);
    return ok || fail_system(e, "writing", path, code);
}

/* ---- clock and threads ---- */

uint64_t clock_ns(void)
{
    LARGE_INTEGER ticks, rate;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&rate);
    uint64_t t = (uint64_t)ticks.QuadPart, r = (uint64_t)rate.QuadPart;
    return t / r * 1000000000u + t % r * 1000000000u / r;
}

/* In milliseconds, of which it takes one at least. */
void sleep_ns(uint64_t ns) { Sleep((DWORD)((ns + 999999) / 1000000)); }

static uint64_t file_time_ns(FILETIME time) { return ((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) * 100; }

uint64_t processor_ns(void)
{
    FILETIME created, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user)) return 0;
    return file_time_ns(kernel) + file_time_ns(user);
}

uint64_t counter_next(shared_counter *counter) { return (uint64_t)InterlockedIncrement64(counter) - 1; }

uint64_t counter_get(shared_counter *counter) { return (uint64_t)InterlockedCompareExchange64(counter, 0, 0); }
void counter_set(shared_counter *counter, uint64_t value) { InterlockedExchange64(counter, (LONG64)value); }
void thread_pause(void) { YieldProcessor(); }

bool thread_start(thread_handle *thread, thread_function run, void *argument)
{
    *thread = CreateThread(NULL, 0, run, argument, 0, NULL);
    return *thread != NULL;
}

void thread_join(thread_handle thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

void lock_make(system_lock *lock, system_condition *condition)
{
    InitializeSRWLock(lock);
    InitializeConditionVariable(condition);
}

void lock_free(system_lock *lock, system_condition *condition) { (void)lock, (void)condition; }
void lock_enter(system_lock *lock) { AcquireSRWLockExclusive(lock); }
void lock_leave(system_lock *lock) { ReleaseSRWLockExclusive(lock); }
void condition_wait(system_condition *condition, system_lock *lock)
{
    SleepConditionVariableSRW(condition, lock, INFINITE, 0);
}
void condition_wake(system_condition *condition) { WakeAllConditionVariable(condition); }

static SRWLOCK once_lock = SRWLOCK_INIT;
static CONDITION_VARIABLE once_done = CONDITION_VARIABLE_INIT;
void once_enter(void) { AcquireSRWLockExclusive(&once_lock); }
void once_leave(void) { ReleaseSRWLockExclusive(&once_lock); }
void once_wait(void) { SleepConditionVariableSRW(&once_done, &once_lock, INFINITE, 0); }
void once_wake(void) { WakeAllConditionVariable(&once_done); }

/* ---- libraries ---- */

void *system_library(const char *name, char *why, size_t size)
{
    HMODULE library = *name ? LoadLibraryA(name) : GetModuleHandleA(NULL);
    if (!library) snprintf(why, size, "%s: Windows' error %lu", name, (unsigned long)GetLastError());
    return library;
}

library_function library_get(void *library, const char *symbol)
{
    return (library_function)(void *)GetProcAddress(library, symbol);
}

/* ---- processes ---- */

uint64_t process_number(void) { return GetCurrentProcessId(); }

bool process_runs(uint64_t number)
{
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)number);
    if (!process) return GetLastError() == ERROR_ACCESS_DENIED;
    bool runs = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    CloseHandle(process);
    return runs;
}

#endif
