/* Models of blocks of memory and of callbacks: what folders of the same files give, bit for bit, and files that are
 * missing, wrong or not given. */
#include "model_files.h"

#include "model/model.h"
#include "model/safetensors.h"
#include "support.h"

#include <pthread.h>
#include <setjmp.h>

#include <cmocka.h>

static wherry_context *context;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* ---- the files of a folder, in memory ---- */

enum { FILES_MOST = 64 };

static struct files {
    char *names[FILES_MOST];
    void *data[FILES_MOST];
    uint64_t bytes[FILES_MOST];
    size_t count;
    const char *missing; /* this one is left out */
    const char *failing; /* read fails for this one, from `fails_at` on */
    uint64_t fails_at, grown;
    pthread_mutex_t lock;
    size_t reads;
} files = {.lock = PTHREAD_MUTEX_INITIALIZER};
static size_t root_length;

static int files_take(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type != FTW_F || files.count == FILES_MOST || strstr(path + root_length, "/.")) return 0;
    FILE *f = fopen(path, "rb");
    files_check(f, path);
    /* At an odd address: weights may lie at any. */
    unsigned char *data = malloc((size_t)st->st_size + 1);
    files_check(data && fread(data + 1, 1, (size_t)st->st_size, f) == (size_t)st->st_size, path);
    fclose(f);
    files.names[files.count] = files_format("%s", path + root_length);
    files.data[files.count] = data;
    files.bytes[files.count++] = (uint64_t)st->st_size;
    return 0;
}

static void files_load(const char *folder)
{
    root_length = strlen(folder) + 1;
    files_check(!nftw(folder, files_take, 8, 0), folder);
    assert_true(files.count > 2);
}

static void files_unload(void)
{
    for (size_t i = 0; i < files.count; i++) {
        free(files.names[i]);
        free(files.data[i]);
    }
    files.count = 0;
    files.missing = files.failing = NULL;
    files.grown = 0;
}

static size_t files_index(const char *name)
{
    size_t i = 0;
    while (i < files.count && strcmp(files.names[i], name)) i++;
    return files.missing && !strcmp(name, files.missing) ? files.count : i;
}

static bool find(const char *name, uint64_t *bytes, void *user)
{
    assert_ptr_equal(user, &files);
    size_t i = files_index(name);
    if (i == files.count) return false;
    *bytes = files.bytes[i] + (strcmp(name, "model.safetensors") ? 0 : files.grown);
    return true;
}

/* Called from several threads: no assertion of cmocka's. */
static bool read_bytes(const char *name, uint64_t offset, void *to, size_t bytes, void *user)
{
    size_t i = files_index(name);
    bool ok = user == &files && i < files.count && offset <= files.bytes[i] && bytes <= files.bytes[i] - offset;
    if (ok && files.failing && !strcmp(files.failing, name) && offset + bytes > files.fails_at) ok = false;
    if (ok) memcpy(to, (char *)files.data[i] + 1 + offset, bytes);
    pthread_mutex_lock(&files.lock);
    files.reads++;
    pthread_mutex_unlock(&files.lock);
    return ok;
}

/* Blocks of files whose number is even or odd, callbacks for the rest; 0: blocks alone, 3: callbacks alone. */
static wherry_status open_files(int how, wherry_model **out)
{
    wherry_model_file blocks[FILES_MOST];
    wherry_model_files given = {.struct_size = sizeof given, .files = blocks};
    for (size_t i = 0; i < files.count; i++)
        if (how != 3 && (!how || (int)(i % 2) == how - 1) && files_index(files.names[i]) < files.count)
            blocks[given.count++] = (wherry_model_file){files.names[i], (char *)files.data[i] + 1, files.bytes[i]};
    if (how) given.find = find, given.read = read_bytes, given.user = &files;
    wherry_status status = wherry_model_open_memory(context, &given, out);
    memset(blocks, 0, sizeof blocks); /* the list is not kept */
    return status;
}

/* ---- the same as of the folder ---- */

enum { FLOATS = 1024 };

static size_t embed(const wherry_model *model, wherry_device *device, const char *text, float *out)
{
    int32_t ids[64], types[64];
    size_t count = 64;
    wherry_session *session;
    const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = 64, .dtype = WHERRY_DTYPE_F32};
    wherry_session_plan plan = {.struct_size = sizeof plan};
    OK(wherry_tokenize(context, model, text, strlen(text), NULL, 0, 16, ids, types, &count));
    const uint32_t offsets[] = {0, (uint32_t)count};
    const wherry_batch batch = {sizeof batch, 1, offsets, ids, types};
    OK(wherry_session_create(context, device, model, &desc, &session));
    OK(wherry_session_query(session, &plan));
    OK(wherry_encode(session, &batch, out, FLOATS));
    wherry_session_destroy(session);
    memcpy(out + plan.embedding_size, ids, count * sizeof *ids);
    return plan.embedding_size + count;
}

