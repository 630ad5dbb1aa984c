/* Model folders written anew: what was read from one is read from the other, names, values and tokenizers; a folder is
 * there whole or not at all. */
#include "model_files.h"

#include "base/folder.h"
#include "model/model_write.h"
#include "model/safetensors.h"
#include "model/tensor_names.h"

#include <signal.h>
#include <sys/resource.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct error e;

static bool written(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                    const char *path)
{
    struct new_folder folder;
    e = (struct error){0};
    return new_folder_begin(&files_host, path, &folder, &e) &&
           new_folder_end(&folder, model_write(model, weights, &folder, &e), &e);
}

static struct wherry_model *opened(const char *folder)
{
    struct wherry_model *model;
    e = (struct error){0};
    if (!model_open(&files_host, folder, &model, &e)) fail_msg("%s", e.text);
    return model;
}

static float *values_of(const struct weight_part *part)
{
    float *values = malloc((size_t)part->elements * sizeof *values);
    void *raw = malloc(WEIGHT_RAW_BYTES);
    assert_true(values && raw);
    if (!weight_convert(part, 0, part->elements, WEIGHT_TYPE_F32, raw, values, &e)) fail_msg("%s", e.text);
    free(raw);
    return values;
}

/* All weights of both, by name and value; `factor`: what those of the second are of the first's. Returns their number.
 */
static size_t compare(const struct wherry_model *a, const struct wherry_model *b, float factor)
{
    size_t count = 0;
    assert_int_equal(a->info.config.layers, b->info.config.layers);
    assert_int_equal(a->info.parameters, b->info.parameters);
    for (int layer = -1; layer < (int)a->info.config.layers; layer++)
        for (int weight = 0; weight < WEIGHT_COUNT; weight++)
            for (int part = 0; part < 3; part++) {
                const struct weight_part *of[] = {&a->weights[layer + 1][weight][part],
                                                  &b->weights[layer + 1][weight][part]};
                struct model_tensor names[2];
                assert_int_equal(of[0]->elements, of[1]->elements);
                if (!of[0]->elements) continue;
                model_tensor(a, (enum weight)weight, layer, part, &names[0]);
                model_tensor(b, (enum weight)weight, layer, part, &names[1]);
                assert_string_equal(names[0].name, names[1].name);
                assert_int_equal(of[1]->type, WEIGHT_TYPE_F32);
                float *values[] = {values_of(of[0]), values_of(of[1])};
                for (uint64_t i = 0; i < of[0]->elements; i++)
                    if (values[0][i] * factor != values[1][i])
                        fail_msg("%s: %g and %g", names[0].name, (double)values[0][i], (double)values[1][i]);
                free(values[0]);
                free(values[1]);
                count++;
            }
    return count;
}

/* ---- folders ---- */

static void check_folder(const struct tiny_model *options, const char *config)
{
    char *folder = files_folder(), *to = files_format("%s/new", folder), *from = files_format("%s/old", folder);
    bool has;
    files_check(!mkdir(from, 0700), from);
    tiny_model_write(from, options);
    if (config) files_write_text(from, "config.json", config);
    files_write_text(from, "pytorch_model.bin", "another form of the weights");
    files_write_text(from, "notes/README.md", "of no module");
    struct wherry_model *model = opened(from), *again;
    if (!written(model, NULL, to)) fail_msg("%s", e.text);
    again = opened(to);
    assert_int_equal(compare(model, again, 1), 5 + 2 * 16 + (options->no_pooler ? 0 : 2));
    assert_int_equal(model->info.has_tokenizer, again->info.has_tokenizer);
    assert_int_equal(model->info.normalize, again->info.normalize);
    assert_int_equal(model->info.max_tokens, again->info.max_tokens);
    const char *const absent[] = {"pytorch_model.bin", "notes", "model.safetensors.index.json",
                                  "model-00001-of-00002.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        assert_true(folder_has(&files_host, to, absent[i], &has, &e));
        assert_false(has);
    }
    /* What is no weight is there as it was. */
    char *path = files_format("%s/model.safetensors", to);
    char *name = files_format("%sembeddings.position_ids", options->prefix ? options->prefix : "");
    struct safetensors file;
    assert_true(safetensors_open(&files_host, path, &file, &e));
    const struct safetensors_tensor *ids = safetensors_find(&file, name);
    uint64_t number = 0;
    assert_non_null(ids);
    assert_string_equal(ids->dtype, "I64");
    assert_true(safetensors_read(&file, ids, 8 * 5, 8, &number, &e));
    assert_int_equal(number, 5);
    safetensors_close(&files_host, &file);
    free(path);
    free(name);
    model_close(again);
    model_close(model);
    free(to);
    free(from);
    files_remove(folder);
}

static void writes_what_it_read(void **state)
{
    (void)state;
    check_folder(&(struct tiny_model){0}, NULL);
    check_folder(&(struct tiny_model){.prefix = "bert.", .dtype = "F16", .old_names = true, .sentence = true}, NULL);
    check_folder(&(struct tiny_model){.sharded = true, .no_pooler = true, .dtype = "BF16", .no_vocabulary = true},
                 NULL);
}

