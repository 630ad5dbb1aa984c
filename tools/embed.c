/* `wherry embed`: texts in, embeddings out, batch by batch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "commands.h"
#include "hash.h"
#include "parts.h"
#include "quantize.h"
#include "sparse_write.h"
#include "system.h"
#include "text_run.h"

struct embedding {
    struct text_run run; /* first: a text_run_write gets it */
    struct ranks ranks;
    struct options own; /* the user's options, as this process has them */
    struct output out;
    enum format_kind format;
    wherry_output output;     /* what the session returns */
    struct token_names names; /* of weights of words */
    struct quantizer quantizer;
    void *row;   /* of what it makes */
    FILE *final; /* of .npy to a place that can't be written twice: that place, while the rows wait in `out` */
    const char *final_name;
    char *spool_folder;
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
    if (options->output_type == OUTPUT_TOKENS && options->pool && options->pool != WHERRY_POOL_NONE)
        return complain(EXIT_USAGE, "--output-type tokens gives a vector for each token: leave --pool out");
    if ((options->output_type == OUTPUT_INT8) != (options->ranges != NULL))
        return complain(EXIT_USAGE, "--output-type int8 and --ranges FILE belong together: the file has embeddings, as "
                                    "--format npy writes them, whose least and largest values are the ranges");
    if (options->output_type == OUTPUT_SPARSE &&
        (options->pool || options->normalize || options->no_normalize || options->dimensions))
        return complain(EXIT_USAGE, "--output-type sparse gives weights of words: leave --pool, --normalize, "
                                    "--no-normalize and --dim out");
    if (options->with_text && *format != FORMAT_JSONL) return complain(EXIT_USAGE, "--with-text needs --format jsonl");
    if (options->pairs && options->input == INPUT_JSONL + 1)
        return complain(EXIT_USAGE, "--pairs is for --input lines; JSONL has \"pair\"");
    if (ranks_started() && (!options->output || !strcmp(options->output, "-") || system_is_special(options->output)))
        return complain(EXIT_USAGE, "below mpirun --output FILE is needed: processes keep parts of it beside it, and "
                                    "go on from there when they were stopped");
    return EXIT_FINE;
}

/* ---- writing ---- */

static void write_vector(struct embedding *e, const float *values, const char *separator)
{
    char text[NUMBER_SIZE];
    quantize(&e->quantizer, values, e->row);
    for (uint32_t n = 0; n < quantizer_columns(&e->quantizer); n++) {
        if (n) output_text(&e->out, separator);
        output_write(&e->out, text, format_float((float)quantized_value(&e->quantizer, e->row, n), text));
    }
}

static bool weighs(const struct embedding *e)
{
    return e->output == WHERRY_OUTPUT_SPARSE || e->output == WHERRY_OUTPUT_WORDS;
}

static struct sparse_words words_of(const struct embedding *e, uint32_t sequence, const float *values)
{
    const struct text_batch *b = &e->run.batch;
    uint32_t first = b->offsets[sequence], tokens = b->offsets[sequence + 1] - first;
    if (e->output == WHERRY_OUTPUT_WORDS) return sparse_of_row(values, e->run.tool.plan.embedding_size);
    return sparse_of_tokens(&e->run.tool.model_info, b->ids + first, values, tokens);
}

/* Late interaction leaves vectors of some tokens out. */
static bool left_out(const wherry_text_form *taken, int32_t id)
{
    for (size_t i = 0; i < taken->left_out_count; i++)
        if (taken->left_out[i] == id) return true;
    return false;
}

