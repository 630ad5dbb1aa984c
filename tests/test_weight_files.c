/* What happens to files of weights while a model is open, and values in them that can't be computed with: through the
 * public calls, on the reference device. */
#include "model_files.h"

#include "runtime/context.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct open_model {
    char *folder, *path; /* of model.safetensors, or of the second shard */
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
};

/* Files get a time that is past, so that a write gives them another one however coarse the file system's clock is. */
static void make_old(const char *path)
{
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static struct open_model model_begin(const struct tiny_model *options)
{
    struct open_model m = {.folder = files_folder()};
    tiny_model_write(m.folder, options);
    m.path =
        files_format("%s/%s", m.folder, options->sharded ? "model-00002-of-00002.safetensors" : "model.safetensors");
    make_old(m.path);
    assert_int_equal(wherry_context_create(NULL, &m.context), 0);
    assert_int_equal(wherry_device_open(m.context, "reference", &m.device), 0);
    return m;
}

static void model_reopen(struct open_model *m)
{
    wherry_model_close(m->model);
    m->model = NULL;
    if (wherry_model_open(m->context, m->folder, &m->model)) fail_msg("%s", wherry_last_error(m->context));
}

static struct open_model model_start(const struct tiny_model *options)
{
    struct open_model m = model_begin(options);
    model_reopen(&m);
    return m;
}

static void model_end(struct open_model *m)
{
    wherry_model_close(m->model);
    wherry_device_close(m->device);
    wherry_context_destroy(m->context);
    free(m->path);
    files_remove(m->folder);
}

static wherry_status session_try(const struct open_model *m, wherry_context *context, wherry_dtype dtype,
                                 const char *layouts, wherry_session **session)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = 16,
                                      .max_sequences = 4,
                                      .dtype = dtype,
                                      .tuning = "",
                                      .layouts = layouts};
    *session = NULL;
    return wherry_session_create(context, m->device, m->model, &desc, session);
}

static wherry_session *session_new(const struct open_model *m, wherry_context *context, wherry_dtype dtype,
                                   const char *layouts)
{
    wherry_session *session;
    if (session_try(m, context, dtype, layouts, &session)) fail_msg("%s", wherry_last_error(context));
    return session;
}

static void encode(const struct open_model *m, wherry_session *session, float out[2 * TINY_HIDDEN])
{
    const uint32_t offsets[] = {0, 3, 8};
    const int32_t ids[] = {2, 17, 3, 2, 6, 9, 12, 3};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets, .ids = ids};
    if (wherry_encode(session, &batch, out, 2 * TINY_HIDDEN)) fail_msg("%s", wherry_last_error(m->context));
}

/* What comes of a session, which may be refused before it is prepared. `says` and what is after it, each to be in the
 * message; the last one is NULL. */
static void expect_prepare(const struct open_model *m, wherry_dtype dtype, const char *layouts, wherry_status status,
                           const char *const says[])
{
    wherry_session *session;
    wherry_status got = session_try(m, m->context, dtype, layouts, &session);
    if (!got) got = wherry_session_prepare(session, NULL, NULL, NULL);
    const char *text = got ? wherry_last_error(m->context) : "";
    if (got != status) fail_msg("status %d, not %d: %s", got, status, text);
    for (int i = 0; says && says[i]; i++)
        if (!strstr(text, says[i])) fail_msg("\"%s\" does not say \"%s\"", text, says[i]);
    wherry_session_destroy(session);
}

/* ---- files that change ---- */

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void write_at(const char *path, off_t offset, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, size, offset), (ssize_t)size);
    assert_int_equal(close(file), 0);
}

/* A session that is ready goes on, and one that has the same weights needs the file no more; another one of the same
 * model is an error, never a signal. */
static void survives_truncation(void **state)
{
    (void)state;
    static const char *const layouts[] = {"", "w_lin1=iu,w_lin2=ui,w_qkv=iqhp,w_out=hpi"};
    for (int sharded = 0; sharded < 2; sharded++)
        for (int i = 0; i < 3; i++) {
            struct open_model m = model_start(&(struct tiny_model){.sharded = sharded});
            wherry_session *ready = session_new(&m, m.context, WHERRY_DTYPE_F32, "");
            float before[2 * TINY_HIDDEN], after[2 * TINY_HIDDEN];
            encode(&m, ready, before);
            off_t size = size_of(m.path), left = i == 0 ? 0 : i == 1 ? size / 2 : size - 1;
            assert_int_equal(truncate(m.path, left), 0);
            char *now = files_format("and has %d now: open the model again", (int)left);
            for (int l = 0; l < 2; l++)
                for (wherry_dtype dtype = WHERRY_DTYPE_F32; dtype <= WHERRY_DTYPE_F16; dtype++)
                    if (l || dtype != WHERRY_DTYPE_F32)
                        expect_prepare(&m, dtype, layouts[l], WHERRY_STATUS_IO,
                                       (const char *const[]){m.path, now, NULL});
            expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_OK, NULL);
            encode(&m, ready, after);
            assert_memory_equal(before, after, sizeof before);
            wherry_session_destroy(ready);
            expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_IO, (const char *const[]){m.path, now, NULL});
            free(now);
            model_end(&m);
        }
}

