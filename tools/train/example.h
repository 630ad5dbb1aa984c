/* One line of training data: texts, and what is to be said of them. */
#ifndef WHERRY_TOOLS_TRAIN_EXAMPLE_H
#define WHERRY_TOOLS_TRAIN_EXAMPLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define TASK_CHOICES "contrastive|scored|classify|regress|tokens|mlm"
enum train_task {
    TASK_CONTRASTIVE = 1, /* two texts or more that belong together, further ones that don't */
    TASK_SCORED,          /* two texts, and how near they are */
    TASK_CLASSIFY,        /* a text or a pair, and its class, or its classes */
    TASK_REGRESS,         /* a text or a pair, and a number */
    TASK_TOKENS,          /* words, and the class of each */
    TASK_MLM              /* a text, or a pair and whether its second comes after its first */
};

/* wherry_batch.next */
enum { NEXT_FOLLOWS, NEXT_ELSEWHERE };
enum { COLUMNS_MAX = 16, COLUMN_NAME = 64, IGNORED = -100 };

/* What lines look like. */
struct example_form {
    enum train_task task;
    bool jsonl;   /* else columns with tabs between them, the label last */
    bool several; /* classify: each label for itself, any number of them */
    bool next;    /* mlm: pairs, in plain lines made of them (pairs.h) */
    uint32_t labels;
    const char *(*label_name)(uint32_t label, const void *user); /* NULL past the last */
    const void *user;
    /* Columns with texts, in their order; those of the first line, where none were named. */
    uint32_t columns;
    char names[COLUMNS_MAX][COLUMN_NAME];
};

struct example_text {
    const char *text;
    size_t bytes;
};

/* Zero before the first line; what it points to is valid until the next one. */
struct example {
    json_t *object;
    struct example_text texts[COLUMNS_MAX]; /* [columns]; TASK_TOKENS: the words with a space between them */
    uint32_t columns;
    int32_t label; /* of pairs that may come after each other: NEXT_* */
    float *values; /* [n_values]: score; of several labels 0 or 1 each */
    size_t n_values;
    /* TASK_TOKENS: where each word ends in texts[0], and its class. */
    size_t *word_ends;
    int32_t *word_labels;
    size_t words;
    char *joined;
    char problem[JSON_WHY + 128]; /* what is wrong, for people, where the line was refused */
};

/* Names of the columns, with commas between them; false, and complains: too many, or a name too long. */
bool example_columns(struct example_form *form, const char *names);
/* Reads a line, which is changed. The first one tells the form's columns where none were named. False: `problem` says
 * why. */
bool example_read(struct example *example, struct example_form *form, char *line, size_t bytes);
void example_clear(struct example *example);

#endif
