/* Adapters' files: a training that goes on from its state with the same bits, what is written again and read, and what
 * is refused: files of another model, settings that are not supported, layers that there are not. */
#include "model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adapter_support.h"
#include "place_support.h"

static char device_id[64];
static const char classes[] = "classes", contrastive[] = "contrastive";

static void place_begin(struct place *p, const char *name)
{
    *p = (struct place){.lora = {.struct_size = sizeof p->lora, .rank = 3}};
    assert_true(adapter_run_open(name, &p->run));
    adapter_folder(name, p->folder);
    adapter_descs(name, &p->session, &p->loss, &p->optimizer);
    place_open(p, device_id, p->run.folder);
}

static char *file_text(const char *folder, const char *name, size_t *size)
{
    char *path = files_format("%s/%s", folder, name), *data;
    struct error e = {0};
    if (!file_read(&files_host, path, 1 << 20, &data, size, &e)) fail_msg("%s", e.text);
    free(path);
    return data;
}

static void files_equal(const char *a, const char *b, const char *name)
{
    size_t size, other;
    char *first = file_text(a, name, &size), *second = file_text(b, name, &other);
    assert_int_equal(size, other);
    assert_memory_equal(first, second, size);
    free(first);
    free(second);
}

/* ---- files that are written ---- */

static void goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"contrastive", "classes"}, *const targets[] = {"key", "output.dense"};
    for (size_t i = 0; i < 2; i++) {
        char *folder = files_folder(), *at = files_format("%s/step-3", folder), *a = files_format("%s/a", folder),
             *b = files_format("%s/b", folder), data[8];
        struct place whole, half, rest, *places[] = {&whole, &half, &rest};
        size_t bytes = sizeof data;
        for (size_t n = 0; n < 3; n++) {
            place_begin(places[n], names[i]);
            places[n]->lora.targets = targets;
            places[n]->lora.n_targets = i ? 0 : 2;
            if (i) places[n]->optimizer.kind = WHERRY_OPTIMIZER_LAMB;
            EXPECT_OK(places[n], trainer_make(places[n]));
        }
        place_train(&whole, 0, 7);
        place_train(&half, 0, 3);
        EXPECT_OK(&half, wherry_trainer_save_state(half.trainer, at, "line 12", 8));
        place_train(&rest, 9, 10); /* what was there before does not matter */
        EXPECT_OK(&rest, wherry_trainer_load_state(rest.trainer, at, data, &bytes));
        assert_string_equal(data, "line 12");
        place_train(&rest, 3, 7);
        EXPECT_OK(&whole, wherry_trainer_save_adapter(whole.trainer, a));
        EXPECT_OK(&rest, wherry_trainer_save_adapter(rest.trainer, b));
        files_equal(a, b, "adapter_model.safetensors");
        for (size_t n = 0; n < 3; n++) place_end(places[n]);
        free(at);
        free(a);
        free(b);
        files_remove(folder);
    }
}

/* Nothing was learned: A is what was drawn, B is 0, and merged it is the model. What was written is what is read. */
static void begins_as_the_model(void **state)
{
    (void)state;
    char *folder = files_folder(), *a = files_format("%s/a", folder), *b = files_format("%s/b", folder);
    struct place p;
    float values[3 * 16], first[16 * ROWS_MOST] = {0}, second[16 * ROWS_MOST] = {0};
    struct run_step step;
    place_begin(&p, contrastive);
    EXPECT_OK(&p, trainer_make(&p));
    size_t adapters = 0;
    for (size_t w = 0; w < wherry_trainer_weight_count(p.trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        double most = 0;
        EXPECT_OK(&p, wherry_trainer_weight_describe(p.trainer, w, &info));
        if (info.frozen) continue;
        adapters++;
        if (info.elements != 48) continue; /* of the feed-forward's inner side */
        EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, w, values, 48));
        for (int i = 0; i < 48; i++) most = fmax(most, fabs((double)values[i]));
        if (strstr(info.name, "lora_A"))
            assert_true(most > 0.2 && most <= 0.25);
        else
            assert_true(most == 0);
    }
    assert_int_equal(adapters, 2 * 2 * 6);
    run_step_make(&p.run, 0, 1, &step);
    EXPECT_OK(&p, wherry_trainer_encode(p.trainer, step.batches, first, 16 * ROWS_MOST));
    EXPECT_OK(&p, wherry_trainer_save_adapter(p.trainer, a));
    p.lora = (wherry_lora_desc){.struct_size = sizeof p.lora, .adapter = a};
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_OK(&p, wherry_trainer_save_adapter(p.trainer, b));
    files_equal(a, b, "adapter_model.safetensors");
    files_equal(a, b, "adapter_config.json");
    p.lora.struct_size = 0;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_OK(&p, wherry_trainer_encode(p.trainer, step.batches, second, 16 * ROWS_MOST));
    assert_memory_equal(first, second, sizeof first);
    EXPECT_REFUSED(&p, wherry_trainer_save_adapter(p.trainer, b), WHERRY_STATUS_INVALID_ARGUMENT, "has no adapters");
    place_end(&p);
    free(a);
    free(b);
    files_remove(folder);
}

