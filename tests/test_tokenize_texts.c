/* wherry_tokenize_texts: the tokens of many texts are those that wherry_tokenize gives of each, by any number of
 * threads; what is wrong with one of them leaves those before it. */
#include "model_files.h"

#include <wherry/wherry.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TEXTS = 1000, LONG = TINY_POSITIONS };

static struct {
    char *folder;
    wherry_context *context;
    wherry_model *model;
    char *words[TEXTS];
    wherry_text texts[TEXTS];
} all;

static int make(void **state)
{
    (void)state;
    all.folder = files_folder();
    tiny_model_write(all.folder, &(struct tiny_model){.prefix = ""});
    assert_int_equal(
        wherry_context_create(&(wherry_context_desc){.struct_size = sizeof(wherry_context_desc), .cache_dir = ""},
                              &all.context),
        WHERRY_STATUS_OK);
    assert_int_equal(wherry_model_open(all.context, all.folder, &all.model), WHERRY_STATUS_OK);
    for (size_t i = 0; i < TEXTS; i++) { /* of 0 to 20 words, every fourth with a pair */
        char *at = all.words[i] = calloc(1, 200);
        assert_non_null(at);
        for (size_t n = 0; n < i * 7 % 21; n++) at += sprintf(at, n % 3 ? "boat " : "x ");
        all.texts[i] = (wherry_text){.text = all.words[i], .text_bytes = strlen(all.words[i])};
        if (i % 4 == 3) all.texts[i].pair = "the river", all.texts[i].pair_bytes = 9;
    }
    return 0;
}

static int drop(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEXTS; i++) free(all.words[i]);
    wherry_model_close(all.model);
    wherry_context_destroy(all.context);
    files_remove(all.folder);
    return 0;
}

static wherry_texts_desc with(uint32_t threads)
{
    return (wherry_texts_desc){.struct_size = sizeof(wherry_texts_desc), .max_tokens = LONG, .threads = threads};
}

static wherry_tokens tokenized(size_t count, const wherry_texts_desc *desc)
{
    wherry_tokens tokens = {.struct_size = sizeof tokens};
    if (wherry_tokenize_texts(all.context, all.model, all.texts, count, desc, &tokens))
        fail_msg("%s", wherry_last_error(all.context));
    return tokens;
}

static void expect_as_each(const wherry_tokens *tokens, const char *prompt)
{
    for (size_t i = 0; i < tokens->texts; i++) {
        const wherry_text *t = &all.texts[i];
        int32_t ids[LONG], types[LONG];
        wherry_token_place places[LONG];
        size_t count = LONG, first = tokens->offsets[i];
        char *text = files_format("%s%s", prompt, t->text);
        assert_int_equal(wherry_tokenize_places(all.context, all.model, text, strlen(text), t->pair, t->pair_bytes,
                                                LONG, ids, types, places, &count),
                         WHERRY_STATUS_OK);
        free(text);
        assert_int_equal(tokens->offsets[i + 1] - first, count);
        assert_memory_equal(tokens->ids + first, ids, count * sizeof *ids);
        assert_memory_equal(tokens->types + first, types, count * sizeof *types);
        for (size_t n = 0; tokens->places && n < count; n++) {
            const wherry_token_place *place = &tokens->places[first + n];
            assert_int_equal(place->text, places[n].text);
            assert_int_equal(place->end, places[n].end);
        }
    }
}

static void test_same(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads < 4; threads++) {
        wherry_texts_desc desc = with(threads);
        desc.places = threads == 1;
        desc.prompt = threads == 2 ? "the people " : NULL;
        for (size_t count = 0; count <= TEXTS; count = count ? 10 * count : 1) {
            wherry_tokens tokens = tokenized(count, &desc);
            assert_int_equal(tokens.texts, count);
            assert_int_equal(tokens.failed, WHERRY_STATUS_OK);
            assert_true(!tokens.places == !desc.places);
            assert_in_range(tokens.threads, 1, threads ? threads : 1024);
            assert_int_equal(tokens.offsets[0], 0);
            expect_as_each(&tokens, desc.prompt ? desc.prompt : "");
            wherry_tokens_free(all.context, &tokens);
        }
    }
}

static void test_form(void **state)
{
    (void)state;
    const wherry_text_form form = {.struct_size = sizeof form, .max_tokens = 10, .least_tokens = 8, .added_token = 4};
    wherry_texts_desc desc = with(0);
    desc.form = &form;
    wherry_tokens tokens = tokenized(TEXTS, &desc);
    for (size_t i = 0; i < TEXTS; i++) assert_in_range(tokens.offsets[i + 1] - tokens.offsets[i], 8, 10);
    for (size_t n = 2; n < 8; n++) assert_int_equal(tokens.ids[n], 4); /* the first text is empty: [CLS] [SEP] */
    wherry_tokens_free(all.context, &tokens);
}