static void compare(const char *folder, const char *device_name)
{
    static const char text[] = "the boat carries people, rivers and boats.";
    wherry_model *model;
    wherry_device *device;
    wherry_model_info want = {.struct_size = sizeof want};
    float vector[FLOATS];
    OK(wherry_device_open(context, device_name, &device));
    OK(wherry_model_open(context, folder, &model));
    OK(wherry_model_describe(model, &want));
    size_t values = embed(model, device, text, vector);
    wherry_model_close(model);
    files_load(folder);
    for (int how = 0; how < 4; how++) {
        float got[FLOATS];
        wherry_model_info info = {.struct_size = sizeof info};
        files.reads = 0;
        OK(open_files(how, &model));
        OK(wherry_model_describe(model, &info));
        assert_memory_equal(&info.config, &want.config, sizeof info.config);
        assert_string_equal(info.architecture, want.architecture);
        assert_string_equal(info.tokenizer, want.tokenizer);
        assert_true(info.max_tokens == want.max_tokens && info.parameters == want.parameters &&
                    info.weight_file_bytes == want.weight_file_bytes && info.normalize == want.normalize &&
                    info.pool == want.pool && info.prompts == want.prompts);
        assert_int_equal(embed(model, device, text, got), values);
        assert_memory_equal(got, vector, values * sizeof *got);
        assert_true(how ? files.reads > 0 : !files.reads);
        wherry_model_close(model);
    }
    files_unload();
    wherry_device_close(device);
}

static char *module_folder(bool sharded)
{
    static const unsigned char weights[16 * 8 * 4 + 8 * 4] = {0};
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sharded = sharded, .sentence = true});
    files_write_text(folder, "modules.json",
                     "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}, "
                     "{\"path\": \"./1_Pooling/\", \"type\": \"sentence_transformers.models.Pooling\"}, "
                     "{\"path\": \"2_Dense\", \"type\": \"sentence_transformers.models.Dense\"}, "
                     "{\"path\": \"3_Normalize\", \"type\": \"sentence_transformers.models.Normalize\"}]");
    files_write_text(folder, "2_Dense/config.json",
                     "{\"in_features\": 16, \"out_features\": 8, \"bias\": true, \"activation_function\": "
                     "\"torch.nn.modules.activation.Tanh\"}");
    size_t size;
    unsigned char filled[sizeof weights];
    for (size_t i = 0; i < sizeof weights / 4; i++) {
        float value = (float)(i % 13) / 16 - 0.3f;
        memcpy(filled + 4 * i, &value, 4);
    }
    unsigned char *file =
        safetensors_bytes("{\"linear.weight\": {\"dtype\": \"F32\", \"shape\": [8, 16], \"data_offsets\": [0, 512]}, "
                          "\"linear.bias\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [512, 544]}}",
                          filled, sizeof filled, &size);
    files_write(folder, "2_Dense/model.safetensors", file, size);
    free(file);
    return folder;
}

static void test_same(void **state)
{
    (void)state;
    for (int sharded = 0; sharded < 2; sharded++) {
        char *folder = module_folder(sharded);
        compare(folder, "reference");
        files_remove(folder);
    }
    const char *minilm = getenv("WHERRY_TEST_MODEL");
    if (minilm && *minilm) compare(minilm, "cpu");
}

/* Blocks are read where they lie. */
static void test_no_copy(void **state)
{
    (void)state;
    char *folder = module_folder(false);
    struct wherry_model *model;
    files_load(folder);
    OK(open_files(0, &model));
    const unsigned char *data = files.data[files_index("model.safetensors")],
                        *end = data + 1 + files.bytes[files_index("model.safetensors")];
    for (int layer = 0; layer <= TINY_LAYERS; layer++)
        for (int w = 0; w < WEIGHT_COUNT; w++) {
            const struct weight_part *part = &model->weights[layer][w][0];
            const unsigned char *at = part->memory;
            if (part->elements && strstr(part->file->path, "2_Dense") == NULL) assert_true(at > data && at < end);
        }
    wherry_model_close(model);
    files_unload();
    files_remove(folder);
}

/* ---- what is wrong ---- */

static void expect(wherry_status status, wherry_status want, const char *text)
{
    assert_int_equal(status, want);
    if (!strstr(wherry_last_error(context), text)) fail_msg("\"%s\" is not in: %s", text, wherry_last_error(context));
}

