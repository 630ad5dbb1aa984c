/* What a model says of tokens, as entities: tokens of one kind that follow each other, by the rules of transformers'
 * pipeline. */
#include "entities.h"

#include <stdlib.h>
#include <string.h>

/* A token or a word, and what is said of it. */
struct piece {
    size_t start, end, first, end_byte;
    uint32_t label;
    float score;
    const float *scores; /* [labels] */
    bool continues;      /* the word of the one before it */
};

static uint32_t best_label(const float *scores, uint32_t labels)
{
    uint32_t best = 0;
    for (uint32_t l = 1; l < labels; l++)
        if (scores[l] > scores[best]) best = l;
    return best;
}

static void piece_label(struct piece *p, const float *scores, uint32_t labels)
{
    p->label = best_label(scores, labels);
    p->score = scores[p->label];
}

/* Where a tokenizer does not know words, a token begins one after white space, or with it. One that stands for what is
 * unknown begins one always. */
static bool joins(const struct text_label *text, const wherry_token_place *place)
{
    if (place->continues >= 0) return place->continues > 0;
    if (!place->first) return false;
    return text->text[place->first - 1] != ' ' && (place->first >= text->text_bytes || text->text[place->first] != ' ');
}

/* The sequence's tokens but special ones; returns how many. */
static size_t take_tokens(const struct text_run *run, uint32_t sequence, const float *scores, struct piece *pieces)
{
    const struct text_batch *batch = &run->batch;
    uint32_t labels = run->tool.model_info.config.labels, first = batch->offsets[sequence];
    size_t n = 0;
    for (uint32_t t = first; t < batch->offsets[sequence + 1]; t++, scores += labels) {
        const wherry_token_place *place = &batch->places[t];
        if (place->text < 0) continue;
        struct piece *p = &pieces[n++];
        *p = (struct piece){place->first_character, place->end_character, place->first, place->end, .scores = scores};
        p->continues = batch->ids[t] != run->tool.model_info.unknown_token && joins(&batch->labels[sequence], place);
        piece_label(p, scores, labels);
    }
    return n;
}

/* ---- words ---- */

/* Of tokens [first, end): by the first one's scores, their mean, or the scores among which is the largest. */
static struct piece join_word(const struct piece *pieces, size_t first, size_t end, uint32_t labels, int aggregation,
                              float *mean)
{
    struct piece word = pieces[first];
    word.end = pieces[end - 1].end;
    word.end_byte = pieces[end - 1].end_byte;
    if (aggregation == AGGREGATION_MAX)
        for (size_t i = first + 1; i < end; i++)
            if (pieces[i].score > word.score) word.score = pieces[i].score, word.label = pieces[i].label;
    if (aggregation != AGGREGATION_AVERAGE) return word;
    for (uint32_t l = 0; l < labels; l++) {
        double sum = 0;
        for (size_t i = first; i < end; i++) sum += (double)pieces[i].scores[l];
        mean[l] = (float)(sum / (double)(end - first));
    }
    piece_label(&word, mean, labels);
    return word;
}

/* In place; returns how many words there are. */
static size_t join_words(struct piece *pieces, size_t count, uint32_t labels, int aggregation)
{
    float *mean = need(malloc(labels * sizeof *mean));
    size_t words = 0;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && pieces[end].continues;) end++;
        pieces[words++] = join_word(pieces, first, end, labels, aggregation, mean);
    }
    free(mean);
    return words;
}

/* ---- entities ---- */

/* What follows B- or I-, and whether an entity begins there. */
static const char *tag_of(const char *label, bool *begins)
{
    *begins = label[0] == 'B' && label[1] == '-';
    return *begins || (label[0] == 'I' && label[1] == '-') ? label + 2 : label;
}

/* What an entity of such tokens is called: what follows the first hyphen. */
static const char *group_name(const char *label)
{
    const char *hyphen = strchr(label, '-');
    return hyphen ? hyphen + 1 : label;
}

static size_t group(const struct text_run *run, const struct piece *pieces, size_t count, struct entity *out)
{
    const wherry_model *model = run->tool.model;
    size_t n = 0;
    for (size_t first = 0, end; first < count; first = end) {
        bool begins;
        const char *label = wherry_model_label(model, pieces[first].label), *tag = tag_of(label, &begins);
        double sum = (double)pieces[first].score;
        for (end = first + 1; end < count; end++) {
            const char *next = tag_of(wherry_model_label(model, pieces[end].label), &begins);
            if (begins || strcmp(tag, next)) break;
            sum += (double)pieces[end].score;
        }
        const struct piece *last = &pieces[end - 1];
        if (strcmp(group_name(label), "O"))
            out[n++] = (struct entity){group_name(label),   (float)(sum / (double)(end - first)),
                                       pieces[first].start, last->end,
                                       pieces[first].first, last->end_byte - pieces[first].first};
    }
    return n;
}

static size_t each_token(const struct text_run *run, const struct piece *pieces, size_t count, struct entity *out)
{
    size_t n = 0;
    for (const struct piece *p = pieces; p < pieces + count; p++) {
        const char *label = wherry_model_label(run->tool.model, p->label);
        if (strcmp(label, "O"))
            out[n++] = (struct entity){label, p->score, p->start, p->end, p->first, p->end_byte - p->first};
    }
    return n;
}

int entities_find(const struct text_run *run, uint32_t sequence, const float *logits, struct entity **out,
                  size_t *count)
{
    uint32_t labels = run->tool.model_info.config.labels;
    size_t tokens = text_run_rows(run, sequence), n;
    int aggregation = run->tool.options->aggregation ? run->tool.options->aggregation : AGGREGATION_SIMPLE;
    float *scores = need(malloc(tokens * labels * sizeof *scores));
    struct piece *pieces = need(calloc(tokens, sizeof *pieces));
    struct entity *entities = need(calloc(tokens, sizeof *entities));
    memcpy(scores, logits, tokens * labels * sizeof *scores);
    wherry_scores_apply(WHERRY_SCORES_SOFTMAX, scores, tokens, labels);
    n = take_tokens(run, sequence, scores, pieces);
    if (aggregation > AGGREGATION_SIMPLE) n = join_words(pieces, n, labels, aggregation);
    *count = aggregation == AGGREGATION_NONE ? each_token(run, pieces, n, entities) : group(run, pieces, n, entities);
    *out = entities;
    free(pieces);
    free(scores);
    return EXIT_FINE;
}
