/* `wherry quality`: what a storage type costs: embeddings of texts beside those in f32. */
#include "quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "text_run.h"

/* data/sentences.txt, which the build puts into the command. */
extern const unsigned char quality_texts[];
extern const size_t quality_texts_size;

/* The tokens of texts that run together. */
struct kept {
    uint32_t sequences, tokens, *offsets;
    int32_t *ids, *types;
};

struct quality {
    struct text_run run;
    struct kept *batches;
    size_t count; /* of batches */
    size_t texts, size;
    uint32_t most_tokens, most_texts;
    float *plain, *stored; /* [texts, size]: in f32, and as they are judged */
};

static void *copied(const void *from, size_t bytes) { return memcpy(need(malloc(bytes + 1)), from, bytes); }

static int keep_batches(struct quality *q)
{
    struct text_batch *batch = &q->run.batch;
    for (;;) {
        int code = text_batch_fill(batch, &q->run.tool, &q->run.source);
        if (code || !batch->sequences) return code;
        q->batches = need(realloc(q->batches, (q->count + 1) * sizeof *q->batches));
        q->batches[q->count++] =
            (struct kept){.sequences = batch->sequences,
                          .tokens = batch->tokens,
                          .offsets = copied(batch->offsets, (batch->sequences + 1) * sizeof(uint32_t)),
                          .ids = copied(batch->ids, batch->tokens * sizeof(int32_t)),
                          .types = copied(batch->types, batch->tokens * sizeof(int32_t))};
        q->texts += batch->sequences;
        if (batch->tokens > q->most_tokens) q->most_tokens = batch->tokens;
        if (batch->sequences > q->most_texts) q->most_texts = batch->sequences;
    }
}

/* All texts' embeddings, in a session of this type. */
static int embed_all(struct quality *q, wherry_session_desc desc, float **out)
{
    struct tool *tool = &q->run.tool;
    desc.max_tokens = q->most_tokens;
    desc.max_sequences = q->most_texts;
    int code = tool_open_session(tool, plan_name(tool->options->plan), desc);
    if (code) return code;
    q->size = tool->plan.embedding_size;
    *out = need(malloc((q->texts * q->size + 1) * sizeof **out));
    float *to = *out;
    for (size_t i = 0; i < q->count; i++) {
        const struct kept *kept = &q->batches[i];
        const wherry_batch batch = {.struct_size = sizeof batch,
                                    .sequences = kept->sequences,
                                    .offsets = kept->offsets,
                                    .ids = kept->ids,
                                    .types = kept->types};
        wherry_status status = wherry_encode(tool->session, &batch, to, kept->sequences * q->size);
        if (status) return tool_error(tool, status, NULL);
        to += kept->sequences * q->size;
    }
    return EXIT_FINE;
}

static int open_texts(struct quality *q, const struct options *options)
{
    int code = text_run_open(&q->run, options);
    if (!code && !options->files_count) {
        text_source_close(&q->run.source);
        text_source_open_memory(&q->run.source, "the texts of wherry quality", quality_texts, quality_texts_size);
    }
    if (!code) code = text_run_prompt(&q->run);
    if (!code) code = keep_batches(q);
    if (!code && q->texts < 3)
        code =
            complain(EXIT_INPUT, "%s has %zu texts: a rank correlation wants 3 at least", q->run.source.name, q->texts);
    return code;
}

/* ---- what is told ---- */

static const char *stored_name(const struct tool *tool, char text[64])
{
    bool int8 = tool->plan.weights == WHERRY_WEIGHTS_INT8;
    snprintf(text, 64, "%s%s", dtype_name(tool->plan.dtype), int8 ? ", int8 weights" : "");
    return text;
}

static void write_table(const struct quality *q, const struct quality_found *f, struct output *out)
{
    const struct tool *tool = &q->run.tool;
    char name[64];
    struct table table = {.columns = "<stored|>texts|>cosine|>least|>rank correlation|>top-10 overlap"};
    output_format(out, "%s on %s (%s), beside f32:\n", tool->options->model, tool->device_info.id,
                  tool->device_info.name);
    table_cell(&table, "%s", stored_name(tool, name));
    table_cell(&table, "%zu", q->texts);
    table_cell(&table, "%.6f", f->cosine);
    table_cell(&table, "%.6f", f->least);
    table_cell(&table, "%.6f", f->rank_correlation);
    table_cell(&table, "%.4f", f->overlap);
    table_print(&table, out);
    if (f->compared < q->texts)
        output_format(out, "Rank correlation and overlap are of %zu texts, evenly chosen.\n", f->compared);
}

static void write_json(const struct quality *q, const struct quality_found *f, struct output *out)
{
    const struct tool *tool = &q->run.tool;
    output_json(out, need(json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:f, s:I, s:f, s:I, s:f}", "run",
                                    run_json(tool->options), "device", device_json(&tool->device_info), "model",
                                    model_json(tool), "session", session_json(tool), "texts", (json_int_t)q->texts,
                                    "compared", (json_int_t)f->compared, "cosine", f->cosine, "least_cosine", f->least,
                                    "least_index", (json_int_t)f->least_at, "rank_correlation", f->rank_correlation,
                                    "top", (json_int_t)f->top, "top_overlap", f->overlap)));
}

static int judge(struct quality *q)
{
    struct tool *tool = &q->run.tool;
    const struct options *options = tool->options;
    int code = embed_all(q, (wherry_session_desc){.dtype = WHERRY_DTYPE_F32}, &q->plain);
    tool_close_session(tool);
    if (!code)
        code = embed_all(
            q,
            (wherry_session_desc){.dtype = (wherry_dtype)options->dtype, .weights = (wherry_weights)options->weights},
            &q->stored);
    if (!code && tool->plan.dtype == WHERRY_DTYPE_F32 && tool->plan.weights == WHERRY_WEIGHTS_DEFAULT)
        code =
            complain(EXIT_USAGE, "f32 is what others are compared with: give --dtype f16 or bf16, or --weights int8");
    if (code) return code;
    struct output out;
    struct quality_found found = quality_find(q->plain, q->stored, q->texts, q->size);
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    (options->json ? write_json : write_table)(q, &found, &out);
    return output_close(&out, output_ok(&out)) ? EXIT_FINE : EXIT_OUTPUT;
}

int quality_command(const struct options *options)
{
    struct quality q = {.count = 0};
    int code = open_texts(&q, options);
    if (!code) code = judge(&q);
    for (size_t i = 0; i < q.count; i++) {
        free(q.batches[i].offsets);
        free(q.batches[i].ids);
        free(q.batches[i].types);
    }
    free(q.batches);
    free(q.plain);
    free(q.stored);
    text_run_close(&q.run);
    return code;
}
