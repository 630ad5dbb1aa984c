/* Logs of trainings, as wherry train --log writes them: curves of the loss, the rate and the speed, several logs in one
 * picture. Whoever writes such lines is drawn, too: an object a line, "step" with "loss" and perhaps "rate", "norm",
 * "tokens", "seconds" and "skipped", or "step" with "evaluation", an object that has "loss"; others are passed over. */
#ifndef WHERRY_TOOLS_REPORT_CURVES_H
#define WHERRY_TOOLS_REPORT_CURVES_H

#include "output.h"

struct curve_step {
    double step, loss, rate, norm, tokens, seconds; /* NAN: not told, or not finite */
    bool skipped;
};

struct curve_evaluation {
    double step, loss;
};

struct curve_log {
    char *name;   /* the file's, without its folder and ending */
    json_t *head; /* the first line, where it tells of the run; NULL: it does not */
    struct curve_step *steps;
    size_t count;
    struct curve_evaluation *evaluations;
    size_t evaluation_count;
};

struct curves {
    struct curve_log *logs;
    size_t count;
};

bool curves_is_log(const char *path); /* by its name */
/* Adds a log. False, having complained, where it can't be read, or has no step. */
bool curves_load(struct curves *curves, const char *path);
void curves_close(struct curves *curves);

/* Sums over a log. */
struct curve_sum {
    double steps, skipped, tokens, seconds; /* seconds, tokens: NAN where no step tells them */
    double first_loss, last_loss;           /* means over the first and the last tenth */
    double first_evaluation, last_evaluation, best_evaluation;
    double rate; /* tokens per second, by the median of the steps */
};
struct curve_sum curves_sum(const struct curve_log *log);

void curves_text(struct output *out, const struct curves *curves);
void curves_markdown(struct output *out, const struct curves *curves);
void curves_csv(struct output *out, const struct curves *curves);
/* An array, to be released. */
json_t *curves_json(const struct curves *curves);
/* A section of a page, with its charts. */
void curves_html(struct output *out, const struct curves *curves);
/* All charts as one picture that stands for itself. */
void curves_svg(struct output *out, const struct curves *curves);

/* Of charts: what they are of. */
enum curve_kind { CURVE_LOSS, CURVE_RATE, CURVE_NORM, CURVE_SPEED, CURVE_KINDS };
double curve_value(const struct curve_step *step, enum curve_kind kind);

#endif
