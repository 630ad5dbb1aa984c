/* cpu_wherry: Wherry's side of the comparison on the host's cores (bench/peers/cpu.py, which says what is compared).
 *
 *   cpu_wherry FOLDER DEVICE THREADS     FOLDER: of cpu_prepare.py; THREADS: 0: all cores
 *
 * Reads requests from standard input, "TASK SETTING COUNT FILE" each, and answers with a line of JSON: seconds and
 * seconds of processor time of COUNT repetitions. FILE gets what the last one made, as floats; "-": none. Like every
 * peer it begins with texts where texts are given, and what can be done once is done before the first repetition. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>

enum { COUNT_MOST = 4096, PATH = 4096, WARM = 128 /* texts of the run that is not counted */ };

struct state {
    const char *folder;
    wherry_context *context, *reader; /* errors of tokenizing have a context of their own, for it has a thread */
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    char made[256]; /* the task and setting that model and session are for */
    bool bf16;      /* a setting begins with "bf16-" */

    char *text, **lines; /* [sequences], in `text` */
    uint32_t sequences, length, width, batch_tokens;
    uint32_t *offsets, *lengths; /* [sequences + 1]; [sequences] */
    int32_t *ids, *found;        /* found [sequences][length]: of each text */
    float *out, *batch_out, *x, *gradient;
    size_t floats;
};

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "cpu_wherry: out of memory\n");
    exit(1);
}

static bool fine(const struct state *s, wherry_status status, const char *what)
{
    if (status) fprintf(stderr, "cpu_wherry: %s: %s\n", what, wherry_last_error(s->context));
    return status == WHERRY_STATUS_OK;
}

/* ---- files ---- */

static char *file_read(const struct state *s, const char *name, size_t *bytes)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cpu_wherry: can't open %s\n", path);
        exit(1);
    }
    char *data = NULL;
    for (size_t room = 1 << 16;; room *= 2) {
        data = need(realloc(data, room + 1));
        *bytes += fread(data + *bytes, 1, room - *bytes, file);
        if (*bytes < room) break;
    }
    fclose(file);
    data[*bytes] = 0;
    return data;
}

static bool file_write(const char *path, const float *values, size_t count)
{
    FILE *file = fopen(path, "wb");
    bool ok = file && fwrite(values, sizeof *values, count, file) == count;
    if (file && fclose(file)) ok = false;
    if (!ok) fprintf(stderr, "cpu_wherry: can't write %s\n", path);
    return ok;
}

static void lines_read(struct state *s, const char *name)
{
    size_t bytes = 0;
    s->text = file_read(s, name, &bytes);
    s->sequences = 0;
    for (size_t i = 0; i < bytes; i++) s->sequences += s->text[i] == '\n';
    s->lines = need(calloc((size_t)s->sequences + 1, sizeof *s->lines));
    char *at = s->text;
    for (uint32_t n = 0; n < s->sequences; n++) {
        s->lines[n] = at;
        at = strchr(at, '\n');
        *at++ = 0;
    }
}

/* ---- sessions ---- */

static void session_drop(struct state *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    s->session = NULL;
    s->model = NULL;
    void *memory[] = {s->text,  (void *)s->lines, s->offsets,   s->lengths, s->ids,
                      s->found, s->out,           s->batch_out, s->x,       s->gradient};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
    s->text = NULL;
    s->lines = NULL;
    s->offsets = s->lengths = NULL;
    s->ids = s->found = NULL;
    s->out = s->batch_out = s->x = s->gradient = NULL;
    *s->made = 0;
}

static bool session_make(struct state *s, const char *model, wherry_session_desc desc)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", s->folder, model);
    wherry_model_info info = {.struct_size = sizeof info};
    wherry_session_plan plan = {.struct_size = sizeof plan};
    desc.struct_size = sizeof desc;
    desc.dtype = s->bf16 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F32;
    if (!s->model && !fine(s, wherry_model_open(s->context, path, &s->model), "model")) return false;
    if (!fine(s, wherry_model_describe(s->model, &info), "model")) return false;
    s->length = desc.max_length && desc.max_length < info.max_tokens ? desc.max_length : info.max_tokens;
    if (!fine(s, wherry_session_create(s->context, s->device, s->model, &desc, &s->session), "session")) return false;
    if (!fine(s, wherry_session_query(s->session, &plan), "session")) return false;
    s->width = plan.embedding_size;
    return fine(s, wherry_session_prepare(s->session, NULL, NULL, NULL), "prepare");
}

static void batch_memory(struct state *s, uint32_t sequences, uint32_t tokens)
{
    s->offsets = need(calloc((size_t)sequences + 1, sizeof *s->offsets));
    s->lengths = need(calloc(sequences, sizeof *s->lengths));
    s->ids = need(calloc(tokens, sizeof *s->ids));
    s->floats = (size_t)sequences * s->width;
    s->out = need(calloc(s->floats, sizeof *s->out));
    s->batch_out = need(calloc(s->floats, sizeof *s->batch_out));
}

/* ---- texts ---- */

