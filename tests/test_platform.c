/* Files, threads and clock: above all that a file is replaced whole or not at all. */
#include "model_files.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect_content(const char *path, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    struct error e = {0};
    if (!file_read(&files_host, path, 1 << 20, &data, &size, &e)) fail_msg("%s", e.text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *d; (d = readdir(dir));) n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void expect_error(const struct error *e, wherry_status status, const char *says, const char *remedy)
{
    if (e->status != status) fail_msg("status %d: %s", e->status, e->text);
    if (!strstr(e->text, says)) fail_msg("\"%s\" does not say \"%s\"", e->text, says);
    if (remedy && !strstr(e->text, remedy)) fail_msg("\"%s\" does not say \"%s\"", e->text, remedy);
}

static void replaces_files(void **state)
{
    (void)state;
    struct error e = {0};
    char *folder = files_folder(), *path = files_format("%s/a.txt", folder), *link = files_format("%s/link", folder);
    assert_true(cache_write(path, "old", 3, &e));
    expect_content(path, "old");
    assert_true(cache_write(path, "newer", 5, &e));
    expect_content(path, "newer");
    assert_true(cache_write(path, "", 0, &e));
    expect_content(path, "");
    /* A link is replaced, not its target. */
    struct stat st;
    assert_int_equal(symlink("a.txt", link), 0);
    assert_true(cache_write(link, "beside", 6, &e));
    expect_content(path, "");
    expect_content(link, "beside");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(entries(folder), 2); /* no temporary file is left */
    free(link);
    free(path);
    files_remove(folder);
}

/* What a reader sees while the file is replaced again and again is always one whole version. */
static void read_versions(size_t item, void *user)
{
    static const char *const versions[] = {"aaaaaaaaaaaaaaaa", "bbbbbbbb"};
    struct error e;
    const char *path = user;
    for (int i = 0; i < 200; i++) {
        if (item == 0) {
            files_check(cache_write(path, versions[i & 1], strlen(versions[i & 1]), &e), path);
            continue;
        }
        char *data;
        size_t size;
        files_check(file_read(&files_host, path, 100, &data, &size, &e), path);
        files_check(!strcmp(data, versions[0]) || !strcmp(data, versions[1]), data);
        free(data);
    }
}

static void replaces_in_one_step(void **state)
{
    (void)state;
    struct error e;
    char *folder = files_folder(), *path = files_format("%s/a", folder);
    assert_true(cache_write(path, "bbbbbbbb", 8, &e));
    parallel_for(2, 0, read_versions, path);
    free(path);
    files_remove(folder);
}

