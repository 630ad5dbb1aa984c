/* One line of training data. */
#include "train/example.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "plain_text.h"

static bool refuse(struct example *example, const char *format, ...) PRINTF_LIKE(2, 3);
static bool refuse(struct example *example, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(example->problem, sizeof example->problem, format, ap);
    va_end(ap);
    return false;
}

void example_clear(struct example *example)
{
    json_decref(example->object);
    free(example->values);
    free(example->word_ends);
    free(example->word_labels);
    free(example->joined);
    *example = (struct example){.object = NULL};
}

/* ---- columns ---- */

/* Names by which labels are known; every other column is a text. */
static bool is_label(const struct example_form *form, const char *name)
{
    if (form->next) return !strcmp(name, "next");
    static const char *const names[] = {"label", "labels", "score", "scores", "tags", "ner_tags"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (!strcmp(name, names[n])) return true;
    return false;
}

static bool has_label(const struct example_form *form)
{
    return form->next || (form->task != TASK_CONTRASTIVE && form->task != TASK_MLM);
}

static void columns_range(const struct example_form *form, uint32_t *least, uint32_t *most)
{
    enum train_task task = form->task;
    if (form->next) {
        *least = *most = 2;
        return;
    }
    *least = task == TASK_CONTRASTIVE || task == TASK_SCORED ? 2 : 1;
    *most = task == TASK_CONTRASTIVE ? COLUMNS_MAX : task == TASK_MLM || task == TASK_TOKENS ? 1 : 2;
}

bool example_columns(struct example_form *form, const char *names)
{
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        if (form->columns == COLUMNS_MAX) return complain(0, "--columns takes at most %d names", COLUMNS_MAX), false;
        if (!length || length >= COLUMN_NAME)
            return complain(0, "--columns takes names of 1 to %d bytes with commas between them", COLUMN_NAME - 1),
                   false;
        memcpy(form->names[form->columns], at, length);
        form->names[form->columns++][length] = 0;
        at += length;
        if (!*at) return true;
    }
}

static bool check_columns(struct example *e, const struct example_form *form, uint32_t columns)
{
    uint32_t least, most;
    columns_range(form, &least, &most);
    if (columns < least)
        return refuse(e, "%s, and this task takes %s", columns ? "one text" : "there is no text",
                      least == 2 ? "two or more, each in a column of its own" : "one");
    if (columns > most)
        return refuse(e, "%u columns with texts, and this task takes at most %u: name those that count by --columns",
                      columns, most);
    return true;
}

/* The first line's columns are those of all. */
static bool find_columns(struct example *e, struct example_form *form)
{
    const char *name;
    json_t *value;
    uint32_t columns = 0;
    if (form->columns) return check_columns(e, form, form->columns);
    json_object_foreach(e->object, name, value)
    {
        if (is_label(form, name)) continue;
        if (columns == COLUMNS_MAX || strlen(name) >= COLUMN_NAME)
            return refuse(e, "more than %d columns, or a name longer than %d bytes: name those that count by --columns",
                          COLUMNS_MAX, COLUMN_NAME - 1);
        snprintf(form->names[columns++], COLUMN_NAME, "%s", name);
    }
    if (!check_columns(e, form, columns)) return false;
    form->columns = columns;
    return true;
}

/* ---- texts ---- */

static bool is_blank(const char *text, size_t bytes)
{
    while (bytes && strchr(" \t\r\n", text[bytes - 1]) && text[bytes - 1]) bytes--;
    return !bytes;
}

static bool take_text(struct example *e, const struct example_form *form, uint32_t column, const char *text,
                      size_t bytes)
{
    if (is_blank(text, bytes))
        return form->jsonl ? refuse(e, "\"%s\" is empty", form->names[column])
                           : refuse(e, "column %u is empty", column + 1);
    e->texts[column] = (struct example_text){text, bytes};
    e->columns = column + 1;
    return true;
}

/* What stands in a field, for messages. */
static const char *kind_name(const json_t *value)
{
    return json_is_null(value)      ? "null"
           : json_is_array(value)   ? "an array"
           : json_is_object(value)  ? "an object"
           : json_is_boolean(value) ? "true or false"
           : json_is_number(value)  ? "a number"
                                    : "a string";
}

static bool take_texts(struct example *e, struct example_form *form)
{
    if (!find_columns(e, form)) return false;
    for (uint32_t n = 0; n < form->columns; n++) {
        const json_t *value = json_object_get(e->object, form->names[n]);
        if (!value) return refuse(e, "the field \"%s\" is missing", form->names[n]);
        if (!json_is_string(value))
            return refuse(e, "\"%s\" is %s, not a string; columns that are no texts are left out by --columns",
                          form->names[n], kind_name(value));
        if (!take_text(e, form, n, json_string_value(value), json_string_length(value))) return false;
    }
    return true;
}

