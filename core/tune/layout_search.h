/* Choosing orders for the tensors of a plan as a whole. An assignment is an order for each tensor that has a choice;
 * what a session of it runs is made of units, groups that do the same work; groups that share operators in some
 * assignment are one operator here, whose forms are the units that it then is. layout_search_space.c finds them without
 * running anything, layout_search_measure.c times the units, layout_search.c chooses. */
#ifndef WHERRY_TUNE_LAYOUT_SEARCH_H
#define WHERRY_TUNE_LAYOUT_SEARCH_H

#include "tune/selection.h"
#include "tune/tune.h"

enum { LAYOUT_SEARCH_ROUNDS = 61, LAYOUT_SEARCH_UNITS = 16, LAYOUT_SEARCH_OPERATORS = 96, LAYOUT_SEARCH_FORMS = 64 };

/* Times of a unit in the step; of one group, whatever the number of layers. */
struct unit_time {
    bool known;
    double reference; /* what the other run took that this one took turns with */
    double seconds, low, high;
};

struct unit {
    uint64_t key;                  /* of its works and of the table's kernels for them */
    char group[64];                /* name of its row of the plan */
    uint64_t work;                 /* tuning_hash of its first call's */
    int where;                     /* the assignment that it is measured in */
    struct unit_time usual, tuned; /* with the table's sizes, and with those that were tuned */
    char kernels[2][128];          /* usual, tuned */
};

/* Units of an operator in one assignment, ascending, and how many groups are of each. */
struct form {
    int n;
    struct {
        int unit, count;
    } of[LAYOUT_SEARCH_UNITS];
};

struct operator_forms {
    char name[96];
    wherry_class class_;
    bool backward;
    int root;   /* of its roles */
    bool usual; /* the model's orders have it */
    struct form forms[LAYOUT_SEARCH_FORMS];
    int n_forms;
    int tensors[SELECTION_VARIABLES], n_tensors; /* that its form depends on */
    int *at; /* [orders of these tensors, the last one's fastest]: a form, -1: none */
    size_t points;
};

struct assignment {
    int values[SELECTION_VARIABLES];
    char layouts[ORDERS_TEXT]; /* as orders_text has them */
    short form[LAYOUT_SEARCH_OPERATORS];
    bool cover; /* measured: it has a unit that no other measured one has */
};

struct space {
    struct wherry_context *context;
    struct wherry_device *device;
    const struct wherry_model *model;
    wherry_session_desc desc; /* layouts and tuning are set per session */
    char kind[LAYOUTS_TEXT];

    wherry_layout_tensor tensors[SELECTION_VARIABLES];
    int n_tensors;
    uint64_t combinations;
    struct assignment *assignments; /* that a session can have; the first is the model's orders */
    size_t n_assignments;
    struct unit *units;
    int n_units;
    struct operator_forms *operators; /* in the order of the step */
    int n_operators;
};

/* Tries every combination of orders. Nothing is run but the rungs' own checks. */
bool space_create(struct space *s, struct error *e);
void space_destroy(struct space *s); /* accepts a zeroed one */
/* A session of it that is only planned. `tuned`: with the sizes that were tuned, else with the table's. */
bool space_session(const struct space *s, const char *layouts, bool tuned, bool keep, struct wherry_session **out,
                   struct error *e);
/* The unit that a group of a session with the table's sizes is, -1: of none that is known. */
int space_unit(const struct space *s, struct wherry_session *session, int group, struct error *e);
/* Of the tensors with this name, in all layers, at the session's limits; 0: there are none. */
double space_elements(const struct wherry_session *session, const char *name);
/* What a group of a session runs: kernels and sizes. */
void space_kernels(const struct wherry_session *session, int group, char text[128]);
/* Seconds of an operator in this form; INFINITY: it has a unit of a session that was wrong, or failed. `usual`: with
 * the table's sizes, else with those that are faster. */
double form_seconds(const struct space *s, const struct form *form, bool usual);

/* Median and interval, for clocks that were others. */
void unit_time_scale(struct unit_time *time, double factor);

/* Times every unit that some assignment needs. */
struct layout_search_counts {
    uint64_t measured, known, wrong;
};
bool layout_search_measure(struct space *s, struct tune *t, struct layout_search_counts *counts, struct error *e);
/* At the end: sums of the kernels' times, and the host's clock, of sessions that take turns. */
struct candidate {
    const char *layouts;
    bool tuned;
    wherry_time kernels, host;
    double rounds[LAYOUT_SEARCH_ROUNDS]; /* the host's, one by one: those of one round stand side by side */
};
bool layout_search_compare(struct space *s, struct tune *t, struct candidate *of, int n, struct error *e);

#endif
