/* Measured layouts as tables: text, Markdown, CSV; and whether a JSON value is a record of them. */
#include "report/layouts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/fields.h"
#include "report/format.h"
#include "report/write.h"

static const struct field record_rules[] = {
    {"schema", 's'},    {"run", 'o'},         {"run.library", 's'},   {"run.date", 's'}, {"device", 'o'},
    {"device.id", 's'}, {"device.name", 's'}, {"device.driver", 's'}, {"model", 's'},    {"sizes", 'o'},
    {"dtype", 's'},     {"caches", 's'},      {"sample", 'N'},        {"seed", 'i'},     {"seconds", 'n'},
    {"source", 's'},    {"works", 'a'}};
static const struct field work_rules[] = {{"name", 's'},
                                          {"kind", 's'},
                                          {"tensors", 's'},
                                          {"space", 'n'},
                                          {"measured", 'i'},
                                          {"wrong", 'i'},
                                          {"refused", 'i'},
                                          {"best_us", 'N'},
                                          {"worst_us", 'N'},
                                          {"default_us", 'N'},
                                          {"shipped_us", 'N'},
                                          {"paper", 'o'},
                                          {"times", 'a'},
                                          {"paper.best_us", 'N'},
                                          {"paper.worst_us", 'N'},
                                          {"paper.half_best_us", 'M'},
                                          {"paper.half_worst_us", 'M'}};
static const struct field time_rules[] = {{"number", 'i'}, {"layout", 's'}, {"drawn", 'b'},
                                          {"us", 'M'},     {"low_us", 'M'}, {"high_us", 'M'}};

bool layouts_is(const json_t *value) { return strcmp(field_text(value, "schema"), LAYOUTS_SCHEMA) == 0; }

static bool times_fit(const json_t *work, const char *where, char why[256])
{
    size_t n;
    json_t *time;
    json_array_foreach(json_object_get(work, "times"), n, time)
    {
        char place[128];
        snprintf(place, sizeof place, "%s.times[%zu]", where, n);
        if (!json_is_object(time)) return snprintf(why, 256, "%s is no object", place), false;
        if (!object_fits(time, FIELDS(time_rules), place, why)) return false;
    }
    return true;
}

bool layouts_validate(const json_t *value, char why[256])
{
    size_t n;
    json_t *work;
    if (!json_is_object(value)) return snprintf(why, 256, "it is no object"), false;
    if (!layouts_is(value)) return snprintf(why, 256, "its schema is not " LAYOUTS_SCHEMA), false;
    if (!object_fits(value, FIELDS(record_rules), "", why)) return false;
    json_array_foreach(json_object_get(value, "works"), n, work)
    {
        char where[64];
        snprintf(where, sizeof where, "works[%zu]", n);
        if (!json_is_object(work)) return snprintf(why, 256, "%s is no object", where), false;
        if (!object_fits(work, FIELDS(work_rules), where, why) || !times_fit(work, where, why)) return false;
    }
    return true;
}

/* ---- tables ---- */

/* The layout of the fastest, "-": none was right. */
static const char *best_layout(const json_t *work)
{
    const char *layout = "-";
    double best = INFINITY;
    size_t n;
    json_t *time;
    json_array_foreach(json_object_get(work, "times"), n, time)
    {
        double us = field_number(time, "us");
        if (!(us < best)) continue;
        best = us;
        layout = field_text(time, "layout");
    }
    return layout;
}

enum { NUMBERS = 12 };

static void work_numbers(const json_t *work, double numbers[NUMBERS])
{
    const double best = field_number(work, "best_us"), worst = field_number(work, "worst_us");
    const double paper_best = field_number(work, "paper.best_us"), paper_worst = field_number(work, "paper.worst_us");
    const double all[NUMBERS] = {field_number(work, "space"),
                                 field_number(work, "measured"),
                                 field_number(work, "wrong"),
                                 best,
                                 worst,
                                 worst / best,
                                 field_number(work, "default_us"),
                                 field_number(work, "default_us") / best,
                                 field_number(work, "shipped_us"),
                                 paper_best,
                                 paper_worst,
                                 paper_worst / paper_best};
    memcpy(numbers, all, sizeof all);
}

static const char *number_text(const double *numbers, size_t n, char text[NUMBER_SIZE])
{
    if (n < 3) snprintf(text, NUMBER_SIZE, "%.0f", numbers[n]);
    return n < 3 ? text : format_short(numbers[n], text);
}

