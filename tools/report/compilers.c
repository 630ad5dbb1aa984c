/* The table of what compilers make of kernels, shown: kernels by devices, and every size of each. */
#include "report/compilers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "json_file.h"
#include "output.h"
#include "report/write.h"

/* Of a row's figures, as scripts/compilers.py has them. */
static const char *const columns[] = {"registers", "spilled", "shared", "waves", "waves_most", "code"};
enum { REGISTERS, SPILLED, SHARED, WAVES, WAVES_MOST, CODE, COLUMNS };

enum { NAME_BYTES = 64 };

/* What a device makes of one kernel, or the worst that it makes of several. */
struct made {
    bool any;
    double occupancy; /* < 0: unknown */
    double registers, spilled;
};

/* ---- reading ---- */

static bool valid_figures(const json_t *of)
{
    const char *device;
    const json_t *figures;
    json_object_foreach((json_t *)of, device, figures)
    {
        size_t n;
        const json_t *number;
        if (!json_is_array(figures) || json_array_size(figures) != COLUMNS) return false;
        json_array_foreach(figures, n, number)
        {
            if (!json_is_null(number) && !(json_is_integer(number) && json_integer_value(number) >= 0)) return false;
        }
    }
    return true;
}

static bool table_valid(const json_t *table, const char *path)
{
    const char *name;
    const json_t *value, *list = json_object_get(table, "columns");
    bool known = json_array_size(list) == COLUMNS;
    for (size_t n = 0; known && n < COLUMNS; n++) {
        const char *text = json_string_value(json_array_get(list, n));
        known = text && !strcmp(text, columns[n]);
    }
    if (!known) return complain(0, "%s: its columns are not those of this version", path);
    json_object_foreach(json_object_get(table, "devices"), name, value)
    {
        if (!json_is_string(json_object_get(value, "compiler")) || !json_is_string(json_object_get(value, "name")))
            return complain(0, "%s: the device \"%s\" lacks its name or its compiler", path, name);
    }
    json_object_foreach(json_object_get(table, "kernels"), name, value)
    {
        if (!json_is_object(value) || !valid_figures(value) || !strstr(name, " | "))
            return complain(0, "%s: the figures of \"%.60s\" are not lists of %d numbers by device", path, name,
                            (int)COLUMNS);
    }
    return true;
}

static json_t *table_load(const char *path)
{
    json_t *table = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return complain(0, "can't open %s: %s", path, strerror(errno)), NULL;
    json_stream_read(file, path, &json_record, JSON_DECODE_ANY, &table);
    fclose(file);
    return table;
}

static bool looks_like_table(const json_t *value)
{
    return json_is_array(json_object_get(value, "columns")) && json_is_object(json_object_get(value, "devices")) &&
           json_is_object(json_object_get(value, "kernels"));
}

/* A table begins with its columns, which is cheaper to see than to read all of a record twice. */
bool compilers_is_table(const char *path)
{
    char text[64] = "";
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : NULL;
    if (!file) return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    const char *at = text + strspn(text, " \t\r\n{");
    return !strncmp(at, "\"columns\"", 9);
}

/* ---- figures ---- */

static struct made figures_read(const json_t *figures)
{
    struct made made = {.any = figures != NULL, .occupancy = -1};
    const json_t *waves = json_array_get(figures, WAVES), *most = json_array_get(figures, WAVES_MOST);
    if (json_integer_value(most) > 0 && json_is_integer(waves))
        made.occupancy = (double)json_integer_value(waves) / (double)json_integer_value(most);
    made.registers = (double)json_integer_value(json_array_get(figures, REGISTERS));
    made.spilled = (double)json_integer_value(json_array_get(figures, SPILLED));
    return made;
}

