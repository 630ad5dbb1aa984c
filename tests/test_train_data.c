/* Training data without a trainer: lines of files, examples and what is wrong with them, positions, batches by number
 * and by tokens, labels and masks of tokens. */
#include "model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "options.h"
#include "train/batches.h"
#include "train/pairs.h"

#include <cmocka.h>

static struct {
    char *folder;
    wherry_context *context;
    wherry_model *model;
    wherry_model_info info;
} all;

static int make(void **state)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    (void)state;
    all.folder = files_folder();
    tiny_model_write(all.folder, &(struct tiny_model){.prefix = ""});
    all.info = (wherry_model_info){.struct_size = sizeof all.info, .config.struct_size = sizeof all.info.config};
    assert_int_equal(wherry_context_create(&desc, &all.context), WHERRY_STATUS_OK);
    assert_int_equal(wherry_model_open(all.context, all.folder, &all.model), WHERRY_STATUS_OK);
    assert_int_equal(wherry_model_describe(all.model, &all.info), WHERRY_STATUS_OK);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    wherry_model_close(all.model);
    wherry_context_destroy(all.context);
    files_remove(all.folder);
    return 0;
}

/* What is written to standard error until hush() goes to a file, which said() reads. */
static int heard = -1;

static void listen(void)
{
    char *path = files_format("%s/said", all.folder);
    fflush(stderr);
    heard = dup(2);
    assert_non_null(freopen(path, "w", stderr));
    free(path);
}

static void hush(void)
{
    fflush(stderr);
    dup2(heard, 2);
    close(heard);
}

static bool said(const char *text)
{
    char buffer[4096];
    char *path = files_format("%s/said", all.folder);
    fflush(stderr);
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(buffer, 1, sizeof buffer - 1, file) : 0;
    buffer[size] = 0;
    if (file) fclose(file);
    free(path);
    bool found = strstr(buffer, text) != NULL;
    if (!found) printf("\"%s\" is not in: %s\n", text, buffer);
    return found;
}

static const char *label_name(uint32_t label, const void *user)
{
    static const char *const names[] = {"boat", "water", "land"};
    (void)user;
    return label < 3 ? names[label] : NULL;
}

static struct example_form form_of(enum train_task task, bool jsonl)
{
    return (struct example_form){.task = task, .jsonl = jsonl, .labels = 3, .label_name = label_name};
}

static void open_text(struct lines *lines, const char *text)
{
    static char *path;
    const char *paths[1];
    files_write_text(all.folder, "data.jsonl", text);
    free(path);
    paths[0] = path = files_format("%s/data.jsonl", all.folder);
    assert_int_equal(lines_open(lines, paths, 1), EXIT_FINE);
}

/* ---- lines ---- */

static void test_lines(void **state)
{
    struct lines lines;
    char *text;
    size_t bytes;
    (void)state;
    files_write_text(all.folder, "a.txt",
                     "\xEF\xBB\xBF"
                     "one\r\n\n  \t\ntwo\n");
    files_write_text(all.folder, "b.txt", "\nthree");
    char *a = files_format("%s/a.txt", all.folder), *b = files_format("%s/b.txt", all.folder);
    const char *paths[] = {a, b};
    assert_int_equal(lines_open(&lines, paths, 2), EXIT_FINE);
    assert_int_equal(lines.count, 3);
    static const char *const expected[] = {"one", "two", "three"};
    for (int n = 2; n >= 0; n--) {
        assert_int_equal(lines_read(&lines, (uint64_t)n, &text, &bytes), EXIT_FINE);
        assert_string_equal(text, expected[n]);
        assert_int_equal(bytes, strlen(expected[n]));
    }
    uint64_t hash = lines_hash(&lines);
    listen();
    assert_int_equal(lines_complain(&lines, 1, "wrong"), EXIT_INPUT);
    assert_true(said("a.txt, line 4: wrong"));
    lines_complain(&lines, 2, "wrong");
    assert_true(said("b.txt, line 2: wrong"));
    lines_close(&lines);
    files_write_text(all.folder, "b.txt", "\nThree");
    assert_int_equal(lines_open(&lines, paths, 2), EXIT_FINE);
    assert_true(hash != lines_hash(&lines));
    lines_close(&lines);
    files_write_text(all.folder, "b.txt", "\n \n");
    assert_int_equal(lines_open(&lines, paths, 2), EXIT_INPUT);
    hush();
    assert_true(said("b.txt has no lines"));
    lines_close(&lines);
    free(a);
    free(b);
}

