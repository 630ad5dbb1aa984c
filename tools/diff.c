/* `wherry diff`: two records of the same work, operation by operation: what became slower, with disjoint 95 %
 * intervals. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/keys.h"
#include "report/load.h"
#include "session.h"

enum verdict { SAME, SLOWER, FASTER };

struct change {
    const char *plan, *name, *mode;
    double before, after, ratio, low, high, lost; /* seconds; the ratio with its interval */
    enum verdict verdict;
};

struct comparison {
    const struct record *a, *b;
    double threshold;
    struct change *changes;
    size_t count, regressions;
    const struct record_op **only; /* operations of one side, those of a first */
    size_t only_a, only_b;
};

static const char *const verdicts[] = {"", "slower", "faster"};

/* ---- comparing ---- */

/* Intervals of 95 % that do not touch: the times differ; how much is for the threshold to judge. */
static void add_change(struct comparison *c, const char *plan, const char *name, const char *mode,
                       const wherry_time *before, const wherry_time *after)
{
    double a = before->median, b = after->median;
    if (!(a > 0 && b > 0)) return;
    struct change *change = &c->changes[c->count++];
    *change = (struct change){.plan = plan, .name = name, .mode = mode, .before = a, .after = b, .lost = b - a};
    change->ratio = b / a;
    change->low = after->ci_low / before->ci_high;
    change->high = after->ci_high / before->ci_low;
    if (change->low > 1 && change->ratio > 1 + c->threshold) change->verdict = SLOWER;
    if (change->high < 1 && change->ratio < 1 - c->threshold) change->verdict = FASTER;
    c->regressions += change->verdict == SLOWER;
}

static struct key plan_key(const void *entry)
{
    const struct record_plan *plan = entry;
    return (struct key){.texts = {plan->name}};
}

static struct key op_key(const void *entry)
{
    const struct record_op *op = entry;
    return (struct key){.texts = {op->plan, op->id}};
}

static struct keys op_keys(const struct record *record)
{
    return keys_of(record->ops, record->op_count, sizeof *record->ops, op_key);
}

/* The first operation that has this one's key; NULL: none. */
static const struct record_op *find_op(const struct record *record, const struct keys *keys,
                                       const struct record_op *like)
{
    const struct key *key = keys_find(keys, op_key(like));
    return key ? &record->ops[key->item] : NULL;
}

static void compare_plans(struct comparison *c)
{
    struct keys keys = keys_of(c->b->plans, c->b->plan_count, sizeof *c->b->plans, plan_key);
    for (size_t n = 0; n < c->a->plan_count; n++) {
        const struct record_plan *plan = &c->a->plans[n];
        const struct key *key = keys_find(&keys, plan_key(plan));
        if (!key) continue;
        const struct record_plan *other = &c->b->plans[key->item];
        add_change(c, plan->name, "step", "all", &plan->host, &other->host);
        add_change(c, plan->name, "kernels", "all", &plan->kernels, &other->kernels);
    }
    keys_free(&keys);
}

static void compare_ops(struct comparison *c)
{
    struct keys first_keys = op_keys(c->a), second_keys = op_keys(c->b);
    for (size_t n = 0; n < c->a->op_count; n++) {
        const struct record_op *op = &c->a->ops[n], *other = find_op(c->b, &second_keys, op);
        if (!other) c->only[c->only_a++] = op;
        for (int m = 0; other && m < MODES; m++)
            add_change(c, op->plan, op->id, mode_names[m], &op->modes[m].time, &other->modes[m].time);
    }
    for (size_t n = 0; n < c->b->op_count; n++)
        if (!find_op(c->a, &first_keys, &c->b->ops[n])) c->only[c->only_a + c->only_b++] = &c->b->ops[n];
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

static void note_texts(struct output *out, const char *what, const char *first, const char *second)
{
    if (strcmp(first, second) != 0) output_format(out, "note: another %s: %.60s, then %.60s\n", what, first, second);
}

/* Of the workload, as the trees have it. */
static void note_workload(const struct comparison *c, struct output *out)
{
    static const char *const parts[][2] = {{"kind", "workload"},
                                           {"model", "model"},
                                           {"training", "training"},
                                           {"lengths", "sequences"},
                                           {"dtype", "type"}};
    const json_t *a = json_object_get(c->a->json, "workload"), *b = json_object_get(c->b->json, "workload");
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++) {
        const json_t *first = json_object_get(a, parts[n][0]), *second = json_object_get(b, parts[n][0]);
        if (!first == !second && (!first || json_equal(first, second))) continue;
        if (json_is_string(first) && json_is_string(second))
            note_texts(out, parts[n][1], json_string_value(first), json_string_value(second));
        else
            output_format(out, "note: another %s\n", parts[n][1]);
    }
}

