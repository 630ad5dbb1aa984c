/* The space of layouts: the counts of Ivanov et al., the constructed triples against all permutations, and every
 * triple's GEMM against the einsum, on data that lie in these orders. No device. */
#include "analysis/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/paper.h"

enum { LETTERS = 128, SEQUENCES = 3 };

/* The graph's own contractions, with Q, K and V in one stack, two, and three. */
static const char *const own[] = {"bji,qhpi->bjqhp", "bji,rhpi->bjrhp", "bji,hpi->bjhp",   "bjhp,bkhp->bhjk",
                                  "bhjk,bkhp->bjhp", "bjhp,ihp->bji",   "bji,ui->bju",     "bju,iu->bji",
                                  "bji,iu->bju",     "bji,bju->iu",     "bju,ui->bji",     "bju,bji->ui",
                                  "bji,ihp->bjhp",   "bji,bjhp->ihp",   "bhjk,bjhp->bkhp", "bjqhp,qhpi->bji",
                                  "bjqhp,bji->qhpi", "bi,oi->bo",       "bo,bi->oi"};
enum { OWN = sizeof own / sizeof *own };

static struct dims tiny(void)
{
    static const char letters[] = "bjkhpiuqvro";
    static const uint32_t sizes[] = {SEQUENCES, 2, 4, 2, 5, 6, 7, 3, 2, 2, 8};
    struct dims dims = {{0}};
    for (int n = 0; letters[n]; n++) dims.of[(unsigned char)letters[n]] = sizes[n];
    return dims;
}

static const char *einsum_at(int n) { return n < PAPER_EINSUMS ? paper_einsums[n].einsum : own[n - PAPER_EINSUMS]; }

static struct layout_space space_of(const char *einsum)
{
    struct layout_space space;
    struct error e;
    struct dims dims = tiny();
    if (!layout_space_create(einsum, &dims, &space, &e)) fail_msg("%s", e.text);
    return space;
}

/* ---- counts ---- */

static wherry_context *context;

static int open_context(void **state)
{
    (void)state;
    return wherry_context_create(NULL, &context) != WHERRY_STATUS_OK;
}

