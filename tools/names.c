/* Names of what options and results count, and the name that a mistyped one is near to. */
#include "names.h"

#include <stdio.h>
#include <string.h>

#include "options.h"

const char *choice_name(const char *choices, int choice)
{
    static char name[32];
    const char *at = choices;
    for (int n = 1; n < choice && at; n++) {
        at = strchr(at, '|');
        if (at) at++;
    }
    snprintf(name, sizeof name, "%.*s", at ? (int)strcspn(at, "|") : 0, at ? at : "");
    return name;
}

/* Edits (insert, delete, replace) from one word to the other; words longer than 63 count as far away. */
static size_t word_distance(const char *a, const char *b)
{
    size_t row[64], length = strlen(b);
    if (strlen(a) > 63 || length > 63) return 64;
    for (size_t n = 0; n <= length; n++) row[n] = n;
    for (; *a; a++) {
        size_t corner = row[0]++;
        for (size_t n = 1; n <= length; n++) {
            size_t best = corner + (*a != b[n - 1]);
            corner = row[n];
            if (row[n] + 1 < best) best = row[n] + 1;
            if (row[n - 1] + 1 < best) best = row[n - 1] + 1;
            row[n] = best;
        }
    }
    return row[length];
}

const char *nearest_name(const char *word, const char *(*name)(size_t n, const void *user), const void *user)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) < 6 ? 3 : strlen(word) / 2 + 1;
    for (size_t n = 0; name(n, user); n++) {
        const char *candidate = name(n, user);
        size_t distance = word_distance(word, candidate);
        if (strlen(word) > 2 && strncmp(candidate, word, strlen(word)) == 0) distance = 0;
        if (distance >= best_distance) continue;
        best = candidate;
        best_distance = distance;
    }
    return best;
}

const char *plan_name(int choice)
{
    static const char *const names[] = {"flash", "flash", "paper", "unfused"};
    return names[choice >= 0 && choice < PLAN_ALL ? choice : 0];
}

const char *weights_name(wherry_weights weights) { return weights == WHERRY_WEIGHTS_INT8 ? "int8" : "default"; }

const char *dtype_name(wherry_dtype dtype)
{
    static const char *const names[] = {"default", "f32", "f16", "bf16"};
    return (unsigned)dtype < 4 ? names[dtype] : "?";
}

const char *pool_name(wherry_pool pool)
{
    static const char *const names[] = {"default", "mean", "cls",       "max",      "pooler",
                                        "none",    "last", "mean_sqrt", "weighted", "combined"};
    return (unsigned)pool < sizeof names / sizeof *names ? names[pool] : "?";
}

wherry_pool pool_choice(int choice) { return (wherry_pool)choice; /* in the order of wherry_pool */ }

const char *activation_name(wherry_activation activation)
{
    static const char *const names[] = {"gelu", "gelu_tanh", "relu"};
    return (unsigned)activation < 3 ? names[activation] : "?";
}

const char *save_name(wherry_save save)
{
    static const char *const names[] = {"default", "paper", "all", "least"};
    return (unsigned)save < 4 ? names[save] : "?";
}

const char *device_type_name(wherry_device_type type)
{
    static const char *const names[] = {"other", "GPU", "integrated GPU", "virtual GPU", "CPU"};
    return (unsigned)type < 5 ? names[type] : "?";
}

char class_letter(wherry_class class_) { return (unsigned)class_ < 3 ? "TSE"[class_] : '?'; }

const char *class_name(wherry_class class_)
{
    static const char *const names[] = {"contraction", "normalization", "elementwise"};
    return (unsigned)class_ < 3 ? names[class_] : "?";
}

const char *cost_kind(const wherry_cost *cost)
{
    if (cost->layer < 0 || strncmp(cost->name, "layer.", 6) != 0) return cost->name;
    const char *dot = strchr(cost->name + 6, '.');
    return dot ? dot + 1 : cost->name;
}

bool same_kind(const wherry_cost *a, const wherry_cost *b)
{
    return (a->layer < 0) == (b->layer < 0) && strcmp(cost_kind(a), cost_kind(b)) == 0 &&
           strcmp(a->kernel, b->kernel) == 0;
}
