/* Splitting at delimiters: what becomes of them. */
#include "tokenizer/behavior.h"

#include <string.h>

bool behavior_read(const struct part_reader *r, const json_t *part, const char *key, enum behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name;
    TRY(part_string(r, part, key, &name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *out = (enum behavior)i;
        if (!strcmp(name, names[i])) return true;
    }
    return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its \"%s\" is \"%.100s\", which is not supported", key, name);
}

/* Whether a part goes on what came before it. */
static bool joins(const struct splitting *s, bool delimiter)
{
    switch (s->behavior) {
    case MERGED_WITH_PREVIOUS:
        return delimiter && !s->delimiter;
    case MERGED_WITH_NEXT:
        return !delimiter && s->delimiter;
    case CONTIGUOUS:
        return delimiter == s->delimiter;
    default:
        return false;
    }
}

bool splitting_add(struct splitting *s, size_t first, size_t end, bool delimiter)
{
    if (first >= end || *s->to->full) return true;
    if (s->behavior == REMOVED) return delimiter || piece_add(s->to, s->text, first, end);
    if (s->behavior == ISOLATED) return piece_add(s->to, s->text, first, end);
    if (s->first < s->end && joins(s, delimiter)) {
        s->end = end;
    } else {
        TRY(splitting_end(s));
        s->first = first;
        s->end = end;
    }
    s->delimiter = delimiter;
    return true;
}

bool splitting_end(struct splitting *s)
{
    bool ok = *s->to->full || piece_add(s->to, s->text, s->first, s->end);
    s->first = s->end = 0;
    return ok;
}
