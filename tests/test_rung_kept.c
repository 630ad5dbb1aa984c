/* Checks of rungs that are kept: a passed one is not repeated, by whichever process; another device, driver, kernel or
 * call asks for its own; what is damaged is checked again and written anew; what failed, and what may not be kept, is
 * not. On the reference behind the face of a GPU with matrix units: it computes what any kernel stands for. */
#define _XOPEN_SOURCE 700 /* mkdtemp, symlink */

#include "base/platform.h"
#include "plan/variants.h"
#include "runtime/rung_kept.h"
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

/* ---- the face ---- */

static const struct backend *honest;
static int runs;        /* of programs */
static bool lies;       /* what is read back is wrong */
static bool fails_open; /* the second time */

static const struct device_limits *face_limits(const struct backend_device *device)
{
    static struct device_limits limits;
    limits = *honest->limits(device);
    limits.cpu = false;
    limits.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_MMA);
    limits.nvidia_sm = 80;
    limits.compute_units = 108;
    limits.shared_bytes = 49152;
    return &limits;
}

static bool face_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    runs++;
    return honest->program_run(device, program, run, e);
}

static bool face_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                      struct error *e)
{
    TRY(honest->buffer_read(device, buffer, offset, data, bytes, e));
    for (uint64_t i = 1; lies && i < bytes; i += 64) ((unsigned char *)data)[i] ^= 0x04;
    return true;
}

static struct backend_device *face_open(const struct host *host, size_t index, const void *external,
                                        wherry_device_info *info, struct error *e)
{
    if (!fails_open) return honest->open(host, index, external, info, e);
    (fail)(e, WHERRY_STATUS_DEVICE_LOST, "it is gone");
    return NULL;
}

/* ---- one start: a context, a session ---- */

struct start {
    const char *cache, *driver, *device;
    uint32_t head_dim;
    bool rung; /* the session has it */
    int runs;  /* the check's */
};

/* As another process would: nothing is known but what is in the folder. */
static void start(struct start *s)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = s->cache ? s->cache : folder};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 2 * (s->head_dim ? s->head_dim : 64),
                                        .heads = 2,
                                        .feed_forward = 256,
                                        .vocabulary = 50,
                                        .positions = 64,
                                        .token_types = 1};
    const wherry_session_desc session_desc = {
        .struct_size = sizeof session_desc, .max_tokens = 512, .max_length = 64, .dtype = WHERRY_DTYPE_F16};
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    assert_int_equal(wherry_context_create(&desc, &context), 0);
    assert_int_equal(wherry_device_open(context, "reference", &device), 0);
    honest = device->backend;
    struct backend face = *honest;
    face.limits = face_limits;
    face.program_run = face_run;
    face.buffer_read = face_read;
    face.open = face_open;
    device->backend = &face;
    if (s->driver) snprintf(device->info.driver, sizeof device->info.driver, "%s", s->driver);
    if (s->device) snprintf(device->info.name, sizeof device->info.name, "%s", s->device);
    assert_int_equal(wherry_model_create_random(context, &config, 1, &model), 0);
    runs = 0;
    if (wherry_session_create(context, device, model, &session_desc, &session))
        fail_msg("%s", wherry_last_error(context));
    s->runs = runs;
    s->rung = session->device_limits.rungs & RUNG_BIT(RUNG_MMA);
    wherry_session_destroy(session);
    wherry_model_close(model);
    device->backend = honest;
    wherry_device_close(device);
    wherry_context_destroy(context);
}

/* ---- the folder ---- */

/* Its files; the last one's path, and what is in it. */
static size_t files(char path[400], char text[4096], size_t *size)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_name[0] == '.') continue;
        snprintf(path, 400, "%s/%s", folder, d->d_name);
        n++;
    }
    if (dir) closedir(dir);
    if (!n) return 0;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *size = fread(text, 1, 4096, file);
    fclose(file);
    return n;
}

static void put(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(text, 1, size, file) == size);
    assert_int_equal(fclose(file), 0);
}

static int empty(void **state)
{
    (void)state;
    char path[400], text[4096];
    size_t size;
    while (files(path, text, &size)) unlink(path);
    lies = fails_open = false;
    return 0;
}

/* ---- tests ---- */