static void notices_changes(void **state)
{
    (void)state;
    struct open_model m = model_start(&(struct tiny_model){0});
    off_t size = size_of(m.path);
    write_at(m.path, size, "x", 1); /* grown */
    expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_IO,
                   (const char *const[]){m.path, "open the model again", NULL});
    assert_int_equal(truncate(m.path, size), 0);
    make_old(m.path); /* as it was: nothing is kept of an error */
    expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_OK, NULL);
    const float value = 0.5f;
    write_at(m.path, size - 4, &value, sizeof value);
    expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_IO,
                   (const char *const[]){m.path, "was written to since it was opened: open the model again", NULL});
    model_reopen(&m);
    expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_OK, NULL);
    model_end(&m);
}

/* The open file is the old one: downloads are renamed into place, and caches deleted, while models are in use. */
static void keeps_what_was_opened(void **state)
{
    (void)state;
    struct open_model m = model_start(&(struct tiny_model){0});
    wherry_session *session = session_new(&m, m.context, WHERRY_DTYPE_F32, "");
    float before[2 * TINY_HIDDEN], after[2 * TINY_HIDDEN];
    encode(&m, session, before);
    wherry_session_destroy(session);
    char *other = files_format("%s/other", m.folder);
    files_write(m.folder, "other", "no model", 8);
    for (int gone = 0; gone < 2; gone++) {
        assert_int_equal(gone ? remove(m.path) : rename(other, m.path), 0);
        session = session_new(&m, m.context, WHERRY_DTYPE_F32, "");
        encode(&m, session, after);
        assert_memory_equal(before, after, sizeof before);
        wherry_session_destroy(session);
    }
    free(other);
    model_end(&m);
}

struct truncating {
    const struct open_model *m;
    int prepared, refused, others;
};

static void *prepares(void *user)
{
    struct truncating *t = user;
    wherry_context *context;
    if (wherry_context_create(NULL, &context)) return NULL;
    for (int i = 0; i < 40; i++) {
        wherry_session *session = session_new(t->m, context, i % 2 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32, "");
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        t->prepared += !status;
        t->refused += status == WHERRY_STATUS_IO;
        t->others += status && status != WHERRY_STATUS_IO;
        wherry_session_destroy(session);
    }
    wherry_context_destroy(context);
    return NULL;
}

/* Several threads read one model while the file becomes shorter and longer: each gets all of it, or an error. */
static void survives_changes_in_threads(void **state)
{
    (void)state;
    struct open_model m = model_start(&(struct tiny_model){0});
    off_t size = size_of(m.path);
    char *bytes = malloc((size_t)size);
    int file = open(m.path, O_RDWR);
    assert_true(file >= 0 && pread(file, bytes, (size_t)size, 0) == (ssize_t)size);
    struct truncating t[2] = {{.m = &m}, {.m = &m}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, prepares, &t[i]), 0);
    for (int i = 0; i < 200; i++) {
        const struct timespec pause = {.tv_nsec = 100000};
        assert_int_equal(ftruncate(file, size / 3), 0);
        nanosleep(&pause, NULL);
        assert_int_equal(pwrite(file, bytes, (size_t)size, 0), (ssize_t)size);
        make_old(m.path);
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    print_message("%d prepared, %d refused\n", t[0].prepared + t[1].prepared, t[0].refused + t[1].refused);
    assert_int_equal(t[0].others + t[1].others, 0);
    assert_int_equal(t[0].prepared + t[1].prepared + t[0].refused + t[1].refused, 80);
    close(file);
    free(bytes);
    model_end(&m);
}

struct opening {
    const struct open_model *m;
    pthread_barrier_t *together;
};

static void *opens(void *user)
{
    const struct opening *o = user;
    wherry_context *context;
    if (wherry_context_create(NULL, &context)) return NULL;
    pthread_barrier_wait(o->together);
    wherry_session_destroy(session_new(o->m, context, WHERRY_DTYPE_F16, ""));
    wherry_context_destroy(context);
    return NULL;
}

