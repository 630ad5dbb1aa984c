/* What came out, as each dialect writes it. */
#include "answers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "sparse.h"
#include "tokens.h"
#include "vocabulary.h"

size_t answer_floats(const struct call *call, enum lane_kind kind)
{
    const struct lane *lane = &call->model->lanes[kind];
    size_t width = kind == LANE_TOKENS ? call->model->info.config.hidden : lane->plan.embedding_size, floats = 0;
    for (uint32_t i = 0; i < call->count; i++) floats += (kind == LANE_TOKENS ? call->items[i].count : 1) * width;
    return floats;
}

/* ---- embeddings ---- */

static void make_unit(float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)values[i] * values[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 1;
    for (size_t i = 0; i < count; i++) values[i] = (float)(values[i] * scale);
}

/* Its first so many floats where the request asks for fewer than the model has. */
static uint32_t shorten(const struct call *call, struct item *item)
{
    if (!call->dimensions) return item->width;
    if (call->normalize) make_unit(item->values, call->dimensions);
    return call->dimensions;
}

static void write_embeddings(struct call *call)
{
    struct bytes *out = &call->answer;
    for (uint32_t i = 0; i < call->count; i++) {
        bytes_text(out, i ? "," : "[");
        uint32_t width = shorten(call, &call->items[i]);
        bytes_floats(out, call->items[i].values, width);
    }
    bytes_text(out, "]");
}

static void write_usage(struct bytes *out, const struct call *call)
{
    bytes_format(out, "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}", call->tokens, call->tokens);
}

static void write_openai(struct call *call)
{
    struct bytes *out = &call->answer;
    bytes_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < call->count; i++) {
        uint32_t width = shorten(call, &call->items[i]);
        bytes_format(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
        if (call->base64)
            bytes_base64(out, call->items[i].values, width);
        else
            bytes_floats(out, call->items[i].values, width);
        bytes_text(out, "}");
    }
    bytes_text(out, "],\"model\":");
    bytes_name(out, call->model->name);
    bytes_text(out, ",");
    write_usage(out, call);
    bytes_text(out, "}");
}

static void write_all(struct call *call)
{
    struct bytes *out = &call->answer;
    for (uint32_t i = 0; i < call->count; i++) {
        const struct item *item = &call->items[i];
        bytes_text(out, i ? "," : "[");
        for (uint32_t row = 0; row < item->rows; row++) {
            bytes_text(out, row ? "," : "[");
            bytes_floats(out, item->values + (size_t)row * item->width, item->width);
        }
        bytes_text(out, "]");
    }
    bytes_text(out, "]");
}

static void write_sparse(struct call *call)
{
    struct bytes *out = &call->answer;
    for (uint32_t i = 0; i < call->count; i++) {
        const struct item *item = &call->items[i];
        struct sparse_words words = call->model->lanes[LANE_SPARSE].per_token
                                        ? sparse_of_tokens(&call->model->info, item->ids, item->values, item->count)
                                        : sparse_of_row(item->values, item->width);
        bytes_text(out, i ? ",[" : "[[");
        for (uint32_t w = 0; w < words.count; w++) {
            bytes_format(out, "%s{\"index\":%u,\"value\":", w ? "," : "", words.of[w].id);
            bytes_float(out, words.of[w].weight);
            bytes_text(out, "}");
        }
        bytes_text(out, "]");
        sparse_free(&words);
    }
    bytes_text(out, "]");
}

/* Cosines: both vectors have length 1. */
static void write_similarity(struct call *call)
{
    struct bytes *out = &call->answer;
    const struct item *source = &call->items[0];
    for (uint32_t i = 1; i < call->count; i++) {
        double dot = 0;
        for (uint32_t n = 0; n < source->width; n++) dot += (double)source->values[n] * call->items[i].values[n];
        bytes_text(out, i > 1 ? "," : "[");
        bytes_float(out, (float)dot);
    }
    bytes_text(out, "]");
}

/* ---- scores ---- */

struct ranked {
    float score;
    uint32_t index;
};

/* Those of one score in their order. */
static int best_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static struct ranked *rank(const float *scores, uint32_t count)
{
    struct ranked *list = need(malloc((count ? count : 1) * sizeof *list));
    for (uint32_t i = 0; i < count; i++) list[i] = (struct ranked){scores[i], i};
    qsort(list, count, sizeof *list, best_first);
    return list;
}