/* ---- what is refused ---- */

static void refuses_descriptors(void **state)
{
    (void)state;
    static const char *const no_layer[] = {"query", "quer"}, *const table[] = {"word_embeddings"},
                             *const head[] = {"classifier"}, *const part[] = {"query"},
                             *const frozen[] = {"embeddings.*"};
    struct place p;
    place_begin(&p, classes);
    const wherry_lora_desc lora = p.lora;
#define REFUSED(change, status, text)                                                                                  \
    change;                                                                                                            \
    EXPECT_REFUSED(&p, trainer_make(&p), status, text);                                                                \
    p.lora = lora
#define INVALID WHERRY_STATUS_INVALID_ARGUMENT
    REFUSED(p.lora.rank = 0, INVALID, "rank is not from 1");
    REFUSED(p.lora.alpha = NAN, INVALID, "alpha");
    REFUSED(p.lora.struct_size = 1, INVALID, "struct_size");
    REFUSED((p.lora.targets = no_layer, p.lora.n_targets = 2), INVALID,
            "target \"quer\" is the end of no linear layer's name");
    REFUSED((p.lora.targets = table, p.lora.n_targets = 1), INVALID, "\"word_embeddings\" is the end of no linear");
    REFUSED((p.lora.targets = head, p.lora.n_targets = 1), INVALID, "choose one of both");
    REFUSED((p.lora.saved = no_layer + 1, p.lora.n_saved = 1), INVALID, "module \"quer\"");
    REFUSED((p.lora.saved = part, p.lora.n_saved = 1), WHERRY_STATUS_UNSUPPORTED, "name all three or none");
    REFUSED(p.lora.adapter = p.folder, INVALID, "has its own rank");
    REFUSED((p.lora.rank = 0, p.lora.adapter = p.run.folder), WHERRY_STATUS_IO, "no adapter_config.json");
    p.optimizer.frozen = frozen;
    p.optimizer.n_frozen = 1;
    EXPECT_REFUSED(&p, trainer_make(&p), INVALID, "leave wherry_optimizer_desc.frozen out");
    place_end(&p);
}

static void refuses_states_of_others(void **state)
{
    (void)state;
    static const char *const query[] = {"query"};
    char *folder = files_folder(), *at = files_format("%s/state", folder), *whole = files_format("%s/whole", folder),
         data[8];
    size_t bytes = sizeof data;
    struct place p;
    place_begin(&p, contrastive);
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_OK(&p, wherry_trainer_save_state(p.trainer, at, "", 0));
    p.lora.alpha = 5;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), INVALID, "rank, alpha");
    p.lora.alpha = 0;
    p.lora.targets = query;
    p.lora.n_targets = 1;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), INVALID, "differs");
    p.lora.struct_size = 0;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), INVALID, "training of adapters");
    EXPECT_OK(&p, wherry_trainer_save_state(p.trainer, whole, "", 0));
    p.lora.struct_size = sizeof p.lora;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, whole, data, &bytes), INVALID, "no training of adapters");
    place_end(&p);
    free(at);
    free(whole);
    files_remove(folder);
}

/* The adapter's configuration with `from` replaced by `to`, and its weights. */
static void copy_changed(const struct place *p, const char *folder, const char *from, const char *to)
{
    size_t size, length;
    char *weights = file_text(p->folder, "adapter_model.safetensors", &size),
         *config = file_text(p->folder, "adapter_config.json", &length),
         *text = files_format("%.*s", (int)length, config), *at = strstr(text, from);
    files_write(folder, "adapter_model.safetensors", weights, size);
    assert_non_null(at);
    char *changed = files_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    files_write_text(folder, "adapter_config.json", changed);
    free(changed);
    free(text);
    free(weights);
    free(config);
}