/* "driver: 570 against 580": what makes the comparison one of other things than the code. */
static void note_differences(const struct comparison *c, struct output *out)
{
    const struct record_device *a = &c->a->devices[0], *b = &c->b->devices[0];
    const char *one = c->a->status, *two = c->b->status;
    note_texts(out, "device", a->name, b->name);
    note_texts(out, "API", a->backend, b->backend);
    note_texts(out, "driver", a->driver, b->driver);
    note_workload(c, out);
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
        output_format(out, "only in the %s: %s of %s\n", n < c->only_a ? "first" : "second", c->only[n]->id,
                      c->only[n]->plan);
    output_format(out, "%zu slower by more than %g %%\n", c->regressions, 100 * c->threshold);
}

static json_t *change_json(const struct change *change)
{
    static const char *const names[] = {"same", "slower", "faster"};
    return need(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:[o, o], s:o, s:s}", "plan", change->plan, "name",
                          change->name, "caches", change->mode, "before", number_json(change->before), "after",
                          number_json(change->after), "ratio", number_json(change->ratio), "ratio_ci95",
                          number_json(change->low), number_json(change->high), "lost_seconds",
                          number_json(change->lost), "verdict", names[change->verdict]));
}

static json_t *comparison_json(const struct comparison *c)
{
    json_t *changes = need(json_array()), *first = need(json_array()), *second = need(json_array());
    for (size_t n = 0; n < c->count; n++) json_array_append_new(changes, change_json(&c->changes[n]));
    for (size_t n = 0; n < c->only_a + c->only_b; n++)
        json_array_append_new(n < c->only_a ? first : second,
                              need(json_pack("{s:s, s:s}", "plan", c->only[n]->plan, "name", c->only[n]->id)));
    return need(json_pack("{s:s, s:s, s:f, s:I, s:o, s:o, s:o}", "first", c->a->run_id, "second", c->b->run_id,
                          "threshold", c->threshold, "slower", (json_int_t)c->regressions, "changes", changes,
                          "only_first", first, "only_second", second));
}

/* ---- the command ---- */

static int run(const struct options *options, struct comparison *c)
{
    struct output out;
    size_t ops = c->a->op_count + c->b->op_count;
    c->changes = need(calloc(MODES * c->a->op_count + 2 * c->a->plan_count + 1, sizeof *c->changes));
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
    struct report a = {.count = 0}, b = {.count = 0};
    bool fine = report_load(&a, options->files[0], false) && report_load(&b, options->files[1], false);
    int code = EXIT_INPUT;
    if (fine && (a.count > 1 || b.count > 1)) {
        complain(0, "%s has several records; wherry diff compares one with one", options->files[a.count > 1 ? 0 : 1]);
    } else if (fine) {
        struct comparison c = {
            .a = a.records, .b = b.records, .threshold = options->threshold >= 0 ? options->threshold / 100 : 0.03};
        code = run(options, &c);
        free(c.changes);
        free(c.only);
    }
    report_close(&a);
    report_close(&b);
    return code;
}
