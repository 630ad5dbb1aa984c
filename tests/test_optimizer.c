/* Optimizers: twenty steps of each from gradients made up equal PyTorch's (tests/golden/optimizer.safetensors), in f32,
 * in f16, in other orders, in many small buffers, with the same bits twice; and a tiny model that is trained from ids
 * on, with accumulation, a loss scale that overflows, and a session beside that it does not touch.
 *
 *   test_optimizer list    the gradients' names and sizes, which tests/golden/make_optimizer.py has */
#include "optimizer_support.h"

enum { STEPS = 20, FROZEN = 3 };

/* ---- the golden file's cases ---- */

static const struct golden_case {
    const char *name;
    struct optimizer_options options;
    double rate;
} cases[] = {
    {"adamw",
     {OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1, .max_norm = 1},
     0.01},
    {"lamb",
     {OPTIMIZER_LAMB, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0.01, .max_norm = 1},
     0.02},
    {"sgd", {OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.02, .max_norm = 5}, 0.05},
    {"plain", {OPTIMIZER_SGD, .weight_decay = 0.02}, 0.05},
};
enum { CASES = sizeof cases / sizeof *cases };

static double rate_of(const struct golden_case *c, int step)
{
    return c->rate * (step < 5 ? step / 5.0 : (STEPS + 1 - step) / 16.0);
}

static struct optimizer *optimizer_of(const struct fixture *f, const struct golden_case *c)
{
    struct optimizer_tensor tensors[TENSORS_MOST];
    struct optimizer_options options = c->options;
    struct optimizer *o;
    for (size_t n = 0; n < f->n; n++)
        tensors[n] = (struct optimizer_tensor){.frozen = n == FROZEN,
                                               .decays = strlen(f->dims[n]) > 1 && !strstr(f->names[n], "b_"),
                                               .rate_factor = ldexpf(1, -(int)(n % 3))};
    options.tensors = tensors;
    options.count = f->n;
    EXPECT_TRUE((o = optimizer_create(f->session, &options, &e)) != NULL);
    return o;
}

/* An interpreter has the first ones, and nothing to compare with. */
static bool few(void) { return getenv("WHERRY_TEST_FEW") != NULL; }

/* All steps; the norms of their gradients, NULL: they are not wanted. */
static struct optimizer *steps_run(const struct fixture *f, const struct golden_case *c, double norms[STEPS])
{
    struct optimizer *o = optimizer_of(f, c);
    for (size_t n = 0; n < f->n; n++) {
        float *values = start_values(f, n);
        if (n != FROZEN) EXPECT_TRUE(optimizer_tensor_write(o, OPTIMIZER_MASTER, n, values, f->counts[n], &e));
        free(values);
    }
    for (int step = 1; step <= (few() ? 2 : STEPS); step++) {
        struct optimizer_result result;
        for (size_t n = 0; n < f->n; n++) {
            float *values = gradient_values(f, n, step);
            if (n != FROZEN) EXPECT_TRUE(optimizer_tensor_write(o, OPTIMIZER_GRADIENT, n, values, f->counts[n], &e));
            free(values);
        }
        EXPECT_TRUE(optimizer_step(o, rate_of(c, step), &result, &e));
        assert_false(result.skipped);
        assert_int_equal(result.step, step);
        if (norms) norms[step - 1] = result.norm;
    }
    return o;
}

/* Those of a tensor that the file has. */
static bool sampled(size_t i, size_t count) { return i < 48 || i + 4 >= count || i % 101 == 0; }

static float *golden_values(struct safetensors *file, const char *name, const char *what, size_t *count)
{
    char key[96];
    struct error e = {0};
    snprintf(key, sizeof key, "%s.%s", name, what);
    const struct safetensors_tensor *t = safetensors_find(file, key);
    if (!t) fail_msg("the golden file lacks %s", key);
    float *values = malloc(t->bytes);
    if (!safetensors_read(file, t, 0, t->bytes, values, &e)) fail_msg("%s", e.text);
    *count = t->bytes / sizeof *values;
    return values;
}

static double root_mean_square(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    return sqrt(sum / (double)count);
}

