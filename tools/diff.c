/* `wherry diff`: two records of the same work, operation by operation: what became slower, with disjoint 95 %
 * intervals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/keys.h"
#include "report/load.h"
#include "report/record.h"
#include "report/write.h"
#include "session.h"

enum verdict { SAME, SLOWER, FASTER };

struct change {
    const char *plan, *name, *mode;
    double before, after, ratio, low, high, lost; /* seconds; the ratio with its interval */
    enum verdict verdict;
};

struct comparison {
    const json_t *a, *b;
    double threshold;
    struct change *changes;
    size_t count, regressions;
    const json_t **only; /* operations of one side, those of a first */
    size_t only_a, only_b;
};

static const char *const verdicts[] = {"", "slower", "faster"};

/* ---- comparing ---- */

/* Intervals of 95 % that do not touch: the times differ; how much is for the threshold to judge. */
static void add_change(struct comparison *c, const char *plan, const char *name, const char *mode, const json_t *before,
                       const json_t *after)
{
    double a = field_number(before, "median"), b = field_number(after, "median");
    if (!(a > 0 && b > 0)) return;
    struct change *change = &c->changes[c->count++];
    *change = (struct change){.plan = plan, .name = name, .mode = mode, .before = a, .after = b, .lost = b - a};
    change->ratio = b / a;
    change->low = time_bound(after, 0) / time_bound(before, 1);
    change->high = time_bound(after, 1) / time_bound(before, 0);
    if (change->low > 1 && change->ratio > 1 + c->threshold) change->verdict = SLOWER;
    if (change->high < 1 && change->ratio < 1 - c->threshold) change->verdict = FASTER;
    c->regressions += change->verdict == SLOWER;
}

static struct key plan_key(const json_t *plan) { return (struct key){.texts = {field_text(plan, "plan")}}; }

static struct key op_key(const json_t *op)
{
    return (struct key){.texts = {field_text(op, "plan"), field_text(op, "id")}};
}

/* The first entry of the list that has this key, one of `keys`; NULL: none. */
static const json_t *find(const json_t *list, const struct keys *keys, struct key wanted)
{
    const struct key *key = keys_find(keys, wanted);
    return key ? json_array_get(list, key->item) : NULL;
}

static void compare_plans(struct comparison *c)
{
    static const char *const parts[][2] = {{"step.host", "step"}, {"step.kernels", "kernels"}};
    size_t n;
    const json_t *plan, *others = json_object_get(c->b, "plans");
    struct keys keys = keys_of_list(others, plan_key);
    json_array_foreach(json_object_get(c->a, "plans"), n, plan)
    {
        const json_t *other = find(others, &keys, plan_key(plan));
        for (size_t p = 0; other && p < 2; p++)
            add_change(c, field_text(plan, "plan"), parts[p][1], "all", field_get(plan, parts[p][0]),
                       field_get(other, parts[p][0]));
    }
    keys_free(&keys);
}

static void compare_ops(struct comparison *c)
{
    static const char *const modes[] = {"warm", "cold"};
    size_t n;
    const json_t *op, *first = json_object_get(c->a, "ops"), *second = json_object_get(c->b, "ops");
    struct keys first_keys = keys_of_list(first, op_key), second_keys = keys_of_list(second, op_key);
    json_array_foreach(first, n, op)
    {
        const char *plan = field_text(op, "plan"), *id = field_text(op, "id");
        const json_t *other = find(second, &second_keys, op_key(op));
        if (!other) c->only[c->only_a++] = op;
        for (size_t m = 0; other && m < 2; m++)
            add_change(c, plan, id, modes[m], field_get(op, modes[m]), field_get(other, modes[m]));
    }
    json_array_foreach(second, n, op)
    {
        if (!find(first, &first_keys, op_key(op))) c->only[c->only_a + c->only_b++] = op;
    }
    keys_free(&first_keys);
    keys_free(&second_keys);
}