static char *text_of(const char *folder, const char *name)
{
    char *path = files_format("%s/%s", folder, name), *text;
    size_t size;
    if (!file_read(&files_host, path, 1 << 20, &text, &size, &e)) fail_msg("%s", e.text);
    free(path);
    return text;
}

/* 16-bit floats are written in 32 bits, and config.json says so; all else of it stays. */
static void tells_the_new_type(void **state)
{
    (void)state;
    static const char *const types[][2] = {{"\"torch_dtype\": \"float16\"", "\"torch_dtype\": \"float32\""},
                                           {"\"dtype\" : \"bfloat16\"", "\"dtype\" : \"float32\""},
                                           {"\"dtype\": \"float32\"", "\"dtype\": \"float32\""}};
    for (size_t i = 0; i < 3; i++) {
        char *folder = files_folder(), *to = files_format("%s/new", folder);
        char *before = files_format("{%s, %s", types[i][0], TINY_CONFIG + 1);
        char *after = files_format("{%s, %s", types[i][1], TINY_CONFIG + 1);
        tiny_model_write(folder, &(struct tiny_model){.dtype = "F16"});
        files_write_text(folder, "config.json", before);
        struct wherry_model *model = opened(folder);
        if (!written(model, NULL, to)) fail_msg("%s", e.text);
        char *text = text_of(to, "config.json");
        assert_string_equal(text, after);
        model_close(model);
        free(text);
        free(before);
        free(after);
        free(to);
        files_remove(folder);
    }
}

/* ---- other values, random weights ---- */

/* The parts of a model with each value halved. */
static struct weight_part (*halves(const struct wherry_model *model))[WEIGHT_COUNT][3]
{
    size_t rows = (size_t)model->info.config.layers + 1;
    struct weight_part(*weights)[WEIGHT_COUNT][3] = calloc(rows, sizeof *weights);
    for (size_t l = 0; l < rows; l++)
        for (int w = 0; w < WEIGHT_COUNT; w++)
            for (int p = 0; p < 3; p++) {
                const struct weight_part *part = &model->weights[l][w][p];
                if (!part->elements) continue;
                float *values = values_of(part);
                for (uint64_t i = 0; i < part->elements; i++) values[i] /= 2;
                weights[l][w][p] =
                    (struct weight_part){.memory = values, .type = WEIGHT_TYPE_F32, .elements = part->elements};
            }
    return weights;
}

static void halves_free(const struct wherry_model *model, struct weight_part (*weights)[WEIGHT_COUNT][3])
{
    for (size_t l = 0; l <= model->info.config.layers; l++)
        for (int w = 0; w < WEIGHT_COUNT; w++)
            for (int p = 0; p < 3; p++) free((void *)weights[l][w][p].memory);
    free(weights);
}

static void writes_other_values(void **state)
{
    (void)state;
    char *folder = files_folder(), *to = files_format("%s/new", folder);
    tiny_model_write(folder, &(struct tiny_model){.sharded = true});
    struct wherry_model *model = opened(folder), *again;
    struct weight_part(*weights)[WEIGHT_COUNT][3] = halves(model);
    if (!written(model, (const struct weight_part(*)[WEIGHT_COUNT][3])weights, to)) fail_msg("%s", e.text);
    again = opened(to);
    compare(model, again, 0.5f);
    model_close(again);
    halves_free(model, weights);
    model_close(model);
    free(to);
    files_remove(folder);
}

