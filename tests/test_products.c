/* Products by themselves: each form with each of its sizes as the batch's number of rows, by the kernels that take them
 * all, on the emulated GPU (tests/emulator), against sums in double. What lies after the batch's rows is no number,
 * and where nothing is to be written nothing may be. Skipped without that driver or its compiler.
 *
 *   test_products [PART] [all]   only the cases whose names contain PART; "all": gemm_wgmma in all of its tiles */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "base/text.h"
#include "interface/random.h"
#include "operands.h"
#include "plan/batch.h"
#include "plan/candidates.h"
#include "plan/variants.h"

enum {
    LIMIT = 300,  /* tokens of the session */
    STRIDE = 320, /* of a row of tokens */
    PART_ROWS = 128,
    MOST_PARTS = 10, /* tiles have 32 rows at least */
    BATCH_BYTES = 4096,
    SITE = 22
};

static const uint32_t threshold = 6554;
static const uint32_t row_counts[] = {LIMIT, 1, 131, 70, 257, 64};
static const char *const form_names[] = {"NT", "NN", "TN"}, *const size_names[] = {"", "M", "N", "K"};

static const char *const kernels[] = {"gemm_wgmma", "gemm"};

static wherry_context *context;
static char device_id[64];
static bool all_tiles;

enum extra {
    WITH_BIAS = 1,
    WITH_DROPOUT = 2,
    WITH_KEPT = 4,
    WITH_RESIDUAL = 8,
    WITH_BEFORE = 16,   /* of a sum over the rows: the sums of x */
    WITH_SUMS = 32,     /* of the results over the rows; of a sum over them: in parts */
    WITH_PARTS = 64,    /* of K */
    WITH_MOMENTS = 128, /* of the result */
    WITH_FACTORS = 256, /* by moments of x, which are given and need not be x's */
    WITH_RMS = 512      /* moments are */
};

struct product {
    char name[64];
    uint32_t form, runtime, m, n, k; /* 0: the batch's rows */
    uint32_t activation, derivative, extras;
};

static bool has(const struct product *p, uint32_t extra) { return (p->extras & extra) != 0; }

/* ---- what they should be ---- */

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = (uint32_t)((uint64_t)(a) * (b) >> 32);                                                                      \
    low = (a) * (b)

static bool dropped(uint32_t token, uint32_t channel)
{
    uint32_t c0 = token, c1 = channel / 8, c2 = SITE, c3 = 5, k0 = 77, k1 = 99;
    PHILOX(c0, c1, c2, c3, k0, k1)
    const uint32_t words[] = {c0, c1, c2, c3};
    return (words[channel % 8 / 2] >> (channel % 2 * 16) & 0xffff) < threshold;
}

