/* What a trainer writes and reads: model folders that give what the trainer gives, states from which training goes on
 * with the same bits, weights by their names; and what it refuses. */
#include "model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "place_support.h"

static char device_id[64];

static void place_begin(struct place *p, const char *name, const char *folder)
{
    *p = (struct place){.seed = 0};
    assert_true(run_open(name, &p->run));
    run_descs(name, &p->session, &p->loss, &p->optimizer);
    place_open(p, device_id, folder ? folder : p->run.folder);
}

static void place_make(struct place *p, const char *name)
{
    place_begin(p, name, NULL);
    EXPECT_OK(p, trainer_make(p));
}

/* All weights, one after the other. */
static float *weights_of(struct place *p, size_t *count)
{
    float *all = NULL;
    *count = 0;
    for (size_t w = 0; w < wherry_trainer_weight_count(p->trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        EXPECT_OK(p, wherry_trainer_weight_describe(p->trainer, w, &info));
        all = realloc(all, (*count + (size_t)info.elements) * sizeof *all);
        EXPECT_OK(p, wherry_trainer_weight_read(p->trainer, w, all + *count, (size_t)info.elements));
        *count += (size_t)info.elements;
    }
    return all;
}

/* ---- states ---- */

static void goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"contrastive", "classes", "regression"};
    for (size_t i = 0; i < 3; i++) {
        char *folder = files_folder(), *at = files_format("%s/step-3", folder), place_in_data[16] = "";
        struct place whole, half, rest;
        size_t count, count_rest, bytes = 0;
        place_make(&whole, names[i]);
        place_train(&whole, 0, 7);
        place_make(&half, names[i]);
        place_train(&half, 0, 3);
        EXPECT_OK(&half, wherry_trainer_save_state(half.trainer, at, "line 12", 8));
        place_end(&half);
        place_make(&rest, names[i]);
        place_train(&rest, 9, 10); /* what was there before does not matter */
        EXPECT_OK(&rest, wherry_trainer_load_state(rest.trainer, at, NULL, &bytes));
        assert_int_equal(bytes, 8);
        bytes = sizeof place_in_data;
        EXPECT_OK(&rest, wherry_trainer_load_state(rest.trainer, at, place_in_data, &bytes));
        assert_string_equal(place_in_data, "line 12");
        assert_int_equal(wherry_trainer_steps(rest.trainer), 3);
        place_train(&rest, 3, 7);
        float *want = weights_of(&whole, &count), *have = weights_of(&rest, &count_rest);
        assert_int_equal(count, count_rest);
        assert_memory_equal(want, have, count * sizeof *want);
        free(want);
        free(have);
        place_end(&whole);
        place_end(&rest);
        free(at);
        files_remove(folder);
    }
}

static void refuses_other_states(void **state)
{
    (void)state;
    char *folder = files_folder(), *at = files_format("%s/state", folder), *model = files_format("%s/model", folder),
         data[8];
    const char *const embeddings[] = {"embeddings.*"};
    struct place p;
    size_t bytes = sizeof data;
    place_make(&p, "contrastive");
    EXPECT_OK(&p, wherry_trainer_save_state(p.trainer, at, NULL, 0));
    EXPECT_OK(&p, wherry_trainer_save(p.trainer, model));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, model, data, &bytes), WHERRY_STATUS_IO,
                   "no training_state.json");
    p.optimizer.kind = WHERRY_OPTIMIZER_LAMB;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), WHERRY_STATUS_INVALID_ARGUMENT,
                   "written with the optimizer adamw, and this trainer has lamb");
    p.optimizer.kind = WHERRY_OPTIMIZER_ADAMW;
    p.seed++;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), WHERRY_STATUS_INVALID_ARGUMENT, "seed");
    p.seed--;
    p.optimizer.frozen = embeddings;
    p.optimizer.n_frozen = 1;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), WHERRY_STATUS_INVALID_ARGUMENT,
                   "other weights were trained");
    p.optimizer.n_frozen = 0;
    p.loss.loss = WHERRY_LOSS_COSENT;
    p.loss.columns = 0;
    EXPECT_OK(&p, trainer_make(&p));
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), WHERRY_STATUS_INVALID_ARGUMENT,
                   "the loss contrastive");
    place_end(&p);

    /* Another model: random weights of another shape. */
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 16,
                                        .heads = 2,
                                        .feed_forward = 32,
                                        .vocabulary = 40,
                                        .positions = 12,
                                        .token_types = 2};
    place_begin(&p, "contrastive", NULL);
    wherry_model_close(p.model);
    EXPECT_OK(&p, wherry_model_create_random(p.context, &config, 1, &p.model));
    EXPECT_OK(&p, trainer_make(&p));
    bytes = sizeof data;
    EXPECT_OK(&p, wherry_trainer_load_state(p.trainer, at, NULL, &bytes));
    bytes = sizeof data;
    EXPECT_REFUSED(&p, wherry_trainer_load_state(p.trainer, at, data, &bytes), WHERRY_STATUS_INVALID_ARGUMENT,
                   "of another model");
    place_end(&p);
    free(model);
    free(at);
    files_remove(folder);
}

