/* `wherry embed`: texts in, embeddings out, batch by batch. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "session.h"
#include "system.h"
#include "texts.h"
#include "timings.h"

struct embedding {
    struct tool tool;
    struct text_source source;
    struct text_batch batch;
    struct output out;
    enum format_kind format;
    FILE *final; /* of .npy to a place that can't be written twice: that place, while the rows wait in `out` */
    const char *final_name;
    char *spool_folder;
    uint64_t texts, tokens;
    double seconds; /* in encode */
};

static int check_options(const struct options *options, enum format_kind *format)
{
    *format = options->format ? (enum format_kind)(options->format - 1) : FORMAT_TEXT;
    if (options->json) {
        if (options->format && *format != FORMAT_JSONL)
            return complain(EXIT_USAGE, "--json means --format jsonl, and another format was given");
        *format = FORMAT_JSONL;
    }
    if (options->normalize && options->no_normalize)
        return complain(EXIT_USAGE, "give --normalize or --no-normalize, not both");
    if (options->pool == WHERRY_POOL_NONE && *format != FORMAT_JSONL)
        return complain(EXIT_USAGE, "--pool none gives a vector for each token: only --format jsonl can hold it");
    if (options->with_text && *format != FORMAT_JSONL) return complain(EXIT_USAGE, "--with-text needs --format jsonl");
    if (options->pairs && options->input == INPUT_JSONL + 1)
        return complain(EXIT_USAGE, "--pairs is for --input lines; JSONL has \"pair\"");
    return EXIT_FINE;
}

/* ---- writing ---- */

static void write_vector(struct output *out, const float *values, uint32_t size, const char *separator)
{
    char text[NUMBER_SIZE];
    for (uint32_t n = 0; n < size; n++) {
        if (n) output_text(out, separator);
        output_write(out, text, format_float(values[n], text));
    }
}

static void write_object(struct embedding *e, uint32_t sequence, const float *values, uint32_t size)
{
    struct output *out = &e->out;
    const struct text_label *label = &e->batch.labels[sequence];
    uint32_t tokens = e->batch.offsets[sequence + 1] - e->batch.offsets[sequence];
    output_format(out, "{\"index\":%llu", (unsigned long long)(e->texts + sequence));
    if (label->id) {
        output_text(out, ",\"id\":");
        output_text(out, label->id);
    }
    if (e->batch.keep_texts) {
        output_text(out, ",\"text\":");
        output_json_string(out, label->text, label->text_bytes);
    }
    output_format(out, ",\"tokens\":%u,\"embedding\":[", tokens);
    if (e->tool.options->pool == WHERRY_POOL_NONE) {
        for (uint32_t t = 0; t < tokens; t++) {
            output_text(out, t ? ",[" : "[");
            write_vector(out, values + (size_t)t * size, size, ",");
            output_text(out, "]");
        }
    } else {
        write_vector(out, values, size, ",");
    }
    output_text(out, "]}\n");
}

static int write_batch(struct embedding *e, const float *values)
{
    uint32_t size = e->tool.plan.embedding_size;
    bool per_token = e->tool.options->pool == WHERRY_POOL_NONE;
    for (uint32_t s = 0; s < e->batch.sequences; s++) {
        size_t rows = per_token ? e->batch.offsets[s + 1] - e->batch.offsets[s] : 1;
        if (e->format == FORMAT_JSONL) {
            write_object(e, s, values, size);
        } else if (e->format == FORMAT_TEXT) {
            write_vector(&e->out, values, size, " ");
            output_text(&e->out, "\n");
        } else {
            npy_row(&e->out, values, size);
        }
        values += rows * size;
    }
    return output_ok(&e->out) ? EXIT_FINE : EXIT_OUTPUT;
}

/* A .npy file begins with the number of rows, which is known last: the header is written again, or the rows wait in a
 * temporary file where the output can't go back. */
