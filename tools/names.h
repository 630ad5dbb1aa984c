/* Names of what options and results count, and the name that a mistyped one is near to. */
#ifndef WHERRY_TOOLS_NAMES_H
#define WHERRY_TOOLS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <wherry/wherry.h>
#include <wherry/wherry_measure.h>

/* The entry of "a|b|c" whose place (from 1) is `choice`, as memory that lives until the next call. */
const char *choice_name(const char *choices, int choice);
/* The name nearest to `word` that is near enough to be meant, by `name(n)` until NULL; else NULL. */
const char *nearest_name(const char *word, const char *(*name)(size_t n, const void *user), const void *user);

/* The name of plan number `choice` of PLAN_CHOICES (0: the default, flash). Lives forever. */
const char *plan_name(int choice);
const char *dtype_name(wherry_dtype dtype);
const char *weights_name(wherry_weights weights);
const char *pool_name(wherry_pool pool);
/* The choice of POOL_CHOICES of that place, 0: the default. */
wherry_pool pool_choice(int choice);
const char *activation_name(wherry_activation activation);
const char *save_name(wherry_save save);
const char *device_type_name(wherry_device_type type);
char class_letter(wherry_class class_);
const char *class_name(wherry_class class_);
/* The part of a group's or operator's name after "layer.N.". */
const char *cost_kind(const wherry_cost *cost);
/* "layer.*.qkv", or the whole name outside the layers: equal for what repeats from layer to layer. */
bool same_kind(const wherry_cost *a, const wherry_cost *b);

#endif