/* ---- model folders ---- */

static void encode(struct place *p, wherry_session *session, float *out)
{
    struct run_step step;
    run_step_make(&p->run, 0, 1, &step);
    if (session)
        EXPECT_OK(p, wherry_encode(session, step.batches, out, ROWS_MOST * 16));
    else
        EXPECT_OK(p, wherry_trainer_encode(p->trainer, step.batches, out, ROWS_MOST * 16));
}

static void saved_models_give_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"contrastive", "classes"};
    for (size_t i = 0; i < 2; i++) {
        char *folder = files_folder(), *to = files_format("%s/new", folder);
        float before[ROWS_MOST * 16] = {0}, trained[ROWS_MOST * 16] = {0}, again[ROWS_MOST * 16] = {0};
        struct place p, other;
        wherry_session *session = NULL;
        place_make(&p, names[i]);
        encode(&p, NULL, before);
        place_train(&p, 0, 6);
        encode(&p, NULL, trained);
        EXPECT_OK(&p, wherry_trainer_save(p.trainer, to));
        EXPECT_REFUSED(&p, wherry_trainer_save(p.trainer, to), WHERRY_STATUS_INVALID_ARGUMENT, "there already");
        place_begin(&other, names[i], to);
        other.session.training = NULL;
        EXPECT_OK(&other, wherry_session_create(other.context, other.device, other.model, &other.session, &session));
        encode(&other, session, again);
        assert_memory_equal(trained, again, sizeof trained);
        assert_memory_not_equal(before, trained, sizeof trained);
        wherry_session_destroy(session);
        place_end(&other);
        place_end(&p);
        free(to);
        files_remove(folder);
    }
}

static void files_copy(const char *from, const char *to, const char *name)
{
    char *path = files_format("%s/%s", from, name), *data;
    size_t size;
    struct error e = {0};
    if (!file_read(&files_host, path, 1 << 20, &data, &size, &e)) fail_msg("%s", e.text);
    files_write(to, name, data, size);
    free(data);
    free(path);
}

/* For golden/check_trainer.py, in a folder of its own: a model that was trained, of a source with a tokenizer and
 * modules, and the vectors of some sequences. */
static void leaves_a_folder(void **state)
{
    (void)state;
    const char *keep = getenv("WHERRY_TEST_KEEP");
    struct place p;
    char vocabulary[400] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    struct tiny_model none = {.sentence = true, .no_vocabulary = true};
    float rows[ROWS_MOST * 16];
    if (!keep) return;
    char *source = files_format("%s/source", keep), *to = files_format("%s/model", keep);
    struct text_writer text = text_behind(vocabulary, sizeof vocabulary);
    for (int i = 5; i < 40; i++) text_add(&text, "t%d\n", i);
    place_begin(&p, "contrastive", NULL);
    files_check(!mkdir(source, 0700), source);
    tiny_model_write(source, &none);
    files_copy(p.run.folder, source, "config.json");
    files_copy(p.run.folder, source, "model.safetensors");
    files_write_text(source, "vocab.txt", vocabulary);
    wherry_model_close(p.model);
    EXPECT_OK(&p, wherry_model_open(p.context, source, &p.model));
    EXPECT_OK(&p, trainer_make(&p));
    place_train(&p, 0, 5);
    encode(&p, NULL, rows);
    EXPECT_OK(&p, wherry_trainer_save(p.trainer, to));
    files_write(keep, "offsets.bin", p.run.offsets, 4 * (p.run.rows + 1));
    files_write(keep, "ids.bin", p.run.ids, 4 * (size_t)p.run.offsets[p.run.rows]);
    files_write(keep, "vectors.bin", rows, p.run.rows * 16 * sizeof *rows);
    place_end(&p);
    free(source);
    free(to);
}