static void made_add(struct made *sum, const struct made *made)
{
    if (!made->any) return;
    if (!sum->any)
        *sum = *made;
    else if (made->occupancy >= 0 && (sum->occupancy < 0 || made->occupancy < sum->occupancy))
        sum->occupancy = made->occupancy;
    if (made->registers > sum->registers) sum->registers = made->registers;
    if (made->spilled > sum->spilled) sum->spilled = made->spilled;
}

/* "gemm f16" of "gemm f16 | N=768 ... | LOCAL_SIZE=64 ...". */
static void kernel_name(const char *name, char out[NAME_BYTES])
{
    const char *end = strstr(name, " | ");
    size_t size = end ? (size_t)(end - name) : strlen(name);
    snprintf(out, NAME_BYTES, "%.*s", (int)(size < NAME_BYTES ? size : NAME_BYTES - 1), name);
}

static bool same_kernel(const char *name, const char *kernel)
{
    char own[NAME_BYTES];
    kernel_name(name, own);
    return !strcmp(own, kernel);
}

/* The worst of all sizes. */
static struct made worst_of(const json_t *table, const char *kernel, const char *device)
{
    struct made sum = {.occupancy = -1};
    const char *name;
    const json_t *of;
    json_object_foreach(json_object_get(table, "kernels"), name, of)
    {
        if (!same_kernel(name, kernel)) continue;
        const json_t *figures = json_object_get(of, device);
        const struct made made = figures_read(figures);
        if (figures) made_add(&sum, &made);
    }
    return sum;
}

/* The next kernel after the one at hand, in the order of the table, whose kernels follow each other; NULL: none. */
static const char *next_kernel(const json_t *table, const char *kernel)
{
    bool found = !kernel;
    const char *name;
    const json_t *of;
    json_object_foreach(json_object_get(table, "kernels"), name, of)
    {
        bool same = kernel && same_kernel(name, kernel);
        if (found && !same) return name;
        found = found || same;
    }
    return NULL;
}

static const char *made_text(const struct made *made, char text[NUMBER_SIZE])
{
    int spilled = (int)made->spilled;
    if (!made->any)
        snprintf(text, NUMBER_SIZE, "-");
    else if (made->occupancy < 0 && !made->registers)
        snprintf(text, NUMBER_SIZE, "compiles");
    else if (made->occupancy < 0)
        snprintf(text, NUMBER_SIZE, "%.0f regs%s", made->registers, spilled ? ", spills" : "");
    else if (spilled)
        snprintf(text, NUMBER_SIZE, "%.0f %%, %d B", 100 * made->occupancy, spilled);
    else
        snprintf(text, NUMBER_SIZE, "%.0f %%", 100 * made->occupancy);
    return text;
}

static size_t count_spills(const json_t *table)
{
    size_t count = 0;
    const char *name, *device;
    const json_t *of, *figures;
    json_object_foreach(json_object_get(table, "kernels"), name, of)
    {
        json_object_foreach((json_t *)of, device, figures) count +=
            json_integer_value(json_array_get(figures, SPILLED)) > 0;
    }
    return count;
}

static void write_counts(struct output *out, const json_t *table)
{
    output_format(out, "%zu devices, %zu kernels with their sizes, %zu that spill on a device",
                  json_object_size(json_object_get(table, "devices")),
                  json_object_size(json_object_get(table, "kernels")), count_spills(table));
}

/* ---- text and Markdown ---- */

static const char words[] =
    "Occupancy: resident sub-groups of those that a multiprocessor holds, of the kernel's sizes the one with the "
    "fewest; bytes behind it spill. \"compiles\": nothing else is known.";