static int by_loss(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    bool whole_a = strcmp(a->mode, "all") == 0, whole_b = strcmp(b->mode, "all") == 0;
    if (whole_a != whole_b) return whole_a ? -1 : 1;
    if (a->lost != b->lost) return a->lost > b->lost ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* ---- writing ---- */

static const char *const said[][2] = {{"name", "device"}, {"backend", "API"}, {"driver", "driver"}};
static const char *const worked[][2] = {
    {"kind", "workload"}, {"model", "model"}, {"training", "training"}, {"lengths", "sequences"}, {"dtype", "type"}};

/* "driver: 570 against 580": what makes the comparison one of other things than the code. */
static void note_differences(const struct comparison *c, struct output *out)
{
    const json_t *a = json_array_get(json_object_get(c->a, "devices"), 0);
    const json_t *b = json_array_get(json_object_get(c->b, "devices"), 0);
    for (size_t n = 0; n < sizeof said / sizeof *said; n++)
        if (strcmp(field_text(a, said[n][0]), field_text(b, said[n][0])) != 0)
            output_format(out, "note: another %s: %.60s, then %.60s\n", said[n][1], field_text(a, said[n][0]),
                          field_text(b, said[n][0]));
    a = json_object_get(c->a, "workload");
    b = json_object_get(c->b, "workload");
    for (size_t n = 0; n < sizeof worked / sizeof *worked; n++) {
        const json_t *first = json_object_get(a, worked[n][0]), *second = json_object_get(b, worked[n][0]);
        if (!first == !second && (!first || json_equal(first, second))) continue;
        if (json_is_string(first) && json_is_string(second))
            output_format(out, "note: another %s: %.60s, then %.60s\n", worked[n][1], json_string_value(first),
                          json_string_value(second));
        else
            output_format(out, "note: another %s\n", worked[n][1]);
    }
    const char *one = field_text(c->a, "status"), *two = field_text(c->b, "status");
    if (strcmp(one, "ok") != 0) output_format(out, "note: the first record's status is \"%.40s\"\n", one);
    if (strcmp(two, "ok") != 0) output_format(out, "note: the second record's status is \"%.40s\"\n", two);
}

static void print_changes(const struct comparison *c, bool all, struct output *out)
{
    char text[NUMBER_SIZE];
    size_t shown = 0;
    struct table table = {.columns = "~operation|<plan|<caches|>us|>then|>lost us|>ratio|>95 %|<"};
    for (size_t n = 0; n < c->count; n++) {
        const struct change *change = &c->changes[n];
        bool whole = strcmp(change->mode, "all") == 0;
        if (!all && !whole && !change->verdict) continue;
        table_cell(&table, "%s", change->name);
        table_cell(&table, "%s", change->plan);
        table_cell(&table, "%s", whole ? "" : change->mode);
        table_cell(&table, "%s", format_short(1e6 * change->before, text));
        table_cell(&table, "%s", format_short(1e6 * change->after, text));
        table_cell(&table, "%s", format_short(1e6 * change->lost, text));
        table_cell(&table, "%.3f", change->ratio);
        if (isfinite(change->low + change->high))
            table_cell(&table, "%.2f-%.2f", change->low, change->high);
        else
            table_cell(&table, "-");
        table_cell(&table, "%s", verdicts[change->verdict]);
        shown += !whole;
    }
    table_print(&table, out);
    size_t same = 0;
    for (size_t n = 0; n < c->count; n++) same += !c->changes[n].verdict;
    if (shown < c->count && !all) output_format(out, "%zu of %zu times: no change\n", same, c->count);
}

static void print_text(const struct comparison *c, bool all, struct output *out)
{
    note_differences(c, out);
    print_changes(c, all, out);
    for (size_t n = 0; n < c->only_a + c->only_b; n++)
        output_format(out, "only in the %s: %s of %s\n", n < c->only_a ? "first" : "second",
                      field_text(c->only[n], "id"), field_text(c->only[n], "plan"));
    output_format(out, "%zu slower by more than %g %%\n", c->regressions, 100 * c->threshold);
}

static json_t *change_json(const struct change *change)
{
    static const char *const names[] = {"same", "slower", "faster"};
    return need(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:[o, o], s:o, s:s}", "plan", change->plan, "name",
                          change->name, "caches", change->mode, "before", record_number(change->before), "after",
                          record_number(change->after), "ratio", record_number(change->ratio), "ratio_ci95",
                          record_number(change->low), record_number(change->high), "lost_seconds",
                          record_number(change->lost), "verdict", names[change->verdict]));
}

static json_t *comparison_json(const struct comparison *c)
{
    json_t *changes = need(json_array()), *first = need(json_array()), *second = need(json_array());
    for (size_t n = 0; n < c->count; n++) json_array_append_new(changes, change_json(&c->changes[n]));
    for (size_t n = 0; n < c->only_a + c->only_b; n++)
        json_array_append_new(n < c->only_a ? first : second,
                              need(json_pack("{s:s, s:s}", "plan", field_text(c->only[n], "plan"), "name",
                                             field_text(c->only[n], "id"))));
    return need(json_pack("{s:s, s:s, s:f, s:I, s:o, s:o, s:o}", "first", field_text(c->a, "run.id"), "second",
                          field_text(c->b, "run.id"), "threshold", c->threshold, "slower", (json_int_t)c->regressions,
                          "changes", changes, "only_first", first, "only_second", second));
}

/* ---- the command ---- */

static int run(const struct options *options, struct comparison *c)
{
    struct output out;
    size_t ops = json_array_size(json_object_get(c->a, "ops")) + json_array_size(json_object_get(c->b, "ops"));
    c->changes = need(calloc(2 * ops + 2 * json_array_size(json_object_get(c->a, "plans")) + 1, sizeof *c->changes));
    c->only = need(calloc(ops + 1, sizeof *c->only));
    compare_plans(c);
    compare_ops(c);
    if (!c->count)
        return complain(EXIT_INPUT, "%s and %s have no measured operation of the same plan and name", options->files[0],
                        options->files[1]);
    qsort(c->changes, c->count, sizeof *c->changes, by_loss);
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (options->json)
        output_json(&out, comparison_json(c));
    else
        print_text(c, options->all, &out);
    if (!output_close(&out, true)) return EXIT_OUTPUT;
    return c->regressions ? EXIT_VERIFY : EXIT_FINE;
}

int diff_command(const struct options *options)
{
    if (options->files_count != 2)
        return complain(EXIT_USAGE, "two files are needed: wherry diff BEFORE AFTER, records as wherry bench --json "
                                    "writes them");
    json_t *a = records_load(options->files[0]), *b = a ? records_load(options->files[1]) : NULL;
    int code = EXIT_INPUT;
    if (b && (json_array_size(a) > 1 || json_array_size(b) > 1)) {
        complain(0, "%s has several records; wherry diff compares one with one",
                 options->files[json_array_size(a) > 1 ? 0 : 1]);
    } else if (b) {
        struct comparison c = {.a = json_array_get(a, 0),
                               .b = json_array_get(b, 0),
                               .threshold = options->threshold >= 0 ? options->threshold / 100 : 0.03};
        code = run(options, &c);
        free(c.changes);
        free(c.only);
    }
    json_decref(a);
    json_decref(b);
    return code;
}
