/* An example's tokens. */
#include "train/tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "complain.h"
#include "options.h"
#include "train/draws.h"
#include "train/mask.h"

/* ---- memory ---- */

static void make_room(struct token_list *list, size_t tokens)
{
    if (list->sequences == list->ends_room) {
        list->ends_room = list->ends_room ? 2 * list->ends_room : 64;
        list->ends = need(realloc(list->ends, list->ends_room * sizeof *list->ends));
    }
    if (list->places_room < tokens) {
        list->places_room = tokens;
        list->places = need(realloc(list->places, tokens * sizeof *list->places));
    }
    if (list->room >= list->tokens + tokens) return;
    list->room = 2 * (list->tokens + tokens);
    list->ids = need(realloc(list->ids, list->room * sizeof *list->ids));
    list->types = need(realloc(list->types, list->room * sizeof *list->types));
    list->labels = need(realloc(list->labels, list->room * sizeof *list->labels));
}

void token_list_cut(struct token_list *list, uint32_t sequences)
{
    list->sequences = sequences;
    list->tokens = sequences ? list->ends[sequences - 1] : 0;
}

void token_list_free(struct token_list *list)
{
    free(list->ends);
    free(list->ids);
    free(list->types);
    free(list->labels);
    free(list->places);
    *list = (struct token_list){.sequences = 0};
}

/* ---- labels of tokens ---- */

/* The first token of a word has the word's label, the others do not count. A token is of the word that its last byte is
 * in: where tokens take the space before a word along, that is no part of the word. */
static void label_words(const struct example *example, const wherry_token_place *places, size_t count, int32_t *labels)
{
    size_t word = 0, labelled = 0; /* words before `labelled` have had their first token */
    for (size_t t = 0; t < count; t++) {
        const wherry_token_place *place = &places[t];
        labels[t] = IGNORED;
        if (place->text < 0 || place->end <= place->first) continue;
        while (word + 1 < example->words && example->word_ends[word] < place->end) word++;
        if (word < labelled) continue;
        labels[t] = example->word_labels[word];
        labelled = word + 1;
    }
}

static void label_tokens(struct token_list *list, const struct batches *b, uint64_t number, size_t count)
{
    int32_t *labels = list->labels + list->tokens;
    if (b->form->task == TASK_TOKENS) {
        label_words(&b->example, list->places, count, labels);
    } else if (b->form->task == TASK_MLM) {
        const struct mask_form form = {.share = b->desc.masked,
                                       .whole_words = b->desc.whole_words,
                                       .most = b->desc.labels,
                                       .mask = b->desc.info->mask_token,
                                       .vocabulary = b->desc.info->config.vocabulary};
        mask_tokens(&form, draw_bits(b->desc.seed, b->position.epoch, number), list->places, count,
                    list->ids + list->tokens, labels);
    }
}

/* ---- sequences ---- */

static int too_long(const struct batches *b, uint64_t number, size_t count)
{
    char text[160];
    snprintf(
        text, sizeof text,
        "%zu tokens, and the limit is %u: give --truncate to cut longer texts, or a larger --max-tokens if the model "
        "allows it",
        count, b->desc.max_length);
    return lines_complain(b->lines, number, text);
}

static int add_sequence(struct token_list *list, const struct batches *b, uint64_t number,
                        const struct example_text *text, const struct example_text *pair)
{
    const struct batches_desc *desc = &b->desc;
    size_t count = desc->max_length;
    bool labels = b->form->task == TASK_TOKENS || b->form->task == TASK_MLM;
    make_room(list, count);
    wherry_status status =
        wherry_tokenize_places(desc->context, desc->model, text->text, text->bytes, pair ? pair->text : NULL,
                               pair ? pair->bytes : 0, desc->truncate ? desc->max_length : 0, list->ids + list->tokens,
                               list->types + list->tokens, labels ? list->places : NULL, &count);
    if (status) return lines_complain(b->lines, number, wherry_last_error(desc->context));
    if (count > desc->max_length) return too_long(b, number, count);
    if (!count) return lines_complain(b->lines, number, "a text without any token");
    label_tokens(list, b, number, count);
    list->tokens += (uint32_t)count;
    list->ends[list->sequences++] = list->tokens;
    return EXIT_FINE;
}

int token_list_add(struct token_list *list, const struct batches *b, uint64_t number)
{
    const struct example *e = &b->example;
    uint32_t before = list->sequences;
    bool apart = b->form->task == TASK_CONTRASTIVE || b->form->task == TASK_SCORED;
    int code = EXIT_FINE;
    if (!apart) return add_sequence(list, b, number, &e->texts[0], e->columns > 1 ? &e->texts[1] : NULL);
    for (uint32_t n = 0; n < e->columns && !code; n++) code = add_sequence(list, b, number, &e->texts[n], NULL);
    if (code) token_list_cut(list, before);
    return code;
}
