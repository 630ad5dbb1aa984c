/* Where in the data training is, to go on from there. */
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "train/batches.h"

void position_free(struct position *position)
{
    free(position->waiting);
    *position = (struct position){.waiting = NULL};
}

void position_copy(struct position *to, const struct position *from)
{
    *to = *from;
    to->room = from->n_waiting;
    to->waiting = need(malloc(from->n_waiting ? from->n_waiting * sizeof *to->waiting : 1));
    if (from->n_waiting) memcpy(to->waiting, from->waiting, from->n_waiting * sizeof *to->waiting);
}

json_t *position_json(const struct position *position)
{
    json_t *waiting = need(json_array());
    for (size_t n = 0; n < position->n_waiting; n++)
        json_array_append_new(waiting, need(json_integer((json_int_t)position->waiting[n])));
    return need(json_pack("{s:I, s:I, s:o}", "epoch", (json_int_t)position->epoch, "place", (json_int_t)position->place,
                          "waiting", waiting));
}

bool position_read(struct position *position, const json_t *json, uint64_t lines)
{
    const json_t *epoch = json_object_get(json, "epoch"), *place = json_object_get(json, "place");
    const json_t *waiting = json_object_get(json, "waiting");
    size_t count = json_array_size(waiting);
    *position = (struct position){.room = count};
    if (!json_is_integer(epoch) || !json_is_integer(place) || !json_is_array(waiting)) return false;
    position->epoch = (uint64_t)json_integer_value(epoch);
    position->place = (uint64_t)json_integer_value(place);
    if (position->place > lines) return false;
    position->waiting = need(malloc(count ? count * sizeof *position->waiting : 1));
    for (size_t n = 0; n < count; n++) {
        uint64_t number = (uint64_t)json_integer_value(json_array_get(waiting, n));
        if (number >= lines) return position_free(position), false;
        position->waiting[position->n_waiting++] = number;
    }
    return true;
}
