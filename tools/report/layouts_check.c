/* Whether measured layouts' derived numbers are those that follow from their times, and the paper's are the paper's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layouts_paper.h"
#include "report/check.h"
#include "report/fields.h"
#include "report/layouts.h"
#include "report/write.h"
#include "session.h"

enum { PATH = 128 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What one time says by itself. */
static void check_time(const char *name, const json_t *work, const json_t *time, struct check *check)
{
    const double number = field_number(time, "number"), us = field_number(time, "us");
    const double low = field_number(time, "low_us"), high = field_number(time, "high_us");
    char path[PATH];
    snprintf(path, sizeof path, "%.40s: configuration %.0f", name, number);
    check->numbers += 2;
    if (!(number >= 0 && number < field_number(work, "space")))
        check_wrong(check, path, "the space has no such number");
    if (json_object_get(time, "us") ? json_object_get(time, "wrong") != NULL : !json_object_get(time, "wrong"))
        check_wrong(check, path, "neither a time nor what is wrong, or both");
    if (json_object_get(time, "us") && !(us > 0 && low <= us && us <= high))
        check_wrong(check, path, "a time that was not measured, or outside its interval");
}

static void check_numbers(const char *name, const json_t *times, struct check *check)
{
    const size_t count = json_array_size(times);
    double *numbers = need(malloc((count + 1) * sizeof *numbers));
    for (size_t n = 0; n < count; n++) numbers[n] = field_number(json_array_get(times, n), "number");
    qsort(numbers, count, sizeof *numbers, by_value);
    for (size_t n = 1; n < count; n++) {
        if (numbers[n] > numbers[n - 1]) continue;
        check_wrong(check, name, "a configuration is there twice");
        break;
    }
    free(numbers);
}

/* What follows from the times, as `wherry bench layouts` writes it. */
static json_t *derive(const json_t *times, double *drawn)
{
    double best = (double)NAN, worst = (double)NAN, usual = (double)NAN;
    json_int_t measured = 0, wrong = 0;
    size_t n;
    json_t *time;
    *drawn = 0;
    json_array_foreach(times, n, time)
    {
        const double us = field_number(time, "us");
        *drawn += field_true(time, "drawn");
        wrong += json_object_get(time, "us") == NULL;
        measured += json_object_get(time, "us") != NULL;
        if (!(us >= best)) best = isnan(us) ? best : us;
        if (!(us <= worst)) worst = isnan(us) ? worst : us;
        if (field_true(time, "default")) usual = us;
    }
    return need(json_pack("{s:I, s:I, s:o, s:o, s:o}", "measured", measured, "wrong", wrong, "best_us",
                          number_json(best), "worst_us", number_json(worst), "default_us", number_json(usual)));
}

static void check_work(const json_t *value, const json_t *work, struct check *check)
{
    const char *name = field_text(work, "name");
    const json_t *times = json_object_get(work, "times");
    const int number = layouts_work_number(name);
    double drawn;
    size_t n;
    json_t *time, *derived = derive(times, &drawn);
    char path[PATH];
    snprintf(path, sizeof path, "layouts of %.40s", name);
    if (number < 0)
        check_wrong(check, path, "the paper has no such kernel or contraction");
    else
        json_object_update_new(derived, layouts_paper_json(number));
    check_compare(check, path, work, derived);
    json_decref(derived);
    json_array_foreach(times, n, time) check_time(name, work, time, check);
    check_numbers(path, times, check);
    /* The default is one of those drawn, or one more. */
    const double sample = field_number(value, "sample");
    check->numbers += 2;
    if (drawn > sample + 1) check_wrong(check, path, "more are drawn than the sample has");
    if (field_number(work, "measured") + field_number(work, "wrong") + field_number(work, "refused") >
        field_number(work, "space"))
        check_wrong(check, path, "more were looked at than the space has");
}

void layouts_check(const json_t *value, struct check *check)
{
    size_t n;
    json_t *work;
    json_array_foreach(json_object_get(value, "works"), n, work) check_work(value, work, check);
}