static int begin_spool(struct embedding *e)
{
    char row[NUMBER_SIZE], all[NUMBER_SIZE];
    double bytes = (double)e->tool.plan.embedding_size * sizeof(float);
    FILE *spool = system_spool(&e->spool_folder);
    if (!spool)
        return complain(EXIT_OUTPUT,
                        "can't create a temporary file in %s, where .npy rows wait until their number is known: %s; "
                        "name another folder by TMPDIR, or use --output FILE",
                        e->spool_folder ? e->spool_folder : "?", strerror(errno));
    format_bytes(bytes, row);
    if (!e->tool.options->quiet && e->batch.waiting)
        complain(0,
                 "note: %s can't be written twice, so .npy rows wait in a temporary file in %s (TMPDIR): %s for "
                 "each text",
                 e->out.name, e->spool_folder, row);
    else if (!e->tool.options->quiet)
        complain(0, "note: %s can't be written twice, so .npy rows wait in a temporary file in %s (TMPDIR): %s",
                 e->out.name, e->spool_folder, format_bytes(bytes * e->batch.sequences, all));
    e->final = e->out.file;
    e->final_name = e->out.name;
    e->out.file = spool;
    e->out.name = "the temporary file of .npy rows";
    return EXIT_FINE;
}

static int begin_output(struct embedding *e)
{
    if (!output_open(&e->out, e->tool.options->output)) return EXIT_OUTPUT;
    if (e->format != FORMAT_NPY) return EXIT_FINE;
    if (e->out.temporary) {
        npy_header(&e->out, 0, e->tool.plan.embedding_size);
        return EXIT_FINE;
    }
    int code = begin_spool(e);
    if (code) output_close(&e->out, false);
    return code;
}

/* Puts the number of rows into a .npy file that can go back. */
static void finish_npy(struct embedding *e)
{
    struct output *out = &e->out;
    if (fflush(out->file) || fseek(out->file, 0, SEEK_SET)) output_fail(out);
    npy_header(out, e->texts, e->tool.plan.embedding_size);
}

/* Writes what waits, after its header, where it is to go; `fine` false: drops it. */
static bool end_spool(struct embedding *e, bool fine)
{
    struct output *out = &e->out;
    FILE *rows = out->file;
    if (fine && (fflush(rows) || fseek(rows, 0, SEEK_SET))) output_fail(out);
    if (out->error) {
        complain(0,
                 "can't write .npy rows to a temporary file in %s: %s; name another folder by TMPDIR, or use "
                 "--output FILE",
                 e->spool_folder, strerror(out->error));
        fine = false;
        out->error = 0;
    }
    out->file = e->final;
    out->name = e->final_name;
    e->final = NULL;
    if (fine) npy_header(out, e->texts, e->tool.plan.embedding_size);
    char chunk[1 << 14];
    for (size_t size; fine && (size = fread(chunk, 1, sizeof chunk, rows)) > 0;) output_write(out, chunk, size);
    if (ferror(rows)) output_fail(out);
    fclose(rows);
    return fine;
}

static int end_output(struct embedding *e, int code)
{
    if (e->final) {
        bool fine = end_spool(e, !code);
        if (!code && !fine) code = EXIT_OUTPUT;
    } else if (!code && e->format == FORMAT_NPY) {
        finish_npy(e);
    }
    bool written = output_close(&e->out, code == EXIT_FINE);
    return code ? code : written ? EXIT_FINE : EXIT_OUTPUT;
}

/* ---- running ---- */

/* Names the first text of the batch whose result is not finite: the library knows its sequence, not its line. */
static int complain_not_finite(struct embedding *e, wherry_status status, const float *values)
{
    char where[600] = "";
    bool per_token = e->tool.options->pool == WHERRY_POOL_NONE;
    for (uint32_t s = 0; s < e->batch.sequences && !*where; s++) {
        size_t rows = per_token ? e->batch.offsets[s + 1] - e->batch.offsets[s] : 1;
        size_t count = rows * e->tool.plan.embedding_size, n = 0;
        while (n < count && isfinite(values[n])) n++;
        if (n < count)
            snprintf(where, sizeof where, "%.500s, line %llu", e->source.name,
                     (unsigned long long)e->batch.labels[s].line);
        values += count;
    }
    return tool_error(&e->tool, status, *where ? where : NULL), EXIT_DEVICE;
}

