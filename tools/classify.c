/* `wherry classify`: labels of texts, of pairs, or of what stands in a text. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "entities.h"
#include "scores.h"
#include "text_run.h"

struct classes {
    struct text_run run; /* first: a text_run_write gets it */
    struct output out;
    bool jsonl;
    uint32_t *order; /* [labels] */
    float *scores;   /* [labels]: of one text */
};

/* ---- of texts ---- */

static void write_score(struct output *out, float score)
{
    char text[NUMBER_SIZE];
    output_write(out, text, format_float(score, text));
}

static void write_json_label(struct classes *c, uint32_t label)
{
    const char *name = wherry_model_label(c->run.tool.model, label);
    output_text(&c->out, "{\"label\":");
    output_json_string(&c->out, name, strlen(name));
    output_text(&c->out, ",\"score\":");
    write_score(&c->out, c->scores[label]);
    output_text(&c->out, "}");
}

static void write_text(struct classes *c, uint32_t sequence)
{
    const struct text_run *run = &c->run;
    uint32_t labels = run->tool.model_info.config.labels, top = run->tool.options->top;
    uint32_t shown = top ? top : c->jsonl ? labels : 1;
    if (shown > labels) shown = labels;
    if (c->jsonl) {
        text_run_object(run, &c->out, run->texts + sequence, &run->batch.labels[sequence]);
        output_text(&c->out, ",\"labels\":[");
    }
    for (uint32_t i = 0; i < shown; i++) {
        if (i) output_text(&c->out, c->jsonl ? "," : "\t");
        if (c->jsonl) {
            write_json_label(c, c->order[i]);
        } else {
            output_format(&c->out, "%s", wherry_model_label(run->tool.model, c->order[i]));
            output_text(&c->out, "\t");
            write_score(&c->out, c->scores[c->order[i]]);
        }
    }
    output_text(&c->out, c->jsonl ? "]}\n" : "\n");
}

static int write_texts(struct text_run *run, const float *values)
{
    struct classes *c = (struct classes *)run;
    uint32_t labels = run->tool.model_info.config.labels;
    for (uint32_t s = 0; s < run->batch.sequences; s++, values += labels) {
        memcpy(c->scores, values, labels * sizeof *values);
        wherry_scores_apply(scores_chosen(run), c->scores, 1, labels);
        scores_sort(c->scores, labels, c->order);
        write_text(c, s);
    }
    return output_ok(&c->out) ? EXIT_FINE : EXIT_OUTPUT;
}

/* ---- of tokens ---- */

static void write_entity(struct classes *c, const struct text_label *label, const struct entity *e)
{
    if (c->jsonl) {
        output_text(&c->out, "{\"label\":");
        output_json_string(&c->out, e->label, strlen(e->label));
        output_text(&c->out, ",\"score\":");
        write_score(&c->out, e->score);
        output_format(&c->out, ",\"start\":%zu,\"end\":%zu,\"word\":", e->start, e->end);
        output_json_string(&c->out, label->text + e->first, e->bytes);
        output_text(&c->out, "}");
    } else {
        char places[96];
        snprintf(places, sizeof places, "%llu\t%zu\t%zu\t", (unsigned long long)label->line, e->start, e->end);
        output_text(&c->out, places);
        output_format(&c->out, "%s", e->label);
        output_text(&c->out, "\t");
        write_score(&c->out, e->score);
        output_text(&c->out, "\t");
        output_format(&c->out, "%.*s\n", (int)e->bytes, label->text + e->first);
    }
}

static int write_tokens(struct text_run *run, const float *values)
{
    struct classes *c = (struct classes *)run;
    uint32_t labels = run->tool.model_info.config.labels;
    for (uint32_t s = 0; s < run->batch.sequences; s++) {
        const struct text_label *label = &run->batch.labels[s];
        size_t rows = text_run_rows(run, s), count;
        struct entity *entities;
        int code = entities_find(run, s, values, &entities, &count);
        if (code) return code;
        if (c->jsonl) {
            text_run_object(run, &c->out, run->texts + s, label);
            output_text(&c->out, ",\"entities\":[");
        }
        for (size_t i = 0; i < count; i++) {
            if (i && c->jsonl) output_text(&c->out, ",");
            write_entity(c, label, &entities[i]);
        }
        if (c->jsonl) output_text(&c->out, "]}\n");
        free(entities);
        values += rows * labels;
    }
    return output_ok(&c->out) ? EXIT_FINE : EXIT_OUTPUT;
}

/* ---- the command ---- */

static int check_model(const struct text_run *run)
{
    const struct options *options = run->tool.options;
    wherry_head head = run->tool.model_info.config.head;
    if (run->tool.model_info.pair_template && !options->tokens && !options->pairs && options->input != INPUT_JSONL + 1)
        return complain(EXIT_INPUT, "%s (%s) is asked about pairs: give --pairs", options->model,
                        run->tool.model_info.architecture);
    if (head == (options->tokens ? WHERRY_HEAD_TOKENS : WHERRY_HEAD_SEQUENCE)) return EXIT_FINE;
    return complain(EXIT_INPUT, "%s (%s) has no classes of %s%s", options->model, run->tool.model_info.architecture,
                    options->tokens ? "tokens" : "texts",
                    head == WHERRY_HEAD_TOKENS     ? ": it has some of tokens, give --tokens"
                    : head == WHERRY_HEAD_SEQUENCE ? ": it has some of texts, leave --tokens out"
                                                   : "");
}

static int check_options(const struct options *options, bool *jsonl)
{
    int code = scores_check(options, jsonl);
    if (code) return code;
    if (options->aggregation && !options->tokens) return complain(EXIT_USAGE, "--aggregation is for --tokens");
    if (options->tokens && (options->top || options->scores))
        return complain(EXIT_USAGE, "--top and --scores are for texts: leave them out with --tokens");
    if (options->tokens && options->pairs) return complain(EXIT_USAGE, "--tokens takes single texts, not --pairs");
    return EXIT_FINE;
}

static int classify_texts(struct classes *c)
{
    uint32_t labels = c->run.tool.model_info.config.labels;
    if (!output_open(&c->out, c->run.tool.options->output)) return EXIT_OUTPUT;
    c->order = need(malloc(labels * sizeof *c->order));
    c->scores = need(malloc(labels * sizeof *c->scores));
    int code = text_run_all(&c->run, c->run.per_token ? write_tokens : write_texts);
    bool written = output_close(&c->out, code == EXIT_FINE);
    return code ? code : written ? EXIT_FINE : EXIT_OUTPUT;
}

int classify_command(const struct options *options)
{
    struct classes c = {.jsonl = false};
    int code = check_options(options, &c.jsonl);
    if (!code) code = text_run_open(&c.run, options);
    if (!code) code = check_model(&c.run);
    if (!code) {
        c.run.per_token = options->tokens;
        if (options->tokens) c.run.batch.keep_texts = c.run.batch.keep_places = true;
        code = text_run_start(&c.run, (wherry_session_desc){.output = options->tokens ? WHERRY_OUTPUT_TOKEN_CLASSES
                                                                                      : WHERRY_OUTPUT_CLASSES});
    }
    if (!code) code = classify_texts(&c);
    if (!code) text_run_tell(&c.run);
    free(c.order);
    free(c.scores);
    text_run_close(&c.run);
    return code;
}