static void write_tables(struct output *out, const json_t *table, bool markdown)
{
    const char *device, *name = NULL;
    const json_t *info;
    char kernel[NAME_BYTES], text[NUMBER_SIZE];
    json_t *devices = json_object_get(table, "devices");
    write_counts(out, table);
    output_format(out, ".\n%s\n\n", words);
    if (markdown) markdown_head(out, "device|name|compiler");
    json_object_foreach(devices, device, info)
    {
        const char *full = json_string_value(json_object_get(info, "name")),
                   *compiler = json_string_value(json_object_get(info, "compiler"));
        if (!markdown) {
            output_format(out, "%-14s %s, %s\n", device, full, compiler);
            continue;
        }
        output_text(out, "|");
        markdown_cell(out, device);
        markdown_cell(out, full);
        markdown_cell(out, compiler);
        output_text(out, "\n");
    }
    output_text(out, "\n");
    if (markdown) {
        output_text(out, "| kernel |");
        json_object_foreach(devices, device, info) markdown_cell(out, device);
        output_text(out, "\n|---|");
        for (size_t n = json_object_size(devices); n; n--) output_text(out, "---:|");
        output_text(out, "\n");
    }
    while ((name = next_kernel(table, name ? kernel : NULL))) {
        kernel_name(name, kernel);
        if (markdown) {
            output_text(out, "|");
            markdown_cell(out, kernel);
        } else {
            output_format(out, "%s\n", kernel);
        }
        json_object_foreach(devices, device, info)
        {
            const struct made made = worst_of(table, kernel, device);
            if (markdown)
                markdown_cell(out, made_text(&made, text));
            else if (made.any)
                output_format(out, "  %-14s %s\n", device, made_text(&made, text));
        }
        if (markdown) output_text(out, "\n");
    }
}

/* ---- the page ---- */

extern const unsigned char compilers_page[]; /* ends with a 0 */

static void write_html(struct output *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            output_format(out, "&#%d;", *text);
        else
            output_write(out, text, 1);
    }
}

enum { STEPS = 8 };

/* The figures themselves are the cell's title. */
static void write_cell(struct output *out, const struct made *made, const json_t *figures)
{
    char text[NUMBER_SIZE];
    int step = made->occupancy < 0 ? -1 : (int)(made->occupancy * STEPS);
    if (step >= STEPS) step = STEPS - 1;
    output_text(out, "<td");
    if (made->any && (made->spilled > 0 || step >= 0)) {
        output_text(out, " class=\"");
        if (step >= 0) output_format(out, "o%d", step);
        output_text(out, made->spilled > 0 ? " spill\"" : "\"");
    }
    if (figures) {
        output_text(out, " title=\"");
        for (size_t n = 0; n < COLUMNS; n++) {
            const json_t *number = json_array_get(figures, n);
            if (json_is_null(number)) continue;
            output_format(out, "%s %lld; ", columns[n], (long long)json_integer_value(number));
        }
        output_text(out, "\"");
    }
    output_text(out, ">");
    if (made->any) write_html(out, made_text(made, text));
    output_text(out, "</td>");
}

static void write_head(struct output *out, const json_t *table, const char *first)
{
    const char *device;
    const json_t *info;
    output_format(out, "<div class=\"wide\"><table class=\"compiled\"><thead><tr><th scope=\"col\">%s</th>", first);
    json_object_foreach(json_object_get(table, "devices"), device, info)
    {
        output_text(out, "<th scope=\"col\" title=\"");
        write_html(out, json_string_value(json_object_get(info, "compiler")));
        output_text(out, "\">");
        write_html(out, device);
        output_text(out, "</th>");
    }
    output_text(out, "</tr></thead><tbody>\n");
}

static void write_row_head(struct output *out, const char *text)
{
    output_text(out, "<tr><th scope=\"row\">");
    write_html(out, text);
    output_text(out, "</th>");
}

static void write_overview(struct output *out, const json_t *table)
{
    const char *device, *name = NULL;
    const json_t *info;
    char kernel[NAME_BYTES];
    write_head(out, table, "kernel");
    while ((name = next_kernel(table, name ? kernel : NULL))) {
        kernel_name(name, kernel);
        write_row_head(out, kernel);
        json_object_foreach(json_object_get(table, "devices"), device, info)
        {
            const struct made made = worst_of(table, kernel, device);
            write_cell(out, &made, NULL);
        }
        output_text(out, "</tr>\n");
    }
    output_text(out, "</tbody></table></div>\n");
}