/* Each of the threads lists what none has looked at, while others say what they have looked at. */
static void looks_in_threads(void **state)
{
    enum { THREADS = 4, ROUNDS = 60 };
    (void)state;
    struct open_model m = model_start(&(struct tiny_model){0});
    pthread_barrier_t together;
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct opening opening = {&m, &together};
        pthread_t threads[THREADS];
        model_reopen(&m); /* nothing of it is known */
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, opens, &opening), 0);
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    pthread_barrier_destroy(&together);
    model_end(&m);
}

/* ---- values ---- */

/* Where in the file element `element` of the tensor is. */
static off_t value_place(const char *path, const char *name, size_t element, size_t size)
{
    static char header[1 << 16];
    FILE *file = fopen(path, "rb");
    unsigned char length[8];
    assert_true(file && fread(length, 1, 8, file) == 8);
    size_t bytes = (size_t)length[0] | (size_t)length[1] << 8;
    assert_true(bytes < sizeof header && fread(header, 1, bytes, file) == bytes);
    fclose(file);
    header[bytes] = 0;
    char *key = files_format("\"%s\":", name), *at = strstr(header, key);
    assert_non_null(at);
    free(key);
    at = strstr(at, "data_offsets\":[");
    return (off_t)(8 + bytes + (size_t)atoll(at + strlen("data_offsets\":[")) + element * size);
}

static void refuses_values(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *tensor;
        size_t element;
        float value;
        bool f32_too; /* refused in f32 too */
        const char *says, *remedy;
    } cases[] = {
        {"F32", "embeddings.word_embeddings.weight", 5 * TINY_HIDDEN + 3, NAN, true,
         "the value nan at element 83 [5, 3]", "get it again or train the model again"},
        {"BF16", "encoder.layer.1.output.dense.weight", 3 * TINY_FEED_FORWARD + 31, INFINITY, true,
         "the value inf at element 127 [3, 31]", "get it again or train the model again"},
        {"F32", "encoder.layer.0.attention.self.value.weight", 17, -INFINITY, true,
         "the value -inf at element 17 [1, 1]", "get it again or train the model again"},
        {"F32", "encoder.layer.1.intermediate.dense.bias", 7, 70000, false,
         "the value 70000 at element 7, beyond the range of 16-bit floats (65504)", "use bf16, or use f32"},
        {"F32", "encoder.layer.1.intermediate.dense.weight", 31 * TINY_HIDDEN + 15, -1e9f, false,
         "the value -1e+09 at element 511 [31, 15], beyond the range of 16-bit floats (65504)", "use bf16, or use f32"},
    };
    static const char *const layouts[] = {"", "w_lin1=iu,w_lin2=ui,w_qkv=iqhp,w_out=hpi"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct open_model m = model_begin(&(struct tiny_model){.dtype = cases[i].dtype});
        uint32_t bits;
        memcpy(&bits, &cases[i].value, sizeof bits);
        const uint16_t high = (uint16_t)(bits >> 16);
        bool brief = !strcmp(cases[i].dtype, "BF16");
        size_t size = brief ? 2 : 4;
        write_at(m.path, value_place(m.path, cases[i].tensor, cases[i].element, size),
                 brief ? (const void *)&high : &bits, size);
        model_reopen(&m);
        char *tensor = files_format("%s: tensor %s has", m.path, cases[i].tensor);
        const char *const says[] = {tensor, cases[i].says, cases[i].remedy, NULL};
        wherry_status status = cases[i].f32_too ? WHERRY_STATUS_BAD_FORMAT : WHERRY_STATUS_UNSUPPORTED;
        for (int l = 0; l < 2; l++) {
            expect_prepare(&m, WHERRY_DTYPE_F16, layouts[l], status, says);
            expect_prepare(&m, WHERRY_DTYPE_F32, layouts[l], cases[i].f32_too ? status : WHERRY_STATUS_OK,
                           cases[i].f32_too ? says : NULL);
        }
        free(tensor);
        model_end(&m);
    }
    /* What no session reads is not looked at. */
    struct open_model m = model_begin(&(struct tiny_model){0});
    const float nan_value = NAN;
    write_at(m.path, value_place(m.path, "pooler.dense.weight", 0, 4), &nan_value, 4);
    model_reopen(&m);
    expect_prepare(&m, WHERRY_DTYPE_F32, "", WHERRY_STATUS_OK, NULL);
    model_end(&m);
}

/* A weight that f16 can't hold: a GPU's session is of bf16 then, where nobody says otherwise, and says why; one that
 * does not read that weight is of f16. */