static void write_object(struct embedding *e, uint32_t sequence, const float *values, uint32_t size)
{
    struct output *out = &e->out;
    const struct text_label *label = &e->run.batch.labels[sequence];
    uint32_t tokens = e->run.batch.offsets[sequence + 1] - e->run.batch.offsets[sequence];
    text_run_object(&e->run, out, e->run.texts + sequence, label);
    output_format(out, ",\"tokens\":%u,", tokens);
    if (weighs(e)) {
        struct sparse_words words = words_of(e, sequence, values);
        sparse_write_json(out, &e->names, &words);
        sparse_free(&words);
        output_text(out, "}\n");
        return;
    }
    output_text(out, "\"embedding\":[");
    if (e->run.per_token) {
        uint32_t first =
            e->output == WHERRY_OUTPUT_TOKEN_VECTORS; /* the text's own vector, which others are not like */
        bool some = false;
        const int32_t *ids = e->run.batch.ids + e->run.batch.offsets[sequence];
        for (uint32_t t = first; t < tokens; t++) {
            if (left_out(&e->run.batch.taken, ids[t])) continue;
            output_text(out, some ? ",[" : "[");
            some = true;
            write_vector(e, values + (size_t)t * size, ",");
            output_text(out, "]");
        }
    } else {
        write_vector(e, values, ",");
    }
    output_text(out, "]}\n");
}

static int write_batch(struct text_run *run, const float *values)
{
    struct embedding *e = (struct embedding *)run;
    uint32_t size = run->tool.plan.embedding_size;
    for (uint32_t s = 0; s < e->run.batch.sequences; s++) {
        size_t rows = text_run_rows(run, s);
        if (e->format == FORMAT_JSONL) {
            write_object(e, s, values, size);
        } else if (e->format == FORMAT_TEXT && weighs(e)) {
            struct sparse_words words = words_of(e, s, values);
            sparse_write_text(&e->out, &e->names, &words);
            sparse_free(&words);
        } else if (e->format == FORMAT_TEXT) {
            write_vector(e, values, " ");
            output_text(&e->out, "\n");
        } else {
            quantize(&e->quantizer, values, e->row);
            npy_row(&e->out, e->row, quantizer_columns(&e->quantizer), quantizer_bytes(&e->quantizer));
        }
        values += rows * size;
    }
    return output_ok(&e->out) ? EXIT_FINE : EXIT_OUTPUT;
}

static void write_header(struct embedding *e, uint64_t rows)
{
    npy_header(&e->out, quantizer_descr(&e->quantizer), rows, quantizer_columns(&e->quantizer));
}

/* A .npy file begins with the number of rows, which is known last: the header is written again, or the rows wait in a
 * temporary file where the output can't go back. */
static int begin_spool(struct embedding *e)
{
    char row[NUMBER_SIZE], all[NUMBER_SIZE];
    double bytes = (double)quantizer_columns(&e->quantizer) * (double)quantizer_bytes(&e->quantizer);
    FILE *spool = system_spool(&e->spool_folder);
    if (!spool)
        return complain(EXIT_OUTPUT,
                        "can't create a temporary file in %s, where .npy rows wait until their number is known: %s; "
                        "name another folder by TMPDIR, or use --output FILE",
                        e->spool_folder ? e->spool_folder : "?", strerror(errno));
    format_bytes(bytes, row);
    if (!e->run.tool.options->quiet && e->run.batch.waiting)
        complain(0,
                 "note: %s can't be written twice, so .npy rows wait in a temporary file in %s (TMPDIR): %s for "
                 "each text",
                 e->out.name, e->spool_folder, row);
    else if (!e->run.tool.options->quiet)
        complain(0, "note: %s can't be written twice, so .npy rows wait in a temporary file in %s (TMPDIR): %s",
                 e->out.name, e->spool_folder, format_bytes(bytes * e->run.batch.sequences, all));
    e->final = e->out.file;
    e->final_name = e->out.name;
    e->out.file = spool;
    e->out.name = "the temporary file of .npy rows";
    return EXIT_FINE;
}

