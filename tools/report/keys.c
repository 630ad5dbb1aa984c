/* Names that are looked up: sorted, and found by bisection. A record from elsewhere may have thousands of everything.
 */
#include "report/keys.h"

#include <stdlib.h>
#include <string.h>

#include "session.h"

struct keys keys_begin(size_t room) { return (struct keys){.list = need(calloc(room + 1, sizeof(struct key)))}; }

void keys_add(struct keys *keys, struct key key)
{
    key.item = keys->count;
    keys->list[keys->count++] = key;
}

static int compare_texts(const char *a, const char *b) { return a && b ? strcmp(a, b) : !!a - !!b; }

/* By all but the item. */
static int compare_names(const struct key *a, const struct key *b)
{
    for (size_t n = 0; n < sizeof a->texts / sizeof *a->texts; n++) {
        int order = compare_texts(a->texts[n], b->texts[n]);
        if (order) return order;
    }
    return (a->number > b->number) - (a->number < b->number);
}

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    int order = compare_names(a, b);
    return order ? order : (a->item > b->item) - (a->item < b->item);
}

void keys_sort(struct keys *keys) { qsort(keys->list, keys->count, sizeof *keys->list, compare_keys); }

struct keys keys_of_list(const json_t *list, struct key (*key_of)(const json_t *entry))
{
    struct keys keys = keys_begin(json_array_size(list));
    size_t n;
    json_t *entry;
    json_array_foreach(list, n, entry) keys_add(&keys, key_of(entry));
    keys_sort(&keys);
    return keys;
}

struct keys keys_of(const void *list, size_t count, size_t size, struct key (*key_of)(const void *entry))
{
    struct keys keys = keys_begin(count);
    for (size_t n = 0; n < count; n++) keys_add(&keys, key_of((const char *)list + n * size));
    keys_sort(&keys);
    return keys;
}

void keys_free(struct keys *keys) { free(keys->list); }

/* How many keys are less; those that equal it too where `equal` says so. */
static size_t count_below(const struct keys *keys, const struct key *wanted, bool equal)
{
    size_t low = 0, high = keys->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_names(&keys->list[middle], wanted);
        if (order < 0 || (equal && !order))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct key *keys_find(const struct keys *keys, struct key wanted)
{
    size_t at = count_below(keys, &wanted, false);
    return at < keys->count && !compare_names(&keys->list[at], &wanted) ? &keys->list[at] : NULL;
}

size_t keys_like(const struct keys *keys, struct key wanted)
{
    return count_below(keys, &wanted, true) - count_below(keys, &wanted, false);
}
