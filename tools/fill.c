/* `wherry fill`: what a model puts in the place of a mask. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "scores.h"
#include "text_run.h"
#include "token_names.h"

struct filling {
    struct text_run run; /* first: a text_run_write gets it */
    struct output out;
    bool jsonl, open; /* open: an object whose text may have more masks */
    uint64_t texts;
    struct token_names names;
    uint32_t *order; /* [vocabulary] */
    float *scores;
};

/* ---- writing ---- */

static void write_token(struct filling *f, uint32_t id) { token_name_write(&f->names, id, f->jsonl, &f->out); }

static void write_score(struct filling *f, uint32_t id)
{
    char text[NUMBER_SIZE];
    output_write(&f->out, text, format_float(f->scores[id], text));
}

static void end_object(struct filling *f)
{
    if (f->open) output_text(&f->out, "]}\n");
    f->open = false;
}

static void write_mask_json(struct filling *f, uint32_t shown)
{
    output_text(&f->out, "[");
    for (uint32_t i = 0; i < shown; i++) {
        output_text(&f->out, i ? ",{\"token\":" : "{\"token\":");
        write_token(f, f->order[i]);
        output_format(&f->out, ",\"id\":%u,\"score\":", f->order[i]);
        write_score(f, f->order[i]);
        output_text(&f->out, "}");
    }
    output_text(&f->out, "]");
}

static void write_mask(struct filling *f, const struct text_label *label)
{
    uint32_t vocabulary = f->run.tool.model_info.config.vocabulary, top = f->run.tool.options->top;
    uint32_t shown = top ? top : 5;
    if (shown > vocabulary) shown = vocabulary;
    if (f->jsonl) {
        if (label->again) {
            output_text(&f->out, ",");
        } else {
            end_object(f);
            text_run_object(&f->run, &f->out, f->texts++, label);
            output_text(&f->out, ",\"masks\":[");
            f->open = true;
        }
        write_mask_json(f, shown);
        return;
    }
    output_format(&f->out, "%llu", (unsigned long long)label->line);
    for (uint32_t i = 0; i < shown; i++) {
        output_text(&f->out, "\t");
        write_token(f, f->order[i]);
        output_text(&f->out, "\t");
        write_score(f, f->order[i]);
    }
    output_text(&f->out, "\n");
}

static int write_masks(struct text_run *run, const float *values)
{
    struct filling *f = (struct filling *)run;
    uint32_t vocabulary = run->tool.model_info.config.vocabulary;
    for (uint32_t s = 0; s < run->batch.sequences; s++, values += vocabulary) {
        memcpy(f->scores, values, vocabulary * sizeof *values);
        wherry_scores_apply(WHERRY_SCORES_SOFTMAX, f->scores, 1, vocabulary);
        scores_sort(f->scores, vocabulary, f->order);
        write_mask(f, &run->batch.labels[s]);
    }
    return output_ok(&f->out) ? EXIT_FINE : EXIT_OUTPUT;
}

/* ---- the command ---- */

static int check_model(const struct text_run *run)
{
    const wherry_model_info *info = &run->tool.model_info;
    if (info->config.head != WHERRY_HEAD_VOCABULARY)
        return complain(EXIT_INPUT, "%s (%s) fills no masks: that is a model such as BertForMaskedLM, with its head",
                        run->tool.options->model, info->architecture);
    if (info->mask_token < 0) return complain(EXIT_INPUT, "%s: its tokenizer has no mask", run->tool.options->model);
    return EXIT_FINE;
}

static int fill_texts(struct filling *f)
{
    struct tool *tool = &f->run.tool;
    uint32_t vocabulary = tool->model_info.config.vocabulary;
    f->order = need(malloc(vocabulary * sizeof *f->order));
    f->scores = need(malloc(vocabulary * sizeof *f->scores));
    int code = token_names_read(tool, &f->names);
    if (code) return code;
    if (!output_open(&f->out, tool->options->output)) return EXIT_OUTPUT;
    code = text_run_all(&f->run, write_masks);
    end_object(f);
    bool written = output_close(&f->out, code == EXIT_FINE);
    return code ? code : written ? EXIT_FINE : EXIT_OUTPUT;
}

int fill_command(const struct options *options)
{
    struct filling f = {.jsonl = false};
    int code = scores_check(options, &f.jsonl);
    if (!code) code = text_run_open(&f.run, options);
    if (!code) code = check_model(&f.run);
    if (!code) {
        f.run.batch.mask = f.run.tool.model_info.mask_token;
        f.run.batch.masked = true;
        /* A result has as many values as the vocabulary: few texts at a time. */
        code = text_run_start(
            &f.run, (wherry_session_desc){.output = WHERRY_OUTPUT_VOCABULARY, .max_sequences = TEXT_MASKS_MOST});
    }
    if (!code) code = fill_texts(&f);
    if (!code) text_run_tell(&f.run);
    token_names_free(&f.names);
    free(f.order);
    free(f.scores);
    text_run_close(&f.run);
    return code;
}