static void test_kept(void **state)
{
    (void)state;
    char path[400], text[4096];
    size_t size = 0;
    struct start first = {0}, second = {0}, uncached = {.cache = ""};
    start(&first);
    assert_true(first.rung && first.runs == 2); /* small tiles, large tiles */
    assert_int_equal(files(path, text, &size), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    start(&second);
    assert_true(second.rung && !second.runs);
    start(&uncached);
    assert_true(uncached.rung && uncached.runs == 2);
    assert_int_equal(files(path, text, &size), 1);
}

static void test_changed(void **state)
{
    (void)state;
    char path[400], text[4096];
    size_t size;
    struct start starts[] = {{0}, {.driver = "wherry 9.9"}, {.device = "another"}, {.head_dim = 32}};
    const size_t n = sizeof starts / sizeof *starts;
    for (size_t i = 0; i < n; i++) {
        start(&starts[i]);
        assert_true(starts[i].rung && starts[i].runs == 2);
        assert_int_equal(files(path, text, &size), i + 1);
    }
    for (size_t i = 0; i < n; i++) {
        start(&starts[i]);
        assert_true(starts[i].rung && !starts[i].runs);
    }
}

/* Some bytes of the key, more of the end, and each of the lengths that follow. */
static size_t next_damage(size_t i, size_t size)
{
    if (i >= size) return i + 1;
    size_t next = i + (i + 130 < size ? 89 : 7);
    return next < size ? next : size;
}

/* Any byte of the file counts, and its length. */
static void test_damaged(void **state)
{
    (void)state;
    char path[400], good[4096], bad[4096], now[4096];
    size_t size = 0, left = 0;
    start(&(struct start){0});
    assert_int_equal(files(path, good, &size), 1);
    for (size_t i = 0; i < size + 3; i = next_damage(i, size)) {
        size_t length = i < size ? size : i == size ? size - 1 : i == size + 1 ? 0 : size + 1;
        memcpy(bad, good, size);
        bad[size] = '\n';
        if (i < size) bad[i] ^= 1;
        put(path, bad, length);
        struct start again = {0}, after = {0};
        start(&again);
        assert_true(again.rung && again.runs == 2);
        assert_int_equal(files(path, now, &left), 1);
        assert_int_equal(left, size);
        assert_memory_equal(now, good, size);
        start(&after);
        assert_true(after.rung && !after.runs);
    }
}

/* Another's file is not taken, nor is one that others may write to. */
static void test_foreign(void **state)
{
    (void)state;
    char path[400], text[4096], other[420];
    size_t size;
    struct start again = {0};
    start(&(struct start){.driver = "wherry 9.9"});
    assert_int_equal(files(path, text, &size), 1);
    char theirs[4096];
    size_t their_size = size;
    memcpy(theirs, text, size);
    unlink(path);
    start(&again);
    assert_int_equal(files(path, text, &size), 1);
    put(path, theirs, their_size); /* whole, under this one's name */
    start(&again);
    assert_true(again.rung && again.runs == 2);
    assert_int_equal(chmod(path, 0666), 0);
    start(&again);
    assert_true(again.rung && again.runs == 2);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* written anew */
    snprintf(other, sizeof other, "%s.not", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    start(&again);
    assert_true(again.rung && again.runs == 2);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void test_failed(void **state)
{
    (void)state;
    char path[400], text[4096];
    size_t size;
    for (int how = 0; how < 2; how++) {
        struct start failed = {0}, again = {0}, good = {0};
        lies = !how;
        fails_open = how;
        start(&failed);
        assert_true(!failed.rung && failed.runs == (how ? 0 : 1));
        assert_int_equal(files(path, text, &size), 0);
        start(&again);
        assert_true(!again.rung && again.runs == failed.runs);
        lies = fails_open = false;
        start(&good);
        assert_true(good.rung && good.runs == 2);
        assert_int_equal(files(path, text, &size), 1);
        lies = true; /* what was passed is not looked at again */
        start(&again);
        assert_true(again.rung && !again.runs);
        empty(NULL);
    }
}

/* The key has what decides the result. */
static void test_key(void **state)
{
    (void)state;
    struct wherry_context context = {.host = support_host};
    struct wherry_device device = {.context = &context, .backend = backends[0], .kernels_hash = 1};
    struct call calls[2] = {{.kernel = "gemm_mma"}, {.kernel = "attention_mma"}};
    struct wherry_session session = {.calls = calls, .n_calls = 2}, *sessions[] = {&session};
    struct rung_key key, same, other;
    assert_true(rung_key_make(&device, RUNG_MMA, sessions, 1, &key));
    assert_true(rung_key_make(&device, RUNG_MMA, sessions, 1, &same));
    assert_string_equal(key.text, same.text);
    assert_non_null(strstr(key.text, wherry_version_string()));
    for (int i = 0; i < 7; i++) {
        struct wherry_device d = device;
        struct wherry_session s = session;
        struct call changed[2] = {calls[0], calls[1]};
        s.calls = changed;
        sessions[0] = &s;
        context.host.unoptimized = i == 0;
        d.kernels_hash += i == 1;
        d.info.uuid[3] = i == 2;
        if (i == 3) call_set(&changed[1], 5, 64);
        if (i == 4) changed[0].kernel = "gemm";
        if (i == 5) s.n_calls = 1;
        assert_true(rung_key_make(&d, i == 6 ? RUNG_WGMMA : RUNG_MMA, sessions, 1, &other));
        assert_string_not_equal(key.text, other.text);
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "%s", "/tmp/wherry-kept-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kept, empty),    cmocka_unit_test_setup(test_changed, empty),
        cmocka_unit_test_setup(test_damaged, empty), cmocka_unit_test_setup(test_foreign, empty),
        cmocka_unit_test_setup(test_failed, empty),  cmocka_unit_test(test_key)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("rung_kept", tests, NULL, NULL);
    empty(NULL);
    rmdir(folder);
    return failed;
}
