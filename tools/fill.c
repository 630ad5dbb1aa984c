/* `wherry fill`: what a model puts in the place of a mask. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "commands.h"
#include "scores.h"
#include "text_run.h"

struct filling {
    struct text_run run; /* first: a text_run_write gets it */
    struct output out;
    bool jsonl, open; /* open: an object whose text may have more masks */
    uint64_t texts;
    struct token_name {
        char *text; /* NULL: the tokenizer has none */
        size_t bytes;
    } * tokens;      /* [vocabulary] */
    uint32_t *order; /* [vocabulary] */
    float *scores;
};

/* ---- names of tokens ---- */

static bool keep_token(int32_t id, const char *text, size_t bytes, void *user)
{
    struct filling *f = user;
    if (id < 0 || (uint32_t)id >= f->run.tool.model_info.config.vocabulary || f->tokens[id].text) return true;
    f->tokens[id] = (struct token_name){need(malloc(bytes + 1)), bytes};
    memcpy(f->tokens[id].text, text, bytes);
    return true;
}

/* ---- writing ---- */

static void write_name(struct filling *f, const char *name, size_t bytes)
{
    if (f->jsonl) {
        output_json_string(&f->out, name, bytes);
        return;
    }
    size_t room = UTF8_SHOWN_MAX * bytes + 1;
    char *shown = need(malloc(room));
    utf8_show(name, bytes, shown, room);
    output_text(&f->out, shown);
    free(shown);
}

/* As people write it: a word begins with a space, which pieces have as U+2581. */
static void write_token(struct filling *f, uint32_t id)
{
    static const char space[] = "\xE2\x96\x81";
    char number[32];
    const struct token_name *name = &f->tokens[id];
    size_t mark = strlen(space);
    if (!name->text)
        write_name(f, number, (size_t)snprintf(number, sizeof number, "#%u", id));
    else if (name->bytes > mark && !memcmp(name->text, space, mark))
        write_name(f, name->text + mark, name->bytes - mark);
    else
        write_name(f, name->text, name->bytes);
}

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
    if (info->config.head != WHERRY_HEAD_VOCABULARY && !info->untied) /* why that is none, the session says */
        return complain(EXIT_INPUT, "%s (%s) fills no masks: that is a model such as BertForMaskedLM, with its head",
                        run->tool.options->model, info->architecture);
    if (info->mask_token < 0) return complain(EXIT_INPUT, "%s: its tokenizer has no mask", run->tool.options->model);
    return EXIT_FINE;
}

static int fill_texts(struct filling *f)
{
    struct tool *tool = &f->run.tool;
    uint32_t vocabulary = tool->model_info.config.vocabulary;
    f->tokens = need(calloc(vocabulary, sizeof *f->tokens));
    f->order = need(malloc(vocabulary * sizeof *f->order));
    f->scores = need(malloc(vocabulary * sizeof *f->scores));
    wherry_status status = wherry_model_tokens(tool->context, tool->model, keep_token, f);
    if (status) return tool_error(tool, status, NULL);
    if (!output_open(&f->out, tool->options->output)) return EXIT_OUTPUT;
    int code = text_run_all(&f->run, write_masks);
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
    for (uint32_t i = 0; f.tokens && i < f.run.tool.model_info.config.vocabulary; i++) free(f.tokens[i].text);
    free(f.tokens);
    free(f.order);
    free(f.scores);
    text_run_close(&f.run);
    return code;
}
