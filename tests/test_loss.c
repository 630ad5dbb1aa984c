/* Losses equal those of sentence-transformers and torch (tests/golden/losses.py), with their gradients, on every
 * device; the gradients equal finite differences of the reference's; every group equals its operators' definitions,
 * writes nothing beside its tensors and gives the same bits again; what is no batch of a loss is refused with a
 * sentence. */
#include "base/error.h"
#include "support.h"
#include "train/loss.h"
#include "wherry/wherry_verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NUMBERS = 512 };

struct golden {
    char name[64];
    struct loss_options options;
    uint32_t dimensions[LOSS_DIMENSIONS_MOST];
    float weights[LOSS_DIMENSIONS_MOST], class_weights[16], values[NUMBERS], rows[NUMBERS];
    int32_t labels[32];
    size_t n_class_weights, n_labels, n_values, examples, length, n_rows;
    double loss, gradient[NUMBERS];
};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

/* ---- the golden values ---- */

static double number(FILE *f)
{
    double value;
    assert_int_equal(fscanf(f, "%lf", &value), 1);
    return value;
}

static size_t floats(FILE *f, float *out, size_t most)
{
    size_t n = (size_t)number(f);
    assert_true(n <= most);
    for (size_t i = 0; i < n; i++) out[i] = (float)number(f);
    return n;
}

static bool read_case(FILE *f, struct golden *g)
{
    memset(g, 0, sizeof *g);
    if (fscanf(f, " %63[^\n]", g->name) != 1) return false;
    g->options.kind = (enum loss_kind)number(f);
    g->options.columns = (uint32_t)number(f);
    g->examples = (size_t)number(f);
    g->length = (size_t)number(f);
    g->options.symmetric = number(f) != 0;
    float scale = (float)number(f), positive = (float)number(f);
    if (g->options.kind == LOSS_CONTRASTIVE || g->options.kind == LOSS_COSENT) g->options.scale = scale;
    if (g->options.kind == LOSS_BINARY) g->options.positive_weight = positive;
    g->options.n_dimensions = (uint32_t)number(f);
    for (uint32_t k = 0; k < g->options.n_dimensions; k++) {
        g->dimensions[k] = (uint32_t)number(f);
        g->weights[k] = (float)number(f);
    }
    g->options.dimensions = g->dimensions;
    g->options.dimension_weights = g->weights;
    g->n_class_weights = floats(f, g->class_weights, 16);
    if (g->n_class_weights) g->options.class_weights = g->class_weights;
    g->n_labels = (size_t)number(f);
    for (size_t i = 0; i < g->n_labels; i++) g->labels[i] = (int32_t)number(f);
    g->n_values = floats(f, g->values, NUMBERS);
    g->n_rows = g->examples * g->options.columns;
    assert_true(g->n_rows * g->length <= NUMBERS);
    for (size_t i = 0; i < g->n_rows * g->length; i++) g->rows[i] = (float)number(f);
    g->loss = number(f);
    for (size_t i = 0; i < g->n_rows * g->length; i++) g->gradient[i] = number(f);
    return true;
}

static FILE *open_golden(void)
{
    FILE *f = fopen(TEST_DATA "/../golden/losses.txt", "r");
    assert_non_null(f);
    return f;
}

static struct loss_targets targets_of(const struct golden *g)
{
    return (struct loss_targets){g->n_labels ? g->labels : NULL, g->n_values ? g->values : NULL,
                                 g->n_labels + g->n_values};
}

/* ---- helpers ---- */

static wherry_device *open_device(const char *id)
{
    wherry_device *device = NULL;
    if (wherry_device_open(context, id, &device)) fail_msg("%s: %s", id, wherry_last_error(context));
    return device;
}

static struct loss *create(wherry_device *device, const struct loss_options *options, size_t rows, size_t length)
{
    struct error e = {0};
    struct loss *loss = loss_create(device, options, rows, length, &e);
    if (!loss) fail_msg("loss_create: %s", e.text);
    return loss;
}

static double run(struct loss *loss, const struct golden *g, const float *rows, float scale, float *gradient)
{
    struct error e = {0};
    struct loss_targets targets = targets_of(g);
    double value;
    if (!loss_run(loss, rows, g->n_rows, &targets, scale, &value, gradient, &e)) fail_msg("%s: %s", g->name, e.text);
    return value;
}

/* The largest difference over the largest value, and over nothing where all are 0. */
static double difference(const float *have, const double *want, double scale, size_t n)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)have[i] / scale - want[i]);
        if (!(d <= worst)) worst = d; /* NaN, too */
        if (fabs(want[i]) > largest) largest = fabs(want[i]);
    }
    return largest > 0 ? worst / largest : worst;
}