static double phi(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static double activated(uint32_t activation, double x)
{
    return activation == ACTIVATION_RELU ? fmax(x, 0) : activation == ACTIVATION_GELU ? x * phi(x) : x;
}

static double slope(uint32_t derivative, double x)
{
    if (derivative == ACTIVATION_RELU) return x > 0;
    if (derivative == ACTIVATION_GIVEN) return x;
    return derivative == ACTIVATION_GELU ? phi(x) + x * exp(-x * x / 2) * 0.3989422804014327 : 1;
}

static void assert_near(const char *name, const char *what, size_t row, size_t column, double have, double want,
                        double tolerance)
{
    if (!(fabs(have - want) <= tolerance))
        fail_msg("%s: %s %zu, %zu is %.6g instead of %.6g", name, what, row, column, have, want);
}

static double x_at(const struct operands *t, const struct product *p, size_t m, size_t k)
{
    return p->form == GEMM_TN ? value(&t->of[SLOT_X], k, m) : value(&t->of[SLOT_X], m, k);
}

static double w_at(const struct operands *t, const struct product *p, size_t n, size_t k)
{
    return p->form == GEMM_NT ? value(&t->of[SLOT_W], n, k) : value(&t->of[SLOT_W], k, n);
}

static const float epsilon = 0.5f;

static size_t each(const struct product *p) { return has(p, WITH_RMS) ? 1 : 2; }

/* Of strip s of a row: its sum (0), unless they are of an RMS norm, and its sum of squares (1). */
static double moment(const struct operands *t, const struct product *p, uint32_t rows, uint32_t row, uint32_t s,
                     int which)
{
    if (has(p, WITH_RMS) && !which) return 0;
    return value(&t->of[SLOT_MOMENTS], (s * (size_t)rows + row) * each(p) + (which ? each(p) - 1 : 0), 0);
}

/* What a row's results are multiplied by. */
static double factor(const struct operands *t, const struct product *p, uint32_t rows, uint32_t row)
{
    double sum = 0, squares = 0;
    if (!has(p, WITH_FACTORS)) return 1;
    for (uint32_t s = 0; s < p->k / MOMENTS_STRIP; s++) {
        sum += moment(t, p, rows, row, s, 0);
        squares += moment(t, p, rows, row, s, 1);
    }
    return value(&t->of[SLOT_GAMMA], 0, 0) / sqrt(fmax(squares - sum * sum / p->k, 0) / p->k + epsilon);
}

/* Those of the result before it is rounded: a rounded one deviates by 2^-11 of it at most, 64 of them by a few times
 * more than one. */
static void judge_moments(const struct operands *t, const struct product *p, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t s = 0; s < p->n / MOMENTS_STRIP; s++) {
            double sum = 0, squares = 0;
            for (uint32_t c = 0; c < MOMENTS_STRIP; c++) {
                double v = value(&t->of[SLOT_Y], r, s * MOMENTS_STRIP + c);
                sum += v;
                squares += v * v;
            }
            if (!has(p, WITH_RMS))
                assert_near(p->name, "sum", r, s, moment(t, p, rows, r, s, 0), sum, 2e-3 * sqrt(squares));
            assert_near(p->name, "squares", r, s, moment(t, p, rows, r, s, 1), squares, 1e-3 * squares);
        }
    assert_only(p->name, &t->of[SLOT_MOMENTS], (size_t)rows * (p->n / MOMENTS_STRIP) * each(p), 1);
}

/* All outputs; `size` is of what was rounded on the way. */
static void judge(const struct operands *t, const struct product *p, const struct call *call, uint32_t rows)
{
    uint32_t m = p->m ? p->m : rows, n = p->n ? p->n : rows, k = p->k ? p->k : rows;
    bool transposed = p->runtime == RUNTIME_N, whole = p->runtime == RUNTIME_K;
    double *sums = calloc((size_t)m + n, sizeof *sums), *sizes = calloc((size_t)m + n, sizeof *sizes);
    size_t parts = has(p, WITH_SUMS) && !call->counters ? (size_t)call_parts(call, rows) : 0;
    for (uint32_t r = 0; r < m; r++) {
        for (uint32_t c = 0; c < n; c++) {
            double v = 0;
            for (uint32_t i = 0; i < k; i++) v += x_at(t, p, r, i) * w_at(t, p, c, i);
            v *= factor(t, p, m, r);
            double size = fabs(v) + 0.1;
            if (whole && parts) {
                double have = 0;
                for (size_t part = 0; part < parts; part++) have += value(&t->of[SLOT_PARTIALS], part * m + r, c);
                assert_near(p->name, "sum", r, c, have, v, 1e-4 * size);
                continue;
            }
            if (has(p, WITH_BIAS)) v += value(&t->of[SLOT_BIAS], 0, transposed ? r : c);
            size += fabs(v);
            if (has(p, WITH_BEFORE) && !whole)
                assert_near(p->name, "before", r, c, value(&t->of[SLOT_SUM], r, c), v, 2e-3 * size);
            v = activated(p->activation, v);
            bool drop = has(p, WITH_KEPT) ? value(&t->of[SLOT_SAVED], r, c) == 0
                                          : has(p, WITH_DROPOUT) && dropped(transposed ? c : r, transposed ? r : c);
            if (has(p, WITH_DROPOUT)) v = drop ? 0 : v * 65536 / (65536 - threshold);
            if (p->derivative) v *= slope(p->derivative, value(&t->of[SLOT_SAVED], r, c));
            if (has(p, WITH_RESIDUAL)) v += value(&t->of[SLOT_RESIDUAL], r, c);
            size += fabs(v);
            assert_near(p->name, "result", r, c, value(&t->of[SLOT_Y], r, c), v, 2e-3 * size);
            sums[transposed ? r : c] += v;
            sizes[transposed ? r : c] += size;
        }
        if (!whole || !has(p, WITH_BEFORE)) continue;
        double sum = 0, size = 0.1;
        for (uint32_t i = 0; i < k; i++) sum += x_at(t, p, r, i), size += fabs(x_at(t, p, r, i));
        assert_near(p->name, "sum of x", 0, r, value(&t->of[SLOT_SUM], 0, r), sum, 1e-3 * size);
    }
    for (uint32_t i = 0; parts && !whole && i < (transposed ? m : n); i++) {
        double have = 0;
        for (size_t part = 0; part < parts; part++) have += value(&t->of[SLOT_PARTIALS], part, i);
        assert_near(p->name, "sum over rows", 0, i, have, sums[i], 2e-4 * sizes[i]);
    }
    /* A row of tokens has room for whole vectors, which the portable kernel writes. */
    size_t columns = transposed && !strcmp(call->kernel, "gemm") ? round_up(n, 8) : n;
    if (!whole || !parts) assert_only(p->name, &t->of[SLOT_Y], m, columns);
    if (has(p, WITH_BEFORE)) assert_only(p->name, &t->of[SLOT_SUM], whole ? 1 : m, whole ? m : columns);
    if (parts) assert_only(p->name, &t->of[SLOT_PARTIALS], whole ? parts * m : parts, whole || !transposed ? n : m);
    if (call->counters) assert_only(p->name, &t->of[SLOT_PARTIALS], SIZE_MAX, SIZE_MAX);
    if (has(p, WITH_MOMENTS)) judge_moments(t, p, rows);
    free(sums);
    free(sizes);
}