static void head_write(const json_t *value, char *head, size_t size)
{
    const double sample = field_number(value, "sample");
    char drawn[64] = "the whole space";
    if (isfinite(sample))
        snprintf(drawn, sizeof drawn, "%.0f of each drawn, seed %.0f", sample, field_number(value, "seed"));
    snprintf(head, size, "%.80s (%.40s), %.60s, %.0f x %.0f, %.8s, warm, %s", field_text(value, "device.name"),
             field_text(value, "device.id"), field_text(value, "model"), field_number(value, "sizes.b"),
             field_number(value, "sizes.j"), field_text(value, "dtype"), drawn);
}

void layouts_text(struct output *out, const json_t *values)
{
    size_t v, w;
    json_t *value, *work;
    json_array_foreach(values, v, value)
    {
        char head[512];
        struct table table = {.columns =
                                  "<layouts of|>space|>measured|>wrong|>best us|>worst us|>worst/best|>default us|"
                                  ">default/best|>shipped us|>paper best|>paper worst|>its ratio|~best layout",
                              .width = 160};
        head_write(value, head, sizeof head);
        output_format(out, "%s%s\n\n", v ? "\n" : "", head);
        json_array_foreach(json_object_get(value, "works"), w, work)
        {
            double numbers[NUMBERS];
            char text[NUMBER_SIZE];
            work_numbers(work, numbers);
            table_cell(&table, "%s", field_text(work, "name"));
            for (size_t n = 0; n < NUMBERS; n++) table_cell(&table, "%s", number_text(numbers, n, text));
            table_cell(&table, "%s", best_layout(work));
        }
        if (json_array_size(json_object_get(value, "works"))) table_print(&table, out);
        output_format(out, "\npaper: %s; shipped: what the plan \"paper\" runs for it\n", field_text(value, "source"));
    }
}

void layouts_markdown(struct output *out, const json_t *values)
{
    size_t v, w;
    json_t *value, *work;
    json_array_foreach(values, v, value)
    {
        char head[512];
        head_write(value, head, sizeof head);
        output_text(out, v ? "\n## " : "## ");
        markdown_text(out, head);
        output_text(out, "\n\n");
        markdown_head(out, "layouts of|>space|>measured|>wrong|>best, µs|>worst, µs|>worst/best|>default, µs|"
                           ">default/best|>shipped, µs|>paper best|>paper worst|>its ratio|best layout");
        json_array_foreach(json_object_get(value, "works"), w, work)
        {
            double numbers[NUMBERS];
            char text[NUMBER_SIZE];
            work_numbers(work, numbers);
            output_text(out, "|");
            markdown_cell(out, field_text(work, "name"));
            for (size_t n = 0; n < NUMBERS; n++) markdown_cell(out, number_text(numbers, n, text));
            markdown_cell(out, best_layout(work));
            output_text(out, "\n");
        }
        output_text(out, "\nPaper: ");
        markdown_text(out, field_text(value, "source"));
        output_text(out, ". Shipped: what the plan paper runs for it.\n");
    }
}

void layouts_csv(struct output *out, const json_t *values)
{
    size_t v, w, t;
    json_t *value, *work, *time;
    output_text(out,
                "date,commit,device,device_name,driver,model,dtype,work,number,layout,drawn,us,low_us,high_us\r\n");
    json_array_foreach(values, v, value) json_array_foreach(json_object_get(value, "works"), w, work)
        json_array_foreach(json_object_get(work, "times"), t, time)
    {
        const char *texts[] = {field_text(value, "run.date"),      field_text(value, "run.commit"),
                               field_text(value, "device.id"),     field_text(value, "device.name"),
                               field_text(value, "device.driver"), field_text(value, "model"),
                               field_text(value, "dtype"),         field_text(work, "name")};
        const double numbers[] = {field_number(time, "us"), field_number(time, "low_us"),
                                  field_number(time, "high_us")};
        for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
            csv_text(out, texts[n]);
            output_text(out, ",");
        }
        output_format(out, "%.0f,", field_number(time, "number"));
        csv_text(out, field_text(time, "layout"));
        output_format(out, ",%d", field_true(time, "drawn"));
        for (size_t n = 0; n < 3; n++) {
            char text[NUMBER_SIZE];
            output_format(out, ",%s", format_exact(numbers[n], text));
        }
        output_text(out, "\r\n");
    }
}