static void describes_random_models(void **state)
{
    (void)state;
    const wherry_model_config small = {
        .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 12, .vocabulary = 20, .positions = 10, .token_types = 2};
    const wherry_model_config modern = {.layers = 4,
                                        .hidden = 8,
                                        .heads = 2,
                                        .feed_forward = 12,
                                        .vocabulary = 20,
                                        .positions = 10,
                                        .pre_layernorm = true,
                                        .epsilon = 1e-5f,
                                        .gate = WHERRY_GATE_FIRST,
                                        .without = 15 | WHERRY_WITHOUT_NORM_BIAS | WHERRY_WITHOUT_FIRST_NORM |
                                                   WHERRY_WITHOUT_HEAD_BIAS,
                                        .rotary_base = 160000,
                                        .rotary_base_local = 10000,
                                        .window = 3,
                                        .global_every = 3};
    enum { CONFIGS = 16 };
    wherry_model_config configs[CONFIGS];
    for (int i = 0; i < CONFIGS; i++) configs[i] = i < 11 ? small : modern;

    configs[1].pooler = true, configs[1].activation = WHERRY_ACTIVATION_RELU, configs[1].epsilon = 1e-5f;
    configs[2].pooler = true, configs[2].head = WHERRY_HEAD_SEQUENCE, configs[2].labels = 3,
    configs[2].head_activation = WHERRY_HEAD_TANH;
    configs[3].head = WHERRY_HEAD_TOKENS, configs[3].labels = 5;
    configs[4].head = WHERRY_HEAD_VOCABULARY, configs[4].head_activation = WHERRY_HEAD_GELU;
    configs[5].position_offset = 2, configs[5].activation = WHERRY_ACTIVATION_GELU_TANH;
    configs[6].token_types = 0;
    configs[7].embedding = 4, configs[7].token_types = 1;
    for (int i = 8; i < 10; i++) /* GTE */
        configs[i].gate = WHERRY_GATE_SECOND, configs[i].without = WHERRY_WITHOUT_LIN1_BIAS,
        configs[i].rotary_base = 500;
    configs[9].token_types = 0, configs[9].rotary_factor = 2;
    configs[10].gate = WHERRY_GATE_FIRST, configs[10].without = WHERRY_WITHOUT_LIN1_BIAS, configs[10].alibi = true;
    configs[11].head = WHERRY_HEAD_SEQUENCE, configs[11].labels = 3, configs[11].head_activation = WHERRY_HEAD_GELU,
    configs[11].head_norm = configs[11].head_mean = true;
    configs[12].head = WHERRY_HEAD_TOKENS, configs[12].labels = 3, configs[12].head_activation = WHERRY_HEAD_GELU,
    configs[12].head_norm = true, configs[12].global_first = 1;
    configs[13].head = WHERRY_HEAD_VOCABULARY, configs[13].head_activation = WHERRY_HEAD_GELU,
    configs[13].global_every = 0, configs[13].rotary_base_local = 0;
    configs[15] = configs[8]; /* of twice as many tokens as were trained */
    for (int i = 14; i < CONFIGS; i++) configs[i].rotary_dynamic = 2, configs[i].rotary_trained = 5;
    for (int i = 0; i < CONFIGS; i++) {
        char *folder = files_folder(), *to = files_format("%s/new", folder);
        struct wherry_model *model, *again;
        if (!model_random(&files_host, &configs[i], 1, &model, &e)) fail_msg("%s", e.text);
        if (!written(model, NULL, to)) fail_msg("%d: %s", i, e.text);
        again = opened(to);
        wherry_model_config have = again->info.config;
        assert_memory_equal(&have, &model->info.config, sizeof have);
        assert_true(compare(model, again, 1) >= (i < 8 ? 36 : 26)); /* files of later ones stack matrices */
        model_close(again);
        model_close(model);
        free(to);
        files_remove(folder);
    }
}

static void refuses_shapes_without_a_name(void **state)
{
    (void)state;
    const wherry_model_config config = {.layers = 1,
                                        .hidden = 8,
                                        .heads = 2,
                                        .feed_forward = 12,
                                        .vocabulary = 20,
                                        .positions = 10,
                                        .token_types = 2,
                                        .pre_layernorm = true};
    struct wherry_model *model;
    assert_true(model_random(&files_host, &config, 1, &model, &e));
    assert_false(model_write_check(model, &e));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
    assert_non_null(strstr(e.text, "layernorms before the layers"));
    model_close(model);
}

/* ---- whole or not at all ---- */

static void overwrites_nothing(void **state)
{
    (void)state;
    char *folder = files_folder(), *to = files_format("%s/new", folder), *left = files_format("%s.unfinished", to);
    bool has;
    tiny_model_write(folder, &(struct tiny_model){0});
    struct wherry_model *model = opened(folder);
    assert_false(written(model, NULL, folder));
    assert_non_null(strstr(e.text, "there already, and not empty"));
    assert_false(written(model, NULL, ""));
    /* What an interrupted one left is in nobody's way, nor is an empty folder. */
    files_check(!mkdir(left, 0700) && !mkdir(to, 0700), to);
    files_write_text(left, "1_Pooling/config.json", "half of ");
    if (!written(model, NULL, to)) fail_msg("%s", e.text);
    assert_true(folder_has(&files_host, to, "model.safetensors", &has, &e) && has);
    assert_true(folder_is_free(left, &has, &e) && has);
    assert_int_not_equal(access(left, F_OK), 0);
    model_close(model);
    free(left);
    free(to);
    files_remove(folder);
}

/* A file that can't grow stands for a disk that is full. */
static void leaves_nothing_of_a_failure(void **state)
{
    (void)state;
    char *folder = files_folder(), *to = files_format("%s/new", folder), *left = files_format("%s.unfinished", to);
    struct rlimit before, small;
    tiny_model_write(folder, &(struct tiny_model){.sentence = true});
    struct wherry_model *model = opened(folder);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8192; /* less than the weights */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool ok = written(model, NULL, to);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(ok);
    assert_int_equal(e.status, WHERRY_STATUS_IO);
    assert_non_null(strstr(e.text, "model.safetensors"));
    assert_int_not_equal(access(to, F_OK), 0);
    assert_int_not_equal(access(left, F_OK), 0);
    model_close(model);
    free(left);
    free(to);
    files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_it_read),           cmocka_unit_test(tells_the_new_type),
        cmocka_unit_test(writes_other_values),           cmocka_unit_test(describes_random_models),
        cmocka_unit_test(refuses_shapes_without_a_name), cmocka_unit_test(overwrites_nothing),
        cmocka_unit_test(leaves_nothing_of_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