/* The largest difference, in parts of the value and of the tensor's size. */
static double golden_compare(const struct fixture *f, struct safetensors *file, const char *name, size_t n,
                             const float *values)
{
    size_t count, at = 0;
    float *golden = golden_values(file, name, f->names[n], &count);
    double size = root_mean_square(golden, count), worst = 0;
    for (size_t i = 0; i < f->counts[n]; i++) {
        if (!sampled(i, f->counts[n])) continue;
        assert_true(at < count);
        double off = fabs((double)values[i] - (double)golden[at]) / (fabs((double)golden[at]) + size);
        if (!(off <= worst)) worst = off;
        at++;
    }
    assert_int_equal(at, count);
    free(golden);
    return worst;
}

static void golden_case_run(const struct fixture *f, struct safetensors *file, const struct golden_case *c,
                            const char *what)
{
    double norms[STEPS], worst = 0;
    size_t count;
    struct optimizer *o = steps_run(f, c, norms);
    float *golden = golden_values(file, c->name, "norms", &count);
    assert_int_equal(count, STEPS);
    for (int i = 0; i < STEPS; i++) assert_true(fabs(norms[i] - (double)golden[i]) <= 1e-6 * (double)golden[i]);
    free(golden);
    for (size_t n = 0; n < f->n; n++) {
        float *values = malloc(f->counts[n] * sizeof *values);
        EXPECT_TRUE(optimizer_tensor_read(o, OPTIMIZER_MASTER, n, values, f->counts[n], &e));
        check_stored(f, n, values);
        double off = n == FROZEN ? 0 : golden_compare(f, file, c->name, n, values);
        if (!(off <= worst)) worst = off;
        if (!(off <= 1e-6)) fail_msg("%s, %s, %s: off by %g", what, c->name, f->names[n], off);
        free(values);
    }
    print_message("%s, %s: off by %.2g\n", what, c->name, worst);
    optimizer_destroy(o);
}

/* Cases from `first` to, and without, `end`, one after the other in one session: each begins by writing all weights. */
static void golden_run(const struct setup *setup, size_t first, size_t end)
{
    struct fixture f;
    struct safetensors file;
    struct error why = {0};
    char path[1024], what[160];
    snprintf(path, sizeof path, "%s/../golden/optimizer.safetensors", TEST_DATA);
    snprintf(what, sizeof what, "%s%s %s", setup->device, setup->f16 ? " f16" : "",
             setup->layouts ? setup->layouts : "");
    if (!safetensors_open(&support_host, path, &file, &why)) fail_msg("%s", why.text);
    fixture_open(setup, &f);
    for (size_t c = first; c < end; c++) golden_case_run(&f, &file, &cases[c], what);
    fixture_close(&f);
    safetensors_close(&support_host, &file);
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t d = 0; !few() && d < n_devices; d++)
        golden_run(&(struct setup){devices[d], .training = true}, 0, CASES);
}

static void test_golden_f16(void **state)
{
    (void)state;
    for (size_t d = 0; !few() && d < n_devices; d++)
        if (support_has_f16(context, devices[d]))
            golden_run(&(struct setup){devices[d], .f16 = true, .training = true}, 0, CASES);
}

static void test_golden_orders(void **state)
{
    static const char layouts[] = "w_qkv=iqhp,w_out=hpi,w_lin1=iu+ui,w_lin2=ui";
    (void)state;
    for (size_t d = 0; !few() && d < n_devices; d++) {
        golden_run(&(struct setup){devices[d], layouts, .training = true}, 0, 1);
        golden_run(&(struct setup){devices[d], strchr(layouts, ',') + 1, .training = true}, 1, 2);
        golden_run(&(struct setup){devices[d], "qkv=bjhqp,w_qkv=hqpi", .training = true}, 2, 3);
    }
}

/* ---- the same bits ---- */

static uint64_t steps_hash(const struct fixture *f, const struct golden_case *c)
{
    struct optimizer *o = steps_run(f, c, NULL);
    uint64_t hash = bits_hash(f, o);
    optimizer_destroy(o);
    return hash;
}

/* Also where a buffer and an argument hold one chunk, so that there are several of each. */
static void test_bits(void **state)
{
    (void)state;
    for (size_t d = 0; !few() && d < n_devices; d++) {
        struct fixture f;
        uint64_t hashes[2];
        fixture_open(&(struct setup){devices[d], .training = true}, &f);
        for (size_t c = 0; c < 2; c++) {
            hashes[c] = steps_hash(&f, &cases[c]);
            assert_true(hashes[c] == steps_hash(&f, &cases[c]));
        }
        struct device_limits *limits = (void *)(uintptr_t)f.device->backend->limits(f.device->handle);
        limits->max_binding_bytes = limits->max_buffer_bytes = 8192 * sizeof(float);
        for (size_t c = 0; c < 2; c++) assert_true(hashes[c] == steps_hash(&f, &cases[c]));
        fixture_close(&f);
    }
}