/* ---- weights ---- */

static size_t weight_named(struct place *p, const char *name, wherry_weight *out)
{
    for (size_t w = 0; w < wherry_trainer_weight_count(p->trainer); w++) {
        *out = (wherry_weight){.struct_size = sizeof *out};
        EXPECT_OK(p, wherry_trainer_weight_describe(p->trainer, w, out));
        if (!strcmp(out->name, name)) return w;
    }
    fail_msg("there is no weight %s", name);
    return 0;
}

static void weights_have_names(void **state)
{
    (void)state;
    const char *const frozen[] = {"embeddings.*", "*.layer.0.attention.output.LayerNorm.?eight"};
    const char *const parts[] = {"*.query.*"}, *const nothing[] = {"decoder.*"}, *const all[] = {"*"};
    struct place p;
    wherry_weight weight;
    float row[16 * 16], changed[16 * 16];
    place_begin(&p, "classes", NULL);
    p.optimizer.frozen = frozen;
    p.optimizer.n_frozen = 2;
    p.optimizer.layer_decay = 0.5f;
    EXPECT_OK(&p, trainer_make(&p));
    assert_int_equal(wherry_trainer_weight_count(p.trainer), 5 + 2 * 16 + 2 + 2);
    weight_named(&p, "bert.embeddings.word_embeddings.weight", &weight);
    assert_true(weight.frozen && weight.layer == -1 && weight.rate == 0.125f && weight.shape[0] == 40);
    weight_named(&p, "bert.encoder.layer.0.attention.output.LayerNorm.weight", &weight);
    assert_true(weight.frozen && !weight.decays && weight.rate == 0.25f && weight.shape[1] == 0);
    weight_named(&p, "bert.encoder.layer.1.attention.self.value.bias", &weight);
    assert_true(!weight.frozen && !weight.decays && weight.rate == 0.5f && weight.elements == 16);
    weight_named(&p, "classifier.weight", &weight);
    assert_true(weight.decays && weight.rate == 1 && weight.shape[0] == 3 && weight.shape[1] == 16);
    size_t key = weight_named(&p, "bert.encoder.layer.1.attention.self.key.weight", &weight);
    EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, key, row, 256));
    for (int i = 0; i < 256; i++) row[i] *= -2;
    EXPECT_OK(&p, wherry_trainer_weight_write(p.trainer, key, row, 256));
    EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, key, changed, 256));
    assert_memory_equal(row, changed, sizeof row);
    EXPECT_REFUSED(&p, wherry_trainer_weight_write(p.trainer, key, row, 255), WHERRY_STATUS_INVALID_ARGUMENT,
                   "has 256 values, and 255 are given");
    row[3] = NAN;
    EXPECT_REFUSED(&p, wherry_trainer_weight_write(p.trainer, key, row, 256), WHERRY_STATUS_INVALID_ARGUMENT,
                   "value 3 is nan");
    /* What is frozen stays, all else changes. */
    size_t word = weight_named(&p, "bert.embeddings.token_type_embeddings.weight", &weight);
    float types[2][32];
    EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, word, types[0], 32));
    place_train(&p, 0, 3);
    EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, word, types[1], 32));
    assert_memory_equal(types[0], types[1], sizeof types[0]);
    EXPECT_OK(&p, wherry_trainer_weight_read(p.trainer, key, row, 256));
    assert_memory_not_equal(row, changed, sizeof row);
    EXPECT_REFUSED(&p, wherry_trainer_weight_write(p.trainer, word, types[0], 32), WHERRY_STATUS_INVALID_ARGUMENT,
                   "is frozen");
    p.optimizer.n_frozen = 1;
    p.optimizer.frozen = parts;
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_UNSUPPORTED, "freeze all three or none");
    p.optimizer.frozen = nothing;
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_INVALID_ARGUMENT, "\"decoder.*\" fits none");
    p.optimizer.frozen = all;
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_INVALID_ARGUMENT, "nothing left to train");
    place_end(&p);
}

/* ---- what is refused ---- */