static void refuses_files(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        wherry_status status;
        const char *text;
    } rows[] = {
        {"\"use_dora\": false", "\"use_dora\": true", WHERRY_STATUS_UNSUPPORTED, "\"use_dora\" is set"},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"query\": 3}", WHERRY_STATUS_UNSUPPORTED, "\"alpha_pattern\""},
        {"\"bias\": \"none\"", "\"bias\": \"all\"", WHERRY_STATUS_UNSUPPORTED, "\"bias\" is all"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", WHERRY_STATUS_UNSUPPORTED, "pissa"},
        {"\"LORA\"", "\"IA3\"", WHERRY_STATUS_UNSUPPORTED, "\"peft_type\" is IA3"},
        {"\"r\": 4", "\"r\": 0", WHERRY_STATUS_BAD_FORMAT, "\"r\" is no number"},
        {"\"r\": 4", "\"r\": 5", WHERRY_STATUS_BAD_FORMAT, "has shape [4, 16], and the model needs [5, 16]"},
        {"\"lora_alpha\": 6", "\"lora_alpha\": \"6\"", WHERRY_STATUS_BAD_FORMAT, "\"lora_alpha\" is no number"},
    };
    struct place p;
    place_begin(&p, contrastive);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *folder = files_folder();
        copy_changed(&p, folder, rows[i].from, rows[i].to);
        EXPECT_REFUSED(&p, wherry_model_adapt(p.context, p.model, folder), rows[i].status, rows[i].text);
        files_remove(folder);
    }
    /* Dropout matters to who goes on training, and to nobody else. */
    char *folder = files_folder();
    copy_changed(&p, folder, "\"lora_dropout\": 0.0", "\"lora_dropout\": 0.1");
    p.lora.rank = 0;
    p.lora.adapter = folder;
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_UNSUPPORTED, "\"lora_dropout\" 0.1");
    files_remove(folder);
    /* Of a model with a head that this one has not; and of one that has it all. */
    char other[600];
    adapter_folder(classes, other);
    EXPECT_REFUSED(&p, wherry_model_adapt(p.context, p.model, other), WHERRY_STATUS_BAD_FORMAT, "another model");
    EXPECT_REFUSED(&p, wherry_model_adapt(p.context, p.model, p.run.folder), WHERRY_STATUS_IO, "no adapter's folder");
    EXPECT_OK(&p, wherry_model_adapt(p.context, p.model, p.folder));
    EXPECT_REFUSED(&p, wherry_model_adapt(p.context, p.model, p.folder), INVALID, "has an adapter already");
    place_end(&p);
}

/* For golden/check_adapter.py, in a folder of its own: an adapter that was trained, and scores of some sequences. */
static void leaves_a_folder(void **state)
{
    (void)state;
    const char *keep = getenv("WHERRY_TEST_KEEP");
    struct place p;
    struct run_step step;
    float rows[ROWS_MOST * 16];
    if (!keep) return;
    char *to = files_format("%s/adapter", keep);
    place_begin(&p, classes);
    p.lora.root = true;
    EXPECT_OK(&p, trainer_make(&p));
    place_train(&p, 0, 5);
    run_step_make(&p.run, 0, 1, &step);
    EXPECT_OK(&p, wherry_trainer_encode(p.trainer, step.batches, rows, ROWS_MOST * 16));
    EXPECT_OK(&p, wherry_trainer_save_adapter(p.trainer, to));
    files_write(keep, "offsets.bin", p.run.offsets, 4 * (p.run.rows + 1));
    files_write(keep, "ids.bin", p.run.ids, 4 * (size_t)p.run.offsets[p.run.rows]);
    files_write(keep, "scores.bin", rows, p.run.rows * 3 * sizeof *rows);
    place_end(&p);
    free(to);
}

int main(void)
{
    place_device(device_id);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_with_the_same_bits),
        cmocka_unit_test(begins_as_the_model),
        cmocka_unit_test(refuses_descriptors),
        cmocka_unit_test(refuses_states_of_others),
        cmocka_unit_test(refuses_files),
        cmocka_unit_test(leaves_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
