/* The status page: what a person wants to see, in plain HTML that loads nothing. */
#include <string.h>

#include "base/utf8.h"
#include "clock.h"
#include "names.h"
#include "pages.h"
#include "plain_text.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"refresh\" content=\"5\">\n<title>wherry-serve</title>\n<style>\n"
    ":root { color-scheme: light dark; --ink: #1a1f24; --paper: #fcfcfa; --line: #d5d9dd; --quiet: #5c666f; --good: "
    "#1b7f4b; "
    "--bad: #b3261e }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --paper: #14181c; --line: #323940; --quiet: "
    "#9aa5af; "
    "--good: #5fd39a; --bad: #ff8a80 } }\n"
    "body { margin: 2rem auto; max-width: 54rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: "
    "var(--ink); "
    "background: var(--paper) }\n"
    "h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }\n"
    "p { margin: .25rem 0; color: var(--quiet) } .good { color: var(--good) } .bad { color: var(--bad) }\n"
    "div { overflow-x: auto }\n"
    "table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }\n"
    "th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: "
    "top }\n"
    "th { font-weight: 600 } td.n, th.n { text-align: right; padding-right: 0; padding-left: .8rem; white-space: "
    "nowrap }\n"
    "</style>\n</head>\n<body>\n";

/* Text of names from files and drivers, made harmless. */
static void put_escaped(struct bytes *out, const char *text)
{
    char shown[1024];
    utf8_show(text, strlen(text), shown, sizeof shown);
    for (const char *at = shown; *at; at++) {
        const char *entity = *at == '<'   ? "&lt;"
                             : *at == '>' ? "&gt;"
                             : *at == '&' ? "&amp;"
                             : *at == '"' ? "&quot;"
                                          : NULL;
        if (entity)
            bytes_text(out, entity);
        else
            bytes_put(out, at, 1);
    }
}

static void row(struct bytes *out, const char *name, const char *format, double value)
{
    bytes_format(out, "<tr><th scope=\"row\">%s</th><td class=\"n\">", name);
    bytes_format(out, format, value);
    bytes_text(out, "</td></tr>\n");
}

static void write_device(struct bytes *out, struct engine *engine)
{
    const wherry_device_info *device = engine_device(engine);
    const char *const rows[][2] = {
        {"Device", device->name}, {"Id", device->id}, {"Driver", device->driver}, {"API", device->api}};
    bytes_text(out, "<h2>Device</h2>\n<div><table>\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes_format(out, "<tr><th scope=\"row\">%s</th><td>", rows[i][0]);
        put_escaped(out, rows[i][1]);
        bytes_text(out, "</td></tr>\n");
    }
    bytes_text(out, "</table></div>\n");
}

static void write_models(struct bytes *out, struct engine *engine)
{
    bytes_text(out, "<h2>Models</h2>\n<div><table>\n<tr><th>Name</th><th>For</th><th>Architecture</th><th>Type</th>"
                    "<th class=\"n\">Longest text</th><th class=\"n\">Device memory</th></tr>\n");
    for (uint32_t m = 0; m < engine_models(engine); m++) {
        struct served *model = engine_model(engine, m);
        uint64_t bytes = 0;
        wherry_session_plan plan, natural = {.dtype = WHERRY_DTYPE_DEFAULT};
        char text[NUMBER_SIZE];
        engine_plan(engine, &model->lanes[models_lane(model, models_natural(model), false)], &natural);
        for (int k = 0; k < LANES; k++)
            if (engine_plan(engine, &model->lanes[k], &plan)) bytes += plan.device_bytes;
        bytes_text(out, "<tr><td>");
        put_escaped(out, model->name);
        bytes_format(out, "</td><td>%s</td><td>", models_kind_name(model));
        put_escaped(out, model->info.architecture);
        bytes_format(out, "</td><td>%s</td><td class=\"n\">%u tokens</td><td class=\"n\">%s</td></tr>\n",
                     dtype_name(natural.dtype), model->max_length, format_bytes((double)bytes, text));
    }
    bytes_text(out, "</table></div>\n");
}

static void write_work(struct bytes *out, struct server *s, const struct engine_state *state)
{
    const struct metrics *m = server_metrics(s);
    double up = clock_now() - server_started(s), busy = metrics_busy(m);
    double requests =
        (double)metrics_counted(m, COUNT_SUCCESS_SINGLE) + (double)metrics_counted(m, COUNT_SUCCESS_BATCH);
    double tokens = (double)metrics_counted(m, COUNT_TOKENS), batches = (double)metrics_counted(m, COUNT_BATCHES);
    bytes_text(out, "<h2>Work</h2>\n<div><table>\n");
    row(out, "Requests answered", "%.0f", requests);
    row(out, "Texts waiting", "%.0f", state->waiting);
    row(out, "Tokens", "%.0f", tokens);
    row(out, "Tokens a batch", "%.1f", batches > 0 ? tokens / batches : 0);
    row(out, "Tokens a second, while a batch runs", "%.0f", busy > 0 ? tokens / busy : 0);
    row(out, "Device busy", "%.1f %%", up > 0 ? 100 * busy / up : 0);
    row(out, "Half of all requests within", "%.2f ms", 1e3 * metrics_quantile(m, TIME_REQUEST, 0.5));
    row(out, "99 % of all requests within", "%.2f ms", 1e3 * metrics_quantile(m, TIME_REQUEST, 0.99));
    row(out, "Waiting for the batch before, median below", "%.3f ms", 1e3 * metrics_quantile(m, TIME_QUEUE, 0.5));
    row(out, "In a batch, median below", "%.3f ms", 1e3 * metrics_quantile(m, TIME_INFERENCE, 0.5));
    row(out, "Bytes moved a second, last batches", "%.3g GB/s", 1e-9 * metrics_bandwidth(m));
    if (state->roof > 0) row(out, "Share of the roof", "%.1f %%", 100 * metrics_bandwidth(m) / state->roof);
    bytes_text(out, "</table></div>\n");
}

void page_status(struct server *s, struct call *call, const char *rest)
{
    struct bytes *out = &call->answer;
    const char *why = server_unhealthy(s);
    struct engine *engine = server_engine(s);
    (void)rest;
    call->type = "text/html; charset=utf-8";
    bytes_text(out, head);
    bytes_format(out, "<h1>wherry-serve</h1>\n<p>%s, ", wherry_version_string());
    bytes_format(out, "up for %.0f s: <strong class=\"%s\">%s</strong></p>\n", clock_now() - server_started(s),
                 why ? "bad" : "good", why ? why : "it answers");
    if (engine) {
        struct engine_state state = engine_ask(engine);
        write_device(out, engine);
        write_models(out, engine);
        write_work(out, s, &state);
        engine_drop(engine);
    }
    bytes_text(out, "</body>\n</html>\n");
}
