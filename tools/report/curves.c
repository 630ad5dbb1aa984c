/* Logs of trainings: reading, and what they come to. */
#include "report/curves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "report/fields.h"
#include "report/folder.h"

enum { LINE_MOST = 1 << 24 };

bool curves_is_log(const char *path)
{
    static const char ending[] = ".jsonl";
    size_t length = strlen(path), own = sizeof ending - 1;
    return length > own && strcmp(path + length - own, ending) == 0;
}

/* ---- reading ---- */

static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = path_copy(slash ? slash + 1 : path);
    name[strlen(name) - strlen(".jsonl")] = 0;
    return name;
}

static void add_step(struct curve_log *log, const json_t *line)
{
    if ((log->count & (log->count - 1)) == 0) /* room for a power of two */
        log->steps = need(realloc(log->steps, (log->count ? 2 * log->count : 1) * sizeof *log->steps));
    log->steps[log->count++] = (struct curve_step){.step = field_number(line, "step"),
                                                   .loss = field_number(line, "loss"),
                                                   .rate = field_number(line, "rate"),
                                                   .norm = field_number(line, "norm"),
                                                   .tokens = field_number(line, "tokens"),
                                                   .seconds = field_number(line, "seconds"),
                                                   .skipped = field_true(line, "skipped")};
}

static void add_evaluation(struct curve_log *log, const json_t *line)
{
    size_t n = log->evaluation_count++;
    log->evaluations = need(realloc(log->evaluations, log->evaluation_count * sizeof *log->evaluations));
    log->evaluations[n] = (struct curve_evaluation){field_number(line, "step"), field_number(line, "evaluation.loss")};
}

/* False: it is no object of JSON. */
static bool take_line(struct curve_log *log, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    bool object = json_is_object(line), step = json_is_integer(json_object_get(line, "step"));
    if (step && json_is_object(json_object_get(line, "evaluation")))
        add_evaluation(log, line);
    else if (step && json_object_get(line, "loss"))
        add_step(log, line);
    else if (object && !log->head && json_is_object(json_object_get(line, "run")))
        log->head = json_incref(line);
    json_decref(line);
    return object;
}

/* The next line without its end, in memory that grows; NULL: there is none. */
static char *read_line(FILE *file, char **memory, size_t *room)
{
    size_t size = 0;
    int c;
    while ((c = getc(file)) != EOF && c != '\n' && size < LINE_MOST) {
        if (size + 2 > *room) *memory = need(realloc(*memory, *room = 2 * *room + 256));
        (*memory)[size++] = (char)c;
    }
    if (c == EOF && !size) return NULL;
    if (size + 1 > *room) *memory = need(realloc(*memory, *room = *room + 1));
    (*memory)[size] = 0;
    return *memory;
}

static bool read_log(struct curve_log *log, FILE *file, const char *path)
{
    char *memory = NULL;
    size_t room = 0, number = 0;
    bool fine = true;
    for (char *line; fine && (line = read_line(file, &memory, &room));) {
        number++;
        if (line[strspn(line, " \t\r")]) fine = take_line(log, line);
        if (!fine) complain(0, "%s, line %zu: no object of JSON, as wherry train --log writes them", path, number);
    }
    free(memory);
    if (fine && ferror(file)) fine = (complain(0, "can't read %s: %s", path, strerror(errno)), false);
    if (fine && !log->count)
        fine = (complain(0,
                         "%s: no step of a training: wherry train --log writes an object with \"step\" and \"loss\" "
                         "for each",
                         path),
                false);
    return fine;
}

bool curves_load(struct curves *curves, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return complain(0, "can't open %s: %s", path, strerror(errno)), false;
    curves->logs = need(realloc(curves->logs, (curves->count + 1) * sizeof *curves->logs));
    struct curve_log *log = &curves->logs[curves->count++];
    *log = (struct curve_log){.name = name_of(path)};
    bool fine = read_log(log, file, path);
    fclose(file);
    return fine;
}

void curves_close(struct curves *curves)
{
    for (size_t n = 0; n < curves->count; n++) {
        free(curves->logs[n].name);
        free(curves->logs[n].steps);
        free(curves->logs[n].evaluations);
        json_decref(curves->logs[n].head);
    }
    free(curves->logs);
    *curves = (struct curves){.count = 0};
}

/* ---- sums ---- */

double curve_value(const struct curve_step *step, enum curve_kind kind)
{
    switch (kind) {
    case CURVE_LOSS:
        return step->loss;
    case CURVE_RATE:
        return step->rate;
    case CURVE_NORM:
        return step->norm;
    default:
        return step->seconds > 0 ? step->tokens / step->seconds : (double)NAN;
    }
}

/* Of those that are numbers; NAN: none is. */
static double mean_of(const struct curve_log *log, size_t first, size_t end)
{
    double sum = 0, count = 0;
    for (size_t n = first; n < end; n++) {
        if (isnan(log->steps[n].loss)) continue;
        sum += log->steps[n].loss;
        count++;
    }
    return count > 0 ? sum / count : (double)NAN;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_speed(const struct curve_log *log)
{
    double *speeds = need(calloc(log->count + 1, sizeof *speeds)), median = NAN;
    size_t count = 0;
    for (size_t n = 0; n < log->count; n++) {
        double speed = curve_value(&log->steps[n], CURVE_SPEED);
        if (!isnan(speed)) speeds[count++] = speed;
    }
    qsort(speeds, count, sizeof *speeds, compare_numbers);
    if (count) median = (speeds[(count - 1) / 2] + speeds[count / 2]) / 2;
    free(speeds);
    return median;
}

struct curve_sum curves_sum(const struct curve_log *log)
{
    const size_t tenth = (log->count + 9) / 10, n = log->evaluation_count;
    struct curve_sum sum = {.steps = (double)log->count,
                            .first_loss = mean_of(log, 0, tenth),
                            .last_loss = mean_of(log, log->count - tenth, log->count),
                            .first_evaluation = n ? log->evaluations[0].loss : (double)NAN,
                            .last_evaluation = n ? log->evaluations[n - 1].loss : (double)NAN,
                            .best_evaluation = NAN,
                            .rate = median_speed(log)};
    for (size_t i = 0; i < n; i++) sum.best_evaluation = fmin(sum.best_evaluation, log->evaluations[i].loss);
    for (size_t i = 0; i < log->count; i++) {
        sum.skipped += log->steps[i].skipped;
        sum.tokens += log->steps[i].tokens;
        sum.seconds += log->steps[i].seconds;
    }
    return sum;
}