static void test_missing(void **state)
{
    (void)state;
    static const char *const needed[] = {"config.json", "model.safetensors", "1_Pooling/config.json",
                                         "2_Dense/config.json", "2_Dense/model.safetensors"};
    char *folder = module_folder(false);
    wherry_model *model;
    files_load(folder);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        for (int how = 0; how < 4; how += 3) {
            files.missing = needed[i];
            expect(open_files(how, &model), WHERRY_STATUS_IO, strrchr(needed[i], '/') ? needed[i] : "memory");
        }
    files.missing = "vocab.txt"; /* can be done without */
    OK(open_files(3, &model));
    wherry_model_close(model);
    files_unload();
    files_remove(folder);
}

static void test_wrong(void **state)
{
    (void)state;
    char *folder = module_folder(false);
    wherry_model *model;
    wherry_device *device;
    wherry_session *session;
    const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = 64};
    files_load(folder);
    OK(wherry_device_open(context, "reference", &device));
    files.failing = "config.json";
    expect(open_files(3, &model), WHERRY_STATUS_IO, "memory/config.json: the application did not give");
    files.failing = "model.safetensors"; /* its header is there, its tensors are not */
    files.fails_at = files.bytes[files_index("model.safetensors")] / 2;
    OK(open_files(3, &model));
    OK(wherry_session_create(context, device, model, &desc, &session));
    expect(wherry_session_prepare(session, NULL, NULL, NULL), WHERRY_STATUS_IO,
           "memory/model.safetensors: the application did not give");
    files.failing = NULL;
    OK(wherry_session_prepare(session, NULL, NULL, NULL));
    wherry_session_destroy(session);
    wherry_model_close(model);
    files.grown = 1;
    expect(open_files(3, &model), WHERRY_STATUS_BAD_FORMAT, "memory/model.safetensors");
    files.grown = (uint64_t)1 << 62; /* and nothing of that size is asked for */
    expect(open_files(3, &model), WHERRY_STATUS_BAD_FORMAT, "memory/model.safetensors");
    files.grown = 0;
    files.bytes[files_index("vocab.txt")] = (uint64_t)1 << 40;
    expect(open_files(3, &model), WHERRY_STATUS_BAD_FORMAT, "at most");
    files_unload();
    wherry_device_close(device);
    files_remove(folder);
}

static void test_arguments(void **state)
{
    (void)state;
    wherry_model *model = NULL;
    static const wherry_model_file block = {"config.json", "{}", 2}, out = {"../config.json", "{}", 2},
                                   rooted = {"/config.json", "{}", 2}, unnamed = {NULL, "{}", 2},
                                   empty = {"./", "{}", 2}, dataless = {"config.json", NULL, 2},
                                   vast = {"config.json", "{}", UINT64_MAX},
                                   twice[] = {{"a/config.json", "{}", 2}, {"a//./config.json", "{}", 2}};
    const wherry_model_files cases[] = {
        {.struct_size = 1},
        {.struct_size = sizeof *cases},
        {.struct_size = sizeof *cases, .count = 1},
        {.struct_size = sizeof *cases, .find = find},
        {.struct_size = sizeof *cases, .files = &block, .count = 1, .read = read_bytes},
        {.struct_size = sizeof *cases, .files = &out, .count = 1},
        {.struct_size = sizeof *cases, .files = &rooted, .count = 1},
        {.struct_size = sizeof *cases, .files = &unnamed, .count = 1},
        {.struct_size = sizeof *cases, .files = &empty, .count = 1},
        {.struct_size = sizeof *cases, .files = &dataless, .count = 1},
        {.struct_size = sizeof *cases, .files = &vast, .count = 1},
        {.struct_size = sizeof *cases, .files = twice, .count = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(wherry_model_open_memory(context, &cases[i], &model), WHERRY_STATUS_INVALID_ARGUMENT, "wherry_model");
    expect(wherry_model_open_memory(context, NULL, &model), WHERRY_STATUS_INVALID_ARGUMENT, "NULL");
    const wherry_model_files one = {.struct_size = sizeof one, .files = &block, .count = 1};
    expect(wherry_model_open_memory(context, &one, &model), WHERRY_STATUS_BAD_FORMAT, "memory/config.json");
    assert_null(model);
}

int main(void)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    if (wherry_context_create(&desc, &context)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),  cmocka_unit_test(test_no_copy),   cmocka_unit_test(test_missing),
        cmocka_unit_test(test_wrong), cmocka_unit_test(test_arguments),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
