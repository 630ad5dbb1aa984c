/* How good the model is on examples that it does not learn. */
#include "train/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "system.h"
#include "train/metrics.h"

enum { QUERIES_MOST = 1000 }; /* whose nearest texts are looked for */

/* What the model made of all examples, and what they say. */
struct results {
    float *rows, *values;
    int32_t *labels;
    size_t n_rows, n_values, n_labels; /* rows: floats */
    uint64_t examples;
    double loss, weight;
};

static void append(void **all, size_t *count, const void *some, size_t n, size_t size)
{
    if (!n) return;
    *all = need(realloc(*all, (*count + n) * size));
    memcpy((char *)*all + *count * size, some, n * size);
    *count += n;
}

/* Examples that count in a batch's mean. */
static double weight_of(const struct train_batch *batch)
{
    double counted = 0;
    if (!batch->n_labels) return batch->examples;
    for (size_t n = 0; n < batch->n_labels; n++) counted += batch->labels[n] != IGNORED;
    return counted;
}

static int take_batch(struct train_run *run, const struct train_batch *batch, struct results *r)
{
    const struct part_limits limits = setup_part_limits(&run->setup);
    enum train_task task = run->setup.form.task;
    double loss = 0, weight = weight_of(batch);
    if (!(weight > 0)) return EXIT_FINE;
    parts_of(&run->parts, batch, &limits);
    size_t size = wherry_trainer_row_floats(run->trainer);
    size_t rows = task == TASK_TOKENS ? batch->tokens : batch->sequences;
    if (task == TASK_MLM) rows = run->parts.count; /* what they have been told right, of each part */
    float *values = rows ? need(malloc(rows * size * sizeof *values)) : NULL;
    const wherry_targets targets = {.struct_size = sizeof targets,
                                    .labels = batch->labels,
                                    .values = batch->values,
                                    .count = batch->labels ? batch->n_labels : batch->n_values};
    wherry_status status = wherry_trainer_evaluate(run->trainer, run->parts.batches, run->parts.count,
                                                   targets.count ? &targets : NULL, &loss, values, rows * size);
    if (!status) {
        append((void **)&r->rows, &r->n_rows, values, rows * size, sizeof *values);
        append((void **)&r->values, &r->n_values, batch->values, batch->n_values, sizeof *values);
        append((void **)&r->labels, &r->n_labels, batch->labels, batch->n_labels, sizeof *r->labels);
        r->loss += loss * weight;
        r->weight += weight;
        r->examples += batch->examples;
    }
    free(values);
    return status ? tool_error(&run->tool, status, "evaluation") : EXIT_FINE;
}

/* ---- scores ---- */

static void add_score(struct evaluation *out, const char *name, double value)
{
    out->scores[out->n_scores].name = name;
    out->scores[out->n_scores++].value = value;
}

/* Rows of batches are column by column: `column` of all of them. */
static float *column_of(const struct results *r, const uint32_t *examples, size_t batches, uint32_t columns,
                        uint32_t column, size_t size)
{
    float *all = need(malloc((r->examples ? r->examples : 1) * size * sizeof *all)), *to = all;
    const float *from = r->rows;
    for (size_t n = 0; n < batches; n++) {
        memcpy(to, from + (size_t)column * examples[n] * size, examples[n] * size * sizeof *to);
        to += examples[n] * size;
        from += (size_t)columns * examples[n] * size;
    }
    return all;
}

static void compare_columns(const struct train_run *run, const struct results *r, const uint32_t *examples,
                            size_t batches, struct evaluation *out)
{
    size_t size = wherry_trainer_row_floats(run->trainer), count = (size_t)r->examples;
    uint32_t columns = run->setup.form.columns;
    float *first = column_of(r, examples, batches, columns, 0, size);
    float *second = column_of(r, examples, batches, columns, 1, size);
    if (run->setup.form.task == TASK_CONTRASTIVE) {
        size_t queries = count < QUERIES_MOST ? count : QUERIES_MOST;
        add_score(out, "recall@1", metric_recall(first, queries, second, count, size, 1));
        add_score(out, "recall@10", metric_recall(first, queries, second, count, size, 10));
    } else {
        float *cosines = need(malloc((count ? count : 1) * sizeof *cosines));
        for (size_t n = 0; n < count; n++) cosines[n] = (float)metric_cosine(first + n * size, second + n * size, size);
        add_score(out, "spearman", metric_spearman(cosines, r->values, count));
        free(cosines);
    }
    free(first);
    free(second);
}

/* What all batches' rows have at `place` together. */
static double sum_at(const struct results *r, size_t size, size_t place)
{
    double sum = 0;
    for (size_t n = place; n < r->n_rows; n += size) sum += (double)r->rows[n];
    return sum;
}

/* Rows have the sum of losses, and how many are told right: of masked tokens those that have no word with a score above
 * their own, and the same of pairs, of which each has a label. */
static void judge_words(const struct train_run *run, const struct results *r, struct evaluation *out)
{
    size_t size = wherry_trainer_row_floats(run->trainer);
    double pairs = (double)r->examples;
    add_score(out, "accuracy", r->weight > 0 ? sum_at(r, size, 1) / r->weight : 0);
    if (!run->setup.form.next || !r->examples || !(r->weight > 0)) return;
    out->loss = sum_at(r, size, 0) / r->weight + sum_at(r, size, 2) / pairs; /* batches have not the same numbers */
    add_score(out, "next sentences", sum_at(r, size, 3) / pairs);
}

static void judge(const struct train_run *run, const struct results *r, const uint32_t *examples, size_t batches,
                  struct evaluation *out)
{
    size_t size = wherry_trainer_row_floats(run->trainer);
    switch (run->setup.form.task) {
    case TASK_CONTRASTIVE:
    case TASK_SCORED:
        compare_columns(run, r, examples, batches, out);
        break;
    case TASK_CLASSIFY:
    case TASK_TOKENS:
        add_score(out, "accuracy",
                  r->n_values ? metric_binary_accuracy(r->rows, r->values, r->n_values)
                              : metric_accuracy(r->rows, r->labels, r->n_labels, size));
        break;
    case TASK_REGRESS:
        if (size == 1) add_score(out, "spearman", metric_spearman(r->rows, r->values, r->n_values));
        add_score(out, "squared error", metric_squared_error(r->rows, r->values, r->n_values));
        break;
    case TASK_MLM:
        judge_words(run, r, out);
        break;
    }
}

int evaluate(struct train_run *run, struct evaluation *out)
{
    struct batches_desc desc = run->setup.batches;
    struct batches batches;
    struct train_batch batch = {.examples = 0};
    struct results r = {.rows = NULL};
    uint32_t *examples = NULL;
    size_t n_batches = 0;
    int code = EXIT_FINE;
    *out = (struct evaluation){.loss = 0};
    desc.in_order = true;
    batches_open(&batches, &desc, &run->dev_lines, &run->setup.form);
    for (bool last = false; !last && !code;) {
        code = batches_next(&batches, &batch);
        if (!code) code = take_batch(run, &batch, &r);
        if (!code && system_stopped()) code = EXIT_STOPPED;
        append((void **)&examples, &n_batches, &batch.examples, 1, sizeof *examples);
        last = batch.last;
        train_batch_free(&batch);
    }
    if (!code) {
        out->loss = r.weight > 0 ? r.loss / r.weight : 0;
        judge(run, &r, examples, n_batches, out);
    }
    batches_close(&batches);
    free(r.rows);
    free(r.values);
    free(r.labels);
    free(examples);
    return code;
}