/* What the model's files want where they say that labels are not exclusive; one label has a sigmoid. */
static void make_scores(const struct call *call, float *logits, uint32_t labels)
{
    bool sigmoid = labels == 1 || call->model->info.scores == WHERRY_SCORES_SIGMOID;
    if (!call->raw_scores)
        wherry_scores_apply(sigmoid ? WHERRY_SCORES_SIGMOID : WHERRY_SCORES_SOFTMAX, logits, 1, labels);
}

static void write_predictions(struct call *call)
{
    struct bytes *out = &call->answer;
    if (call->list) bytes_text(out, "[");
    for (uint32_t i = 0; i < call->count; i++) {
        struct item *item = &call->items[i];
        make_scores(call, item->values, item->width);
        struct ranked *list = rank(item->values, item->width);
        bytes_text(out, i ? ",[" : "[");
        for (uint32_t n = 0; n < item->width; n++) {
            bytes_text(out, n ? ",{\"score\":" : "{\"score\":");
            bytes_float(out, list[n].score);
            bytes_text(out, ",\"label\":");
            bytes_name(out, wherry_model_label(call->model->model, list[n].index));
            bytes_text(out, "}");
        }
        bytes_text(out, "]");
        free(list);
    }
    if (call->list) bytes_text(out, "]");
}

static void write_rank(const struct call *call, const struct ranked *of, struct bytes *out)
{
    const struct passage *text = &call->items[of->index].text;
    bool tei = call->dialect == DIALECT_TEI;
    bytes_format(out, "{\"index\":%u,\"%s\":", of->index, tei ? "score" : "relevance_score");
    bytes_float(out, of->score);
    if (call->return_text) {
        bytes_text(out, tei ? ",\"text\":" : ",\"document\":{\"text\":");
        bytes_quoted(out, text->text, text->text_bytes);
        if (!tei) bytes_text(out, "}");
    }
    bytes_text(out, "}");
}

/* Cohere's, Jina's and llama-server's clients find their fields in one body. */
static void write_ranking(struct call *call)
{
    struct bytes *out = &call->answer;
    float *scores = need(malloc(call->count * sizeof *scores));
    uint32_t shown = call->top && call->top < call->count ? call->top : call->count;
    for (uint32_t i = 0; i < call->count; i++) {
        make_scores(call, call->items[i].values, 1);
        scores[i] = call->items[i].values[0];
    }
    struct ranked *list = rank(scores, call->count);
    if (call->dialect == DIALECT_RANK) {
        bytes_format(out,
                     "{\"id\":\"%016llx\",\"object\":\"list\",\"model\":", (unsigned long long)(1e9 * call->received));
        bytes_name(out, call->model->name);
        bytes_text(out, ",\"results\":");
    }
    for (uint32_t i = 0; i < shown; i++) {
        bytes_text(out, i ? "," : "[");
        write_rank(call, &list[i], out);
    }
    bytes_text(out, "]");
    if (call->dialect == DIALECT_RANK) {
        bytes_text(out, ",");
        write_usage(out, call);
        bytes_text(out, ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{\"search_units\":1}}}");
    }
    free(list);
    free(scores);
}

/* ---- all ---- */

void answer_write(struct call *call)
{
    switch (call->task) {
    case TASK_EMBED:
        if (call->dialect == DIALECT_OPENAI)
            write_openai(call);
        else
            write_embeddings(call);
        break;
    case TASK_EMBED_ALL:
        write_all(call);
        break;
    case TASK_EMBED_SPARSE:
        write_sparse(call);
        break;
    case TASK_RERANK:
        write_ranking(call);
        break;
    case TASK_PREDICT:
        write_predictions(call);
        break;
    default:
        write_similarity(call);
    }
}

void answer_decode(struct call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        int32_t *ids = tokens_given(&call->items[i]);
        if (!ids) return;
        bytes_text(&call->answer, i ? "," : "[");
        vocabulary_decode(call->model->vocabulary, ids, json_array_size(call->items[i].given), call->skip_special,
                          &call->answer);
        free(ids);
    }
    bytes_text(&call->answer, "]");
}