static void refuses_descriptors(void **state)
{
    (void)state;
    struct place p;
    place_begin(&p, "contrastive", NULL);
#define REFUSED(change, back, text)                                                                                    \
    change;                                                                                                            \
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_INVALID_ARGUMENT, text);                                        \
    back
    const wherry_loss_desc loss = p.loss;
    const wherry_optimizer_desc optimizer = p.optimizer;
    const wherry_session_desc session = p.session;
    REFUSED(p.loss.loss = WHERRY_LOSS_CLASSES, p.loss = loss, "this loss is of class scores");
    REFUSED(p.loss.loss = (wherry_loss)99, p.loss = loss, "is not a value of wherry_loss");
    REFUSED(p.loss.columns = 1, p.loss = loss, "takes 2 or more");
    REFUSED(p.optimizer.learning_rate = 0, p.optimizer = optimizer, "learning_rate");
    REFUSED(p.optimizer.total_steps = 0, p.optimizer = optimizer, "total_steps is 0");
    REFUSED(p.optimizer.warmup_steps = 30, p.optimizer = optimizer, "30 steps of warm-up");
    REFUSED(p.optimizer.beta2 = 1, p.optimizer = optimizer, "beta1, beta2");
    REFUSED(p.optimizer.max_norm = NAN, p.optimizer = optimizer, "not negative");
    REFUSED(p.session.keep_intermediates = true, p.session = session, "keep_intermediates");
    REFUSED(p.loss.struct_size = 1, p.loss = loss, "struct_size");
    p.loss.loss = WHERRY_LOSS_MASKED;
    EXPECT_REFUSED(&p, trainer_make(&p), WHERRY_STATUS_UNSUPPORTED, "masked tokens");
    place_end(&p);
}

static void refuses_batches(void **state)
{
    (void)state;
    struct place p;
    struct run_step step;
    wherry_step_result result = {.struct_size = sizeof result};
    place_make(&p, "classes");
    run_step_make(&p.run, 0, 1, &step);
#define STEP(n, text)                                                                                                  \
    EXPECT_REFUSED(&p, wherry_trainer_step(p.trainer, step.batches, n, &step.targets, &result),                        \
                   WHERRY_STATUS_INVALID_ARGUMENT, text)
    STEP(0, "step number 0 from 0: there are no batches");
    step.targets.count--;
    STEP(1, "wherry_targets.count is 8");
    step.targets.count++;
    int32_t labels[ROWS_MOST] = {0};
    step.targets.labels = labels;
    labels[4] = 3;
    STEP(1, "label");
    for (int i = 0; i < ROWS_MOST; i++) labels[i] = -100;
    STEP(1, "no row has a label that counts");
    step.targets.labels = NULL;
    STEP(1, "needs wherry_targets.labels");
    step.batches[0].ids = (const int32_t[ROWS_MOST * 12]){[5] = 40};
    step.targets.labels = labels;
    STEP(1, "batch 0: token 5 has the id 40");
    assert_int_equal(wherry_trainer_steps(p.trainer), 0);
    place_train(&p, 0, 2); /* nothing of that is left */
    assert_int_equal(wherry_trainer_steps(p.trainer), 2);
    place_end(&p);
    place_make(&p, "contrastive");
    run_step_make(&p.run, 0, 1, &step);
    step.batches[0].sequences = 11;
    STEP(1, "11 rows, which is no multiple of the loss' 3 columns");
    place_end(&p);
}

/* Training into NaN: the step says so, and the weights stay those that are finite. */
static void stops_at_nan(void **state)
{
    (void)state;
    struct place p;
    struct run_step step;
    wherry_step_result result = {.struct_size = sizeof result};
    place_begin(&p, "regression", NULL);
    p.optimizer.learning_rate = 1e30f;
    p.optimizer.max_norm = 0;
    p.optimizer.momentum = 0;
    EXPECT_OK(&p, trainer_make(&p));
    wherry_status status = WHERRY_STATUS_OK;
    for (size_t s = 0; s < 5 && !status; s++) {
        run_step_make(&p.run, s, 1, &step);
        status = wherry_trainer_step(p.trainer, step.batches, 1, &step.targets, &result);
    }
    assert_int_equal(status, WHERRY_STATUS_VERIFY_FAILED);
    const char *text = wherry_last_error(p.context);
    if (strncmp(text, "step ", 5) || !strstr(text, "finite")) assert_non_null(strstr(text, "the loss is"));
    place_end(&p);
}

int main(void)
{
    place_device(device_id);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_with_the_same_bits),
        cmocka_unit_test(refuses_other_states),
        cmocka_unit_test(saved_models_give_the_same),
        cmocka_unit_test(leaves_a_folder),
        cmocka_unit_test(weights_have_names),
        cmocka_unit_test(refuses_descriptors),
        cmocka_unit_test(refuses_batches),
        cmocka_unit_test(stops_at_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