/* Drivers on a CPU compile for seconds: some cases are theirs, all with WHERRY_TEST_ALL=1. */
static bool takes_all(const char *id)
{
    return getenv("WHERRY_TEST_ALL") || !strchr(id, ':') || support_is_gpu(context, id);
}

/* ---- tests ---- */

/* With room for more examples than there are, as a last batch has it: in larger losses, zeros lie beside. */
static void check_golden(wherry_device *device, const char *id, const struct golden *g, size_t more)
{
    float gradient[NUMBERS];
    struct loss *loss = create(device, &g->options, (g->examples + more) * g->options.columns, g->length);
    double value = run(loss, g, g->rows, 64, gradient);
    double error = fabs(value - g->loss) / fmax(1, fabs(g->loss));
    double of_gradient = difference(gradient, g->gradient, 64, g->n_rows * g->length);
    if (getenv("WHERRY_TEST_PRINT"))
        printf("%s: %s: loss %.9g, %.2g, gradient %.2g\n", id, g->name, value, error, of_gradient);
    if (!(error <= 1e-6)) fail_msg("%s: %s: the loss is %.9g, not %.9g", id, g->name, value, g->loss);
    if (!(of_gradient <= 1e-5)) fail_msg("%s: %s: the gradient is off by %g", id, g->name, of_gradient);
    assert_true(run(loss, g, g->rows, 1, NULL) == value);
    loss_destroy(loss);
}

static void test_golden(void **state)
{
    (void)state;
    struct golden g;
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device = open_device(devices[d]);
        FILE *f = open_golden();
        size_t cases = 0;
        for (; read_case(f, &g); cases++)
            if (takes_all(devices[d]) || cases % 4 == 0) check_golden(device, devices[d], &g, cases / 4 % 3);
        fclose(f);
        assert_int_equal(cases, 26);
        wherry_device_close(device);
    }
}

/* The reference's own: its results are 32-bit floats, so steps are long. */
static void test_differences(void **state)
{
    (void)state;
    struct golden g;
    float gradient[NUMBERS], rows[NUMBERS];
    wherry_device *device = open_device("reference");
    FILE *f = open_golden();
    for (int n = 0; read_case(f, &g); n++) {
        if (strstr(g.name, "far apart")) continue;
        struct loss *loss = create(device, &g.options, g.n_rows, g.length);
        double largest = 0;
        run(loss, &g, g.rows, 1, gradient);
        for (size_t i = 0; i < g.n_rows * g.length; i++) largest = fmax(largest, fabs((double)gradient[i]));
        for (size_t i = (size_t)n % 7; i < g.n_rows * g.length; i += 7) {
            memcpy(rows, g.rows, sizeof rows);
            rows[i] = g.rows[i] + 0.0078125f;
            double above = run(loss, &g, rows, 1, NULL), step = (double)rows[i];
            rows[i] = g.rows[i] - 0.0078125f;
            double slope = (above - run(loss, &g, rows, 1, NULL)) / (step - (double)rows[i]);
            if (fabs(slope - (double)gradient[i]) > 5e-3 * (largest + 0.1))
                fail_msg("%s: value %zu has the slope %g, its gradient is %g", g.name, i, slope, (double)gradient[i]);
        }
        loss_destroy(loss);
    }
    fclose(f);
    wherry_device_close(device);
}

static bool print_failed(const wherry_verify_result *r, void *user)
{
    if (!r->passed) printf("%s: %s (%s): nmse %g\n", (const char *)user, r->name, r->kernel, r->nmse);
    return true;
}

/* More rows than a work-group has items, and no multiple of anything. Labels are 0 here: inputs are random. */
static void check_groups(wherry_device *device, const char *id, struct loss_options options, uint32_t examples,
                         uint32_t length)
{
    uint32_t offsets[300], columns = options.columns ? options.columns : loss_columns(options.kind);
    options.keep = true;
    struct loss *loss = create(device, &options, (size_t)(examples + 2) * columns, length);
    for (uint32_t i = 0; i <= examples; i++) offsets[i] = i * columns;
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = examples, .offsets = offsets};
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    wherry_status status = wherry_verify(loss_session(loss), &batch, 1, print_failed, (void *)(uintptr_t)id, &summary);
    if (status) fail_msg("%s: loss %d: %s", id, (int)options.kind, wherry_last_error(context));
    loss_destroy(loss);
}

static void test_groups(void **state)
{
    (void)state;
    static const uint32_t widths[] = {36, 10};
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device = open_device(devices[d]);
        for (int kind = 0; kind < LOSS_KINDS; kind++) {
            struct loss_options options = {.kind = (enum loss_kind)kind};
            if (takes_all(devices[d])) check_groups(device, devices[d], options, 37, 36);
            if (kind == LOSS_CONTRASTIVE) options.columns = 4;
            if (kind <= LOSS_MARGIN) options.dimensions = widths, options.n_dimensions = 2;
            options.symmetric = kind == LOSS_CONTRASTIVE;
            check_groups(device, devices[d], options, 70, 37 - (uint32_t)(kind <= LOSS_MARGIN));
        }
        wherry_device_close(device);
    }
}