/* ---- one product ---- */

static void make_call(const struct product *p, struct call *call)
{
    *call = (struct call){.kernel = "gemm", .launch = LAUNCH_TILES, .site = SITE};
    bool x_major = p->form == GEMM_TN, w_major = p->form != GEMM_NT;
    call_set(call, CONST_FORM, p->form);
    call_set(call, CONST_RUNTIME, p->runtime);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    if (p->m) call_set(call, CONST_M, p->m);
    if (p->n) call_set(call, CONST_N, p->n);
    if (p->k) call_set(call, CONST_K, p->k);
    if (!(x_major ? p->m : p->k)) call_set(call, CONST_X_STRIDE, STRIDE);
    if (!(w_major ? p->n : p->k)) call_set(call, CONST_W_STRIDE, STRIDE);
    if (!p->n) call_set(call, CONST_Y_STRIDE, STRIDE);
    if (has(p, WITH_BIAS)) call_set(call, CONST_BIAS, 1);
    if (has(p, WITH_DROPOUT)) call_set(call, CONST_DROPOUT, threshold);
    if (has(p, WITH_KEPT)) call_set(call, CONST_KEPT, 1);
    if (has(p, WITH_RESIDUAL)) call_set(call, CONST_RESIDUAL, 1);
    if (has(p, WITH_BEFORE)) call_set(call, CONST_SUM, 1);
    if (p->activation) call_set(call, CONST_ACTIVATION, p->activation);
    if (p->derivative) call_set(call, CONST_DERIVATIVE, p->derivative);
    if (has(p, WITH_MOMENTS)) call_set(call, CONST_MOMENTS, MOMENTS_WRITTEN);
    if (has(p, WITH_FACTORS)) call_set(call, CONST_MOMENTS, MOMENTS_READ);
    if (has(p, WITH_FACTORS)) call_set_float(call, CONST_EPSILON, epsilon);
    if (has(p, WITH_RMS)) call_set(call, CONST_RMS, RMS_GAMMA);
    bool parts = p->runtime == RUNTIME_K;
    if (has(p, WITH_SUMS) && !parts) call_set(call, CONST_COLUMN_SUMS, 1);
    call->arguments[call->n_arguments++] = (struct call_argument){.slot = SLOT_Y, .written = true};
}

