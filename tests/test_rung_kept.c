/* Checks of kernels that are kept: a passed one is not repeated, by whichever process; another device, driver, kernel
 * or call asks for its own; what is damaged is checked again and written anew; what failed, and what may not be kept,
 * is not. And what a check has: the session's own calls, whatever the session. On the reference behind the face of a
 * GPU with matrix units: it computes what any kernel stands for. */
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
static uint32_t rungs;  /* above the portable one */
static int runs;        /* of programs */
static int lies;        /* as many runs give wrong results, -1: all */
static bool fails_open; /* the second time */

enum { MMA = RUNG_BIT(RUNG_MMA), ALL = MMA | RUNG_BIT(RUNG_WGMMA) | RUNG_BIT(RUNG_SMALL_BATCH) };

static const struct device_limits *face_limits(const struct backend_device *device)
{
    static struct device_limits limits;
    limits = *honest->limits(device);
    limits.cpu = false;
    limits.rungs = RUNG_BIT(RUNG_TILED) | rungs;
    limits.nvidia_sm = rungs == MMA ? 80 : 90;
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
    for (uint64_t i = 1; (lies < 0 || runs <= lies) && i < bytes; i += 64) ((unsigned char *)data)[i] ^= 0x04;
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

static long allocations, fails_at; /* since it was set; the number of the one that fails, 0: none */
static long live;

static void *count_alloc(size_t size, void *user)
{
    (void)user;
    if (++allocations == fails_at) return NULL;
    live++;
    return malloc(size);
}

static void count_free(void *pointer, void *user)
{
    (void)user;
    live -= pointer != NULL;
    free(pointer);
}

struct start {
    const char *cache, *driver, *device;
    uint32_t head_dim, feed_forward, layers, tokens; /* 0: 64, 256, 1, 512 */
    bool pre_layernorm, pooler;
    wherry_session_desc desc; /* what else it has; struct_size is set here */
    long fails_at;            /* an allocation of the session's creation */
    wherry_status status;     /* in: what it may fail with; out: what it did */
    uint32_t rungs;           /* out: that the session may take */
    bool rung;                /* out: RUNG_MMA is one of them */
    int runs;                 /* out: the check's */
    char note[512];           /* out: the first, "": none */
};

/* As another process would: nothing is known but what is in the folder. */
static void start(struct start *s)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc,
                                      .cache_dir = s->cache ? s->cache : folder,
                                      .alloc = count_alloc,
                                      .free = count_free};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = s->layers ? s->layers : 1,
                                        .hidden = 2 * (s->head_dim ? s->head_dim : 64),
                                        .heads = 2,
                                        .feed_forward = s->feed_forward ? s->feed_forward : 256,
                                        .vocabulary = 50,
                                        .positions = 64,
                                        .token_types = 1,
                                        .pre_layernorm = s->pre_layernorm,
                                        .pooler = s->pooler};
    wherry_session_desc session_desc = s->desc;
    session_desc.struct_size = sizeof session_desc;
    session_desc.max_tokens = s->tokens ? s->tokens : 512;
    session_desc.max_length = s->tokens && s->tokens < 64 ? s->tokens : 64;
    session_desc.dtype = WHERRY_DTYPE_F16;
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
    allocations = 0;
    fails_at = s->fails_at;
    wherry_status status = wherry_session_create(context, device, model, &session_desc, &session);
    fails_at = 0;
    if (status != (s->fails_at ? s->status : WHERRY_STATUS_OK) && status)
        fail_msg("allocation %ld: %s", s->fails_at, wherry_last_error(context));
    s->status = status;
    s->runs = runs;
    if (!status) {
        s->rungs = session->device_limits.rungs;
        s->rung = s->rungs & MMA;
        const char *note = wherry_session_note(session, 0);
        snprintf(s->note, sizeof s->note, "%s", note ? note : "");
        wherry_session_destroy(session);
    }
    wherry_model_close(model);
    device->backend = honest;
    wherry_device_close(device);
    wherry_context_destroy(context);
    assert_int_equal(live, 0);
}

/* A layer's groups of matrix units: QKV, attention, out, lin1, lin2. */
enum { LAYER = 5 };

/* ---- the folder ---- */

/* How many files it has; the path of one of them. */
static size_t files(char path[400])
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_name[0] == '.') continue;
        snprintf(path, 400, "%s/%s", folder, d->d_name);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static size_t get(const char *path, char text[4096])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, 4096, file);
    fclose(file);
    return size;
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
    char path[400];
    while (files(path)) unlink(path);
    lies = 0;
    fails_open = false;
    rungs = MMA;
    return 0;
}

/* ---- tests ---- */

static void test_kept(void **state)
{
    (void)state;
    char path[400];
    struct start first = {0}, second = {0}, uncached = {.cache = ""};
    start(&first);
    assert_true(first.rung && first.runs == 1);
    assert_int_equal(files(path), LAYER);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    start(&second);
    assert_true(second.rung && !second.runs);
    start(&uncached);
    assert_true(uncached.rung && uncached.runs == 1);
    assert_int_equal(files(path), LAYER);
}