static void refused(struct loss *loss, const float *rows, size_t n, const struct loss_targets *t, const char *why)
{
    struct error e = {0};
    double value = 7;
    assert_false(loss_run(loss, rows, n, t, 1, &value, NULL, &e));
    if (!strstr(e.text, why)) fail_msg("\"%s\" has no \"%s\"", e.text, why);
    assert_true(value == 7);
}

static void test_refused(void **state)
{
    (void)state;
    wherry_device *device = open_device("reference");
    float rows[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, bad[24] = {1, 2, NAN};
    float values[] = {0.5f, 0.25f, NAN, 1.5f};
    int32_t labels[] = {1, 2, 3, LOSS_IGNORED};
    struct loss *classes = create(device, &(struct loss_options){.kind = LOSS_CLASSES}, 4, 3);
    struct loss *pairs = create(device, &(struct loss_options){.kind = LOSS_CONTRASTIVE}, 4, 3);
    struct loss *cosine = create(device, &(struct loss_options){.kind = LOSS_COSINE}, 4, 3);
    struct loss *binary = create(device, &(struct loss_options){.kind = LOSS_BINARY}, 4, 1);
    refused(classes, rows, 3, &(struct loss_targets){labels, NULL, 3}, "the label of row 2 is 3: there are 3 classes");
    refused(classes, rows, 3, &(struct loss_targets){labels, NULL, 2}, "3 examples has 3 targets, not 2");
    refused(classes, rows, 1, &(struct loss_targets){labels + 3, NULL, 1}, "no row of this batch counts");
    refused(classes, rows, 2, &(struct loss_targets){NULL, values, 2}, "needs labels");
    refused(classes, bad, 2, &(struct loss_targets){labels, NULL, 2}, "value 2 of row 0 is nan");
    refused(classes, rows, 5, &(struct loss_targets){labels, NULL, 5}, "it was made for 4");
    refused(pairs, rows, 0, NULL, "of 0 rows");
    refused(pairs, rows, 3, NULL, "examples have 2 rows each");
    refused(pairs, rows, 4, &(struct loss_targets){NULL, values, 2}, "has 0 targets, not 2");
    refused(cosine, rows, 4, &(struct loss_targets){NULL, values + 1, 2}, "target 0 of example 1 is nan");
    refused(binary, rows, 2, &(struct loss_targets){NULL, values + 2, 2}, "target 0 of example 0 is nan");
    refused(binary, rows, 1, &(struct loss_targets){NULL, values + 3, 1}, "wants 0 to 1");
    loss_destroy(classes);
    loss_destroy(pairs);
    loss_destroy(cosine);
    loss_destroy(binary);
    wherry_device_close(device);
}

static void test_options(void **state)
{
    (void)state;
    static const uint32_t widths[] = {4, 9};
    static const float weights[] = {1, -1, 1};
    const struct {
        struct loss_options options;
        const char *why;
    } cases[] = {
        {{.kind = LOSS_KINDS}, "none of the kinds"},
        {{.kind = LOSS_COSENT, .columns = 3}, "it takes 2"},
        {{.kind = LOSS_CONTRASTIVE, .columns = 1}, "it takes 2 or more"},
        {{.kind = LOSS_CONTRASTIVE, .columns = 5}, "an example has 5 rows"},
        {{.kind = LOSS_COSENT, .dimensions = widths, .n_dimensions = 2}, "cut to 9 dimensions: these have 8"},
        {{.kind = LOSS_REGRESSION, .dimensions = widths, .n_dimensions = 1}, "leave the dimensions out"},
        {{.kind = LOSS_COSINE, .scale = 20}, "a scale of 20"},
        {{.kind = LOSS_COSENT, .scale = -1}, "a scale of -1"},
        {{.kind = LOSS_COSENT, .symmetric = true}, "is not symmetric"},
        {{.kind = LOSS_CLASSES, .class_weights = weights}, "the weight of class 1 is -1"},
        {{.kind = LOSS_BINARY, .positive_weight = NAN}, "a positive weight of nan"},
    };
    wherry_device *device = open_device("reference");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        size_t length = cases[i].options.class_weights ? 3 : 8;
        assert_null(loss_create(device, &cases[i].options, 12, length, &e));
        if (!strstr(e.text, cases[i].why)) fail_msg("\"%s\" has no \"%s\"", e.text, cases[i].why);
    }
    wherry_device_close(device);
}

static int begin(void **state)
{
    (void)state;
    context = support_context(NULL, devices, &n_devices);
    return context ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_differences),
                                       cmocka_unit_test(test_groups), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_options)};
    return cmocka_run_group_tests(tests, begin, end);
}
