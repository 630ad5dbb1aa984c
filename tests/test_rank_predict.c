/* What is predicted of many processes' steps against what can be said by hand. No device. */
#include "tools/rank_predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void near(double got, double wanted)
{
    if (fabs(got - wanted) > 1e-9 * fabs(wanted) + 1e-12) fail_msg("%.9g, %.9g expected", got, wanted);
}

/* 10 ms, of which the backward pass has 4 to 9. */
static struct rank_step step_of(struct rank_bucket *buckets, size_t n)
{
    return (struct rank_step){.seconds = 0.010,
                              .backward_end = 0.009,
                              .optimizer = 0.001,
                              .buckets = buckets,
                              .n_buckets = n,
                              .table_share = 1};
}

static const struct rank_link plain = {.rate = 1e9, .latency = 1e-4, .float_bytes = 4};

static void one_process_sends_nothing(void **state)
{
    (void)state;
    struct rank_bucket bucket = {.floats = 1e6, .ready = 0.005};
    struct rank_step step = step_of(&bucket, 1);
    struct rank_prediction p = rank_predict(&step, &plain, 1, true);
    near(p.step, 0.010);
    near(p.exposed, 0);
}

/* Parts go to their owners and sums to all: (n - 1) / n of the bytes each time, and a latency; of two each sends all.
 */
static void one_bucket(void **state)
{
    (void)state;
    struct rank_bucket bucket = {.floats = 1e6, .ready = 0.005};
    struct rank_step step = step_of(&bucket, 1);
    for (uint32_t n = 2; n <= 8; n *= 2) {
        double exchange = n == 2 ? 4e6 / 1e9 + 1e-4 : 2 * ((n - 1.0) / n * 4e6 / 1e9 + 1e-4);
        struct rank_prediction after = rank_predict(&step, &plain, n, false),
                               beside = rank_predict(&step, &plain, n, true);
        near(after.exchange, exchange);
        near(after.exposed, exchange);
        near(after.step, 0.010 + exchange);
        near(beside.exchange, exchange);
        near(beside.exposed, exchange > 0.004 ? exchange - 0.004 : 0);
    }
}

/* All of it down, and up; of what was received the others' parts up and the own sums down. */
static void copies(void **state)
{
    (void)state;
    struct rank_bucket bucket = {.floats = 1e6, .ready = 0};
    struct rank_step step = step_of(&bucket, 1);
    struct rank_link link = plain;
    link.copy = 4e9;
    near(rank_predict(&step, &link, 4, false).exchange, 2 * (0.003 + 1e-4) + 0.001 + 0.00075 + 0.00025 + 0.00075);
    near(rank_predict(&step, &link, 2, false).exchange, 0.001 + 0.004 + 1e-4 + 0.001);
    link.float_bytes = 2;
    near(rank_predict(&step, &link, 4, false).exchange,
         2 * (0.0015 + 1e-4) + (0.001 + 0.00075 + 0.00025 + 0.00075) / 2);
    link = plain;
    link.overhead = 1e-5;
    near(rank_predict(&step, &link, 4, false).exchange, 2 * (0.003 + 1e-4 + 3e-5));
}

/* Many buckets fill the link: it is the bytes alone that count, but for what the first and the last one wait for. */
static void link_is_busy(void **state)
{
    (void)state;
    enum { N = 50 };
    struct rank_bucket buckets[N];
    for (int i = 0; i < N; i++) buckets[i] = (struct rank_bucket){.floats = 1e6, .ready = 0.004 + 0.0001 * i};
    struct rank_step step = step_of(buckets, N);
    struct rank_prediction p = rank_predict(&step, &plain, 2, true), q = rank_predict(&step, &plain, 2, false);
    double busy = N * 2 * 0.5 * 4e6 / 1e9;
    assert_true(p.exchange >= busy && p.exchange < 1.1 * busy);
    assert_true(q.exposed >= busy && q.exposed < 1.1 * busy);
    assert_true(p.exposed < q.exposed);
    /* Of the table half is there. */
    for (int i = 0; i < N; i++) buckets[i].table = true;
    step.table_share = 0.5;
    assert_true(rank_predict(&step, &plain, 2, false).exposed < 0.56 * q.exposed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_sends_nothing),
        cmocka_unit_test(one_bucket),
        cmocka_unit_test(copies),
        cmocka_unit_test(link_is_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
