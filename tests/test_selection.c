/* The shortest path against every assignment, on made-up costs. No device. */
#include "support.h"
#include "tune/selection.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COSTS = 10, POINTS = 4096 };

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

struct problem {
    struct selection selection;
    struct selection_cost costs[COSTS];
    double values[COSTS][POINTS];
};

/* Each cost depends on up to four variables; one in `impossible` of its points can't be had, 0: all can. */
static void make(struct problem *p, uint32_t impossible)
{
    struct selection *s = &p->selection;
    *s = (struct selection){.n_variables = 1 + (int)draw(6), .costs = p->costs, .n_costs = 1 + (int)draw(COSTS)};
    for (int v = 0; v < s->n_variables; v++) s->values[v] = 1 + (int)draw(4);
    for (int i = 0; i < s->n_costs; i++) {
        struct selection_cost *cost = &p->costs[i];
        size_t points = 1;
        *cost = (struct selection_cost){.values = p->values[i]};
        for (int v = 0; v < s->n_variables && cost->n < 4; v++) {
            if (draw(2)) continue;
            cost->of[cost->n++] = v;
            points *= (size_t)s->values[v];
        }
        for (size_t k = 0; k < points; k++)
            p->values[i][k] = impossible && !draw(impossible) ? INFINITY : 1 + draw(1000) / 100.0;
    }
}

static double least_of_all(const struct selection *s)
{
    int values[SELECTION_VARIABLES] = {0};
    double least = INFINITY;
    for (int v = 0; v >= 0;) {
        double sum = selection_sum(s, values);
        if (sum < least) least = sum;
        for (v = s->n_variables - 1; v >= 0 && ++values[v] == s->values[v]; v--) values[v] = 0;
    }
    return least;
}

static void check(const struct problem *p)
{
    struct selected found;
    struct error e;
    double least = least_of_all(&p->selection);
    assert_true(selection_solve(&support_host, &p->selection, &found, &e));
    if (isinf(least)) {
        assert_true(isinf(found.cost));
        return;
    }
    assert_true(fabs(found.cost - least) < 1e-9);
    assert_true(fabs(selection_sum(&p->selection, found.of) - least) < 1e-9);
    assert_true(found.states >= (uint64_t)p->selection.n_costs + 1);
}

static void test_exhaustive(void **unused)
{
    struct problem *p = calloc(1, sizeof *p);
    (void)unused;
    for (int n = 0; n < 2000; n++) {
        make(p, (uint32_t)n % 3 * 5);
        check(p);
    }
    free(p);
}

/* The order of the costs is that of the walk through the graph: forward, backward, or both: the optimum is the same. */
static void test_any_order(void **unused)
{
    struct problem *p = calloc(1, sizeof *p);
    (void)unused;
    for (int n = 0; n < 200; n++) {
        struct selected first, other;
        struct error e;
        make(p, 0);
        assert_true(selection_solve(&support_host, &p->selection, &first, &e));
        for (int i = p->selection.n_costs - 1; i > 0; i--) {
            struct selection_cost cost = p->costs[i];
            int k = (int)draw((uint32_t)i + 1);
            p->costs[i] = p->costs[k];
            p->costs[k] = cost;
        }
        assert_true(selection_solve(&support_host, &p->selection, &other, &e));
        assert_true(fabs(first.cost - other.cost) < 1e-9);
    }
    free(p);
}

/* A chain, as the paper's: the nodes are the orders between two operators. */
static void test_chain(void **unused)
{
    static const double first[] = {1, 5}, middle[] = {9, 1, 1, 9}, last[] = {5, 1};
    const struct selection_cost costs[] = {{1, {0}, first}, {2, {0, 1}, middle}, {1, {1}, last}};
    const struct selection s = {.n_variables = 2, .values = {2, 2}, .costs = costs, .n_costs = 3};
    struct selected found;
    struct error e;
    (void)unused;
    assert_true(selection_solve(&support_host, &s, &found, &e));
    assert_int_equal(found.of[0], 0);
    assert_int_equal(found.of[1], 1);
    assert_true(found.cost == 3);
    assert_int_equal(found.states, 1 + 2 + 2 + 1);
}

static void test_too_many(void **unused)
{
    static double values[1];
    struct selection_cost costs[2] = {{.values = values}, {.values = values}};
    struct selection s = {.n_variables = 8, .costs = costs, .n_costs = 2};
    struct selected found;
    struct error e;
    (void)unused;
    for (int v = 0; v < 8; v++) {
        s.values[v] = SELECTION_VALUES;
        for (int i = 0; i < 2; i++) costs[i].of[costs[i].n++] = v;
    }
    assert_false(selection_solve(&support_host, &s, &found, &e));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_any_order),
                                       cmocka_unit_test(test_chain), cmocka_unit_test(test_too_many)};
    return cmocka_run_group_tests_name("selection", tests, NULL, NULL) != 0;
}