static int close_context(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

static wherry_product_layouts count_of(const char *einsum, char stack)
{
    wherry_product_layouts counts;
    if (wherry_product_layouts_count(context, einsum, paper_letters, paper_sizes, stack, &counts))
        fail_msg("%s", wherry_last_error(context));
    return counts;
}

static void test_paper_einsums(void **state)
{
    (void)state;
    for (int n = 0; n < PAPER_EINSUMS; n++) {
        const struct paper_einsum *paper = &paper_einsums[n];
        wherry_product_layouts c = count_of(paper->einsum, paper->stack);
        bool same = (c.m == paper->m && c.n == paper->n) || (c.m == paper->n && c.n == paper->m);
        if (!same || c.k != paper->k || c.batch != paper->batch || c.permutations != paper->permutations ||
            c.valid != paper->valid || c.stack_first != paper->stack_first || c.gemms != paper->gemms)
            fail_msg("%s: %llu %llu %llu %llu, %llu, %llu, %llu, %llu", paper->name, (unsigned long long)c.m,
                     (unsigned long long)c.n, (unsigned long long)c.k, (unsigned long long)c.batch,
                     (unsigned long long)c.permutations, (unsigned long long)c.valid, (unsigned long long)c.stack_first,
                     (unsigned long long)c.gemms);
    }
}

/* b after j is half of the orders of the tokens; of scores b is before both of j and k in a third, and nothing may
 * stand between a token's two letters. */
static void test_packed_counts(void **state)
{
    (void)state;
    static const struct {
        const char *einsum;
        uint64_t packed, by_sequence;
    } expected[] = {{"qphi,ibj->qphbj", 48, 0}, {"phi,ibj->phbj", 16, 0},   {"bji,ui->bju", 8, 0},
                    {"phbk,phbj->hbjk", 8, 96}, {"phbk,hbjk->phbj", 8, 96}, {"bjhp,bkhp->bhjk", 8, 96},
                    {"bhjk,bjhp->bkhp", 8, 96}};
    for (size_t n = 0; n < sizeof expected / sizeof *expected; n++) {
        wherry_product_layouts c = count_of(expected[n].einsum, 0);
        assert_int_equal(c.packed, expected[n].packed);
        assert_int_equal(c.by_sequence, expected[n].by_sequence);
    }
    assert_int_equal(layout_orders("bjhp", false), 24);
    assert_int_equal(layout_orders("bjhp", true), 6);
    assert_int_equal(layout_orders("bhjk", true), 8);
    assert_int_equal(layout_orders("bi", true), 2);
    assert_int_equal(layout_orders("qhpi", true), 24);
}

static wherry_kernel_layouts kernel_of(const char *tensors, const char *reduced, const char *only)
{
    wherry_kernel_layouts counts;
    if (wherry_kernel_layouts_count(context, tensors, reduced, only, &counts))
        fail_msg("%s", wherry_last_error(context));
    return counts;
}

static void test_paper_kernels(void **state)
{
    (void)state;
    for (int n = 0; n < PAPER_KERNELS; n++) {
        const struct paper_kernel *paper = &paper_kernels[n];
        wherry_kernel_layouts c = kernel_of(paper->tensors, paper->reduced, paper->only);
        if (c.configurations != paper->configurations)
            fail_msg("%s: %llu, not %u", paper->name, (unsigned long long)c.configurations, paper->configurations);
        assert_true(c.packed < c.configurations);
    }
    /* Without what the authors chose to leave out, which no rule tells. */
    assert_int_equal(kernel_of("hpbj,hpbj,hp", "", NULL).configurations, 18432);
    assert_int_equal(kernel_of("hbjk,hbjk,hbjk,hbjk", "k", NULL).configurations, 24 * 55296);
    assert_int_equal(kernel_of("bji,bji,bji,bji,bji,bji,bj,i,i,i", "i", NULL).configurations, 279936);
    assert_int_equal(kernel_of("bji,bji,bji", "", NULL).packed, 72);
}

static void test_groups(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t configurations, packed; /* 0: it has a product */
    } expected[] = {{"layer.0.bei", 1944, 72}, {"layer.0.bs", 55296, 2048},  {"layer.0.sm", 55296, 2048},
                    {"layer.0.brd", 1944, 72}, {"layer.0.bdrln1", 3888, 48}, {"layer.0.baob", 36, 12},
                    {"layer.0.lin1", 0, 0},    {"layer.0.qkt", 0, 0}};
    wherry_model_config config = {.struct_size = sizeof config};
    wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f, .save = WHERRY_SAVE_PAPER};
    wherry_analysis *a = NULL;
    assert_int_equal(wherry_model_config_named(context, "bert-large", &config), WHERRY_STATUS_OK);
    config.activation = WHERRY_ACTIVATION_RELU;
    wherry_analysis_desc desc = {.struct_size = sizeof desc,
                                 .config = &config,
                                 .batch = PAPER_BATCH,
                                 .length = PAPER_LENGTH,
                                 .plan = "paper",
                                 .layer_only = true,
                                 .training = &training};
    if (wherry_analyze(context, &desc, &a)) fail_msg("%s", wherry_last_error(context));
    size_t count, found = 0;
    const wherry_cost *groups = wherry_analysis_groups(a, &count);
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
            wherry_kernel_layouts c = {.configurations = 0};
            if (strcmp(groups[n].name, expected[i].name) != 0) continue;
            found++;
            assert_int_equal(wherry_analysis_kernel_layouts(a, n, &c), expected[i].configurations > 0);
            if (c.configurations != expected[i].configurations || c.packed != expected[i].packed)
                fail_msg("%s (%s): %llu, packed %llu", groups[n].name, c.tensors, (unsigned long long)c.configurations,
                         (unsigned long long)c.packed);
        }
    assert_int_equal(found, sizeof expected / sizeof *expected);
    const wherry_cost *operators = wherry_analysis_operators(a, &count);
    for (size_t n = 0; n < count; n++) {
        wherry_product_layouts c;
        bool product = operators[n].class_ == WHERRY_CLASS_CONTRACTION;
        assert_int_equal(wherry_analysis_product_layouts(a, n, &c), product);
        if (product) assert_int_equal(2 * c.m * c.n * c.k * c.batch, (uint64_t)operators[n].flops);
        if (product && strchr(operators[n].einsum, 'q')) assert_int_equal(c.stack_first, 8);
    }
    wherry_product_layouts none;
    assert_false(wherry_analysis_product_layouts(a, count, &none));
    wherry_analysis_destroy(a);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "bji", "bji,ui", "bji->bj", "bji,ui,u->bj", "bjj,ui->bju", "bji,ui->b", "bji,ux->b", "bjihpuqvr,i->b"};
    wherry_product_layouts c;
    wherry_kernel_layouts k;
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
        assert_int_equal(wherry_product_layouts_count(context, bad[n], paper_letters, paper_sizes, 0, &c),
                         WHERRY_STATUS_INVALID_ARGUMENT);
    static const char *const lists[] = {"", "bji,", "bjj", "bjihpuqvr", ",bji", "abcdefgh,ijklmnop"};
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++)
        assert_int_equal(wherry_kernel_layouts_count(context, lists[n], "", NULL, &k), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_kernel_layouts_count(context, "bji", "k", NULL, &k), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_kernel_layouts_count(context, "bji", "", "u", &k), WHERRY_STATUS_INVALID_ARGUMENT);
}

