/* Tensors of files that torch.save wrote (tests/golden/make_torch_files.py), and what is refused in them. */
#include "model_files.h"

#include "support.h"

#include <setjmp.h>

#include "model/torch_file.h"

#include <cmocka.h>

static char *read_all(const char *name, size_t *size)
{
    char *path = files_format("%s/torch/%s.pt", TEST_DATA, name), *bytes;
    struct error e = {0};
    if (!file_read(&files_host, path, 1 << 20, &bytes, size, &e)) fail_msg("%s", e.text);
    free(path);
    return bytes;
}

static void expect_values(const struct torch_file *file, const char *name, int rank, uint64_t rows, uint64_t columns,
                          double first, double step)
{
    static char raw[WEIGHT_RAW_BYTES];
    float values[16];
    struct error e = {0};
    const struct torch_tensor *t = torch_file_find(file, name);
    assert_non_null(t);
    assert_int_equal(t->rank, rank);
    assert_int_equal(t->shape[0], rows);
    if (rank == 2) assert_int_equal(t->shape[1], columns);
    assert_int_equal(t->part.elements, rows * columns);
    assert_true(weight_convert(&t->part, 0, t->part.elements, WEIGHT_TYPE_F32, raw, values, &e));
    for (uint64_t i = 0; i < t->part.elements; i++) assert_true((double)values[i] == first + step * (double)i);
}

static void reads_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum weight_type type;
    } files[] = {{"f32", WEIGHT_TYPE_F32}, {"f16", WEIGHT_TYPE_F16}, {"bf16", WEIGHT_TYPE_BF16}};
    for (size_t i = 0; i < 3; i++) {
        char *path = files_format("%s/torch/%s.pt", TEST_DATA, files[i].name);
        struct torch_file file;
        struct error e = {0};
        if (!torch_file_open(&files_host, path, &file, &e)) fail_msg("%s", e.text);
        assert_int_equal(file.count, 2);
        assert_int_equal(torch_file_find(&file, "weight")->part.type, files[i].type);
        expect_values(&file, "weight", 2, 3, 5, -0.125, 1 / 64.0);
        expect_values(&file, "bias", 1, 3, 1, -0.25, 0.25);
        assert_null(torch_file_find(&file, "weigh"));
        torch_file_close(&files_host, &file);
        free(path);
    }
}

/* Two tensors of one storage. */
static void reads_slices(void **state)
{
    (void)state;
    size_t size;
    char *bytes = read_all("slices", &size);
    struct torch_file file;
    struct error e = {0};
    if (!torch_file_parse(bytes, size, &file, &e)) fail_msg("%s", e.text);
    expect_values(&file, "bias", 1, 3, 1, 2 / 64.0, 1 / 64.0);
    expect_values(&file, "weight", 2, 3, 5, 10 / 64.0, 1 / 64.0);
    free(bytes);
}

static void refuses_others(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        wherry_status status;
        const char *says;
    } cases[] = {
        {"calls", WHERRY_STATUS_UNSUPPORTED, "calls os.getenv; only tensors are read: do not load"},
        {"module", WHERRY_STATUS_UNSUPPORTED, "calls torch.nn.modules.linear.Linear"},
        {"integers", WHERRY_STATUS_UNSUPPORTED, "calls torch.LongStorage"},
        {"transposed", WHERRY_STATUS_UNSUPPORTED, "does not lie row after row"},
        {"cube", WHERRY_STATUS_UNSUPPORTED, "neither a matrix nor a vector"},
        {"many", WHERRY_STATUS_UNSUPPORTED, "more than 8 tensors"},
        {"tensor", WHERRY_STATUS_UNSUPPORTED, "something else than a dictionary"},
        {"empty", WHERRY_STATUS_UNSUPPORTED, "no tensors by name"},
        {"compressed", WHERRY_STATUS_UNSUPPORTED, "compressed"},
        {"legacy", WHERRY_STATUS_BAD_FORMAT, "no zip"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = files_format("%s/torch/%s.pt", TEST_DATA, cases[i].name);
        struct torch_file file;
        struct error e = {0};
        if (torch_file_open(&files_host, path, &file, &e)) fail_msg("%s is read", cases[i].name);
        assert_int_equal(e.status, cases[i].status);
        if (!strstr(e.text, cases[i].says) || !strstr(e.text, path))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].name, e.text, cases[i].says);
        free(path);
    }
}

/* No shorter file is one: the directory is at its end. A changed byte is refused or gives tensors inside the file. */
static void survives_damage(void **state)
{
    (void)state;
    size_t size;
    char *bytes = read_all("f16", &size);
    struct torch_file file;
    for (size_t cut = 0; cut < size; cut++) {
        char *copy = malloc(cut + 1);
        struct error e = {0};
        memcpy(copy, bytes, cut);
        assert_false(torch_file_parse(copy, cut, &file, &e));
        assert_int_equal(e.status, WHERRY_STATUS_BAD_FORMAT);
        free(copy);
    }
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct error e = {0};
            bytes[at] = (char)(bytes[at] ^ 1 << bit);
            if (torch_file_parse(bytes, size, &file, &e))
                for (size_t i = 0; i < file.count; i++) {
                    const struct weight_part *part = &file.tensors[i].part;
                    size_t first = (size_t)((const char *)part->memory - bytes);
                    assert_true(first + part->elements * (part->type == WEIGHT_TYPE_F32 ? 4 : 2) <= size);
                }
            bytes[at] = (char)(bytes[at] ^ 1 << bit);
        }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(reads_slices),
        cmocka_unit_test(refuses_others),
        cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