static int run_batches(struct embedding *e, float *values, size_t room)
{
    progress_start(e->tool.options);
    int code = EXIT_FINE;
    while (!code && e->batch.sequences) {
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        wherry_batch view = text_batch_view(&e->batch);
        double start = system_seconds();
        wherry_status status = wherry_encode(e->tool.session, &view, values, room);
        e->seconds += system_seconds() - start;
        if (e->tool.options->timings && !e->texts) timings_print(&e->tool);
        if (status == WHERRY_STATUS_VERIFY_FAILED) return complain_not_finite(e, status, values);
        if (status) return tool_error(&e->tool, status, NULL);
        code = write_batch(e, values);
        if (code) return code;
        e->texts += e->batch.sequences;
        e->tokens += e->batch.tokens;
        progress_show("%llu texts, %.0f tokens/s", (unsigned long long)e->texts, (double)e->tokens / e->seconds);
        code = text_batch_fill(&e->batch, &e->tool, &e->source);
    }
    progress_end();
    return code;
}

static int embed_texts(struct embedding *e)
{
    struct tool *tool = &e->tool;
    int code = tool_open_text_session(tool, &e->batch, e->batch.waiting);
    if (code) return code;
    if (!tool->options->quiet && tool->plan.splits) tool_notes(tool, NULL);
    size_t rows = tool->options->pool == WHERRY_POOL_NONE ? tool->plan.max_tokens : tool->plan.max_sequences;
    size_t room = rows * tool->plan.embedding_size;
    code = begin_output(e);
    if (code) return code;
    float *values = need(malloc(room * sizeof *values));
    code = run_batches(e, values, room);
    free(values);
    code = end_output(e, code);
    bool tell = tool->options->verbose || (!tool->options->quiet && system_is_terminal(stderr));
    if (!code && tell)
        complain(0, "%llu texts, %llu tokens in %.3g s (%.0f tokens/s) on %s (%s), plan %s, %s",
                 (unsigned long long)e->texts, (unsigned long long)e->tokens, e->seconds,
                 (double)e->tokens / (e->seconds > 0 ? e->seconds : 1e-9), tool->device_info.id, tool->device_info.name,
                 tool->plan.plan, dtype_name(tool->plan.dtype));
    return code;
}

int embed_command(const struct options *options)
{
    struct embedding e = {.source = {0}};
    uint32_t batch_tokens, length;
    int code = check_options(options, &e.format);
    if (code) return code;
    code = tool_open_context(&e.tool, options);
    if (!code)
        code = text_source_open(&e.source, options->file, options->input ? (enum input_kind)(options->input - 1) : 0,
                                options->pairs);
    e.source.quiet = options->quiet;
    e.source.hint = !options->input;
    if (!code) code = tool_open_model_and_device(&e.tool);
    if (!code) code = text_limits(&e.tool, &batch_tokens, &length);
    if (!code) {
        if (e.source.file == stdin && system_is_terminal(stdin) && !options->quiet)
            complain(0, "reading texts from the terminal, one a line; end with Ctrl-D");
        text_batch_create(&e.batch, batch_tokens, length);
        e.batch.truncate = options->truncate;
        e.batch.keep_texts = options->with_text;
        code = text_batch_fill(&e.batch, &e.tool, &e.source);
    }
    if (!code && !e.batch.sequences) code = complain(EXIT_INPUT, "%s has no texts", e.source.name);
    if (!code) code = embed_texts(&e);
    text_batch_destroy(&e.batch);
    text_source_close(&e.source);
    free(e.spool_folder);
    tool_close(&e.tool);
    return code;
}
