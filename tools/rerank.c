/* `wherry rerank`: how well texts answer a query, best first. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "scores.h"
#include "text_run.h"

struct ranked {
    struct text_label label;
    uint64_t index;
    float score;
};

struct ranking {
    struct text_run run; /* first: a text_run_write gets it */
    struct ranked *texts;
    size_t count, room;
};

static int keep_scores(struct text_run *run, const float *values)
{
    struct ranking *r = (struct ranking *)run;
    for (uint32_t s = 0; s < run->batch.sequences; s++) {
        if (r->count == r->room) {
            r->room = r->room ? 2 * r->room : 256;
            r->texts = need(realloc(r->texts, r->room * sizeof *r->texts));
        }
        float score = values[s];
        wherry_scores_apply(scores_chosen(run), &score, 1, 1);
        r->texts[r->count] = (struct ranked){run->batch.labels[s], r->count, score};
        run->batch.labels[s] = (struct text_label){0}; /* its memory is the ranking's now */
        r->count++;
    }
    return EXIT_FINE;
}

/* Texts of one score stay in the order of the input. */
static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void write_one(const struct ranking *r, struct output *out, const struct ranked *text, bool jsonl)
{
    char score[NUMBER_SIZE];
    size_t length = format_float(text->score, score);
    if (jsonl) {
        text_run_object(&r->run, out, text->index, &text->label);
        output_text(out, ",\"score\":");
        output_write(out, score, length);
        output_text(out, "}\n");
    } else {
        output_write(out, score, length);
        char line[32];
        snprintf(line, sizeof line, "\t%llu\t", (unsigned long long)text->label.line);
        output_text(out, line);
        output_format(out, "%s", text->label.text);
        output_text(out, "\n");
    }
}

static int write_ranking(struct ranking *r, bool jsonl)
{
    struct output out;
    const struct options *options = r->run.tool.options;
    size_t shown = options->top && options->top < r->count ? options->top : r->count;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    qsort(r->texts, r->count, sizeof *r->texts, compare);
    for (size_t i = 0; i < shown && output_ok(&out); i++) write_one(r, &out, &r->texts[i], jsonl);
    return output_close(&out, output_ok(&out)) ? EXIT_FINE : EXIT_OUTPUT;
}

static int check_model(const struct text_run *run)
{
    const wherry_model_config *config = &run->tool.model_info.config;
    const struct options *options = run->tool.options;
    if (config->head == WHERRY_HEAD_SEQUENCE && config->labels == 1) {
        if (!options->instruction || run->tool.model_info.pair_template) return EXIT_FINE;
        return complain(EXIT_USAGE, "--instruction is for rerankers that are language models, and %s (%s) is none",
                        options->model, run->tool.model_info.architecture);
    }
    return complain(EXIT_INPUT,
                    "%s (%s) is no reranker: that is a model that gives one score to a pair, such as "
                    "BertForSequenceClassification with one label, or Qwen3-Reranker%s",
                    options->model, run->tool.model_info.architecture,
                    config->head == WHERRY_HEAD_SEQUENCE ? "; see wherry classify --pairs" : "");
}

int rerank_command(const struct options *options)
{
    struct ranking r = {.count = 0};
    bool jsonl;
    int code = scores_check(options, &jsonl);
    if (!code && !options->query) code = complain(EXIT_USAGE, "a query is missing: --query TEXT");
    if (!code) code = text_run_open(&r.run, options);
    if (!code) code = check_model(&r.run);
    if (!code) {
        r.run.batch.query = options->query;
        r.run.batch.instruction = options->instruction;
        r.run.batch.keep_texts = options->with_text || !jsonl;
        code = text_run_start(&r.run, (wherry_session_desc){.output = WHERRY_OUTPUT_CLASSES});
    }
    if (!code) code = text_run_all(&r.run, keep_scores);
    if (!code) code = write_ranking(&r, jsonl);
    if (!code) text_run_tell(&r.run);
    for (size_t i = 0; i < r.count; i++) text_label_free(&r.texts[i].label);
    free(r.texts);
    text_run_close(&r.run);
    return code;
}