static bool tokenize(struct state *s, uint32_t n)
{
    size_t count = s->length;
    wherry_status status = wherry_tokenize(s->reader, s->model, s->lines[n], strlen(s->lines[n]), NULL, 0, s->length,
                                           s->found + (size_t)n * s->length, NULL, &count);
    if (status) fprintf(stderr, "cpu_wherry: text %u: %s\n", n, wherry_last_error(s->reader));
    s->lengths[n] = (uint32_t)count;
    return !status;
}

/* Texts are tokenized by a thread while batches before them are encoded. */
struct reading {
    struct state *s;
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t done;
    bool failed;
};

static void *read_ahead(void *argument)
{
    struct reading *r = argument;
    uint32_t next = 0;
    while (next < r->s->sequences) {
        bool ok = true;
        uint32_t end = next + 32 < r->s->sequences ? next + 32 : r->s->sequences;
        for (; ok && next < end; next++) ok = tokenize(r->s, next);
        pthread_mutex_lock(&r->lock);
        r->done = next;
        r->failed = !ok;
        pthread_cond_signal(&r->change);
        pthread_mutex_unlock(&r->lock);
        if (!ok) break;
    }
    return NULL;
}

/* Whether text n is tokenized; waits for it. */
static bool reading_wait(struct reading *r, uint32_t n)
{
    pthread_mutex_lock(&r->lock);
    while (r->done <= n && !r->failed) pthread_cond_wait(&r->change, &r->lock);
    bool ok = !r->failed;
    pthread_mutex_unlock(&r->lock);
    return ok;
}

static bool encode(struct state *s, uint32_t sequences, float *out)
{
    wherry_batch batch = {.struct_size = sizeof batch, .sequences = sequences, .offsets = s->offsets, .ids = s->ids};
    return fine(s, wherry_encode(s->session, &batch, out, (size_t)sequences * s->width), "encode");
}

/* In the order of the texts: batches have no padding, so that nothing is gained by sorting. */
static bool run_sentences(struct state *s)
{
    struct reading r = {.s = s};
    pthread_t thread;
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.change, NULL);
    if (pthread_create(&thread, NULL, read_ahead, &r)) return false;
    bool ok = true;
    for (uint32_t first = 0, n = 0; ok && first < s->sequences; first = n) {
        uint32_t tokens = 0;
        for (; n < s->sequences; n++) {
            if (!(ok = reading_wait(&r, n))) break;
            if (tokens + s->lengths[n] > s->batch_tokens) break;
            memcpy(s->ids + tokens, s->found + (size_t)n * s->length, s->lengths[n] * sizeof *s->ids);
            s->offsets[n - first] = tokens;
            s->offsets[n - first + 1] = tokens += s->lengths[n];
        }
        ok = ok && encode(s, n - first, s->out + (size_t)first * s->width);
    }
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.change);
    return ok;
}

static bool make_sentences(struct state *s, const char *file, uint32_t tokens)
{
    s->batch_tokens = tokens;
    if (!session_make(s, "minilm", (wherry_session_desc){.max_tokens = tokens, .max_length = 256})) return false;
    lines_read(s, file);
    batch_memory(s, s->sequences, tokens);
    s->found = need(calloc((size_t)s->sequences * s->length, sizeof *s->found));
    return true;
}

static bool run_sentence(struct state *s)
{
    if (!tokenize(s, 0)) return false;
    memcpy(s->ids, s->found, s->lengths[0] * sizeof *s->ids);
    s->offsets[1] = s->lengths[0];
    return encode(s, 1, s->out);
}

/* ---- a batch of ids ---- */

static bool run_batch(struct state *s) { return encode(s, s->sequences, s->out); }

static bool make_batch(struct state *s, uint32_t length)
{
    size_t bytes = 0;
    char *ids = file_read(s, "ids.i32", &bytes);
    uint32_t tokens = (uint32_t)(bytes / sizeof *s->ids);
    s->sequences = tokens / length;
    bool ok = session_make(s, "bert-base",
                           (wherry_session_desc){.max_tokens = tokens,
                                                 .max_sequences = s->sequences,
                                                 .max_length = length,
                                                 .pool = WHERRY_POOL_MEAN,
                                                 .normalize = -1});
    if (ok) batch_memory(s, s->sequences, tokens);
    if (ok) memcpy(s->ids, ids, bytes);
    for (uint32_t n = 0; ok && n <= s->sequences; n++) s->offsets[n] = n * length;
    free(ids);
    return ok;
}

/* ---- a layer in training ---- */

static bool run_layer(struct state *s)
{
    wherry_batch batch = {.struct_size = sizeof batch, .sequences = s->sequences, .offsets = s->offsets};
    return fine(s, wherry_forward(s->session, &batch, s->x, NULL, s->out, s->floats), "forward") &&
           fine(s, wherry_backward(s->session, s->gradient, s->floats, s->batch_out, s->floats), "backward");
}