/* ---- examples ---- */

static struct example example;

static bool read_as(struct example_form *form, const char *line)
{
    static char copy[1024];
    snprintf(copy, sizeof copy, "%s", line);
    return example_read(&example, form, copy, strlen(copy));
}

static void test_columns(void **state)
{
    struct example_form form = form_of(TASK_CONTRASTIVE, true);
    (void)state;
    assert_true(read_as(&form, "{\"q\": \"a\", \"score\": 3, \"p\": \"b\", \"n\": \"c\"}"));
    assert_int_equal(form.columns, 3);
    assert_true(read_as(&form, "{\"n\": \"C\", \"q\": \"A\", \"p\": \"B\"}")); /* by name, whatever the order */
    assert_string_equal(example.texts[0].text, "A");
    assert_string_equal(example.texts[2].text, "C");
    form = form_of(TASK_CONTRASTIVE, true);
    assert_true(example_columns(&form, "p,q"));
    assert_true(read_as(&form, "{\"q\": \"a\", \"id\": 7, \"p\": \"b\"}"));
    assert_string_equal(example.texts[0].text, "b");
    form = form_of(TASK_CONTRASTIVE, false);
    assert_true(read_as(&form, "a\tb\tc"));
    assert_int_equal(example.columns, 3);
    assert_false(read_as(&form, "a\tb"));
    assert_non_null(strstr(example.problem, "the first line has 3"));
    form = form_of(TASK_CLASSIFY, false);
    assert_true(read_as(&form, "a text\twater"));
    assert_int_equal(example.label, 1);
    assert_true(read_as(&form, "a text\t2"));
    assert_int_equal(example.label, 2);
    form = form_of(TASK_SCORED, false);
    assert_true(read_as(&form, "a\tb\t0.25"));
    assert_true(example.values[0] == 0.25f);
    form = form_of(TASK_MLM, false);
    assert_true(read_as(&form, "a\tb"));
    assert_int_equal(example.texts[0].bytes, 3);
    example_clear(&example);
}

static void test_labels(void **state)
{
    struct example_form form = form_of(TASK_CLASSIFY, true);
    (void)state;
    assert_true(read_as(&form, "{\"text\": \"x\", \"label\": \"land\"}"));
    assert_int_equal(example.label, 2);
    assert_true(read_as(&form, "{\"text\": \"x\", \"label\": -100}"));
    assert_int_equal(example.label, IGNORED);
    form.several = true;
    assert_true(read_as(&form, "{\"text\": \"x\", \"labels\": [\"land\", 0]}"));
    assert_true(example.values[0] == 1 && example.values[1] == 0 && example.values[2] == 1);
    form = form_of(TASK_REGRESS, true);
    assert_true(read_as(&form, "{\"text\": \"x\", \"scores\": [1, 2, 3.5]}"));
    assert_true(example.n_values == 3 && example.values[2] == 3.5f);
    form = form_of(TASK_TOKENS, true);
    assert_true(read_as(&form, "{\"tokens\": [\"the\"], \"tags\": [2]}"));
    assert_true(read_as(&form, "{\"tokens\": [\"the\", \"boat\"], \"tags\": [2, \"boat\"]}"));
    assert_string_equal(example.texts[0].text, "the boat");
    assert_int_equal(example.word_labels[0], 2);
    assert_int_equal(example.word_ends[1], 8);
    example_clear(&example);
}