/* The texts before it have their tokens, whichever thread had it, and wherever it is. */
static void test_failures(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, 17, 500, TEXTS - 1};
    char *words = calloc(1, 4096);
    for (size_t n = 0; n < 600; n++) strcat(words, "boat ");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const wherry_text kept = all.texts[places[i]];
        wherry_texts_desc desc = with(0);
        desc.max_tokens = 0;
        desc.limit = 100;
        all.texts[places[i]] = (wherry_text){.text = words, .text_bytes = 5 * 600};
        wherry_tokens tokens = tokenized(TEXTS, &desc);
        assert_int_equal(tokens.texts, places[i]);
        assert_int_equal(tokens.failed, WHERRY_STATUS_TOO_LONG);
        assert_int_equal(tokens.failed_tokens, 602);
        assert_string_equal(tokens.problem, "602 tokens, and the limit is 100");
        wherry_tokens_free(all.context, &tokens);
        all.texts[places[i]] = (wherry_text){.text = NULL, .text_bytes = 1};
        desc.max_tokens = LONG;
        tokens = tokenized(TEXTS, &desc);
        assert_int_equal(tokens.texts, places[i]);
        assert_int_equal(tokens.failed, WHERRY_STATUS_INVALID_ARGUMENT);
        expect_as_each(&tokens, "");
        wherry_tokens_free(all.context, &tokens);
        wherry_tokens_free(all.context, &tokens); /* is zero */
        all.texts[places[i]] = kept;
    }
    /* Without a limit of the caller's it is the model's. */
    all.texts[3] = (wherry_text){.text = words, .text_bytes = 5 * TINY_POSITIONS};
    wherry_tokens tokens = tokenized(5, NULL);
    assert_int_equal(tokens.texts, 3);
    assert_int_equal(tokens.failed_tokens, TINY_POSITIONS + 2);
    wherry_tokens_free(all.context, &tokens);
    all.texts[3] = (wherry_text){.text = all.words[3], .text_bytes = strlen(all.words[3])};
    free(words);
}

static void test_refusals(void **state)
{
    (void)state;
    wherry_tokens tokens = {.struct_size = sizeof tokens}, wrong = {.struct_size = 1};
    wherry_texts_desc desc = {.struct_size = 1};
    const wherry_text_form form = {.struct_size = 1};
#define REFUSED(status, part, ...)                                                                                     \
    do {                                                                                                               \
        assert_int_equal(wherry_tokenize_texts(all.context, __VA_ARGS__), status);                                     \
        assert_non_null(strstr(wherry_last_error(all.context), part));                                                 \
    } while (0)
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "is NULL", NULL, all.texts, 1, NULL, &tokens);
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "is NULL", all.model, NULL, 1, NULL, &tokens);
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "struct_size", all.model, all.texts, 1, NULL, &wrong);
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "struct_size", all.model, all.texts, 1, &desc, &tokens);
    desc = with(0);
    desc.form = &form;
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "struct_size", all.model, all.texts, 1, &desc, &tokens);
    wherry_model_config config = {.struct_size = sizeof config};
    wherry_model *without = NULL;
    assert_int_equal(wherry_model_config_named(all.context, "minilm-l6", &config), WHERRY_STATUS_OK);
    config.layers = 1;
    config.vocabulary = 10;
    assert_int_equal(wherry_model_create_random(all.context, &config, 1, &without), WHERRY_STATUS_OK);
    REFUSED(WHERRY_STATUS_UNSUPPORTED, "no tokenizer", without, all.texts, 1, NULL, &tokens);
    wherry_model_close(without);
    assert_null(tokens.ids);
    wherry_tokens_free(all.context, NULL);
}

/* Memory that runs out at any allocation is that status, and nothing leaks (sanitizers). */
static size_t left;

static void *some(size_t size, void *user)
{
    (void)user;
    if (!left) return NULL;
    left--;
    return malloc(size);
}

static void test_memory(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .alloc = some, .free = files_free, .cache_dir = ""};
    const wherry_texts_desc one = with(1);
    wherry_context *context = NULL;
    left = 1000;
    assert_int_equal(wherry_context_create(&desc, &context), WHERRY_STATUS_OK);
    wherry_status status = WHERRY_STATUS_OUT_OF_HOST_MEMORY;
    for (size_t n = 0; status; n++) {
        wherry_tokens tokens = {.struct_size = sizeof tokens};
        left = n;
        status = wherry_tokenize_texts(context, all.model, all.texts, 20, &one, &tokens);
        if (status) assert_int_equal(status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_true(n < 10000);
        wherry_tokens_free(context, &tokens);
    }
    wherry_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_form),
                                       cmocka_unit_test(test_failures), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, make, drop);
}