/* Each is checked for what it has of its own: a model of another feed-forward for two of five groups. */
static void test_changed(void **state)
{
    (void)state;
    char path[400];
    struct start starts[] = {
        {0}, {.driver = "wherry 9.9"}, {.device = "another"}, {.head_dim = 32}, {.feed_forward = 512}};
    const size_t n = sizeof starts / sizeof *starts;
    for (size_t i = 0, kept = 0; i < n; i++) {
        start(&starts[i]);
        kept += starts[i].feed_forward ? 2 : LAYER;
        assert_true(starts[i].rung && starts[i].runs == 1);
        assert_int_equal(files(path), kept);
    }
    for (size_t i = 0; i < n; i++) {
        start(&starts[i]);
        assert_true(starts[i].rung && !starts[i].runs);
    }
    struct start more = {.layers = 3}; /* the same, again and again */
    start(&more);
    assert_true(more.rung && !more.runs);
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
    char path[400], other[400], good[4096], bad[4096], now[4096];
    start(&(struct start){0});
    assert_int_equal(files(path), LAYER);
    size_t size = get(path, good);
    for (size_t i = 0; i < size + 3; i = next_damage(i, size)) {
        size_t length = i < size ? size : i == size ? size - 1 : i == size + 1 ? 0 : size + 1;
        memcpy(bad, good, size);
        bad[size] = '\n';
        if (i < size) bad[i] ^= 1;
        put(path, bad, length);
        struct start again = {0}, after = {0};
        start(&again);
        assert_true(again.rung && again.runs == 1);
        assert_int_equal(files(other), LAYER);
        assert_int_equal(get(path, now), size);
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
    struct start again = {0};
    start(&(struct start){.driver = "wherry 9.9"});
    assert_int_equal(files(path), LAYER);
    size_t size = get(path, text);
    while (files(path)) unlink(path);
    start(&again);
    assert_int_equal(files(path), LAYER);
    put(path, text, size); /* whole, under this one's name */
    start(&again);
    assert_true(again.rung && again.runs == 1);
    assert_int_equal(chmod(path, 0666), 0);
    start(&again);
    assert_true(again.rung && again.runs == 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* written anew */
    snprintf(other, sizeof other, "%s.not", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    start(&again);
    assert_true(again.rung && again.runs == 1);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void test_failed(void **state)
{
    (void)state;
    char path[400];
    for (int how = 0; how < 2; how++) {
        struct start failed = {0}, again = {0}, good = {0};
        lies = how ? 0 : -1;
        fails_open = how;
        start(&failed);
        assert_true(!failed.rung && failed.runs == (how ? 0 : 1));
        assert_non_null(strstr(failed.note, how ? "it is gone" : "its check fails"));
        assert_int_equal(files(path), 0);
        start(&again);
        assert_true(!again.rung && again.runs == failed.runs);
        lies = fails_open = false;
        start(&good);
        assert_true(good.rung && good.runs == 1 && !*good.note);
        assert_int_equal(files(path), LAYER);
        lies = -1; /* what was passed is not looked at again */
        start(&again);
        assert_true(again.rung && !again.runs);
        empty(NULL);
    }
}

/* The next rung is checked, where one is left out. */
static void test_next(void **state)
{
    (void)state;
    char path[400];
    struct start one = {0}, two = {0};
    rungs = ALL;
    lies = 1;
    start(&one);
    assert_int_equal(one.rungs, RUNG_BIT(RUNG_TILED) | MMA);
    assert_int_equal(one.runs, 2);
    assert_non_null(strstr(one.note, "products by wgmma are left out: its check fails"));
    assert_int_equal(files(path), LAYER);
    lies = 0;
    start(&two);
    assert_int_equal(two.rungs, RUNG_BIT(RUNG_TILED) | MMA | RUNG_BIT(RUNG_WGMMA));
}

/* Whichever allocation fails: there is no session, or one without what could not be checked, and nothing is kept of a
 * check that was not made whole. */
static void test_out_of_memory(void **state)
{
    (void)state;
    char path[400];
    bool left_out = false;
    struct start s = {0};
    for (long n = 1; !s.rung; n += 1 + n / 16) {
        empty(NULL);
        s = (struct start){.fails_at = n, .status = WHERRY_STATUS_OUT_OF_HOST_MEMORY};
        start(&s);
        if (s.status || s.rung) continue;
        left_out = true;
        assert_non_null(strstr(s.note, "out of host memory"));
        assert_int_equal(files(path), 0);
    }
    assert_true(left_out);
}

/* Two layers and a small batch have every call of the session, whatever it is: no check ends with having none. */
static void test_own_calls(void **state)
{
    (void)state;
    static const wherry_training_desc trainings[] = {
        {.struct_size = sizeof *trainings, .dropout = 0.1f, .save = WHERRY_SAVE_ALL},
        {.struct_size = sizeof *trainings, .save = WHERRY_SAVE_LEAST, .stack = true},
        {.struct_size = sizeof *trainings, .save = WHERRY_SAVE_LEAST, .qkv_products = 3}};
    static const char *const plan_names[] = {"flash", "paper", "unfused"};
    static const uint32_t tokens[] = {7, 250, 8192};
    rungs = ALL;
    for (int i = 0; i < 36; i++) {
        struct start s = {.cache = "",
                          .layers = 4,
                          .tokens = tokens[i % 3],
                          .pre_layernorm = i / 3 % 2,
                          .pooler = i / 6 % 2,
                          .head_dim = i / 12 == 1 ? 32 : 64};
        s.desc.plan = plan_names[i / 12];
        s.desc.pool = s.pooler ? WHERRY_POOL_POOLER : WHERRY_POOL_MEAN;
        if (i / 12 == 0 && i % 4 == 3) s.desc.layouts = "qkv=bjhqp,w_qkv=ihqp,w_out=hpi,w_lin1=iu,w_lin2=ui";
        if (i / 12 == 0 && i % 4 == 2) s.desc.layouts = "active=ubj,w_lin2=ui";
        if (i % 3 != 1) s.desc.training = &trainings[i / 6 % 2 ? 1 + !s.desc.layouts : 0];
        if (i == 5) s.desc.max_sequences = 1;
        start(&s);
        if (*s.note && strstr(s.note, "left out")) fail_msg("case %d: %s", i, s.note);
        if (!(s.rungs & ~RUNG_BIT(RUNG_TILED)) || s.runs != 1)
            fail_msg("case %d: rungs %x, %d runs", i, s.rungs, s.runs);
    }
}

/* A small copy has layers of both kinds, where some keep the least for the backward pass. */
static void test_least_layers(void **state)
{
    (void)state;
    rungs = ALL;
    for (uint32_t layers = 2; layers <= 6; layers += 2)
        for (uint32_t least = 1; least <= layers; least++) {
            const wherry_training_desc training = {
                .struct_size = sizeof training, .dropout = 0.1f, .stack = true, .least_layers = least};
            struct start s = {.cache = "", .layers = layers, .tokens = 250, .desc.training = &training};
            start(&s);
            if (!(s.rungs & ~RUNG_BIT(RUNG_TILED)) || s.runs != 1 || strstr(s.note, "left out"))
                fail_msg("%u of %u layers: rungs %x, %d runs, %s", least, layers, s.rungs, s.runs, s.note);
        }
}

/* The key has what decides the result. */
static void test_key(void **state)
{
    (void)state;
    struct wherry_context context = {.host = support_host};
    struct wherry_device device = {.context = &context, .backend = backends[0], .kernels_hash = 1};
    struct call calls[3] = {{.kernel = "gemm_mma"}, {.kernel = "attention_mma"}, {.kernel = "gemm_mma"}};
    int groups[3] = {0, 0, 1};
    const struct wherry_session session = {
        .context = &context,
        .device = &device,
        .calls = calls,
        .call_groups = groups,
        .n_calls = 3,
        .f16 = true,
        .limits = {.tokens = 100},
        .device_limits = {.rungs = ALL, .one_buffer_rungs = MMA, .one_buffer_rows = 99}};
    struct rung_key key, same, other;
    assert_true(rung_key_make(&session, 0, &key));
    call_set(&calls[2], 5, 64); /* another group's */
    assert_true(rung_key_make(&session, 0, &same));
    assert_string_equal(key.text, same.text);
    assert_non_null(strstr(key.text, wherry_version_string()));
    for (int i = 0; i < 9; i++) {
        struct wherry_device d = device;
        struct wherry_session s = session;
        struct call changed[3] = {calls[0], calls[1], calls[2]};
        int its_groups[3] = {0, i == 5 ? 1 : 0, 1};
        s.device = &d;
        s.calls = changed;
        s.call_groups = its_groups;
        context.host.unoptimized = i == 0;
        d.kernels_hash += i == 1;
        d.info.uuid[3] = i == 2;
        if (i == 3) call_set(&changed[1], 5, 64);
        if (i == 4) changed[0].kernel = "gemm";
        if (i == 6) s.f16 = false;
        if (i == 7) s.limits.tokens = 99;
        assert_true(rung_key_make(&s, i == 8, &other));
        assert_string_not_equal(key.text, other.text);
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "%s", "/tmp/wherry-kept-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kept, empty),          cmocka_unit_test_setup(test_changed, empty),
        cmocka_unit_test_setup(test_damaged, empty),       cmocka_unit_test_setup(test_foreign, empty),
        cmocka_unit_test_setup(test_failed, empty),        cmocka_unit_test_setup(test_next, empty),
        cmocka_unit_test_setup(test_out_of_memory, empty), cmocka_unit_test_setup(test_own_calls, empty),
        cmocka_unit_test_setup(test_least_layers, empty),  cmocka_unit_test(test_key)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("rung_kept", tests, NULL, NULL);
    empty(NULL);
    rmdir(folder);
    return failed;
}