static int begin_output(struct embedding *e)
{
    if (!output_open(&e->out, e->run.tool.options->output)) return EXIT_OUTPUT;
    if (e->format != FORMAT_NPY) return EXIT_FINE;
    if (e->out.temporary) {
        write_header(e, 0);
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
    write_header(e, e->run.texts);
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
    if (fine) write_header(e, e->run.texts);
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

/* Makes room for a row of what is written. */
static int open_row(struct embedding *e)
{
    static const enum quantity types[] = {
        [OUTPUT_INT8] = QUANTITY_INT8,       [OUTPUT_F16] = QUANTITY_F16,    [OUTPUT_BINARY] = QUANTITY_BINARY,
        [OUTPUT_UBINARY] = QUANTITY_UBINARY, [OUTPUT_TOKENS] = QUANTITY_F32, [OUTPUT_SPARSE] = QUANTITY_F32};
    const struct options *options = e->run.tool.options;
    uint32_t size = e->run.tool.plan.embedding_size;
    int code = quantizer_open(&e->quantizer, types[options->output_type], size, options->ranges);
    if (code) return code;
    e->row = need(malloc(size * sizeof(float)));
    return EXIT_FINE;
}

static int embed_texts(struct embedding *e)
{
    int code = begin_output(e);
    return code ? code : end_output(e, text_run_all(&e->run, write_batch));
}

/* ---- in parts, which processes share ---- */

/* Of what makes results what they are: the options that shape them, and the bits of the first batch. */
static int identify(struct embedding *e, uint64_t *identity)
{
    const struct options *options = e->run.tool.options;
    const struct quantizer *q = &e->quantizer;
    const wherry_session_plan *plan = &e->run.tool.plan;
    const int shape[] = {options->input, options->pairs, (int)e->format, options->with_text, options->output_type};
    size_t room = (size_t)(e->run.per_token ? plan->max_tokens : plan->max_sequences) * plan->embedding_size, used = 0;
    float *values = need(malloc(room * sizeof *values));
    wherry_batch batch = text_batch_view(&e->run.batch);
    wherry_status status = wherry_encode(e->run.tool.session, &batch, values, room);
    for (uint32_t s = 0; s < batch.sequences; s++) used += text_run_rows(&e->run, s) * plan->embedding_size;
    if (!status) *identity = hash_more(hash_more(HASH_BEGIN, shape, sizeof shape), values, used * sizeof *values);
    if (q->starts) *identity = hash_more(*identity, q->starts, q->size * sizeof *q->starts);
    if (q->steps) *identity = hash_more(*identity, q->steps, q->size * sizeof *q->steps);
    free(values);
    return status ? tool_error(&e->run.tool, status, "the first texts") : EXIT_FINE;
}

static int embed_part(struct embedding *e, struct parts *parts, struct part *part)
{
    int code = part_begin(part, &e->out);
    if (code) return code;
    e->run.texts = part->first;
    code = text_run_again(&e->run);
    if (!code) code = text_run_all(&e->run, write_batch);
    int written = part_end(parts, part, &e->out, !code);
    return code ? code : written;
}

static int join_parts(struct embedding *e, const struct parts *parts)
{
    int code = parts_rows(parts, &e->run.texts);
    if (code) return code;
    if (!output_open(&e->out, e->run.tool.options->output)) return EXIT_OUTPUT;
    if (e->format == FORMAT_NPY) write_header(e, e->run.texts);
    code = parts_join(parts, &e->out);
    bool written = output_close(&e->out, !code);
    if (!code && !written) code = EXIT_OUTPUT;
    if (!code) parts_remove(parts);
    return code;
}

static int run_parts(struct embedding *e, struct parts *parts)
{
    struct part part;
    bool more = true, stopped = false;
    int code = EXIT_FINE;
    while (!code && more && !system_stopped()) {
        code = parts_next(parts, &part, &more);
        if (!code && more) code = embed_part(e, parts, &part);
    }
    if (code && code != EXIT_STOPPED) return code;
    bool said = code == EXIT_STOPPED;
    stopped = said || system_stopped();
    code = ranks_any(&e->ranks, &stopped);
    if (!code) code = ranks_sum(&e->ranks, &parts->kept);
    if (code || e->ranks.process) return code || !stopped ? code : EXIT_STOPPED;
    if (stopped)
        return complain(EXIT_STOPPED, "%swhat is done is kept in %s, and the same command goes on from there",
                        said ? "" : "interrupted; ", parts->folder);
    return join_parts(e, parts);
}

static int embed_in_parts(struct embedding *e)
{
    struct parts parts = {.ranks = NULL};
    uint64_t identity = 0;
    int code = output_check(e->run.tool.options->output) ? identify(e, &identity) : EXIT_OUTPUT;
    e->run.source.hint = false;
    if (!code) code = parts_open(&parts, &e->ranks, &e->run.source, e->run.tool.options->output, identity);
    if (!code) code = run_parts(e, &parts);
    if (!code && parts.kept && !e->run.tool.options->quiet)
        complain(0, "note: %llu of %llu parts were done before", (unsigned long long)parts.kept,
                 (unsigned long long)parts.walked);
    parts_close(&parts);
    return code;
}

/* Models that name prompts give worse vectors without the right one. */
static void warn_prompts(const struct text_run *run)
{
    char names[300];
    const char *name;
    struct text_writer t = text_begin(names, sizeof names);
    if (run->tool.options->prompt || run->tool.options->quiet || !run->tool.model_info.prompts ||
        (run->batch.prompt && *run->batch.prompt))
        return;
    for (uint32_t i = 0; (name = wherry_model_prompt_name(run->tool.model, i)) != NULL; i++)
        text_add(&t, "%s%.60s", i ? ", " : "", name);
    complain(0,
             "note: this model's files name prompts and none is used: give --prompt with one of %s, or \"\" for none",
             names);
}

/* Vectors of tokens are those of the model's own projection, where it has one and --pool does not ask for others. */
static wherry_session_desc session_wanted(const struct embedding *e)
{
    const struct options *options = e->run.tool.options;
    bool tokens = options->output_type == OUTPUT_TOKENS;
    wherry_session_desc desc = {.normalize = options->normalize      ? 1
                                             : options->no_normalize ? -1
                                                                     : 0,
                                .dimensions = options->dimensions};
    const wherry_model_info *info = &e->run.tool.model_info;
    if (options->output_type == OUTPUT_SPARSE)
        desc.output = info->config.head == WHERRY_HEAD_VOCABULARY && !info->token_weights ? WHERRY_OUTPUT_WORDS
                                                                                          : WHERRY_OUTPUT_SPARSE;
    else if (info->words && !tokens && !options->pool)
        desc.output = WHERRY_OUTPUT_WORDS; /* the files' own embedding */
    else if (tokens && !options->pool && e->run.tool.model_info.token_vectors)
        desc.output = WHERRY_OUTPUT_TOKEN_VECTORS;
    else
        desc.pool = tokens ? WHERRY_POOL_NONE : pool_choice(options->pool);
    return desc;
}

static int open_run(struct embedding *e)
{
    const struct options *options = &e->own;
    int code = text_run_open(&e->run, options);
    if (!code) code = text_run_prompt(&e->run);
    if (code) return code;
    const wherry_session_desc desc = session_wanted(e);
    wherry_pool pool = desc.pool ? desc.pool : e->run.tool.model_info.pool;
    e->output = desc.output;
    e->run.per_token = e->output ? e->output != WHERRY_OUTPUT_WORDS : pool == WHERRY_POOL_NONE;
    if (e->run.per_token && e->format != FORMAT_JSONL && !(weighs(e) && e->format == FORMAT_TEXT))
        code = complain(EXIT_USAGE, "there is a %s for each token (%s): only --format jsonl%s can hold it",
                        weighs(e) ? "weight" : "vector",
                        options->output_type == OUTPUT_SPARSE   ? "--output-type sparse"
                        : options->output_type == OUTPUT_TOKENS ? "--output-type tokens"
                        : desc.pool                             ? "--pool none"
                                                                : "the model pools nothing",
                        weighs(e) ? " or text" : "");
    if (!code && weighs(e)) code = token_names_read(&e->run.tool, &e->names);
    if (!code) warn_prompts(&e->run);
    if (!code) code = text_run_start(&e->run, desc);
    return code ? code : open_row(e);
}

int embed_command(const struct options *options)
{
    struct embedding *e = need(calloc(1, sizeof *e));
    e->own = *options;
    int code = check_options(options, &e->format);
    if (!code) code = ranks_open(&e->ranks, options);
    if (!code) code = ranks_options(&e->ranks, &e->own);
    if (!code) code = open_run(e);
    if (!code) code = e->ranks.started ? embed_in_parts(e) : embed_texts(e);
    if (code && code != EXIT_STOPPED) ranks_abort(&e->ranks, code);
    if (!code) text_run_tell(&e->run);
    text_run_close(&e->run);
    quantizer_close(&e->quantizer);
    token_names_free(&e->names);
    ranks_close(&e->ranks);
    free(e->row);
    free(e->spool_folder);
    free(e);
    return code;
}