static void test_refused(void **state)
{
    static const struct {
        enum train_task task;
        const char *line, *why;
    } cases[] = {
        {TASK_CONTRASTIVE, "{\"q\": \"a\", \"p\": \"b\"", "ends too early"},
        {TASK_CONTRASTIVE, "[1]", "an array, and an object is needed"},
        {TASK_CONTRASTIVE, "{\"q\": \"a\"}", "one text, and this task takes two or more"},
        {TASK_CONTRASTIVE, "{\"q\": \"a\", \"p\": \" \\t\"}", "\"p\" is empty"},
        {TASK_CONTRASTIVE, "{\"q\": \"a\", \"p\": 3}", "\"p\" is a number, not a string"},
        {TASK_CONTRASTIVE, "{\"q\": \"a\", \"p\": \"\xFF\"}", "not UTF-8"},
        {TASK_SCORED, "{\"q\": \"a\", \"p\": \"b\"}", "the field \"score\" is missing"},
        {TASK_SCORED, "{\"q\": \"a\", \"p\": \"b\", \"score\": \"x\"}", "the score is a string"},
        {TASK_SCORED, "{\"q\": \"a\", \"p\": \"b\", \"score\": 1e300}", "not finite in f32"},
        {TASK_SCORED, "{\"q\": \"a\", \"p\": \"b\", \"n\": \"c\", \"score\": 1}", "3 columns with texts"},
        {TASK_CLASSIFY, "{\"text\": \"a\"}", "the field \"label\" is missing"},
        {TASK_CLASSIFY, "{\"text\": \"a\", \"label\": 3}", "the label 3 is out of range: the model has 3, 0 to 2"},
        {TASK_CLASSIFY, "{\"text\": \"a\", \"label\": -1}", "out of range"},
        {TASK_CLASSIFY, "{\"text\": \"a\", \"label\": 0.5}", "out of range"},
        {TASK_CLASSIFY, "{\"text\": \"a\", \"label\": \"sea\"}", "no label \"sea\": it has 3, \"boat\" to \"land\""},
        {TASK_CLASSIFY, "{\"text\": \"a\", \"label\": null}", "a label is null"},
        {TASK_REGRESS, "{\"text\": \"a\", \"score\": 1}", "1 scores, and the model makes 3"},
        {TASK_TOKENS, "{\"tokens\": [\"a\", \"b\"], \"labels\": [1]}", "2 words and 1 labels"},
        {TASK_TOKENS, "{\"tokens\": [\"a\"]}", "an array \"labels\""},
        {TASK_TOKENS, "{\"text\": \"a\", \"labels\": [1]}", "an array \"tokens\""},
        {TASK_TOKENS, "{\"tokens\": [\"\"], \"labels\": [1]}", "all words are empty"},
        {TASK_MLM, "{\"label\": 1}", "there is no text"},
    };
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct example_form form = form_of(cases[n].task, true);
        bool read = read_as(&form, cases[n].line);
        if (read || !strstr(example.problem, cases[n].why))
            printf("%s: %s\n", cases[n].line, read ? "was read" : example.problem);
        assert_false(read);
        assert_non_null(strstr(example.problem, cases[n].why));
    }
    struct example_form form = form_of(TASK_CONTRASTIVE, true); /* of a later line */
    assert_true(read_as(&form, "{\"q\": \"a\", \"p\": \"b\"}"));
    assert_false(read_as(&form, "{\"q\": \"a\", \"r\": \"b\"}"));
    assert_string_equal(example.problem, "the field \"p\" is missing");
    example_clear(&example);
}

/* Pairs that may come after each other. */
static void test_next(void **state)
{
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"{\"text\": \"a\", \"next\": true}", "one text, and this task takes two"},
        {"{\"text\": \"a\", \"pair\": \"b\"}", "the field \"next\" is missing"},
        {"{\"text\": \"a\", \"pair\": \"b\", \"next\": 2}", "\"next\" is 2: true or 1 is for"},
        {"{\"text\": \"a\", \"pair\": \"b\", \"next\": -100}", "\"next\" is -100"},
        {"{\"text\": \"a\", \"pair\": \"b\", \"next\": \"yes\"}", "\"next\" is a string, not true or false"},
        {"{\"text\": \"a\", \"pair\": \"b\", \"next\": null}", "\"next\" is null, not true or false"},
        {"{\"text\": \"a\", \"pair\": \"b\", \"third\": \"c\", \"next\": 1}", "3 columns with texts"},
    };
    static const char *const fine[] = {"false", "0", "true", "1"};
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct example_form form = form_of(TASK_MLM, true);
        form.next = true;
        assert_false(read_as(&form, cases[n].line));
        if (!strstr(example.problem, cases[n].why)) fail_msg("%s: %s", cases[n].line, example.problem);
    }
    struct example_form form = form_of(TASK_MLM, true);
    form.next = true;
    for (int n = 0; n < 4; n++) {
        char line[100];
        snprintf(line, sizeof line, "{\"text\": \"a\", \"next\": %s, \"pair\": \"b\"}", fine[n]);
        assert_true(read_as(&form, line));
        assert_int_equal(example.label, n < 2 ? NEXT_ELSEWHERE : NEXT_FOLLOWS);
        assert_string_equal(example.texts[1].text, "b");
    }
    assert_false(read_as(&form, "{\"text\": \"a\", \"next\": 1}")); /* a later line */
    assert_string_equal(example.problem, "the field \"pair\" is missing");
    example_clear(&example);
}

