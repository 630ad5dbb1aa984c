/* One global choice: the value of every variable with which a sum of costs is least, where each cost depends on a few
 * of the variables. Pure arithmetic: knows neither tensors nor devices.
 *
 * In a plan the variables are the orders of tensors and the costs are times of operators: an operator's depends on the
 * orders of the tensors that it touches. What must be equal (a weight and its gradient, what one layer makes and the
 * next one reads) is one variable. */
#ifndef WHERRY_TUNE_SELECTION_H
#define WHERRY_TUNE_SELECTION_H

#include "base/host.h"

enum { SELECTION_VARIABLES = 12, SELECTION_VALUES = 16 };

struct selection_cost {
    int n, of[SELECTION_VARIABLES]; /* the variables that it depends on */
    const double *values;           /* [product of their values], the last variable's fastest. INFINITY: not possible */
};

struct selection {
    int n_variables, values[SELECTION_VARIABLES]; /* each variable takes 0 to values - 1 */
    const struct selection_cost *costs;
    int n_costs;
};

struct selected {
    int of[SELECTION_VARIABLES];
    double cost;     /* INFINITY: nothing is possible */
    uint64_t states; /* nodes of the graph */
};

/* The index in `values` of what these variables' values say. */
size_t selection_at(const struct selection *s, const struct selection_cost *cost, const int values[]);
double selection_sum(const struct selection *s, const int values[]);

/* The shortest path through a graph whose stages are the costs in their order. A node is a stage with a value of every
 * variable that costs on both of its sides depend on; an edge sets those that the next cost is the first to depend on,
 * and is as long as that cost. So residual edges, several inputs and equal tensors are all exact: a variable stays in
 * the nodes from its first cost to its last. The order of the costs changes the number of nodes, never the result.
 * Fails where a stage would have more than 2^22 nodes. */
bool selection_solve(const struct host *host, const struct selection *s, struct selected *out, struct error *e);

#endif