static void keeps_old_file_on_failure(void **state)
{
    (void)state;
    struct error e = {0};
    char *folder = files_folder(), *path = files_format("%s/a.txt", folder);
    assert_true(cache_write(path, "old", 3, &e));
    /* A file may grow to 4096 bytes only: the write fails in the middle, as on a full disk. */
    static char big[100000];
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    bool ok = cache_write(path, big, sizeof big, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_false(ok);
    expect_error(&e, WHERRY_STATUS_IO, path, "writing");
    expect_content(path, "old");
    assert_int_equal(entries(folder), 1);
    /* Neither may be replaced by a file: a folder, a device. */
    char *inside = files_format("%s/inside", folder);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_false(cache_write(inside, "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, inside, "is not a regular file and is not replaced");
    assert_int_equal(rmdir(inside), 0);
    free(inside);
    assert_false(cache_write("/dev/full", "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, "/dev/full", "is not a regular file and is not replaced");
    char *through = files_format("%s/a.txt/b", folder);
    assert_false(cache_write(through, "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, path, "making the folder");
    free(through);
    char *longest = malloc(5001);
    memset(longest, 'x', 5000);
    longest[5000] = 0;
    assert_false(cache_write(longest, "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, "too long", NULL);
    free(longest);
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(chmod(folder, 0500), 0);
        assert_false(cache_write(path, "new", 3, &e));
        expect_error(&e, WHERRY_STATUS_IO, path, "check the permissions");
        assert_int_equal(chmod(folder, 0700), 0);
        expect_content(path, "old");
    }
    free(path);
    files_remove(folder);
}

static void reads_files(void **state)
{
    (void)state;
    struct error e = {0};
    char *folder = files_folder(), *path = files_format("%s/a", folder), *data = NULL;
    size_t size;
    assert_false(file_read(&files_host, path, 100, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_IO, path, "check the path");
    assert_false(file_read(&files_host, folder, 100, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_IO, folder, "not a regular file");
    assert_false(file_read(&files_host, "/dev/zero", 100, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_IO, "/dev/zero", "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(file_read(&files_host, path, 100, &data, &size, &e)); /* and does not wait for a writer */
    expect_error(&e, WHERRY_STATUS_IO, path, "not a regular file");
    assert_int_equal(remove(path), 0);
    files_write(folder, "a", "", 0);
    assert_true(file_read(&files_host, path, 0, &data, &size, &e));
    assert_int_equal(size, 0);
    assert_string_equal(data, "");
    free(data);
    files_write(folder, "a", "12345", 5);
    assert_true(file_read(&files_host, path, 5, &data, &size, &e));
    assert_string_equal(data, "12345");
    free(data);
    assert_false(file_read(&files_host, path, 4, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_BAD_FORMAT, path, "at most 4");
    free(path);
    files_remove(folder);
}

/* Reading at any place, and what tells that a file was written to. */
static void reads_in_pieces(void **state)
{
    (void)state;
    struct error e = {0};
    struct file file = {0};
    struct file_stamp before, after;
    char *folder = files_folder(), *path = files_format("%s/a", folder), *other = files_format("%s/b", folder);
    char bytes[8] = "";
    size_t got;
    assert_false(file_open(path, &file, &e));
    expect_error(&e, WHERRY_STATUS_IO, path, "check the path");
    file_close(&file);
    files_write(folder, "a", "0123456789", 10);
    assert_true(file_open(path, &file, &e));
    assert_true(file_stamp(&file, path, &before, &e));
    assert_int_equal(before.bytes, 10);
    assert_true(file_read_at(&file, path, 7, bytes, 2, &got, &e) && got == 2 && !memcmp(bytes, "78", 2));
    assert_true(file_read_at(&file, path, 0, bytes, 3, &got, &e) && got == 3 && !memcmp(bytes, "012", 3));
    assert_true(file_read_at(&file, path, 8, bytes, 8, &got, &e) && got == 2 && !memcmp(bytes, "89", 2));
    assert_true(file_read_at(&file, path, 10, bytes, 8, &got, &e) && got == 0);
    assert_true(file_read_at(&file, path, (uint64_t)1 << 40, bytes, 8, &got, &e) && got == 0);
    assert_true(file_stamp(&file, path, &after, &e)); /* reading is no change */
    assert_true(after.bytes == before.bytes && after.modified == before.modified);
    /* Nor is another name, or another file under this name: the old one stays readable. */
    assert_int_equal(rename(path, other), 0);
    files_write(folder, "a", "new", 3);
    assert_int_equal(remove(other), 0);
    assert_true(file_stamp(&file, path, &after, &e));
    assert_true(after.bytes == before.bytes && after.modified == before.modified);
    assert_true(file_read_at(&file, path, 0, bytes, 3, &got, &e) && got == 3 && !memcmp(bytes, "012", 3));
    file_close(&file);
    file_close(&file);
    assert_true(file_open(path, &file, &e));
    assert_true(file_stamp(&file, path, &before, &e));
    assert_int_equal(truncate(path, 2), 0);
    assert_true(file_stamp(&file, path, &after, &e));
    assert_int_equal(after.bytes, 2);
    assert_true(file_read_at(&file, path, 0, bytes, 3, &got, &e) && got == 2);
    file_close(&file);
    free(other);
    free(path);
    files_remove(folder);
}

/* Runs `check` in a process of a user who is not root; skips where that can't be. */
static void as_nobody(void (*check)(void *), void *user)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (!geteuid() && (setgid(65534) || setuid(65534))) _exit(77);
        check(user);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void looks_into_closed_folder(void *user)
{
    bool exists = false;
    struct error e = {0};
    if (file_exists(user, &exists, &e) || !strstr(e.text, "check the permissions")) _exit(1);
}

/* Only ENOENT and ENOTDIR mean that there is none. */
static void tells_absent_from_unknown(void **state)
{
    (void)state;
    struct error e = {0};
    bool exists = true;
    char *folder = files_folder(), *path = files_format("%s/a", folder), *link = files_format("%s/link", folder);
    char *below = files_format("%s/b", path), longest[300];
    assert_true(file_exists(path, &exists, &e));
    assert_false(exists);
    files_write(folder, "a", "", 0);
    assert_true(file_exists(path, &exists, &e));
    assert_true(exists);
    assert_true(file_exists(below, &exists, &e)); /* ENOTDIR */
    assert_false(exists);
    assert_false(file_exists(folder, &exists, &e));
    expect_error(&e, WHERRY_STATUS_IO, folder, "is a folder, where a file is expected");
    assert_int_equal(symlink("a", link), 0);
    assert_true(file_exists(link, &exists, &e));
    assert_true(exists);
    assert_int_equal(remove(path), 0);
    assert_false(file_exists(link, &exists, &e));
    expect_error(&e, WHERRY_STATUS_IO, link, "is a link to a, which is missing: fetch the file again");
    assert_int_equal(symlink("link", path), 0); /* a loop */
    assert_false(file_exists(link, &exists, &e));
    expect_error(&e, WHERRY_STATUS_IO, link, "looking for");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_false(file_exists(longest, &exists, &e));
    expect_error(&e, WHERRY_STATUS_IO, "too long", NULL);
    assert_int_equal(chmod(folder, 0), 0);
    as_nobody(looks_into_closed_folder, path);
    assert_int_equal(chmod(folder, 0700), 0);
    free(below);
    free(link);
    free(path);
    files_remove(folder);
}

static void makes_folders(void **state)
{
    (void)state;
    struct error e = {0};
    struct stat st;
    char *folder = files_folder(), *deep = files_format("%s/a//b/c/", folder), *file = files_format("%s/f", folder);
    assert_true(folder_make(deep, &e));
    assert_true(folder_make(deep, &e));
    assert_int_equal(stat(deep, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 077, 0);
    files_write(folder, "f", "x", 1);
    assert_false(folder_make(file, &e));
    expect_error(&e, WHERRY_STATUS_IO, file, NULL);
    char *below = files_format("%s/g", file);
    assert_false(folder_make(below, &e));
    assert_false(folder_make("", &e));
    assert_true(folder_make("/", &e));
    free(below);
    free(deep);
    free(file);
    files_remove(folder);
}

/* ---- the cache ---- */

/* Reading it and adding to it: both are refused, and with the same words. */
static void expect_untrusted(const char *path, const char *says, const char *remedy)
{
    struct error e = {0};
    bool exists;
    char *data;
    size_t size;
    assert_false(cache_read(&files_host, path, 100, &exists, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_IO, says, remedy);
    assert_false(cache_append(path, "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, says, remedy);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void keeps_cache_private(void **state)
{
    (void)state;
    struct error e = {0};
    bool exists = true;
    char *data = NULL;
    size_t size = 0;
    char *folder = files_folder(), *cache = files_format("%s/cache", folder), *path = files_format("%s/a", cache);
    char *log = files_format("%s/log", cache);
    mode_t mask = umask(0);
    assert_true(cache_check(cache, &e)); /* there is none yet */
    assert_true(cache_read(&files_host, path, 100, &exists, &data, &size, &e));
    assert_false(exists);
    assert_true(cache_write(path, "compiled", 8, &e));
    assert_true(cache_append(log, "measured", 8, &e));
    umask(mask);
    assert_int_equal(mode_of(cache), 0700);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(mode_of(log), 0600);
    assert_int_equal(chmod(path, 0644), 0); /* others may read it */
    assert_true(cache_read(&files_host, path, 100, &exists, &data, &size, &e));
    assert_true(exists);
    assert_string_equal(data, "compiled");
    free(data);
    static const mode_t open[] = {0664, 0646, 0666};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        assert_int_equal(chmod(path, open[i]), 0);
        expect_untrusted(path, "others may write to", "chmod go-w it, or use another cache folder");
    }
    assert_true(cache_write(path, "again", 5, &e)); /* whose it was does not matter */
    assert_int_equal(mode_of(path), 0600);
    static const mode_t folders[] = {0770, 0707, 01777};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_int_equal(chmod(cache, folders[i]), 0);
        assert_false(cache_check(cache, &e));
        expect_error(&e, WHERRY_STATUS_IO, cache, "chmod go-w it, or use another cache folder");
        expect_untrusted(path, "others may write to", cache);
        assert_false(cache_write(path, "x", 1, &e));
        expect_error(&e, WHERRY_STATUS_IO, cache, "others may write to");
    }
    assert_int_equal(chmod(cache, 0700), 0);
    expect_content(path, "again");
    assert_int_equal(entries(cache), 2);
    free(log);
    free(path);
    free(cache);
    files_remove(folder);
}

static void follows_no_link_in_cache(void **state)
{
    (void)state;
    struct error e = {0};
    struct stat st;
    char *folder = files_folder(), *cache = files_format("%s/cache", folder), *path = files_format("%s/a", cache);
    char *target = files_format("%s/target", folder), *link = files_format("%s/link", folder);
    files_write(folder, "target", "mine", 4);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(symlink("../target", path), 0);
    expect_untrusted(path, "is a link, which is not followed in a cache", "delete it, or use another cache folder");
    assert_true(cache_write(path, "compiled", 8, &e));
    expect_content(target, "mine");
    expect_content(path, "compiled");
    assert_int_equal(remove(path), 0);
    assert_int_equal(symlink("../missing", path), 0); /* nor is its target made */
    expect_untrusted(path, "is a link", NULL);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* and nobody is waited for */
    bool exists;
    char *data;
    size_t size;
    assert_false(cache_read(&files_host, path, 100, &exists, &data, &size, &e));
    expect_error(&e, WHERRY_STATUS_IO, path, "is not a regular file");
    assert_false(cache_append(path, "x", 1, &e));
    assert_false(cache_write(path, "x", 1, &e));
    expect_error(&e, WHERRY_STATUS_IO, path, "is not a regular file");
    assert_int_equal(remove(path), 0);
    assert_int_equal(symlink("cache", link), 0); /* the folder's own name may be a link of the user's */
    assert_true(cache_check(link, &e));
    if (!geteuid()) {
        assert_int_equal(lchown(link, 65534, 65534), 0);
        assert_false(cache_check(link, &e));
        expect_error(&e, WHERRY_STATUS_IO, link, "is a link of user 65534");
        char *slashed = files_format("%s//", link);
        assert_false(cache_check(slashed, &e));
        expect_error(&e, WHERRY_STATUS_IO, link, "is a link of user 65534");
        free(slashed);
        files_write(cache, "a", "compiled", 8);
        assert_int_equal(chown(path, 65534, 65534), 0);
        expect_untrusted(path, "belongs to user 65534 and not to user 0, who runs this",
                         "delete it, or use another cache folder");
        assert_int_equal(remove(path), 0);
        assert_int_equal(chown(cache, 65534, 65534), 0);
        assert_false(cache_check(cache, &e));
        expect_error(&e, WHERRY_STATUS_IO, cache, "belongs to user 65534");
    }
    assert_int_equal(stat(target, &st), 0);
    free(link);
    free(target);
    free(path);
    free(cache);
    files_remove(folder);
}

static void finds_cache_folder(void **state)
{
    (void)state;
    char path[64] = "x", small[8] = "x";
    char *home = getenv("HOME") ? files_format("%s", getenv("HOME")) : NULL;
    char *cache = getenv("XDG_CACHE_HOME") ? files_format("%s", getenv("XDG_CACHE_HOME")) : NULL;
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/c", 1);
    cache_folder(path, sizeof path);
    assert_string_equal(path, "/c/wherry");
    cache_folder(small, sizeof small); /* does not fit: better none than another one */
    assert_string_equal(small, "");
    setenv("XDG_CACHE_HOME", "relative", 1); /* the standard says: to be ignored */
    cache_folder(path, sizeof path);
#ifdef __APPLE__
    assert_string_equal(path, "/h/Library/Caches/wherry");
#else
    assert_string_equal(path, "/h/.cache/wherry");
#endif
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cache_folder(path, sizeof path);
    assert_string_equal(path, "");
    if (home) setenv("HOME", home, 1);
    if (cache) setenv("XDG_CACHE_HOME", cache, 1);
    free(home);
    free(cache);
}

static void finds_cache_folder_of(void **state)
{
    (void)state;
    static const struct {
        const char *cache, *home;
        bool apple;
        const char *folder;
    } cases[] = {
        {NULL, "/h", false, "/h/.cache/wherry"},
        {NULL, "/h", true, "/h/Library/Caches/wherry"},
        {"/c", "/h", true, "/c/wherry"},
        {"c", "/h", true, "/h/Library/Caches/wherry"},
        {"", "/h", true, "/h/Library/Caches/wherry"},
        {NULL, "h", true, ""},
        {NULL, "", false, ""},
        {NULL, NULL, true, ""},
        {NULL, "/a-home-too-long-for-the-path-that-is-asked-for", true, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[32] = "x";
        cache_folder_of(cases[i].cache, cases[i].home, cases[i].apple, path, sizeof path);
        assert_string_equal(path, cases[i].folder);
    }
}

static void count_visit(size_t item, void *user) { atomic_fetch_add((atomic_int *)user + item, 1); }

static void runs_every_item_once(void **state)
{
    (void)state;
    enum { MOST = 10000 };
    static const size_t counts[] = {0, 1, 2, 3, 17, MOST}, threads[] = {0, 1, 2, 1000};
    static atomic_int visits[MOST + 1];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            for (size_t i = 0; i <= MOST; i++) visits[i] = 0;
            parallel_for(counts[c], threads[t], count_visit, visits);
            for (size_t i = 0; i <= MOST; i++) assert_int_equal(visits[i], i < counts[c]);
        }
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* Where threads can't be made, the caller does the work. */
static void runs_without_threads(void **state)
{
    (void)state;
    if (SANITIZED) skip(); /* sanitizers end the process when address space is short */
    static atomic_int visits[100];
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = 1 << 20; /* less than is in use: no new stack can be mapped */
    bool limited = !setrlimit(RLIMIT_AS, &limit);
    parallel_for(100, 0, count_visit, visits);
    if (limited) assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    for (int i = 0; i < 100; i++) assert_int_equal(visits[i], 1);
}

/* ---- a team of threads ---- */

enum { TEAM_STEPS = 200, TEAM_ITEMS = 37 };

static struct {
    struct workers *workers;
    atomic_int threads;
    int made[TEAM_STEPS][TEAM_ITEMS]; /* by whoever took the item */
    bool late;                        /* a step began before the one before it was done */
} team;

/* Each item of a step is the sum of all items of the step before, and one more. */
static void team_work(size_t thread, void *user)
{
    (void)user;
    atomic_fetch_add(&team.threads, 1);
    for (int step = 0; step < TEAM_STEPS; step++) {
        for (size_t item; (item = workers_take(team.workers)) < TEAM_ITEMS;) {
            int sum = 0;
            for (int i = 0; step && i < TEAM_ITEMS; i++) sum += team.made[step - 1][i] != 0;
            team.made[step][item] = !step || sum == TEAM_ITEMS ? 1 + (int)item : -1;
        }
        uint64_t before = workers_met(team.workers);
        workers_meet(team.workers);
        if (!thread && workers_met(team.workers) < before) team.late = true;
    }
}

static void keeps_a_team(void **state)
{
    (void)state;
    static const size_t most[] = {0, 1, 2, 10000};
    struct error e;
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
        assert_non_null(team.workers = workers_create(&files_host, most[m], &e));
        size_t count = workers_count(team.workers);
        assert_true(count >= 1 && count <= core_count() && (!most[m] || count <= most[m]));
        for (int run = 0; run < 5; run++) {
            memset(team.made, 0, sizeof team.made);
            team.threads = 0;
            workers_run(team.workers, team_work, NULL);
            assert_int_equal(team.threads, count);
            for (int step = 0; step < TEAM_STEPS; step++)
                for (int i = 0; i < TEAM_ITEMS; i++) assert_int_equal(team.made[step][i], 1 + i);
        }
        assert_false(team.late);
        workers_destroy(team.workers);
    }
    workers_destroy(NULL);
}

/* What cpu.max of a control group may have. */
static void reads_quotas(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t cores;
    } quotas[] = {{"max 100000", 0},
                  {"200000 100000", 2},
                  {"250000 100000\n", 2},
                  {"50000 100000", 1},
                  {"1 100000", 1},
                  {"-1 100000", 0},
                  {"", 0},
                  {"100000", 0},
                  {"100000 0", 0},
                  {"100000 -5", 0},
                  {"many", 0},
                  {"1600000 50000", 32},
                  {"200000 100000 x", 2}};
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++)
        assert_int_equal(quota_cores(quotas[i].text), quotas[i].cores);
    assert_true(core_count() >= 1);
}

#ifdef __linux__
/* Control groups as files: of a container that sees its own group as the root, of a service below others, of version 1
 * and of both versions together. */
static void reads_control_groups(void **state)
{
    static const struct {
        const char *processes;
        const char *files[4][2]; /* path below the mounts, content */
        size_t cores;            /* of 64 */
    } cases[] = {
        {"0::/\n", {{"cpu.max", "300000 100000\n"}}, 3},
        {"0::/\n", {{"cpu.max", "max 100000\n"}}, 64},
        {"0::/\n", {{"cpu.max", "50000 100000\n"}}, 1},
        {"0::/\n", {{"cpu.max", "9900000 100000\n"}}, 64},
        {"0::/a/b\n", {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "800000 100000\n"}}, 8},
        {"0::/a/b\n", {{"a/b/cpu.max", "400000 100000\n"}, {"a/cpu.max", "800000 100000\n"}}, 4},
        {"0::/a/b\n", {{"a/cpu.max", "1600000 100000\n"}, {"cpu.max", "200000 100000\n"}}, 2},
        {"0::/gone\n", {{"cpu.max", "500000 100000\n"}}, 5},
        {"0::/../beside\n", {{"cpu.max", "700000 100000\n"}}, 7},
        {"4:memory:/m\n2:cpu,cpuacct:/c\n",
         {{"cpu/c/cpu.cfs_quota_us", "600000\n"}, {"cpu/c/cpu.cfs_period_us", "100000\n"}},
         6},
        {"2:cpuacct,cpu:/c\n", {{"cpu/cpu.cfs_quota_us", "250000\n"}, {"cpu/cpu.cfs_period_us", "50000\n"}}, 5},
        {"2:cpu:/c\n", {{"cpu/c/cpu.cfs_quota_us", "-1\n"}, {"cpu/c/cpu.cfs_period_us", "100000\n"}}, 64},
        {"2:cpu:/c\n", {{"cpu/c/cpu.cfs_quota_us", "100000\n"}}, 64}, /* no period */
        {"3:cpuset:/c\n", {{"cpu/c/cpu.cfs_quota_us", "100000\n"}, {"cpu/c/cpu.cfs_period_us", "100000\n"}}, 64},
        {"1:cpu:/c\n0::/u\n",
         {{"cpu/c/cpu.cfs_quota_us", "900000\n"},
          {"cpu/c/cpu.cfs_period_us", "100000\n"},
          {"u/cpu.max", "400000 100000"}},
         4},
        {"0::/\n", {{"cpu.max", "not a quota\n"}}, 64},
        {"0::\n:\nnothing\n", {{"cpu.max", "200000 100000\n"}}, 2},
        {"", {{"cpu.max", "200000 100000\n"}}, 64},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder(), *processes = files_format("%s/processes", folder);
        files_write_text(folder, "processes", cases[i].processes);
        for (size_t f = 0; f < 4 && cases[i].files[f][0]; f++)
            files_write_text(folder, cases[i].files[f][0], cases[i].files[f][1]);
        size_t cores = group_cores(processes, folder, 64);
        if (cores != cases[i].cores) fail_msg("groups %zu: %zu cores, %zu expected", i, cores, cases[i].cores);
        free(processes);
        files_remove(folder);
    }
    assert_int_equal(group_cores("/nowhere/cgroup", "/nowhere", 64), 64);
}

/* A virtual machine on which sysconf says 320 MB. */
static void finds_the_last_cache(void **state)
{
    static const char *const files[][2] = {
        {"index0/level", "1\n"}, {"index0/size", "32K\n"},   {"index1/level", "1\n"}, {"index1/size", "32K\n"},
        {"index2/level", "2\n"}, {"index2/size", "1024K\n"}, {"index3/level", "3\n"}, {"index3/size", "32M\n"},
        {"index5/level", "4\n"}, {"index5/size", "1M\n"}, /* none before it: not seen */
    };
    (void)state;
    char *folder = files_folder();
    assert_int_equal(cache_bytes_below(folder), 0);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) files_write_text(folder, files[f][0], files[f][1]);
    assert_int_equal(cache_bytes_below(folder), 32 << 20);
    files_write_text(folder, "index3/size", "99999999999999999999M\n");
    assert_int_equal(cache_bytes_below(folder), 0);
    files_remove(folder);
}
#endif

static struct once outer_once = ONCE_INIT, inner_once = ONCE_INIT;
static atomic_int outer_runs, inner_runs, too_early;

static void inner(void) { atomic_fetch_add(&inner_runs, 1); }

static void outer(void)
{
    run_once(&inner_once, inner); /* one may need another */
    uint64_t begin = clock_ns();
    while (clock_ns() - begin < 2000000) continue;
    atomic_fetch_add(&outer_runs, 1);
}

static void arrive(size_t item, void *user)
{
    (void)item, (void)user;
    run_once(&outer_once, outer);
    if (outer_runs != 1) atomic_fetch_add(&too_early, 1);
}

static void runs_once(void **state)
{
    (void)state;
    parallel_for(1000, 0, arrive, NULL);
    assert_int_equal(outer_runs, 1);
    assert_int_equal(inner_runs, 1);
    assert_int_equal(too_early, 0);
}

static void clock_goes_forward(void **state)
{
    (void)state;
    uint64_t before = clock_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_ns();
        assert_true(now >= before);
        before = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_files),
        cmocka_unit_test(replaces_in_one_step),
        cmocka_unit_test(keeps_old_file_on_failure),
        cmocka_unit_test(reads_in_pieces),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(tells_absent_from_unknown),
        cmocka_unit_test(makes_folders),
        cmocka_unit_test(keeps_cache_private),
        cmocka_unit_test(follows_no_link_in_cache),
        cmocka_unit_test(finds_cache_folder),
        cmocka_unit_test(finds_cache_folder_of),
        cmocka_unit_test(keeps_a_team),
        cmocka_unit_test(reads_quotas),
#ifdef __linux__
        cmocka_unit_test(reads_control_groups),
        cmocka_unit_test(finds_the_last_cache),
#endif
        cmocka_unit_test(runs_every_item_once),
        cmocka_unit_test(runs_without_threads),
        cmocka_unit_test(runs_once),
        cmocka_unit_test(clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