/* At the session's limits. */
static void make_operands(const struct product *p, struct operands *t)
{
    size_t m = p->m ? p->m : LIMIT, n = p->n ? p->n : STRIDE, k = p->k ? p->k : LIMIT;
    size_t x_row = p->form != GEMM_TN ? (p->k ? k : STRIDE) : p->m ? m : STRIDE;
    size_t w_row = p->form == GEMM_NT && !p->k ? STRIDE : p->form == GEMM_NT ? k : n;
    bool whole = p->runtime == RUNTIME_K, transposed = p->runtime == RUNTIME_N;
    operand_add(t, SLOT_X, (p->form == GEMM_TN ? k : m) * x_row, x_row, false, false);
    operand_add(t, SLOT_W, (p->form == GEMM_NT ? (p->n ? n : LIMIT) : k) * w_row, w_row, false, false);
    if (has(p, WITH_BIAS)) operand_add(t, SLOT_BIAS, transposed ? m : n, transposed ? m : n, false, false);
    if (has(p, WITH_RESIDUAL)) operand_add(t, SLOT_RESIDUAL, m * n, n, false, false);
    if (p->derivative) operand_add(t, SLOT_SAVED, m * n, n, false, false);
    if (has(p, WITH_MOMENTS | WITH_FACTORS)) {
        size_t row = (has(p, WITH_MOMENTS) ? n : k) / MOMENTS_STRIP * each(p);
        operand_add(t, SLOT_MOMENTS, m * row, 1, has(p, WITH_MOMENTS), true);
    }
    if (has(p, WITH_FACTORS)) operand_add(t, SLOT_GAMMA, k, k, false, false);
    if (has(p, WITH_BEFORE)) operand_add(t, SLOT_SUM, whole ? m : m * n, whole ? m : n, true, false);
    if (has(p, WITH_SUMS | WITH_PARTS))
        operand_add(t, SLOT_PARTIALS,
                    MOST_PARTS * (whole || has(p, WITH_PARTS) ? round_up(m, 192) * round_up(n, 256)
                                  : transposed                ? m
                                                              : n),
                    transposed ? m : n, true, true);
    operand_add(t, SLOT_Y, m * n, n, true, false);
}

/* Makes the second part of a sum minus the first, and all later ones so small that they would lose bits if they were
 * added before those two. */
static void cancel(const struct product *p, struct operands *t, uint32_t rows)
{
    struct error e = {0};
    struct operand *x = &t->of[SLOT_X], *w = &t->of[SLOT_W];
    for (uint32_t k = PART_ROWS; k < rows; k++) {
        bool second = k < 2 * PART_ROWS;
        for (uint32_t m = 0; m < p->m; m++) {
            float v = (float)(second ? -x_at(t, p, m, k - PART_ROWS) : x_at(t, p, m, k) / 4096);
            p->form == GEMM_TN ? set_value(x, k, m, v) : set_value(x, m, k, v);
        }
        for (uint32_t n = 0; second && n < p->n; n++) {
            float v = (float)w_at(t, p, n, k - PART_ROWS);
            p->form == GEMM_NT ? set_value(w, n, k, v) : set_value(w, k, n, v);
        }
    }
    assert_true(t->api->buffer_write(t->device, x->buffer, 0, x->data, operand_bytes(x), &e));
    assert_true(t->api->buffer_write(t->device, w->buffer, 0, w->data, operand_bytes(w), &e));
}

static void fill_all(const struct product *p, struct operands *t, uint32_t rows)
{
    uint64_t random = rows;
    uint32_t m = p->m ? p->m : rows, n = p->n ? p->n : rows, k = p->k ? p->k : rows;
    bool transposed = p->runtime == RUNTIME_N;
    for (uint8_t slot = 1; slot < SLOT_COUNT; slot++)
        if (t->of[slot].written) poison(t, slot);
    fill(t, SLOT_X, p->form == GEMM_TN ? k : m, p->form == GEMM_TN ? m : k, &random);
    fill(t, SLOT_W, p->form == GEMM_NT ? n : k, p->form == GEMM_NT ? k : n, &random);
    if (p->runtime == RUNTIME_K && has(p, WITH_SUMS)) cancel(p, t, rows);
    if (has(p, WITH_BIAS)) fill(t, SLOT_BIAS, 1, transposed ? m : n, &random);
    if (has(p, WITH_RESIDUAL)) fill(t, SLOT_RESIDUAL, m, n, &random);
    if (p->derivative) fill(t, SLOT_SAVED, m, n, &random);
    if (!has(p, WITH_FACTORS)) return;
    fill(t, SLOT_GAMMA, 1, 1, &random);
    fill_words(t, SLOT_MOMENTS, m * (size_t)(k / MOMENTS_STRIP) * each(p), 1, has(p, WITH_RMS), &random);
}

/* Who writes sums in parts leaves the result to another kernel, or adds them. */
static bool has_slot(const struct product *p, const struct call *call, uint8_t slot)
{
    return slot != SLOT_Y || p->runtime != RUNTIME_K || !has(p, WITH_SUMS) || call->counters;
}

