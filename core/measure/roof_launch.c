/* What it costs to launch: the fit T = a + V/b, the gap between dependent kernels, the host's share. */
#include <math.h>
#include <string.h>

#include "base/platform.h"
#include "measure/roof.h"

/* Weights fall with the relative error's distance from the usual one (Cauchy's function), so that a size at which a
 * cache ends bends nothing. */
void launch_fit(const double *bytes, const double *seconds, size_t n, double *a, double *b)
{
    double slope = 0, start = 0, spread = 1;
    for (int round = 0; round < 30; round++) {
        double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0, errors = 0;
        for (size_t i = 0; i < n; i++) {
            double error = round ? (start + slope * bytes[i] - seconds[i]) / seconds[i] : 0;
            double far = error / (2.385 * spread), weight = 1 / (seconds[i] * seconds[i]) / (1 + far * far);
            w += weight;
            wx += weight * bytes[i];
            wy += weight * seconds[i];
            wxx += weight * bytes[i] * bytes[i];
            wxy += weight * bytes[i] * seconds[i];
        }
        double det = w * wxx - wx * wx;
        slope = det > 0 ? (w * wxy - wx * wy) / det : 0;
        start = (wy - slope * wx) / w;
        if (start < 0) start = 0, slope = wxy / wxx; /* nothing is launched in less than no time */
        for (size_t i = 0; i < n; i++) errors += fabs(start + slope * bytes[i] - seconds[i]) / seconds[i];
        spread = fmax(errors / (double)n, 0.01);
    }
    *a = start;
    *b = slope > 0 ? 1 / slope : NAN;
}

/* ---- chains of tiny kernels ---- */

enum { SHORT = 8, LONG = 72, LONG_GPU = 520 }; /* a GPU's gaps are shorter than the host's waiting varies by */

struct chain {
    struct step *steps;
    struct grid *grids;
    struct schedule schedule;
    struct program *program;
};

static bool chain_make(struct bench *b, const struct work *w, int n, struct chain *c, struct error *e)
{
    struct program_info info;
    if (!(c->steps = host_alloc(b->host, (size_t)n, sizeof *c->steps, e)) ||
        !(c->grids = host_alloc(b->host, (size_t)n, sizeof *c->grids, e)))
        return false;
    for (int i = 0; i < n; i++) {
        c->steps[i] = w->steps[0];
        c->grids[i] = groups_grid(w->groups);
        /* Each reads what the one before it wrote. */
        for (int k = 1; k < c->steps[i].n_bindings; k++) {
            struct binding *to = &c->steps[i].bindings[k];
            to->buffer = b->buffers[to->written == (i % 2 == 0) ? 2 : 1];
        }
    }
    c->schedule = (struct schedule){.steps = c->steps, .n_steps = n};
    return (c->program = b->backend->program_create(b->handle, &c->schedule, NULL, NULL, &info, e)) != NULL;
}

static void chain_destroy(struct bench *b, struct chain *c)
{
    b->backend->program_destroy(b->handle, c->program);
    host_free(b->host, c->steps);
    host_free(b->host, c->grids);
}

static bool chain_run(struct bench *b, struct chain *c, double *seconds, struct error *e)
{
    const struct run run = {.grids = c->grids};
    uint64_t start = clock_ns();
    TRY(b->backend->program_run(b->handle, c->program, &run, e));
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return true;
}

/* The first half of the runs warms. Single kernels are handed over among themselves: after a long chain the host would
 * be woken later. */
static bool gaps_measure(struct bench *b, struct chain *one, struct chain *few, struct chain *many, double *gaps,
                         double *submits, uint32_t n, struct error *e)
{
    double less, more;
    int steps = many->schedule.n_steps;
    for (uint32_t i = 0; i < 2 * n; i++) TRY(chain_run(b, one, &submits[i % n], e));
    for (uint32_t i = 0; i < 2 * n; i++) {
        TRY(chain_run(b, few, &less, e));
        TRY(chain_run(b, many, &more, e));
        gaps[i % n] = (more - less) / (steps - SHORT);
        if (gaps[i % n] <= 0) gaps[i % n] = more / steps; /* the host was kept from looking */
    }
    return true;
}

bool launch_gaps(struct bench *b, double *gaps, double *submits, uint32_t n, struct error *e)
{
    struct chain one = {0}, few = {0}, many = {0};
    const struct work *w = NULL;
    for (size_t i = 0; i < b->n_works && !w; i++)
        if (!strcmp(b->works[i].ceiling.id, "launch")) w = &b->works[i];
    bool ok = w && chain_make(b, w, 1, &one, e) && chain_make(b, w, SHORT, &few, e) &&
              chain_make(b, w, b->limits->cpu ? LONG : LONG_GPU, &many, e) &&
              gaps_measure(b, &one, &few, &many, gaps, submits, n, e);
    chain_destroy(b, &one);
    chain_destroy(b, &few);
    chain_destroy(b, &many);
    return ok;
}
