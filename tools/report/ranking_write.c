/* The ranking of devices as text, Markdown and a section of the page. */
#include "report/ranking.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/format.h"
#include "report/write.h"

static const char head[] = "~device|<API|<type|>ms|>tokens/s|>tokens/GB|>% roof|>tokens/J|>predicted ms|>x";

static const char how[] = "The same work on each device, its fastest plan, by the host's clock.\n"
                          "tokens/GB: for each gigabyte that its memory could have moved in that time.\n"
                          "predicted: the least by its measured ceilings and the graph's counts alone; x:\n"
                          "how many times that was measured. % roof: the prediction over the time of its\n"
                          "kernels. tokens/J: by the power noted beside the record, empty where no driver\n"
                          "told it. A device without a time did not run this: the prediction is all there\n"
                          "is. Matrix units that one API's ceilings lack are those of the same device's\n"
                          "through another.";

enum { COLUMNS = 10, CELL = 96 };

static void number(char *cell, double value, double times)
{
    char text[NUMBER_SIZE];
    snprintf(cell, CELL, "%s", isfinite(value) ? format_short(value * times, text) : "");
}

static void row_cells(const struct ranked *row, char cells[COLUMNS][CELL])
{
    snprintf(cells[0], CELL, "%.*s", utf8_cut(row->device, CELL - 1), row->device);
    snprintf(cells[1], CELL, "%.*s", utf8_cut(row->api, 16), row->api);
    snprintf(cells[2], CELL, "%.*s", utf8_cut(row->type, 8), row->type);
    number(cells[3], row->seconds, 1e3);
    number(cells[4], row->rate, 1);
    number(cells[5], row->per_gigabyte, 1);
    number(cells[6], row->roof, 100);
    number(cells[7], row->per_joule, 1);
    number(cells[8], row->predicted, 1e3);
    number(cells[9], row->seconds / row->predicted, 1);
}

void ranking_text(struct output *out, const struct report *report)
{
    size_t count;
    struct ranking *list = rankings_of(report, &count);
    for (size_t n = 0; n < count; n++) {
        struct table table = {.columns = head, .width = 110};
        for (size_t r = 0; r < list[n].count; r++) {
            char cells[COLUMNS][CELL];
            row_cells(&list[n].rows[r], cells);
            for (size_t c = 0; c < COLUMNS; c++) table_cell(&table, "%s", *cells[c] ? cells[c] : "-");
        }
        output_format(out, "\nRanking: %s\n", list[n].title);
        table_print(&table, out);
    }
    if (count) output_format(out, "\n%s\n", how);
    rankings_free(list, count);
}

void ranking_markdown(struct output *out, const struct report *report)
{
    size_t count;
    struct ranking *list = rankings_of(report, &count);
    if (count) output_format(out, "\n## Ranking\n\n%s\n", how);
    for (size_t n = 0; n < count; n++) {
        output_text(out, "\n### ");
        markdown_text(out, list[n].title);
        output_text(out, "\n\n");
        markdown_head(out, "device|API|type|>ms|>tokens/s|>tokens/GB|>% roof|>tokens/J|>predicted ms|>x");
        for (size_t r = 0; r < list[n].count; r++) {
            char cells[COLUMNS][CELL];
            row_cells(&list[n].rows[r], cells);
            output_text(out, "|");
            for (size_t c = 0; c < COLUMNS; c++) markdown_cell(out, cells[c]);
            output_text(out, "\n");
        }
    }
    rankings_free(list, count);
}

static void html_text(struct output *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            output_format(out, "&#%d;", *text);
        else
            output_write(out, text, 1);
    }
}

static void html_table(struct output *out, const struct ranking *ranking)
{
    output_text(out, "<h3>");
    html_text(out, ranking->title);
    output_text(out, "</h3>\n<div class=\"scroll\"><table><thead><tr>");
    const char *at = head;
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t length = strcspn(at, "|");
        output_format(out, "<th%s>%.*s</th>", *at == '>' ? " class=\"number\"" : "", (int)length - 1, at + 1);
        at += length + (at[length] != 0);
    }
    output_text(out, "</tr></thead><tbody>\n");
    for (size_t r = 0; r < ranking->count; r++) {
        char cells[COLUMNS][CELL];
        row_cells(&ranking->rows[r], cells);
        output_text(out, "<tr>");
        for (size_t c = 0; c < COLUMNS; c++) {
            output_format(out, "<td%s>", c > 2 ? " class=\"number\"" : "");
            html_text(out, cells[c]);
            output_text(out, "</td>");
        }
        output_text(out, "</tr>\n");
    }
    output_text(out, "</tbody></table></div>\n");
}

void ranking_html(struct output *out, const struct report *report)
{
    size_t count;
    struct ranking *list = rankings_of(report, &count);
    if (count) {
        output_text(
            out,
            "  <section id=\"ranking\">\n    <h2>Devices, and what their roofs predict</h2>\n    <p class=\"how\">");
        html_text(out, how);
        output_text(out, "</p>\n");
        for (size_t n = 0; n < count; n++) html_table(out, &list[n]);
        output_text(out, "  </section>\n");
    }
    rankings_free(list, count);
}