static void write_sizes(struct output *out, const json_t *table, const char *kernel)
{
    const char *device, *name;
    const json_t *of, *info;
    output_text(out, "<details><summary>");
    write_html(out, kernel);
    output_text(out, "</summary>\n");
    write_head(out, table, "computes | sizes");
    json_object_foreach(json_object_get(table, "kernels"), name, of)
    {
        if (!same_kernel(name, kernel)) continue;
        write_row_head(out, strstr(name, " | ") + 3);
        json_object_foreach(json_object_get(table, "devices"), device, info)
        {
            const json_t *figures = json_object_get(of, device);
            const struct made made = figures_read(figures);
            write_cell(out, &made, figures);
        }
        output_text(out, "</tr>\n");
    }
    output_text(out, "</tbody></table></div></details>\n");
}

static void write_devices(struct output *out, const json_t *table)
{
    const char *device;
    const json_t *info;
    output_text(out, "<div class=\"wide\"><table class=\"compiled\"><thead><tr><th>device</th><th>name</th><th>compiler"
                     "</th></tr></thead><tbody>\n");
    json_object_foreach(json_object_get(table, "devices"), device, info)
    {
        write_row_head(out, device);
        output_text(out, "<th>");
        write_html(out, json_string_value(json_object_get(info, "name")));
        output_text(out, "</th><th>");
        write_html(out, json_string_value(json_object_get(info, "compiler")));
        output_text(out, "</th></tr>\n");
    }
    output_text(out, "</tbody></table></div>\n");
}

static void page_body(struct output *out, const json_t *table)
{
    const char *name = NULL;
    char kernel[NAME_BYTES];
    output_text(out, "<section><p>");
    write_counts(out, table);
    output_format(out, ". %s</p><p class=\"how\">Nothing was run: these are figures of compilers alone. ", words);
    for (int step = 0; step < STEPS; step++)
        output_format(out, "<span class=\"key o%d\">%d %%</span>", step, (100 * step + STEPS / 2) / STEPS);
    output_text(out, "</p>\n");
    write_overview(out, table);
    output_text(out, "</section>\n<section><h2>Every size</h2>\n");
    while ((name = next_kernel(table, name ? kernel : NULL))) {
        kernel_name(name, kernel);
        write_sizes(out, table, kernel);
    }
    output_text(out, "</section>\n<section><h2>Devices</h2>\n");
    write_devices(out, table);
    output_text(out, "</section>\n");
}

static void page_write_table(struct output *out, const json_t *table)
{
    static const char marker[] = "<!--records-->";
    const char *page = (const char *)compilers_page, *rest = strstr(page, marker);
    output_write(out, page, (size_t)(rest - page));
    page_body(out, table);
    output_text(out, rest + sizeof marker - 1);
}

/* ---- all ---- */

int compilers_report(const struct options *options, const char *path)
{
    struct output out;
    int format = report_format(options);
    if (!format) return EXIT_USAGE;
    if (format != REPORT_TEXT && format != REPORT_MARKDOWN && format != REPORT_HTML)
        return complain(EXIT_USAGE, "%s is what compilers make of kernels: it is shown as text, markdown or html",
                        path);
    json_t *table = table_load(path);
    if (!table) return EXIT_INPUT;
    bool valid =
        looks_like_table(table) ? table_valid(table, path) : complain(0, "%s: no table of devices and kernels", path);
    int code = valid ? EXIT_FINE : EXIT_INPUT;
    if (!code && !output_open(&out, options->output)) code = EXIT_OUTPUT;
    if (!code) {
        if (format == REPORT_HTML)
            page_write_table(&out, table);
        else
            write_tables(&out, table, format == REPORT_MARKDOWN);
        if (!output_close(&out, true)) code = EXIT_OUTPUT;
    }
    json_decref(table);
    return code;
}