/* ---- labels ---- */

static bool label_by_name(struct example *e, const struct example_form *form, const char *text, int32_t *out)
{
    const char *name;
    for (uint32_t n = 0; (name = form->label_name(n, form->user)) != NULL; n++)
        if (!strcmp(name, text)) {
            *out = (int32_t)n;
            return true;
        }
    return refuse(e, "the model has no label \"%.60s\": it has %u, \"%.60s\" to \"%.60s\"", text, form->labels,
                  form->label_name(0, form->user), form->label_name(form->labels - 1, form->user));
}

static bool label_by_number(struct example *e, const struct example_form *form, double value, int32_t *out)
{
    if (value != floor(value) || ((value < 0 || value >= form->labels) && value != IGNORED))
        return refuse(e, "the label %.17g is out of range: the model has %u, 0 to %u (and %d: does not count)", value,
                      form->labels, form->labels - 1, IGNORED);
    *out = (int32_t)value;
    return true;
}

static bool label_of(struct example *e, const struct example_form *form, const json_t *value, int32_t *out)
{
    if (json_is_string(value)) return label_by_name(e, form, json_string_value(value), out);
    if (json_is_boolean(value)) return label_by_number(e, form, json_is_true(value), out);
    if (json_is_number(value)) return label_by_number(e, form, json_number_value(value), out);
    return refuse(e, "a label is %s, not a number or a name", kind_name(value));
}

static bool number_of(struct example *e, double value, float *out)
{
    *out = (float)value;
    if (isfinite(*out)) return true;
    return refuse(e, "the score %g is not finite in f32", value);
}

/* Any number of labels: a list of them, or one. */
static bool take_several(struct example *e, const struct example_form *form, const json_t *value)
{
    e->n_values = form->labels;
    e->values = need(calloc(form->labels, sizeof *e->values));
    if (form->labels == 1 && json_is_number(value)) return number_of(e, json_number_value(value), e->values);
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t n = 0; n < count; n++) {
        int32_t label = IGNORED;
        if (!label_of(e, form, json_is_array(value) ? json_array_get(value, n) : value, &label)) return false;
        if (label >= 0) e->values[label] = 1;
    }
    return true;
}

static bool take_numbers(struct example *e, size_t expected, const json_t *value)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count != expected) return refuse(e, "%zu scores, and the model makes %zu", count, expected);
    e->n_values = count;
    e->values = need(calloc(count, sizeof *e->values));
    for (size_t n = 0; n < count; n++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, n) : value;
        if (!json_is_number(one) && !json_is_boolean(one))
            return refuse(e, "the score is %s, not a number", kind_name(one));
        double number = json_is_boolean(one) ? json_is_true(one) : json_number_value(one);
        if (!number_of(e, number, &e->values[n])) return false;
    }
    return true;
}

/* True or false, or 1 or 0. */
static bool take_next(struct example *e, const json_t *value)
{
    bool number = json_is_number(value) && (json_number_value(value) == 0 || json_number_value(value) == 1);
    if (!number && json_is_number(value))
        return refuse(e,
                      "\"next\" is %.17g: true or 1 is for a text that comes after the first, false or 0 for another",
                      json_number_value(value));
    if (!number && !json_is_boolean(value)) return refuse(e, "\"next\" is %s, not true or false", kind_name(value));
    e->label = json_is_true(value) || (number && json_number_value(value) == 1) ? NEXT_FOLLOWS : NEXT_ELSEWHERE;
    return true;
}

static bool take_label(struct example *e, const struct example_form *form, const json_t *value)
{
    if (form->next) return take_next(e, value);
    if (form->task == TASK_SCORED) return take_numbers(e, 1, value);
    if (form->task == TASK_REGRESS) return take_numbers(e, form->labels, value);
    return form->several ? take_several(e, form, value) : label_of(e, form, value, &e->label);
}

static const json_t *find_label(const struct example_form *form, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) if (is_label(form, name)) return value;
    return NULL;
}

/* ---- words ---- */