/* ---- all permutations ---- */

struct names {
    char (*of)[48];
    size_t count, room;
};

static bool collect(const struct layout_triple *t, void *user)
{
    struct names *names = user;
    if (names->count == names->room) fail_msg("more triples than permutations");
    snprintf(names->of[names->count++], sizeof *names->of, "%s,%s->%s", t->order[0], t->order[1], t->order[2]);
    return true;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

/* The definition, word by word. */
static bool one_gemm(const char *const operand[3], char group[LETTERS])
{
    for (int t = 0; t < 3; t++) {
        size_t n = strlen(operand[t]);
        if (group[(unsigned char)operand[t][n - 1]] == 'B') return false;
        for (size_t i = 0; i < n; i++)
            for (size_t k = i + 2; k < n; k++) /* two letters of a group, and another one between them */
                for (size_t between = i + 1; between < k; between++)
                    if (group[(unsigned char)operand[t][i]] == group[(unsigned char)operand[t][k]] &&
                        group[(unsigned char)operand[t][between]] != group[(unsigned char)operand[t][i]])
                        return false;
        for (int other = 0; other < 3; other++)
            for (size_t i = 0; i < n; i++)
                for (size_t k = i + 1; k < n; k++) {
                    const char *first = strchr(operand[other], operand[t][i]),
                               *second = strchr(operand[other], operand[t][k]);
                    if (group[(unsigned char)operand[t][i]] == group[(unsigned char)operand[t][k]] && first > second)
                        return false;
                }
    }
    return true;
}

static size_t permutations_of(const char *letters, char (*out)[16])
{
    size_t n = strlen(letters), count = 0, total = 1;
    for (size_t i = 2; i <= n; i++) total *= i;
    for (size_t index = 0; index < total; index++) {
        char left[16];
        size_t rest = index, room = n;
        snprintf(left, sizeof left, "%s", letters);
        for (size_t i = 0; i < n; i++, room--) {
            size_t pick = rest % room;
            rest /= room;
            out[count][i] = left[pick];
            memmove(left + pick, left + pick + 1, strlen(left + pick));
        }
        out[count++][n] = 0;
    }
    return count;
}

static void test_all_permutations(void **state)
{
    (void)state;
    static char orders[3][120][16];
    for (int n = 0; n < PAPER_EINSUMS + OWN; n++) {
        struct layout_space space = space_of(einsum_at(n));
        struct layout_gemm gemm;
        char group[LETTERS] = {0};
        size_t counts[3], valid = 0, packed = 0;
        for (int t = 0; t < 3; t++) {
            counts[t] = permutations_of(space.operand[t], orders[t]);
            for (const char *l = space.operand[t]; *l; l++)
                group[(unsigned char)*l] |= (char)(1 << t); /* in which operands: the groups are the combinations */
        }
        for (int l = 0; l < LETTERS; l++)
            if (group[l] == 7) group[l] = 'B';
        struct names names = {.room = counts[0] * counts[1] * counts[2]}, fit = {.room = names.room};
        names.of = malloc(names.room * sizeof *names.of);
        fit.of = malloc(names.room * sizeof *fit.of);
        assert_true(names.of && fit.of);
        assert_true(layouts_visit(&space, LAYOUT_UNIFORM, collect, &names));
        assert_true(layouts_visit(&space, LAYOUT_PACKED, collect, &fit));
        qsort(names.of, names.count, sizeof *names.of, compare_names);
        for (size_t i = 1; i < names.count; i++) assert_string_not_equal(names.of[i - 1], names.of[i]);
        for (size_t i = 0; i < names.room; i++) {
            const char *const order[3] = {orders[0][i % counts[0]], orders[1][i / counts[0] % counts[1]],
                                          orders[2][i / counts[0] / counts[1]]};
            char name[48];
            bool good = one_gemm(order, group), fits = good;
            snprintf(name, sizeof name, "%s,%s->%s", order[0], order[1], order[2]);
            if (good != (bsearch(name, names.of, names.count, sizeof *names.of, compare_names) != NULL) ||
                good != layout_gemm_of(&space, order, &gemm))
                fail_msg("%s: %s", name, good ? "is a GEMM, and was not found" : "is no GEMM");
            for (int t = 0; t < 3; t++) fits &= layout_packed(order[t]);
            valid += good;
            packed += fits;
        }
        assert_int_equal(valid, names.count);
        assert_int_equal(packed, fit.count);
        free(names.of);
        free(fit.of);
    }
}

/* ---- the GEMMs ---- */

/* A batch, and the data: whole numbers, so that every order of summing gives the same. */
struct data {
    const struct layout_space *space;
    uint32_t lengths[SEQUENCES];
    uint32_t at[LETTERS]; /* the element at hand */
    double *memory[3];
    size_t size[3];
    int only; /* this sequence of the result alone, -1: all */
    int runs;
};

static uint32_t end_of(const struct data *d, char letter)
{
    return letter == 'j' || letter == 'k' ? d->lengths[d->at['b']] : d->space->dims.of[(unsigned char)letter];
}

static double value(const struct data *d, int operand)
{
    uint32_t hash = 2166136261u + (uint32_t)operand;
    for (const char *l = d->space->operand[operand]; *l; l++)
        hash = (hash ^ (d->at[(unsigned char)*l] + 1)) * 16777619u;
    return (double)(hash >> 16 & 15) - 7;
}

/* What the result has at the element at hand: the sum over the letters that it lacks. */
static double result(struct data *d, const char *letters)
{
    if (!*letters) return value(d, 0) * value(d, 1);
    double sum = 0;
    for (uint32_t i = 0, end = end_of(d, *letters); i < end; i++) {
        d->at[(unsigned char)*letters] = i;
        sum += result(d, letters + 1);
    }
    return sum;
}

/* Goes through an operand's memory as its order says, one element after the other; returns the next address. */
static size_t walk(struct data *d, int operand, const char *order, size_t address, const char *summed)
{
    if (!*order) {
        if (operand < 2) {
            d->memory[operand][address] = value(d, operand);
        } else if (d->only < 0 || d->at['b'] == (uint32_t)d->only) {
            double expected = result(d, summed);
            if (d->memory[2][address] != expected)
                fail_msg("element %zu is %g, not %g", address, d->memory[2][address], expected);
        } else {
            assert_true(d->memory[2][address] == -1000);
        }
        return address + 1;
    }
    for (uint32_t i = 0, end = end_of(d, *order); i < end; i++) {
        d->at[(unsigned char)*order] = i;
        address = walk(d, operand, order + 1, address, summed);
    }
    return address;
}

/* Where a sequence begins: the elements that stand before its first one. */
static size_t start_of(const struct data *d, const char *order)
{
    size_t before = 0, n = 1;
    bool scores = strchr(order, 'j') && strchr(order, 'k');
    if (d->only < 0) return 0;
    for (const char *l = strchr(order, 'b') + 1; *l; l++)
        if (!strchr("jk", *l)) n *= d->space->dims.of[(unsigned char)*l];
    for (int s = 0; s < d->only; s++) before += d->lengths[s] * (scores ? d->lengths[s] : 1);
    return before * n;
}

static double at(const struct data *d, int operand, size_t address)
{
    assert_true(address < d->size[operand]);
    return d->memory[operand][address];
}

static void run_gemm(struct data *d, const struct layout_gemm *g, const size_t start[3])
{
    for (uint64_t i = 0; i < g->batch; i++)
        for (uint64_t m = 0; m < g->m; m++)
            for (uint64_t n = 0; n < g->n; n++) {
                double sum = 0;
                for (uint64_t k = 0; k < g->k; k++) {
                    size_t a = g->transposed[0] ? k * g->ld[0] + m : m * g->ld[0] + k;
                    size_t b = g->transposed[1] ? n * g->ld[1] + k : k * g->ld[1] + n;
                    sum += at(d, 0, start[0] + i * g->stride[0] + a) * at(d, 1, start[1] + i * g->stride[1] + b);
                }
                size_t c = start[2] + i * g->stride[2] + (g->transposed[2] ? n * g->ld[2] + m : m * g->ld[2] + n);
                assert_true(at(d, 2, c) == -1000); /* nothing is written twice */
                d->memory[2][c] = sum;
            }
}

/* As BLAS does: matrices by columns, whose distance is at least a column's length. */
static void run_blas(struct data *d, const struct layout_gemm *gemm, const size_t start[3])
{
    struct layout_blas g;
    bool exchanged;
    layout_blas_of(gemm, &g, &exchanged);
    int first = exchanged, second = !exchanged;
    assert_true(g.ld[0] >= (g.transposed[0] ? g.k : g.m));
    assert_true(g.ld[1] >= (g.transposed[1] ? g.n : g.k));
    assert_true(g.ld[2] >= g.m);
    for (uint64_t i = 0; i < g.batch; i++)
        for (uint64_t n = 0; n < g.n; n++)
            for (uint64_t m = 0; m < g.m; m++) {
                double sum = 0;
                for (uint64_t k = 0; k < g.k; k++) {
                    size_t a = g.transposed[0] ? m * g.ld[0] + k : k * g.ld[0] + m;
                    size_t b = g.transposed[1] ? k * g.ld[1] + n : n * g.ld[1] + k;
                    sum += at(d, first, start[first] + i * g.stride[0] + a) *
                           at(d, second, start[second] + i * g.stride[1] + b);
                }
                size_t c = start[2] + i * g.stride[2] + n * g.ld[2] + m;
                assert_true(at(d, 2, c) == -1000);
                d->memory[2][c] = sum;
            }
}

static bool check_triple(const struct layout_triple *t, void *user)
{
    struct data *d = user;
    size_t start[3];
    char summed[16] = "";
    int n = 0;
    for (const char *l = d->space->operand[0]; *l; l++)
        if (!strchr(d->space->operand[2], *l)) summed[n++] = *l;
    for (int operand = 0; operand < 2; operand++)
        assert_int_equal(walk(d, operand, t->order[operand], 0, ""), d->size[operand]);
    for (int operand = 0; operand < 3; operand++) start[operand] = start_of(d, t->order[operand]);
    for (int blas = 0; blas < 2; blas++) {
        for (size_t i = 0; i < d->size[2]; i++) d->memory[2][i] = -1000;
        if (blas)
            run_blas(d, &t->gemm, start);
        else
            run_gemm(d, &t->gemm, start);
        assert_int_equal(walk(d, 2, t->order[2], 0, summed), d->size[2]);
    }
    d->runs++;
    return true;
}

static void data_create(struct data *d, const struct layout_space *space, const uint32_t lengths[SEQUENCES])
{
    memset(d, 0, sizeof *d);
    d->space = space;
    d->only = -1;
    memcpy(d->lengths, lengths, sizeof d->lengths);
    for (int t = 0; t < 3; t++) {
        const char *letters = space->operand[t];
        bool b = strchr(letters, 'b'), j = strchr(letters, 'j'), k = strchr(letters, 'k');
        for (int s = 0; b && s < SEQUENCES; s++) d->size[t] += (j ? lengths[s] : 1) * (k ? lengths[s] : 1);
        if (!b) d->size[t] = 1;
        for (; *letters; letters++)
            if (!strchr("bjk", *letters)) d->size[t] *= space->dims.of[(unsigned char)*letters];
        d->memory[t] = malloc(d->size[t] * sizeof *d->memory[t]);
        assert_non_null(d->memory[t]);
    }
}

static void data_destroy(struct data *d)
{
    for (int t = 0; t < 3; t++) free(d->memory[t]);
}

static void test_gemms_compute(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {4, 4, 4};
    for (int n = 0; n < PAPER_EINSUMS + OWN; n++) {
        struct layout_space space = space_of(einsum_at(n));
        wherry_product_layouts counts;
        struct data d;
        space.dims.of['j'] = space.dims.of['k'] = 4;
        layout_space_count(&space, 0, &counts);
        data_create(&d, &space, lengths);
        assert_true(layouts_visit(&space, LAYOUT_UNIFORM, check_triple, &d));
        assert_int_equal(d.runs, counts.valid);
        data_destroy(&d);
    }
}

static bool find(const struct layout_triple *t, void *user)
{
    const char *const *order = user;
    return strcmp(t->order[0], order[0]) != 0 || strcmp(t->order[1], order[1]) != 0 ||
           strcmp(t->order[2], order[2]) != 0;
}

/* Sequences of different lengths: one GEMM over all tokens, or one for each sequence. The graph's own orders are among
 * these triples. */
static void test_packed_gemms_compute(void **state)
{
    (void)state;
    static const uint32_t lengths[SEQUENCES] = {3, 1, 2}, offsets[] = {0, 3, 4, 6};
    const struct batch_shape shape = {SEQUENCES, offsets, 6, 14, 3};
    for (int n = 0; n < PAPER_EINSUMS + OWN; n++) {
        struct layout_space space = space_of(einsum_at(n));
        const char *const order[3] = {space.operand[0], space.operand[1], space.operand[2]};
        bool by_sequence = strchr(space.group[LAYOUT_BATCH], 'b') != NULL;
        enum layout_batch batch = by_sequence ? LAYOUT_BY_SEQUENCE : LAYOUT_PACKED;
        wherry_product_layouts counts;
        struct data d;
        layout_space_count(&space, 0, &counts);
        data_create(&d, &space, lengths);
        for (int s = 0; s < (by_sequence ? SEQUENCES : 1); s++) {
            layout_space_sequence(&space, &shape, (uint32_t)s);
            d.runs = 0;
            d.only = by_sequence ? s : -1;
            assert_true(layouts_visit(&space, batch, check_triple, &d));
            assert_int_equal(d.runs, by_sequence ? counts.by_sequence : counts.packed);
        }
        if (n >= PAPER_EINSUMS) assert_false(layouts_visit(&space, batch, find, (void *)order));
        data_destroy(&d);
    }
}

/* A result by columns is the same call as one by rows with the operands exchanged, where M is N. */
static void test_same_gemm(void **state)
{
    (void)state;
    struct layout_space space = space_of("bji,ui->bju");
    struct layout_gemm gemm;
    struct layout_blas rows, columns;
    bool exchanged;
    space.dims.of['u'] = space.dims.of['b'] * space.dims.of['j'];
    assert_true(layout_gemm_of(&space, (const char *const[]){"bji", "ui", "bju"}, &gemm));
    layout_blas_of(&gemm, &rows, &exchanged);
    assert_true(exchanged && rows.transposed[0] && !rows.transposed[1]);
    assert_true(layout_gemm_of(&space, (const char *const[]){"bji", "ui", "ubj"}, &gemm));
    layout_blas_of(&gemm, &columns, &exchanged);
    assert_true(!exchanged && columns.transposed[0] && !columns.transposed[1]);
    assert_true(layout_blas_same(&rows, &columns));
    assert_true(layout_gemm_of(&space, (const char *const[]){"ibj", "ui", "ubj"}, &gemm));
    layout_blas_of(&gemm, &columns, NULL);
    assert_false(layout_blas_same(&rows, &columns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paper_einsums), cmocka_unit_test(test_packed_counts),
        cmocka_unit_test(test_paper_kernels), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_all_permutations),
        cmocka_unit_test(test_gemms_compute), cmocka_unit_test(test_packed_gemms_compute),
        cmocka_unit_test(test_same_gemm),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
