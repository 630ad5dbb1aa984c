/* Entries of a list by what names them, sorted once: each is found without going through the list. */
#ifndef WHERRY_TOOLS_REPORT_KEYS_H
#define WHERRY_TOOLS_REPORT_KEYS_H

#include <jansson.h>
#include <stddef.h>

/* Texts that are the list's own; NULL is less than any. `item`: the entry's place in the list. */
struct key {
    const char *texts[3];
    double number;
    size_t item;
};

/* To be freed. */
struct keys {
    struct key *list;
    size_t count;
};

struct keys keys_begin(size_t room);
/* The next item's key. */
void keys_add(struct keys *keys, struct key key);
/* After the last one, before anything is looked up. */
void keys_sort(struct keys *keys);
struct keys keys_of_list(const json_t *list, struct key (*key_of)(const json_t *entry));
void keys_free(struct keys *keys);

/* The first item with this key (whose own `item` says nothing); NULL: none. */
const struct key *keys_find(const struct keys *keys, struct key wanted);
/* How many have it. */
size_t keys_like(const struct keys *keys, struct key wanted);

/* ---- the operations of plans ---- */

/* In the record's order. */
struct plan_ops {
    json_t **list;
    size_t count;
};

/* plans[n] are those of the record's plan n. */
struct op_groups {
    struct plan_ops *plans;
    json_t **all;
    size_t stray; /* the first operation whose plan the record lacks; as many as there are: none */
};

/* Of a record whose plans differ in name or device. To be freed. */
struct op_groups ops_group(const json_t *record);
void op_groups_free(struct op_groups *groups);

#endif
