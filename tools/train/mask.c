/* Masked language models: which tokens of a text are to be predicted. */
#include "train/mask.h"

#include <math.h>

#include "train/draws.h"
#include "train/example.h"

enum { CHOOSE, REPLACE, WORD }; /* what is drawn for a place */

static bool is_special(const wherry_token_place *place) { return place->text < 0; }

/* The token whose draw decides for this one: the first of its word. */
static size_t decider(const struct mask_form *form, const wherry_token_place *places, size_t t)
{
    while (form->whole_words && t && places[t].continues == 1 && !is_special(&places[t - 1])) t--;
    return t;
}

static void predict(const struct mask_form *form, uint64_t key, size_t t, int32_t *ids, int32_t *labels)
{
    double what = draw_unit(key, REPLACE, t);
    labels[t] = ids[t];
    if (what < 0.8)
        ids[t] = form->mask;
    else if (what < 0.9)
        ids[t] = (int32_t)(draw_unit(key, WORD, t) * form->vocabulary);
}

void mask_tokens(const struct mask_form *form, uint64_t key, const wherry_token_place *places, size_t count,
                 int32_t *ids, int32_t *labels)
{
    const uint32_t most = form->most ? form->most : UINT32_MAX;
    size_t least = count; /* the token with the least draw, which is predicted where no other is */
    double least_draw = 2;
    uint32_t predicted = 0;
    for (size_t t = 0; t < count; t++) {
        labels[t] = IGNORED;
        if (is_special(&places[t])) continue;
        double draw = draw_unit(key, CHOOSE, decider(form, places, t));
        if (draw < least_draw) {
            least = t;
            least_draw = draw;
        }
        if (draw >= form->share || predicted == most) continue;
        predict(form, key, t, ids, labels);
        predicted++;
    }
    if (predicted || least == count) return;
    for (size_t t = least; t < count && predicted < most && !is_special(&places[t]) &&
                           decider(form, places, t) == decider(form, places, least);
         t++, predicted++)
        predict(form, key, t, ids, labels);
}

uint32_t mask_most(double share, uint32_t tokens, uint32_t sequences)
{
    double expected = share * tokens, most = ceil(expected + 4 * sqrt(expected)) + sequences;
    return most < tokens ? (uint32_t)most : tokens;
}