/* Every form of the kernels once: for tools that see what they access. */
static void test_forms(void **state)
{
    (void)state;
    for (size_t d = 0; few() && d < n_devices; d++)
        for (int f16 = 0; f16 <= support_has_f16(context, devices[d]); f16++) {
            struct fixture f;
            fixture_open(&(struct setup){devices[d], .f16 = f16, .training = true}, &f);
            for (size_t c = 0; c < CASES; c++) optimizer_destroy(steps_run(&f, &cases[c], NULL));
            fixture_close(&f);
        }
}

/* ---- what is refused, and bytes ---- */

static void refuse(const struct fixture *f, const struct optimizer_options *options, const char *text)
{
    struct error e = {0};
    assert_null(optimizer_create(f->session, options, &e));
    if (!strstr(e.text, text)) fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

static void test_refused(void **state)
{
    struct fixture f;
    struct optimizer_tensor tensors[TENSORS_MOST];
    (void)state;
    fixture_open(&(struct setup){"reference", .training = true}, &f);
    for (size_t n = 0; n < f.n; n++) tensors[n] = (struct optimizer_tensor){.frozen = true, .rate_factor = 1};
    struct optimizer_options options = {OPTIMIZER_ADAMW, .beta1 = 0.9,       .beta2 = 0.999,
                                        .epsilon = 1e-8, .tensors = tensors, .count = f.n};
    refuse(&f, &options, "all tensors are frozen");
    tensors[0].frozen = false;
    options.count--;
    refuse(&f, &options, "tensors are given");
    options.count++;
    options.beta2 = 1;
    refuse(&f, &options, "beta2 is 1");
    options.beta2 = 0.999;
    options.loss_scale = 3;
    refuse(&f, &options, "power of two");
    options.loss_scale = 0;
    options.epsilon = 0;
    refuse(&f, &options, "epsilon");
    options.epsilon = 1e-8;
    fixture_close(&f);
    fixture_open(&(struct setup){"reference", "w_qkv=iqhp", .training = true}, &f);
    for (size_t n = 0; n < f.n; n++) tensors[n] = (struct optimizer_tensor){.decays = true, .rate_factor = 1};
    options.kind = OPTIMIZER_LAMB;
    refuse(&f, &options, "leave it in the model's order");
    fixture_close(&f);
}

static void test_bytes(void **state)
{
    struct fixture f;
    size_t all = 0;
    (void)state;
    fixture_open(&(struct setup){"reference", .f16 = true, .training = true}, &f);
    struct optimizer *o = optimizer_of(&f, &cases[0]);
    for (size_t n = 0; n < f.n; n++) all += n == FROZEN ? 0 : f.counts[n];
    const struct optimizer_bytes bytes = optimizer_bytes(o);
    assert_int_equal(optimizer_parameters(o), all);
    assert_int_equal(bytes.step, 30 * all);
    assert_int_equal(bytes.accumulate, 6 * all);
    assert_int_equal(bytes.direct, 30 * all);
    assert_true(bytes.memory >= 12 * all && bytes.memory < 16 * all + 20000);
    float *gradient = gradient_values(&f, FROZEN + 1, 0);
    EXPECT_TRUE(optimizer_tensor_write(o, OPTIMIZER_GRADIENT, FROZEN + 1, gradient, f.counts[FROZEN + 1], &e));
    assert_true(optimizer_bytes(o).memory >= bytes.memory + 4 * all);
    free(gradient);
    optimizer_destroy(o);
    fixture_close(&f);
}

static void list(void)
{
    struct fixture f;
    fixture_open(&(struct setup){"reference", .training = true}, &f);
    for (size_t n = 0; n < f.n; n++) printf("    (\"%s\", \"%s\", %zu),\n", f.names[n], f.dims[n], f.counts[n]);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_golden_f16), cmocka_unit_test(test_golden_orders),
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_forms),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bytes),
    };
    if (argc > 1 && !strcmp(argv[1], "list")) {
        if (open_context(NULL)) return 1;
        list();
        return close_context(NULL);
    }
    return cmocka_run_group_tests(tests, open_context, close_context);
}
