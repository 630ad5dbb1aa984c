/* Pairs of lines. */
#include "train/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "options.h"
#include "train/draws.h"

enum { FOLLOWS, OTHER }; /* what is drawn for a line */

uint64_t pair_draw(uint64_t key, uint64_t number, uint64_t count, int32_t *label)
{
    bool last = number + 1 == count;
    *label = !last && draw_unit(key, FOLLOWS, number) < 0.5 ? NEXT_FOLLOWS : NEXT_ELSEWHERE;
    if (*label == NEXT_FOLLOWS) return number + 1;
    uint64_t others = count - (last ? 1 : 2);
    uint64_t other = (uint64_t)(draw_unit(key, OTHER, number) * (double)others);
    if (other >= others) other = others - 1;
    return other < number ? other : other + (last ? 1 : 2);
}

int pair_add(struct example *example, const struct example_form *form, struct lines *lines, uint64_t key,
             uint64_t number)
{
    struct example second = {.object = NULL};
    int32_t label;
    char *line;
    size_t bytes = example->texts[0].bytes;
    if (lines->count < PAIR_LINES_LEAST)
        return lines_complain(lines, number, "of lines pairs are made, which takes three or more of them");
    uint64_t other = pair_draw(key, number, lines->count, &label);
    free(example->joined); /* the next line is read where this one is */
    example->joined = need(malloc(bytes + 1));
    memcpy(example->joined, example->texts[0].text, bytes);
    example->texts[0].text = example->joined;
    int code = lines_read(lines, other, &line, &bytes);
    if (code) return code;
    struct example_form of = *form;
    if (!example_read(&second, &of, line, bytes)) return lines_complain(lines, other, second.problem);
    example->texts[1] = second.texts[0];
    example->columns = 2;
    example->label = label;
    return EXIT_FINE;
}
