/* How a text becomes the tokens that are encoded: with the prompt in front of it, or as the second one of a pair. */
#include "tokenize.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"

static char *joined(const char *prompt, const struct passage *text, size_t *bytes)
{
    size_t before = strlen(prompt);
    char *all = need(malloc(before + text->text_bytes + 1));
    memcpy(all, prompt, before);
    memcpy(all + before, text->text, text->text_bytes);
    *bytes = before + text->text_bytes;
    return all;
}

wherry_status tokenize_text(wherry_context *context, const wherry_model *model, const struct token_form *form,
                            const struct passage *text, const struct token_room *room, size_t *count)
{
    const char *first = text->text, *second = text->pair;
    size_t first_bytes = text->text_bytes, second_bytes = text->pair_bytes, found = form->max_length;
    char *prompted = NULL;
    if (form->query) {
        second = first, second_bytes = first_bytes;
        first = form->query, first_bytes = form->query_bytes;
    } else if (form->prompt && *form->prompt) {
        first = prompted = joined(form->prompt, text, &first_bytes);
    }
    const wherry_text_form *taken = &form->taken;
    uint32_t most = form->truncate ? form->max_length : 0;
    if (taken->max_tokens && (!most || taken->max_tokens < most)) most = taken->max_tokens;
    wherry_status status = wherry_tokenize_places(context, model, first, first_bytes, second, second_bytes, most,
                                                  room->ids, room->types, room->places, &found);
    free(prompted);
    if (status) return status;
    for (; found < taken->least_tokens && found < form->max_length; found++) {
        room->ids[found] = taken->added_token;
        room->types[found] = 0;
        if (room->places) room->places[found] = (wherry_token_place){.text = -1, .continues = -1};
    }
    *count = found;
    return WHERRY_STATUS_OK;
}