static void test_pairs_of_lines(void **state)
{
    enum { LINES = 5, DRAWS = 4000 };
    uint32_t follows = 0, others[LINES][LINES] = {{0}};
    (void)state;
    for (uint64_t key = 0; key < DRAWS; key++)
        for (uint64_t n = 0; n < LINES; n++) {
            int32_t label, again;
            uint64_t with = pair_draw(key, n, LINES, &label);
            assert_int_equal(with, pair_draw(key, n, LINES, &again));
            assert_true(with < LINES && with != n && label == again);
            assert_true((label == NEXT_FOLLOWS) == (with == n + 1));
            follows += label == NEXT_FOLLOWS;
            others[n][with]++;
        }
    assert_true(follows > DRAWS * (LINES - 1) * 0.48 && follows < DRAWS * (LINES - 1) * 0.52);
    for (int n = 0; n < LINES; n++) /* others as often as each other */
        for (int m = 0; m < LINES; m++) {
            const double share = others[n][m] / (double)DRAWS, want = n == LINES - 1 ? 0.25 : 0.5 / 3;
            if (m != n && m != n + 1) assert_true(share > 0.8 * want && share < 1.2 * want);
        }
}

/* ---- batches ---- */

static struct batches_desc desc_of(uint32_t examples, uint32_t tokens)
{
    return (struct batches_desc){.context = all.context,
                                 .model = all.model,
                                 .info = &all.info,
                                 .seed = 3,
                                 .examples = examples,
                                 .tokens = tokens,
                                 .max_length = 16,
                                 .masked = 0.15};
}

enum { PAIRS = 40 };

/* Pairs of which some share texts: anchors repeat after 8 lines. */
static void open_pairs(struct lines *lines)
{
    char text[PAIRS * 64], *at = text;
    for (int n = 0; n < PAIRS; n++)
        at +=
            sprintf(at, "{\"a\": \"boat %c\", \"p\": \"the river %c %c\"}\n", 'a' + n % 8, 'a' + n % 26, 'a' + n / 26);
    open_text(lines, text);
}

static void check_pairs(const struct train_batch *batch, struct lines *lines)
{
    assert_int_equal(batch->columns, 2);
    assert_int_equal(batch->sequences, 2 * batch->examples);
    for (uint32_t e = 0; e < batch->examples; e++) {
        int32_t ids[16];
        size_t count = 16;
        char *line;
        size_t bytes;
        struct example_form form = form_of(TASK_CONTRASTIVE, true);
        lines_read(lines, batch->numbers[e], &line, &bytes);
        assert_true(example_read(&example, &form, line, bytes));
        for (uint32_t c = 0; c < 2; c++) { /* column by column */
            uint32_t s = c * batch->examples + e;
            count = 16;
            wherry_tokenize(all.context, all.model, example.texts[c].text, example.texts[c].bytes, NULL, 0, 0, ids,
                            NULL, &count);
            assert_int_equal(batch->offsets[s + 1] - batch->offsets[s], count);
            assert_memory_equal(batch->ids + batch->offsets[s], ids, count * sizeof *ids);
        }
        for (uint32_t other = 0; other < e; other++)
            assert_true(batch->numbers[other] % 8 != batch->numbers[e] % 8); /* no anchor twice */
    }
    example_clear(&example);
}

/* All examples once in an epoch, none with a text of another in one batch. */
static void test_contrastive(void **state)
{
    struct example_form form = form_of(TASK_CONTRASTIVE, true);
    struct lines lines;
    struct batches batches;
    struct train_batch batch;
    uint64_t expected, second;
    (void)state;
    open_pairs(&lines);
    for (int by_tokens = 0; by_tokens < 2; by_tokens++) {
        const struct batches_desc desc = by_tokens ? desc_of(1000, 50) : desc_of(6, 0);
        bool seen[2][PAIRS] = {{false}};
        uint64_t steps[2] = {0, 0};
        batches_open(&batches, &desc, &lines, &form);
        assert_int_equal(batches_count(&batches, 0, &expected), EXIT_FINE);
        assert_int_equal(batches_count(&batches, 1, &second), EXIT_FINE);
        for (int epoch = 0; epoch < 2;) {
            assert_int_equal(batches_next(&batches, &batch), EXIT_FINE);
            check_pairs(&batch, &lines);
            assert_true(by_tokens ? batch.tokens <= 50 : batch.examples <= 6);
            for (uint32_t e = 0; e < batch.examples; e++) {
                assert_false(seen[epoch][batch.numbers[e]]);
                seen[epoch][batch.numbers[e]] = true;
            }
            steps[epoch]++;
            epoch += batch.last;
            train_batch_free(&batch);
        }
        for (int n = 0; n < PAIRS; n++) assert_true(seen[0][n] && seen[1][n]);
        assert_int_equal(steps[0], expected);
        assert_int_equal(steps[1], second);
        batches_close(&batches);
    }
    lines_close(&lines);
}