static void takes_bf16(void **state)
{
    (void)state;
    static const char *const tensors[] = {NULL, "encoder.layer.1.intermediate.dense.weight", "pooler.dense.weight"};
    for (int i = 0; i < 3; i++) {
        struct open_model m = model_begin(&(struct tiny_model){0});
        const float large = 1e5f;
        if (i) write_at(m.path, value_place(m.path, tensors[i], 19, 4), &large, 4);
        model_reopen(&m);
        m.device->info.type = WHERRY_DEVICE_DISCRETE_GPU;
        wherry_session_plan plan = {.struct_size = sizeof plan};
        float want[2 * TINY_HIDDEN], got[2 * TINY_HIDDEN];
        wherry_session *exact = session_new(&m, m.context, WHERRY_DTYPE_F32, "");
        encode(&m, exact, want);
        wherry_session_destroy(exact);
        for (int again = 0; again < 2; again++) {
            wherry_session *session = session_new(&m, m.context, WHERRY_DTYPE_DEFAULT, again ? "w_lin1=iu" : "");
            const char *note = wherry_session_note(session, 0);
            assert_int_equal(wherry_session_query(session, &plan), 0);
            assert_int_equal(plan.dtype, i == 1 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F16);
            if (i == 1 && (!note || strncmp(note, "bf16 instead of f16: ", 21) || !strstr(note, tensors[i]) ||
                           !strstr(note, "the value 100000 at element 19 [1, 3], beyond the range of 16-bit floats")))
                fail_msg("%s", note ? note : "no note");
            if (i != 1 && note) fail_msg("%s", note);
            encode(&m, session, got);
            for (int n = 0; n < 2 * TINY_HIDDEN; n++) assert_float_equal(got[n], want[n], 0.02f);
            wherry_session_destroy(session);
        }
        const wherry_training_desc training = {.struct_size = sizeof training};
        const wherry_session_desc desc = {
            .struct_size = sizeof desc, .max_tokens = 16, .tuning = "", .training = &training};
        wherry_session *session;
        assert_int_equal(wherry_session_create(m.context, m.device, m.model, &desc, &session), 0);
        assert_int_equal(wherry_session_query(session, &plan), 0);
        assert_int_equal(plan.dtype, i == 1 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F16);
        wherry_session_destroy(session);
        model_end(&m);
    }
}

/* An activation too large for f16: which sequence and token is first is known from f32. */
static void names_the_sequence(void **state)
{
    (void)state;
    struct open_model m = model_begin(&(struct tiny_model){0});
    const float large = 40000;
    for (size_t i = 0; i < TINY_HIDDEN; i++)
        write_at(m.path, value_place(m.path, "encoder.layer.1.output.LayerNorm.weight", i, 4), &large, 4);
    model_reopen(&m);
    const uint32_t offsets[] = {0, 3, 8};
    const int32_t ids[] = {2, 17, 3, 2, 6, 9, 12, 3};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets, .ids = ids};
    for (int pooled = 0; pooled < 2; pooled++) {
        wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = 16, .tuning = "", .normalize = -1};
        float out[8 * TINY_HIDDEN];
        size_t row = 0;
        wherry_session *session;
        desc.pool = pooled ? WHERRY_POOL_CLS : WHERRY_POOL_NONE;
        for (desc.dtype = WHERRY_DTYPE_F32; desc.dtype <= WHERRY_DTYPE_F16; desc.dtype++) {
            assert_int_equal(wherry_session_create(m.context, m.device, m.model, &desc, &session), 0);
            wherry_status status = wherry_encode(session, &batch, out, 8 * TINY_HIDDEN);
            wherry_session_destroy(session);
            if (desc.dtype == WHERRY_DTYPE_F16) {
                uint32_t sequence = pooled ? (uint32_t)row : row >= 3, token = (uint32_t)row - offsets[sequence];
                char *says = pooled ? files_format("sequence %u of the batch is not finite", sequence)
                                    : files_format("sequence %u of the batch, token %u of it", sequence, token);
                assert_int_equal(status, WHERRY_STATUS_VERIFY_FAILED);
                if (!strstr(wherry_last_error(m.context), says)) fail_msg("%s", wherry_last_error(m.context));
                free(says);
                continue;
            }
            if (status) fail_msg("%s", wherry_last_error(m.context));
            while (row < (pooled ? 2 : 8) * TINY_HIDDEN && fabsf(out[row]) < 65520) row++;
            row /= TINY_HIDDEN;
            assert_true(row < (pooled ? 2 : 8));
        }
    }
    model_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_truncation),   cmocka_unit_test(notices_changes),
        cmocka_unit_test(keeps_what_was_opened), cmocka_unit_test(survives_changes_in_threads),
        cmocka_unit_test(refuses_values),        cmocka_unit_test(takes_bf16),
        cmocka_unit_test(names_the_sequence),    cmocka_unit_test(looks_in_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
