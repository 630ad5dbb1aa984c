/* An application as others write them, C and C++ alike: it links the installed library, has functions of its own that
 * are called as the library's inner ones, and embeds a text.
 *
 *   app MODEL_FOLDER EXPECTED TEXT...    EXPECTED: what `wherry embed --device reference` prints for these texts */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>
#include <wherry/wherry_compile.h>
#include <wherry/wherry_measure.h>
#include <wherry/wherry_opencl.h>
#include <wherry/wherry_vulkan.h>

enum { MAX_TOKENS = 48, MAX_SIZE = 1024 };

/* ---- names that the library has inside ---- */

static int calls;

#define OWN_FUNCTIONS(X)                                                                                               \
    X(file_read, 1)                                                                                                    \
    X(file_append, 2)                                                                                                  \
    X(file_replace, 3)                                                                                                 \
    X(clock_ns, 4)                                                                                                     \
    X(core_count, 5)                                                                                                   \
    X(fail, 6)                                                                                                         \
    X(fail_in, 7)                                                                                                      \
    X(fail_native, 8)                                                                                                  \
    X(config_read, 9)                                                                                                  \
    X(batch_fill, 10)                                                                                                  \
    X(graph_create, 11)                                                                                                \
    X(graph_destroy, 12)                                                                                               \
    X(json_file_read, 13)                                                                                              \
    X(model_open, 14)                                                                                                  \
    X(model_close, 15)                                                                                                 \
    X(path_join, 16)                                                                                                   \
    X(session_new, 17)                                                                                                 \
    X(session_run, 18)                                                                                                 \
    X(tokenizer_open, 19)                                                                                              \
    X(tokenizer_encode, 20)                                                                                            \
    X(backends_count, 21)                                                                                              \
    X(device_check, 22)

#ifdef __cplusplus
extern "C" {
#endif
#define DECLARE(name, number) int name(int value);
OWN_FUNCTIONS(DECLARE)
extern int backends;
#define DEFINE(name, number)                                                                                           \
    int name(int value)                                                                                                \
    {                                                                                                                  \
        calls++;                                                                                                       \
        return 1000 * number + value;                                                                                  \
    }
OWN_FUNCTIONS(DEFINE)
int backends = 4711;
#ifdef __cplusplus
}
#endif

static bool own_names(void)
{
    bool good = backends == 4711;
    int count = 0;
    if (calls) fprintf(stderr, "app: the library called %d functions of the application\n", calls);
    good = good && calls == 0;
#define CALL(name, number)                                                                                             \
    count++;                                                                                                           \
    if (name(count) != 1000 * number + count) {                                                                        \
        fprintf(stderr, "app: %s is not the application's\n", #name);                                                  \
        good = false;                                                                                                  \
    }
    OWN_FUNCTIONS(CALL)
    return good && calls == count;
}

/* ---- embedding ---- */

struct state {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

static wherry_status embed(struct state *s, const char *text, float *out, size_t *size)
{
    int32_t ids[MAX_TOKENS];
    size_t count = MAX_TOKENS;
    wherry_status status =
        wherry_tokenize(s->context, s->model, text, strlen(text), NULL, 0, MAX_TOKENS, ids, NULL, &count);
    if (status) return status;
    uint32_t offsets[2] = {0, 0};
    offsets[1] = (uint32_t)count;
    wherry_session_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.struct_size = sizeof plan;
    if ((status = wherry_session_query(s->session, &plan))) return status;
    *size = plan.embedding_size;
    if (*size > MAX_SIZE) return WHERRY_STATUS_UNSUPPORTED;
    wherry_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.sequences = 1;
    batch.offsets = offsets;
    batch.ids = ids;
    return wherry_encode(s->session, &batch, out, *size);
}

static wherry_status open_all(struct state *s, const char *folder)
{
    wherry_status status = wherry_context_create(NULL, &s->context);
    if (!status) status = wherry_device_open(s->context, "reference", &s->device);
    if (!status) status = wherry_model_open(s->context, folder, &s->model);
    if (!status) status = wherry_session_create(s->context, s->device, s->model, NULL, &s->session);
    return status;
}

/* Whether these are the file's next numbers. Storage is f32: another system's rounding of the last step may differ. */
static bool same(FILE *expected, const float *values, size_t size)
{
    for (size_t n = 0; n < size; n++) {
        double value;
        if (fscanf(expected, "%lf", &value) != 1 || !(fabs(values[n] - value) <= 1e-6 * (1 + fabs(value)))) {
            fprintf(stderr, "app: number %zu of an embedding is not what the command printed\n", n);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct state s = {NULL, NULL, NULL, NULL};
    float values[MAX_SIZE];
    FILE *expected = argc > 3 ? fopen(argv[2], "r") : NULL;
    if (!expected) {
        fprintf(stderr, "usage: app MODEL_FOLDER EXPECTED TEXT...\n");
        return 2;
    }
    wherry_status status = open_all(&s, argv[1]);
    bool good = true;
    for (int n = 3; !status && n < argc; n++) {
        size_t size = 0;
        status = embed(&s, argv[n], values, &size);
        if (!status) good = same(expected, values, size) && good;
    }
    if (status)
        fprintf(stderr, "app: %s: %s\n", wherry_status_name(status), s.context ? wherry_last_error(s.context) : "");
    /* Every header's functions are there. */
    wherry_vulkan_needs needs;
    memset(&needs, 0, sizeof needs);
    needs.struct_size = sizeof needs;
    const wherry_status needed = wherry_vulkan_query_needs(&needs); /* unsupported without Vulkan */
    good = (!needed || needed == WHERRY_STATUS_UNSUPPORTED) && wherry_regime_name(WHERRY_REGIME_MEMORY) && good;
    if (s.context) good = wherry_device_wrap_opencl(s.context, NULL, NULL) != WHERRY_STATUS_OK && good;
    fclose(expected);
    wherry_session_destroy(s.session);
    wherry_model_close(s.model);
    wherry_device_close(s.device);
    wherry_context_destroy(s.context);
    good = own_names() && good;
    if (!status && good) printf("app: %d texts as expected, library %s\n", argc - 3, wherry_version_string());
    return status || !good ? 1 : 0;
}