/* From every batch's position the same batches follow. */
static void test_positions(void **state)
{
    enum { STEPS = 20 };
    struct example_form form = form_of(TASK_CONTRASTIVE, true);
    const struct batches_desc desc = desc_of(6, 60);
    struct lines lines;
    struct batches batches, again;
    struct train_batch expected[STEPS], batch;
    bool waited = false;
    (void)state;
    open_pairs(&lines);
    batches_open(&batches, &desc, &lines, &form);
    for (int n = 0; n < STEPS; n++) assert_int_equal(batches_next(&batches, &expected[n]), EXIT_FINE);
    for (int from = 0; from < STEPS - 1; from++) {
        json_t *json = position_json(&expected[from].after);
        char *text = json_dumps(json, 0);
        json_decref(json);
        json = json_loads(text, 0, NULL);
        free(text);
        batches_open(&again, &desc, &lines, &form);
        assert_true(position_read(&again.position, json, lines.count));
        waited |= again.position.n_waiting > 0;
        json_decref(json);
        for (int n = from + 1; n < STEPS; n++) {
            assert_int_equal(batches_next(&again, &batch), EXIT_FINE);
            assert_int_equal(batch.tokens, expected[n].tokens);
            assert_memory_equal(batch.ids, expected[n].ids, batch.tokens * sizeof *batch.ids);
            train_batch_free(&batch);
        }
        batches_close(&again);
    }
    assert_true(waited);
    for (int n = 0; n < STEPS; n++) train_batch_free(&expected[n]);
    struct position position;
    json_t *json = json_pack("{s:i, s:i, s:[i]}", "epoch", 0, "place", 0, "waiting", PAIRS);
    assert_false(position_read(&position, json, lines.count));
    json_decref(json);
    batches_close(&batches);
    lines_close(&lines);
}

static void test_bad_batches(void **state)
{
    struct example_form form = form_of(TASK_MLM, true);
    struct batches_desc desc = desc_of(4, 0);
    struct lines lines;
    struct batches batches;
    struct train_batch batch;
    (void)state;
    open_text(&lines, "{\"text\": \"a\"}\n\n{\"text\": \"a b c d e f g h i j k l m n o p q\"}\n");
    listen();
    for (int n = 0; n < 4; n++) {
        desc.truncate = n >= 2;
        if (n == 3) desc = desc_of(1000, 12), desc.truncate = true;
        batches_open(&batches, &desc, &lines, &form);
        assert_int_equal(batches_next(&batches, &batch), n == 2 ? EXIT_FINE : EXIT_INPUT);
        train_batch_free(&batch);
        batches_close(&batches);
    }
    hush();
    assert_true(said("data.jsonl, line 3: 19 tokens, and the limit is 16"));
    assert_true(said("data.jsonl, line 3: 16 tokens, more than --batch-tokens 12"));
    lines_close(&lines);
}

static void test_word_labels(void **state)
{
    struct example_form form = form_of(TASK_TOKENS, true);
    const struct batches_desc desc = desc_of(1, 0);
    struct lines lines;
    struct batches batches;
    struct train_batch batch;
    (void)state;
    open_text(&lines, "{\"tokens\": [\"the\", \"boating\", \"\", \"b,\", \"?\"], \"labels\": [2, 1, 0, 0, -100]}\n");
    batches_open(&batches, &desc, &lines, &form);
    assert_int_equal(batches_next(&batches, &batch), EXIT_FINE);
    /* [CLS] the boat ##ing b , ? [SEP] */
    static const int32_t labels[] = {IGNORED, 2, 1, IGNORED, 0, IGNORED, IGNORED, IGNORED};
    assert_int_equal(batch.n_labels, 8);
    assert_memory_equal(batch.labels, labels, sizeof labels);
    train_batch_free(&batch);
    batches_close(&batches);
    lines_close(&lines);
}