static bool make_layer(struct state *s, float dropout)
{
    const uint32_t length = 512;
    wherry_model_config config = {.struct_size = sizeof config};
    if (!fine(s, wherry_model_config_named(s->context, "bert-large", &config), "configuration")) return false;
    config.layers = 1;
    config.activation = WHERRY_ACTIVATION_RELU;
    if (!fine(s, wherry_model_create_random(s->context, &config, 1, &s->model), "model")) return false;
    wherry_training_desc training = {.struct_size = sizeof training, .dropout = dropout, .stack = true};
    wherry_session_desc desc = {.max_tokens = length, .max_sequences = 1, .max_length = length, .training = &training};
    if (!session_make(s, "", desc)) return false;
    s->sequences = 1;
    s->width = config.hidden;
    batch_memory(s, length, length); /* a row a token */
    s->offsets[1] = length;
    s->x = need(calloc(s->floats, sizeof *s->x));
    s->gradient = need(calloc(s->floats, sizeof *s->gradient));
    uint32_t state = 1;
    for (size_t i = 0; i < 2 * s->floats; i++) { /* uniform, of variance 1 */
        state = state * 1664525u + 1013904223u;
        (i < s->floats ? s->x : s->gradient)[i % s->floats] = ((float)(state >> 8) * 0x1p-23f - 1.0f) * 1.7320508f;
    }
    return true;
}

/* ---- requests ---- */

struct task {
    const char *name;
    bool (*make)(struct state *s, const char *setting);
    bool (*run)(struct state *s);
};

static bool sentences_task(struct state *s, const char *setting)
{
    return make_sentences(s, "sentences.txt", (uint32_t)strtoul(setting, NULL, 10));
}

static bool some_task(struct state *s, const char *setting)
{
    return make_sentences(s, "some.txt", (uint32_t)strtoul(setting, NULL, 10));
}

static bool sentence_task(struct state *s, const char *setting)
{
    (void)setting;
    return make_sentences(s, "sentence.txt", 256);
}

static bool batch_task(struct state *s, const char *setting)
{
    return make_batch(s, (uint32_t)strtoul(setting, NULL, 10));
}

static bool layer_task(struct state *s, const char *setting) { return make_layer(s, strtof(setting, NULL)); }

static const struct task tasks[] = {{"sentences", sentences_task, run_sentences},
                                    {"some", some_task, run_sentences},
                                    {"sentence", sentence_task, run_sentence},
                                    {"batch", batch_task, run_batch},
                                    {"layer", layer_task, run_layer}};

static bool repeat(struct state *s, const struct task *task, int count)
{
    static double seconds[COUNT_MOST], cpu[COUNT_MOST];
    for (int i = 0; i < count; i++) {
        double wall = clock_seconds(CLOCK_MONOTONIC), used = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (!task->run(s)) return false;
        seconds[i] = clock_seconds(CLOCK_MONOTONIC) - wall;
        cpu[i] = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    }
    printf("{\"seconds\": [");
    for (int i = 0; i < count; i++) printf("%s%.9f", i ? ", " : "", seconds[i]);
    printf("], \"cpu\": [");
    for (int i = 0; i < count; i++) printf("%s%.9f", i ? ", " : "", cpu[i]);
    printf("]}\n");
    return true;
}

static bool answer(struct state *s, char *line)
{
    char name[32], setting[32], path[PATH], key[80];
    int count;
    if (sscanf(line, "%31s %31s %d %4095s", name, setting, &count, path) != 4 || count < 1 || count > COUNT_MOST)
        return false;
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        if (strcmp(tasks[i].name, name) != 0) continue;
        snprintf(key, sizeof key, "%s %s", name, setting);
        if (strcmp(key, s->made) != 0) {
            session_drop(s);
            s->bf16 = !strncmp(setting, "bf16-", 5);
            if (!tasks[i].make(s, setting + (s->bf16 ? 5 : 0))) return false;
            snprintf(s->made, sizeof s->made, "%s", key);
            uint32_t all = s->sequences;
            s->sequences = all < WARM ? all : WARM;
            bool ok = tasks[i].run(s);
            s->sequences = all;
            if (!ok) return false;
        }
        return repeat(s, &tasks[i], count) && (!strcmp(path, "-") || file_write(path, s->out, s->floats));
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: cpu_wherry FOLDER DEVICE THREADS\n");
        return 2;
    }
    struct state s = {.folder = argv[1]};
    const wherry_context_desc desc = {.struct_size = sizeof desc, .threads = (uint32_t)strtoul(argv[3], NULL, 10)};
    if (wherry_context_create(&desc, &s.context) || wherry_context_create(NULL, &s.reader) ||
        !fine(&s, wherry_device_open(s.context, argv[2], &s.device), "device"))
        return 1;
    printf("{\"version\": \"%s\"}\n", wherry_version_string());
    fflush(stdout);
    char line[PATH + 128];
    while (fgets(line, sizeof line, stdin)) {
        if (!answer(&s, line)) printf("{\"error\": \"see the standard error of cpu_wherry\"}\n");
        fflush(stdout);
    }
    session_drop(&s);
    wherry_device_close(s.device);
    wherry_context_destroy(s.reader);
    wherry_context_destroy(s.context);
    return 0;
}
