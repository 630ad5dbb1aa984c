/* Folders of results: made, listed, renamed and removed, and the files in them written. */
#include "base/platform_system.h"

#include <stdio.h>
#include <string.h>

#ifdef _WIN32

/* ---- Windows ---- */

bool file_create(const char *path, struct file *out, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    HANDLE file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return fail_system(e, "making", path, GetLastError());
    *out = (struct file){.handle = (intptr_t)file, .open = true};
    return true;
}

bool file_write(const struct file *file, const char *path, const void *data, size_t size, struct error *e)
{
    for (size_t done = 0; done < size;) {
        DWORD want = size - done < READ_CHUNK ? (DWORD)(size - done) : READ_CHUNK, n = 0;
        if (!WriteFile((HANDLE)file->handle, (const char *)data + done, want, &n, NULL))
            return fail_system(e, "writing", path, GetLastError());
        done += n;
    }
    return true;
}

bool file_sync(const struct file *file, const char *path, struct error *e)
{
    return FlushFileBuffers((HANDLE)file->handle) || fail_system(e, "writing", path, GetLastError());
}

bool folder_create(const char *path, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    return CreateDirectoryW(wide, NULL) || fail_system(e, "making the folder", path, GetLastError());
}

bool folder_list(const char *path, folder_callback each, void *user, struct error *e)
{
    char pattern[PATH_BYTES], name[PATH_BYTES];
    wchar_t wide[PATH_BYTES];
    WIN32_FIND_DATAW found;
    bool ok = true;
    int n = snprintf(pattern, sizeof pattern, "%s/*", path);
    if (n < 0 || (size_t)n >= sizeof pattern) return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long", path);
    TRY(path_wide(pattern, wide, PATH_BYTES, e));
    HANDLE list = FindFirstFileW(wide, &found);
    if (list == INVALID_HANDLE_VALUE) return fail_system(e, "reading the folder", path, GetLastError());
    do {
        if (!WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, sizeof name, NULL, NULL)) continue;
        if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
        ok = each(name, found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY,
                  (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow, user, e);
    } while (ok && FindNextFileW(list, &found));
    FindClose(list);
    return ok;
}

static bool folder_there(const char *path, bool *exists, bool *is_folder, struct error *e)
{
    return system_exists(path, exists, is_folder, e);
}

/* The system keeps lists of files by itself. */
bool folder_sync(const char *path, struct error *e)
{
    (void)path, (void)e;
    return true;
}

/* A folder can't take the name of another one there, be it empty. */
bool folder_rename(const char *from, const char *to, struct error *e)
{
    wchar_t wide_from[PATH_BYTES], wide_to[PATH_BYTES];
    TRY(path_wide(from, wide_from, PATH_BYTES, e) && path_wide(to, wide_to, PATH_BYTES, e));
    RemoveDirectoryW(wide_to);
    return MoveFileExW(wide_from, wide_to, MOVEFILE_WRITE_THROUGH) ||
           fail_system(e, "renaming the folder to", to, GetLastError());
}

static void remove_one(const char *path, bool is_folder)
{
    wchar_t wide[PATH_BYTES];
    struct error ignored;
    if (!path_wide(path, wide, PATH_BYTES, &ignored)) return;
    if (is_folder)
        RemoveDirectoryW(wide);
    else
        DeleteFileW(wide);
}

static bool is_link(const char *path)
{
    wchar_t wide[PATH_BYTES];
    struct error ignored;
    if (!path_wide(path, wide, PATH_BYTES, &ignored)) return true;
    DWORD attributes = GetFileAttributesW(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_REPARSE_POINT;
}

#else

/* ---- POSIX ---- */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_create(const char *path, struct file *out, struct error *e)
{
    int file;
    do {
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EINTR);
    if (file < 0) return fail_system(e, "making", path, errno);
    *out = (struct file){.handle = file, .open = true};
    return true;
}

bool file_write(const struct file *file, const char *path, const void *data, size_t size, struct error *e)
{
    for (size_t done = 0; done < size;) {
        size_t want = size - done < READ_CHUNK ? size - done : READ_CHUNK;
        ssize_t n = write((int)file->handle, (const char *)data + done, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_system(e, "writing", path, errno);
        done += (size_t)n;
    }
    return true;
}

/* EINVAL: a file system that has nothing to sync. */
bool file_sync(const struct file *file, const char *path, struct error *e)
{
    return !fsync((int)file->handle) || errno == EINVAL || fail_system(e, "writing", path, errno);
}

bool folder_create(const char *path, struct error *e)
{
    return !mkdir(path, 0777) || fail_system(e, "making the folder", path, errno);
}

bool folder_list(const char *path, folder_callback each, void *user, struct error *e)
{
    DIR *list = opendir(path);
    if (!list) return fail_system(e, "reading the folder", path, errno);
    bool ok = true;
    errno = 0;
    for (struct dirent *entry; ok && (entry = readdir(list)); errno = 0) {
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(dirfd(list), entry->d_name, &st, 0)) {
            if (errno == ENOENT) continue; /* a link to nothing, or removed just now */
            ok = fail_system(e, "asking the size of a file in", path, errno);
        } else if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
            ok = each(entry->d_name, S_ISDIR(st.st_mode), (uint64_t)st.st_size, user, e);
        }
    }
    if (ok && errno) ok = fail_system(e, "reading the folder", path, errno);
    closedir(list);
    return ok;
}

/* A link to nothing is something. */
static bool folder_there(const char *path, bool *exists, bool *is_folder, struct error *e)
{
    struct stat st;
    *exists = !lstat(path, &st);
    *is_folder = *exists && S_ISDIR(st.st_mode);
    return *exists || errno == ENOENT || fail_system(e, "looking for", path, errno);
}

bool folder_sync(const char *path, struct error *e)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return fail_system(e, "opening the folder", path, errno);
    bool ok = !fsync(folder) || errno == EINVAL || fail_system(e, "writing the folder", path, errno);
    close(folder);
    return ok;
}

bool folder_rename(const char *from, const char *to, struct error *e)
{
    char above[PATH_BYTES];
    const char *slash = strrchr(to, '/');
    size_t length = slash ? (size_t)(slash - to) : 0;
    if (length >= sizeof above) return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long", to);
    snprintf(above, sizeof above, "%.*s", (int)(length ? length : 1), length ? to : slash ? "/" : ".");
    if (rename(from, to)) return fail_system(e, "renaming the folder to", to, errno);
    return folder_sync(above, e);
}

static void remove_one(const char *path, bool is_folder)
{
    if (is_folder)
        rmdir(path);
    else
        unlink(path);
}

static bool is_link(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

#endif

/* ---- both ---- */

static bool not_empty(const char *name, bool is_folder, uint64_t bytes, void *user, struct error *e)
{
    (void)name, (void)is_folder, (void)bytes, (void)e;
    *(bool *)user = false;
    return true;
}

bool folder_is_free(const char *path, bool *is_free, struct error *e)
{
    bool exists, is_folder;
    TRY(folder_there(path, &exists, &is_folder, e));
    *is_free = !exists || is_folder;
    return !exists || !is_folder || folder_list(path, not_empty, is_free, e);
}

static bool remove_entry(const char *name, bool is_folder, uint64_t bytes, void *user, struct error *e)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    (void)bytes, (void)e;
    if (n < 0 || (size_t)n >= sizeof path) return true;
    if (is_folder && !is_link(path))
        folder_remove(path);
    else
        remove_one(path, false);
    return true;
}

void folder_remove(const char *path)
{
    struct error ignored;
    folder_list(path, remove_entry, (void *)path, &ignored);
    remove_one(path, true);
}