static bool take_words(struct example *e, struct example_form *form)
{
    if (!form->columns) {
        form->columns = 1;
        snprintf(form->names[0], COLUMN_NAME, "tokens");
    }
    const json_t *words = json_object_get(e->object, form->names[0]);
    const json_t *labels = find_label(form, e->object);
    size_t count = json_array_size(words), bytes = 0;
    if (!json_is_array(words)) return refuse(e, "an array \"%s\" of words is needed", form->names[0]);
    if (!json_is_array(labels)) return refuse(e, "an array \"labels\" (or \"tags\") is needed, one for each word");
    if (json_array_size(labels) != count) return refuse(e, "%zu words and %zu labels", count, json_array_size(labels));
    if (!count) return refuse(e, "\"%s\" is empty", form->names[0]);
    for (size_t n = 0; n < count; n++) bytes += json_string_length(json_array_get(words, n)) + 1;
    e->joined = need(malloc(bytes + 1));
    e->word_ends = need(malloc(count * sizeof *e->word_ends));
    e->word_labels = need(malloc(count * sizeof *e->word_labels));
    e->words = count;
    size_t at = 0;
    for (size_t n = 0; n < count; n++) {
        const json_t *word = json_array_get(words, n);
        if (!json_is_string(word)) return refuse(e, "word %zu is %s, not a string", n + 1, kind_name(word));
        if (n) e->joined[at++] = ' ';
        memcpy(e->joined + at, json_string_value(word), json_string_length(word));
        e->word_ends[n] = at += json_string_length(word);
        if (!label_of(e, form, json_array_get(labels, n), &e->word_labels[n])) return false;
    }
    e->joined[at] = 0;
    if (is_blank(e->joined, at)) return refuse(e, "all words are empty");
    e->texts[0] = (struct example_text){e->joined, at};
    e->columns = 1;
    return true;
}

/* ---- lines ---- */

static bool read_object(struct example *e, struct example_form *form, const char *line, size_t bytes)
{
    static const struct json_limits limits = {
        .bytes = SIZE_MAX, .values = 1 << 20, .depth = 16}; /* lines are bounded */
    char why[JSON_WHY];
    wherry_status status = json_read(line, bytes, &limits, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &e->object, why);
    if (status == WHERRY_STATUS_OUT_OF_HOST_MEMORY) need(NULL);
    if (status) return refuse(e, "%s", why);
    if (!json_is_object(e->object))
        return refuse(e, "%s, and an object is needed, as {\"text\": \"...\"}", kind_name(e->object));
    if (form->task == TASK_TOKENS) return take_words(e, form);
    if (!take_texts(e, form)) return false;
    if (!has_label(form)) return true;
    const json_t *label = find_label(form, e->object);
    if (!label)
        return refuse(e, "the field \"%s\" is missing",
                      form->next                    ? "next"
                      : form->task == TASK_CLASSIFY ? "label"
                                                    : "score");
    return take_label(e, form, label);
}

/* A label as plain text has it: a number, or a name. */
static bool read_label(struct example *e, const struct example_form *form, const char *text)
{
    json_t *value = json_string(text);
    json_t *number = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    bool fine = take_label(e, form, json_is_number(number) ? number : need(value));
    json_decref(number);
    json_decref(value);
    return fine;
}

static bool read_columns(struct example *e, struct example_form *form, char *line, size_t bytes)
{
    uint32_t columns = 0;
    bool last = false;
    if (form->task == TASK_TOKENS) return refuse(e, "words and their labels are read as JSONL: --input jsonl");
    if (form->task == TASK_MLM) return take_text(e, form, 0, line, bytes);
    for (char *at = line, *end = line + bytes; !last;) {
        char *tab = memchr(at, '\t', (size_t)(end - at)), *stop = tab ? tab : end;
        last = !tab;
        *stop = 0;
        if (last && has_label(form)) {
            if (!check_columns(e, form, columns) || !read_label(e, form, at)) return false;
            break;
        }
        if (columns == COLUMNS_MAX) return refuse(e, "more than %d columns", COLUMNS_MAX);
        if (!take_text(e, form, columns++, at, (size_t)(stop - at))) return false;
        at = stop + 1;
    }
    if (!check_columns(e, form, columns)) return false;
    if (!form->columns) form->columns = columns;
    return form->columns == columns ||
           refuse(e, "%u columns with texts, and the first line has %u", columns, form->columns);
}

bool example_read(struct example *e, struct example_form *form, char *line, size_t bytes)
{
    example_clear(e);
    char *repaired = need(malloc(3 * bytes + 1));
    size_t size = repair_utf8(line, bytes, repaired);
    bool same = size == bytes && !memcmp(line, repaired, bytes);
    free(repaired);
    if (!same) return refuse(e, "it is not UTF-8");
    return form->jsonl ? read_object(e, form, line, bytes) : read_columns(e, form, line, bytes);
}