static void results_read(struct operands *t)
{
    struct error e = {0};
    for (uint8_t slot = 1; slot < SLOT_COUNT; slot++) {
        struct operand *x = &t->of[slot];
        if (x->written) assert_true(t->api->buffer_read(t->device, x->buffer, 0, x->data, operand_bytes(x), &e));
    }
}

/* Of what is no scratch memory. */
static uint64_t results_hash(const struct operands *t)
{
    uint64_t hash = 0;
    for (uint8_t slot = SLOT_Y; slot <= SLOT_SUM; slot++)
        for (size_t i = 0; t->of[slot].data && i < operand_bytes(&t->of[slot]); i++)
            hash = (hash ^ t->of[slot].data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* A kernel that ends after two work-groups, as many as that of the tensor maps has, leaves no trace in later runs. */
static void run_cut(const struct product *p, struct operands *t, struct program *program, const struct run *once)
{
    struct error e = {0};
    setenv("WHERRY_EMULATOR_GROUPS", "2", 1);
    bool ran = t->api->program_run(t->device, program, once, &e);
    unsetenv("WHERRY_EMULATOR_GROUPS");
    if (ran) fail_msg("%s: a kernel that did not end counts as run", p->name);
}

static void run(const struct product *p, struct operands *t, const struct call *call)
{
    static uint32_t words[BATCH_BYTES / 4];
    struct error e = {0};
    struct program_info info;
    struct buffer *batch = t->api->buffer_create(t->device, BATCH_BYTES, &e);
    struct step step = {.name = p->name, .kernel = call->kernel, .launch = call->launch, .f16 = true, .call = call};
    step.bindings[step.n_bindings++] =
        (struct binding){.slot = SLOT_BATCH, .buffer = batch, .bytes = BATCH_BYTES, .words = true};
    for (uint8_t slot = 1; slot < SLOT_COUNT; slot++) {
        const struct operand *x = &t->of[slot];
        if (x->data && has_slot(p, call, slot))
            step.bindings[step.n_bindings++] = (struct binding){.slot = slot,
                                                                .written = x->written,
                                                                .buffer = x->buffer,
                                                                .offset = GUARD,
                                                                .bytes = operand_bytes(x) - 2 * GUARD,
                                                                .words = x->words};
    }
    struct schedule schedule = {.steps = &step, .n_steps = 1};
    struct program *program = t->api->program_create(t->device, &schedule, NULL, NULL, &info, &e);
    if (!program) fail_msg("%s: %s", p->name, e.text);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        const uint32_t offsets[] = {0, row_counts[i]};
        const struct batch_shape b = {1, offsets, row_counts[i], (uint64_t)row_counts[i] * row_counts[i],
                                      row_counts[i]};
        const struct batch_tables tables = {0, 0};
        memset(words, 0, sizeof words);
        assert_true(batch_fill(&tables, &b, words) <= BATCH_BYTES / 4);
        words[HEADER_SEED] = 77;
        words[HEADER_SEED + 1] = 99;
        words[HEADER_STEP] = 5;
        fill_all(p, t, row_counts[i]);
        assert_true(t->api->buffer_write(t->device, batch, 0, words, BATCH_BYTES, &e));
        struct grid grid = call_grid(call, true, words);
        const struct run once = {.grids = &grid, .batch = &b};
        if (call->counters && grid.x > 2) run_cut(p, t, program, &once);
        if (!t->api->program_run(t->device, program, &once, &e)) fail_msg("%s: %s", p->name, e.text);
        results_read(t);
        judge(t, p, call, row_counts[i]);
        if (!call->counters) continue;
        uint64_t before = results_hash(t);
        if (!t->api->program_run(t->device, program, &once, &e)) fail_msg("%s: %s", p->name, e.text);
        results_read(t);
        if (results_hash(t) != before) fail_msg("%s: other bits when other work-groups are the last", p->name);
    }
    t->api->program_destroy(t->device, program);
    t->api->buffer_destroy(t->device, batch);
}

static void test_product(void **state)
{
    const struct product *p = *state;
    struct choices *list = calloc(1, sizeof *list);
    struct call calls[GROUP_MAX_CALLS];
    wherry_device *d;
    if (wherry_device_open(context, device_id, &d)) fail_msg("%s", wherry_last_error(context));
    const struct device_limits *limits = d->backend->limits(d->handle);
    struct operands t = {.api = d->backend, .device = d->handle};
    make_operands(p, &t);
    make_call(p, &calls[0]);
    const struct sizes sizes = call_sizes(&calls[0], NULL, limits, true, LIMIT, LIMIT);
    choices_legal(&calls[0], &sizes, list);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        int ran = 0;
        for (int i = 0; i < list->n && (!ran || (all_tiles && !k)); i++) {
            int count = 1;
            if (strcmp(list->of[i].kernel, kernels[k])) continue;
            make_call(p, &calls[0]);
            call_sizes(&calls[0], NULL, limits, true, LIMIT, LIMIT);
            choice_apply(&list->of[i], calls, 0, &count, &sizes);
            if (has(p, WITH_PARTS) && k) break; /* of kernels that add them */
            if ((p->runtime == RUNTIME_K && has(p, WITH_SUMS)) || has(p, WITH_PARTS))
                calls_split(calls, &count, &sizes, PART_ROWS);
            run(p, &t, &calls[0]);
            ran++;
        }
        bool sums_operand = p->runtime == RUNTIME_K && has(p, WITH_BEFORE);
        bool fewer =
            sums_operand || p->derivative == ACTIVATION_GIVEN || has(p, WITH_PARTS | WITH_MOMENTS | WITH_FACTORS);
        assert_true(ran || (k && fewer)); /* the portable kernel does less */
    }
    for (int i = 0; i < SLOT_COUNT; i++) {
        free(t.of[i].data);
        t.api->buffer_destroy(t.device, t.of[i].buffer);
    }
    wherry_device_close(d);
    free(list);
}