static void test_parts(void **state)
{
    uint32_t offsets[] = {0, 4, 6, 14, 15, 16, 17};
    int32_t ids[17] = {0}, types[17] = {0}, labels[17];
    struct train_batch batch = {.sequences = 6, .tokens = 17, .offsets = offsets, .ids = ids, .types = types};
    struct parts parts = {.count = 0};
    (void)state;
    parts_of(&parts, &batch, &(struct part_limits){8, 100, 0});
    assert_int_equal(parts.count, 3); /* 4 + 2, 8, 1 + 1 + 1 */
    assert_int_equal(parts.batches[0].sequences, 2);
    assert_ptr_equal(parts.batches[2].ids, ids + 14);
    assert_int_equal(parts.batches[2].offsets[3], 3);
    assert_int_equal(parts.longest, 8);
    parts_of(&parts, &batch, &(struct part_limits){100, 2, 0});
    assert_int_equal(parts.count, 3);
    assert_int_equal(parts.batches[1].offsets[2], 9);
    for (int t = 0; t < 17; t++) labels[t] = t % 4 ? IGNORED : 7;
    batch.labels = labels; /* 1, 1, 2, 0, 0, 1 of the sequences' */
    parts_of(&parts, &batch, &(struct part_limits){100, 100, 2});
    assert_int_equal(parts.count, 3);
    assert_int_equal(parts.batches[0].sequences, 2);
    assert_int_equal(parts.batches[1].sequences, 3);
    parts_of(&parts, &batch, &(struct part_limits){100, 100, 5});
    assert_int_equal(parts.count, 1);
    parts_free(&parts);
}

/* Three examples of two columns, of 4 + 8, 2 + 1 and 1 + 2 tokens. */
static void test_shards(void **state)
{
    (void)state;
    uint32_t offsets[] = {0, 4, 6, 7, 15, 16, 18};
    int32_t ids[18], types[18] = {0};
    const struct train_batch batch = {
        .examples = 3, .columns = 2, .sequences = 6, .tokens = 18, .offsets = offsets, .ids = ids, .types = types};
    struct parts parts = {.count = 0};
    for (int i = 0; i < 18; i++) ids[i] = i;
    parts_of_shards(&parts, &batch, 2, &(struct part_limits){100, 100, 0});
    assert_int_equal(parts.count, 2); /* 12 tokens, 6 tokens */
    assert_int_equal(parts.shards[0].n_batches, 1);
    assert_int_equal(parts.batches[0].sequences, 2);
    assert_int_equal(parts.batches[0].ids[4], 7); /* the second column's follow */
    assert_int_equal(parts.batches[1].sequences, 4);
    assert_int_equal(parts.batches[1].offsets[4], 6);
    for (int i = 0; i < 3; i++) assert_int_equal(parts.batches[1].ids[i], 4 + i);
    for (int i = 3; i < 6; i++) assert_int_equal(parts.batches[1].ids[i], 12 + i);
    parts_of_shards(&parts, &batch, 4, &(struct part_limits){8, 100, 0});
    assert_int_equal(parts.shards[0].n_batches, 2); /* cut by tokens */
    assert_int_equal(parts.shards[1].n_batches, 0); /* the long example reaches over it */
    assert_int_equal(parts.shards[2].n_batches, 1);
    assert_int_equal(parts.shards[3].n_batches, 1);
    assert_ptr_equal(parts.shards[3].batches, parts.batches + 3);
    parts_free(&parts);
}

/* Sequences keep their labels in parts and in shards. */
static void test_parts_next(void **state)
{
    uint32_t offsets[] = {0, 4, 6, 14, 15};
    int32_t ids[15] = {0}, types[15] = {0}, next[4] = {0, 1, 1, 0};
    const struct train_batch batch = {.examples = 4,
                                      .columns = 1,
                                      .sequences = 4,
                                      .tokens = 15,
                                      .offsets = offsets,
                                      .ids = ids,
                                      .types = types,
                                      .next = next};
    struct parts parts = {.count = 0};
    (void)state;
    parts_of(&parts, &batch, &(struct part_limits){8, 100, 0});
    assert_int_equal(parts.count, 3);
    assert_ptr_equal(parts.batches[1].next, next + 2);
    parts_of_shards(&parts, &batch, 2, &(struct part_limits){100, 100, 0});
    for (uint32_t v = 0, s = 0; v < 2; v++)
        for (uint32_t i = 0; i < parts.batches[v].sequences; i++) assert_int_equal(parts.batches[v].next[i], next[s++]);
    parts_free(&parts);
}

