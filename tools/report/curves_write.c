/* Logs of trainings as tables, JSON and CSV. */
#include <math.h>

#include "report/curves.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/write.h"
#include "session.h"

enum { COLUMNS = 9 };
static const char head[] = "~log|>steps|>skipped|>tokens|>s|>tokens/s|>loss|>to|>held out|>to";

static void cells(const struct curve_log *log, char out[COLUMNS][NUMBER_SIZE])
{
    struct curve_sum sum = curves_sum(log);
    const double values[COLUMNS] = {sum.steps,      sum.skipped,   sum.tokens,           sum.seconds,        sum.rate,
                                    sum.first_loss, sum.last_loss, sum.first_evaluation, sum.last_evaluation};
    for (int n = 0; n < COLUMNS; n++) {
        if (isnan(values[n]))
            snprintf(out[n], NUMBER_SIZE, "-");
        else if (n < 3)
            snprintf(out[n], NUMBER_SIZE, "%.0f", values[n]);
        else
            format_short(values[n], out[n]);
    }
}

void curves_text(struct output *out, const struct curves *curves)
{
    struct table table = {.columns = head};
    char values[COLUMNS][NUMBER_SIZE];
    for (size_t n = 0; n < curves->count; n++) {
        cells(&curves->logs[n], values);
        table_cell(&table, "%s", curves->logs[n].name);
        for (int c = 0; c < COLUMNS; c++) table_cell(&table, "%s", values[c]);
    }
    table_print(&table, out);
    output_text(out, "loss: mean over the first and the last tenth of the steps\n");
}

void curves_markdown(struct output *out, const struct curves *curves)
{
    char values[COLUMNS][NUMBER_SIZE];
    markdown_head(out,
                  "log|>steps|>skipped|>tokens|>seconds|>tokens/s|>loss, first tenth|>last|>held out, first|>last");
    for (size_t n = 0; n < curves->count; n++) {
        cells(&curves->logs[n], values);
        output_text(out, "|");
        markdown_cell(out, curves->logs[n].name);
        for (int c = 0; c < COLUMNS; c++) markdown_cell(out, values[c]);
        output_text(out, "\n");
    }
}

void curves_csv(struct output *out, const struct curves *curves)
{
    char text[NUMBER_SIZE];
    output_text(out, "log,step,loss,held_out_loss,rate,norm,tokens,seconds\r\n");
    for (size_t n = 0; n < curves->count; n++) {
        const struct curve_log *log = &curves->logs[n];
        for (size_t i = 0; i < log->count; i++) {
            const struct curve_step *s = &log->steps[i];
            const double values[] = {s->loss, NAN, s->rate, s->norm, s->tokens, s->seconds};
            csv_text(out, log->name);
            output_format(out, ",%.0f", s->step);
            for (size_t c = 0; c < sizeof values / sizeof *values; c++)
                output_format(out, ",%s", format_exact(values[c], text));
            output_text(out, "\r\n");
        }
        for (size_t i = 0; i < log->evaluation_count; i++) {
            csv_text(out, log->name);
            output_format(out, ",%.0f,,%s,,,,\r\n", log->evaluations[i].step,
                          format_exact(log->evaluations[i].loss, text));
        }
    }
}

static json_t *sum_json(const struct curve_log *log)
{
    struct curve_sum sum = curves_sum(log);
    return need(json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "steps", sum.steps, "skipped",
                          sum.skipped, "tokens", number_json(sum.tokens), "seconds", number_json(sum.seconds),
                          "tokens_per_second", number_json(sum.rate), "first_loss", number_json(sum.first_loss),
                          "last_loss", number_json(sum.last_loss), "first_evaluation",
                          number_json(sum.first_evaluation), "last_evaluation", number_json(sum.last_evaluation),
                          "best_evaluation", number_json(sum.best_evaluation)));
}

json_t *curves_json(const struct curves *curves)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < curves->count; n++) {
        const struct curve_log *log = &curves->logs[n];
        json_t *steps = need(json_array()), *evaluations = need(json_array());
        for (size_t i = 0; i < log->count; i++)
            json_array_append_new(steps,
                                  need(json_pack("[f, o, o, o]", log->steps[i].step, number_json(log->steps[i].loss),
                                                 number_json(log->steps[i].rate), number_json(log->steps[i].norm))));
        for (size_t i = 0; i < log->evaluation_count; i++)
            json_array_append_new(evaluations, need(json_pack("[f, o]", log->evaluations[i].step,
                                                              number_json(log->evaluations[i].loss))));
        json_array_append_new(list, need(json_pack("{s:o, s:o, s:o, s:o, s:o}", "log", text_json(log->name), "head",
                                                   log->head ? json_incref(log->head) : json_null(), "sum",
                                                   sum_json(log), "steps", steps, "evaluations", evaluations)));
    }
    return list;
}