/* The device, and that it has wgmma. */
static bool device_find(void)
{
    wherry_device_info infos[SUPPORT_MAX_DEVICES];
    size_t count = SUPPORT_MAX_DEVICES;
    if (system("command -v ${CLANG:-clang-14} >/dev/null 2>&1")) {
        puts("no clang-14 (package clang-14, or set CLANG)");
        return false;
    }
    if (wherry_device_list(context, infos, &count)) return false;
    for (size_t i = 0; i < count && i < SUPPORT_MAX_DEVICES; i++)
        if (!strcmp(infos[i].name, "Emulated Hopper")) snprintf(device_id, sizeof device_id, "%s", infos[i].id);
    if (!*device_id) puts("no emulated GPU: run it by ctest, or see tests/CMakeLists.txt");
    return *device_id;
}

/* Sizes that no tile divides. Of a transposed operand's row all begin on 16 bytes. */
static struct product products[] = {
    {"lin1 relu", GEMM_NT, RUNTIME_N, 136, 0, 72, ACTIVATION_RELU, 0, WITH_BIAS | WITH_DROPOUT},
    {"lin1 gelu", GEMM_NT, RUNTIME_N, 136, 0, 72, ACTIVATION_GELU, 0, WITH_BIAS | WITH_DROPOUT | WITH_BEFORE},
    {"lin1 inference", GEMM_NT, RUNTIME_N, 264, 0, 136, ACTIVATION_GELU, 0, WITH_BIAS},
    {"lin2_dx relu", GEMM_NT, RUNTIME_N, 136, 0, 72, 0, ACTIVATION_RELU, WITH_DROPOUT | WITH_KEPT | WITH_SUMS},
    {"lin2_dx gelu", GEMM_NT, RUNTIME_N, 136, 0, 72, 0, ACTIVATION_GELU, WITH_DROPOUT | WITH_SUMS},
    {"residual", GEMM_NT, RUNTIME_N, 136, 0, 72, 0, 0, WITH_DROPOUT | WITH_RESIDUAL},
    {"transposed weight", GEMM_TN, RUNTIME_N, 136, 0, 72, 0, ACTIVATION_GELU, WITH_DROPOUT},
    {"all transposed", GEMM_NN, RUNTIME_N, 136, 0, 72, 0, ACTIVATION_GELU, WITH_SUMS},
    {"lin2", GEMM_TN, RUNTIME_M, 0, 136, 200, 0, 0, WITH_BIAS | WITH_DROPOUT | WITH_RESIDUAL | WITH_BEFORE},
    {"lin1_dx", GEMM_TN, RUNTIME_M, 0, 136, 200, 0, 0, WITH_RESIDUAL},
    {"lin1_dx sums", GEMM_TN, RUNTIME_M, 0, 136, 200, 0, ACTIVATION_GELU, WITH_DROPOUT | WITH_SUMS},
    {"usual", GEMM_NN, RUNTIME_M, 0, 136, 200, 0, ACTIVATION_GELU, WITH_DROPOUT | WITH_SUMS},
    {"usual lin1 relu", GEMM_NT, RUNTIME_M, 0, 136, 72, ACTIVATION_RELU, 0, WITH_BIAS | WITH_DROPOUT | WITH_BEFORE},
    {"usual lin2_dx relu", GEMM_NN, RUNTIME_M, 0, 136, 72, 0, ACTIVATION_RELU, WITH_DROPOUT | WITH_KEPT},
    {"usual slope and dropout", GEMM_NN, RUNTIME_M, 0, 136, 72, 0, ACTIVATION_RELU, WITH_DROPOUT},
    {"usual slope given", GEMM_NN, RUNTIME_M, 0, 136, 72, 0, ACTIVATION_GIVEN, 0},
    {"usual slope given and sums", GEMM_NN, RUNTIME_M, 0, 136, 200, 0, ACTIVATION_GIVEN, WITH_SUMS},
    {"usual gelu", GEMM_NT, RUNTIME_M, 0, 136, 72, ACTIVATION_GELU, 0, WITH_BIAS | WITH_DROPOUT | WITH_BEFORE},
    {"usual in parts", GEMM_NN, RUNTIME_M, 0, 136, 328, 0, 0, WITH_PARTS},
    {"in parts", GEMM_NT, RUNTIME_M, 0, 264, 200, 0, 0, WITH_PARTS},
    {"moments", GEMM_NT, RUNTIME_M, 0, 320, 200, 0, 0, WITH_BIAS | WITH_RESIDUAL | WITH_MOMENTS},
    {"moments rms", GEMM_NN, RUNTIME_M, 0, 448, 72, 0, 0, WITH_RESIDUAL | WITH_MOMENTS | WITH_RMS},
    {"factors", GEMM_NT, RUNTIME_M, 0, 264, 320, ACTIVATION_GELU, 0, WITH_BIAS | WITH_FACTORS},
    {"factors rms", GEMM_NT, RUNTIME_M, 0, 136, 192, 0, 0, WITH_FACTORS | WITH_RMS},
    {"dw", GEMM_NN, RUNTIME_K, 136, 136, 0, 0, 0, 0},
    {"dw and bias", GEMM_NN, RUNTIME_K, 136, 136, 0, 0, 0, WITH_BEFORE},
    {"dw in parts", GEMM_NN, RUNTIME_K, 136, 136, 0, 0, 0, WITH_SUMS},
    {"dw and bias in parts", GEMM_NN, RUNTIME_K, 136, 136, 0, 0, 0, WITH_BEFORE | WITH_SUMS},
    {"usual dw in parts", GEMM_TN, RUNTIME_K, 200, 264, 0, 0, 0, WITH_BEFORE | WITH_SUMS},
    {"both transposed", GEMM_NT, RUNTIME_K, 136, 136, 0, 0, 0, WITH_BEFORE},
    {"usual dw", GEMM_TN, RUNTIME_K, 136, 136, 0, 0, 0, WITH_BEFORE},
};

int main(int argc, char **argv)
{
    enum { PRODUCTS = sizeof products / sizeof *products };
    static struct CMUnitTest tests[PRODUCTS];
    const wherry_context_desc desc = {.struct_size = sizeof desc, .log = support_log, .cache_dir = ""};
    const char *part = argc > 1 && strcmp(argv[1], "all") ? argv[1] : "";
    size_t n = 0;
    all_tiles = argc > 1 && !strcmp(argv[argc - 1], "all");
    if (wherry_context_create(&desc, &context)) return 1;
    if (!device_find()) {
        wherry_context_destroy(context);
        return 77;
    }
    for (size_t i = 0; i < PRODUCTS; i++) {
        struct product *p = &products[i];
        struct text_writer name = text_behind(p->name, sizeof p->name);
        text_add(&name, " (%s, rows are %s)", form_names[p->form], size_names[p->runtime]);
        if (strstr(p->name, part)) tests[n++] = (struct CMUnitTest){p->name, test_product, NULL, NULL, p};
    }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n ? _cmocka_run_group_tests("products", tests, n, NULL, NULL) : 1;
    wherry_context_destroy(context);
    return failed != 0;
}