/* Lines become pairs, which are others in the next epoch, and have both segments. */
static void test_batches_of_pairs(void **state)
{
    struct example_form form = form_of(TASK_MLM, false);
    const struct batches_desc desc = desc_of(4, 0);
    struct lines lines;
    struct batches batches;
    struct train_batch batch;
    int32_t labels[2][4];
    uint32_t tokens[2] = {0}, follows = 0;
    (void)state;
    form.next = true;
    open_text(&lines, "the\nboat a\nwater b c\npeople d e f\n");
    batches_open(&batches, &desc, &lines, &form);
    for (int epoch = 0; epoch < 8; epoch++) {
        if (batches_next(&batches, &batch)) fail();
        assert_true(batch.last && batch.sequences == 4 && batch.columns == 1);
        for (uint32_t e = 0; e < 4; e++) {
            uint32_t first = batch.offsets[e], end = batch.offsets[e + 1];
            assert_true(batch.types[first] == 0 && batch.types[end - 1] == 1);
            assert_true(batch.next[e] == NEXT_FOLLOWS || batch.next[e] == NEXT_ELSEWHERE);
            if (epoch < 2) labels[epoch][batch.numbers[e]] = batch.next[e];
            follows += batch.next[e] == NEXT_FOLLOWS;
        }
        if (epoch < 2) tokens[epoch] = batch.tokens;
        train_batch_free(&batch);
    }
    assert_true(follows > 0 && follows < 24); /* 32 pairs, of which 8 are of the last line */
    assert_true(tokens[0] != tokens[1] || memcmp(labels[0], labels[1], sizeof labels[0]) != 0);
    batches_close(&batches);
    lines_close(&lines);
    open_text(&lines, "the\nboat\n");
    batches_open(&batches, &desc, &lines, &form);
    listen();
    assert_int_equal(batches_next(&batches, &batch), EXIT_INPUT);
    hush();
    assert_true(said("three or more"));
    batches_close(&batches);
    lines_close(&lines);
}

/* ---- masks ---- */

/* Of the same example the same, whatever is in its batch; another in the next epoch. */
static void test_masks_of_batches(void **state)
{
    struct example_form form = form_of(TASK_MLM, true);
    struct lines lines;
    struct batches batches;
    struct train_batch batch;
    int32_t ids[2][10][16] = {{{0}}};
    bool differs = false;
    (void)state;
    char text[10 * 64], *at = text;
    for (int n = 0; n < 10; n++) at += sprintf(at, "{\"text\": \"the boat carries people %c b c d e\"}\n", 'a' + n);
    open_text(&lines, text);
    for (int size = 0; size < 2; size++) {
        const struct batches_desc desc = desc_of(size ? 7 : 2, 0);
        batches_open(&batches, &desc, &lines, &form);
        for (int epoch = 0; epoch < 2;) {
            if (batches_next(&batches, &batch)) fail();
            for (uint32_t e = 0; e < batch.examples; e++) {
                uint32_t first = batch.offsets[e], count = batch.offsets[e + 1] - first, masked = 0;
                int32_t *kept = ids[epoch][batch.numbers[e]];
                for (uint32_t t = 0; t < count; t++) masked += batch.labels[first + t] != IGNORED;
                assert_true(masked > 0 && count <= 16);
                if (size) assert_memory_equal(kept, batch.ids + first, count * sizeof *kept);
                memcpy(kept, batch.ids + first, count * sizeof *kept);
            }
            epoch += batch.last;
            train_batch_free(&batch);
        }
        batches_close(&batches);
    }
    for (int n = 0; n < 10; n++) differs |= memcmp(ids[0][n], ids[1][n], sizeof ids[0][n]) != 0;
    assert_true(differs);
    lines_close(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_contrastive),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_bad_batches),
        cmocka_unit_test(test_word_labels),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_masks_of_batches),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_pairs_of_lines),
        cmocka_unit_test(test_parts_next),
        cmocka_unit_test(test_batches_of_pairs),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
